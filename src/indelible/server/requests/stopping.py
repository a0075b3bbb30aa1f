"""Ends what would go on for ever when the server stops: streams are closed and whoever waits gets an answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

import uvicorn

from indelible.server.requests.lingering import Lingering

Result = TypeVar("Result")


class Stopping:
    """Says whether the server is about to stop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.is_announced = False
        """Does it say already that it is about to stop, so that nobody sends it anything new?"""
        self.on_begin: list[Callable[[], None]] = []

    @property
    def is_begun(self) -> bool:
        """Is it stopping?"""
        return self._event.is_set()

    def begin(self) -> None:
        """Says so, in the loop's own thread."""
        self.is_announced = True
        self._event.set()
        for hear in self.on_begin:
            hear()

    async def unless_begun(self, work: Awaitable[Result]) -> Result | None:
        """Gives what comes of some waiting, or None as soon as the server stops."""
        waiting = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()
            stopping.cancel()


class StoppingServer(uvicorn.Server):
    """Tells those who wait that it stops, before it waits for them."""

    drain_seconds = 0.0

    def __init__(self, config: uvicorn.Config, stopping: Stopping, lingering: Lingering | None = None) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._lingering = lingering or Lingering()

    async def on_tick(self, counter: int) -> bool:
        """Looks after connections that linger, ten times a second."""
        self._lingering.look(self.server_state.connections)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops when what is under way is finished; before that, it answers for a while and says that it will stop."""
        self._stopping.is_announced = True
        ends = asyncio.get_running_loop().time() + self.drain_seconds
        while not self.force_exit and asyncio.get_running_loop().time() < ends:  # noqa: ASYNC110 - a signal sets it
            await asyncio.sleep(0.05)
        self._stopping.begin()
        await super().shutdown(sockets)
