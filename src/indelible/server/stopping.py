"""Ends what would go on for ever when the server stops: streams are closed and whoever waits gets an answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from typing import TypeVar

import uvicorn

Result = TypeVar("Result")


class Stopping:
    """Says whether the server is about to stop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def is_begun(self) -> bool:
        """Is it stopping?"""
        return self._event.is_set()

    def begin(self) -> None:
        """Says so, in the loop's own thread."""
        self._event.set()

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

    def __init__(self, config: uvicorn.Config, stopping: Stopping) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops when what is under way is finished."""
        self._stopping.begin()
        await super().shutdown(sockets)
