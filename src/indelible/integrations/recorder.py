"""Takes what a framework tells, and puts it on the record without losing any of it, at once or a moment later.

`strict`: what was told is durable when `tell` returns, in the ledger or, while that is away, in the spool. `fast`: it
is taken in a microsecond, and a thread writes it to the spool in groups and delivers it. Everything told has a number,
and what is on the record says whose and which: a number that is missing can be seen, and a gap is an event of its own.
"""

from __future__ import annotations

import atexit
import itertools
import json
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from indelible.integrations.delivery import GROUP, Delivery, Entry, next_group
from indelible.integrations.spool import Spool, SpoolFull, abandoned

Mode = Literal["strict", "fast"]
OnFailure = Literal["warn", "raise", "silent"]
Content = Callable[[], Mapping[str, Any]]
_LOG = logging.getLogger("indelible.integrations")
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
# What comes in within a moment goes to the disk together: one sync for many. From there it is not lost any more, so it
# can wait for more company on its way to the ledger, where two hundred at a time cost a third of ten.
_GATHERING, _DELIVERING = 0.005, 0.2
UNSIGNED_FOR = 30.0
"""Is after how many seconds it is told that no signed head covers what was recorded."""
_LONGEST_LAST_LOOK = 1.0  # a journal that is sealed is sealed four times a second


class Told(NamedTuple):
    """Is what a framework told, before anything is made of it: `content()` gives the payload."""

    number: int
    session: str
    kind: str
    content: Content


