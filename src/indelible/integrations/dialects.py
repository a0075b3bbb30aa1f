"""How providers write tool calls down, and how they want to be told what came of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from indelible.errors import BadCall
from indelible.tool import encode

Dialect = Literal["chat", "responses", "anthropic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Is a tool call as a model made it, and the dialect in which it hears of it."""

    dialect: Dialect
    call_id: str
    tool: str
    arguments: Any


def asked_in(answer: Iterable[Any] | None) -> list[Asked]:
    """Gives the tool calls in a model's answer; texts, thoughts and what runs at the provider are passed over."""
    read = [_read(one) for one in answer or ()]
    return [one for one in read if one is not None]


def _read(item: Any) -> Asked | None:
    kind, function = _member(item, "type"), _member(item, "function")
    if kind == "function_call":
        return _asked("responses", _member(item, "call_id"), item, "arguments")
    if kind == "tool_use":
        return _asked("anthropic", _member(item, "id"), item, "input")
    if function is not None and kind in ("function", None):
        return _asked("chat", _member(item, "id"), function, "arguments")
    return None


def _asked(dialect: Dialect, call_id: Any, holder: Any, arguments: str) -> Asked:
    return Asked(
        dialect=dialect,
        call_id=str(call_id or ""),
        tool=str(_member(holder, "name") or ""),
        arguments=_member(holder, arguments),
    )


def _member(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def object_in(arguments: Any) -> dict[str, Any]:
    """Return a call's arguments.

    Raises:
        ValueError: They are no JSON object that can be recorded; it says so in words for the model.
    """
    try:
        found = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError) as wrong:
        raise ValueError(f"its arguments are not JSON ({wrong})") from None
    if not isinstance(found, Mapping):
        raise ValueError("its arguments are no JSON object")  # noqa: TRY004  # whoever reads it is a model
    try:
        encode(found, root="args")
    except BadCall as wrong:
        raise ValueError(f"its arguments cannot be recorded ({wrong})") from None
    return dict(found)


def messages_of(told: Sequence[tuple[Asked, str, bool]]) -> list[dict[str, Any]]:
    """Gives the messages by which a model hears what came of its calls: of each its text, and whether it went wrong."""
    messages = [_message(asked, text) for asked, text, _ in told if asked.dialect != "anthropic"]
    blocks = [
        {"type": "tool_result", "tool_use_id": asked.call_id, "content": text, "is_error": is_error}
        for asked, text, is_error in told
        if asked.dialect == "anthropic"
    ]
    # There, all results of one turn stand in one message.
    return [*messages, {"role": "user", "content": blocks}] if blocks else messages


def _message(asked: Asked, text: str) -> dict[str, Any]:
    if asked.dialect == "responses":
        return {"type": "function_call_output", "call_id": asked.call_id, "output": text}
    return {"role": "tool", "tool_call_id": asked.call_id, "content": text}
