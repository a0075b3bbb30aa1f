"""What a framework gives a tool beside the model's arguments: a field of its state, a context, dependencies.

The rule, for every framework: values that are JSON are recorded, shown to the approver and bound by the approval. So
are models, dataclasses and named tuples, field by field, at any depth; inside of others, with their class. All other
values are named by their type as not shown, each by itself: handles, messages, secrets by their name, and fields that
the tool's terms list in `unbound`. Of an object that is given directly, nothing that it holds is passed over, private
attributes included. Properties and what its class holds are code. None of these tells one call from another, so a
growing state turns no replay into another call.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import struct
from collections.abc import Container, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel, TypeAdapter

NOT_SHOWN = "not_shown"
_LARGEST = 20_000
_DEEPEST = 60
_MOST_READ = 5000
_SECRET = re.compile(r"secret|password|passwd|token|credential|cookie|api_?key|private_?key|authorization", re.I)
_AS_TEXT = (datetime, date, time, timedelta, Decimal, UUID, PurePath)
_TEXTS = (str, int, float, *_AS_TEXT)
_PLAIN = (list, tuple, set, frozenset, *_TEXTS)
_READ_AS_TEXT = frozenset({"pathlib", "uuid"})
"""Modules whose classes keep in slots what their text says."""
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


def holds_secret(name: str, value: Any) -> bool:
    """Say whether a JSON value is a secret by its name, or has one inside, at any depth."""
    match value:
        case dict():
            inside: Iterable[tuple[str, Any]] = value.items()
        case list():
            inside = [("", one) for one in value]
        case _:
            inside = ()
    return _is_secret(name, value) or any(holds_secret(one, item) for one, item in inside)


def _is_secret(name: str, value: Any) -> bool:
    is_count = name.lower().endswith("tokens") and isinstance(value, int)
    return _SECRET.search(name) is not None and not is_count


def name_beside(parameters: Any, name: str) -> str:
    """Return a name for what a tool gets beside its parameters, which none of them has.

    Args:
        parameters: The JSON schema of the tool's parameters.
        name: The name to begin with.
    """
    return _free(name, parameters.get("properties", {}) if isinstance(parameters, Mapping) else {})


def _fields(value: Any, name: str, left_out: frozenset[str], opaque: tuple[type, ...]) -> Any:
    """Return a value, or an object by its fields."""
    inside = None if isinstance(value, opaque) or name in left_out else _fields_of(value)
    if inside is None:
        return _shown(value, name, left_out, _Reader(opaque))
    return {field: _shown(one, field, left_out, _Reader(opaque, value)) for field, one in inside.items()}


def _fields_of(value: Any) -> dict[str, Any] | None:
    """Return all that an object holds; None for a value that is no object with fields.

    What its fields do not show stands beside them: the text, number or items that it is, or else its type as not shown.
    """
    if isinstance(value, (type, Enum)):
        return None
    found, kind = _attributes(value), cast(Any, type(value))
    if isinstance(value, Mapping):
        items = {str(name): one for name, one in value.items()}
        if len(items) < len(value):  # two names that are written alike: one of them would not be shown
            return None
        return {_free(name, items): one for name, one in found.items()} | items
    if isinstance(value, BaseModel):
        found |= (value.model_extra or {}) | (value.__pydantic_private__ or {})
    elif dataclasses.is_dataclass(value):
        found |= _held(value, [field.name for field in dataclasses.fields(value)])
    elif _is_named_tuple(value):
        return dict(zip(kind._fields, value, strict=True)) | {_free(name, kind._fields): found[name] for name in found}
    elif isinstance(value, functools.partial):
        return found | {"func": value.func, "args": value.args, "keywords": value.keywords}
    if not found or kind.__module__ == "builtins":
        return None
    if isinstance(value, _PLAIN):
        return {_free("value", found): _plain(value), **found}
    return found if _is_whole(kind) else {**found, _free(NOT_SHOWN, found): _type_of(value)}


def _held(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields that an object has; one that cannot be read now, as of a detached row, by the error's type."""
    found = {}
    for name in names:
        try:
            found[name] = getattr(value, name)
        except AttributeError:
            continue
        except Exception as error:
            found[name] = error
    return found


@functools.lru_cache(maxsize=1024)
def _is_whole(kind: Any) -> bool:
    """Say whether objects of a class hold nothing but attributes: what C code keeps in them makes them larger."""
    names = [name for one in kind.__mro__ for name in _slots_of(one) if name not in ("__dict__", "__weakref__")]
    places = len(names) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return not kind.__itemsize__ and kind.__basicsize__ <= object.__basicsize__ + places * struct.calcsize("P")


def _plain(value: Any) -> Any:
    """Return a text, a number or items without what their class adds."""
    kinds: tuple[Any, ...] = (str, int, float, list, tuple, set, frozenset)
    for kind in kinds:
        if isinstance(value, kind):
            return str.__str__(value) if kind is str else kind(value)
    return str(value) if isinstance(value, PurePath) else _ANYTHING.dump_python(value, mode="json")


