"""What an approver changed, what stays the caller's own, and marks that stand for what the record does not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indelible.core.approvals.edits import carried_over, changes_in, check_underived, check_whole, holds_mark, left_out
from indelible.core.effects.identity import Naming
from indelible.core.values.tags import Redacted
from indelible.errors import BadCall
from tests.core.making import asked, effect

MARK, OTHER = Redacted("ab" * 32), Redacted("cd" * 32)
IN_TEXT = f"card [redacted card {'ab' * 16}]"


@pytest.mark.parametrize(
    ("edited", "recorded", "changed"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": None, "b": 2}),
        ({"a": 1, "new": 2}, {"a": 1}, {"a": None, "new": 2}),
        ({}, {"a": 1}, {}),
        ({"a": True}, {"a": 1}, {"a": True}),
        ({"a": [1, 2, 3]}, {"a": [1, 5]}, {"a": [None, 2, 3]}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [None]}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": {"b": 1}}),
        ({"a": [1]}, {"a": {"b": 1}}, {"a": [1]}),
        ({"a": MARK, "b": 1}, {"a": MARK, "b": 2}, {"a": None, "b": 1}),
        ({"a": OTHER}, {"a": MARK}, {"a": OTHER}),
    ],
)
def test_changes_are_what_is_not_as_it_was(edited: Any, recorded: Any, changed: Any) -> None:
    assert changes_in(edited, recorded) == changed
    assert changes_in(recorded, recorded) is None


@pytest.mark.parametrize(
    ("edited", "recorded", "own", "expected"),
    [
        ({"a": MARK}, {"a": MARK}, {"a": "secret"}, {"a": "secret"}),
        ({"a": MARK, "n": 2}, {"a": MARK, "n": 1}, {"a": "secret", "n": 1}, {"a": "secret", "n": 2}),
        ({"n": 2}, {"a": MARK, "n": 1}, {"a": "secret", "n": 1}, {"n": 2}),
        ({"x": [MARK, 2, 3]}, {"x": [MARK, 1]}, {"x": ["secret", 1]}, {"x": ["secret", 2, 3]}),
        ({"x": {"y": MARK}, "n": 2}, {"x": {"y": MARK}}, {"x": {"y": {"deep": 1}}}, {"x": {"y": {"deep": 1}}, "n": 2}),
        ({"x": 2, IN_TEXT: 1}, {"x": 1, IN_TEXT: 1}, {"x": 1, "card 4111": 1}, {"x": 2, IN_TEXT: 1}),
        ({"x": {"y": 1}}, {"x": [1]}, {"x": [1]}, {"x": {"y": 1}}),
        ({"x": [1]}, {"x": {"y": 1}}, {"x": {"y": 1}}, {"x": [1]}),
        ({"x": {"y": 2}}, {"x": {"y": 1}}, {"x": "other"}, {"x": {"y": 2}}),
        ({"x": [2]}, {"x": [1]}, {"x": "other"}, {"x": [2]}),
        ({"a": True}, {"a": 1}, {"a": 1}, {"a": True}),
    ],
)
def test_what_was_left_as_it_is_stays_the_callers_own(edited: Any, recorded: Any, own: Any, expected: Any) -> None:
    got = carried_over(edited, recorded, own)
    assert repr(got) == repr(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (MARK, True),
        ({"a": [{"b": MARK}]}, True),
        (IN_TEXT, True),
        ({IN_TEXT: 1}, True),
        ("[redacted]", False),
        ({"a": [1, None, "x", 1.5, True]}, False),
        ([], False),
    ],
)
def test_a_mark_is_found_wherever_it_is(value: Any, expected: bool) -> None:
    assert holds_mark(value) is expected


@pytest.mark.parametrize(
    ("edited", "recorded", "missing"),
    [
        ({"a": 1, "new": 2}, {"a": 5}, []),
        ({"b": 1}, {"a": 1, "b": 2}, ["args.a"]),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": {"d": 1}}}, ["args.a.c"]),
        ({"a": [{"b": 1}, {}]}, {"a": [{"b": 1, "c": 2}]}, ["args.a.0.c"]),
        ({"a": []}, {"a": [{"b": 1}]}, []),
        ({"a": None}, {"a": {"b": 1}}, []),
    ],
)
def test_38_an_edit_leaves_nothing_to_a_default(edited: Any, recorded: Any, missing: list[str]) -> None:
    assert left_out(edited, recorded) == missing
    if missing:
        with pytest.raises(BadCall):
            check_whole("pay", edited, recorded)
    else:
        check_whole("pay", edited, recorded)


@pytest.mark.parametrize(
    ("derived_from", "edited", "is_refused"),
    [
        ((), {"order": {"id": 2}, "note": "x"}, False),
        (("order.id",), {"order": {"id": 1}, "note": "x"}, False),
        (("order.id",), {"order": {"id": 2}, "note": ""}, True),
        (("*",), {"order": {"id": 1}, "note": ""}, False),
        (("*",), {"order": {"id": 1}, "note": "x"}, True),
    ],
)
def test_47_an_edit_changes_no_argument_that_says_which_call_it_is(
    derived_from: tuple[str, ...], edited: Any, is_refused: bool
) -> None:
    _, approval = asked(effect("requires_approval"))
    approval = replace(approval, naming=Naming(derived_from=derived_from))
    recorded = {"order": {"id": 1}, "note": ""}
    if not is_refused:
        check_underived(approval, edited, recorded)
        return
    with pytest.raises(BadCall):
        check_underived(approval, edited, recorded)
