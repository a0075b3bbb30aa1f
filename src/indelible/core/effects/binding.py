"""What a call says, whole: its arguments with every default applied. Pure.

Every door binds a call here, once, after its framework has validated the arguments. What is judged, shown, keyed and
run are these arguments, so a default that a model leaves out is seen by the policy and by the approver.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

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
        BadCall: The arguments do not fit the signature.
    """
    if parameters is None:
        return dict(args)
    if isinstance(parameters, inspect.Signature):
        return _by_signature(parameters, args, tool)
    filled = _filled(args, parameters, parameters, 0)
    assert isinstance(filled, dict)
    return filled


def filled(said: Any, read: Any) -> Any:
    """Return what was said, with what the value has besides that was read of it: the defaults of a model inside.

    Args:
        said: The value that the caller gave, as JSON.
        read: What a function's type makes of it, as JSON.
    """
    if isinstance(said, Mapping) and isinstance(read, Mapping):
        known = {name: filled(one, read[name]) if name in read else one for name, one in said.items()}
        return {**read, **known}
    if isinstance(said, list) and isinstance(read, list) and len(said) == len(read):
        return [filled(one, other) for one, other in zip(said, read, strict=True)]
    return said


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
        first = schema.get("prefixItems")
        kinds = [*(first if isinstance(first, list) else ()), *[schema.get("items")] * len(value)]
        return [_filled(one, kind, root, depth + 1) for one, kind in zip(value, kinds, strict=False)]
    return value


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
