"""Gives recorded values back the types a function's signature asks for."""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Mapping
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints


def revive(value: Any, hint: Any) -> Any:
    """Gives `value` as `hint` describes it, where the record keeps a plainer form; else leaves it as it is."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return revive(value, inner[0])
    if origin in (Union, types.UnionType):
        return _revive_union(value, inner)
    if isinstance(value, list) and inner:
        return _revive_items(value, origin, inner)
    if isinstance(value, dict) and isinstance(origin, type) and issubclass(origin, Mapping) and len(inner) == 2:
        return {name: revive(item, inner[1]) for name, item in value.items()}
    if isinstance(hint, type):
        return _revive_class(value, hint)
    return value


def _revive_union(value: Any, choices: tuple[Any, ...]) -> Any:
    """Takes the first choice that changes the value; a value that is plainly one of them stays."""
    if any(type(value) is choice for choice in choices):
        return value
    for choice in choices:
        try:
            revived = revive(value, choice)
        except (TypeError, ValueError):
            continue
        if type(revived) is not type(value):
            return revived
    return value


def _revive_items(items: list[Any], origin: Any, inner: tuple[Any, ...]) -> Any:
    if origin is tuple and inner[-1:] != (...,):
        return tuple(revive(item, hint) for item, hint in zip(items, inner, strict=False))
    revived = [revive(item, inner[0]) for item in items]
    return tuple(revived) if origin is tuple else revived


def _revive_class(value: Any, hint: type) -> Any:
    if issubclass(hint, enum.Enum):
        return hint(tuple(value) if isinstance(value, list) else value)
    if hint is float and type(value) is int:
        return float(value)
    if issubclass(hint, tuple) and isinstance(value, list):
        return _revive_tuple(value, hint)
    if isinstance(value, dict):
        if dataclasses.is_dataclass(hint):
            return _revive_dataclass(value, hint)
        if hasattr(hint, "model_validate"):
            return _revive_model(value, hint)
    return value


def _revive_tuple(items: list[Any], hint: type[tuple[Any, ...]]) -> Any:
    names = getattr(hint, "_fields", None)
    if names is None:
        return tuple(items)
    hints = _hints_of(hint)
    return hint(*(revive(item, hints.get(name, Any)) for name, item in zip(names, items, strict=True)))


def _revive_dataclass(members: dict[str, Any], hint: type) -> Any:
    hints = _hints_of(hint)
    taken = {field.name for field in dataclasses.fields(hint) if field.init}
    return hint(**{name: revive(item, hints.get(name, Any)) for name, item in members.items() if name in taken})


def _revive_model(members: dict[str, Any], hint: Any) -> Any:
    try:
        return hint.model_validate(members, by_name=True, by_alias=True)  # it was recorded by the fields' own names
    except TypeError:
        return hint.model_validate(members)  # an older pydantic


def _hints_of(hint: type) -> dict[str, Any]:
    try:
        return get_type_hints(hint)
    except NameError:  # a hint that names something only a type checker knows
        return {}
