"""Indelible's approvals through its public face, and a policy to judge calls by."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from benchmarks.approvable import SIZE, Approvable, Handle
from benchmarks.calls import TOOL, args_of
from benchmarks.ours import IndelibleOne
from indelible import AsyncLedger, AwaitingApproval, Ledger, RunningEffect, ToolCall

PATIENCE = 3600.0


class IndelibleApproving(Approvable):
    """Tasks that wait in one process; a person who decides through a blocking ledger in another."""

    _waiting: AsyncLedger | None = None
    _deciding: Ledger | None = None

    async def open_to_wait(self, url: str) -> None:
        self._waiting = AsyncLedger.open(url, approval="required", wait=PATIENCE)

    async def open_to_approve(self, url: str) -> None:
        self._deciding = Ledger.open(url)

    async def ask(self, run_id: str) -> tuple[Handle, asyncio.Future[Any]]:
        assert self._waiting is not None
        call = ToolCall(run_id=run_id, tool=TOOL, args=args_of(SIZE, 0))
        begun = await self._waiting.begin(call)
        assert isinstance(begun, AwaitingApproval)

        async def handler(effect: RunningEffect) -> dict[str, Any]:
            return self.enter(run_id)

        waiting = asyncio.ensure_future(self._waiting.run(call, handler))
        return {"id": begun.approval.id, "digest": begun.approval.digest}, waiting

    async def approve(self, handle: Handle) -> None:
        assert self._deciding is not None
        self._deciding.approve(handle["id"], digest=handle["digest"], by="ana")

    async def close(self) -> None:
        if self._waiting is not None:
            await self._waiting.close()
        if self._deciding is not None:
            self._deciding.close()


def rules(many: int) -> dict[str, Any]:
    """Returns the content of a policy whose last rule alone is about the calls that are measured."""
    matches: list[dict[str, Any]] = [
        {"tool": "mail.*", "args": {"to": {"matches": "[a-z.]+@example[.]com"}}},
        {"tool": ["shell.run", "shell.exec"]},
        {"tool": "stripe.charge", "args": {"amount": {"gt": 100_000}}},
        {"tool": "stripe.*", "args": {"currency": {"in": ["jpy", "krw"]}}},
        {"side_effect": "payment", "args": {"customer": {"exists": False}}},
        {"environment": "production", "tool": "db.*"},
        {"agent": "intern-*"},
        {"args": {"memo": {"length": {"gt": 5000}}}},
    ]
    asking = [
        {"name": f"rule {number}", "match": matches[number % len(matches)], "then": "ask"} for number in range(many - 1)
    ]
    return {"rules": [*asking, {"name": "small charges", "match": {"tool": TOOL}, "then": "allow"}]}


class IndeliblePoliced(IndelibleOne):
    """One caller, blocking; every call is judged by 20 rules, of which the last one allows it."""

    options: ClassVar[dict[str, Any]] = {"policy": rules(20)}
