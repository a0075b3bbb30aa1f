"""What a contestant has to offer so that calls can wait for a person: ask in one process, approve in another."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Any

from benchmarks.calls import RESULT

SIZE = 200  # bytes of arguments, as in most scenarios
Handle = dict[str, str]
"""Is what an approver needs to know of a call that waits."""


class Approvable(ABC):
    """Lets calls wait for an approval; `started` has the instant at which each handler was entered, by run."""

    def __init__(self) -> None:
        self.started: dict[str, int] = {}

    @abstractmethod
    async def open_to_wait(self, url: str) -> None:
        """Connects as the process that calls and waits."""

    @abstractmethod
    async def open_to_approve(self, url: str) -> None:
        """Connects as the process in which somebody decides."""

    @abstractmethod
    async def ask(self, run_id: str) -> tuple[Handle, asyncio.Future[Any]]:
        """Makes a call that needs an approval; returns when that was asked for, with the call as it waits."""

    @abstractmethod
    async def approve(self, handle: Handle) -> None:
        """Approves a call; returns when that is durable."""

    @abstractmethod
    async def close(self) -> None:
        """Lets go of every connection."""

    def enter(self, run_id: str) -> dict[str, Any]:
        """Is the handler: notes the instant, on the clock that all processes of a machine share."""
        self.started[run_id] = time.monotonic_ns()
        return RESULT
