"""What a call says, whole: its arguments with every default applied. Pure.

Every door binds a call here, once, after its framework has validated the arguments. What is judged, shown, keyed and
run are these arguments, so a default that a model leaves out is seen by the policy and by the approver.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from indelible.core.values.canonical import are_alike, decode, encode
from indelible.core.values.revive import holds_objects, is_what_was_said, plainly
from indelible.errors import BadCall

Parameters = inspect.Signature | Mapping[str, Any]
"""What a tool takes: the signature of a function, or a JSON Schema."""
_DEEPEST = 128
_MOST_STEPS = 100_000
_NONE = object()
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_CONDITIONS = ("if", "then", "else")
_ABOUT = frozenset({"$comment", "$defs", "default", "definitions", "deprecated", "description", "examples", "title"})
"""Are keywords that check nothing themselves."""


def bound(parameters: Parameters | None, args: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return the arguments as the tool gets them.

    Args:
        parameters: What the tool takes; None if that is unknown, and then the arguments stay as they are.
        args: The arguments that the caller names.
        tool: The tool's name, for the error.

    Raises:
        BadCall: The arguments do not fit the signature, one is of another type than the schema says, or the schema
            does not tell which defaults apply.
    """
    if parameters is None:
        return dict(args)
    if isinstance(parameters, inspect.Signature):
        return _by_signature(parameters, args, tool)
    filled: dict[str, Any] = _Filling(parameters, tool).filled(dict(args), parameters, "args")
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
    revived = read(given)
    known = _recorded(revived)
    is_same = are_alike(known, given)
    if not is_what_was_said(said, revived) or (not is_same and holds_objects(said)):
        raise ValueError(
            "the tool would get another object than you passed. Give the parameter the object's class as its type, or "
            "pass JSON values that its type takes"
        )
    if is_same:
        return known
    if not are_alike(known, _recorded(read(known))):
        raise ValueError("its type reads its own values differently each time; let it leave valid values as they are")
    return known


def _recorded(value: Any) -> Any:
    try:
        return decode(encode(plainly(value)))
    except RecursionError:
        raise ValueError("it is nested too deeply, or holds itself") from None


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


