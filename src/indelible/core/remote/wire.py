"""The core's own records as JSON and back, for two processes that share these classes.

What is written is told by the value, what is read by the type that is expected. A record is an object that says which
one it is; bytes are base64, instants ISO 8601 in UTC, stretches of time whole microseconds, amounts text. Reading is
strict: what is missing, unknown or of another type is refused with its place, and nothing is guessed.
"""

from __future__ import annotations

import types
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from indelible.errors import BadCall

KIND = "is"
"""Is the member of an object that names its record."""

_MICROSECOND = timedelta(microseconds=1)
_WHOLE = range(-(2**53) + 1, 2**53)
"""Are the numbers that JSON readers everywhere agree on, and that a record can hold."""
_LENGTHS = range(timedelta.min // _MICROSECOND, timedelta.max // _MICROSECOND + 1)

Reader = Callable[[Any, str], Any]


def to_wire(value: Any) -> Any:
    """Gives a value as JSON knows it."""
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    kind: type = type(value)
    if is_dataclass(kind):
        return {KIND: kind.__name__} | {name: to_wire(getattr(value, name)) for name in _sent(kind)}
    if isinstance(value, Mapping):
        return {str(name): to_wire(each) for name, each in value.items()}
    if isinstance(value, Sequence | frozenset | set):
        return [to_wire(each) for each in value]
    raise BadCall(f"{type(value).__name__} does not go over the wire")


def _same(value: Any) -> Any:
    return value


_WRITERS: dict[type, Callable[[Any], Any]] = {
    type(None): _same,
    bool: _same,
    int: _same,
    float: _same,
    str: _same,
    bytes: lambda value: b64encode(value).decode(),
    datetime: lambda value: value.astimezone(UTC).isoformat(),
    timedelta: lambda value: value // _MICROSECOND,
    Decimal: str,
}


@cache
def _sent(kind: type) -> tuple[str, ...]:
    """Names the fields that are sent: what does not count in comparing belongs to one process alone."""
    return tuple(each.name for each in fields(kind) if each.compare and each.init)


def from_wire(kind: Any, value: Any, path: str = "body") -> Any:
    """Reads a value of this type; raises `BadCall` with the place of what is wrong."""
    return _reader(kind)(value, path)


@cache
def _reader(kind: Any) -> Reader:
    """Gives what reads a type, made once."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _one_of(parts)
    if origin in (Union, types.UnionType):
        return _union(parts)
    if isinstance(kind, type) and is_dataclass(kind):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return _named_tuple(kind)
    if origin is tuple and parts[-1:] != (...,):
        return _fixed(parts, tuple)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(parts[1])
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _sequence(parts[0], tuple if origin is tuple else list)
    raise TypeError(f"{kind} does not go over the wire")


def _wrong(path: str, wanted: str) -> BadCall:
    return BadCall(f"{path}: {wanted} is expected here")


def _plain(kind: type, wanted: str) -> Reader:
    def read(value: Any, path: str) -> Any:
        if not isinstance(value, kind):
            raise _wrong(path, wanted)
        return value

    return read


def _whole(value: Any, path: str) -> int:
    # To Python, but not to JSON, true is a number.
    if not isinstance(value, int) or isinstance(value, bool) or value not in _WHOLE:
        raise _wrong(path, "a whole number")
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong(path, "text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(path, "text without lone surrogates") from None
    return value


def _bytes(value: Any, path: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise _wrong(path, "base64") from None


def _moment(value: Any, path: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    raise _wrong(path, "an instant with its time zone")


def _duration(value: Any, path: str) -> timedelta:
    if not isinstance(value, int) or isinstance(value, bool) or value not in _LENGTHS:
        raise _wrong(path, "a whole number of microseconds")
    return timedelta(microseconds=value)


def _amount(value: Any, path: str) -> Decimal:
    try:
        return Decimal(_text(value, path))
    except InvalidOperation:
        raise _wrong(path, "an amount") from None


_PLAIN: dict[Any, Reader] = {
    Any: lambda value, path: value,
    type(None): _plain(type(None), "null"),
    bool: _plain(bool, "true or false"),
    int: _whole,
    str: _text,
    bytes: _bytes,
    datetime: _moment,
    timedelta: _duration,
    Decimal: _amount,
}


def _one_of(choices: tuple[Any, ...]) -> Reader:
    def read(value: Any, path: str) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise _wrong(path, f"one of {', '.join(map(str, choices))}")
        return value

    return read


def _union(parts: tuple[Any, ...]) -> Reader:
    """Reads one of several: nothing, a record that says which one it is, or the only other type there is."""
    may_be_none = type(None) in parts
    records = {part.__name__: _reader(part) for part in parts if isinstance(part, type) and is_dataclass(part)}
    others = [part for part in parts if part is not type(None) and getattr(part, "__name__", None) not in records]
    assert len(others) <= 1, f"{parts} cannot be told apart on the wire"
    other = _reader(others[0]) if others else None

    def read(value: Any, path: str) -> Any:
        if value is None and may_be_none:
            return None
        if isinstance(value, dict) and records:
            name = value.get(KIND)
            if not isinstance(name, str) or name not in records:
                raise _wrong(f"{path}.{KIND}", f"one of {', '.join(records)}")
            return records[name](value, path)
        if other is None:
            raise _wrong(path, "an object")
        return other(value, path)

    return read


def _record(kind: type) -> Reader:
    hints = get_type_hints(kind)
    sent = {each.name: each for each in fields(kind) if each.name in _sent(kind)}
    needed = {name for name, each in sent.items() if each.default is MISSING and each.default_factory is MISSING}
    # Found when first needed: a type may hold others of its own kind.
    readers: dict[str, Reader] = {}

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict) or value.get(KIND) != kind.__name__:
            raise _wrong(path, f"an object with {KIND}={kind.__name__}")
        for name in value:
            if name not in sent and name != KIND:
                raise BadCall(f"{path}.{name}: a {kind.__name__} has no such member")
        for name in needed:
            if name not in value:
                raise BadCall(f"{path}.{name}: is missing")
        words = {}
        for name in sent:
            if name in value:
                reader = readers.get(name) or readers.setdefault(name, _reader(hints[name]))
                words[name] = reader(value[name], f"{path}.{name}")
        try:
            return kind(**words)
        except BadCall as problem:  # its members are what they should be, but not together
            raise BadCall(f"{path}: {problem}") from None

    return read


def _named_tuple(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    read = _fixed(tuple(hints[name] for name in kind._fields), list)
    return lambda value, path: kind(*read(value, path))


def _fixed(parts: tuple[Any, ...], make: Callable[[Any], Any]) -> Reader:
    readers = [_reader(part) for part in parts]

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list) or len(value) != len(readers):
            raise _wrong(path, f"a list of {len(readers)}")
        return make([reader(each, f"{path}[{n}]") for n, (reader, each) in enumerate(zip(readers, value, strict=True))])

    return read


def _mapping(part: Any) -> Reader:
    reader = _reader(part)

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, "an object")
        return {_text(name, path): reader(each, f"{path}.{name}") for name, each in value.items()}

    return read


def _sequence(part: Any, make: Callable[[Any], Any]) -> Reader:
    reader = _reader(part)

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise _wrong(path, "a list")
        return make([reader(each, f"{path}[{n}]") for n, each in enumerate(value)])

    return read
