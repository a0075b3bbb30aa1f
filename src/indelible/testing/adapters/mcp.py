"""MCP's rig: a host that keeps its calls in a file and asks its user itself, or that speaks to the proxy instead."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.server import Server

from indelible import Ledger
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.mcp_words import IDEMPOTENCY_KEY
from indelible.testing.adapters.rig import Rig, Standing
from indelible.testing.adapters.scene import Asked, Scene

_WAITS = ("waits for a person", "may have happened")


class McpRig:
    """Makes the scene's calls of an MCP server, and makes them again when it is resumed, as hosts do."""

    def begin(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Calls what the model wants, or keeps it until the user has said yes."""
        _keep(scene, scene.calls)
        if ledger is None and scene.asks:
            return Standing(state="paused", waits_for=[call.call_id for call in scene.calls])
        return anyio.run(_called, scene, ledger)

    def resume(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Makes the kept calls that the user let pass; behind the ledger all of them, for it knows which."""
        return anyio.run(_called, scene, ledger)

    def tamper(self, scene: Scene) -> None:
        """Keeps other arguments than those that were shown."""
        _keep(scene, scene.calls)


RIG: Rig = McpRig()


def _keep(scene: Scene, calls: Any) -> None:
    kept = [{"call_id": call.call_id, "order": call.order, "amount": call.amount} for call in calls]
    (scene.state / "calls.json").write_text(json.dumps(kept))


async def _called(scene: Scene, ledger: Ledger | None) -> Standing:
    calls = [Asked(**one) for one in json.loads((scene.state / "calls.json").read_text())]
    waiting = []
    async with _reached(scene, ledger) as client:
        for call in calls:
            if ledger is None and not scene.allowed.get(call.call_id, not scene.asks):
                continue
            args = {"order": call.order, "amount": call.amount}
            meta = cast("types.RequestParamsMeta", {IDEMPOTENCY_KEY: call.call_id})
            result = await client.call_tool("charge", args, meta=meta)
            said = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
            if result.is_error and any(words in said for words in _WAITS):
                waiting.append(call.call_id)
            elif result.is_error and "denied" not in said:
                return Standing(state="refused", why=said)
    return Standing(state="paused" if waiting else "done", waits_for=waiting)


@asynccontextmanager
async def _reached(scene: Scene, ledger: Ledger | None) -> AsyncIterator[Client]:
    """Gives a client of the server with the tool, straight or through the proxy; it is one that cannot be asked."""
    async with Client(_server(scene)) as upstream:
        if ledger is None:
            yield upstream
            return
        proxy = ledger_proxy(ledger, upstream, run="order-123", terms={"charge": scene.terms})
        async with Client(proxy, mode="legacy") as client:
            yield client


def _server(scene: Scene) -> Server[Any]:
    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="charge", input_schema={"type": "object"})])

    async def called(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        said = await anyio.to_thread.run_sync(lambda: scene.charge(**(params.arguments or {})))
        return types.CallToolResult(content=[types.TextContent(text=said)])

    return Server("till", on_list_tools=listed, on_call_tool=called)
