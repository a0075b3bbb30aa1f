"""Promises of core.effects.places: a place that no call of a function has is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from indelible.core.effects.calls import Options, Resource
from indelible.core.effects.places import check_places
from indelible.errors import BadCall


def pay(order: dict[str, int], cents: int, *more: dict[str, int], note: str = "") -> None:
    raise NotImplementedError


def openly(order: dict[str, int], **params: int) -> None:
    raise NotImplementedError


def resource(path: str) -> dict[str, str]:
    return {"namespace": "shop", "type": "order", "id": path}


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ({"key": None, "varies": None, "added": None}, {}),
        ({"key": ["order.id"], "varies": ["note"], "added": {"order.x": 1}}, {}),
        ({"scope": "args.cents", "turn": len, "resource": resource("args.order.id")}, {}),
        ({"scope": "orders", "resource": Resource(namespace="n", type="t", id="i")}, {"exclusive": len}),
        ({}, {"exclusive": (resource("args.cents"), resource("1")), "subject": "args.order.id"}),
        ({}, {"subject": len, "redact": ["args.note", "args.more[].id", "args.*.id", "*.pin", "result.pin", "card"]}),
        ({}, {"redact": [re.compile("pin")]}),
    ],
)
def test_places_that_a_call_may_have_are_taken(words: dict[str, Any], options: dict[str, Any]) -> None:
    check_places("pay", pay, words, Options(**options))


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ({"key": ["ordr"]}, {}),
        ({"varies": ["note", "nots"]}, {}),
        ({"added": {"order.id.x": 1}}, {}),
        ({"scope": "args.cent"}, {}),
        ({"turn": "args.cents.x"}, {}),
        ({"resource": resource("args.id")}, {}),
        ({}, {"exclusive": resource("args.id")}),
        ({}, {"subject": "args.customer"}),
        ({}, {"redact": ["card", "args.pin"]}),
        ({}, {"redact": ["args.more.id"]}),
        ({}, {"redact": ["args[].id"]}),
    ],
)
def test_a_place_that_no_call_has_is_refused(words: dict[str, Any], options: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        check_places("pay", pay, words, Options(**options))


def test_what_further_keywords_take_is_recorded_below_their_parameter() -> None:
    check_places("pay", openly, {"varies": ["params.note"]}, Options())
    for path in ("note", "params.note.x"):
        with pytest.raises(BadCall):
            check_places("pay", openly, {"varies": [path]}, Options())


def test_where_types_are_not_read_only_the_parameters_tell() -> None:
    check_places("pay", pay, {"varies": ["cents.x"]}, Options(), is_read=False)
    with pytest.raises(BadCall):
        check_places("pay", pay, {"varies": ["nots"]}, Options(), is_read=False)
    check_places("pay", openly, {"varies": ["note"]}, Options(), is_read=False)
