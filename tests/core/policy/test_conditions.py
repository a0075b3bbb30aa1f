"""Promises of conditions: types are kept, numbers are exact, and what cannot be told is neither yes nor no."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given

from indelible.core.policy.conditions import (
    MISSING,
    Argument,
    CannotTell,
    Case,
    Named,
    OfClass,
    Unknown,
    all_met,
    are_same,
    argument_at,
    kind_of,
    number_of,
)
from indelible.core.policy.globs import Glob
from indelible.core.policy.patterns import expression_of
from indelible.core.values.tags import Redacted
from tests.core.policies import VALUES, asked

FOREIGN = [datetime(2030, 1, 1, tzinfo=UTC), b"raw", UUID(int=1), Redacted("0" * 64)]


def holds(args: dict[str, Any], path: str, test: str, operand: Any) -> bool:
    return Argument(path, test, operand).is_met(Case(asked(args=args)))


@pytest.mark.parametrize(
    ("test", "operand", "met", "unmet"),
    [
        ("eq", Decimal(1), [1, 1.0, Decimal("1.00")], ["1", True, None, [1], 2]),
        ("eq", True, [True], [1, "true", False]),
        ("eq", "1", ["1"], [1, "１", "1 "]),
        ("eq", "é", ["é"], ["e\u0301"]),  # composed otherwise is another text
        ("eq", None, [None], [0, "", False, [], {}]),
        (
            "eq",
            [Decimal(1), {"a": "b"}],
            [[1, {"a": "b"}]],
            [[1], [{"a": "b"}, 1], [1, {"a": "b", "c": 1}], {"a": "b"}],
        ),
        ("eq", {}, [{}], [[], None]),
        ("ne", Decimal(1), ["1", True, 2, None], [1, 1.0]),
        ("gt", Decimal("0.1"), [0.2, Decimal("0.10000001"), 2**80], [0.1, Decimal("0.1"), 0, -1]),
        ("gte", Decimal("0.1"), [0.1, Decimal("0.1"), 1], [0.0999]),
        ("lt", Decimal("0.3"), [0.1, -1.0], [0.3, Decimal("0.3"), 0.1 + 0.2]),
        (
            "lte",
            Decimal("0.3"),
            [0.3, Decimal("0.30")],
            [0.1 + 0.2, 1],
        ),  # a tenth and two are a little more, recorded so
        ("in", [Decimal(1), "a", None], [1, 1.0, "a", None], [True, "1", "A"]),
        ("matches", expression_of("[a-z]+"), ["abc"], ["", "ab1"]),
        ("length", (("gte", Decimal(2)), ("lt", Decimal(4))), ["ab", [1, 2, 3], {"a": 1, "b": 2}], ["a", [], "abcd"]),
        ("length", (("eq", Decimal(1)),), ["😀"], ["a\u0301"]),
        ("exists", True, [None, 0, ""], []),
        ("exists", False, [], [None, 0, ""]),
    ],
)
def test_a_test_keeps_types_and_is_exact(test: str, operand: Any, met: list[Any], unmet: list[Any]) -> None:
    assert [value for value in met if not holds({"x": value}, "x", test, operand)] == []
    assert [value for value in unmet if holds({"x": value}, "x", test, operand)] == []


@pytest.mark.parametrize(
    ("test", "operand", "values"),
    [
        *[(test, Decimal(1), ["2", True, None, [2], {}, *FOREIGN]) for test in ("gt", "gte", "lt", "lte")],
        ("matches", expression_of("a"), [1, None, True, ["a"], "a" * 4097, *FOREIGN]),
        ("length", (("gte", Decimal(0)),), [1, None, True, *FOREIGN]),
        ("eq", "x", FOREIGN),
        ("ne", "x", FOREIGN),
        ("in", ["x"], FOREIGN),
        ("eq", [Decimal(1)], [[each] for each in FOREIGN]),
        ("eq", Decimal(1), [float("nan"), float("inf"), Decimal("sNaN")]),
    ],
)
def test_what_makes_no_sense_cannot_be_told_and_names_no_value(test: str, operand: Any, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(CannotTell, match=r"^args\.deep\.x ") as told:
            holds({"deep": {"x": value}}, "deep.x", test, operand)
        assert "2030" not in str(told.value)
        assert "aaaa" not in str(told.value)


def test_what_is_missing_meets_only_that_it_is_missing_or_not_equal() -> None:
    operands: dict[str, Any] = {
        "eq": None,
        "ne": None,
        "gt": Decimal(0),
        "gte": Decimal(0),
        "lt": Decimal(0),
        "lte": Decimal(0),
        "in": [None],
        "matches": expression_of("a*"),
        "length": (("gte", Decimal(0)),),
    }
    for args in ({}, {"a": None}, {"a": {}}, {"a.b": 1}):
        met = {test for test, operand in operands.items() if holds(args, "a.b", test, operand)}
        assert met == {"ne"}
        assert holds(args, "a.b", "exists", False)
        assert not holds(args, "a.b", "exists", True)


@pytest.mark.parametrize("around", ["text", 5, True, [{"b": 1}], *FOREIGN])
def test_nobody_dodges_a_rule_by_wrapping_what_it_looks_into(around: Any) -> None:
    for test, operand in (("gt", Decimal(0)), ("exists", False), ("ne", "x")):
        with pytest.raises(CannotTell, match=r"args\.a is .*, and not an object with b in it"):
            holds({"a": around}, "a.b", test, operand)


def test_a_path_leads_through_objects() -> None:
    assert argument_at({"a": {"b": {"c": 7}}}, "a.b.c") == 7
    assert argument_at({"a": {"b": None}}, "a.b") is None
    assert argument_at({"a": {"b": None}}, "a.b.c") is MISSING
    with pytest.raises(CannotTell):
        argument_at(None, "a")  # type: ignore[arg-type]


def test_names_are_met_by_any_of_the_forms() -> None:
    case = Case(asked(principal=None, agent="billing"))
    assert Named("agent", (Glob("x"), Glob("bill*"))).is_met(case)
    assert not Named("agent", (Glob("bill"),)).is_met(case)
    assert not Named("principal", (Glob("*"),)).is_met(case)  # whoever has no name has none of these
    every = {"tool": "stripe.refund", "run": "order-1", "tenant": "default", "environment": "prod"}
    assert all(Named(word, (Glob(name),)).is_met(case) for word, name in every.items())


def test_classes_and_unknowns_are_asked_for() -> None:
    case = Case(asked(), is_unknown_tool=True, unknown_fields=("x",))
    assert OfClass(frozenset({"payment", "read"})).is_met(case)
    assert not OfClass(frozenset({"read"})).is_met(case)
    for what in ("unknown_tool", "unknown_fields"):
        assert Unknown(what, True).is_met(case)  # type: ignore[arg-type]
        assert Unknown(what, False).is_met(Case(asked()))  # type: ignore[arg-type]
        assert not Unknown(what, True).is_met(Case(asked()))  # type: ignore[arg-type]


def test_one_condition_that_is_not_met_settles_it_whatever_cannot_be_told() -> None:
    unmet, met, unclear = Argument("x", "eq", "a"), Argument("x", "eq", "b"), Argument("x", "gt", Decimal(1))
    case = Case(asked(args={"x": "b"}))
    assert not all_met([unclear, unmet], case)
    assert not all_met([unmet, unclear], case)
    assert all_met([met], case)
    assert all_met([], case)
    for conditions in ([met, unclear], [unclear, met], [unclear, unclear]):
        with pytest.raises(CannotTell):
            all_met(conditions, case)


@given(VALUES, VALUES)
def test_sameness_is_mutual_and_everything_comparable_is_itself(one: Any, other: Any) -> None:
    def same(a: Any, b: Any) -> bool | None:
        try:
            return are_same(a, b)
        except CannotTell:
            return None

    assert same(one, other) == same(other, one) or None in (same(one, other), same(other, one))
    assert same(one, one) is not False


def test_numbers_are_their_decimal_text() -> None:
    assert number_of(0.1) == Decimal("0.1")
    assert number_of(10**40) == Decimal(10) ** 40
    assert number_of(True) is None
    assert number_of("1") is None
    assert number_of(float("inf")) is None


def test_kinds_and_conditions_can_be_told_to_people() -> None:
    kinds = {kind_of(value) for value in (None, True, 1, 1.5, Decimal(1), "", {}, [], (), b"")}
    assert kinds == {"null", "a truth value", "a number", "a text", "an object", "a list", "a value of type bytes"}
    operands = [
        expression_of("a+"),
        (("gt", Decimal(1)), ("lt", Decimal(3))),
        Decimal("1.50"),
        [Decimal(1), "a"],
        True,
        None,
        "t",
    ]
    assert [str(Argument("x", "t", operand)) for operand in operands] == [
        "args.x t 'a+'",
        "args.x t gt 1 and lt 3",
        "args.x t 1.50",
        "args.x t [1, 'a']",
        "args.x t true",
        "args.x t null",
        "args.x t 't'",
    ]
    assert str(Named("tool", (Glob("a"), Glob("b*")))) == "tool a or b*"
    assert str(OfClass(frozenset({"read", "none"}))) == "side_effect none or read"
    assert str(Unknown("unknown_tool", False)) == "unknown_tool false"
    assert str(Unknown("unknown_fields", True)) == "unknown_fields true"
