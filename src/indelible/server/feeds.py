"""What happens, as it happens: reads events on from where a client is, and waits for more."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from indelible.aio import AsyncLedger
from indelible.engine.running import in_own_thread, tell_loop
from indelible.errors import NotAuthenticated, NotPermitted
from indelible.server.requests.stopping import Stopping

PAGE = 500
LOOK_EVERY = 1.0
"""Is how many seconds pass at most before another process's events are seen; those of this one are seen at once."""
LOOK_AT_JOURNAL_EVERY = 0.25
"""Is the same for the journal: what is written comes into it with the next seal."""
CHECK_EVERY = 15.0
"""Is after how many seconds a stream looks whether its credential still holds, and shows that it is alive."""
TOLD_UNCHECKED_FOR = 1.0
"""Is how many seconds after such a look something may be told without another: as long as a request would be let in."""

Told = tuple[int, dict[str, Any] | None]
"""Is an event's number and what is shown of it; nothing is shown of one that nobody asked for."""
Read = Callable[[int, int], Sequence[Told]]
"""Gives so many events after a number."""


class Feed:
    """Wakes those who follow one tenant's events when this process has written some."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self._lock = threading.Lock()
        self._wakers: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        ledger._engine.on_write.append(self._written)

    def _written(self) -> None:
        if not self._wakers:  # on the way of every write, so it is said first
            return
        with self._lock:
            for loop, event in self._wakers:
                tell_loop(loop, event.set)

    async def wait(self, event: asyncio.Event, most: float) -> None:
        """Waits until something was written since the event was cleared, or the time is up."""
        waker = (asyncio.get_running_loop(), event)
        with self._lock:
            self._wakers.add(waker)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), most)
        finally:
            with self._lock:
                self._wakers.discard(waker)


class Feeds:
    """Has one feed for each tenant that somebody follows."""

    def __init__(self) -> None:
        self._by_tenant: dict[str, Feed] = {}

    def of(self, ledger: AsyncLedger) -> Feed:
        """Gives the feed of a tenant; in the loop's own thread."""
        feed = self._by_tenant.get(ledger.tenant)
        if feed is None:
            feed = self._by_tenant[ledger.tenant] = Feed(ledger)
        return feed


async def stream(
    read: Read,
    after: int,
    *,
    feed: Feed,
    look_every: float,
    stopping: Stopping,
    check: Callable[[], Awaitable[object]],
) -> AsyncIterator[bytes]:
    """Gives events after a number as server-sent events, each once and in order, until the server stops."""
    yield KEEPALIVE_COMMENT  # so that the other side knows at once that it is heard
    event, checked_at = asyncio.Event(), time.monotonic()
    while not stopping.is_begun:
        event.clear()  # before the look: what is written meanwhile is looked for again
        sent, found = after, await in_own_thread(read, after, PAGE)
        is_silent = time.monotonic() - checked_at > CHECK_EVERY
        if is_silent or (found and time.monotonic() - checked_at > TOLD_UNCHECKED_FOR):
            if not await _is_let_in(check):
                return
            checked_at = time.monotonic()
        if is_silent:
            yield KEEPALIVE_COMMENT
        for number, shown in found:
            if shown is not None:
                yield format_sse_event(data_str=json.dumps(shown), id=str(number))
                sent = number
            after = number
            event.set()
        if sent < after:  # an id alone is no event, and whoever comes back need not look through all of it again
            yield f"id: {after}\n\n".encode()
        if not event.is_set():
            await stopping.unless_begun(feed.wait(event, look_every))


async def _is_let_in(check: Callable[[], Awaitable[object]]) -> bool:
    try:
        await check()
    except (NotAuthenticated, NotPermitted):
        return False
    return True
