"""What an agent may ask about its own calls, as MCP tools: it can look, and never decide."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from indelible import Approval, AsyncLedger, Effect, Ledger, __version__
from indelible.errors import IndelibleError

Look = Callable[[AsyncLedger, dict[str, Any]], Awaitable[Any]]
_MOST = 50


async def _effects(ledger: AsyncLedger, asked: dict[str, Any]) -> Any:
    found = await ledger.effects(run_id=asked.get("run_id"), status=asked.get("status"), limit=_MOST)
    return {"effects": [_effect(effect) for effect in found]}


async def _effect_by_id(ledger: AsyncLedger, asked: dict[str, Any]) -> Any:
    found = await ledger.get_effect(asked["effect_id"])
    if found is None:
        raise MCPError(types.INVALID_PARAMS, "no effect has this id; see: list_effects")
    return {**_effect(found), "key": found.key, "attempts": found.attempt}


async def _pending(ledger: AsyncLedger, asked: dict[str, Any]) -> Any:
    found = await ledger.approvals(status="pending", run_id=asked.get("run_id"), limit=_MOST)
    return {"approvals": [_approval(approval) for approval in found]}


async def _in_doubt(ledger: AsyncLedger, asked: dict[str, Any]) -> Any:
    found = await ledger.effects(run_id=asked.get("run_id"), status="in_doubt", limit=_MOST)
    return {"in_doubt": [_effect(effect) for effect in found], "next": "a person settles each of them"}


def _effect(effect: Effect) -> dict[str, Any]:
    """Says how a call stands; not what was in it, for the agent that asks may not be the one that called."""
    return {
        "id": effect.id,
        "tool": effect.tool,
        "run_id": effect.run_id,
        "status": effect.status,
        "side_effect": effect.side_effect,
        "updated_at": effect.updated_at.isoformat(),
    }


def _approval(approval: Approval) -> dict[str, Any]:
    return {
        "id": approval.id,
        "tool": approval.tool,
        "run_id": approval.run_id,
        "effect_id": approval.effect_id,
        "expires_at": approval.expires_at.isoformat(),
        "lacking": approval.lacking,
    }


_RUN = {"run_id": {"type": "string", "description": "Only of this run."}}
_STATUS = {"type": "string", "enum": ["requires_approval", "ready", "processing", "succeeded", "failed", "denied",
                                      "canceled", "in_doubt"]}  # fmt: skip
TOOLS: dict[str, tuple[str, dict[str, Any], list[str], Look]] = {
    "list_effects": ("List tool calls, newest first: which ran, failed, wait or are in doubt.",
                     {**_RUN, "status": _STATUS}, [], _effects),
    "show_effect": ("Show how one tool call stands.", {"effect_id": {"type": "string"}}, ["effect_id"], _effect_by_id),
    "list_pending_approvals": ("List calls that wait for a person. You cannot decide them.", _RUN, [], _pending),
    "list_in_doubt": ("List calls of which nobody knows whether they happened. Do not repeat them.", _RUN, [],
                      _in_doubt),
}  # fmt: skip


def lookup_server(ledger: Ledger | AsyncLedger) -> Server[Any]:
    """Gives an MCP server by which an agent looks up its own effects; nothing it offers changes anything."""
    awaited = ledger.awaited

    async def listed(ctx: ServerRequestContext[Any], params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(name) for name in TOOLS])

    async def called(ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"no tool is named {params.name!r}; see: tools/list")
        try:
            found = await TOOLS[params.name][3](awaited, _checked(params))
        except IndelibleError as problem:
            return types.CallToolResult(content=[types.TextContent(text=str(problem))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(text=json.dumps(found))], structured_content=found)

    return Server("indelible", version=__version__, on_list_tools=listed, on_call_tool=called)


def _tool(name: str) -> types.Tool:
    description, properties, required, _ = TOOLS[name]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return types.Tool(name=name, description=description, input_schema=schema, annotations=hints)


def _checked(params: types.CallToolRequestParams) -> dict[str, Any]:
    _, properties, required, _ = TOOLS[params.name]
    given = params.arguments or {}
    wrong = [name for name, value in given.items() if name not in properties or not isinstance(value, str)]
    wrong += [name for name in required if name not in given]
    if wrong:
        raise MCPError(types.INVALID_PARAMS, f"{params.name}: {', '.join(wrong)}: see its schema in tools/list")
    return given
