"""Waiting without asking all the time: callers sleep until the effect they wait for has moved.

Changes by this process are handed over directly. Changes by others ring the store's alarm; one thread then looks once
for everybody. A look at times is the safety net when an alarm gets lost, the slower the more there are to look at. When
a lease or the time of a question ends, only that effect is looked at.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.ports import Alarm, Seen, Store
from indelible.errors import StoreError
from indelible.forks import after_fork

log = logging.getLogger("indelible.engine")

LOOK_AT_LEAST_EVERY = timedelta(seconds=1)
# A look at many costs 2 to 35 µs each, so a thousand who wait cost a third of a percent of a core at most.
LOOK_LESS_OFTEN_BY = timedelta(milliseconds=10)
LOOK_AT_THE_LATEST_AFTER = timedelta(minutes=1)
# Without an alarm we can only look: often where looking is cheap, seldom where it is a round trip.
LOOK_EVERY_CHEAPLY = timedelta(milliseconds=10)
LOOK_EVERY_REMOTELY = timedelta(milliseconds=100)

Waker = Callable[[Effect], None]


class Waiting:
    """Knows who waits for which effect, and tells them when it has moved, was abandoned, or was not decided in time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._wakers: dict[Ref, dict[Waker, Effect]] = {}
        self._unseen: set[Ref] = set()
        # By the clock of this machine that only goes forward: when a lease or a question ends, and when to look at all.
        self._ends: dict[Ref, float] = {}
        self._next_look = 0.0
        self._thread: threading.Thread | None = None
        self._bell: tuple[int, int] | None = None
        self._is_closed = False

    def add(self, effect: Effect, waker: Waker) -> None:
        """Calls `waker` once with the effect's newest known state, when that has moved on or most likely has."""
        with self._lock:
            if self._is_closed:
                waker(effect)  # who asks again is told that the ledger is closed
                return
            if self._thread is None:
                self._begin_to_watch()
            self._wakers.setdefault(effect.ref, {})[waker] = effect
            # It may have moved before we came; somebody has to look once.
            self._unseen.add(effect.ref)
            self._ring_bell()

    def _begin_to_watch(self) -> None:
        if self._bell is None:
            self._bell = os.pipe()
            os.set_blocking(self._bell[0], False)
        thread = threading.Thread(target=self._watch, name="indelible-waiting", daemon=True)
        thread.start()  # which the system may refuse; then the next one who waits tries again
        self._thread = thread

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
            if effect.version != seen.version or (now is not None and effect.is_overdue(now)):
                self._drop(effect.ref, waker)
                waker(effect)

    def _drop(self, ref: Ref, waker: Waker) -> None:
        wakers = self._wakers.get(ref, {})
        wakers.pop(waker, None)
        if not wakers:
            self._wakers.pop(ref, None)
            self._ends.pop(ref, None)

    def _watch(self) -> None:
        """Looks when something may have changed; runs in its own thread as long as the ledger is open."""
        alarm = self._open_alarm()
        while not self._is_closed:
            rung = self._sleep(alarm)
            with self._lock:
                refs = self._refs_to_look_at(rung, alarm)
                # What rang has most likely moved, and then nobody waits for its next move yet: a look is enough. To
                # watch it would be a durable write on some stores, which whoever is to be woken would wait for.
                rang = [ref for ref in refs if rung and ref.key[:16] in rung and ref not in self._unseen]
                self._unseen.clear()
                rang = [ref for ref in rang if not self._send_asker(ref)]
            self._look(self._store.look, rang)
            with self._lock:
                refs = [ref for ref in refs if ref in self._wakers]
            self._look(self._store.watch, refs)
        if alarm is not None:
            alarm.close()

    def _send_asker(self, ref: Ref) -> bool:
        """Wakes a lone caller whose question was most likely answered: it looks itself as it claims, so we need not."""
        wakers = self._wakers.get(ref, {})
        if len(wakers) != 1:
            return False
        ((waker, seen),) = wakers.items()
        if seen.status != "requires_approval":
            return False
        self._drop(ref, waker)
        waker(seen)
        return True

    def _open_alarm(self) -> Alarm | None:
        try:
            return self._store.alarm()
        except StoreError:
            return None  # looking at times still finds everything

    def _sleep(self, alarm: Alarm | None) -> set[str] | None:
        """Sleeps until something may have happened; gives the keys that changed, None meaning any."""
        assert self._bell is not None
        ears = select.poll()  # not `select`, which cannot hear descriptors above 1023
        ears.register(self._bell[0], select.POLLIN)
        alarm_fd = -1 if alarm is None else alarm.fileno()
        if alarm_fd >= 0:
            ears.register(alarm_fd, select.POLLIN)
        ready = {fd for fd, _ in ears.poll(self._milliseconds_to_sleep())}
        if self._bell[0] in ready:
            os.read(self._bell[0], 65536)
        if alarm is not None and alarm_fd in ready:
            return alarm.drain()
        return set()

    def _milliseconds_to_sleep(self) -> float | None:
        """Gives how long nothing is due; None, for ever, when nobody waits."""
        with self._lock:
            if not self._wakers:
                return None
            due = min([self._next_look, *self._ends.values()])
        # A millisecond at least: the clocks of the store and of this machine need not agree on when it is over.
        return max(1.0, (due - time.monotonic()) * 1000)

    def _refs_to_look_at(self, rung: set[str] | None, alarm: Alarm | None) -> list[Ref]:
        """Chooses the effects that may have changed: all when nobody can say which, or when it is time for that."""
        now = time.monotonic()
        if rung is None or now >= self._next_look:
            self._next_look = now + self._pause(alarm).total_seconds()
            return list(self._wakers)
        chosen = self._unseen.union(ref for ref, ends in self._ends.items() if ends <= now)
        if rung:
            chosen.update(ref for ref in self._wakers if ref.key[:16] in rung)
        return [ref for ref in chosen if ref in self._wakers]

    def _pause(self, alarm: Alarm | None) -> timedelta:
        """Gives how long to wait between two looks at everything."""
        if alarm is not None:
            pause = LOOK_AT_LEAST_EVERY
        else:
            pause = LOOK_EVERY_CHEAPLY if self._store.is_cheap_to_read else LOOK_EVERY_REMOTELY
        return max(pause, min(LOOK_LESS_OFTEN_BY * len(self._wakers), LOOK_AT_THE_LATEST_AFTER))

    def _look(self, look: Callable[[Sequence[Ref]], Seen], refs: Sequence[Ref]) -> None:
        """Looks at effects, tells those who wait for them, and notes when to look at them again."""
        if not refs:
            return
        try:
            seen = look(refs)
        except Exception as problem:  # it is down: whoever waits does so until its own time is up
            if not isinstance(problem, StoreError):  # whatever it is, those who come later must be woken all the same
                log.exception("effects that somebody waits for could not be looked at")
            self._next_look = time.monotonic() + LOOK_AT_LEAST_EVERY.total_seconds()
            return
        now = time.monotonic()
        with self._lock:
            for effect in seen.effects:
                if effect is None:
                    continue
                self._tell(effect, seen.now)
                if effect.ref not in self._wakers:
                    continue
                if effect.lease_until is None:
                    self._ends.pop(effect.ref, None)
                else:
                    self._ends[effect.ref] = now + (effect.lease_until - seen.now).total_seconds()

    def _ring_bell(self) -> None:
        if self._bell is not None:
            os.write(self._bell[1], b"!")

    def close(self) -> None:
        """Stops the thread, and wakes whoever still waits: nobody would tell them any more."""
        with self._lock:
            self._is_closed = True
            thread, bell = self._thread, self._bell
        if thread is not None:
            self._ring_bell()
            thread.join()
        with self._lock:
            left, self._wakers = self._wakers, {}
            for waker, seen in [each for wakers in left.values() for each in wakers.items()]:
                waker(seen)
        if bell is not None:
            self._bell = None
            os.close(bell[0])
            os.close(bell[1])
