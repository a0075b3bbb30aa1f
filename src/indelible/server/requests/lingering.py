"""Closes connections that linger: whoever takes too long to say what they want must not keep others out.

It looks at all connections once in a while, so that a request pays nothing for it.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

MOST_CONNECTIONS = 1000
HEAD_SECONDS = 10.0
"""Is how long the head of a request may take, and a new connection to send one."""
BODY_SECONDS = 60.0
_DESCRIPTORS = 4096


@dataclass(slots=True)
class _Seen:
    cycle: Any
    is_body: bool
    since: float


class Lingering:
    """Knows since when each connection owes us something."""

    def __init__(
        self,
        *,
        most: int = MOST_CONNECTIONS,
        head_seconds: float = HEAD_SECONDS,
        body_seconds: float = BODY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._longest = {False: head_seconds, True: body_seconds}
        self._clock = clock
        self._seen: dict[Any, _Seen] = {}

    def look(self, connections: Iterable[Any]) -> None:
        """Closes those that owe us the rest of a request for too long; when there are too many, the slowest first."""
        now, owing = self._clock(), self._owing(connections)
        late = [one for one, seen in owing.items() if now - seen.since > self._longest[seen.is_body]]
        by_age = sorted(owing, key=lambda one: owing[one].since)
        spare = max(0, len(self._all) - self._most * 4 // 5)
        for one in {*late, *by_age[:spare]}:
            one.transport.abort()

    def _owing(self, connections: Iterable[Any]) -> dict[Any, _Seen]:
        now, before, self._seen = self._clock(), self._seen, {}
        self._all = list(connections)
        for one in self._all:
            cycle = one.cycle
            is_between = cycle is None or cycle.response_complete
            if not is_between and not cycle.more_body:
                continue  # it is our turn
            seen = before.get(one)
            if seen is None or seen.cycle is not cycle or seen.is_body is is_between:
                seen = _Seen(cycle, not is_between, now)
            self._seen[one] = seen
        return self._seen


def allow_connections() -> None:
    """Lets this process hold as many connections as it may, where the usual limit is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