class Recorder:
    """Takes what happened and delivers it in order, each once: what the record has is not delivered again."""

    def __init__(
        self,
        delivery: Delivery,
        *,
        folder: Path,
        mode: Mode = "fast",
        on_failure: OnFailure = "warn",
        queue_size: int = 10_000,
        spool_bytes: int = 64 * 1024 * 1024,
        drain: timedelta = timedelta(seconds=5),
    ) -> None:
        self._delivery = delivery
        self._folder = folder
        self._mode = mode
        self._on_failure = on_failure
        self._queue_size = queue_size
        self._spool_bytes = spool_bytes
        self._drain_s = drain.total_seconds()
        self.recorded_total = 0
        self.dropped_total = 0
        self.overflow_total = 0
        self._queue: deque[Told] = deque()
        self._numbers = itertools.count(1)
        self._begin()
        os.register_at_fork(after_in_child=_weakly(self._after_fork))
        atexit.register(_weakly(self.stop))

    def _begin(self) -> None:
        self._waiting: deque[Entry] = deque()
        self._lock = threading.RLock()  # around what waits and the spool, never around the ledger
        self._delivering = threading.RLock()
        self._wake = threading.Event()
        self._is_awake = False
        self._is_stopped = False
        self._is_unsure = False
        self._problem: Exception | None = None
        self._pause, self._quiet_until = _SHORTEST_PAUSE, 0.0
        self._unsigned_since: float | None = None
        self._has_told_unsigned = False
        self._gap: list[int] = []
        self._spool = Spool(self._folder, self._spool_bytes)
        self._has_looked_back = False
        self._has_more = threading.Event()
        self._is_ending = threading.Event()
        # Two, so that what is told reaches the disk also while the ledger does not answer.
        works = (("indelible-spooling", self._write_on), ("indelible-delivering", self._deliver_on))
        self._threads = [threading.Thread(target=work, name=name, daemon=True) for name, work in works]
        for thread in self._threads:
            thread.start()

    def _begin_again(self) -> None:
        with self._delivering:
            if self._is_stopped:
                self._begin()

    def _after_fork(self) -> None:
        """A forked process has no thread of ours, and what its parent took is its parent's to deliver."""
        if self._is_stopped:
            return
        self._spool.abandon()
        self._queue = deque()
        self._numbers = itertools.count(1)
        self._begin()

    @property
    def pending(self) -> int:
        """Counts what was told and is not in the ledger yet."""
        return len(self._queue) + len(self._waiting)

    @property
    def signed_total(self) -> int:
        """Count what a signed head covers. It asks the ledger; if that is away, it is the last answer."""
        signed = self._delivery.count_signed()
        if signed == self.recorded_total:
            self._unsigned_since = None
        return signed

    # Taking

    def tell(self, session: str, kind: str, content: Content) -> None:
        """Takes what happened; in `strict` it is durable when this returns."""
        if self._mode == "strict":
            self._tell_strictly(session, kind, content)
            return
        number = next(self._numbers)
        try:
            self._spool.note_taken(number)
        except (TypeError, ValueError):  # it was stopped, and is told something after all
            self._begin_again()
            self.tell(session, kind, content)
            return
        self._queue.append(Told(number, session, kind, content))
        if not self._is_awake:
            self._is_awake = True
            self._wake.set()
        if len(self._queue) > self._queue_size:
            self.overflow_total += 1
            self._write_group()  # whoever tells faster than it can be written writes, so that nothing is dropped
        if self._problem is not None:
            self._raise_problem()

    def _tell_strictly(self, session: str, kind: str, content: Content) -> None:
        if self._is_stopped:
            self._begin_again()
        with self._lock:
            number = next(self._numbers)
            self._spool.note_taken(number)
            entry = self._entry(Told(number, session, kind, content))
            self._waiting.append(entry)
            is_away = time.monotonic() < self._quiet_until
        if is_away or not self._deliver():
            with self._lock:
                if (is_away or entry in self._waiting) and not self._keep([entry]):
                    self._waiting.remove(entry)
            self._has_more.set()
        if self._problem is not None:
            self._raise_problem()

    def _raise_problem(self) -> None:
        problem, self._problem = self._problem, None
        if problem is not None and self._on_failure == "raise":
            raise problem

    # Writing

    def _write_on(self) -> None:
        while not self._is_stopped:
            while self._queue:
                self._write_group()
            self._is_awake = False
            if not self._queue:
                self._wake.wait()
                self._wake.clear()
                time.sleep(_GATHERING)

    def _write_group(self) -> None:
        """Puts what was taken on the disk, some at a time: from then on it outlives the process."""
        with self._lock:
            taken = [self._queue.popleft() for _ in range(min(GROUP, len(self._queue)))]
            entries = [self._entry(told) for told in taken]
            if self._keep(entries):
                self._waiting.extend(entries)
        self._has_more.set()

    def _drain(self) -> None:
        """Writes and delivers everything that was told before, as far as that is possible now."""
        self._look_back()
        while self._queue:
            self._write_group()
        self._deliver()

    def _entry(self, told: Told) -> Entry:
        number, session, kind, content = told
        known = {"session": session, "source": {"id": self._spool.id, "number": number}}
        try:
            whole = {**known, **content()}
            line = json.dumps({"kind": kind, **whole})
        except Exception as error:  # a value whose own code fails, or that is no JSON, is told as that
            whole = {**known, "unreadable": f"{type(error).__qualname__}: {error}"}
            line = json.dumps({"kind": kind, **whole})
        return Entry(self._spool.id, number, session, kind, whole, line.encode())

    def _keep(self, entries: list[Entry]) -> bool:
        """Puts entries on the disk; without room for them, tells how many are missing as soon as there is."""
        if not entries:
            return True
        try:
            self._spool.append([entry.line for entry in entries])
        except SpoolFull as full:
            self.dropped_total += len(entries)
            self._gap += [entry.number for entry in entries]
            self._note(full)
            return False
        self._spool.note_written(entries[-1].number)
        return True

    # Delivering

    def _deliver_on(self) -> None:
        self._look_back()
        while not self._is_stopped:
            is_done = self._deliver() and self._has_looked_back
            pause = self._until_unsigned() if is_done else max(0.01, self._quiet_until - time.monotonic())
            self._has_more.wait(pause)
            self._has_more.clear()
            if self._mode == "fast":
                self._is_ending.wait(_DELIVERING)
            self._look_back()

    def _deliver(self) -> bool:
        """Puts what waits on the record; False when the ledger is away, and it is tried again later."""
        with self._delivering:
            if time.monotonic() < self._quiet_until:
                return False
            try:
                if self._is_unsure:
                    self._drop_delivered()
                while self._waiting:
                    self._deliver_group()
                self._tell_gap()
            except Exception as problem:  # whatever it is: what was not delivered stays, and the thread goes on
                self._is_unsure = True  # the last group may be on the record, or not
                self._put_off(problem)
                return False
            self._pause, self._is_unsure = _SHORTEST_PAUSE, False
        with self._lock:
            if not self._waiting:
                self._spool.clear()
        return True

    def _until_unsigned(self) -> float | None:
        """Return how long to wait before it is told that nothing seals; None if all is signed, or it was told."""
        if self._unsigned_since is None or self._has_told_unsigned:
            return None
        left = self._unsigned_since + UNSIGNED_FOR - time.monotonic()
        if left > 0:
            return left
        self._tell_unsigned()
        return None

    def _tell_unsigned(self) -> None:
        """Say, once, that no signed head covers what was recorded, if that is so."""
        unsigned = self.recorded_total - self.signed_total
        if unsigned and not self._has_told_unsigned and self._on_failure != "silent":
            self._has_told_unsigned = True
            _LOG.warning(
                "%d events are recorded and no signed head covers them: no process seals this journal. Start one on "
                "the machine that has the key: indelible worker; or open the ledger with seal=True",
                unsigned,
            )

    def _put_off(self, problem: Exception) -> None:
        self._quiet_until = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._note(problem)

    def _deliver_group(self) -> None:
        with self._lock:
            group = next_group(self._waiting)
        self._delivery.record(group[0].session, group)
        with self._lock:
            for entry in group:
                if self._waiting and self._waiting[0] is entry:  # one that there was no room for may be gone
                    self._waiting.popleft()
            self._spool.note_written(group[-1].number)
        self.recorded_total += len(group)
        self._unsigned_since = self._unsigned_since or time.monotonic()

    def _drop_delivered(self) -> None:
        """Forgets what the record has already: the last answer of the ledger did not come."""
        with self._lock:
            waiting = list(self._waiting)
        known = self._delivery.on_record(waiting)
        with self._lock:
            for entry in self._waiting:
                if entry.place in known:
                    self._delivery.note_recorded(*known[entry.place])
            left = deque(entry for entry in self._waiting if entry.place not in known)
            self.recorded_total += len(self._waiting) - len(left)
            self._waiting = left

    def _tell_gap(self) -> None:
        if not self._gap:
            return
        gap = list(self._gap)
        why = "there was no room to keep them"
        self._delivery.tell_gap(self._spool.id, min(gap), max(gap), len(gap), why)
        del self._gap[: len(gap)]

    # What others left

    def _look_back(self) -> None:
        """Delivers what processes before this one could not, once, and says what they took and never wrote."""
        with self._delivering:
            if self._has_looked_back or time.monotonic() < self._quiet_until:
                return
            try:
                for left in abandoned(self._folder):
                    delivered, missing = self._delivery.adopt(left)
                    self.recorded_total += delivered
                    self.dropped_total += missing
                    left.remove()
            except Exception as problem:
                self._put_off(problem)
                return
            self._has_looked_back = True

    # Ending

    def flush(self, timeout: float | None = None) -> bool:
        """Delivers everything that was told so far; says whether all of it is in the ledger now."""
        until = time.monotonic() + (self._drain_s if timeout is None else timeout)
        while True:
            self._drain()
            with self._lock:
                if not self._queue and not self._waiting:
                    return True
            if time.monotonic() >= until:
                return False
            time.sleep(min(0.05, max(0.0, self._quiet_until - time.monotonic())))

    def stop(self) -> None:
        """Delivers what can be delivered in time; the rest stays in the spool, for whoever comes next."""
        if self._is_stopped:
            return
        is_delivered = self.flush()
        if is_delivered:
            self._look_for_head()
        self._is_stopped = True
        self._is_ending.set()
        self._wake.set()
        self._has_more.set()
        for thread in self._threads:
            thread.join(self._drain_s)
        if not is_delivered:
            _LOG.warning("%d events wait in %s for the ledger to come back", len(self._waiting), self._folder)
        with self._lock:
            self._spool.close(is_delivered=not self._waiting)
        if self._queue:  # somebody told something in the very last moment
            self._begin_again()
            self.stop()

    def _look_for_head(self) -> None:
        """Wait a moment for a signed head that covers everything: once the ledger is closed, nothing can be asked."""
        until = time.monotonic() + min(self._drain_s, _LONGEST_LAST_LOOK)
        while self.signed_total < self.recorded_total and time.monotonic() < until:
            time.sleep(0.02)
        self._tell_unsigned()

    def _note(self, problem: Exception) -> None:
        if self._on_failure == "warn":
            _LOG.warning("events wait for the ledger: %s", problem)
        self._problem = problem


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Calls a method as long as its object is there: what is registered for the end of a process keeps none alive."""
    reference = weakref.WeakMethod(method)

    def call() -> None:
        alive = reference()
        if alive is not None:
            alive()

    return call
