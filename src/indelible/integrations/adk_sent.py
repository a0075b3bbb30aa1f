"""What came of a tool that ADK entered. ADK makes results of errors: these are judged by what was raised.

Errors of a tool's own function are the tool's. What the clients of ADK raise for MCP servers and REST APIs means that
an answer is lost. An error that a function of ADK or its REST client returns stands for any of these.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from types import MethodType
from typing import Any, ClassVar

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool

from indelible import NothingHappened
from indelible.integrations.adk_ways import is_adks
from indelible.integrations.results import ToolError

_MCP = "google.adk.tools.mcp_tool.mcp_tool"
_REST = "google.adk.tools.openapi_tool.openapi_spec_parser.rest_api_tool"


@dataclass(eq=False, slots=True)
class Sent:
    """One entry into a tool: whether it began to act, and what was raised there.

    Args:
        tool: The tool.
    """

    tool: BaseTool
    begun: int = 0
    """How many acts began, without the requests that ADK refused to send."""
    raised: Exception | None = None
    """What the tool's own function raised."""
    lost: Exception | None = None
    """What a client of ADK raised instead of a server's answer."""
    made: list[Any] = field(default_factory=list)
    """What ADK's client of REST APIs returned."""

    def error_in(self, result: Any) -> Exception | None:
        """Return the error that a result was made of; None if it is what the tool itself gave."""
        if not isinstance(result, dict) or not _is_error(result):
            return None
        if self.raised or self.lost:
            return self.raised or self.lost
        is_made, told = any(result is one for one in self.made), ToolError(_text_in(result))
        if not self.begun and (is_made or _enters_itself(self.tool)):
            return NothingHappened(str(told))
        is_theirs = isinstance(self.tool, FunctionTool) and is_adks(self.tool.func)
        return told if is_made or is_theirs or result.get("isError") is True else None


_sent: ContextVar[Sent | None] = ContextVar("indelible_adk_sent", default=None)
_refused: ContextVar[Exception | None] = ContextVar("indelible_adk_refused", default=None)
_ours: list[Any] = []
"""What stands at ADK's classes and clients."""


@contextmanager
def noting(tool: BaseTool) -> Iterator[Sent]:
    """Note what a tool does that is entered here.

    Args:
        tool: The tool.
    """
    if isinstance(tool, mcp_tool()):
        _AtServer.stand_at(tool)
    elif isinstance(tool, FunctionTool):
        _AtFunction.stand_at(tool)
        _AtGenerator.stand_at(tool)
    sent = Sent(tool)
    token = _sent.set(sent)
    try:
        yield sent
    finally:
        _sent.reset(token)


class AtTool:
    """Stands at a tool in the place of one of its methods. ADK copies tools with all that is put at them.

    So what stands at a copy may have been put at another tool, which has another name: the copy gets its own.
    """

    method: ClassVar[str]

    def __init__(self, tool: BaseTool) -> None:
        self._tool = tool
        plain: Any = getattr(tool, self.method)
        of = tool
        while isinstance(plain, AtTool):
            plain, of = plain._plain, plain._tool
        is_bound = inspect.ismethod(plain) and plain.__self__ is of
        self._plain: Callable[..., Awaitable[Any]] = MethodType(plain.__func__, tool) if is_bound else plain

    @classmethod
    def stand_at(cls, tool: BaseTool) -> None:
        """Put one at this very tool, unless it is there."""
        current = vars(tool).get(cls.method)
        if not isinstance(current, cls) or current._tool is not tool:
            vars(tool)[cls.method] = cls(tool)


class _Noting(AtTool):
    """Stands where a tool begins to act, and notes what is raised there: ADK makes results of it."""

    notes_loss: ClassVar[bool]
    """Whether what is raised there means that an answer is lost; else it is the tool's own word."""

    async def __call__(self, *args: Any, **words: Any) -> Any:
        sent = _sent.get()
        if sent is None or not (self.notes_loss or sent.tool is self._tool):
            return await self._plain(*args, **words)
        sent.begun += 1
        try:
            return await self._plain(*args, **words)
        except Exception as error:
            if self.notes_loss:
                sent.lost = error
            else:
                sent.raised = error
            raise


