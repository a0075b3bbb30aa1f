"""Promises of core.values.canonical: one value, one byte string; one byte string, one value."""

from __future__ import annotations

import json
import os
import random
import struct
import sys
from array import array
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation, localcontext
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import UUID

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel, SecretStr

from indelible.core.values import canonical
from indelible.core.values.canonical import MAX_DEPTH, decode, encode, parse_strict
from indelible.core.values.tags import MAX_INT_DIGITS, Encrypted, Redacted
from indelible.errors import BadCall, NotRecordable, TooLarge

HERE = Path(__file__).parents[1]
REFERENCE_PAGE = HERE.parents[1] / "docs" / "reference" / "canonical.md"
SAFE = 2**53 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def vectors(name: str) -> Any:
    return json.loads((HERE / "vectors" / f"{name}.json").read_text(encoding="utf-8"))["vectors"]


# ── values of our own types ──────────────────────────────────────────────────────────────────────────────────────────


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 2


class Word(StrEnum):
    YES = "yes"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Size(Enum):
    BOX = (1, 2)


class Text(str):
    __slots__ = ()


class OtherText(str):
    """Has the content of a str and yet is another key."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return self is other


class Whole(int):
    def __repr__(self) -> str:
        return "not a number"


class Real(float):
    pass


Pair = namedtuple("Pair", "x y")


@dataclass
class Payment:
    amount: Decimal
    tags: list[str]


@dataclass
class Late:
    never_set: int = field(init=False)


@dataclass(init=False)
class TextOfRecord(str):
    pass


class Line(BaseModel):
    sku: str


class Invoice(BaseModel):
    due: date
    lines: list[Line]


class Numbers(RootModel[list[int]]):
    pass


POLICY: dict[str, Any] = {
    "none": None,
    "true": True,
    "one": 1,
    "text": "caf\u00e9",
    "text decomposed": "cafe\u0301",
    "list": [1, [], "a"],
    "tuple": (1, 2),
    "namedtuple": Pair(3, 4),
    "dict": {"b": None, "a": 1},
    "mapping": MappingProxyType({"a": 1}),
    "str subclass": Text("a"),
    "int subclass": Whole(7),
    "largest plain int": 2**53 - 1,
    "smallest plain int": -(2**53) + 1,
    "big int": 2**53,
    "big negative int": -1234567890123456789,
    "float": 0.1,
    "whole float": 1.0,
    "negative zero": -0.0,
    "large float": 2.0**53,
    "huge float": 1e300,
    "decimal": Decimal("1.10"),
    "decimal hundred": Decimal("1E+2"),
    "decimal zero": Decimal("-0.00"),
    "decimal long": Decimal("-1234567890123456789012345678901234567890.50"),
    "decimal small": Decimal("1E-21"),
    "decimal tiny": Decimal("1.5E-22"),
    "decimal large": Decimal("1E+20"),
    "decimal huge": Decimal("1E+21"),
    "decimal extreme": Decimal("-1.2E+999999999999999999"),
    "datetime aware": datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone(timedelta(hours=2))),
    "datetime microseconds": datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=UTC),
    "datetime naive": datetime(2024, 5, 6, 7, 8, 9),  # noqa: DTZ001
    "date": date(2024, 5, 6),
    "time": time(7, 8, 9, 500_000),
    "duration": timedelta(days=-1, microseconds=1),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"\x01\x02"),
    "memoryview": memoryview(b"\x03\x04"),
    "redacted": Redacted("00112233445566778899aabbccddeeff" * 2),
    "encrypted": Encrypted(b"\x01" + bytes(52)),
    "enum": Colour.RED,
    "int enum": Level.LOW,
    "dataclass": Payment(amount=Decimal("9.90"), tags=["a"]),
    "pydantic model": Invoice(due=date(2024, 5, 6), lines=[Line(sku="a")]),
    "dollar key": {"$int": "5"},
    "two dollars key": {"$$int": "5"},
    "lone dollar key": {"$": 1},
    "dollar text": "$int",
    "astral key order": {"\ufb33": 2, "\U0001f600": 1},
}


# ── an oracle that shares nothing with the implementation ────────────────────────────────────────────────────────────


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


# ── the vectors ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("bits", "text"), vectors("rfc8785_numbers"))
def test_every_number_of_rfc_8785_has_its_published_text(bits: str, text: str | None) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    if text is None:
        with pytest.raises(NotRecordable):
            encode(value)
        return
    assert encode(value) == text.encode()
    assert ecmascript_number(value) == text
    assert decode(text.encode()) == value


@pytest.mark.parametrize("vector", vectors("rfc8785_documents"), ids=lambda vector: vector["name"])
def test_every_document_of_rfc_8785_has_its_published_bytes(vector: dict[str, str]) -> None:
    value = parse_strict(vector["input"])
    assert encode(value) == vector["canonical"].encode() == jcs(value).encode()
    assert encode(decode(encode(value))) == encode(value)


@pytest.mark.parametrize("name", POLICY)
def test_every_row_of_the_policy_has_its_published_bytes(name: str) -> None:
    value, text = POLICY[name], vectors("policy")[name]
    assert encode(value) == text.encode()
    assert encode(decode(text.encode())) == text.encode()
    assert types_in(decode(text.encode())) <= BASE_TYPES
    if name != "decimal extreme":  # the oracle would write out 10^18 zeros
        assert meaning(decode(text.encode())) == meaning(value)


def test_every_vector_has_a_value_and_stands_on_the_reference_page() -> None:
    page = REFERENCE_PAGE.read_text(encoding="utf-8")
    assert vectors("policy").keys() == POLICY.keys()
    assert [text for text in vectors("policy").values() if f"`{text}`" not in page] == []


# ── what decode gives back ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (2**53, 2**53),
        (2.0**53, 2.0**53),
        (1.0, 1),
        ((1, (2,)), [1, [2]]),
        (Decimal("1.10"), Decimal("1.1")),
        (POLICY["datetime aware"], datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)),
        (POLICY["datetime naive"], POLICY["datetime naive"]),
        (bytearray(b"ab"), b"ab"),
        (POLICY["duration"], POLICY["duration"]),
        (timedelta.max, timedelta.max),
        (timedelta.min, timedelta.min),
        (datetime.min, datetime.min),  # noqa: DTZ901
        (date.max, date.max),
        (time.max, time.max),
        (Colour.RED, "red"),
        (Rights.READ | Rights.WRITE, 3),
        (Size.BOX, [1, 2]),
        (Word.YES, "yes"),
        (POLICY["dataclass"], {"amount": Decimal("9.9"), "tags": ["a"]}),
        (Numbers([1, 2]), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        (UserDict({"a": 1}), {"a": 1}),
        ({Word.YES: 1}, {"yes": 1}),
        (Real(0.5), 0.5),
        ({"$uuid": {"$": ["$"]}}, {"$uuid": {"$": ["$"]}}),
    ],
    ids=repr,
)
def test_decode_gives_back_the_recorded_form(value: object, recorded: object) -> None:
    result = decode(encode(value))
    assert result == recorded
    assert type(result) is type(recorded)


def test_an_aware_datetime_comes_back_aware_and_a_naive_one_naive() -> None:
    aware, naive = decode(encode(POLICY["datetime aware"])), decode(encode(POLICY["datetime naive"]))
    assert isinstance(aware, datetime)
    assert aware.tzinfo is UTC
    assert isinstance(naive, datetime)
    assert naive.tzinfo is None


def test_one_and_true_and_their_lookalikes_all_differ() -> None:
    lookalikes = [
        1,
        True,
        "1",
        "true",
        Decimal(1),
        b"1",
        [1],
        {"1": 1},
        {"$int": "1"},
        {"$decimal": "1"},
        0,
        False,
        None,
    ]
    assert len({encode(each) for each in lookalikes}) == len(lookalikes)


def test_a_big_integer_is_not_the_double_beside_it() -> None:
    assert encode(2**53) != encode(2.0**53)
    assert decode(encode(2**53 + 1)) == 2**53 + 1


def test_a_decimal_is_exact_whatever_the_context_says() -> None:
    value = Decimal("12345678901234567890.123456789")
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 3, 5, -5
        context.traps[InvalidOperation] = False
        assert encode(value) == b'{"$decimal":"12345678901234567890.123456789"}'
        assert decode(encode(value)) == value
        with pytest.raises(ValueError, match="malformed"):
            decode(b'{"$decimal":"no number"}')


def test_an_instant_has_one_text_in_every_zone_and_fold() -> None:
    instant = datetime(2024, 10, 27, 1, 30, tzinfo=UTC)
    zones = [timezone(timedelta(hours=h, seconds=s)) for h, s in ((0, 0), (5, 0), (-11, 0), (1, 7))]
    assert len({encode(instant.astimezone(zone)) for zone in zones}) == 1
    naive = POLICY["datetime naive"]
    assert encode(naive.replace(fold=1)) == encode(naive)


def test_long_integers_do_not_depend_on_the_interpreters_limit() -> None:
    value = 10 ** (MAX_INT_DIGITS - 1)
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert decode(encode(-value)) == -value
    finally:
        sys.set_int_max_str_digits(before)


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class NoOffset(tzinfo):
    def utcoffset(self, moment: datetime | None) -> None:
        return None


class BrokenZone(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta:
        raise LookupError("zone data are missing")


class Nanoseconds(timedelta):
    """Knows more than it shows, as pandas.Timedelta does."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = timedelta.__hash__


