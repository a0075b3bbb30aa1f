"""MCP everywhere: every tool call of every client session, but for the one by which a framework carries out a call.

That one is guarded already: its effect has the same tool and arguments, and the framework makes it. All others inside
of an effect are calls of their own.

A session knows its server by the name that it says of itself. Clients know the URL or the command too.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from types import FrameType
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import mcp_types as types
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.session import ClientSession
from pydantic import BaseModel, TypeAdapter

from indelible.integrations.entries import carries_out, is_sent
from indelible.integrations.everywhere.reach import Around, Undo, all_replaced, replaced, run_here, running_here
from indelible.integrations.mcp_gate import McpGate
from indelible.integrations.mcp_words import META, name_of
from indelible.integrations.terms import is_same

_TAKES = ("self", "name", "arguments", "read_timeout_seconds", "progress_callback")
_REQUEST_TAKES = ("self", "request", "result_type", "request_read_timeout_seconds", "metadata", "progress_callback")
_FRAMEWORKS = (
    "agents",
    "pydantic_ai",
    "crewai",
    "crewai_tools",
    "mcpadapt",
    "strands",
    "google",
    "langchain_mcp_adapters",
)
_THEIR_OWN = frozenset({*_FRAMEWORKS, "mcp", "fastmcp", "anyio", "tenacity", "opentelemetry", *sys.stdlib_module_names})
_sending: ContextVar[bool] = ContextVar("indelible_mcp_sending", default=False)
"""Does the session send the call that was let through?"""


def reach(around: Around) -> Undo:
    """Puts the ledger before `tools/call` on the client's side."""
    send, request_of = ClientSession.call_tool, ClientSession.send_request

    async def sent(self: ClientSession, *args: Any, **words: Any) -> Any:
        token = _sending.set(True)
        try:
            return await send(self, *args, **words)
        finally:
            _sending.reset(token)

    @functools.wraps(request_of)
    async def send_request(
        self: ClientSession,
        request: Any,
        result_type: Any,
        request_read_timeout_seconds: float | None = None,
        metadata: Any = None,
        progress_callback: Any = None,
    ) -> Any:
        if request.method != "tools/call" or _sending.get():
            _sending.set(False)
            words: dict[str, Any] = {"metadata": metadata, "progress_callback": progress_callback}
            return await request_of(self, request, result_type, request_read_timeout_seconds, **words)
        asked = types.CallToolRequestParams.model_validate(_written(request.params))
        answer = await called(
            self,
            _is_by_framework(sys._getframe().f_back),
            asked.name,
            asked.arguments,
            request_read_timeout_seconds,
            progress_callback,
            input_responses=asked.input_responses,
            request_state=asked.request_state,
            meta=asked.meta,
            allow_input_required=True,
        )
        adapter = result_type if isinstance(result_type, TypeAdapter) else TypeAdapter(result_type)
        return adapter.validate_python(_written(answer))

    @functools.wraps(send)
    def call_tool(self: ClientSession, *args: Any, **words: Any) -> Awaitable[Any]:
        # Who calls is to be seen now: a client may await this in a task of its own.
        return called(self, _is_by_framework(sys._getframe().f_back), *args, **words)

    async def called(
        self: ClientSession,
        is_by_framework: bool,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | None = None,
        progress_callback: Any = None,
        **words: Any,
    ) -> Any:
        line = {"read_timeout_seconds": read_timeout_seconds, "progress_callback": progress_callback}
        running = running_here()
        if running is not None and is_by_framework and carries_out(running, _is_same(name, arguments or {})):
            return await sent(self, name, arguments, **line, **words)
        run = run_here(None if running is None else running.effect.run_id, advice="await session.call_tool(…)")
        url, command = addresses.get(self) or (None, None)
        named = " at ".join(one for one in (name_of(self), url) if one is not None) or None
        origin: dict[str, Any] = {"server": named, "reached_by": url or command or ""}
        below = _Below(self, functools.partial(sent, self, **line))
        gate = McpGate(around.ledger, below, run=run, terms=around.terms, **origin, **around.usual)
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
        lambda: replaced(ClientSession, "send_request", send_request, takes=_REQUEST_TAKES),
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

    def __init__(self, session: ClientSession, call_tool: Callable[..., Awaitable[Any]]) -> None:
        self.session = self
        self._session = session
        self.server_info = session.server_info
        self.list_tools = session.list_tools
        self.call_tool = call_tool


def _is_same(name: str, arguments: Mapping[str, Any]) -> Callable[[str, Mapping[str, Any]], bool]:
    """Return what says whether an effect's call is this one.

    A framework may put the name of a server before that of the tool.
    """

    def is_it(tool: str, args: Mapping[str, Any]) -> bool:
        rest = [value for key, value in args.items() if key not in arguments and key != META]
        if any(value is not None for value in rest) or not is_same(
            {key: args.get(key) for key in arguments}, arguments
        ):
            return False
        return tool == name or _written_alike(tool).endswith(f"_{_written_alike(name)}")

    return is_it


def _written_alike(name: str) -> str:
    return re.sub(r"\W", "_", name).lower()


def _is_by_framework(caller: FrameType | None) -> bool:
    """Say whether a gate or a framework makes a call, and no code of the program inside of the gate's effect."""
    if is_sent():
        return True
    found = set[str]()
    while caller is not None:
        package = str(caller.f_globals.get("__name__")).partition(".")[0]
        if package == "indelible":
            break
        found.add(package)
        caller = caller.f_back
    return found <= _THEIR_OWN and not found.isdisjoint(_FRAMEWORKS)


def _written(value: Any) -> Any:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True) if isinstance(value, BaseModel) else value


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