class _AtServer(_Noting):
    """Stands where an MCP tool calls its server."""

    method, notes_loss = "_run_async_impl", True


class _AtFunction(_Noting):
    """Stands where a tool calls its function."""

    method, notes_loss = "_invoke_callable", False


class _AtGenerator(_Noting):
    """Stands where a tool runs a function that yields its results."""

    method, notes_loss = "_run_generator_as_node", False


def _is_there(current: Any) -> bool:
    """Say whether one of ours stands here already; another library may have wrapped it."""
    return inspect.unwrap(current, stop=_ours.__contains__) in _ours


def hear_clients() -> None:
    """Hear ADK's clients of MCP servers and REST APIs, for all tools that call by them."""
    for module in (_MCP, _REST):
        with suppress(ImportError):  # the package `mcp` may not be there
            import_module(module)  # now: a function may import it only when it is entered
    _stand_at_servers()
    _stand_at_rest()


def _stand_at_servers() -> None:
    """Stand at each MCP tool that is run, also by a function of the program."""
    kind = mcp_tool()
    if not kind or _is_there(kind.run_async):
        return
    run = kind.run_async

    @functools.wraps(run)
    async def ran(self: Any, **words: Any) -> Any:
        _AtServer.stand_at(self)
        return await run(self, **words)

    _ours.append(ran)
    kind.run_async = ran


def _stand_at_rest() -> None:
    """Stand where ADK calls REST APIs: several kinds of tools have one such client inside."""
    rest: Any = sys.modules.get(_REST)
    if rest is None or _is_there(rest._request):
        return
    request, validate, call = rest._request, rest._validate_url, rest.RestApiTool.call

    @functools.wraps(request)
    async def requested(**words: Any) -> Any:
        sent = _sent.get()
        if sent is None:
            return await request(**words)
        sent.begun += 1
        _refused.set(None)
        try:
            return await request(**words)
        except Exception as error:
            if _refused.get() is None:
                sent.lost = error
            else:
                sent.begun -= 1
            raise

    @functools.wraps(validate)
    async def validated(*args: Any, **words: Any) -> Any:
        try:
            return await validate(*args, **words)
        except Exception as error:
            _refused.set(error)  # the request that asked is not sent
            raise

    @functools.wraps(call)
    async def called(*args: Any, **words: Any) -> Any:
        result, sent = await call(*args, **words), _sent.get()
        if sent is not None:
            sent.made.append(result)
        return result

    _ours.append(requested)
    rest._request, rest._validate_url, rest.RestApiTool.call = requested, validated, called


def mcp_tool() -> Any:
    """Return ADK's class of MCP tools, for `isinstance`; without the package `mcp` there is none."""
    return getattr(sys.modules.get(_MCP), "McpTool", ())


def _is_error(result: Mapping[str, Any]) -> bool:
    """Say whether a result tells an error, in one of the ways in which ADK and MCP servers tell them."""
    return bool(result.get("error")) or result.get("status") == "ERROR" or result.get("isError") is True


def _text_in(result: Mapping[str, Any]) -> str:
    """Return what a result says of an error."""
    said = [one.get("text") for one in result.get("content") or () if isinstance(one, Mapping)]
    said += [result.get("error"), result.get("error_details")]
    return " ".join(one for one in said if isinstance(one, str)).strip() or "the tool failed"


def _enters_itself(tool: BaseTool) -> bool:
    """Say whether all that acts in this tool is behind what notes that it began."""
    run = type(tool).run_async
    return isinstance(tool, (FunctionTool, mcp_tool() or FunctionTool)) and (run in _ours or is_adks(run))
