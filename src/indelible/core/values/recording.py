"""Turns any recordable value into the JSON values that stand for it, or says where and why it cannot."""

from __future__ import annotations

import dataclasses
import json
import math
import operator
import re
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from indelible.core.values.left_out import left_out
from indelible.core.values.tags import MAX_INT_DIGITS, SAFE_INTEGER, TAG_OF_TYPE, WRITE, NoForm
from indelible.errors import NotRecordable, TooLarge

_TOO_LONG_INTEGER: int = 10**MAX_INT_DIGITS
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Recording:
    """Turns one value into the tree of JSON values that stands for it, and knows the path it is at."""

    __slots__ = ("_is_whole", "_max_depth", "_room", "_room_left", "_root", "_trail")

    def __init__(self, root: str, max_depth: int, room: int, *, is_whole: bool = False) -> None:
        self._root = root
        self._is_whole = is_whole
        self._max_depth = max_depth
        self._room = self._room_left = room
        self._trail: list[str | int] = []

    def form(self, value: Any) -> Any:
        """Returns the JSON values that stand for this value."""
        kind = type(value)
        if kind is bool or value is None:
            return value
        if kind is str:
            return self._text(value)
        if kind is int:
            return self._integer(value)
        if kind is float:
            return self._double(value)
        if kind is dict:
            return self._object(list(value.items()))
        if kind is list or kind is tuple:
            return self._array(value)
        if kind in TAG_OF_TYPE:
            return self._tagged(TAG_OF_TYPE[kind], value)
        return self._form_of_other_type(value)

    def _form_of_other_type(self, value: Any) -> Any:
        # The type is asked, never the instance: a mock or a proxy may claim any class and answer any name.
        kind = type(value)
        if issubclass(kind, Enum):
            return self.form(self._read(_value_of_member, value))
        if _is_pydantic_model(kind):
            return self.form(self._read(_whole_dump_of_model if self._is_whole else _dump_of_model, value))
        if dataclasses.is_dataclass(kind):
            return self._object(self._read(_fields_of_dataclass, value))
        if issubclass(kind, Mapping):
            return self._object(self._read(_items_of_mapping, value))
        for base, plain_form in _PLAIN_FORM_OF_SUBCLASS.items():
            if issubclass(kind, base):
                return self.form(self._read(plain_form, value))
        raise self._refusal(_advice_for(value))

    def _text(self, value: str) -> str:
        if not value.isascii() and _LONE_SURROGATE.search(value):
            raise self._refusal(
                "the string holds a lone surrogate, which UTF-8 cannot write; repair it or pass it as bytes"
            )
        return value

    def _integer(self, value: int) -> Any:
        if -SAFE_INTEGER <= value <= SAFE_INTEGER:
            return value
        if abs(value) >= _TOO_LONG_INTEGER:
            digits = int(value.bit_length() * math.log10(2)) + 1
            why = f"an integer of about {digits:,} digits; the limit is {MAX_INT_DIGITS:,}; pass it as bytes"
            raise TooLarge(f"{self._path()}: {why}", limit=MAX_INT_DIGITS, size=digits)
        return self._tagged("$int", value)

    def _double(self, value: float) -> float:
        if not math.isfinite(value):
            raise self._refusal(f"{value} is not a JSON number; pass None or a string that says what is meant")
        return value

    def _array(self, items: list[Any] | tuple[Any, ...]) -> list[Any]:
        self._enter(len(items))
        forms = []
        for index, item in enumerate(items):
            self._trail.append(index)
            forms.append(self.form(item))
            self._trail.pop()
        return forms

    def _object(self, items: list[tuple[Any, Any]]) -> dict[str, Any]:
        self._enter(len(items))
        forms: dict[str, Any] = {}
        for key, item in items:
            name = self._name(key)
            self._trail.append(name)
            forms["$" + name if name[:1] == "$" else name] = self.form(item)
            self._trail.pop()
        if len(forms) != len(items):
            raise self._refusal("two of its keys are the same text; only one of them could be recorded")
        return forms

    def _name(self, key: Any) -> str:
        if not issubclass(type(key), str):
            raise self._refusal(
                f"has the key {shown(key)}; keys must be strings: convert them, or pass a list of pairs"
            )
        return self._text(str.__str__(key))

    def _tagged(self, tag: str, value: object) -> dict[str, str]:
        return {tag: self._read(WRITE[tag], value)}

    def _enter(self, item_count: int) -> None:
        """Refuses a container that sits too deep or has more items than bytes are left."""
        if len(self._trail) >= self._max_depth:
            raise _too_deep(self._path(), self._max_depth)
        self._room_left -= item_count
        if self._room_left < 0:
            raise too_big(self._root, self._room, self._room - self._room_left)

    def _read(self, read: Callable[[Any], Any], value: object) -> Any:
        """Returns read(value); whatever the value's own code raises becomes NotRecordable with the path."""
        try:
            return read(value)
        except NoForm as refusal:
            raise self._refusal(str(refusal)) from None
        except RecursionError:
            raise
        except Exception as error:
            why = f"reading this {_type_name(value)} raised {type(error).__name__}; pass it as plain JSON values"
            raise self._refusal(why) from error

    def _refusal(self, why: str) -> NotRecordable:
        return NotRecordable(self._path(), why)

    def _path(self) -> str:
        return self._root + "".join(map(_path_step, self._trail))


