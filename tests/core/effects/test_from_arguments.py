"""Promises of core.effects.from_arguments: what a tool says of its calls comes from their arguments, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.core.effects.calls import Resource
from indelible.core.effects.from_arguments import (
    ALL,
    check_words,
    depends_on_arguments,
    identity_of,
    resource_of,
    text_of,
)
from indelible.errors import BadCall

ARGS = {"order": {"id": 7}, "shop": "berlin", "amount": 5}
TABLE = {"namespace": "shop", "type": "order", "id": "args.order.id"}
ORDER = Resource(namespace="shop", type="order", id="7")


def by_function(args: dict[str, Any]) -> Resource:
    return Resource(namespace="shop", type="order", id=str(args["order"]["id"]))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("orders", "orders"),
        ("args.shop", "berlin"),
        ("args.order.id", "7"),
        (lambda args: args["shop"] + "!", "berlin!"),
    ],
)
def test_a_text_is_itself_an_argument_or_what_a_function_returns(said: Any, meant: str) -> None:
    assert text_of(said, ARGS, "pay: scope") == meant


@pytest.mark.parametrize("value", [None, True, 1.5, "", [], {}, ()])
def test_what_names_nothing_is_refused(value: Any) -> None:
    for said in ("args.it", lambda args: args["it"]):
        with pytest.raises(BadCall):
            text_of(said, {"it": value}, "pay: scope")
    with pytest.raises(BadCall):
        text_of("args.missing", ARGS, "pay: scope")


@pytest.mark.parametrize("said", [ORDER, TABLE, by_function])
def test_a_resource_is_itself_a_table_or_what_a_function_returns(said: Any) -> None:
    assert resource_of(said, ARGS, "pay: resource") == ORDER


def test_a_function_that_returns_no_resource_is_refused() -> None:
    with pytest.raises(BadCall):
        resource_of(lambda args: "order", ARGS, "pay: exclusive")


def test_the_words_of_a_call_are_those_of_its_tool_for_its_arguments() -> None:
    words = {"scope": "args.shop", "turn": None, "resource": TABLE, "dedupe": "args"}
    derived = {"derived_from": ("shop", "order.id")}
    assert identity_of(words, ARGS, "pay") == {"scope": "berlin", "resource": ORDER, "dedupe": "args", **derived}
    made = identity_of({"turn": lambda args: "m1", "key": ["shop"]}, ARGS, "pay")
    assert made == {"turn": "m1", "turn_from": None, "key": ["shop"], "derived_from": (ALL,)}
    made = identity_of({"turn": "args.order.id"}, ARGS, "pay")
    assert made == {"turn": "7", "turn_from": "order.id", "derived_from": ("order.id",)}
    assert identity_of({}, ARGS, "pay") == {}


@pytest.mark.parametrize(
    ("words", "depends"),
    [
        ({}, False),
        ({"scope": "orders", "turn": "m1"}, False),
        ({"resource": ORDER}, False),
        ({"scope": "args.shop"}, True),
        ({"turn": len}, True),
        ({"resource": TABLE}, True),
        ({"resource": {**TABLE, "id": "7"}}, False),
        ({"resource": by_function}, True),
    ],
)
def test_it_is_known_whether_words_depend_on_the_arguments(words: Any, depends: bool) -> None:
    assert depends_on_arguments(words) is depends


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"scope": None},
        {"scope": len, "turn": "args.m", "resource": TABLE},
        {"turn": len, "varies": []},
        {"turn": len, "key": ["shop"]},
        {"turn": len, "resource": TABLE},
        {"turn": len, "dedupe": "args"},
    ],
    ids=str,
)
def test_words_that_may_fit_are_taken(words: Any) -> None:
    check_words("pay", words)


@pytest.mark.parametrize(
    "words",
    [
        {"scope": 5},
        {"turn": ["m"]},
        {"turn": len},
        {"turn": len, "dedupe": "turn"},
        {"resource": "order"},
        {"resource": {"id": "1"}},
        {"resource": {**TABLE, "id": 7}},
        {"resource": {**TABLE, "id": ""}},
        {"resource": TABLE, "key": ["shop"]},
        {"key": "shop"},
    ],
)
def test_words_that_fit_no_call_are_refused(words: Any) -> None:
    with pytest.raises(BadCall):
        check_words("pay", words)