class Stamp(datetime):
    pass


class Day(date):
    pass


class Clock(time):
    pass


class BadModel:
    model_fields: Mapping[str, object] = {}

    def model_dump(self, *, mode: str) -> object:
        raise KeyError(mode)


class BadMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class NoPairs(dict[str, int]):
    def items(self) -> Any:
        return [1]


class Secret(BaseModel):
    token: SecretStr


REFUSED: list[tuple[Any, str, str]] = [
    ({"customer": {"tags": ["a", "b", "c", {1}]}}, "$.customer.tags[3]", "pass a list, sorted"),
    ([frozenset()], "$[0]", "pass a list, sorted"),
    ({"a": {1: "x"}}, "$.a", "has the key 1 (int); keys must be strings"),
    ({None: 1}, "$", "has the key None"),
    ({True: 1}, "$", "has the key True (bool)"),
    ({1.5: 1}, "$", "has the key 1.5 (float)"),
    ({10**5000: 1}, "$", "has the key of type int"),
    ({("a", 1): 1}, "$", "has the key of type tuple"),
    ({Colour.RED: 1}, "$", "Colour; keys must be strings"),
    ({"a": 1, b"b": 2}, "$", "has the key of type bytes"),
    ({"a": float("nan")}, "$.a", "nan is not a JSON number"),
    ([float("-inf")], "$[0]", "-inf is not a JSON number"),
    (Decimal("sNaN"), "$", "Decimal sNaN is not a number"),
    (Decimal("Infinity"), "$", "Decimal Infinity is not a number"),
    ({"a": "\ud800"}, "$.a", "lone surrogate"),
    (["ok", "\udfff x"], "$[1]", "lone surrogate"),
    ({"b\ud83d": 1}, "$", "lone surrogate"),
    ({"weird key": {1}}, '$["weird key"]', "set"),
    ({"": {1}}, '$[""]', "set"),
    ({"$ref": {1}}, '$["$ref"]', "set"),
    ({"é\n": {1}}, '$["\\u00e9\\n"]', "set"),
    ({"k" * 70: {1}}, '$["' + "k" * 60 + '\\u2026"]', "set"),
    (object(), "$", "object has no recorded form; pass JSON values, a dataclass or a pydantic model"),
    (int, "$", "type has no recorded form"),
    (Payment, "$", "type has no recorded form"),
    (Invoice, "$", "has no recorded form"),
    (1j, "$", "complex has no recorded form"),
    (deque([1]), "$", "collections.deque has no recorded form"),
    (SimpleNamespace(), "$", "types.SimpleNamespace has no recorded form"),
    (MagicMock(), "$", "MagicMock has no recorded form"),
    (MagicMock(spec=dict), "$", "MagicMock has no recorded form"),
    (iter([1]), "$", "list_iterator has no recorded form"),
    (array("I", [1]), "$", "pass its .tolist()"),
    (memoryview(array("I", [1])), "$", "pass bytes"),
    (memoryview(b"abcd").cast("B", (2, 2)), "$", "pass bytes"),
    (time(1, tzinfo=UTC), "$", "pass a datetime"),
    (datetime(2024, 1, 1, tzinfo=NoOffset()), "$", "pass an aware datetime"),
    (datetime(2024, 1, 1, tzinfo=BrokenZone()), "$", "raised LookupError"),
    (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "$", "years 1 to 9999"),
    (Nanoseconds(1), "$", "holds more than a datetime.timedelta can"),
    (Late(), "$", "raised AttributeError"),
    (TextOfRecord("a"), "$", "a dataclass and a builtin type at once"),
    (BadModel(), "$", "raised KeyError"),
    (BadMapping(), "$", "raised KeyError"),
    (NoPairs(a=1), "$", "raised TypeError"),
    (Secret(token=SecretStr("hush")), "$.token", "SecretStr has no recorded form"),
    (Payment(amount=Decimal("NaN"), tags=[]), "$.amount", "is not a number"),
    ({"a": 1, OtherText("a"): 2}, "$", "two of its keys are the same text"),
]


