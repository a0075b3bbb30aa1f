"""Promises of core.values.canonical: one value, one byte string; one byte string, one value."""

from __future__ import annotations

import json
import struct
import sys
from collections import OrderedDict, UserDict, defaultdict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation, localcontext
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from indelible.core.values import canonical
from indelible.core.values.canonical import MAX_DEPTH, decode, decode_json, encode, parse_strict
from indelible.core.values.tags import MAX_INT_DIGITS, Encrypted, Redacted
from indelible.errors import BadCall, NotRecordable
from tests.core.values.oracle import BASE_TYPES, ecmascript_number, jcs, meaning, types_in
from tests.core.values.recorded import (
    MALFORMED,
    REFERENCE_PAGE,
    SAFE,
    Colour,
    Invoice,
    Level,
    Line,
    Numbers,
    Pair,
    Payment,
    Real,
    Rights,
    Size,
    Text,
    Whole,
    Word,
    vectors,
)

# ── the vectors ──────────────────────────────────────────────────────────────────────────────────────────────────────

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


# ── both ways write the same bytes ───────────────────────────────────────────────────────────────────────────────────

plain_scalars = st.none() | st.booleans() | st.integers(-SAFE, SAFE) | st.text(st.characters(codec="utf-8"))
ascii_keys = st.text(st.characters(max_codepoint=127)).filter(lambda key: not key.startswith("$"))
plain_values = st.recursive(
    plain_scalars, lambda inner: st.lists(inner) | st.dictionaries(ascii_keys, inner), max_leaves=25
)


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=500, deadline=None)
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


@settings(max_examples=300, deadline=None)
@given(values)
def test_decode_undoes_encode(value: Any) -> None:
    data = encode(value)
    recorded = decode(data)
    assert meaning(recorded) == meaning(value)
    assert types_in(recorded) <= BASE_TYPES
    assert encode(recorded) == data
    assert rfc8785.dumps(json.loads(data, parse_int=float)) == data  # the bytes are RFC 8785 for any reader


@settings(max_examples=150, deadline=None)
@given(values, values)
def test_values_are_equal_exactly_when_their_bytes_are(one: Any, other: Any) -> None:
    assert (encode(one) == encode(other)) == (meaning(one) == meaning(other))


@settings(max_examples=300, deadline=None)
@given(st.binary() | st.sampled_from(MALFORMED).map(str.encode) | values.map(encode), st.data())
def test_decode_of_damaged_bytes_gives_a_recordable_value_or_a_value_error(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data)))
    damaged = data[:at] + draw.draw(st.binary(max_size=3)) + data[at + draw.draw(st.integers(0, 2)) :]
    try:
        value = decode(damaged)
    except ValueError:
        return
    assert meaning(decode(encode(value))) == meaning(value)


@settings(max_examples=100, deadline=None)
@given(values)
def test_json_in_the_recorded_form_gives_its_value_back(value: Any) -> None:
    assert meaning(decode_json(parse_strict(encode(value)))) == meaning(value)


@pytest.mark.parametrize("plain", [{"$decimal": "1.10"}, {"$nothing": "1"}, {"$date": 5}, 2**60])
def test_json_that_is_not_in_the_recorded_form_is_refused(plain: object) -> None:
    with pytest.raises(BadCall):
        decode_json(plain)
