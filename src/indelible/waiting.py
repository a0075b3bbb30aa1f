"""Waiting without asking all the time: callers sleep until the effect they wait for has moved.

Changes by this process are handed over directly. Changes by others ring the store's alarm; one thread then looks once
for everybody. A slow look at times is the safety net when an alarm gets lost.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from indelible.core.effects import Effect
from indelible.core.identity import Ref
from indelible.core.ports import Alarm, Store
from indelible.errors import StoreError
from indelible.forks import after_fork

LOOK_AT_LEAST_EVERY = timedelta(seconds=1)
# Without an alarm we can only look: often where looking is cheap, seldom where it is a round trip.
LOOK_EVERY_CHEAPLY = timedelta(milliseconds=10)
LOOK_EVERY_REMOTELY = timedelta(milliseconds=100)

Waker = Callable[[Effect], None]


class Waiting:
    """Knows who waits for which effect, and tells them when it has moved or was abandoned."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._wakers: dict[Ref, dict[Waker, Effect]] = {}
        self._unseen: set[Ref] = set()
        self._thread: threading.Thread | None = None
        self._bell: tuple[int, int] | None = None
        self._is_closed = False

    def add(self, effect: Effect, waker: Waker) -> None:
        """Calls `waker` once with the effect's newest state, when that is another than the one given."""
        with self._lock:
            self._wakers.setdefault(effect.ref, {})[waker] = effect
            # It may have moved before we came; somebody has to look once.
            self._unseen.add(effect.ref)
            if self._thread is None:
                self._bell = os.pipe()
                os.set_blocking(self._bell[0], False)
                self._thread = threading.Thread(target=self._watch, name="indelible-waiting", daemon=True)
                self._thread.start()
            self._ring_bell()

    def discard(self, effect: Effect, waker: Waker) -> None:
        """Forgets a caller that no longer waits."""
        with self._lock:
            self._drop(effect.ref, waker)

    def wait(self, effect: Effect, most: timedelta) -> Effect | None:
        """Blocks until the effect has moved, or the time is up."""
        moved: list[Effect] = []
        done = threading.Event()

        def waker(newest: Effect) -> None:
            moved.append(newest)
            done.set()

        try:
            self.add(effect, waker)
            done.wait(most.total_seconds())
        finally:
            self.discard(effect, waker)
        return moved[0] if moved else None

    def publish(self, effects: Iterable[Effect]) -> None:
        """Tells whoever waits for these effects in this process."""
        with self._lock:
            if not self._wakers:
                return
            for effect in effects:
                self._tell(effect)

    def _tell(self, effect: Effect, now: datetime | None = None) -> None:
        for waker, seen in list(self._wakers.get(effect.ref, {}).items()):
            if effect.version != seen.version or (now is not None and effect.is_abandoned(now)):
                self._drop(effect.ref, waker)
                waker(effect)

    def _drop(self, ref: Ref, waker: Waker) -> None:
        wakers = self._wakers.get(ref, {})
        wakers.pop(waker, None)
        if not wakers:
            self._wakers.pop(ref, None)

    def _watch(self) -> None:
        """Looks when something may have changed; runs in its own thread as long as the ledger is open."""
        alarm = self._open_alarm()
        pause = LOOK_AT_LEAST_EVERY
        while not self._is_closed:
            rung = self._sleep(alarm, pause)
            with self._lock:
                refs = self._refs_to_look_at(rung)
                self._unseen.clear()
            pause = self._look(refs, alarm)
        if alarm is not None:
            alarm.close()

    def _open_alarm(self) -> Alarm | None:
        try:
            return self._store.alarm()
        except StoreError:
            return None  # looking at times still finds everything

    def _sleep(self, alarm: Alarm | None, pause: timedelta) -> set[str] | None:
        """Sleeps until something may have happened; gives the keys that changed, None meaning any."""
        assert self._bell is not None
        ears = select.poll()  # not `select`, which cannot hear descriptors above 1023
        ears.register(self._bell[0], select.POLLIN)
        alarm_fd = -1 if alarm is None else alarm.fileno()
        if alarm_fd >= 0:
            ears.register(alarm_fd, select.POLLIN)
        ready = {fd for fd, _ in ears.poll(pause.total_seconds() * 1000 if self._wakers else None)}
        if self._bell[0] in ready:
            os.read(self._bell[0], 65536)
        if alarm is not None and alarm_fd in ready:
            return alarm.drain()
        return set() if ready else None

    def _refs_to_look_at(self, rung: set[str] | None) -> list[Ref]:
        if rung is None:
            return list(self._wakers)
        return [ref for ref in self._wakers if ref in self._unseen or ref.key[:16] in rung]

    def _look(self, refs: Sequence[Ref], alarm: Alarm | None) -> timedelta:
        """Looks at effects, tells those who wait for them, and says how long to sleep at most."""
        pause = LOOK_AT_LEAST_EVERY
        if alarm is None:
            pause = LOOK_EVERY_CHEAPLY if self._store.is_cheap_to_read else LOOK_EVERY_REMOTELY
        if not refs:
            return pause
        try:
            seen = self._store.watch(refs)
        except StoreError:
            return LOOK_AT_LEAST_EVERY  # the store is down: whoever waits does so until its own time is up
        with self._lock:
            for effect in seen.effects:
                if effect is None:
                    continue
                self._tell(effect, seen.now)
                if effect.ref in self._wakers and effect.lease_until is not None:
                    pause = min(pause, effect.lease_until - seen.now + timedelta(milliseconds=1))
        return max(pause, timedelta(milliseconds=1))

    def _ring_bell(self) -> None:
        if self._bell is not None:
            os.write(self._bell[1], b"!")

    def close(self) -> None:
        """Stops the thread."""
        with self._lock:
            self._is_closed = True
            thread, bell = self._thread, self._bell
        if thread is not None and bell is not None:
            self._ring_bell()
            thread.join()
            self._bell = None
            os.close(bell[0])
            os.close(bell[1])
