"""One binding: a default left out is the default spelled out, by signature and by schema."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.effects.binding import bound
from indelible.errors import BadCall


def refund(charge: str, amount: int = 5000, /, *more: int, memo: str = "", **rest: Any) -> None: ...


SIGNATURE = inspect.signature(refund)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "charge": {"type": "string"},
        "amount": {"type": "integer", "default": 5000},
        "to": {"$ref": "#/$defs/Address"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "how": {"$ref": "#/$defs/How", "default": {"fast": True}},
        "odd": {"$ref": "https://elsewhere.example/schema"},
        "lost": {"$ref": "#/$defs/Nowhere", "default": 1},
        "deep": {"$ref": "#/$defs/Line/properties/count"},
        "free": True,
    },
    "$defs": {
        "Address": {"type": "object", "properties": {"country": {"default": "DE"}, "city": {}}},
        "Line": {"type": "object", "properties": {"count": {"default": 1}}},
        "How": {"type": "object", "default": {"fast": False}},
    },
}


def test_without_parameters_arguments_stay_as_they_are() -> None:
    args = {"b": 1, "a": {"c": None}}
    assert bound(None, args, "t") == args
    assert bound(None, args, "t") is not args


@pytest.mark.parametrize(
    ("args", "whole"),
    [
        ({"charge": "c"}, {"charge": "c", "amount": 5000, "more": (), "memo": "", "rest": {}}),
        ({"charge": "c", "amount": 5000}, {"charge": "c", "amount": 5000, "more": (), "memo": "", "rest": {}}),
        ({"memo": "m", "charge": "c"}, {"charge": "c", "amount": 5000, "more": (), "memo": "m", "rest": {}}),
        ({"x": 1, "charge": "c"}, {"charge": "c", "amount": 5000, "more": (), "memo": "", "rest": {"x": 1}}),
    ],
)
def test_a_signature_applies_its_defaults(args: dict[str, Any], whole: dict[str, Any]) -> None:
    assert bound(SIGNATURE, args, "refund") == whole


def test_what_does_not_fit_a_signature_is_refused() -> None:
    def plain(charge: str, amount: int = 1) -> None: ...

    for args in ({}, {"charge": "c", "amonut": 1}):
        with pytest.raises(BadCall, match="refund"):
            bound(inspect.signature(plain), args, "refund")


@pytest.mark.parametrize(
    ("args", "added"),
    [
        ({}, {}),
        ({"amount": 1}, {"amount": 1}),
        ({"to": {"city": "Ulm"}}, {"to": {"city": "Ulm", "country": "DE"}}),
        ({"to": "x"}, {"to": "x"}),
        ({"lines": [{}, {"count": 2}, 3]}, {"lines": [{"count": 1}, {"count": 2}, 3]}),
        ({"how": {"fast": False}}, {"how": {"fast": False}}),
        ({"unknown": {"a": [{}]}}, {"unknown": {"a": [{}]}}),
        ({"free": {"a": 1}, "odd": {"a": 1}}, {"free": {"a": 1}, "odd": {"a": 1}}),
    ],
)
def test_a_schema_applies_its_defaults(args: dict[str, Any], added: dict[str, Any]) -> None:
    defaults = {"amount": 5000, "how": {"fast": True}, "lost": 1, "deep": 1}
    assert bound(SCHEMA, args, "t") == {**defaults, **added}


@pytest.mark.parametrize(
    ("schema", "args", "whole"),
    [
        ({"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}]}, {}, {"count": 1}),
        ({"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}]}, None, None),
        ({"oneOf": [{"$ref": "#/$defs/Line"}, {"type": "string"}, True]}, {}, {"count": 1}),
        ({"anyOf": [{"$ref": "#/$defs/Line"}, {"$ref": "#/$defs/Address"}]}, {}, {}),
        ({"allOf": [{"$ref": "#/$defs/Line"}, {"properties": {"x": {"default": 2}}}]}, {}, {"count": 1, "x": 2}),
        ({"additionalProperties": {"$ref": "#/$defs/Line"}}, {"a": {}, "b": 3}, {"a": {"count": 1}, "b": 3}),
        ({"additionalProperties": False}, {"a": {}}, {"a": {}}),
        ({"prefixItems": [{"$ref": "#/$defs/Line"}], "items": {}}, [{}, {}], [{"count": 1}, {}]),
        ({"anyOf": [{"type": ["array", "null"], "items": {"$ref": "#/$defs/Line"}}]}, [{}], [{"count": 1}]),
        ({"anyOf": 5, "allOf": 5, "prefixItems": 5}, [{}], [{}]),
    ],
)  # fmt: skip
def test_defaults_are_found_behind_choices_and_in_maps(schema: Any, args: Any, whole: Any) -> None:
    defs = {"Line": {"type": "object", "properties": {"count": {"default": 1}}}, "Address": SCHEMA["$defs"]["Address"]}
    assert bound({"properties": {"x": schema}, "$defs": defs}, {"x": args}, "t") == {"x": whole}


def test_a_schema_that_refers_to_itself_ends() -> None:
    endless = {"$defs": {"A": {"$ref": "#/$defs/A"}}, "properties": {"a": {"$ref": "#/$defs/A"}}}
    assert bound(endless, {"a": 1}, "t") == {"a": 1}
    tree = {"properties": {"leaf": {"$ref": "#"}, "n": {"default": 1}}, "$defs": {}}
    deep: Any = {}
    for _ in range(100):
        deep = {"leaf": deep}
    assert bound({"$ref": "#/$defs/T", "$defs": {"T": tree}}, deep, "t")["n"] == 1
    assert bound({"properties": 5, "items": 5}, {"a": [1]}, "t") == {"a": [1]}


@given(st.dictionaries(st.sampled_from(["charge", "amount", "memo", "to"]), st.integers() | st.text() | st.none()))
def test_binding_twice_is_binding_once(args: dict[str, Any]) -> None:
    once = bound(SCHEMA, args, "t")
    assert bound(SCHEMA, once, "t") == once
    assert {name: once[name] for name in args} == args
