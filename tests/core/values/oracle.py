"""What a value means, and how RFC 8785 writes it: an oracle that shares nothing with the implementation."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from indelible.core.values.tags import Encrypted, Redacted
from tests.core.values.recorded import EPOCH, SAFE


def meaning(value: Any) -> Any:
    """Returns nested tuples that are equal exactly when the policy calls two values equal."""
    if isinstance(value, Enum):
        return meaning(value.value)
    if value is None or isinstance(value, bool):
        return ("literal", repr(value))
    if isinstance(value, int):
        return ("number", int(value)) if abs(value) <= SAFE else ("integer", hex(value))
    if isinstance(value, float):
        return ("number", int(value)) if value.is_integer() and abs(value) <= SAFE else ("double", value.hex())
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        if abs(exponent) > 10_000:  # written out as a fraction this would take minutes
            stripped = "".join(map(str, digits)).rstrip("0")
            return ("decimal", sign, stripped.lstrip("0"), exponent + len(digits) - len(stripped) if stripped else 0)
        return ("decimal", str(Fraction(value)))
    if isinstance(value, str):
        return ("text", str(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return ("bytes", bytes(value).hex())
    if isinstance(value, datetime):
        return wall_or_instant(value)
    if isinstance(value, date):
        return ("date", value.toordinal())
    if isinstance(value, time):
        return ("time", value.hour, value.minute, value.second, value.microsecond)
    if isinstance(value, timedelta):
        return ("duration", value // timedelta(microseconds=1))
    if isinstance(value, UUID):
        return ("uuid", value.int)
    if isinstance(value, Redacted):
        return ("redacted", value.mark)
    if isinstance(value, Encrypted):
        return ("encrypted", value.content)
    if isinstance(value, list | tuple):
        return ("array", *map(meaning, value))
    return ("object", *sorted(((str(key), meaning(item)) for key, item in members(value)), key=lambda pair: pair[0]))


def wall_or_instant(value: datetime) -> Any:
    if value.tzinfo is None:
        return ("wall", value.toordinal(), meaning(value.time()))
    return ("instant", (value - EPOCH) // timedelta(microseconds=1))


def members(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        return list(value)
    if is_dataclass(value):
        return [(each.name, getattr(value, each.name)) for each in fields(value)]
    return list(value.items())


BASE_TYPES = {
    type(None), bool, int, float, str, bytes, Decimal, datetime, date, time, timedelta, UUID, Redacted, Encrypted, list,
    dict,
}  # fmt: skip


def types_in(value: Any) -> set[type]:
    inner = value if type(value) is list else list(value.values()) if type(value) is dict else []
    return {type(value)}.union(*map(types_in, inner))


def ecmascript_number(value: float) -> str:
    """Writes a double by the steps of ECMA-262's Number::toString; the digits come from Python's shortest repr."""
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    s, k = "".join(map(str, digits)), len(digits)
    n = k + exponent
    if k <= n <= 21:
        text = s + "0" * (n - k)
    elif 0 < n <= 21:
        text = s[:n] + "." + s[n:]
    elif -6 < n <= 0:
        text = "0." + "0" * -n + s
    else:
        text = s[0] + ("." + s[1:] if k > 1 else "") + f"e{n - 1:+d}"
    return "-" * sign + text


def jcs(value: Any) -> str:
    """Writes plain JSON values by RFC 8785, in the plainest way there is."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return f"{value:d}"
    if isinstance(value, float):
        return ecmascript_number(value)
    if isinstance(value, str):
        short = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
        return '"' + "".join(short.get(ord(c), c if c >= " " else f"\\u{ord(c):04x}") for c in value) + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(jcs, value)) + "]"
    keys = sorted(
        value, key=lambda key: struct.unpack(f">{len(key.encode('utf-16-be')) // 2}H", key.encode("utf-16-be"))
    )
    return "{" + ",".join(f"{jcs(key)}:{jcs(value[key])}" for key in keys) + "}"
