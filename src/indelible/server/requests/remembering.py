"""What the server looks up for every request: each thing once a second, whoever asks for it how often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from indelible.engine.running import in_own_thread

REMEMBERED = 1.0
"""Is how many seconds something is taken for what it was: for so long a revoked token may still be let in."""
MOST_REMEMBERED = 10_000

Found = TypeVar("Found")
Place = tuple[str, str]
"""Is a tenant, and an id within it."""


class Remembering(Generic[Found]):
    """Finds things by tenant and id, in threads.

    What is not there is remembered apart from what is, so that whoever makes up names pushes nothing out that others
    need.
    """

    def __init__(self, look: Callable[[str, str], Found | None]) -> None:
        self._look = look
        self._known: dict[Place, tuple[Found, float]] = {}
        self._unknown: dict[Place, float] = {}
        self._looking: dict[Place, asyncio.Future[Found | None]] = {}

    async def find(self, place: Place) -> Found | None:
        """Gives what is there, as it was at most a second ago."""
        now = time.monotonic()
        known = self._known.get(place)
        if known is not None and known[1] >= now:
            return known[0]
        if self._unknown.get(place, 0.0) >= now:
            return None
        looking = self._looking.get(place)
        if looking is None:  # of all who ask at once, one looks
            looking = self._looking[place] = asyncio.ensure_future(self._find(place))
            looking.add_done_callback(lambda done: self._looking.pop(place, None))
        return await asyncio.shield(looking)

    async def find_newest(self, place: Place) -> Found | None:
        """Gives what is there now, and lets the next who asks look again."""
        self._known.pop(place, None)
        return await in_own_thread(self._look, *place)

    async def _find(self, place: Place) -> Found | None:
        until = time.monotonic() + REMEMBERED  # before the look: a slow store makes nothing count for longer
        found = await in_own_thread(self._look, *place)
        if found is None:
            self._known.pop(place, None)
            _make_room(self._unknown)
            self._unknown[place] = until
        else:
            _make_room(self._known)
            self._known[place] = (found, until)
        return found


def _make_room(kept: dict[Place, Any]) -> None:
    """Drops what came first when it is too much."""
    while len(kept) >= MOST_REMEMBERED:
        del kept[next(iter(kept))]
