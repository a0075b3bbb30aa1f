"""Promises of looking a policy over: what is probably not meant is told, and a good policy is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from indelible.core.policy.lint import covers, doubts_about
from indelible.core.policy.policy import policy_of
from tests.core.policies import FULL, asked, full


def doubts(content: dict[str, Any]) -> list[str]:
    return [str(doubt) for doubt in doubts_about(policy_of(content))]


def rules(*matches: Any, **others: Any) -> dict[str, Any]:
    return {
        "rules": [
            {"name": f"r{number}", "then": "ask", **({} if match is None else {"match": match})}
            for number, match in enumerate(matches)
        ],
        **others,
    }


def test_a_policy_that_uses_every_word_leaves_few_doubts() -> None:
    assert doubts(FULL) == [
        "rules[1]: escalates to eva, who has no role that is needed",
        "people.eva: can never decide anything: no question is for them or for a role of theirs",
    ]
    assert doubts({}) == []
    assert doubts(rules({"tool": "a"}, None)) == []  # the last rule may be about everything else


@pytest.mark.parametrize(
    ("content", "doubt"),
    [
        (rules(None, {"tool": "a"}), "rules[0]: 'r0' has no match"),
        (rules(None, {"tool": "a"}), "rules[1]: 'r1' is never reached: 'r0' above it"),
        ({"rules": [{"name": "all", "then": "allow"}]}, "rules[0]: 'all' has no match"),
        (rules({"tool": "a*"}, {"tool": ["ab", "a*c"]}), "rules[1]: 'r1' is never reached"),
        (rules({"side_effect": ["read", "write"]}, {"side_effect": "read", "tool": "x"}), "rules[1]: 'r1' is never"),
        (rules({"args": {"x": {"gt": 1}}}, {"args": {"x": {"gt": 1, "lt": 5}}}), "rules[1]: 'r1' is never reached"),
        (rules({"agent": "a[b]"}), "rules[0].match.agent: 'a[b]': only * has a meaning here"),
        ({"unknown_tools": "ask"}, "unknown_tools: concerns every call"),
        (rules({"tool": "stripe.refnd"}, tools={"stripe.refund": {}}), "rules[0].match.tool: stripe.refnd is no tool"),
        (
            rules({"args": {"amont": {"gt": 1}}}, tools={"a": {"fields": ["amount"]}}),
            "rules[0].match.args.amont: is no field of any tool",
        ),
        (
            {"budgets": [{"name": "b", "limit": 1, "window": "1h", "match": {"tool": "x"}}], "tools": {"a": {}}},
            "budgets[0].match.tool: x is no tool",
        ),
        (rules({"tool": "a"}, people={"ana": {}}, approvals={"quorum": 2}), "rules[0]: can never be approved: 1 more"),
        ({"people": {"ana": {}}, "approvals": {"quorum": 2}}, "approvals: can never be approved"),
        (rules({"tool": "a"}, people={"ana": {}}, approvals={"signed": True}), "people who could sign"),
        (rules({"tool": "a"}, approvals={"signed": True}), "demands signatures, and names nobody"),
        (
            rules({"tool": "a"}, approvals={"expires": "1h", "escalate": [{"after": "2h", "notify": "x"}]}),
            "rules[0]: escalates after 2:00:00, when the question has lapsed",
        ),
        (
            {"people": {"ana": {"roles": "x"}, "bob": {}}, "approvals": {"needs": [{"role": "x"}]}, "defaults": "ask"},
            "people.bob: can never decide anything",
        ),
        ({"people": {"ana": {}}, "defaults": "allow"}, "people.ana: can never decide anything"),
    ],
)
def test_what_is_probably_not_meant_is_told(content: Any, doubt: str) -> None:
    assert any(doubt in told for told in doubts(content)), doubts(content)


@pytest.mark.parametrize(
    "content",
    [
        rules({"tool": "a"}, {"tool": "a*"}),
        rules({"tool": "a", "agent": "x"}, {"tool": "a"}),
        rules({"agent": "a*"}, {"tool": "ab"}),
        rules({"side_effect": "read"}, {"side_effect": ["read", "write"]}),
        rules({"args": {"x": {"eq": True}}}, {"args": {"x": {"eq": 1}}}),
        rules({"args": {"x": {"gt": 1}}}, {"args": {"x": {"gt": 2}}}),
        rules({"unknown_tool": True, "tool": "new.*"}, tools={"a": {}}),
        rules({"tool": "new"}, tools={"a": {}}, unknown_tools="ask"),
        rules({"args": {"order": {"exists": True}}}, tools={"a": {"fields": ["order.id"]}, "b": {"fields": []}}),
        rules({"args": {"order.id.x": {"exists": True}}}, tools={"a": {"fields": ["order.id"]}}),
        rules({"args": {"any": {"exists": True}}}, tools={"a": {"fields": []}, "b": {}}),
        rules({"tool": "a"}, people={"ana": {}, "bob": {}}, approvals={"quorum": 2}),
        full(people={"ana": {"roles": "x"}, "eva": {"roles": "x"}}, rules=FULL["rules"][2:], approvals={
            "people": "ana", "quorum": 2, "escalate": [{"after": "1h", "to": "eva"}]}),
    ],
)  # fmt: skip
def test_what_may_well_be_meant_is_left_alone(content: Any) -> None:
    assert doubts(content) == []


MATCHES = st.fixed_dictionaries(
    {},
    optional={
        "tool": st.lists(st.sampled_from(["a", "a*", "*b", "ab", "*"]), min_size=1, max_size=2, unique=True),
        "agent": st.sampled_from(["x", "*"]),
        "side_effect": st.lists(st.sampled_from(["read", "write"]), min_size=1, unique=True),
        "args": st.fixed_dictionaries({"n": st.sampled_from([{"gt": 1}, {"gt": 1, "lt": 3}, {"exists": True}])}),
        "unknown_tool": st.booleans(),
    },
)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(MATCHES, MATCHES, st.sampled_from(["a", "ab", "b", "cb"]), st.sampled_from(["x", "y"]), st.integers(0, 4))
def test_a_rule_said_to_be_never_reached_never_decides(one: Any, two: Any, tool: str, agent: str, number: int) -> None:
    made = policy_of(rules(one, two, tools={"a": {}, "b": {}}, unknown_tools="allow"))
    first, second = made.parts.rules
    assume(covers(first.conditions, second.conditions))
    assert made.judge(asked(tool=tool, agent=agent, side_effect="read", args={"n": number})).rule != "r1"
