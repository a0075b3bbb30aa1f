"""What tools of a graph return, as JSON and back: messages, commands, and lists of both.

What stands for a message or a command is an object with one member whose name begins with `$`. Objects of a tool's own
that have such a member are wrapped, so that nothing a tool returns is ever taken for something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage, ToolMessage, message_to_dict, messages_from_dict
from langgraph.types import Command, Send

from indelible.integrations.telling import with_note

Given: TypeAlias = ToolMessage | Command[Any] | list[ToolMessage | Command[Any]]
REPLAYED = {"replayed": True}


def kept(value: Any) -> Any:
    """Gives what is recorded of a value that a tool or a model returned."""
    match value:
        case BaseMessage():
            return {"$message": _message(value)}
        case Command():
            parts = {"graph": value.graph, "goto": value.goto, "resume": value.resume, "update": value.update}
            return {"$command": {name: kept(part) for name, part in parts.items() if part}}
        case Send():
            return {"$send": [value.node, kept(value.arg)]}
        case Mapping():
            inner = {name: kept(part) for name, part in value.items()}
            return {"$plain": inner} if any(str(name).startswith("$") for name in inner) else inner
        case list() | tuple():
            return [kept(part) for part in value]
        case _:
            return value


def _message(message: BaseMessage) -> dict[str, Any]:
    """Gives a message as JSON; an artifact that has no such form is left out, for the model never sees it."""
    if isinstance(message, ToolMessage) and not _is_json(message.artifact):
        message = message.model_copy(update={"artifact": {"left_out": type(message.artifact).__qualname__}})
    return message_to_dict(message)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def revived(recorded: Any) -> Any:
    """Gives the value that was recorded; nothing but messages, commands and plain values comes of it."""
    match recorded:
        case {"$message": content, **rest} if not rest:
            return messages_from_dict([content])[0]
        case {"$command": parts, **rest} if not rest:
            return Command(**{name: revived(part) for name, part in parts.items()})
        case {"$send": [node, arg], **rest} if not rest:
            return Send(node, revived(arg))
        case {"$plain": inner, **rest} if not rest:
            return {name: revived(part) for name, part in inner.items()}
        case dict():
            return {name: revived(part) for name, part in recorded.items()}
        case list():
            return [revived(part) for part in recorded]
        case _:
            return recorded


def replayed(recorded: Any, was: str | None, now: str | None, note: str | None = None) -> Given:
    """Return a recorded result to the call that asks for it `now`, marked as replayed where nothing else is said.

    The call may have another id than it `was` recorded with: the model expects the answer under the id that it gave.

    Args:
        note: What the model hears with the result, if it called again by itself.
    """
    given: Given = _readdressed(revived(recorded), was, now, note)
    return given


def error_told(given: Given, call_id: str | None) -> ToolMessage | None:
    """Return the message by which a tool tells an error: what it returned, or one to this call inside of that."""
    told = (one for one in _tool_messages(given) if one.status == "error")
    return next((one for one in told if one is given or one.tool_call_id == call_id), None)


def _tool_messages(value: Any) -> Iterator[ToolMessage]:
    match value:
        case ToolMessage():
            yield value
        case Command():
            yield from _tool_messages(value.update)
        case Mapping():
            yield from _tool_messages(list(value.values()))
        case list() | tuple():
            for part in value:
                yield from _tool_messages(part)
        case _:  # it holds no message
            pass


def _readdressed(value: Any, was: str | None, now: str | None, note: str | None) -> Any:
    match value:
        case ToolMessage() if value.tool_call_id == was:
            changed: dict[str, Any] = {} if value.artifact is not None else {"artifact": REPLAYED}
            changed |= {} if was == now else {"tool_call_id": now, "id": None}
            changed |= {} if note is None else {"content": _noted(value.content, note)}
            return value.model_copy(update=changed)
        case Command(update=dict() as update):
            return replace(value, update={name: _readdressed(part, was, now, note) for name, part in update.items()})
        case list():
            return [_readdressed(part, was, now, note) for part in value]
        case _:
            return value


def _noted(content: Any, note: str) -> Any:
    return with_note(content, note) if isinstance(content, str) else [*content, {"type": "text", "text": note}]