class _Filling:
    """Fills the defaults of one JSON Schema into arguments, in nested objects and lists too."""

    def __init__(self, root: Mapping[str, Any], tool: str) -> None:
        self._root = root
        self._tool = tool
        self._steps = 0

    def filled(self, value: Any, schema: Any, at: str, depth: int = 0) -> Any:
        """Return a value with the defaults of its schema; `at` is its place."""
        schema = _resolved(schema, self._root)
        if not isinstance(schema, Mapping):
            return value
        self._check_end(at, depth)
        if isinstance(value, (Mapping, list)):
            self._check_followed(schema, at)
        value = self._own(value, schema, at, depth)  # first, for a default may tell the choices below apart
        for part in _listed(schema.get("allOf")):
            value = self._part(value, part, at, depth)
        for word in ("anyOf", "oneOf"):
            value = self._of_choice(value, _fitting(value, _listed(schema.get(word)), self._root), at, depth)
        for word, inside, part, place in _unsure(value, schema, at):
            if isinstance(part, Mapping) and not are_alike(self._part(inside, part, place, depth), inside):
                raise self._untold(word, place)
        return value

    def _own(self, value: Any, schema: Mapping[str, Any], at: str, depth: int) -> Any:
        if isinstance(value, list):
            pairs = enumerate(zip(value, _items(schema, value), strict=False))
            items = [self.filled(one, kind, f"{at}.{number}", depth + 1) for number, (one, kind) in pairs]
            return [*items, *self._missing_items(schema, len(items), at, depth)]
        if not isinstance(value, Mapping):
            return value
        known, others = _named(schema.get("properties")), _others(schema)
        whole = {
            name: self.filled(one, known.get(name, others), f"{at}.{name}", depth + 1) for name, one in value.items()
        }
        for name, kind in known.items():
            default = _NONE if name in whole else self._default(kind, f"{at}.{name}", depth)
            if default is not _NONE:
                whole[name] = self._part(default, kind, f"{at}.{name}", depth)
        return whole

    def _missing_items(self, schema: Mapping[str, Any], given: int, at: str, depth: int) -> list[Any]:
        """Return the defaults of a tuple's items after those that are given."""
        missing: list[Any] = []
        for number, kind in enumerate(_tuple_of(schema)[given:], given):
            default = self._default(kind, f"{at}.{number}", depth)
            if default is not _NONE and number > given + len(missing):
                raise self._untold("items" if "prefixItems" not in schema else "prefixItems", at)
            missing += [] if default is _NONE else [self._part(default, kind, f"{at}.{number}", depth)]
        return missing

    def _default(self, kind: Any, at: str, depth: int) -> Any:
        """Return the default of a value that is not given, or `_NONE`; refuse if the schema does not tell it."""
        self._check_end(at, depth)
        schema = _resolved(kind, self._root)
        if not isinstance(schema, Mapping) or "default" in schema:
            return schema["default"] if isinstance(schema, Mapping) else _NONE
        self._check_followed(schema, at)
        for part in _listed(schema.get("allOf")):
            if (default := self._default(part, at, depth + 1)) is not _NONE:
                return default
        parts = [(word, one) for word in ("anyOf", "oneOf") for one in _listed(schema.get(word))]
        for word, part in [*parts, *((word, schema.get(word)) for word in _CONDITIONS)]:
            if self._default(part, at, depth + 1) is not _NONE:
                raise self._untold(word, at)
        return _NONE

    def _check_followed(self, schema: Mapping[str, Any], at: str) -> None:
        """Refuse a schema that lies elsewhere, or whose references lead elsewhere than they seem to."""
        word = next((one for one in _REFERENCES if one in schema), None)
        if word is None and schema.get("$id", _NONE) not in (_NONE, self._root.get("$id")):
            word = "$id"
        if word is not None:
            raise self._untold(word, at)

    def _untold(self, word: str, at: str) -> BadCall:
        return BadCall(
            f"{self._tool}: {at}: the tool's schema says {word} here, and the tool may fill in a default by it that is "
            "not judged and shown; name every field, or refer to schemas as in #/$defs/Name"
        )

    def _part(self, value: Any, schema: Any, at: str, depth: int) -> Any:
        self._steps += 1
        return self.filled(value, schema, at, depth + 1)

    def _of_choice(self, value: Any, fitting: list[Any], at: str, depth: int) -> Any:
        """Return a value with the defaults of the choice it fits. Several will do if they fill in the same."""
        if not fitting:
            return value
        found = [self._part(value, one, at, depth) for one in fitting]
        if not _are_same(found):
            exact = [_misread(value, one, self._root, at, depth + 1) is None for one in fitting]
            found = [one for one, is_exact in zip(found, exact, strict=True) if is_exact] or found
        if not _are_same(found):
            raise BadCall(
                f"{self._tool}: {at} fits several choices of the tool's schema, and each fills in other defaults; name "
                "every field of the one you mean"
            )
        return found[0]

    def _check_end(self, at: str, depth: int) -> None:
        if depth > _DEEPEST or self._steps > _MOST_STEPS:
            raise BadCall(f"{self._tool}: {at}: the defaults of the tool's schema have no end; name every field of it")


def _tuple_of(schema: Mapping[str, Any]) -> list[Any]:
    """Return the schemas of the first items of a list; before draft 2020-12, `items` lists them."""
    return _listed(schema.get("prefixItems")) or _listed(schema.get("items"))


def _items(schema: Mapping[str, Any], value: list[Any]) -> list[Any]:
    rest = schema.get("additionalItems" if isinstance(schema.get("items"), list) else "items")
    return [*_tuple_of(schema), *[rest] * len(value)]


def _others(schema: Mapping[str, Any]) -> Any:
    """Return the schema of names that are not listed, where no pattern may be meant for them instead."""
    return None if _named(schema.get("patternProperties")) else schema.get("additionalProperties")


