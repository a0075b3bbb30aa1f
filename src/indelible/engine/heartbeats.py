"""Keeps leases alive, from one thread, so that whoever works under one need not think of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from indelible.errors import StoreError
from indelible.forks import after_fork

log = logging.getLogger("indelible.engine")

# A lease outlives two lost heartbeats.
BEATS_PER_LEASE = 3


class Leased(Protocol):
    """Is a right for a while: a claim on an effect, or the seat of a run's driver."""

    @property
    def token(self) -> str: ...


Held = TypeVar("Held", bound=Leased)


class Heartbeats(Generic[Held]):
    """Extends the lease of everything that is kept a few times per lease; what is no longer ours is dropped."""

    def __init__(self, beat: Callable[[Held, timedelta], bool]) -> None:
        self._beat = beat
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        self._changed = threading.Condition()
        self._kept: dict[str, tuple[float, Held, timedelta]] = {}
        self._wakes_at = float("inf")
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def keep(self, held: Held, lease: timedelta) -> None:
        """Begins to keep a lease alive."""
        due = time.monotonic() + lease.total_seconds() / BEATS_PER_LEASE
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="indelible-heartbeats", daemon=True)
                thread.start()  # which the system may refuse; then the next one tries again
                self._thread = thread
            self._kept[held.token] = (due, held, lease)
            if due < self._wakes_at:
                self._changed.notify()

    def drop(self, held: Held) -> None:
        """Stops keeping a lease alive."""
        with self._changed:
            self._kept.pop(held.token, None)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._is_closed:
                    return
                self._wakes_at = min((due for due, _, _ in self._kept.values()), default=float("inf"))
                pause = self._wakes_at - time.monotonic()
                if pause > 0:
                    self._changed.wait(None if pause == float("inf") else pause)
                now = time.monotonic()
                due_now = [(held, lease) for due, held, lease in self._kept.values() if due <= now]
            for held, lease in due_now:
                self._beat_once(held, lease)

    def _beat_once(self, held: Held, lease: timedelta) -> None:
        try:
            is_ours = self._beat(held, lease)
        except Exception as problem:
            is_ours = True  # the store is away: try again soon, the lease may outlive that
            if not isinstance(problem, StoreError):  # whatever it is, the other leases must not die of it
                log.exception("a lease could not be renewed")
        with self._changed:
            if held.token not in self._kept:
                return
            if is_ours:
                due = time.monotonic() + lease.total_seconds() / BEATS_PER_LEASE
                self._kept[held.token] = (due, held, lease)
            else:
                del self._kept[held.token]

    def close(self) -> None:
        """Stops the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()
