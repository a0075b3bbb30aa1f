"""What our own check of shapes says of a value, a validator of JSON Schema that others wrote says too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from indelible.core.values.shapes import misshapen

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A parcel",
    "type": "object",
    "required": ["kind", "to"],
    "properties": {
        "kind": {"const": 1},
        "to": {"$ref": "#/$defs/name"},
        "items": {"type": "array", "items": {"type": ["integer", "null"], "minimum": 0}},
        "size": {"enum": ["small", "large"]},
        "code": {"pattern": "^[0-9]+$"},
        "is_gift": {"type": "boolean"},
        "note": {"description": "Anything."},
    },
    "$defs": {"name": {"type": "string", "minLength": 1, "description": "Whom it is for."}},
}
GOOD = {"kind": 1, "to": "ana", "items": [1, None], "size": "small", "code": "12", "is_gift": True, "note": [{}]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "ana", "12", "small"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(GOOD)), inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(sorted(GOOD)), VALUES) | VALUES)
def test_both_say_the_same_of_any_value(changes: Any) -> None:
    value = {**GOOD, **changes} if isinstance(changes, dict) else changes
    assert (misshapen(value, SCHEMA, "it") is None) == Draft202012Validator(SCHEMA).is_valid(value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, None),
        ({"kind": 2}, "it.kind must be 1"),
        ({"kind": True}, "it.kind must be 1"),
        ({"to": 5}, "it.to must be string, not int"),
        ({"to": ""}, "it.to must not be empty"),
        ({"items": [0, "x"]}, "it.items[1] must be integer or null, not str"),
        ({"items": [0, True]}, "it.items[1] must be integer or null, not bool"),
        ({"items": [-1]}, "it.items[0] must be 0 or more"),
        ({"size": "huge"}, "it.size must be one of small, large"),
        ({"code": "1x"}, "it.code must look like ^[0-9]+$"),
    ],
)
def test_the_first_problem_is_told_with_its_place(changes: dict[str, Any], told: str | None) -> None:
    assert misshapen({**GOOD, **changes}, SCHEMA, "it") == told


def test_what_is_missing_is_named() -> None:
    assert misshapen({}, SCHEMA, "it") == "it lacks kind, to"
    assert misshapen([], SCHEMA, "it") == "it must be object, not list"
    assert misshapen({"kind": 1, "to": "ana"}, SCHEMA, "it") is None, "what is not required may be left out"


def test_a_schema_that_asks_for_more_than_is_checked_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="maximum"):
        misshapen(3, {"$defs": {}, "maximum": 2}, "it")
