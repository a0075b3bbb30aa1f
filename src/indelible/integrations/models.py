"""What is recorded of arguments that a pydantic model validated: all of them, as the model reads them again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel, TypeAdapter

from indelible.errors import BadCall, NotRecordable
from indelible.tool import bound, encode, left_out, sort_sets

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


Reads = Callable[[Mapping[str, Any]], BaseModel]


def read_by(model: type[BaseModel], args: Mapping[str, Any], tool: str, reads: Reads | None = None) -> dict[str, Any]:
    """Return arguments as a tool gets them from its model, in JSON that the model reads as the same again.

    A secret, for one, is dumped as stars. Then what the model said is recorded, if that shows all of it.

    Args:
        model: Has the fields that are recorded.
        args: What the model said.
        tool: The tool's name.
        reads: Validates arguments. Default: the model does.

    Raises:
        ValueError: The model does not take them.
        NotRecordable: No JSON of them shows all that the tool would get; `path` names the field.
    """
    reads = model.model_validate if reads is None else reads
    validated = reads(copy.deepcopy(args))  # a validator may change what it is given
    dumped: dict[str, Any] = validated.model_dump(mode="json", by_alias=True)
    if _hidden(validated, dumped) is None and _is_read_again(validated, dumped, reads):
        sort_sets(validated, dumped)
        return dumped
    said = bound(model.model_json_schema(), args, tool)
    hidden = _hidden(validated, said)
    if hidden is not None:
        raise _not_shown(hidden)
    return said


def shown_of(value: Any, at: str = "args") -> Any:
    """Return the JSON of validated values.

    Raises:
        NotRecordable: It does not show all of them; `path` names the field.
    """
    try:
        shown = _ANYTHING.dump_python(value, mode="json")
    except ValueError as wrong:
        raise NotRecordable(at, f"has no JSON: {wrong}") from wrong
    hidden = left_out(value, shown, at, _is_shown)
    if hidden is not None:
        raise _not_shown(hidden)
    sort_sets(value, shown)
    return shown


def json_of(value: Any) -> Any:
    """Return the JSON of a value, the same in every process: its sets are lists in one order."""
    dumped = _ANYTHING.dump_python(value, mode="json")
    sort_sets(value, dumped)
    return dumped


def _hidden(validated: BaseModel, shown: Mapping[str, Any]) -> str | None:
    return left_out(validated, shown, "args", _is_shown)


def _is_read_again(validated: BaseModel, shown: Mapping[str, Any], reads: Reads) -> bool:
    try:
        return bool(reads(copy.deepcopy(shown)) == validated)
    except (TypeError, ValueError):  # a value of the program's own may not compare
        return False


def _is_shown(value: Any, shown: Any) -> bool:
    """Say whether JSON tells a value: it is the same, or its type reads it so."""
    if isinstance(value, Enum):
        return _is_shown(value.value, shown)
    try:
        if value is None or isinstance(value, str | int | float):
            return encode(value) == encode(shown)
        return bool(TypeAdapter(type(value)).validate_python(shown) == value)
    except (BadCall, TypeError, ValueError, RuntimeError):  # a type that pydantic does not know, or NaN
        return False


def _not_shown(path: str) -> NotRecordable:
    return NotRecordable(
        path,
        "its JSON does not show what the tool would get, so no person could approve it; use a type without exclude, "
        "secrets or serializers that rewrite it",
    )
