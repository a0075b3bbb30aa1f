"""Answers of MCP servers that are lost: the SDK's client makes results of them, which a tool may hand on."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from strands.tools.mcp import MCPClient

_at_clients: list[Any] = []
"""What stands at the SDK's client."""
_lost: ContextVar[list[Any] | None] = ContextVar("indelible_strands_lost", default=None)


@contextmanager
def noting_lost() -> Iterator[list[Any]]:
    """Note what the SDK raises or makes of answers that are lost inside."""
    found: list[Any] = []
    token = _lost.set(found)
    try:
        yield found
    finally:
        _lost.reset(token)


def hear_clients() -> None:
    """Hear what the SDK's clients of MCP servers make results of, for all tools that call by them."""
    if inspect.unwrap(MCPClient.call_tool_sync, stop=_at_clients.__contains__) in _at_clients:
        return  # another library may have wrapped what stands there
    plain, awaited = MCPClient.call_tool_sync, MCPClient.call_tool_async

    @functools.wraps(plain)
    def call_tool_sync(self: Any, *args: Any, **words: Any) -> Any:
        try:
            result = plain(self, *args, **words)
        except Exception as error:
            _note(self, error)
            raise
        _note(self, result)
        return result

    @functools.wraps(awaited)
    async def call_tool_async(self: Any, *args: Any, **words: Any) -> Any:
        try:
            result = await awaited(self, *args, **words)
        except Exception as error:
            _note(self, error)
            raise
        _note(self, result)
        return result

    _at_clients.append(call_tool_sync)
    MCPClient.call_tool_sync, MCPClient.call_tool_async = call_tool_sync, call_tool_async


def _note(client: Any, result: Any) -> None:
    """Note what a call raised, or a result that is an error which the server did not report.

    The SDK makes results of lost answers, without `isError`. With tasks, its results have `isError` as well.
    """
    found = _lost.get()
    if found is not None and (isinstance(result, Exception) or is_lost(client, result)):
        found.append(result)


def is_lost(client: Any, result: Any) -> bool:
    """Say whether a result is an error that the server did not report."""
    is_reported = result.get("isError") is True and not result.get("cancelled") and not client._is_tasks_enabled()
    return result["status"] == "error" and not is_reported