def _writable(value: Any) -> Any:
    """Return a text or a number that JSON can hold: infinity as its text.

    Raises:
        _NotPlain: A text holds half a character.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str) and any("\ud800" <= one <= "\udfff" for one in value):
        raise _NotPlain
    return value


def _attributes(value: Any) -> dict[str, Any]:
    """Return what an object holds beside its items, without what its class computes and keeps there."""
    kind: Any = type(value)
    known = getattr(value, "__dict__", None)
    slots, computed = _made_by(kind)
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    kept = known.items() if isinstance(known, dict) else ()
    return found | {name: one for name, one in kept if name not in computed}


@functools.lru_cache(maxsize=1024)
def _made_by(kind: type) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the names of the slots that a class gives its objects, and of the properties that are kept in them."""
    slots: list[str] = []
    computed: set[str] = set()
    for one in kind.__mro__:
        own = () if one.__module__.partition(".")[0] in _READ_AS_TEXT else _slots_of(one)
        hidden = f"_{one.__name__.lstrip('_')}"
        slots += [hidden + name if name.startswith("__") else name for name in own if not name.endswith("__")]
        computed |= {name for name, made in vars(one).items() if isinstance(made, functools.cached_property)}
    return tuple(slots), frozenset(computed)


def _slots_of(kind: type) -> tuple[str, ...]:
    named = vars(kind).get("__slots__", ())
    return (named,) if isinstance(named, str) else tuple(named)


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and len(getattr(value, "_fields", ())) == len(value) > 0


def _free(name: str, taken: Container[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _shown(value: Any, name: str, left_out: frozenset[str], reader: _Reader) -> Any:
    return _not_shown(value) if name in left_out else reader.named(name, value)


def _not_shown(value: Any) -> dict[str, str]:
    return {NOT_SHOWN: _type_of(value)}


def _type_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


class _NotPlain(Exception):
    """A value has something in it that is no JSON, or is too large to be read."""


class _Reader:
    """Reads values as JSON; what cannot be shown is named by its type, and hides nothing beside it.

    Args:
        opaque: Types that are never shown.
        around: The objects that the values are in. One of them that is met again inside is not read again.
    """

    def __init__(self, opaque: tuple[type, ...], *around: Any) -> None:
        self._opaque = opaque
        self._around = [id(one) for one in around]
        self._left = _MOST_READ

    def named(self, name: str, value: Any) -> Any:
        """Return a value as JSON, or its type if its name is that of a secret. A number of tokens is none."""
        return _not_shown(value) if _is_secret(name, value) else self._item(value)

    def _item(self, value: Any) -> Any:
        self._left -= 1  # objects that point at each other have very many ways through them
        if self._left < 0 or id(value) in self._around or len(self._around) > _DEEPEST:
            return _not_shown(value)
        self._around.append(id(value))
        try:
            shown = self._json(value)
            if isinstance(shown, (str, list, dict)) and len(_ANYTHING.dump_json(shown)) > _LARGEST:
                raise _NotPlain
        except (_NotPlain, RecursionError):
            return _not_shown(value)
        finally:
            self._around.pop()
        return shown

    def _json(self, value: Any) -> Any:
        match value:
            case _ if isinstance(value, self._opaque):
                raise _NotPlain
            case Enum():
                return self._json(value.value) if isinstance(value.value, _TEXTS) else value.name
            case _ if _is_data(value) or (_attributes(value) and isinstance(value, (dict, *_PLAIN))):
                return self._object(value)
            case _ if _attributes(value):  # more than it is read as
                raise _NotPlain
            case None | bool():
                return value
            case _ if isinstance(value, _TEXTS):
                return _writable(_plain(value))
            case Mapping() if _is_written(value):
                return {str(name): self.named(str(name), one) for name, one in value.items()}
            case list() | tuple():
                return self._items(value)
            case set() | frozenset():
                return sorted(self._items(value), key=repr)
            case _:
                raise _NotPlain

    def _object(self, value: Any) -> dict[str, Any]:
        """Return an object by its fields, with its class: another one with the same fields may do something else."""
        fields = _fields_of(value)
        if fields is None:
            raise _NotPlain
        shown = {name: self.named(name, one) for name, one in fields.items()}
        return {_free("class", fields): type(value).__qualname__, **shown} if _is_data(value) else shown

    def _items(self, values: Iterable[Any]) -> list[Any]:
        """Return the items of a list. If none can be shown, as in a list of messages, neither can their number."""
        given = list(values)
        shown = [self._item(one) for one in given]
        if given and all(one == _not_shown(value) for one, value in zip(shown, given, strict=True)):
            raise _NotPlain
        return shown


def _is_data(value: Any) -> bool:
    """Say whether an object is made to hold values, wherever it stands: others may be handles, such as a database."""
    is_object = (
        isinstance(value, BaseModel) or dataclasses.is_dataclass(value) or hasattr(type(value), "__attrs_attrs__")
    )
    return (is_object and not isinstance(value, type)) or _is_named_tuple(value)


def _is_written(value: Mapping[Any, Any]) -> bool:
    """Say whether the names in a mapping can be written, each as another."""
    is_text = all(name is None or isinstance(name, (Enum, *_TEXTS)) for name in value)
    return is_text and len({str(name) for name in value}) == len(value)