@pytest.mark.parametrize(("value", "path", "why"), REFUSED, ids=[f"{n}-{why}" for n, (_, _, why) in enumerate(REFUSED)])
def test_what_has_no_lossless_form_is_refused_with_its_path(value: object, path: str, why: str) -> None:
    with pytest.raises(NotRecordable) as refusal:
        encode(value)
    assert refusal.value.path == path
    assert why in refusal.value.why
    assert str(refusal.value).isprintable()


def test_the_path_begins_with_the_given_root() -> None:
    with pytest.raises(NotRecordable, match=r"^args\.when\[0\]: "):
        encode({"when": [{1}]}, root="args")


def test_subclasses_that_hold_no_more_than_their_base_are_recorded_like_it() -> None:
    for mine, plain in [
        (Stamp(2024, 5, 6, 7, tzinfo=UTC), datetime(2024, 5, 6, 7, tzinfo=UTC)),
        (Day(2024, 5, 6), date(2024, 5, 6)),
        (Clock(7), time(7)),
        (type("Span", (timedelta,), {})(3), timedelta(3)),
        (type("Money", (Decimal,), {})("1.50"), Decimal("1.5")),
        (type("Id", (UUID,), {})(int=5), UUID(int=5)),
        (type("Blob", (bytes,), {})(b"a"), b"a"),
        (type("Buffer", (bytearray,), {})(b"a"), b"a"),
        (type("Row", (list,), {})([1]), [1]),
    ]:
        assert encode(mine) == encode(plain)


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def nested(levels: int, leaf: object) -> object:
    value = leaf
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize("leaf", [1, 1.5, Decimal(1)], ids=["the quick way", "the long way", "a tag is no level"])
def test_depth_is_counted_alike_on_both_ways(leaf: object) -> None:
    assert decode(encode(nested(MAX_DEPTH, leaf))) == nested(MAX_DEPTH, leaf)
    with pytest.raises(TooLarge, match=r"nested more than 64 levels deep; flatten .* or raise max_depth") as refusal:
        encode(nested(MAX_DEPTH + 1, leaf))
    assert (refusal.value.limit, refusal.value.size) == (64, 65)
    assert encode(nested(MAX_DEPTH + 1, leaf), max_depth=MAX_DEPTH + 1)
    assert encode(leaf, max_depth=0)
    with pytest.raises(TooLarge):
        encode([], max_depth=0)


