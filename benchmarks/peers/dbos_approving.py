"""DBOS with a person in the loop, as its documentation shows: a workflow waits with `recv` for a message.

Whoever decides sends it from another process with `DBOSClient`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dbos import DBOS, DBOSClient, SetWorkflowID

from benchmarks.approvable import SIZE, Approvable, Handle
from benchmarks.calls import args_of
from benchmarks.peers.dbos_peer import _launch

TOPIC = "approval"
PATIENCE = 3600.0
_asked: dict[str, Callable[[], None]] = {}
_waiting: DbosApproving | None = None


@DBOS.step()
async def charge_noted(args: dict[str, Any], run_id: str) -> dict[str, Any]:
    """Is the tool."""
    assert _waiting is not None
    return _waiting.enter(run_id)


@DBOS.workflow()
async def charge_when_approved(args: dict[str, Any], run_id: str) -> dict[str, Any] | None:
    """Runs the tool when somebody has approved it."""
    _asked.pop(run_id)()
    if await DBOS.recv_async(TOPIC, timeout_seconds=PATIENCE) != "approved":
        return None
    return await charge_noted(args, run_id)


class DbosApproving(Approvable):
    """Workflows that wait in one process; a client that sends messages in another."""

    _client: DBOSClient | None = None

    async def open_to_wait(self, url: str) -> None:
        global _waiting
        _waiting = self
        await asyncio.to_thread(_launch, url)

    async def open_to_approve(self, url: str) -> None:
        self._client = DBOSClient(system_database_url=url)

    async def ask(self, run_id: str) -> tuple[Handle, asyncio.Future[Any]]:
        loop, is_asked = asyncio.get_running_loop(), asyncio.Event()
        _asked[run_id] = lambda: loop.call_soon_threadsafe(is_asked.set)  # it may run in a loop of its own
        with SetWorkflowID(run_id):
            handle = await DBOS.start_workflow_async(charge_when_approved, args_of(SIZE, 0), run_id)
        await is_asked.wait()
        return {"id": run_id}, asyncio.ensure_future(handle.get_result())

    async def approve(self, handle: Handle) -> None:
        assert self._client is not None
        self._client.send(handle["id"], "approved", TOPIC)

    async def close(self) -> None:
        if self._client is not None:
            self._client.destroy()
        else:
            await asyncio.to_thread(DBOS.destroy)