def _is_pydantic_model(kind: type) -> bool:
    has_fields = hasattr(kind, "__pydantic_fields__") or hasattr(kind, "model_fields")
    return has_fields and callable(getattr(kind, "model_dump", None))


def _value_of_member(member: Enum) -> object:
    return member.value


def _dump_of_model(model: Any) -> object:
    return model.model_dump(mode="python", by_alias=False)  # whatever its class says: rules name the fields


def _whole_dump_of_model(model: Any) -> object:
    dump = _dump_of_model(model)
    place = left_out(model, dump, type(model).__qualname__, operator.eq)
    if place is not None:
        raise NoForm(f"the dump of this model does not hold {place} as it is; pass JSON values that show it")
    return dump


def _fields_of_dataclass(value: Any) -> list[tuple[str, Any]]:
    if issubclass(type(value), (Mapping, *_PLAIN_FORM_OF_SUBCLASS)):
        raise NoForm(f"{_type_name(value)} is a dataclass and a builtin type at once; pass the one that is meant")
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]


def _items_of_mapping(value: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    return [(key, item) for key, item in value.items()]  # what is no pair raises here


def _same_or_refused(plain: Any, value: object) -> Any:
    if value == plain:
        return plain
    raise NoForm(f"{_type_name(value)} holds more than a {_type_name(plain)} can; pass it as a string")


def _plain_datetime(value: datetime) -> object:
    return _same_or_refused(datetime.combine(_date_of(value), _time_of(value)), value)


def _date_of(value: date) -> date:
    return date(value.year, value.month, value.day)


def _time_of(value: datetime | time) -> time:
    return time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold)


# A subclass is recorded as its base. Those of date, time and timedelta may know more (pandas knows nanoseconds),
# so they have to equal what is recorded. Each base stands before its own bases.
_PLAIN_FORM_OF_SUBCLASS: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__index__,
    float: float.__float__,
    list: list,
    tuple: list,
    Decimal: Decimal,
    datetime: _plain_datetime,
    date: lambda value: _same_or_refused(_date_of(value), value),
    time: lambda value: _same_or_refused(_time_of(value), value),
    timedelta: lambda value: _same_or_refused(timedelta(value.days, value.seconds, value.microseconds), value),
    UUID: lambda value: UUID(int=value.int),
    bytes: bytes,
    bytearray: bytes,
}


# What messages say.

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHOWN_CHARACTERS = 60


def _path_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if len(step) <= _SHOWN_CHARACTERS and _PLAIN_NAME.fullmatch(step) else f"[{shown(step)}]"


def shown(value: object) -> str:
    """Returns a short text of a value for a message: itself if that is short and safe, else its type."""
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
        return json.dumps(cut)  # ASCII, so a surrogate or a line break cannot spoil a log
    if value is None or type(value) in (bool, float) or (type(value) is int and abs(value) <= SAFE_INTEGER):
        return f"{value} ({_type_name(value)})"
    return f"of type {_type_name(value)}"


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _advice_for(value: object) -> str:
    if issubclass(type(value), (set, frozenset)):
        return "a set has no order to record; pass a list, sorted if the order has no meaning"
    if hasattr(type(value), "tolist"):  # numpy, pandas, torch, array
        return f"{_type_name(value)} has no recorded form; pass its .tolist()"
    return f"{_type_name(value)} has no recorded form; pass JSON values, a dataclass or a pydantic model"


def _too_deep(path: str, limit: int) -> TooLarge:
    message = f"{path}: nested more than {limit} levels deep; flatten the value, break its cycle or raise max_depth"
    return TooLarge(message, limit=limit, size=limit + 1)


def too_deep_for_the_stack(path: str) -> TooLarge:
    limit = sys.getrecursionlimit()
    return TooLarge(
        f"{path}: nested deeper than the interpreter's stack allows; flatten it", limit=limit, size=limit + 1
    )


def too_big(path: str, limit: int, size: int) -> TooLarge:
    message = (
        f"{path}: takes at least {size:,} bytes, the limit is {limit:,}; "
        "store the content elsewhere and pass a reference to it, or raise the ledger's limit for it"
    )
    return TooLarge(message, limit=limit, size=size)
