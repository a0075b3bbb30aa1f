"""Says what a dump of a model leaves out or rewrites. Pure.

What is judged, shown and keyed is the dump of an argument. A field that is missing there reaches the tool unseen.
"""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

_NOTHING = object()


def left_out(value: Any, shown: Any, at: str, is_same: Callable[[Any, Any], bool]) -> str | None:
    """Return the place of the first value that a dump does not hold, or None.

    Args:
        value: The value that a tool gets.
        shown: Its dump.
        at: Its place, for example `args.order`.
        is_same: Says whether a plain value is told by what stands in the dump for it.
    """
    if getattr(type(value), "__pydantic_root_model__", False) is True:
        return left_out(value.root, shown, at, is_same)
    parts = _parts(value, shown)
    if parts is None:
        return None if is_same(value, shown) else at
    places = (
        f"{at}.{step}" if one is _NOTHING else left_out(item, one, f"{at}.{step}", is_same) for step, item, one in parts
    )
    return next((place for place in places if place is not None), None)


Place = tuple[str | int, ...]
"""Steps into a recorded value: names of members, and numbers of items."""

INSIDE = -1
"""Stands for the number of a field that is somewhere inside of what an object writes otherwise; `[]` is any item."""

_ROWS = (list, tuple, deque, set, frozenset)


def moved_fields(value: Any, recorded: Any, at: Place = ()) -> dict[Place, dict[str, int | None]]:
    """Return the fields that are not recorded under their own names, by the place of the object that has them.

    A field of a named tuple is recorded at its number. Of a field that a model writes otherwise, only the object is
    known in which it is: its number is None, and `INSIDE` for the fields of what it holds. Without a value it hides
    nothing.

    Args:
        value: The value that is recorded.
        recorded: Its recorded form.
        at: Its place.
    """
    kind: Any = type(value)
    if getattr(kind, "__pydantic_root_model__", False) is True:
        return moved_fields(value.root, recorded, at)
    if isinstance(value, Enum):
        return moved_fields(value.value, recorded, at)
    moved: dict[str, int | None] = {}
    found: dict[Place, dict[str, int | None]] = {}
    inside: set[str] = set()
    if isinstance(value, _ROWS) and isinstance(recorded, list):
        moved = {name: number for number, name in enumerate(getattr(kind, "_fields", ()))}
        for number, (item, one) in enumerate(_pairs(value, recorded)):
            found |= moved_fields(item, one, (*at, number))
    elif isinstance(value, _ROWS):
        inside = _names_within(value)
    for name, item in _members(value, kind):
        if isinstance(recorded, dict) and name in recorded:
            found |= moved_fields(item, recorded[name], (*at, name))
        elif item is not None:
            moved[name] = None
            inside |= _names_within(item)
    moved = {**dict.fromkeys(inside, INSIDE), **moved}
    return found | ({at: moved} if moved else {})


def _pairs(value: Iterable[Any], recorded: list[Any]) -> Iterable[tuple[Any, Any]]:
    """Return items with their recorded forms. Those of a set have no order, so the first stands for all of them."""
    if isinstance(value, set | frozenset):
        return [(next(iter(value)), one) for one in recorded] if value else []
    return zip(value, recorded, strict=False)


def _names_within(value: Any) -> set[str]:
    """Return the names of all fields in a value, at any depth."""
    names: set[str] = set()
    seen: dict[int, Any] = {}
    left = [value]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, str | bytes | int | float | None):
            continue
        seen[id(one)] = one
        kind: Any = type(one)
        if getattr(kind, "__pydantic_root_model__", False) is True:
            left.append(one.root)
        elif isinstance(one, Enum):
            left.append(one.value)
        elif isinstance(one, _ROWS):
            names |= {"[]", *getattr(kind, "_fields", ())}
            left += one
        else:
            members = dict(_members(one, kind))
            names |= members.keys()
            left += members.values()
    return names


def _members(value: Any, kind: Any) -> Iterable[tuple[str, Any]]:
    """Return what an object has under names, except the fields that a model keeps out of its dump."""
    if isinstance(value, Mapping):
        # A member of an enum has a hash of its own. What is no text may be one where a model writes it.
        return [(str.__str__(name) if isinstance(name, str) else str(name), item) for name, item in value.items()]
    if hasattr(kind, "model_fields") and hasattr(kind, "model_dump"):
        own = [name for name, field in kind.model_fields.items() if not field.exclude]
        names = [*own, *getattr(kind, "model_computed_fields", ()), *(value.model_extra or ())]
    else:
        names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    return [(name, getattr(value, name, None)) for name in names]


def sort_sets(value: Any, shown: Any) -> None:
    """Sort the lists of a dump that stand for sets. The order of a set is another one in each process.

    Args:
        value: The value that was dumped.
        shown: Its dump in JSON, in the order in which its sets are iterated. It is changed.
    """
    if getattr(type(value), "__pydantic_root_model__", False) is True:
        sort_sets(value.root, shown)
        return
    for _, item, one in _parts(value, shown) or ():
        sort_sets(item, one)
    if isinstance(value, set | frozenset) and isinstance(shown, list):
        shown.sort(key=lambda one: json.dumps(one, sort_keys=True))


def _parts(value: Any, shown: Any) -> Iterable[tuple[object, Any, Any]] | None:
    """Return what a value consists of, each with what the dump says of it; None for a value without parts."""
    kind: Any = type(value)
    if hasattr(kind, "model_fields") and hasattr(kind, "model_dump"):
        names = {name: _names_of(name, field) for name, field in kind.model_fields.items()}
        names |= {name: (name,) for name in value.model_extra or ()}
        return [(name, getattr(value, name), _first(known, shown)) for name, known in names.items()]
    if dataclasses.is_dataclass(kind):
        fields = [field.name for field in dataclasses.fields(kind)]
        return [(name, getattr(value, name), _first((name,), shown)) for name in fields]
    if isinstance(value, Mapping):
        is_whole = isinstance(shown, Mapping) and len(shown) == len(value)
        items = shown.values() if is_whole else [_NOTHING] * len(value)
        return [(name, item, one) for (name, item), one in zip(value.items(), items, strict=True)]
    if isinstance(value, list | tuple | deque) or (isinstance(value, set | frozenset) and isinstance(shown, list)):
        is_whole = isinstance(shown, list | tuple) and len(shown) == len(value)
        items = shown if is_whole else [_NOTHING] * len(value)
        return [(number, item, one) for number, (item, one) in enumerate(zip(value, items, strict=True))]
    return None


def _names_of(name: str, field: Any) -> tuple[str, ...]:
    aliases = [field.alias, field.serialization_alias, field.validation_alias]
    chosen = getattr(field.validation_alias, "choices", ())
    return name, *(alias for alias in (*aliases, *chosen) if isinstance(alias, str))


def _first(names: Iterable[str], shown: Any) -> Any:
    named = shown if isinstance(shown, Mapping) else {}
    return next((named[name] for name in names if name in named), _NOTHING)
