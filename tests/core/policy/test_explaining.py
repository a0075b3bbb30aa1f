"""Promises of explaining: it tells what judging does, rule by rule, and never something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.policy.explaining import Explanation, explain
from indelible.core.policy.policy import Policy, policy_of, rule
from tests.core.policies import ARGS, FULL, asked, full


def explained(content: dict[str, Any], **changes: Any) -> Explanation:
    return explain(policy_of(content), asked(**changes))


def told(explanation: Explanation) -> list[tuple[str, str, str]]:
    return [(look.kind, look.name, look.outcome) for look in explanation.looks]


def test_each_rule_is_told_in_turn() -> None:
    found = explained(FULL, args={"charge": "ch_1", "amount": 2000})
    assert told(found) == [
        ("rule", "small refunds", "passes"),
        ("rule", "big refunds", "decides"),
        ("rule", "new tools", "not reached"),
        ("budget", "refunds a day", "charges"),
        ("budget", "calls", "charges"),
    ]
    assert "args.amount lte 50.5" in found.looks[0].why
    assert "tool stripe.*" not in found.looks[0].why
    assert found.looks[1].why == "ask: tool stripe.*; args.amount gte 1000; args.amount lt 100000"
    assert found.looks[3].why.startswith("takes 2000 of 500.25")
    assert found.verdict.rule == "big refunds"


def test_defaults_safeguards_and_budgets_are_told() -> None:
    assert told(explained({}, side_effect="read")) == [("default", "default for read", "decides")]
    assert told(explained(FULL, schema=""))[:2] == [
        ("safeguard", "pinned schemas", "refuses"),
        ("rule", "small refunds", "not reached"),
    ]
    quiet = {"rules": [{"name": "all", "then": "allow"}], "tools": {"a": {"fields": []}}}
    assert told(explained(quiet)) == [("rule", "all", "decides"), ("safeguard", "unknown tools", "refuses")]
    asking = explained({**quiet, "unknown_fields": "ask"}, tool="a")
    assert told(asking) == [("rule", "all", "decides"), ("safeguard", "unknown fields", "decides")]
    assert asking.case.unknown_fields == ("charge", "amount", "order", "reason")
    daily: list[dict[str, Any]] = [{"name": name, "limit": 1, "window": "1h"} for name in ("b", "c")]
    daily[0]["sum"] = "n"
    daily[1]["match"] = {"tool": "x"}
    assert told(explained({"budgets": daily}, side_effect="read"))[1:] == [
        ("budget", "b", "refuses"),
        ("budget", "c", "passes"),
    ]
    assert explained({"rules": quiet["rules"]}).looks[0].why == "allow: it is about every call"


def test_what_cannot_be_told_is_told_and_ends_it() -> None:
    odd = {"name": "odd", "match": {"args": {"amount": {"matches": "5"}, "x": {"exists": False}}}, "then": "allow"}
    content = {"rules": [odd, {"name": "all", "then": "allow"}]}
    found = explained(content)
    assert told(found) == [("rule", "odd", "raises"), ("rule", "all", "not reached")]
    assert found.verdict.why == found.looks[0].why
    passing = explained(content, args={"amount": 5, "x": 1})
    assert passing.looks[0].why == "not so: args.x exists false"


def test_rules_in_python_are_told_too() -> None:
    made = Policy.of(rule("none")(lambda asked: None), rule("mine")(lambda asked: "ask"))
    looks = explain(made, asked()).looks
    assert [(look.name, look.outcome, look.why) for look in looks] == [
        ("none", "passes", "it does not apply"),
        ("mine", "decides", "ask, says the function"),
    ]


@pytest.mark.parametrize("content", [FULL, full(unknown_tools="ask", defaults="allow")])
@given(args=ARGS, tool=st.sampled_from(["stripe.refund", "mail.send", "x"]))
def test_the_explanation_agrees_with_the_verdict(content: dict[str, Any], args: Any, tool: str) -> None:
    made = policy_of(content)
    call = asked(args=args, tool=tool)
    found = explain(made, call)
    assert found.verdict == made.judge(call)
    last = [look for look in found.looks if look.outcome in ("decides", "raises", "refuses")]
    refusing = [look for look in last if look.outcome != "decides"]
    if tool != "mail.send":  # which is judged in the class it is declared in too
        assert (refusing[:1] or last[-1:])[0].name == found.verdict.rule
    assert set(found.verdict.rule.split("; ")) <= {look.name for look in refusing or last}


@pytest.mark.parametrize("side_effect", ["none", "read"])
def test_55_the_ledgers_own_record_is_not_judged_and_nothing_is_looked_at(side_effect: Any) -> None:
    policy = policy_of({"tools": {"charge": {}}, "rules": [{"name": "never", "then": "refuse"}]})
    told = explain(policy, replace(asked(tool="model.turn"), side_effect=side_effect))
    assert (told.verdict.decision, told.verdict.policy, told.looks) == ("allow", policy.version, ())
    assert explain(policy, replace(asked(tool="model.turn"), side_effect="payment")).verdict.decision == "refuse"
