"""Indelible through its public face, as a program would use it."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import indelible
from benchmarks.calls import RESULT, TOOL, Call, finished_at
from benchmarks.contestant import Awaited, Blocking
from indelible import AsyncLedger, Ledger, RunningEffect, ToolCall
from indelible.core.journal.notes import parse_head, parse_note


def prepare(url: str) -> None:
    """Creates the tables, as `indelible migrate` does."""
    indelible.migrate(url)


def is_sealed(ledger: Ledger | AsyncLedger) -> bool:
    """Is everything that this ledger holds under a signed head?"""
    kept, tenant = ledger._engine.store.journal, ledger.tenant
    newest = kept.heads(tenant, 1)
    if not newest or kept.waiting(tenant):
        return False
    return parse_head(parse_note(newest[0]).text).size == kept.tree(tenant).size


class IndelibleOne(Blocking):
    """One caller, blocking."""

    options: ClassVar[dict[str, Any]] = {}

    def open(self, url: str) -> None:
        self._ledger = Ledger.open(url, **self.options)

    def call(self, call: Call) -> Any:
        return self._ledger.run(ToolCall(run_id=call.run_id, tool=TOOL, args=call.args), _instant)

    def is_sealed(self) -> bool:
        return not self._ledger._engine.notary.is_sealing or is_sealed(self._ledger)

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

    def is_sealed(self) -> bool:
        return not self._ledger._engine.notary.is_sealing or is_sealed(self._ledger)

    async def close(self) -> None:
        await self._ledger.__aexit__(None, None, None)


class IndelibleManyNoWakeups(IndelibleMany):
    """The same with wake-ups switched off: waiting falls back to polling."""

    options: ClassVar[dict[str, Any]] = {"wakeups": False}


def _instant(effect: RunningEffect) -> dict[str, Any]:
    return RESULT


async def _instant_async(effect: RunningEffect) -> dict[str, Any]:
    return RESULT
