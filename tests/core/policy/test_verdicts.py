"""Promises of core.policy.verdicts: what a policy says is complete, and nothing makes it say less."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from indelible.core.approvals.approval import Need, Person, Question
from indelible.core.policy.verdicts import (
    ALLOWED,
    REPEAT_RULE,
    STRICTEST,
    TOOL_RULE,
    Charge,
    Verdict,
    asked_as_repeat,
    asked_besides,
    asked_by_tool,
    is_of_the_call,
    verdict_json,
)
from indelible.core.values.canonical import decode
from indelible.errors import BadCall
from tests.core.making import HOUR, allows, asks, charge, charging, refuses

BESIDES: Any = pytest.mark.parametrize(("ask", "rule"), [(asked_as_repeat, REPEAT_RULE), (asked_by_tool, TOOL_RULE)])


def test_whoever_asks_says_whom_and_nobody_else_does() -> None:
    with pytest.raises(BadCall, match="a verdict is"):
        Verdict(decision="ask")
    with pytest.raises(BadCall, match="a verdict is"):
        Verdict(decision="allow", question=Question(rule="r"))


def test_a_verdict_is_recorded_by_its_words() -> None:
    verdict = replace(asks(charges=(charge(),)), why="large")
    assert decode(verdict_json(verdict)) == {
        "decision": "ask",
        "policy": "policy-1",
        "rule": "ask first",
        "why": "large",
    }
    assert STRICTEST == ("refuse", "ask", "allow")


@BESIDES
def test_asking_besides_the_policy_keeps_what_the_policy_says(ask: Any, rule: str) -> None:
    asked = ask(charging(charge()))
    assert (asked.decision, asked.rule, asked.question) == ("ask", rule, Question(rule=rule))
    assert (asked.policy, asked.charges) == ("policy-1", (charge(),))
    assert ask(refuses()) == refuses(), "a refusal stays one"
    assert ask(asks(Need(3))) == asks(Need(3)), "and whom the policy asks is asked"


@BESIDES
def test_asking_besides_the_policy_is_on_the_policys_own_terms(ask: Any, rule: str) -> None:
    terms = Question(rule="r", needs=(Need(2, "finance"),), people={"ada": Person(("finance",))}, expires=HOUR)
    assert ask(allows(), terms).question == replace(terms, rule=rule)
    assert ask(ALLOWED, terms).decision == "ask"


@pytest.mark.parametrize(
    "words",
    [
        {"amount": Decimal(-1)},
        {"amount": Decimal("-0.01")},
        {"amount": Decimal("NaN")},
        {"amount": Decimal("Infinity")},
        {"limit": Decimal("Infinity")},
        {"limit": Decimal("NaN")},
        {"window": timedelta(0)},
        {"window": -HOUR},
    ],
)
def test_a_charge_that_would_make_room_or_hold_for_ever_is_refused_by_its_budget(words: Any) -> None:
    with pytest.raises(BadCall, match="'spend'"):
        Charge(**{"budget": "spend", "limit": Decimal(5), "window": HOUR, "amount": Decimal(1), **words})


def test_a_call_may_take_nothing() -> None:
    assert charge(0).amount == 0
    assert charge(1, limit=0).limit == 0


# What another process says


def test_asking_besides_names_the_rule_that_asks_and_leaves_everything_else_as_it_is() -> None:
    terms = Question(rule="r", needs=(Need(2),), notify=("chat",))
    asked = asked_besides(charging(charge()), "somebody's own", terms)
    assert asked == replace(
        charging(charge()), decision="ask", rule="somebody's own", question=replace(terms, rule="somebody's own")
    )
    assert asked_besides(ALLOWED, "own", None).question == Question(rule="own")
    for stricter in (refuses(), asks(Need(3))):
        assert asked_besides(stricter, "own", terms) is stricter


@pytest.mark.parametrize("rule", [TOOL_RULE, REPEAT_RULE])
def test_a_question_is_of_the_call_when_no_policy_asks_it(rule: str) -> None:
    asked = Verdict(decision="ask", rule=rule, question=Question(rule=rule))
    assert is_of_the_call(asked)
    assert not is_of_the_call(replace(asked, policy="policy-1"))
    assert not is_of_the_call(replace(asked, rule="large refunds"))
    assert not is_of_the_call(Verdict(decision="refuse", rule=rule))
    assert not is_of_the_call(replace(ALLOWED, rule=rule))
