"""PostgreSQL's binary parameter and result formats, for the few types the ledger's tables have.

The driver's own adaptation is general and costs several times as much; on the way of every tool call that shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct

from indelible.core.events import moment_after

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_TEXT, _BYTEA, _BIGINT, _TIMESTAMPTZ, _INTERVAL = 25, 17, 20, 1184, 1186
_NULL = b"\xff\xff\xff\xff"
_SIZES = [size.to_bytes(4, "big") for size in range(4096)]
_EIGHT = _SIZES[8]
_SIZE_IN_FIELD = Struct(">4xi")


def bigint(number: int) -> bytes:
    """Writes a bigint."""
    return number.to_bytes(8, "big", signed=True)


def timestamptz(at: datetime) -> bytes:
    """Writes a moment."""
    since = at - EPOCH
    return (((since.days * 86400 + since.seconds) * 1_000_000) + since.microseconds).to_bytes(8, "big", signed=True)


def interval(duration: timedelta) -> bytes:
    """Writes a duration as microseconds, with no days and no months."""
    return (duration // _MICROSECOND).to_bytes(8, "big", signed=True) + bytes(8)


def read_bigint(raw: bytes) -> int:
    """Reads a bigint."""
    return int.from_bytes(raw, "big", signed=True)


def read_timestamptz(raw: bytes) -> datetime:
    """Reads a moment."""
    return moment_after(EPOCH, int.from_bytes(raw, "big", signed=True))


def read_record(raw: bytes) -> list[bytes | None]:
    """Reads the fields of a row that came as one value; each has its type and its size in front."""
    size_at = _SIZE_IN_FIELD.unpack_from
    fields: list[bytes | None] = []
    at, end = 4, len(raw)
    while at < end:
        (size,) = size_at(raw, at)
        at += 8
        if size < 0:
            fields.append(None)
        else:
            fields.append(raw[at : at + size])
            at += size
    return fields


def read_array(raw: bytes) -> list[bytes]:
    """Reads an array of one dimension without nulls; an empty one has no dimension."""
    items = []
    at = 20
    while at < len(raw):
        size = int.from_bytes(raw[at : at + 4], "big")
        items.append(raw[at + 4 : at + 4 + size])
        at += 4 + size
    return items


# Arrays: each column of a batch is one parameter. What repeats is encoded once, what has one size is joined by it.


def texts(items: Iterable[str | None]) -> bytes:
    """Writes a text[]."""
    return _array(_TEXT, [_NULL if item is None else _sized_text(item) for item in items])


def words(items: Sequence[str]) -> bytes:
    """Writes a text[] of words that come again and again, such as statuses and names of tools."""
    return _array(_TEXT, [*map(_sized_word, items)])


def byteas(items: Iterable[bytes | None]) -> bytes:
    """Writes a bytea[]."""
    return _array(_BYTEA, [_NULL if item is None else _size(len(item)) + item for item in items])


def hexes(items: Sequence[str]) -> bytes:
    """Writes a bytea[] from hexadecimal texts."""
    return byteas(map(bytes.fromhex, items))


def bigints(items: Iterable[int | None]) -> bytes:
    """Writes a bigint[]."""
    return _array(_BIGINT, [_NULL if item is None else _sized_number(item) for item in items])


def timestamptzs(items: Iterable[datetime | None]) -> bytes:
    """Writes a timestamptz[]."""
    return _array(_TIMESTAMPTZ, [_NULL if item is None else _EIGHT + timestamptz(item) for item in items])


def intervals(items: Iterable[timedelta | None]) -> bytes:
    """Writes an interval[]."""
    return _array(_INTERVAL, [_NULL if item is None else _SIZES[16] + interval(item) for item in items])


def _array(kind: int, elements: list[bytes]) -> bytes:
    """Writes an array of one dimension; every element comes with its size in front."""
    if not elements:
        return bytes(8) + kind.to_bytes(4, "big")
    # Dimensions, a flag for nulls that the server works out itself, the type, the length, the lower bound.
    header = (_SIZES[1], _SIZES[0], _SIZES[kind], _size(len(elements)), _SIZES[1])
    return b"".join((*header, *elements))


def _size(size: int) -> bytes:
    return _SIZES[size] if size < 4096 else size.to_bytes(4, "big")


def _sized_text(item: str) -> bytes:
    raw = item.encode()
    return _size(len(raw)) + raw


@lru_cache(maxsize=1024)
def _sized_word(item: str) -> bytes:
    return _sized_text(item)


@lru_cache(maxsize=1024)
def _sized_number(item: int) -> bytes:
    return _EIGHT + bigint(item)
