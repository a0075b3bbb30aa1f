"""How long a call waits, and for what: for another caller to finish, or for a person to decide."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from indelible import IndelibleError
from indelible.compat.agent_ledger.types import ConcurrencyOptions, StaleOptions
from indelible.errors import StillRunning

_ROUND = 30.0
"""Is how long one round waits at most; between rounds, a hook that failed is called again."""
_SHORTEST_LEASE = timedelta(seconds=1)
"""Is how long a worker may be silent at least: a busy machine must not take the living for dead."""
_FIRST_ROUNDS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)


class Patience:
    """Counts the time one call waits, each kind of waiting by itself and from when it began.

    The first round waits for nothing: what is to be waited for has to be known before anybody can be told of it.
    """

    def __init__(self, options: ConcurrencyOptions) -> None:
        self._limits: dict[bool, float | None] = {True: options.effect_timeout_s, False: options.approval_timeout_s}
        self._since: dict[bool, float] = {}
        self._rounds = 0
        self._now_for: bool | None = None

    def next_wait(self) -> timedelta:
        """Gives how long the next round may wait; while it does, the ledger wakes it when something changes."""
        round_s = _FIRST_ROUNDS[self._rounds] if self._rounds < len(_FIRST_ROUNDS) else _ROUND
        self._rounds += 1
        if self._now_for is None:
            return timedelta(0)
        limit = self._limits[self._now_for]
        left = round_s if limit is None else max(self._since[self._now_for] + limit - time.monotonic(), 0.001)
        return timedelta(seconds=min(round_s, left))

    def is_over(self, waiting: IndelibleError) -> bool:
        """Has this been waited for long enough?"""
        self._now_for = isinstance(waiting, StillRunning)
        now, limit = time.monotonic(), self._limits[self._now_for]
        since = self._since.setdefault(self._now_for, now)
        return limit is not None and now - since >= limit

    def limit_of(self, waiting: IndelibleError) -> float | None:
        """Gives how long such a thing is waited for."""
        return self._limits[isinstance(waiting, StillRunning)]

    @staticmethod
    def lease_words(stale: StaleOptions | None) -> dict[str, Any]:
        """Gives what our ledger makes of a time after which calls may be taken over from workers that died."""
        if stale is None or stale.after_ms == 0:
            return {}
        return {"on_crash": "retry", "lease": max(timedelta(milliseconds=stale.after_ms), _SHORTEST_LEASE)}