def test_a_value_that_contains_itself_is_too_large_and_does_not_exhaust_the_stack() -> None:
    ring: list[Any] = []
    ring.append(ring)
    knot: dict[str, Any] = {"price": 1.5}
    knot["self"] = knot
    for value in (ring, knot, MappingProxyType(knot)):
        with pytest.raises(TooLarge, match="break its cycle"):
            encode(value)
        with pytest.raises(TooLarge, match="interpreter's stack") as refusal:
            encode(value, root="args", max_depth=10**6)
        assert str(refusal.value).startswith("args")
        assert refusal.value.size > refusal.value.limit


def test_a_model_that_dumps_itself_is_too_large() -> None:
    class Mirror:
        model_fields: Mapping[str, object] = {}

        def model_dump(self, *, mode: str) -> object:
            return self

    class Abyss(Mirror):
        def model_dump(self, *, mode: str) -> object:
            return self.model_dump(mode=mode)

    for value in (Mirror(), Abyss()):
        with pytest.raises(TooLarge, match="interpreter's stack"):
            encode(value)


@pytest.mark.parametrize("value", [{"a": "é" * 50}, {"a": "é" * 50, "b": 1.5}], ids=["quick", "long"])
def test_size_is_counted_in_bytes_and_the_refusal_names_limit_size_and_next_step(value: object) -> None:
    size = len(encode(value))
    assert len(encode(value, max_bytes=size)) == size
    with pytest.raises(
        TooLarge, match=rf"{size} bytes, the limit is {size - 1}; .* or raise the ledger.s limit for it"
    ) as refusal:
        encode(value, max_bytes=size - 1)
    assert (refusal.value.limit, refusal.value.size) == (size - 1, size)


@pytest.mark.parametrize("leaf", [1, 1.5], ids=["quick", "long"])
def test_shared_branches_are_stopped_before_they_are_written_out(leaf: object) -> None:
    branch: Any = [leaf]
    for _ in range(50):
        branch = [branch, branch]
    with pytest.raises(TooLarge, match="takes at least") as refusal:
        encode(branch, max_bytes=1000)
    assert refusal.value.limit == 1000
    assert refusal.value.size > 1000


