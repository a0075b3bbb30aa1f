"""What a tool gave or how it failed, as it is recorded; and read by another framework than the one that recorded it.

Each integration records what its framework gives back, so that a repeat is the same to it. What the tool itself said is
in there, and this finds it: another framework goes on with that, and so does one whose effect a person settled by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from indelible.integrations.models import json_of

_BESIDE_BLOCKS = frozenset({"_meta", "isError", "is_error", "resultType"})


class ToolError(Exception):
    """Is an error that a tool told as its result, so that it is recorded as the failure it was."""


class ToolAsked(Exception):
    """A tool asked a person for something itself. Declare `nothing_on=ToolAsked` if it asks before it acts."""


class ToolFailed(Exception):
    """Is what a tool raised when it ran; it is not run again."""


def text_in(recorded: Any) -> str:
    """Gives what a model is told of a value that another framework recorded, or that a person settled by hand."""
    value = plain(recorded)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def as_json(value: Any) -> Any:
    """Gives what a tool gave as JSON; what JSON cannot say, a framework would have told the model as a text as well."""
    try:
        return json_of(value)
    except ValueError:
        return str(value)


def plain(recorded: Any) -> Any:
    """Gives what a tool gave, as JSON, without the words of the framework that recorded it."""
    if not isinstance(recorded, Mapping):
        return recorded
    match dict(recorded):
        case {"call_id": _, "gave": gave, **rest} if not rest:
            return _said(gave)
        case {"gave": {"return_value": value}, "is_return": True, **rest} if not rest:
            return value
        case {"gave": gave, "is_return": False, **rest} | {"gave": gave, "actions": _, **rest} if not rest:
            return gave
        case {"gave": [*blocks], **rest} if not rest:
            return _in_blocks(blocks)
        case {"structuredContent": said, "content": [*_]}:
            return said
        case {"content": [{"type": _}, *_] as blocks, **rest} if rest.keys() <= _BESIDE_BLOCKS:
            return _in_blocks(blocks)
        case _:
            return recorded


def _in_blocks(blocks: list[Any]) -> Any:
    """Return the text of blocks of text, as the model heard it; the JSON of a single block; else the blocks."""
    if len(blocks) == 1 and isinstance(blocks[0], Mapping) and set(blocks[0]) == {"json"}:
        return blocks[0]["json"]
    texts = [one.get("text") if isinstance(one, Mapping) else None for one in blocks]
    return "\n".join(map(str, texts)) if texts and all(isinstance(text, str) for text in texts) else blocks


def _said(gave: Any) -> Any:
    """Gives what the messages say that a tool of a graph gave back."""
    match gave:
        case {"$message": {"data": {"content": content}}}:
            return content
        case {"$command": {"update": {"messages": [*messages]}}} | [*messages] if messages:
            said = [_said(message) for message in messages]
            return said[0] if len(said) == 1 else said
        case _:
            return gave
