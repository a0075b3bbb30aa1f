"""Two runs side by side, and two values field by field."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.core.effects.effect import Effect
from indelible.core.runs.diff import compare
from indelible.core.values.differences import MISSING, Difference, differences
from tests.core.making import effect


def call(tool: str, amount: int = 1, status: str = "succeeded", **words: Any) -> Effect:
    return effect(status, tool=tool, args_json=b'{"amount":%d}' % amount, **words)


def kinds(left: list[Effect], right: list[Effect]) -> list[tuple[str, str | None, str | None]]:
    return [(one.kind, one.left and one.left.tool, one.right and one.right.tool) for one in compare(left, right)]


def test_equal_runs_are_the_same() -> None:
    calls = [call("a"), call("b")]
    assert kinds(calls, calls) == [("same", "a", "a"), ("same", "b", "b")]


def test_what_only_one_has_is_told_where_it_stands() -> None:
    assert kinds([call("a"), call("b")], [call("b"), call("c")]) == [
        ("only_left", "a", None), ("same", "b", "b"), ("only_right", None, "c"),
    ]  # fmt: skip


def test_one_tool_with_other_arguments_is_compared_field_by_field() -> None:
    (one,) = compare([call("a", 1)], [call("a", 2)])
    assert (one.kind, list(one.fields)) == ("changed", [Difference("args.amount", 1, 2)])


def test_another_outcome_is_a_change() -> None:
    (one,) = compare([call("a")], [call("a", status="failed")])
    assert "outcome.status" in [field.path for field in one.fields]


def test_different_tools_in_one_place_are_not_compared() -> None:
    assert kinds([call("a", 1), call("x", 1)], [call("a", 2), call("y", 1)]) == [
        ("changed", "a", "a"), ("only_left", "x", None), ("only_right", None, "y"),
    ]  # fmt: skip


def test_erased_values_are_said_to_be() -> None:
    gone = effect("succeeded", tool="a", args_json=None, detail_json=None, detail_seq=1)
    (one,) = compare([gone], [call("a")])
    assert {field.before for field in one.fields} == {"(erased)"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": True}, [Difference("args.a", 1, True)]),
        ({"a": 1}, {"a": 1.0}, [Difference("args.a", 1, 1.0)]),
        ({"a": [1, 2]}, {"a": [1]}, [Difference("args.a[1]", 2, MISSING)]),
        ({"a": [1]}, {"a": [1, 2]}, [Difference("args.a[1]", MISSING, 2)]),
        ({"a": None}, {}, [Difference("args.a", None, MISSING)]),
        ({}, {"b": {"c": 1}}, [Difference("args.b", MISSING, {"c": 1})]),
        ({"b": {"c": 1}}, {"b": {"c": 2}}, [Difference("args.b.c", 1, 2)]),
        ({"b": [1]}, {"b": {"c": 2}}, [Difference("args.b", [1], {"c": 2})]),
    ],
)
def test_values_differ_field_by_field_with_their_types(before: Any, after: Any, expected: list[Difference]) -> None:
    assert list(differences(before, after)) == expected


def test_what_is_not_there_says_so() -> None:
    assert repr(MISSING) == "(not there)"