def test_an_integer_no_other_reader_takes_is_too_large() -> None:
    assert decode(encode(10**MAX_INT_DIGITS - 1)) == 10**MAX_INT_DIGITS - 1
    with pytest.raises(TooLarge, match=r"\$\[0\]: an integer of about 4,301 digits; the limit is 4,300") as refusal:
        encode([-(10**MAX_INT_DIGITS)])
    assert (refusal.value.limit, refusal.value.size) == (4300, 4301)


# ── decode refuses ───────────────────────────────────────────────────────────────────────────────────────────────────

MALFORMED = [
    '{"$unknown":"1"}',
    '{"$":1}',
    '{"$int":"9007199254740992","a":1}',
    '{"a":1,"$int":"9007199254740992"}',
    '{"$int":"9007199254740992","$date":"2024-01-01"}',
    '{"$int":9007199254740992}',
    '{"$int":"5"}',
    '{"$int":"9007199254740991"}',
    '{"$int":"+9007199254740992"}',
    '{"$int":"09007199254740992"}',
    '{"$int":"9_007_199_254_740_992"}',
    '{"$int":"1E+999999999999"}',
    '{"$int":"٩٠٠٧١٩٩٢٥٤٧٤٠٩٩٢"}',
    '{"$int":"1' + "0" * MAX_INT_DIGITS + '"}',
    '{"$int":{"$int":"9007199254740992"}}',
    '{"$decimal":"1.10"}',
    '{"$decimal":"1E+2"}',
    '{"$decimal":"-0"}',
    '{"$decimal":"NaN"}',
    '{"$decimal":"sNaN"}',
    '{"$decimal":"Infinity"}',
    '{"$decimal":"1E+9999999999999999999"}',
    '{"$decimal":" 1"}',
    '{"$decimal":""}',
    '{"$decimal":1.5}',
    '{"$datetime":"2024-01-01T00:00:00+00:00"}',
    '{"$datetime":"2024-01-01T00:00:00+02:00Z"}',
    '{"$datetime":"2024-01-01T00:00:00.5Z"}',
    '{"$datetime":"2024-01-01T00:00Z"}',
    '{"$datetime":"2024-13-01T00:00:00"}',
    '{"$date":"20240101"}',
    '{"$date":null}',
    '{"$time":"07:08"}',
    '{"$time":"07:08:09+00:00"}',
    '{"$duration":"1.5"}',
    '{"$duration":"-0"}',
    '{"$duration":"99999999999999999999999999"}',
    '{"$uuid":"{12345678-1234-5678-1234-567812345678}"}',
    '{"$uuid":"12345678123456781234567812345678"}',
    '{"$uuid":"12345678-1234-5678-1234-56781234567A"}',
    '{"$bytes":"AP8"}',
    '{"$bytes":"AP9="}',
    '{"$bytes":"A P8="}',
    '{"$bytes":"é"}',
    '{"a":1,"a":2}',
    '{"$$a":1,"$$a":2}',
    "1.0",
    "1e2",
    "1E21",
    "1e+16",
    "1e-05",
    "1e400",
    "9007199254740993",
    "9" * 5000,
    "NaN",
    "-Infinity",
    '"\\ud800"',
    '"\\u0041"',
    '["\\\\\\\\users\\u00e9"]',
    "",
    " 1",
    "1 ",
    "[1]]",
    "[1",
    "nul",
    "'a'",
    '"a\n"',
]


@pytest.mark.parametrize("text", MALFORMED, ids=[text[:40] for text in MALFORMED])
def test_decode_refuses_what_encode_never_writes(text: str) -> None:
    with pytest.raises(ValueError):
        decode(text.encode())


def test_decode_refuses_bytes_that_are_not_utf_8_and_nesting_it_cannot_read() -> None:
    for data in (b'"\xff"', b'"\xed\xa0\x80"', b"[" * 200_000):
        with pytest.raises(ValueError):
            decode(data)


def test_decode_reads_backslashes_before_a_u() -> None:
    value = ["C:\\users\\new", "\\u0041", "\x00\x1f\\", "\\\\u"]
    assert decode(encode(value)) == value


# ── JSON from outside ────────────────────────────────────────────────────────────────────────────────────────────────


