"""MCP everywhere: every tool call of every client session, unless it is made within a call that is guarded already.

A session knows its server by the name that it says of itself. Clients know the URL or the command too.
"""

from __future__ import annotations

import functools
import json
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import mcp_types as types
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.session import ClientSession

from indelible.integrations.everywhere.reach import Around, Undo, all_replaced, replaced, run_here, running_here
from indelible.integrations.mcp_gate import McpGate
from indelible.integrations.mcp_words import name_of

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
        url, command = addresses.get(self) or (None, None)
        named = " at ".join(one for one in (name_of(self), url) if one is not None) or None
        origin: dict[str, Any] = {"server": named, "reached_by": url or command or ""}
        gate = McpGate(around.ledger, _Below(self, line), run=run, terms=around.terms, **origin, **around.usual)
        return _allowed(await gate.call_tool(None, _params(name, arguments, words)), words)

    addresses: WeakKeyDictionary[ClientSession, tuple[str | None, str | None]] = WeakKeyDictionary()
    build = Client._build_session

    @functools.wraps(build)
    async def build_session(self: Client, exit_stack: Any) -> ClientSession:
        session = await build(self, exit_stack)
        addresses[session] = _address_of(self.server)
        return session

    return all_replaced(
        lambda: replaced(ClientSession, "call_tool", call_tool, takes=_TAKES),
        lambda: replaced(Client, "_build_session", build_session, takes=("self", "exit_stack")),
    )


def _address_of(server: Any) -> tuple[str | None, str | None]:
    """Return the URL, without what may be secret in it, or else the command by which a client reaches its server."""
    arguments = getattr(server, "args", None)  # of a transport, as `stdio_client(…)` makes one
    if isinstance(arguments, tuple) and arguments:
        return _address_of(arguments[0])
    if isinstance(server, StdioServerParameters):
        return None, json.dumps([server.command, *server.args])
    if not isinstance(server, str):
        return None, None
    url = urlsplit(server)
    return urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, "", "")), None


class _Below:
    """Is a session as the gate wants it: a line with the caller's own patience and ear for progress."""

    def __init__(self, session: ClientSession, line: dict[str, Any]) -> None:
        self.session = self
        self._session = session
        self.server_info = session.server_info
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
