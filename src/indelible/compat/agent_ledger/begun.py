"""A call that is executed by hand: the ledger's own way in and out, with the caller in the place of the handler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from indelible import NothingHappened, Refused
from indelible.compat.agent_ledger.types import CommitFailed, CommitOutcome, Effect, ToolCall

Walk = Callable[[Callable[[Effect], Awaitable[Any]]], Awaitable[Any]]


class Begun:
    """Walks a call in a task, whose handler waits for the caller to say what came of it.

    So it is waited for, asked about, kept alive and fenced like every other call. A caller that goes away with its loop
    before it commits leaves the effect in doubt.
    """

    def __init__(self, call: ToolCall, walk: Walk) -> None:
        loop = asyncio.get_running_loop()
        self.call = call
        self._entered: asyncio.Future[Effect] = loop.create_future()
        self._outcome: asyncio.Future[CommitOutcome | None] = loop.create_future()
        self._walking = asyncio.ensure_future(walk(self._handler))

    async def _handler(self, effect: Effect) -> Any:
        self._entered.set_result(effect)
        outcome = await self._outcome
        if outcome is None:
            raise _PutBack("it was put back before anything was done")
        if isinstance(outcome, CommitFailed):
            raise _told(outcome)
        return outcome.result

    async def is_ours(self) -> bool:
        """Waits until it is known whether this call is the caller's to execute; else it has a value, or raises."""
        try:
            await asyncio.wait({self._entered, self._walking}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._walking.cancel()
            raise
        if not self._entered.done():
            await self._walking
        return self._entered.done()

    @property
    def effect(self) -> Effect:
        """Is the effect that is the caller's to execute."""
        return self._entered.result()

    @property
    def value(self) -> Any:
        """Is the recorded result."""
        return self._walking.result()

    async def finish(self, outcome: CommitOutcome) -> None:
        """Reports what came of it; returns when that is recorded, and raises when it could not be."""
        self._outcome.set_result(outcome)
        with contextlib.suppress(_Told):  # it is on the record as failed, which is what was asked for
            await asyncio.shield(self._walking)

    async def put_back(self) -> None:
        """Gives up the claim of a caller that has done nothing yet; returns when that is recorded."""
        self._outcome.set_result(None)
        with contextlib.suppress(_PutBack):
            await asyncio.shield(self._walking)


class _PutBack(NothingHappened):
    """Says that the caller has done nothing."""


class _Told(Refused):
    """Is a failure that the caller reported; the name of its class is the code on the record."""


def _told(outcome: CommitFailed) -> _Told:
    named: type[_Told] = type(outcome.error.code or "Error", (_Told,), {})
    return named(outcome.error.message)
