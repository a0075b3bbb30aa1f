"""Gives every recordable value exactly one byte string, and every such byte string its value back.

The bytes are RFC 8785 (JCS) JSON. What JSON cannot say is written as an object with one tag, such as
`{"$decimal":"1.1"}`; a key of the caller's that begins with `$` gets one more `$`, so no caller can forge a tag.
Keys, digests and commitments are hashes of these bytes: `docs/reference/canonical.md` fixes every row of the
policy with a vector, and a change to any row is a new version of the format.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NoReturn, TypeAlias
from uuid import UUID

import rfc8785

from indelible.errors import BadCall, NotRecordable, TooLarge

MAX_DEPTH = 64
"""How many lists and objects may sit inside each other."""

MAX_INT_DIGITS = 4300
"""How long an integer may be: what any Python reads back with its default settings."""

JSONish: TypeAlias = (
    "bool | int | float | str | bytes | Decimal | datetime | date | time | timedelta | UUID"
    " | list[JSONish] | dict[str, JSONish] | None"
)
"""What `decode` gives back."""

_SAFE_INTEGER = 2**53 - 1  # the largest integer below which every integer is a double of its own
_TOO_LONG_INTEGER: int = 10**MAX_INT_DIGITS
_LONG_INTEGER = re.compile(rf"-?[1-9][0-9]{{15,{MAX_INT_DIGITS - 1}}}")
_MAX_PADDING_ZEROS = 20


def encode(value: object, *, root: str = "$", max_bytes: int | None = None, max_depth: int = MAX_DEPTH) -> bytes:
    """Returns the one byte string of this value; raises NotRecordable or TooLarge if it has none.

    `root` is how an error's path begins. The value must not be changed by another thread meanwhile.
    """
    room = sys.maxsize if max_bytes is None else max_bytes
    try:
        encoded = _encode_plain(value, max_depth, room)
        if encoded is None:
            encoded = rfc8785.dumps(_Recording(root, max_depth, room).form(value))
    except RecursionError:
        raise _too_deep_for_the_stack(root) from None
    if len(encoded) > room:
        raise _too_big(root, room, len(encoded))
    return encoded


def decode(data: bytes) -> JSONish:
    """Returns the value that `encode` turned into these bytes; raises ValueError for anything malformed.

    Order of keys and spacing are not examined: `encode(decode(data)) == data` tells whether a stranger's bytes
    are canonical.
    """
    if b"\\u" in data and b"\\" in _CANONICAL_ESCAPES.sub(b"", data):
        raise ValueError("the recorded form escapes only control characters, quotes and backslashes")
    text = data.decode()
    decoder = _TAGGED_DECODER if "$" in text else _UNTAGGED_DECODER
    try:
        recorded: tuple[JSONish, int] = decoder.raw_decode(text)
    except RecursionError:
        raise ValueError("nested deeper than this interpreter can read") from None
    value, end = recorded
    if end != len(text):
        raise ValueError(f"unexpected content after the value, at character {end}")
    return value


def parse_strict(data: bytes | str) -> object:
    """Returns the value of JSON from outside; raises BadCall where two readers could understand it differently.

    Refused are duplicate keys, lone surrogates, NaN, Infinity, numbers no double can hold and bytes that are not
    UTF-8. Integers stay exact. A `$` in a key is plain content here, never a tag.
    """
    try:
        text = data.encode().decode() if isinstance(data, str) else data.decode()
        value = _OUTSIDE_DECODER.decode(text)
        if _SURROGATE_ESCAPE.search(text):
            _C_ENCODER.encode(value).encode()  # UTF-8 has no lone surrogates, so writing the strings finds them
    except RecursionError:
        raise _too_deep_for_the_stack("$") from None
    except ValueError as error:
        raise BadCall(f"this JSON cannot be read safely: {error}") from error
    return value


# ── the quick way ────────────────────────────────────────────────────────────────────────────────────────────────────

_C_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":"))


def _encode_plain(value: object, max_depth: int, room: int) -> bytes | None:
    """Returns the canonical bytes of a list or dict of plain values; None sends the caller the long way."""
    if (type(value) is dict or type(value) is list) and _room_after(value, max_depth, room) >= 0:
        try:
            return _C_ENCODER.encode(value).encode()
        except UnicodeEncodeError:  # a lone surrogate: the long way names its path
            return None
    return None


def _room_after(container: dict[Any, Any] | list[Any], levels: int, room: int) -> int:
    """Returns what `room` leaves after this container, or a negative number if it is not plain or does not fit.

    Plain is what json's C encoder writes exactly as RFC 8785 asks: ASCII keys (their order in code points is their
    order in UTF-16), integers a double can hold, no float. It runs on every call, hence one function, exact types.
    """
    room -= len(container)  # an item takes at least one byte, so shared branches cannot multiply without end
    if levels <= 0 or room < 0:
        return -1
    items: Iterable[Any] = container
    if type(container) is dict:
        for key in container:
            if type(key) is not str or key[:1] == "$" or not key.isascii():
                return -1
        items = container.values()
    for item in items:
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        if kind is int:
            if -_SAFE_INTEGER <= item <= _SAFE_INTEGER:
                continue
            return -1
        if kind is not dict and kind is not list:
            return -1
        room = _room_after(item, levels - 1, room)
        if room < 0:
            return -1
    return room


# ── the long way ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _NoForm(Exception):
    """Says why a value cannot be recorded; the recording adds the path."""


class _Recording:
    """Turns one value into the tree of JSON values that stands for it, and knows the path it is at."""

    __slots__ = ("_max_depth", "_room", "_room_left", "_root", "_trail")

    def __init__(self, root: str, max_depth: int, room: int) -> None:
        self._root = root
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
        if kind in _TAG_OF_TYPE:
            return self._tagged(_TAG_OF_TYPE[kind], value)
        return self._form_of_other_type(value)

    def _form_of_other_type(self, value: Any) -> Any:
        # The type is asked, never the instance: a mock or a proxy may claim any class and answer any name.
        kind = type(value)
        if issubclass(kind, Enum):
            return self.form(self._read(_value_of_member, value))
        if _is_pydantic_model(kind):
            return self.form(self._read(_dump_of_model, value))
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
        if -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
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
                f"has the key {_shown(key)}; keys must be strings: convert them, or pass a list of pairs"
            )
        return self._text(str.__str__(key))

    def _tagged(self, tag: str, value: object) -> dict[str, str]:
        return {tag: self._read(_WRITE[tag], value)}

    def _enter(self, item_count: int) -> None:
        """Refuses a container that sits too deep or has more items than bytes are left."""
        if len(self._trail) >= self._max_depth:
            raise _too_deep(self._path(), self._max_depth)
        self._room_left -= item_count
        if self._room_left < 0:
            raise _too_big(self._root, self._room, self._room - self._room_left)

    def _read(self, read: Callable[[Any], Any], value: object) -> Any:
        """Returns read(value); whatever the value's own code raises becomes NotRecordable with the path."""
        try:
            return read(value)
        except _NoForm as refusal:
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
    return model.model_dump(mode="python")


