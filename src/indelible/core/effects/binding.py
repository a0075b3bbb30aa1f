"""What a call says, whole: its arguments with every default applied. Pure.

Every door binds a call here, once, after its framework has validated the arguments. What is judged, shown, keyed and
run are these arguments, so a default that a model leaves out is seen by the policy and by the approver.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from indelible.core.values.canonical import decode, encode
from indelible.core.values.revive import holds_objects, plainly
from indelible.errors import BadCall

Parameters = inspect.Signature | Mapping[str, Any]
"""What a tool takes: the signature of a function, or a JSON Schema."""
_DEEPEST = 32


def bound(parameters: Parameters | None, args: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return the arguments as the tool gets them.

    Args:
        parameters: What the tool takes; None if that is unknown, and then the arguments stay as they are.
        args: The arguments that the caller names.
        tool: The tool's name, for the error.

    Raises:
        BadCall: The arguments do not fit the signature, or one is of another type than the schema says.
    """
    if parameters is None:
        return dict(args)
    if isinstance(parameters, inspect.Signature):
        return _by_signature(parameters, args, tool)
    filled = _filled(args, parameters, parameters, 0)
    assert isinstance(filled, dict)
    misread = _misread(filled, parameters, parameters, "args", 0)
    if misread is not None:
        raise BadCall(
            f"{tool}: {misread} is of another type than the tool's schema says, and the tool may read another value "
            "than is judged and shown; give it as the schema says"
        )
    return filled


def as_read(said: Any, read: Callable[[Any], Any]) -> Any:
    """Return a value as its tool reads it, in the form that is recorded. Reading that form gives the same value.

    So a default inside a model is there, under the field's own name, and a number is a number. What the model leaves
    unread is not there.

    Args:
        said: The value that the caller gave: JSON, or an object such as a model.
        read: Makes of recorded JSON what the function gets.

    Raises:
        ValueError: It cannot be recorded so that the tool reads it again as it was.
    """
    given = _recorded(said)
    known = _recorded(read(given))
    if _is_same(known, given):
        return known
    if holds_objects(said):
        raise ValueError("the tool would get another object than you passed; pass JSON values that its type takes")
    if not _is_same(known, _recorded(read(known))):
        raise ValueError("its type reads its own values differently each time; let it leave valid values as they are")
    return known


def _recorded(value: Any) -> Any:
    try:
        return decode(encode(plainly(value)))
    except RecursionError:
        raise ValueError("it is nested too deeply, or holds itself") from None


def _is_same(one: Any, other: Any) -> bool:
    return encode(one) == encode(other)


def _by_signature(signature: inspect.Signature, args: Mapping[str, Any], tool: str) -> dict[str, Any]:
    taken = signature.parameters.values()
    first = [one.name for one in taken if one.kind is one.POSITIONAL_ONLY and one.name in args]
    rest = {name: value for name, value in args.items() if name not in first}
    try:
        arguments = signature.bind(*(args[name] for name in first), **rest)
    except TypeError as wrong:
        raise BadCall(f"{tool}: the arguments do not fit the tool: {wrong}") from None
    arguments.apply_defaults()
    return dict(arguments.arguments)


def _filled(value: Any, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """Fill in the defaults of a JSON Schema, in nested objects and lists too."""
    schema = _resolved(schema, root)
    if depth > _DEEPEST or not isinstance(schema, Mapping):
        return value
    for part in _parts(value, schema, root):
        value = _filled(value, part, root, depth + 1)
    if isinstance(value, Mapping):
        known = _named(schema.get("properties"))
        others = schema.get("additionalProperties")
        filled = {name: _filled(one, known.get(name, others), root, depth + 1) for name, one in value.items()}
        missing = {name: _resolved(one, root) for name, one in known.items() if name not in value}
        return filled | {
            name: one["default"] for name, one in missing.items() if isinstance(one, Mapping) and "default" in one
        }
    if isinstance(value, list):
        return [_filled(one, kind, root, depth + 1) for one, kind in zip(value, _items(schema, value), strict=False)]
    return value


def _items(schema: Mapping[str, Any], value: list[Any]) -> list[Any]:
    return [*_listed(schema.get("prefixItems")), *[schema.get("items")] * len(value)]


_SCALARS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
}


def _misread(value: Any, schema: Any, root: Mapping[str, Any], at: str, depth: int) -> str | None:
    """Return the place of a value that a lenient reader would convert: "5" where 5 is expected, or JSON in a text."""
    schema = _resolved(schema, root)
    if depth > _DEEPEST or not isinstance(schema, Mapping):
        return None
    choices = [*_listed(schema.get("anyOf")), *_listed(schema.get("oneOf"))]
    if not _is_read_as_it_is(value, [schema.get("type")]):
        return at
    if choices and not _is_read_as_it_is(value, [_named(_resolved(one, root)).get("type") for one in choices]):
        return at
    inside: list[tuple[Any, Any, str]] = [(value, part, at) for part in _parts(value, schema, root)]
    if isinstance(value, Mapping):
        known, others = _named(schema.get("properties")), schema.get("additionalProperties")
        inside += [(one, known.get(name, others), f"{at}.{name}") for name, one in value.items()]
    elif isinstance(value, list):
        pairs = enumerate(zip(value, _items(schema, value), strict=False))
        inside += [(one, kind, f"{at}.{number}") for number, (one, kind) in pairs]
    found = (_misread(one, part, root, place, depth + 1) for one, part, place in inside)
    return next((place for place in found if place is not None), None)


def _is_read_as_it_is(value: Any, types: list[Any]) -> bool:
    """Say whether one of the types of a schema is that of the value. Nothing is said where a type is not told."""
    named = [name for one in types for name in (one if isinstance(one, list) else [one])]
    is_told = all(name in _JSON_TYPES for name in named)
    may_be_read = type(value) is str or any(name in _SCALARS for name in named)
    if type(value) not in (str, int, float, bool) or not is_told or not may_be_read:
        return True
    return any(type(value) in _SCALARS.get(name, ()) for name in named)


_JSON_TYPES = frozenset({*_SCALARS, "object", "array", "null"})


def _parts(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
    """Return the schemas that hold beside this one: all of `allOf`, and of a choice the only one for such a value."""
    parts = [*_listed(schema.get("allOf"))]
    for word in ("anyOf", "oneOf"):
        fitting = [one for one in _listed(schema.get(word)) if _is_for(value, _resolved(one, root))]
        parts += fitting if len(fitting) == 1 else []
    return parts


def _is_for(value: Any, schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    kind = "object" if isinstance(value, Mapping) else "array" if isinstance(value, list) else None
    told = schema.get("type")
    return kind is not None and (kind in told if isinstance(told, list) else told in (kind, None))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _named(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """Follow a reference within the schema; a default beside it stays."""
    for _ in range(_DEEPEST):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        target: Any = root
        for name in reference[2:].split("/"):
            target = target.get(name) if isinstance(target, Mapping) else None
        beside = {name: one for name, one in schema.items() if name != "$ref"}
        schema = {**target, **beside} if isinstance(target, Mapping) else beside
    return schema
