"""One binding: a default left out is the default spelled out, by signature and by schema."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from indelible.core.effects.binding import as_read, bound
from indelible.core.values.revive import revive
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
        ({"to": None}, {"to": None}),
        ({"lines": [{}, {"count": 2}, 3]}, {"lines": [{"count": 1}, {"count": 2}, 3]}),
        ({"how": {"fast": False}}, {"how": {"fast": False}}),
        ({"unknown": {"a": [{}]}}, {"unknown": {"a": [{}]}}),
        ({"free": {"a": 1}}, {"free": {"a": 1}}),
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
        ({"anyOf": [{"$ref": "#/$defs/Line"}, {"$ref": "#/$defs/Line"}]}, {}, {"count": 1}),
        ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ({"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Line"}}, {"type": "array"}]}, [], []),
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


WIRE = {
    "type": "object",
    "properties": {"kind": {"const": "wire"}, "to": {"type": "integer"}, "amount": {"default": 5000}},
    "required": ["kind"],
}
CARD = {"type": "object", "properties": {"kind": {"enum": ["card", "chip"]}, "amount": {"default": 1}}}
CLOSED = {"type": "object", "properties": {"iban": {}, "amount": {"default": 7}}, "additionalProperties": False}
FAST = {"type": "object", "properties": {"amount": {"type": "integer"}, "fast": {"default": True}}}
SLOW = {"type": "object", "properties": {"amount": {"type": "string"}, "slow": {"default": True}}}


@pytest.mark.parametrize(
    ("schema", "args", "whole"),
    [
        ({"type": "object", "properties": {"amount": {"default": 5000}}, "default": {}}, None, {"amount": 5000}),
        ({"allOf": [{"$ref": "#/$defs/Wire"}], "default": {"kind": "wire"}}, None, {"kind": "wire", "amount": 5000}),
        ({"anyOf": [WIRE, CARD]}, {"kind": "wire"}, {"kind": "wire", "amount": 5000}),
        ({"oneOf": [WIRE, CARD]}, {"kind": "chip"}, {"kind": "chip", "amount": 1}),
        ({"oneOf": [WIRE, CARD]}, {"kind": "wire", "other": 1}, {"kind": "wire", "amount": 5000, "other": 1}),
        ({"oneOf": [WIRE, CARD]}, {"kind": "gold"}, {"kind": "gold"}),
        ({"oneOf": [WIRE, CARD]}, {"amount": 9}, {"amount": 9}),
        ({"oneOf": [CLOSED, WIRE]}, {"kind": "wire"}, {"kind": "wire", "amount": 5000}),
        ({"oneOf": [CLOSED, WIRE]}, {"iban": "x"}, {"iban": "x", "amount": 7}),
        ({"oneOf": [FAST, SLOW]}, {"amount": 1}, {"amount": 1, "fast": True}),
        ({"oneOf": [FAST, SLOW]}, {"amount": "1"}, {"amount": "1", "slow": True}),
        ({"oneOf": [FAST, SLOW]}, {"amount": 1, "fast": False}, {"amount": 1, "fast": False}),
        (
            {"properties": {"kind": {"default": "wire"}}, "oneOf": [WIRE, CARD], "default": {}},
            None,
            {"kind": "wire", "amount": 5000},
        ),
        ({"$ref": "#/$defs/a~1b/anyOf/0"}, {"kind": "wire"}, {"kind": "wire", "amount": 5000}),
    ],
)
def test_38_defaults_inside_a_default_and_inside_a_choice_are_filled(schema: Any, args: Any, whole: Any) -> None:
    root = {"properties": {"x": schema}, "$defs": {"Wire": WIRE, "a/b": {"anyOf": [WIRE]}}}
    once = bound(root, {} if args is None else {"x": args}, "t")
    assert once == {"x": whole}
    assert bound(root, once, "t") == once


@pytest.mark.parametrize(
    ("schema", "args", "place"),
    [
        ({"anyOf": [FAST, SLOW]}, {}, "args.x"),
        ({"anyOf": [FAST, SLOW]}, {"amount": True}, "args.x"),
        ({"items": {"oneOf": [CLOSED, CARD]}}, [{"iban": "x"}, {}], "args.x.1"),
        ({"$ref": "#", "default": {}}, {}, "args.x.x"),
        ({"allOf": [{"$ref": "#/$defs/Loop"}]}, {}, "args.x"),
        ({"anyOf": [{"$ref": "#/$defs/Loop"}]}, {}, "args.x"),
        ({"$ref": "#/$defs/Loop"}, 5, "args.x"),
    ],
)
def test_38_where_a_schema_does_not_tell_which_defaults_apply_the_call_is_refused(
    schema: Any, args: Any, place: str
) -> None:
    loop = {"type": "object", "allOf": [{"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/Loop"}]}
    with pytest.raises(BadCall) as refused:
        bound({"properties": {"x": schema}, "$defs": {"Loop": loop}}, {"x": args}, "t")
    assert f"t: {place}" in str(refused.value)


LINE = {"type": "object", "properties": {"count": {"default": 1}}}
THEN = {"properties": {"to": {"default": "THIEF"}}}
ELSEWHERE = "https://bank.example/line"


@pytest.mark.parametrize(
    ("schema", "args", "whole"),
    [
        ({"$ref": "#/$defs/A%20Line"}, {}, {"count": 1}),
        ({"items": [LINE]}, [{}, {}], [{"count": 1}, {}]),
        ({"items": [LINE], "additionalItems": LINE}, [{}, {}], [{"count": 1}, {"count": 1}]),
        ({"prefixItems": [{}, {"default": 3}, {"$ref": "#/$defs/A%20Line", "default": {}}]}, [1], [1, 3, {"count": 1}]),
        ({"prefixItems": [{}, {}]}, [1], [1]),
        ({"$ref": "#/$defs/A%20Line", "properties": {"n": {"default": 2}}}, {}, {"count": 1, "n": 2}),
        ({"$ref": "#/$defs/Five", "minimum": 2}, None, 5),
        ({"allOf": [{"minimum": 2}, {"$ref": "#/$defs/Five"}]}, None, 5),
        ({"$ref": "#/$defs/Any"}, {}, {}),
        ({"$ref": ELSEWHERE}, 5, 5),
        ({"$ref": ELSEWHERE, "default": 5}, None, 5),
        ({"if": {"required": ["a"]}, "then": THEN}, {"to": "me"}, {"to": "me"}),
        ({"dependentSchemas": {"a": THEN}}, {"b": 1}, {"b": 1}),
        ({"patternProperties": {"^a": LINE}}, {"a": {"count": 2}, "b": 1}, {"a": {"count": 2}, "b": 1}),
        ({"properties": {"a": {}}, "unevaluatedProperties": LINE}, {"a": {}}, {"a": {}}),
        ({"not": THEN}, {}, {}),
    ],
)
def test_38_defaults_are_found_wherever_a_schema_tells_them(schema: Any, args: Any, whole: Any) -> None:
    defs = {"A Line": LINE, "Five": {"minimum": 1, "default": 5}, "Any": True}
    root = {"$id": "https://bank.example/pay", "properties": {"x": schema}, "$defs": defs}
    assert bound(root, {} if args is None else {"x": args}, "t") == {"x": whole}


@pytest.mark.parametrize(
    ("schema", "args", "word"),
    [
        ({"$ref": "#line"}, {}, "$ref"),
        ({"$ref": ELSEWHERE}, {}, "$ref"),
        ({"$ref": ELSEWHERE}, None, "$ref"),
        ({"$ref": "#/$defs/Nowhere"}, [], "$ref"),
        ({"$dynamicRef": "#line"}, {}, "$dynamicRef"),
        ({"$id": ELSEWHERE, "properties": {"a": {"$ref": "#/$defs/Line"}}}, {}, "$id"),
        ({"if": {"required": ["a"]}, "then": THEN}, {"a": 1}, "then"),
        ({"if": {"required": ["a"]}, "else": THEN}, {"a": 1}, "else"),
        ({"if": {}, "then": {"default": 5}}, None, "then"),
        ({"anyOf": [{"type": "integer", "default": 5}, {"type": "null"}]}, None, "anyOf"),
        ({"dependentSchemas": {"a": THEN}}, {"a": 1}, "dependentSchemas"),
        ({"dependencies": {"a": THEN}}, {"a": 1}, "dependencies"),
        ({"patternProperties": {"^a": LINE}}, {"a": {}}, "patternProperties"),
        ({"patternProperties": {"^a": {}}, "additionalProperties": LINE}, {"b": {}}, "additionalProperties"),
        ({"unevaluatedProperties": LINE}, {"b": {}}, "unevaluatedProperties"),
        ({"unevaluatedItems": LINE}, [{}], "unevaluatedItems"),
        ({"contains": LINE}, [{}], "contains"),
        ({"prefixItems": [{}, {"default": 5}]}, [], "prefixItems"),
        ({"items": [{}, {"default": 5}]}, [], "items"),
    ],
)
def test_38_where_a_default_may_be_that_is_not_seen_the_call_is_refused(schema: Any, args: Any, word: str) -> None:
    root = {"properties": {"x": schema}, "$defs": {"Line": {"$anchor": "line", **LINE}}}
    with pytest.raises(BadCall) as refused:
        bound(root, {} if args is None else {"x": args}, "t")
    assert "t: args.x" in str(refused.value)
    assert f" {word} " in str(refused.value)


VALUES = {"charge": st.text(), "amount": st.integers(), "memo": st.integers() | st.text() | st.none(), "to": st.none()}


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_binding_twice_is_binding_once(args: dict[str, Any]) -> None:
    once = bound(SCHEMA, args, "t")
    assert bound(SCHEMA, once, "t") == once
    assert {name: once[name] for name in args} == args


@pytest.mark.parametrize(
    ("schema", "said", "place"),
    [
        ({"type": "integer"}, "5", "args.x"),
        ({"type": "integer"}, True, "args.x"),
        ({"type": "boolean"}, 1, "args.x"),
        ({"type": "string"}, 5, "args.x"),
        ({"type": ["integer", "null"]}, "5", "args.x"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "5", "args.x"),
        ({"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/Line"}]}, "5", "args.x"),
        ({"type": "array", "items": {"type": "integer"}}, [1, "2"], "args.x.1"),
        ({"$ref": "#/$defs/Line"}, {"count": "1"}, "args.x.count"),
        ({"allOf": [{"$ref": "#/$defs/Line"}]}, {"count": "1"}, "args.x.count"),
        ({"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}]}, {"count": "1"}, "args.x.count"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "1"}, "args.x.a"),
        ({"$ref": "#/$defs/Line"}, '{"count": 1}', "args.x"),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", "b"], "args.x.1"),
        ({"type": "object"}, 5, None),
        ({"type": "integer"}, 5.0, None),
        ({"type": "number"}, 5, None),
        ({"type": "integer"}, None, None),
        ({"type": "STRING"}, 5, None),
        ({"anyOf": [{"type": "integer"}, {"enum": ["a"]}]}, "a", None),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "a", None),
        ({}, "5", None),
        (True, "5", None),
    ],
)
def test_38_what_a_lenient_reader_would_convert_is_refused(schema: Any, said: Any, place: str | None) -> None:
    line = {"type": "object", "properties": {"count": {"type": "integer"}}}
    whole = {"properties": {"x": schema}, "$defs": {"Line": line}}
    if place is None:
        assert bound(whole, {"x": said}, "t")["x"] == said
        return
    with pytest.raises(BadCall, match=f"{place} "):
        bound(whole, {"x": said}, "t")


# As a tool reads it


class Order(BaseModel):
    to: int = 1
    amount: int = Field(default=5000, alias="amountCents")


class Growing(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def _in_cents(cls, amount: int) -> int:
        return amount * 100


def reading(hint: Any) -> Any:
    return lambda recorded: revive(recorded, hint)


ORDERS = st.fixed_dictionaries(
    {}, optional={"to": st.integers() | st.integers().map(str), "amount": st.integers(), "amountCents": st.integers()}
)


@given(ORDERS)
def test_38_reading_twice_is_reading_once_and_records_what_is_read(said: dict[str, Any]) -> None:
    once = as_read(said, reading(Order))
    assert as_read(once, reading(Order)) == once
    read = revive(said, Order)
    assert once == {"to": read.to, "amount": read.amount}
    assert as_read(read, reading(Order)) == once, "an object is the same as what stands for it"
    assert as_read([said], reading(list[Order])) == [once]


@pytest.mark.parametrize("said", [{"amount": 5}, Growing(amount=5), [Growing(amount=5)]])
def test_38_what_is_read_differently_each_time_is_refused(said: Any) -> None:
    with pytest.raises(ValueError, match=r"another object|differently each time"):
        as_read(said, reading(list[Growing] if isinstance(said, list) else Growing))


def test_38_a_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested"):
        as_read(endless, reading(list[Order]))
