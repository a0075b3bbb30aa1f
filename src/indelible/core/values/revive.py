"""Gives recorded values back the types a function's signature asks for."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import sys
import types
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from indelible.core.values.canonical import encode

_PLAIN = frozenset({str, int, bool, float, type(None)})
_WITHOUT_PLACES = (str, int, float, bytes, type(None), Decimal, date, UUID)
"""Are recorded as one value: no path leads inside."""


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


def is_read_otherwise(hint: Any) -> bool:
    """Say whether `revive` may make another value of what is recorded; of plain types it never does."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return is_read_otherwise(inner[0])
    if inner:
        return (origin is tuple and inner[-1:] != (...,)) or any(is_read_otherwise(one) for one in inner)
    if not isinstance(hint, type):
        return False
    if hint is Unresolved:
        return True  # so that an object is refused, which the function would get as JSON
    is_class = dataclasses.is_dataclass(hint) or hasattr(hint, "model_validate") or _is_typed_dict(hint)
    return is_class or (issubclass(hint, enum.Enum | tuple) and hint is not tuple)


def leads_to(hint: Any, steps: Sequence[str]) -> bool:
    """Say whether a recorded value of this type may have something at these steps; a type that does not tell may.

    A step is a field's own name, `*` for any one name, or `[]` for any item.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if not steps:
        return True
    if origin is Annotated:
        return leads_to(inner[0], steps)
    if origin in (Union, types.UnionType):
        return any(leads_to(one, steps) for one in inner)
    kind: Any = origin if isinstance(origin, type) else hint
    if not isinstance(kind, type):
        return True
    step, *rest = steps
    fields = _types_of_fields(kind)
    if fields is not None and _is_root_model(kind):
        return leads_to(fields["root"], steps)
    if fields is not None:
        found = [one for name, one in fields.items() if step in ("*", name)]
        return any(leads_to(one, rest) for one in found) or (not found and _takes_others(kind))
    if issubclass(kind, _WITHOUT_PLACES):
        return False
    if issubclass(kind, Mapping):
        return step != "[]" and leads_to(inner[1] if len(inner) == 2 else Any, rest)
    if issubclass(kind, Collection):
        return step == "[]" and any(leads_to(one, rest) for one in inner or (Any,) if one is not ...)
    return True


def _types_of_fields(kind: Any) -> dict[str, Any] | None:
    """Return the types of what is recorded of a class, by name; None for a class that has no fields."""
    if _is_model(kind):
        known = {name: field.annotation for name, field in kind.model_fields.items()}
        return known | dict.fromkeys(kind.model_computed_fields, Any)
    if dataclasses.is_dataclass(kind):
        hints = hints_of(kind)
        return {field.name: hints.get(field.name, Any) for field in dataclasses.fields(kind)}
    return hints_of(kind) if _is_typed_dict(kind) else None


def _takes_others(kind: Any) -> bool:
    """Say whether a model keeps what it has no field for."""
    return _is_model(kind) and kind.model_config.get("extra") == "allow"


def plainly(value: Any) -> Any:
    """Return a value with each model and dataclass as the object of its fields: their own names, their own values.

    A model's dump may hide or rewrite a field. What is recorded has to be what a tool reads, so it is not asked.

    Raises:
        ValueError: A model keeps a field out of its dump (`exclude=True`), so it cannot be shown.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, enum.Enum):
        return plainly(value.value)
    if _is_model(kind):
        return _fields_of_model(value, kind)
    if dataclasses.is_dataclass(kind):
        return {field.name: plainly(getattr(value, field.name)) for field in dataclasses.fields(kind)}
    if isinstance(value, Mapping):
        return {name: plainly(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plainly(item) for item in value]
    return value


def is_what_was_said(said: Any, got: Any) -> bool:
    """Say whether a function that gets `got` gets each object in `said` as it was passed; plain JSON always fits."""
    kind: Any = type(said)
    if kind in _PLAIN:
        return True
    if isinstance(said, enum.Enum):
        return said is got or (not isinstance(got, enum.Enum) and bool(plainly(said) == got))
    if isinstance(said, set | frozenset):
        return bool(said == got)
    if isinstance(said, Mapping):
        return all(is_what_was_said(item, _member(got, name)) for name, item in said.items())
    if isinstance(said, list | tuple):
        is_of_kind = (
            type(got) is kind if issubclass(kind, tuple) and kind is not tuple else isinstance(got, list | tuple)
        )
        items = got if is_of_kind and len(got) == len(said) else [None] * len(said)
        return (is_of_kind or kind in (list, tuple)) and all(map(is_what_was_said, said, items))
    if not _is_model(kind) and not dataclasses.is_dataclass(kind):
        return True
    names = _names_in(said, kind)
    return (
        type(got) is kind
        and _beside(said, kind, names) == _beside(got, kind, names)
        and all(is_what_was_said(getattr(said, name), getattr(got, name, None)) for name in names)
    )


def holds_objects(value: Any) -> bool:
    """Say whether a caller passed objects, and not the JSON that could stand for them."""
    return not is_what_was_said(value, None)


def _member(got: Any, name: Any) -> Any:
    return got.get(name) if isinstance(got, Mapping) else getattr(got, str(name), None)


def _names_in(value: Any, kind: Any) -> list[str]:
    if _is_model(kind):
        return [*kind.model_fields, *(value.model_extra or ())]
    return [field.name for field in dataclasses.fields(kind)]


def _beside(value: Any, kind: Any, names: list[str]) -> dict[str, bytes]:
    """Return what an object holds that is no field, such as private attributes, where that has a recorded form."""
    held = {**getattr(value, "__dict__", {}), **(getattr(value, "__pydantic_private__", None) or {})}
    found = {}
    for name in held.keys() - set(names):
        if not isinstance(getattr(kind, name, None), functools.cached_property):
            with suppress(TypeError, ValueError):
                found[name] = encode(plainly(held[name]))
    return found


def _fields_of_model(model: Any, kind: Any) -> Any:
    if _is_root_model(kind):
        return plainly(_leaf(model.root))
    hidden = [name for name, field in kind.model_fields.items() if field.exclude]
    if hidden:
        raise ValueError(f"{kind.__qualname__} keeps {', '.join(hidden)} out of its dump, so no person could see it")
    names = [*kind.model_fields, *kind.model_computed_fields, *(model.model_extra or ())]
    return {name: plainly(_leaf(getattr(model, name))) for name in names}


def _leaf(value: Any) -> Any:
    """Return what pydantic reads a field's value from, where it has no recorded form of its own: an address, a set."""
    if isinstance(value, set | frozenset):
        return sorted(map(plainly, value), key=encode)
    kind: Any = type(value)
    if kind.__module__.partition(".")[0] not in ("pydantic", "ipaddress", "pathlib") or _is_model(kind):
        return value
    text = str(value)
    return text if kind(text) == value else value  # a secret's text is stars


def _revive_union(value: Any, choices: tuple[Any, ...]) -> Any:
    """Take the first choice that changes the value, or an item of it; a value that is plainly one of them stays."""
    if any(type(value) is choice for choice in choices):
        return value
    for choice in choices:
        try:
            revived = revive(value, choice)
        except (TypeError, ValueError):
            continue
        if type(revived) is not type(value) or (isinstance(value, list | dict) and revived != value):
            return revived
    return value


def _revive_items(items: list[Any], origin: Any, inner: tuple[Any, ...]) -> Any:
    if origin is tuple and inner[-1:] != (...,):
        return tuple(revive(item, hint) for item, hint in zip(items, inner, strict=True))
    revived = [revive(item, inner[0]) for item in items]
    return tuple(revived) if origin is tuple else revived


def _revive_class(value: Any, hint: type) -> Any:
    if issubclass(hint, enum.Enum):
        return hint(tuple(value) if isinstance(value, list) else value)
    if hint is float and type(value) is int:
        return float(value) if _is_float(value) else value  # as it was recorded and approved
    if issubclass(hint, tuple) and isinstance(value, list):
        return _revive_tuple(value, hint)
    if _is_root_model(hint):
        return _revive_model(value, hint)
    if isinstance(value, dict):
        if dataclasses.is_dataclass(hint):
            return _revive_dataclass(value, hint)
        if hasattr(hint, "model_validate"):
            return _revive_model(_uncomputed(value, hint), hint)
        if _is_typed_dict(hint):
            hints = hints_of(hint)
            return {name: revive(item, hints.get(name, Any)) for name, item in value.items()}
    return value


def _is_float(number: int) -> bool:
    try:
        return float(number) == number
    except OverflowError:
        return False


def _revive_tuple(items: list[Any], hint: type[tuple[Any, ...]]) -> Any:
    names = getattr(hint, "_fields", None)
    if names is None:
        return tuple(items)
    hints = hints_of(hint)
    return hint(*(revive(item, hints.get(name, Any)) for name, item in zip(names, items, strict=True)))


def _revive_dataclass(members: dict[str, Any], hint: type) -> Any:
    hints = hints_of(hint)
    taken = {field.name for field in dataclasses.fields(hint) if field.init}
    return hint(**{name: revive(item, hints.get(name, Any)) for name, item in members.items() if name in taken})


def _revive_model(members: Any, hint: Any) -> Any:
    try:
        return hint.model_validate(members, by_name=True, by_alias=True)  # it was recorded by the fields' own names
    except TypeError:
        return hint.model_validate(members)  # an older pydantic


def _uncomputed(members: dict[str, Any], hint: Any) -> dict[str, Any]:
    """Return a model's recorded fields without those that it computes, which it does not take."""
    computed = getattr(hint, "model_computed_fields", ())
    return {name: item for name, item in members.items() if name not in computed}


def _is_model(kind: type) -> bool:
    return hasattr(kind, "model_validate") and hasattr(kind, "model_fields")


def _is_root_model(kind: type) -> bool:
    return getattr(kind, "__pydantic_root_model__", False) is True


def _is_typed_dict(hint: type) -> bool:
    return issubclass(hint, dict) and hasattr(hint, "__total__")


class Unresolved:
    """Stands for a hint that names something only a type checker knows."""


def hints_of(thing: Any) -> dict[str, Any]:
    """Return the types that the hints of a function or class name; `Unresolved` for each that is not known here."""
    try:
        return get_type_hints(thing)
    except TypeError:  # an object: of one that can be called, those of its call hold
        is_partial = isinstance(thing, functools.partial)
        function = thing.func if is_partial else inspect.getattr_static(type(thing), "__call__", None)
        return hints_of(function) if inspect.isroutine(function) else {}
    except (NameError, AttributeError):
        found: dict[str, Any] = {}
    for owner in reversed(getattr(thing, "__mro__", (thing,))):
        space = getattr(inspect.unwrap(owner), "__globals__", None)
        if space is None:  # a class: its own names are nearer than those of its module
            space = {**getattr(sys.modules.get(owner.__module__), "__dict__", {}), **vars(owner)}
        for name, hint in inspect.get_annotations(owner).items():
            try:
                found |= get_type_hints(types.SimpleNamespace(__annotations__={name: hint}), space)
            except (NameError, AttributeError):
                found[name] = Unresolved
    return found
