"""agent-ledger's approvals, as its README shows: a hook says that a call needs one, and the caller polls for it.

It polls every 50 ms at first and ever more seldom, at most every second. The tuned one polls every 10 to 20 ms.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agent_ledger import Effect, LedgerHooks, ToolCall

from benchmarks.approvable import SIZE, Approvable, Handle
from benchmarks.calls import TOOL, args_of
from benchmarks.peers.agent_ledger_peer import AgentLedger, AgentLedgerTuned


class AgentLedgerApproving(Approvable):
    """The documented set-up."""

    kind: type[AgentLedger] = AgentLedger

    def __init__(self) -> None:
        super().__init__()
        self._peer = self.kind()

    async def open_to_wait(self, url: str) -> None:
        await self._peer.open(url)

    async def open_to_approve(self, url: str) -> None:
        await self._peer.open(url)

    async def ask(self, run_id: str) -> tuple[Handle, asyncio.Future[Any]]:
        ledger, is_asked = self._peer._ledger, asyncio.Event()
        call = ToolCall(workflow_id=run_id, tool=TOOL, args=args_of(SIZE, 0))

        async def handler(effect: Effect) -> dict[str, Any]:
            return self.enter(run_id)

        async def on_approval_required(effect: Effect) -> None:
            is_asked.set()

        hooks = LedgerHooks(requires_approval=lambda call: True, on_approval_required=on_approval_required)
        waiting = asyncio.ensure_future(ledger.run(call, handler, hooks=hooks))
        await is_asked.wait()
        return {"key": ledger.idem_key(call)}, waiting

    async def approve(self, handle: Handle) -> None:
        if not await self._peer._ledger.approve(handle["key"]):
            raise LookupError(handle["key"])

    async def close(self) -> None:
        await self._peer.close()


class AgentLedgerTunedApproving(AgentLedgerApproving):
    """Tuned by hand beyond the documentation."""

    kind = AgentLedgerTuned