def test_parse_strict_keeps_integers_exact_and_tags_as_plain_content() -> None:
    text = ' {"id": 12345678901234567890, "n": -0.5, "tag": {"$int": "5"}, "emoji": "\\ud83d\\ude00", "e": "\u00e9"} '
    value = parse_strict(text)
    assert value == {"id": 12345678901234567890, "n": -0.5, "tag": {"$int": "5"}, "emoji": "\U0001f600", "e": "\u00e9"}
    assert parse_strict(text.encode()) == value
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ('{"a": 1, "b": 2, "b": 3}', '"b" stands twice'),
        ('[{"x": {"a": 1, "\\u0061": 1}}]', '"a" stands twice'),
        ('"\\ud800"', "surrogates not allowed"),
        ('{"\\uDFFF": 1}', "surrogates not allowed"),
        ('["\\ude00\\ud83d"]', "surrogates not allowed"),
        ('"\ud800"', "surrogates not allowed"),
        (b'"\xed\xa0\x80"', "codec can't decode"),
        (b'"\xff"', "codec can't decode"),
        ('"a"'.encode("utf-16"), "codec can't decode"),
        (b"\xef\xbb\xbf1", "Expecting value"),
        ("NaN", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("1e999", "larger than any double"),
        ("9" * 5000, "limit"),
        ("[1] 2", "Extra data"),
        ("{'a': 1}", "Expecting property name"),
        ("", "Expecting value"),
        ('"a\nb"', "control character"),
    ],
    ids=repr,
)
def test_parse_strict_refuses_what_two_readers_could_understand_differently(data: bytes | str, why: str) -> None:
    with pytest.raises(BadCall, match="this JSON cannot be read safely") as refusal:
        parse_strict(data)
    assert why in str(refusal.value)


def test_parse_strict_refuses_nesting_the_interpreter_cannot_read() -> None:
    with pytest.raises(TooLarge):
        parse_strict("[" * 200_000)


# ── both ways write the same bytes ───────────────────────────────────────────────────────────────────────────────────

plain_scalars = st.none() | st.booleans() | st.integers(-SAFE, SAFE) | st.text(st.characters(codec="utf-8"))
ascii_keys = st.text(st.characters(max_codepoint=127)).filter(lambda key: not key.startswith("$"))
plain_values = st.recursive(
    plain_scalars, lambda inner: st.lists(inner) | st.dictionaries(ascii_keys, inner), max_leaves=25
)


@settings(max_examples=300, deadline=None)
@given(plain_values.filter(lambda value: isinstance(value, list | dict)))
def test_the_quick_way_the_long_way_and_two_references_agree(value: Any) -> None:
    quick = canonical._encode_plain(value, MAX_DEPTH, sys.maxsize)
    long = rfc8785.dumps(canonical.Recording("$", MAX_DEPTH, sys.maxsize).form(value))
    assert quick == long == rfc8785.dumps(value) == jcs(value).encode() == encode(value)


@pytest.mark.parametrize(
    "value",
    [1.0, 2**53, -(2**53), (1,), Text("a"), Whole(1), Level.LOW, "\ud800", Decimal(1), {"$": 1}, {"é": 1}, {1: 1}],
    ids=repr,
)
def test_the_quick_way_leaves_everything_that_is_not_plain_to_the_long_way(value: object) -> None:
    for container in ([value], {"a": value}, [[value]], {"a": {"a": value}}):
        assert canonical._encode_plain(container, MAX_DEPTH, sys.maxsize) is None
    assert canonical._encode_plain({Text("a"): 1}, MAX_DEPTH, sys.maxsize) is None


@settings(max_examples=1000, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_written_by_the_rules_of_ecmascript_and_read_back(value: float) -> None:
    assert encode(value) == ecmascript_number(value).encode()
    assert meaning(decode(encode(value))) == meaning(value)


# ── any value ────────────────────────────────────────────────────────────────────────────────────────────────────────

offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
scalars = st.one_of(
    plain_scalars,
    st.integers(),
    st.sampled_from([SAFE, SAFE + 1, -SAFE, -SAFE - 1, 10**30]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.datetimes(),
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=offsets),  # noqa: DTZ001
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.binary(),
    st.binary().map(bytearray),
    st.sampled_from([Colour.RED, Level.LOW, Word.YES, Rights.READ, Size.BOX]),
)
keys = st.text(st.characters(codec="utf-8")) | st.sampled_from(
    ["$", "$$", "$int", "$$int", "$bytes", "\U0001f600", "\ufb33"]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=15,
)


@settings(max_examples=600, deadline=None)
@given(values)
def test_decode_undoes_encode(value: Any) -> None:
    data = encode(value)
    recorded = decode(data)
    assert meaning(recorded) == meaning(value)
    assert types_in(recorded) <= BASE_TYPES
    assert encode(recorded) == data
    assert rfc8785.dumps(json.loads(data, parse_int=float)) == data  # the bytes are RFC 8785 for any reader


@settings(max_examples=300, deadline=None)
@given(values, values)
def test_values_are_equal_exactly_when_their_bytes_are(one: Any, other: Any) -> None:
    assert (encode(one) == encode(other)) == (meaning(one) == meaning(other))


@settings(max_examples=600, deadline=None)
@given(st.binary() | st.sampled_from(MALFORMED).map(str.encode) | values.map(encode), st.data())
def test_decode_of_damaged_bytes_gives_a_recordable_value_or_a_value_error(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data)))
    damaged = data[:at] + draw.draw(st.binary(max_size=3)) + data[at + draw.draw(st.integers(0, 2)) :]
    try:
        value = decode(damaged)
    except ValueError:
        return
    assert meaning(decode(encode(value))) == meaning(value)