def _fields_of_dataclass(value: Any) -> list[tuple[str, Any]]:
    if issubclass(type(value), (Mapping, *_PLAIN_FORM_OF_SUBCLASS)):
        raise _NoForm(f"{_type_name(value)} is a dataclass and a builtin type at once; pass the one that is meant")
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]


def _items_of_mapping(value: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    return [(key, item) for key, item in value.items()]  # what is no pair raises here


def _same_or_refused(plain: Any, value: object) -> Any:
    if value == plain:
        return plain
    raise _NoForm(f"{_type_name(value)} holds more than a {_type_name(plain)} can; pass it as a string")


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


# ── tags ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _integer_text(value: int) -> str:
    return str(Decimal(value))  # str(int) obeys a limit that any program may lower; Decimal is exact and has none


def _integer_of(text: str) -> int:
    if not _LONG_INTEGER.fullmatch(text):  # also keeps 1E+999999999 from being expanded
        raise ValueError
    value = int(Decimal(text))
    if abs(value) <= _SAFE_INTEGER:  # encode writes these without a tag
        raise ValueError
    return value


def _decimal_text(value: Decimal) -> str:
    """Writes equal decimals alike: no trailing zeros, and an exponent only to save more than 20 zeros."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise _NoForm(f"Decimal {value} is not a number; pass None or a string that says what is meant")
    significant = "".join(map(str, digits)).rstrip("0")
    if not significant:
        return "0"
    trailing_zeros = exponent + len(digits) - len(significant)
    return "-" * sign + _positional(significant, trailing_zeros)


def _positional(digits: str, trailing_zeros: int) -> str:
    point = len(digits) + trailing_zeros
    if 0 <= trailing_zeros <= _MAX_PADDING_ZEROS:
        return digits + "0" * trailing_zeros
    if trailing_zeros < 0 < point:
        return f"{digits[:point]}.{digits[point:]}"
    if -_MAX_PADDING_ZEROS <= point <= 0:
        return "0." + "0" * -point + digits
    fraction = "." + digits[1:] if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}E{point - 1:+d}"


def _datetime_text(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    if value.utcoffset() is None:
        raise _NoForm("the datetime's tzinfo knows no offset; pass an aware datetime, or one without tzinfo")
    try:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    except OverflowError:
        raise _NoForm("the datetime lies outside the years 1 to 9999 in UTC; pass it as a string") from None


def _datetime_of(text: str) -> datetime:
    if text.endswith("Z"):
        return datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
    return datetime.fromisoformat(text)


def _time_text(value: time) -> str:
    if value.tzinfo is not None:
        raise _NoForm("a time with a zone but without a date is no instant; pass a datetime, or time and zone apart")
    return value.isoformat()


def _duration_text(value: timedelta) -> str:
    return str((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds)


def _duration_of(text: str) -> timedelta:
    return timedelta(microseconds=int(text))


def _bytes_text(value: bytes | bytearray | memoryview) -> str:
    if isinstance(value, memoryview) and (value.format != "B" or value.ndim != 1):
        raise _NoForm("the memoryview has a shape or item type that bytes do not keep; pass bytes")
    return base64.b64encode(value).decode()


def _bytes_of(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_TAG_OF_TYPE: dict[type, str] = {
    Decimal: "$decimal",
    datetime: "$datetime",
    date: "$date",
    time: "$time",
    timedelta: "$duration",
    UUID: "$uuid",
    bytes: "$bytes",
    bytearray: "$bytes",
    memoryview: "$bytes",
}

_WRITE: dict[str, Callable[[Any], str]] = {
    "$int": _integer_text,
    "$decimal": _decimal_text,
    "$datetime": _datetime_text,
    "$date": date.isoformat,
    "$time": _time_text,
    "$duration": _duration_text,
    "$uuid": str,
    "$bytes": _bytes_text,
}

_READ: dict[str, Callable[[str], JSONish]] = {
    "$int": _integer_of,
    "$decimal": Decimal,
    "$datetime": _datetime_of,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$duration": _duration_of,
    "$uuid": UUID,
    "$bytes": _bytes_of,
}


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_CANONICAL_ESCAPES = re.compile(rb'\\(?:["\\bfnrt]|u00[01][0-9a-f])')
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [key for key, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {_shown(repeated)} stands twice in one object")
    return members


def _value_of_tagged(pairs: list[tuple[str, Any]]) -> JSONish:
    members = _object_of(pairs)
    if len(pairs) == 1 and pairs[0][0] in _READ:
        return _value_of_tag(*pairs[0])
    return {_unescaped(key): value for key, value in members.items()}


def _value_of_tag(tag: str, text: object) -> JSONish:
    """Returns what the tag's text stands for; only the one text that encode writes is accepted."""
    try:
        if isinstance(text, str):
            value = _READ[tag](text)
            if _WRITE[tag](value) == text:
                return value
    except (ValueError, ArithmeticError, _NoForm):
        pass  # every way of being malformed ends in the same refusal
    raise ValueError(f"malformed {tag}: {_shown(text)}")


def _unescaped(key: str) -> str:
    if key[:1] != "$":
        return key
    if key[:2] != "$$":
        raise ValueError(f"{_shown(key)} is no tag of this format, or not alone in its object")
    return key[1:]


def _number_of_integer_literal(text: str) -> int | float:
    value = int(text)
    if -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
        return value
    return _double_of(text)  # a larger int would carry a tag, so this was a float


def _double_of(text: str) -> float:
    value = float(text)
    # Between 0.0001 and 10^16 Python's shortest text is RFC 8785's too; only the rest needs the full rules.
    if repr(value) == text and "e" not in text and text[-2:] != ".0":
        return value
    if rfc8785.dumps(value) != text.encode():
        raise ValueError(f"{_shown(text)} is not the canonical text of a double")
    return value


def _finite_double_of(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{_shown(text)} is larger than any double")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_UNTAGGED_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_of,
    parse_int=_number_of_integer_literal,
    parse_float=_double_of,
    parse_constant=_refuse_constant,
)
_TAGGED_DECODER = json.JSONDecoder(
    object_pairs_hook=_value_of_tagged,
    parse_int=_number_of_integer_literal,
    parse_float=_double_of,
    parse_constant=_refuse_constant,
)
_OUTSIDE_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_of, parse_float=_finite_double_of, parse_constant=_refuse_constant
)


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHOWN_CHARACTERS = 60


def _path_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if len(step) <= _SHOWN_CHARACTERS and _PLAIN_NAME.fullmatch(step) else f"[{_shown(step)}]"


def _shown(value: object) -> str:
    """Returns a short text of a value for a message: itself if that is short and safe, else its type."""
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
        return json.dumps(cut)  # ASCII, so a surrogate or a line break cannot spoil a log
    if value is None or type(value) in (bool, float) or (type(value) is int and abs(value) <= _SAFE_INTEGER):
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


def _too_deep_for_the_stack(path: str) -> TooLarge:
    limit = sys.getrecursionlimit()
    return TooLarge(
        f"{path}: nested deeper than the interpreter's stack allows; flatten it", limit=limit, size=limit + 1
    )


def _too_big(path: str, limit: int, size: int) -> TooLarge:
    message = (
        f"{path}: takes at least {size:,} bytes, the limit is {limit:,}; "
        "store the content elsewhere and pass a reference to it, or raise max_bytes"
    )
    return TooLarge(message, limit=limit, size=size)
