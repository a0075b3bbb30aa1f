"""Faults that other systems have in telling calls apart: each is a promise here, on both stores through both shells."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from indelible import Resource
from indelible.core.events import commitment
from indelible.core.values.canonical import encode
from indelible.errors import NotRecordable
from tests.scenarios.shells import Count, Driver, Shell, charge

SNOWFLAKE = 1_234_567_890_123_456_789


class Colour(Enum):
    RED = "red"


@dataclass
class Address:
    city: str


class Item(BaseModel):
    sku: str


# 16: parts were joined with a separator, so a separator inside a part made two different calls one.
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"run_id": "a|b", "tool": "c"}, {"run_id": "a", "tool": "b"}),
        ({"scope": "a/b", "tool": "c"}, {"scope": "a", "tool": "b/c"}),
        ({"scope": "a:b", "tool": "c"}, {"scope": "a", "tool": "b:c"}),
        ({"scope": "a\nb", "tool": "c"}, {"scope": "a", "tool": "c"}),
        ({"scope": "a.b", "tool": "c"}, {"scope": "a", "tool": "b.c"}),
        ({"scope": "s", "tool": "tool"}, {"scope": "stool", "tool": "t"}),
    ],
)
def test_16_no_choice_of_names_makes_two_calls_one(ledger: Driver, one: Any, other: Any) -> None:
    handler = Count()
    ledger.run(charge(**one), handler)
    ledger.run(charge(**other), handler)
    assert handler.entries == 2
    assert len({effect.key for effect in ledger.effects()}) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a/b", "c", "d"), ("a", "b/c", "d")),
        (("a", "b|c", "d"), ("a|b", "c", "d")),
        (("a", "", "b"), ("a", "b", "")),
    ],
)
def test_16_no_choice_of_words_makes_two_resources_one(ledger: Driver, one: Any, other: Any) -> None:
    handler = Count()
    for namespace, kind, name in (one, other):
        ledger.run(charge(resource=Resource(namespace=namespace, type=kind, id=name)), handler)
    assert handler.entries == 2


def test_16_no_choice_of_tenants_and_call_ids_makes_two_calls_one(shell: Shell) -> None:
    handler = Count()
    for tenant, call_id in (("a|b", "c"), ("a", "b|c")):
        ledger = shell.open(tenant=f"{shell.tenant}{tenant}")
        ledger.run(charge(call_id=call_id, dedupe="call"), handler)
    assert handler.entries == 2


# 17: large integers were refused or rounded, not-a-number was null, dates were all equal, names were dropped.
def test_17_large_integers_are_kept_exactly_and_told_apart(ledger: Driver) -> None:
    numbers = [2**53 - 1, 2**53, 2**53 + 1, SNOWFLAKE, SNOWFLAKE + 1, -(2**53) - 1, 10**40, 10**40 + 1]
    got = [ledger.run(charge(args={"id": number}), lambda effect: effect.args["id"]) for number in numbers]
    assert got == numbers
    assert [type(number) for number in got] == [int] * len(numbers)
    assert len(ledger.effects()) == len(numbers)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), Decimal("NaN"), Decimal("Infinity")])
def test_17_what_is_no_number_is_refused_with_its_place(ledger: Driver, value: Any) -> None:
    with pytest.raises(NotRecordable) as refusal:
        ledger.run(charge(args={"order": {"amounts": [1, value]}}), Count())
    assert refusal.value.path == "args.order.amounts[1]"
    assert ledger.effects() == []


@pytest.mark.parametrize("value", [object(), {1}, lambda: 1, type, ..., complex(1, 2)])
def test_17_what_has_no_recorded_form_is_refused_and_never_turned_into_text(ledger: Driver, value: Any) -> None:
    with pytest.raises(NotRecordable, match=r"args\.x"):
        ledger.run(charge(args={"x": value}), Count())


def test_17_values_that_differ_are_different_calls(ledger: Driver) -> None:
    composed = unicodedata.normalize("NFC", "é")
    values: list[Any] = [
        date(2030, 1, 2),
        date(2030, 1, 3),
        datetime(2030, 1, 2, tzinfo=UTC),
        datetime(2030, 1, 2),  # noqa: DTZ001
        "2030-01-02",
        time(1, 2),
        timedelta(seconds=1),
        1,
        "1",
        True,
        1.5,
        Decimal("1.5"),
        None,
        "null",
        "",
        [],
        {},
        b"x",
        "x",
        "eA==",
        UUID(int=1),
        str(UUID(int=1)),
        composed,
        unicodedata.normalize("NFD", composed),
        {"__proto__": 1},
        {"constructor": 1},
        {"$int": "9007199254740993"},
        2**53 + 1,
    ]
    handler = Count()
    for value in values:
        ledger.run(charge(args={"value": value}), handler)
    assert handler.entries == len(values)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        ((1, 2), [1, 2]),
        (Colour.RED, "red"),
        (Address("Rome"), {"city": "Rome"}),
        (Item(sku="a"), {"sku": "a"}),
        (Decimal("1.50"), Decimal("1.5")),
        (datetime(2030, 1, 2, 12, tzinfo=UTC), datetime(2030, 1, 2, 13, tzinfo=timezone(timedelta(hours=1)))),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (bytearray(b"x"), b"x"),
    ],
)
def test_17_values_that_are_equal_are_the_same_call(ledger: Driver, one: Any, other: Any) -> None:
    handler = Count()
    ledger.run(charge(args={"value": one}), handler)
    ledger.run(charge(args={"value": other}), handler)
    assert handler.entries == 1


@pytest.mark.parametrize("name", ["__proto__", "constructor", "toString", "$ref", "$int", "", "a.b", "\u2028"])
def test_17_no_name_of_an_argument_is_dropped(ledger: Driver, name: str) -> None:
    got = ledger.run(charge(args={"nested": {name: 7}}), lambda effect: effect.args)
    assert got == {"nested": {name: 7}}
    assert ledger.effects()[0].args == {"nested": {name: 7}}


# 18: the record held plain hashes of arguments, and a hash of a small number tells the number.
def test_18_the_record_does_not_let_anybody_guess_the_arguments(ledger: Driver) -> None:
    secret = 424_242
    ledger.run(charge(args={"amount": secret}), Count({"paid": secret}))
    effect = ledger.effects()[0]
    record = "".join(event.body.decode() for event in ledger.events("order-1"))
    hashes = {word for event in ledger.events("order-1") for word in event.read()["commits"].values()}
    assert len(hashes) == 3
    for amount in range(secret - 2000, secret + 2000):
        args = encode({"amount": amount})
        guesses = {
            hashlib.sha256(args).hexdigest(),
            hashlib.sha256(str(amount).encode()).hexdigest(),
            commitment(bytes(32), "args", args),
            commitment(bytes.fromhex(effect.key), "args", args),
        }
        assert not guesses & hashes
    assert effect.key not in record
    assert effect.digest not in record
    assert str(secret) not in record


def test_18_equal_arguments_have_unequal_commitments(shell: Shell) -> None:
    ledger = shell.open()
    for run_id in ("a", "b"):
        ledger.run(charge(run_id=run_id), Count("same"))
    commits = [json.loads(event.body)["commits"] for run_id in ("a", "b") for event in ledger.events(run_id)]
    values = [value for each in commits for value in each.values()]
    assert len(values) == len(set(values)) == 6