# ── a million values ─────────────────────────────────────────────────────────────────────────────────────────────────


class Sampler(random.Random):
    """Draws values from small pools, so that equal values and near misses meet often."""

    TEXTS = (
        "",
        "1",
        "a",
        "b",
        "\u00e9",
        "e\u0301",
        "\U0001f600",
        "\ufb33",
        "true",
        "null",
        "AQ==",
        "$",
        "$int",
        '"\\\n',
    )
    KEYS = ("", "a", "b", "$", "$$", "$int", "$$int", "$decimal", "$bytes", "\u00e9", "\U0001f600", "\ufb33", "\uffff")
    INTS = (0, 1, -1, 2, 10, SAFE, -SAFE, SAFE + 1, -SAFE - 1, 10**16, 10**21, 2**64, 2**64 + 1)
    FLOATS = (0.0, -0.0, 1.0, -1.0, 0.1, 1.5, 1e-7, 1e16, 1e21, 2.0**53, -(2.0**53), 2.0**64, 5e-324, 1e300)
    DECIMALS = ("0", "-0", "1", "1.0", "1.00", "10", "1E+1", "0.1", "0.10", "1E+20", "1E+21", "1E-22", "12.5", "100")
    DAYS = (date(2024, 1, 1), date(2024, 1, 2), date(1, 1, 2))

    def value(self, depth: int = 3) -> Any:
        kind = self.randrange(14 if depth else 11)
        if kind >= 11:
            return self.container(depth)
        return self.scalar(kind)

    def container(self, depth: int) -> Any:
        size = self.choice((0, 1, 1, 2, 3))
        if self.random() < 0.4:
            return [self.value(depth - 1) for _ in range(size)]
        return {self.choice(self.KEYS): self.value(depth - 1) for _ in range(size)}

    def scalar(self, kind: int) -> Any:
        if kind == 0:
            return self.choice((None, True, False))
        if kind == 1:
            return self.choice(self.TEXTS) + self.choice(self.TEXTS)
        if kind == 2:
            return self.choice(self.INTS) if self.random() < 0.7 else self.randrange(-(2**70), 2**70)
        if kind == 3:
            return self.choice(self.FLOATS) if self.random() < 0.5 else self.double()
        if kind == 4:
            return Decimal(self.choice(self.DECIMALS)) if self.random() < 0.6 else self.decimal()
        if kind == 5:
            return self.randbytes(self.randrange(3))
        if kind == 6:
            return self.moment()
        if kind == 7:
            return self.choice((*self.DAYS, timedelta(self.randrange(3), 0, self.randrange(3))))
        if kind == 8:
            return time(self.randrange(24), 0, 0, self.choice((0, 1, 500_000)))
        if kind == 9:
            return UUID(int=self.getrandbits(self.choice((2, 128))))
        return self.choice((Colour.RED, Level.LOW, Word.YES, Rights.READ, "red", 2, "yes"))

    def plain(self, depth: int = 3) -> Any:
        """Returns a value that the quick way takes."""
        size = self.randrange(4)
        if depth and self.random() < 0.3:
            return [self.plain(depth - 1) for _ in range(size)]
        if depth and self.random() < 0.5:
            return {self.plain_text()[:size]: self.plain(depth - 1) for _ in range(size)}
        return self.choice((None, True, False, self.randrange(-SAFE, SAFE + 1), self.plain_text(), *self.TEXTS))

    def plain_text(self) -> str:
        return "".join(chr(self.randrange(128)) for _ in range(5)).lstrip("$")

    def double(self) -> float:
        while True:
            (value,) = struct.unpack("d", self.randbytes(8))
            if value - value == 0:
                return float(value)

    def decimal(self) -> Decimal:
        return Decimal(self.randrange(-(10**6), 10**6)).scaleb(self.randrange(-40, 40))

    def moment(self) -> datetime:
        wall = datetime(2024, 1, self.randrange(1, 3), self.randrange(24), 0, 0, self.choice((0, 1)))  # noqa: DTZ001
        zone = self.choice((None, UTC, timezone(timedelta(hours=self.randrange(-3, 4)))))
        return wall.replace(tzinfo=zone)

    def disguise(self, value: Any) -> Any:
        """Returns an equal value that looks different to Python."""
        if isinstance(value, list):
            return self.choice((list, tuple))(map(self.disguise, value))
        if isinstance(value, dict):
            shuffled = [(self.choice((str, Text))(key), self.disguise(item)) for key, item in value.items()]
            self.shuffle(shuffled)
            return self.choice((dict, OrderedDict, UserDict))(shuffled)
        if isinstance(value, Enum):
            return value.value
        if type(value) is int:
            return float(value) if abs(value) <= SAFE else Whole(value)
        if type(value) is float:
            return int(value) if value.is_integer() and abs(value) <= SAFE else Real(value)
        if isinstance(value, Decimal):
            return self.rescaled(value)
        if isinstance(value, bytes):
            return self.choice((bytearray, memoryview))(value)
        if isinstance(value, datetime) and value.tzinfo:
            return value.astimezone(timezone(timedelta(minutes=self.randrange(-600, 600))))
        return Text(value) if type(value) is str else value

    def rescaled(self, value: Decimal) -> Decimal:
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        zeros = self.randrange(4)
        return Decimal((sign, (*digits, *[0] * zeros), exponent - zeros))

    def twist(self, value: Any) -> Any:
        """Returns a value that differs in one place, or by chance does not; the oracle knows."""
        if isinstance(value, list) and value:
            at = self.randrange(len(value))
            return [*value[:at], self.twist(value[at]), *value[at + 1 :]]
        if isinstance(value, dict) and value:
            key = self.choice(list(value))
            rest = {each: item for each, item in value.items() if each != key}
            return rest | self.choice(({key: self.twist(value[key])}, {"$" + key: value[key]}, {key[1:]: value[key]}))
        if isinstance(value, bool | None):
            return self.choice((0, 1, None, "null", True, False))
        if isinstance(value, int | float):
            return self.choice((value + 1, -value, bool(value), str(value), Decimal(value), {"$int": str(value)}))
        if isinstance(value, Decimal):
            return self.choice((-value, {"$decimal": str(value)}, str(value), value + 1))
        if isinstance(value, bytes):
            return self.choice((value + b"\0", value.hex(), {"$bytes": "AQ=="}))
        if isinstance(value, datetime):
            return self.choice(
                (value.replace(tzinfo=None), value.isoformat(), value.date(), value + timedelta(hours=1))
            )
        return self.choice((str(value), [value], {"a": value}, value))


