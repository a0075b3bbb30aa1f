"""What tells the calls of Claude Code apart, and for which of them a tool in a server of its Agent SDK is entered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

from indelible import ToolCall
from indelible.integrations.injected import name_beside
from indelible.integrations.telling import is_only_numbered
from indelible.integrations.terms import Named, Terms

T = TypeVar("T")
_CALL_ID = "claudecode/toolUseId"


class BuiltIn(Terms):
    """The terms of tools that Claude Code runs itself.

    A shell and an editor work on files that change, so the same command later is another one: such a call is known by
    its id. The tools of MCP servers are known as everywhere.
    """

    def _usual_dedupe(self, words: Mapping[str, Any], named: Named) -> str:
        usual = super()._usual_dedupe(words, named)
        return "call" if usual == "turn" and not named.tool.startswith("mcp__") else usual


def call_of(terms: Terms, named: Named) -> ToolCall:
    """Return the call. Claude never uses an id again, so a call that is known by its id belongs to no turn.

    Another model behind Claude Code may number its calls: such an id belongs to its turn.
    """
    call = terms.call(named)
    return replace(call, turn=None) if call.dedupe == "call" and not is_only_numbered(call.call_id) else call


def folder_in(event: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return the folder in which Claude Code runs a tool of its own, as what it gives the tool beside the arguments."""
    folder = event.get("cwd")
    if tool.startswith("mcp__") or not isinstance(folder, str) or not folder:
        return {}
    return {name_beside({"properties": event["tool_input"]}, "cwd"): folder}


def without_folder(args: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    """Return recorded arguments as Claude Code takes them: without what it gives the tool itself."""
    return {name: value for name, value in args.items() if name not in call.injected}


def turn_in(event: Mapping[str, Any]) -> str | None:
    """Return the id of the user's prompt that a hook is told; None from a Claude Code that does not tell it."""
    found = event.get("prompt_id")
    return found if isinstance(found, str) and found else None


def said_hash(args: Any) -> str:
    """Return the hash by which the input of a call is known again; `1` and `True` differ."""
    return hashlib.sha256(json.dumps(args, sort_keys=True).encode()).hexdigest()


def told_of(begun: Sequence[tuple[Collection[str], T]], call_id: str, tool_input: Any) -> T | None:
    """Return the call that a hook tells of, the newest if there are several; None if it cannot be told.

    Claude never uses an id again. Another model may number its calls, and its subagents work beside each other: then
    only the input tells which of them it is.

    Args:
        begun: The open calls of this session, tool and id, oldest first, each with the hashes of what was said and of
            what was approved.
        call_id: The id that the model gave the call.
        tool_input: What Claude Code says that the tool was given.
    """
    told = said_hash(tool_input)
    alike = [call for hashes, call in begun if told in hashes]
    if not alike and len(begun) == 1 and not is_only_numbered(call_id):
        return begun[0][1]
    return alike[-1] if alike else None


class CallIds:
    """Knows, inside a tool, the id that the model gave the call; Claude Code sends it beside the arguments."""

    def __init__(self) -> None:
        self._noted: ContextVar[str | None] = ContextVar("indelible_call_id", default=None)
        self._server: Any = None

    def read_from(self, server: Any) -> None:
        """Reads the ids of this server's calls: with mcp 2 on their way in, with mcp 1 where it keeps the request."""
        self._server = server
        if hasattr(server, "middleware"):
            server.middleware.append(self._noting)

    async def _noting(self, context: Any, call_next: Any) -> Any:
        meta = (context.params or {}).get("_meta")
        noted = self._noted.set(_id_in(meta if isinstance(meta, Mapping) else {}))
        try:
            return await call_next(context)
        finally:
            self._noted.reset(noted)

    def current(self) -> str | None:
        """Gives the id of the call that is being carried out; None when nobody said it."""
        if hasattr(self._server, "middleware"):
            return self._noted.get()
        meta = self._server.request_context.meta
        return _id_in({} if meta is None else meta.model_extra or {})


def _id_in(meta: Mapping[str, Any]) -> str | None:
    found = meta.get(_CALL_ID)
    return found if isinstance(found, str) and found else None
