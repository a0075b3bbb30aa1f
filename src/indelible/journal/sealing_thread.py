"""Keeps a journal sealed while its ledger is open: at least every quarter of a second while busy, seldom when idle."""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from indelible.errors import IndelibleError, JournalError, StoreError

SEAL_EVERY = timedelta(milliseconds=250)
BEAT_EVERY = timedelta(minutes=10)
# A store that is away for a moment is no news. After this it is.
_PATIENCE = timedelta(seconds=30)
_LONGEST_PAUSE = timedelta(seconds=10)
# A program that ends waits so long for its last seal and no longer: whoever writes next seals the rest.
_AT_EXIT = timedelta(seconds=5)

log = logging.getLogger("indelible.journal")

Told = Callable[[IndelibleError | None], None]
"""Is told, once, that a seal which began later has ended: well, or with this problem."""


class Seals(Protocol):
    """Is what the thread needs of a sealer."""

    def seal(self) -> object: ...
    def heartbeat(self) -> object: ...


class SealingThread:
    """Seals soon after something was written, at once for those who wait, and now and then when nothing happens."""

    def __init__(
        self,
        make: Callable[[], Seals],
        *,
        every: timedelta = SEAL_EVERY,
        beat_every: timedelta = BEAT_EVERY,
    ) -> None:
        self._make = make
        self._every = every.total_seconds()
        self._beat_every = beat_every.total_seconds()
        self.start_afresh()

    def start_afresh(self) -> None:
        """Forgets everything; a forked child has no thread."""
        self._sealer: Seals | None = None
        self._turn = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_dirty = False
        self._dirty_since = 0.0
        self._is_closed = False
        self._waiting: list[Told] = []
        self.problem: IndelibleError | None = None
        self._since = 0.0

    def note_write(self) -> None:
        """Hears that events were written; costs next to nothing when that is known already."""
        if self._is_dirty:
            return
        with self._turn:
            self._dirty_since = time.monotonic()
            self._wake()
            self._is_dirty = True

    def request(self, told: Told) -> None:
        """Asks for a seal now; `told` is called in the sealing thread."""
        with self._turn:
            if not self._is_closed:
                self._waiting.append(told)
                self._is_dirty = True
                self._wake()
                return
        told(None)

    def wait(self, most: timedelta) -> IndelibleError | None:
        """Blocks until everything written so far is under a signed head, or gives the problem."""
        done = threading.Event()
        found: list[IndelibleError | None] = []

        def told(problem: IndelibleError | None) -> None:
            found.append(problem)
            done.set()

        self.request(told)
        if not done.wait(most.total_seconds()):
            return self.problem or StoreError(f"no signed head came within {most.total_seconds():g} s")
        return found[0]

    def close(self, within: timedelta | None = None) -> None:
        """Seals what is left, then ends; goes on without having seen the end after this time."""
        with self._turn:
            self._is_closed = True
            thread = self._thread
            self._turn.notify_all()
        if thread is not None:
            thread.join(None if within is None else within.total_seconds())

    def _wake(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="indelible-sealing", daemon=True)
            thread.start()  # which the system may refuse; then whoever writes next tries again
            self._thread = thread
            _at_work.add(self)
        self._turn.notify_all()

    def _run(self) -> None:
        sealed_at = time.monotonic() - self._every
        pause = self._every
        while True:
            with self._turn:
                is_due = self._wait_for_turn(sealed_at, pause)
                waiting, self._waiting = self._waiting, []
                is_last = self._is_closed
                is_dirty, self._is_dirty = self._is_dirty, False
            if is_dirty or is_due:
                problem = self._seal(beat=not is_dirty)
                sealed_at = time.monotonic()
                pause = self._every if problem is None else min(pause * 2, _LONGEST_PAUSE.total_seconds())
                if problem is not None:
                    self._is_dirty = True
                for told in waiting:
                    told(problem)
            if is_last:
                return

    def _wait_for_turn(self, sealed_at: float, pause: float) -> bool:
        """Wait until there is something to do; say whether a heartbeat is due.

        A first write after a pause is not sealed at once: at that moment a handler is entered, and a process that is
        stopped there (SIGSTOP) must not hold the store's lock because of us.
        """
        while not self._is_closed and not self._waiting:
            since = time.monotonic() - max(sealed_at, self._dirty_since if self._is_dirty else 0.0)
            left = (pause if self._is_dirty else self._beat_every) - since
            if left <= 0:
                return not self._is_dirty
            self._turn.wait(left)
        return False

    def _seal(self, *, beat: bool) -> IndelibleError | None:
        try:
            if self._sealer is None:
                self._sealer = self._make()
            if beat:
                self._sealer.heartbeat()
            else:
                self._sealer.seal()
        except Exception as fault:  # ours as well: the thread has to live on, or nobody seals
            problem = fault if isinstance(fault, IndelibleError) else _unexpected(fault)
            self._alarm(problem)
            return problem
        if self.problem is not None:
            log.warning("the journal is sealed again")
        self.problem = None
        return None

    def _alarm(self, problem: IndelibleError) -> None:
        """Says once what keeps the journal from being sealed, and again when that changes."""
        now = time.monotonic()
        if self.problem is None or str(problem) != str(self.problem):
            if self.problem is None:
                self._since = now
            if not isinstance(problem, StoreError):
                log.error("the journal cannot be sealed: %s", problem)
        if isinstance(problem, StoreError) and 0 < self._since < now - _PATIENCE.total_seconds():
            log.error("the journal has not been sealed for %s: %s", _PATIENCE, problem)
            self._since = 0.0
        self.problem = problem


def _unexpected(fault: Exception) -> JournalError:
    return JournalError(f"{type(fault).__name__}, which nothing should raise; see what was changed: indelible verify")


_at_work: weakref.WeakSet[SealingThread] = weakref.WeakSet()


@atexit.register
def _seal_what_is_left() -> None:
    """Seals what programs wrote that end without having closed their ledgers, as short ones do."""
    for thread in list(_at_work):
        thread.close(_AT_EXIT)
