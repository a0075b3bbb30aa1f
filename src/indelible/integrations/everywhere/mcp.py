"""MCP everywhere: every tool call of every client session, unless it is made within a call that is guarded already."""

from __future__ import annotations

import functools
from typing import Any

import mcp_types as types
from mcp.client.session import ClientSession

from indelible.integrations.everywhere.reach import Around, Undo, replaced, run_here, running_here
from indelible.integrations.mcp_gate import McpGate

_TAKES = ("self", "name", "arguments", "read_timeout_seconds", "progress_callback")


def reach(around: Around) -> Undo:
    """Puts the ledger before `tools/call` on the client's side."""
    send = ClientSession.call_tool

    @functools.wraps(send)
    async def call_tool(
        self: ClientSession,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | None = None,
        progress_callback: Any = None,
        **words: Any,
    ) -> Any:
        line = {"read_timeout_seconds": read_timeout_seconds, "progress_callback": progress_callback}
        if running_here() is not None:  # the effect around it stands for it, and carries its key
            return await send(self, name, arguments, **line, **words)
        run = run_here(None, advice="await session.call_tool(…)")
        gate = McpGate(around.ledger, _Below(self, line), run=run, terms=around.terms, **around.usual)
        return _allowed(await gate.call_tool(None, _params(name, arguments, words)), words)

    return replaced(ClientSession, "call_tool", call_tool, takes=_TAKES)


class _Below:
    """Is a session as the gate wants it: a line with the caller's own patience and ear for progress."""

    def __init__(self, session: ClientSession, line: dict[str, Any]) -> None:
        self.session = self
        self._session = session
        self.list_tools = session.list_tools
        self.call_tool = functools.partial(session.call_tool, **line)


def _params(name: str, arguments: dict[str, Any] | None, words: dict[str, Any]) -> types.CallToolRequestParams:
    return types.CallToolRequestParams(
        name=name,
        arguments=arguments,
        input_responses=words.get("input_responses"),
        request_state=words.get("request_state"),
        _meta=words.get("meta"),
    )


def _allowed(answer: Any, words: dict[str, Any]) -> Any:
    """Gives an answer that the caller is ready for; the server asks back only those who said that they listen."""
    if isinstance(answer, types.InputRequiredResult) and not words.get("allow_input_required"):
        raise RuntimeError("the server asks for input; call with allow_input_required=True")
    return answer
