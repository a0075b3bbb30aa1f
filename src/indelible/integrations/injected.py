"""What a framework gives a tool beside the model's arguments: a field of its state, a context, dependencies.

The rule, for every framework: values that are JSON are recorded, shown to the approver and bound by the approval. All
others are named by their type as not shown: handles, messages, secrets by their name, and fields that the tool's terms
list in `unbound`. None of them tells one call from another, so a growing state turns no replay into another call.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel, TypeAdapter

NOT_SHOWN = "not_shown"
_LARGEST = 20_000
_SECRET = re.compile(r"secret|password|passwd|token|credential|cookie|api_?key|private_?key|authorization", re.I)
_AS_TEXT = (datetime, date, time, timedelta, Decimal, UUID, Enum, PurePath)
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


def recorded(values: Mapping[str, Any], unbound: Iterable[str] = (), opaque: tuple[type, ...] = ()) -> dict[str, Any]:
    """Return the values as they are recorded.

    Args:
        values: The values by name. The fields of an object among them are looked at one by one.
        unbound: Names of values and of fields that may change until the tool runs.
        opaque: Types that are never shown, for example messages.
    """
    left_out = frozenset(unbound)
    return {name: _fields(value, name, left_out, opaque) for name, value in values.items()}


def name_beside(parameters: Any, name: str) -> str:
    """Return a name for what a tool gets beside its parameters, which none of them has.

    Args:
        parameters: The JSON schema of the tool's parameters.
        name: The name to begin with.
    """
    taken = parameters.get("properties", {}) if isinstance(parameters, Mapping) else {}
    while name in taken:
        name += "_"
    return name


def _fields(value: Any, name: str, left_out: frozenset[str], opaque: tuple[type, ...]) -> Any:
    """Return a value, or an object by its fields."""
    inside = None if isinstance(value, opaque) or name in left_out else _fields_of(value)
    if inside is None:
        return _shown(value, name, left_out, opaque)
    return {field: _shown(one, field, left_out, opaque) for field, one in inside.items()}


def _fields_of(value: Any) -> dict[str, Any] | None:
    if isinstance(value, Mapping):
        return {str(name): one for name, one in value.items()}
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    known = getattr(value, "__dict__", None)
    if isinstance(value, type) or type(value).__module__ == "builtins" or not isinstance(known, dict):
        return None
    return {name: one for name, one in known.items() if not name.startswith("_")}


def _shown(value: Any, name: str, left_out: frozenset[str], opaque: tuple[type, ...]) -> Any:
    if name not in left_out and not _SECRET.search(name):
        try:
            shown = _plain(value, opaque)
        except _NotPlain:
            pass
        else:
            return shown
    return {NOT_SHOWN: f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")}


class _NotPlain(Exception):
    """A value has something in it that is no JSON, or is too large to be read."""


def _plain(value: Any, opaque: tuple[type, ...]) -> Any:
    shown = _json(value, opaque)
    if isinstance(shown, (str, list, dict)) and len(_ANYTHING.dump_json(shown)) > _LARGEST:
        raise _NotPlain
    return shown


def _json(value: Any, opaque: tuple[type, ...]) -> Any:
    match value:
        case _ if isinstance(value, opaque):
            raise _NotPlain
        case Enum():
            return _json(value.value, opaque)
        case None | bool() | int() | float() | str():
            return value
        case _ if isinstance(value, _AS_TEXT):
            return _ANYTHING.dump_python(value, mode="json")
        case Mapping() if all(isinstance(name, str) and not _SECRET.search(name) for name in value):
            return {name: _json(one, opaque) for name, one in value.items()}
        case list() | tuple():
            return [_json(one, opaque) for one in value]
        case set() | frozenset():
            return sorted((_json(one, opaque) for one in value), key=repr)
        case _:
            raise _NotPlain