def _unsure(value: Any, schema: Mapping[str, Any], at: str) -> Iterator[tuple[str, Any, Any, str]]:
    """Return the schemas that hold for a value in cases that are not looked into: keyword, value, schema, place."""
    yield from ((word, value, schema.get(word), at) for word in _CONDITIONS)
    if isinstance(value, list):
        words = [("contains", schema.get("contains")), ("unevaluatedItems", schema.get("unevaluatedItems"))]
        yield from ((word, one, part, f"{at}.{place}") for word, part in words for place, one in enumerate(value))
    if isinstance(value, Mapping):
        for word in ("dependentSchemas", "dependencies"):
            yield from ((word, value, part, at) for name, part in _named(schema.get(word)).items() if name in value)
        patterns = _named(schema.get("patternProperties"))
        inside = [("patternProperties", part) for part in patterns.values()]
        unlisted = [("unevaluatedProperties", schema.get("unevaluatedProperties"))]
        unlisted += [("additionalProperties", schema.get("additionalProperties"))] if patterns else []
        for name, one in value.items():
            words = inside if name in _named(schema.get("properties")) else [*inside, *unlisted]
            yield from ((word, one, part, f"{at}.{name}") for word, part in words)


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
        fitting = _fitting(value, _listed(schema.get(word)), root)
        parts += fitting if len(fitting) == 1 else []
    return parts


def _fitting(value: Any, choices: list[Any], root: Mapping[str, Any]) -> list[Any]:
    """Return the choices that an object or a list fits; if some know all of its names, only those."""
    fitting = [one for one in (_resolved(one, root) for one in choices) if _is_for(value, one, root)]
    if not isinstance(value, Mapping):
        return fitting
    return [one for one in fitting if value.keys() <= _named(one.get("properties")).keys()] or fitting


def _is_for(value: Any, schema: Any, root: Mapping[str, Any]) -> bool:
    kind = "object" if isinstance(value, Mapping) else "array" if isinstance(value, list) else None
    if not isinstance(schema, Mapping) or kind is None:
        return False
    told = schema.get("type")
    if not (kind in told if isinstance(told, list) else told in (kind, None)):
        return False
    return kind == "array" or _has_names(value, schema, root)


def _has_names(value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Say whether an object has the names that a schema asks for, and at each the constant that it asks for."""
    known = {name: _named(_resolved(one, root)) for name, one in _named(schema.get("properties")).items()}
    is_filled_in = {name for name, one in known.items() if "default" in one}
    if any(name not in value and name not in is_filled_in for name in _listed(schema.get("required"))):
        return False
    if schema.get("additionalProperties") is False and not value.keys() <= known.keys():
        return False
    return all(_is_constant(value[name], one) for name, one in known.items() if name in value)


def _is_constant(value: Any, schema: Mapping[str, Any]) -> bool:
    constants = [schema["const"]] if "const" in schema else schema.get("enum")
    return not isinstance(constants, list) or any(are_alike(value, one) for one in constants)


def _are_same(values: list[Any]) -> bool:
    return all(are_alike(values[0], one) for one in values)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _named(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """Follow a reference within the schema; what stands beside it stays. One that leads elsewhere is left as it is."""
    for _ in range(_DEEPEST):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return schema
        target = _at(reference, root)
        if target is None:
            return schema
        beside = {name: one for name, one in schema.items() if name != "$ref"}
        schema = _both(target, beside) if isinstance(target, Mapping) else beside
    return schema


def _both(target: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return one schema for what a reference leads to and what stands beside it."""
    if all(target[name] == beside[name] for name in (target.keys() & beside.keys()) - _ABOUT):
        return {**target, **beside}
    default = {"default": target["default"]} if "default" in target else {}
    return {**default, **beside, "allOf": [*_listed(beside.get("allOf")), target]}


def _at(reference: str, root: Mapping[str, Any]) -> Any:
    """Return what a JSON pointer in a schema leads to; None if it leads nowhere."""
    target: Any = root
    for step in reference.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(target, list):
            target = target[int(name)] if name.isdecimal() and int(name) < len(target) else None
        else:
            target = _named(target).get(name)
    return target