def short_hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest())


FUZZ_COUNT = int(os.environ.get("INDELIBLE_FUZZ", "30000"))
FUZZ_SEED = int(os.environ.get("INDELIBLE_FUZZ_SEED", "1"))


@pytest.mark.timeout(0)
def test_the_quick_way_agrees_with_rfc_8785_on_many_values() -> None:
    sampler = Sampler(FUZZ_SEED)
    for _ in range(FUZZ_COUNT):
        value = {"a": sampler.plain()}
        assert canonical._encode_plain(value, MAX_DEPTH, sys.maxsize) == rfc8785.dumps(value), value
        assert decode(encode(value)) == value


@pytest.mark.timeout(0)
def test_equal_values_have_equal_bytes_and_unequal_values_do_not() -> None:
    """Draws INDELIBLE_FUZZ values (30,000 unless told; a million takes minutes) and compares each with all others."""
    sampler = Sampler(FUZZ_SEED)
    bytes_of_meaning: dict[int, int] = {}
    meaning_of_bytes: dict[int, int] = {}
    equal_pairs = 0
    for _ in range(FUZZ_COUNT // 2):
        one = sampler.value()
        other = sampler.choice((sampler.disguise, sampler.twist))(one)
        pair = []
        for value in (one, other):
            data, sense = encode(value), meaning(value)
            recorded, meant = short_hash(data), short_hash(repr(sense).encode())
            assert bytes_of_meaning.setdefault(meant, recorded) == recorded, value
            assert meaning_of_bytes.setdefault(recorded, meant) == meant, value
            assert encode(decode(data)) == data
            pair.append((data, sense))
        (data, sense), (other_data, other_sense) = pair
        assert (data == other_data) == (sense == other_sense), (one, other)
        equal_pairs += data == other_data
    assert FUZZ_COUNT / 5 < equal_pairs < FUZZ_COUNT / 2  # both sides of "exactly when" were exercised
