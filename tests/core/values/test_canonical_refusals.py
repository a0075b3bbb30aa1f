"""What core.values.canonical refuses: values with no lossless form, too large ones, and bytes it never writes."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr

from indelible.core.values.canonical import MAX_DEPTH, decode, encode, parse_strict
from indelible.core.values.tags import MAX_INT_DIGITS
from indelible.errors import BadCall, NotRecordable, TooLarge
from tests.core.values.recorded import MALFORMED, Colour, Invoice, Late, OtherText, Payment, TextOfRecord

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

    def model_dump(self, *, mode: str, by_alias: bool) -> object:
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

        def model_dump(self, *, mode: str, by_alias: bool) -> object:
            return self

    class Abyss(Mirror):
        def model_dump(self, *, mode: str, by_alias: bool) -> object:
            return self.model_dump(mode=mode, by_alias=by_alias)

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
