"""The texts that stand for what JSON cannot say: one tag and one text per value, and back."""

from __future__ import annotations

import base64
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

MAX_INT_DIGITS = 4300
"""How long an integer may be: what any Python reads back with its default settings."""

JSONish: TypeAlias = (
    "bool | int | float | str | bytes | Decimal | datetime | date | time | timedelta | UUID | Redacted | Encrypted"
    " | list[JSONish] | dict[str, JSONish] | None"
)
"""What `decode` gives back."""

SAFE_INTEGER = 2**53 - 1  # the largest integer below which every integer is a double of its own
_LONG_INTEGER = re.compile(rf"-?[1-9][0-9]{{15,{MAX_INT_DIGITS - 1}}}")
_MAX_PADDING_ZEROS = 20
_MARK = re.compile(r"[0-9a-f]{64}")

ENCRYPTED_VERSION = 1
_SHORTEST_ENCRYPTED = 53  # version, key, nonce and tag of no bytes at all


class NoForm(Exception):
    """Says why a value cannot be recorded; the recording adds the path."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """Stands for a value that was not recorded: equal values have equal marks, and no mark leads back to its value."""

    mark: str

    def __post_init__(self) -> None:
        if not _MARK.fullmatch(self.mark):
            raise ValueError("a mark is 64 hexadecimal digits")

    def __str__(self) -> str:
        """Return the text that a person or a model is told in place of the value."""
        return f"[redacted value {self.mark[:32]}]"


@dataclass(frozen=True, slots=True)
class Encrypted:
    """Stands for a whole value that only a data key opens: `content` names the key and holds the value in cipher."""

    content: bytes

    def __post_init__(self) -> None:
        if len(self.content) < _SHORTEST_ENCRYPTED or self.content[0] != ENCRYPTED_VERSION:
            raise ValueError("this is nothing that was encrypted here")


def _mark_of(value: Redacted) -> str:
    return value.mark


def _encrypted_text(value: Encrypted) -> str:
    return _bytes_text(value.content)


def _encrypted_of(text: str) -> Encrypted:
    return Encrypted(_bytes_of(text))


def _integer_text(value: int) -> str:
    return str(Decimal(value))  # str(int) obeys a limit that any program may lower; Decimal is exact and has none


def _integer_of(text: str) -> int:
    if not _LONG_INTEGER.fullmatch(text):  # also keeps 1E+999999999 from being expanded
        raise ValueError
    value = int(Decimal(text))
    if abs(value) <= SAFE_INTEGER:  # encode writes these without a tag
        raise ValueError
    return value


def _decimal_text(value: Decimal) -> str:
    """Writes equal decimals alike: no trailing zeros, and an exponent only to save more than 20 zeros."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise NoForm(f"Decimal {value} is not a number; pass None or a string that says what is meant")
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
        raise NoForm("the datetime's tzinfo knows no offset; pass an aware datetime, or one without tzinfo")
    try:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    except OverflowError:
        raise NoForm("the datetime lies outside the years 1 to 9999 in UTC; pass it as a string") from None


def _datetime_of(text: str) -> datetime:
    if text.endswith("Z"):
        return datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
    return datetime.fromisoformat(text)


def _time_text(value: time) -> str:
    if value.tzinfo is not None:
        raise NoForm("a time with a zone but without a date is no instant; pass a datetime, or time and zone apart")
    return value.isoformat()


def _duration_text(value: timedelta) -> str:
    return str((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds)


def _duration_of(text: str) -> timedelta:
    return timedelta(microseconds=int(text))


def _bytes_text(value: bytes | bytearray | memoryview) -> str:
    if isinstance(value, memoryview) and (value.format != "B" or value.ndim != 1):
        raise NoForm("the memoryview has a shape or item type that bytes do not keep; pass bytes")
    return base64.b64encode(value).decode()


def _bytes_of(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


TAG_OF_TYPE: dict[type, str] = {
    Decimal: "$decimal",
    datetime: "$datetime",
    date: "$date",
    time: "$time",
    timedelta: "$duration",
    UUID: "$uuid",
    bytes: "$bytes",
    bytearray: "$bytes",
    memoryview: "$bytes",
    Redacted: "$redacted",
    Encrypted: "$encrypted",
}

WRITE: dict[str, Callable[[Any], str]] = {
    "$int": _integer_text,
    "$decimal": _decimal_text,
    "$datetime": _datetime_text,
    "$date": date.isoformat,
    "$time": _time_text,
    "$duration": _duration_text,
    "$uuid": str,
    "$bytes": _bytes_text,
    "$redacted": _mark_of,
    "$encrypted": _encrypted_text,
}

READ: dict[str, Callable[[str], JSONish]] = {
    "$int": _integer_of,
    "$decimal": Decimal,
    "$datetime": _datetime_of,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$duration": _duration_of,
    "$uuid": UUID,
    "$bytes": _bytes_of,
    "$redacted": Redacted,
    "$encrypted": _encrypted_of,
}


def base64_or_none(raw: bytes | None) -> str | None:
    """Return bytes as base64, if there are any."""
    return None if raw is None else b64encode(raw).decode("ascii")


def from_base64(text: str | None) -> bytes | None:
    """Return what base64 stands for, if there is any; raise `ValueError` if it is none."""
    return None if text is None else b64decode(text, validate=True)
