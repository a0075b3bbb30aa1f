"""Indelible through its public face, as a program would use it."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import indelible
from benchmarks.calls import RESULT, TOOL, Call, finished_at
from benchmarks.contestant import Awaited, Blocking
from indelible import AsyncLedger, Ledger, RunningEffect, ToolCall


def prepare(url: str) -> None:
    """Creates the tables, as `indelible migrate` does."""
    indelible.migrate(url)


class IndelibleOne(Blocking):
    """One caller, blocking."""

    def open(self, url: str) -> None:
        self._ledger = Ledger.open(url)

    def call(self, call: Call) -> Any:
        return self._ledger.run(ToolCall(run_id=call.run_id, tool=TOOL, args=call.args), _instant)

    def close(self) -> None:
        self._ledger.close()


class IndelibleMany(Awaited):
    """Many callers of one event loop."""

    options: ClassVar[dict[str, Any]] = {}

    async def open(self, url: str) -> None:
        self._ledger = await AsyncLedger.open(url, **self.options).__aenter__()

    async def call(self, call: Call) -> Any:
        wanted = ToolCall(run_id=call.run_id, tool=TOOL, args=call.args)
        if not call.work:
            return await self._ledger.run(wanted, _instant_async)

        async def slow(effect: RunningEffect) -> dict[str, Any]:
            await asyncio.sleep(call.work)
            return finished_at()

        return await self._ledger.run(wanted, slow)

    async def close(self) -> None:
        await self._ledger.__aexit__(None, None, None)


class IndelibleManyNoWakeups(IndelibleMany):
    """The same with wake-ups switched off: waiting falls back to polling."""

    options: ClassVar[dict[str, Any]] = {"wakeups": False}


def _instant(effect: RunningEffect) -> dict[str, Any]:
    return RESULT


async def _instant_async(effect: RunningEffect) -> dict[str, Any]:
    return RESULT
