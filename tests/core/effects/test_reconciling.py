"""Promises of core.effects.reconciling: who is asked about, and what came of it."""

from __future__ import annotations

import pytest

from indelible.core.effects.reconciling import Reconciled, Selection, reconciled
from tests.core.making import effect

DOUBTS = [
    effect("in_doubt", id=f"eff_{number}", tool=tool, run_id=run, lease_until=None)
    for number, (tool, run) in enumerate([("a.x", "r1"), ("b.x", "r1"), ("a.y", "r2"), ("b.y", "r2")])
]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), [0, 1, 2, 3]),
        (Selection(tool="a.*"), [0, 2]),
        (Selection(tool="b.x"), [1]),
        (Selection(run_id="r2"), [2, 3]),
        (Selection(tool="a.*", run_id="r1"), [0]),
        (Selection(limit=2), [1, 3]),
        (Selection(limit=3), [0, 1, 3]),
    ],
)
def test_effects_with_a_probe_come_first_and_the_order_stays(selection: Selection, expected: list[int]) -> None:
    assert selection.chosen(DOUBTS, {"b.x", "b.y"}) == [DOUBTS[number] for number in expected]


@pytest.mark.parametrize(
    ("status", "code", "is_open"),
    [
        ("succeeded", "settled", False),
        ("failed", "settled", False),
        ("ready", "ready", False),
        ("in_doubt", "in_doubt", True),
        ("processing", "moved", False),
    ],
)
def test_what_came_of_asking_is_told_by_how_the_effect_stands(status: str, code: str, is_open: bool) -> None:
    found = reconciled(effect(status))
    assert (found.code, found.is_open) == (code, is_open)


def test_an_effect_that_was_not_asked_about_is_open() -> None:
    assert Reconciled(effect=effect("processing"), code="would_ask").is_open
    assert Reconciled(effect=effect("processing"), code="no_probe").is_open
