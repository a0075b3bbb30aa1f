"""A clock that tests move by hand."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class FakeClock:
    """Tells the same time until it is told to go on; pass it as `clock=` to a ledger or a store."""

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now or datetime(2030, 1, 2, 12, tzinfo=UTC)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Gives the moment it stands at."""
        return self._now

    def advance(self, by: timedelta) -> None:
        """Moves it forward."""
        with self._lock:
            self._now += by
