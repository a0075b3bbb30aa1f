"""What a contestant has to offer: open, call, replay, close; either blocking or awaited."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from benchmarks.calls import Call


class Blocking(ABC):
    """Serves one caller at a time from the caller's own thread."""

    @abstractmethod
    def open(self, url: str) -> None:
        """Connects to a store that is ready for use."""

    @abstractmethod
    def call(self, call: Call) -> Any:
        """Runs the handler once, durably, and returns its value."""

    def replay(self, call: Call) -> Any:
        """Returns the recorded value of a call made before; most ledgers do that through the same door."""
        return self.call(call)

    def is_sealed(self) -> bool:
        """Is everything done that this contestant still does after it has answered? For most that is nothing."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Lets go of every connection."""


class Awaited(ABC):
    """Serves many callers of one event loop."""

    @abstractmethod
    async def open(self, url: str) -> None:
        """Connects to a store that is ready for use."""

    @abstractmethod
    async def call(self, call: Call) -> Any:
        """Runs the handler once, durably, and returns its value."""

    async def replay(self, call: Call) -> Any:
        """Returns the recorded value of a call made before; most ledgers do that through the same door."""
        return await self.call(call)

    def is_sealed(self) -> bool:
        """Is everything done that this contestant still does after it has answered? For most that is nothing."""
        return True

    @abstractmethod
    async def close(self) -> None:
        """Lets go of every connection."""


Contestant = Blocking | Awaited
