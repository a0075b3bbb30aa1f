"""Promises of core.policy.said_verdicts: what cannot be recorded, counted or asked is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from indelible.core.approvals.approval import Escalation, Need, Person, Question
from indelible.core.policy.budgets import KEPT, budget_ref, read_budget, spend
from indelible.core.policy.said_verdicts import LONGEST, MOST_NAMED, charging_themselves, check_verdict
from indelible.core.policy.verdicts import ALLOWED, Charge, Verdict
from indelible.errors import BadCall, TooLarge
from tests.core.making import AGENT, HOUR, NOON, asks, charge, charging, refuses

MICROSECOND = timedelta(microseconds=1)


def asking(**words: Any) -> Verdict:
    """Gives a verdict that asks on these terms."""
    return Verdict(decision="ask", rule="own", question=Question(**{"rule": "own", **words}))


def charged(**words: Any) -> Verdict:
    """Gives a verdict that takes something from a budget."""
    return charging(Charge(**{"budget": "b", "limit": Decimal(5), "window": HOUR, "amount": Decimal(1), **words}))


@pytest.mark.parametrize(
    "verdict",
    [
        ALLOWED,
        refuses(),
        asks(Need(2, "finance"), people={"ada": Person(("finance",), b"1" * 32)}, notify=("chat",)),
        asking(expires=LONGEST, escalations=(Escalation(HOUR, {"bo": Person()}, ("mail",)),)),
        charged(window=LONGEST, budget="x" * 200),
        replace(ALLOWED, rule="r" * 2000, why="ü" * 2000),
    ],
)
def test_what_our_own_policies_say_can_be_said(verdict: Verdict) -> None:
    check_verdict(verdict)


@pytest.mark.parametrize(
    "verdict",
    [
        replace(ALLOWED, rule="r" * 2001),
        replace(ALLOWED, why="a\0"),
        replace(ALLOWED, policy="p" * 2001),
        charged(window=LONGEST + MICROSECOND),
        charged(window=timedelta.max),
        charged(budget=""),
        charged(budget="a\0"),
        charged(budget="x" * 201),
        charging(*(charge(budget=f"b{n}") for n in range(MOST_NAMED + 1))),
        asking(rule="r" * 2001),
        asking(expires=LONGEST + MICROSECOND),
        asking(expires=timedelta.max),
        asking(escalations=(Escalation(timedelta.max),)),
        asking(escalations=tuple(Escalation(HOUR) for _ in range(MOST_NAMED + 1))),
        asking(escalations=(Escalation(HOUR, {"a\0": Person()}),)),
        asking(escalations=(Escalation(HOUR, {}, ("",)),)),
        asking(notify=("a\0",)),
        asking(notify=("x" * 501,)),
        asking(notify=tuple(f"c{n}" for n in range(MOST_NAMED + 1))),
        asking(people={f"p{n}": Person() for n in range(MOST_NAMED + 1)}),
        asking(people={"": Person()}),
        asking(people={"ada": Person(("",))}),
        asking(needs=(Need(1, "a\0"),)),
    ],
)
def test_what_cannot_be_recorded_counted_or_asked_is_refused_by_its_place(verdict: Verdict) -> None:
    with pytest.raises(BadCall, match=r"^verdict\."):
        check_verdict(verdict)


def test_too_many_names_are_told_with_the_limit() -> None:
    with pytest.raises(TooLarge) as refused:
        check_verdict(asking(notify=tuple(f"c{n}" for n in range(101))))
    assert (refused.value.limit, refused.value.size) == (100, 101)


def test_a_caller_charges_budgets_of_its_own() -> None:
    said = charging_themselves(charging(charge(), charge(1, budget="calls")), AGENT)
    assert [each.budget for each in said.charges] == ["of agent: spend", "of agent: calls"]
    assert replace(said, charges=()) == replace(charging(), charges=())
    assert charging_themselves(asks(), AGENT) is not None
    assert charging_themselves(ALLOWED, AGENT) is ALLOWED


def test_that_is_because_a_charge_under_another_window_would_make_a_budget_forget() -> None:
    """Shows what a stranger could do to a budget that all share."""
    sheets: dict[Any, Any] = {budget_ref("shared"): None}
    (sheet,) = spend([charge(5, budget="shared")], sheets, NOON)
    sheets[sheet.ref] = sheet
    for number in range(KEPT + 3):
        strange = charge(0, budget="shared", window=MICROSECOND)
        (sheet,) = spend([strange], sheets, NOON + HOUR / 2 + number * MICROSECOND)
        sheets[sheet.ref] = sheet
    assert sum(read_budget(sheet).spent.values()) == 0
