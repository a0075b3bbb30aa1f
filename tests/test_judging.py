"""Promises of engine.judging about calls that another process has judged: whatever it says, nothing gets laxer."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indelible.core.approvals.approval import Escalation, Need, Person, Question, find_person
from indelible.core.approvals.grants import Grant, grant_sheet, pinned_digest
from indelible.core.effects.calls import ToolCall
from indelible.core.effects.identity import hashed
from indelible.core.effects.requests import Judged
from indelible.core.policy.merging import VERSIONS_TAG
from indelible.core.policy.policy import policy_of
from indelible.core.policy.verdicts import ALLOWED, REPEAT_RULE, STRICTEST, TOOL_RULE, Charge, Verdict
from indelible.engine.judging import Judging
from indelible.stores import open_store
from indelible.testing.commands import Commands
from indelible.testing.journal_conformance import recording
from tests.core.making import prepared
from tests.core.policies import ANAS, BOBS, CIDS

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = datetime(2030, 1, 2, tzinfo=UTC)
POLICY = policy_of(
    {
        "people": {
            "ana": {"roles": ["finance", "manager"], "key": b64encode(ANAS).decode()},
            "bob": {"roles": ["finance"], "key": BOBS.vkey},
            "eva": {"key": b64encode(CIDS).decode()},
        },
        "approvals": {"people": ["ana", "bob"], "expires": "1h", "notify": "slack"},
        "tools": {name: {"side_effect": "payment"} for name in ("refund", "charge", "drop", "note")},
        "rules": [
            {"name": "never drop", "match": {"tool": "drop"}, "then": "refuse"},
            {
                "name": "two for refunds",
                "match": {"tool": "refund"},
                "then": "ask",
                "approvals": {
                    "needs": [{"role": "finance", "count": 2}, {"role": "manager"}],
                    "signed": True,
                    "editable": False,
                    "escalate": [{"after": "30m", "to": ["eva"]}],
                },
            },
            {"name": "notes pass", "match": {"tool": "note"}, "then": "allow"},
        ],
        "budgets": [{"name": "notes", "match": {"tool": "note"}, "limit": 5, "window": "24h"}],
    }
)
TOOLS = ("refund", "charge", "drop", "note", "unknown")
RULES = ("", "own", TOOL_RULE, REPEAT_RULE, "two for refunds", "notes pass", "default for payment")


# What a stranger may say

_people = st.dictionaries(
    st.sampled_from(["ana", "bob", "eva", "mallory", "ANA"]),
    st.builds(Person, st.sampled_from([(), ("finance",), ("finance", "manager")]), st.sampled_from([None, b"\1" * 32])),
    max_size=3,
)
_questions = st.builds(
    Question,
    rule=st.sampled_from(RULES),
    needs=st.lists(
        st.builds(Need, st.integers(1, 100), st.sampled_from([None, "finance", "nobody"])), min_size=1, max_size=2
    )
    .filter(lambda needs: sum(need.count for need in needs) <= 100)
    .map(tuple),
    people=st.none() | _people,
    needs_signature=st.booleans(),
    may_edit=st.booleans(),
    expires=st.sampled_from([timedelta(microseconds=1), HOUR / 2, DAY, timedelta.max]),
    escalations=st.builds(Escalation, st.sampled_from([HOUR / 4, DAY]), _people).map(lambda step: (step,))
    | st.just(()),
    notify=st.sampled_from([(), ("slack",), ("mine",)]),
)
_charges = st.builds(
    Charge,
    budget=st.sampled_from(['notes {"seconds":86400}', "other"]),
    limit=st.sampled_from([Decimal(-1), Decimal(0), Decimal(5), Decimal(10**9)]),
    window=st.sampled_from([HOUR, DAY]),
    amount=st.sampled_from([Decimal(0), Decimal("0.5"), Decimal(1), Decimal(10**9)]),
)


@st.composite
def verdicts(draw: Any) -> Verdict:
    """Gives any verdict that can be said at all."""
    decision = draw(st.sampled_from(["allow", "ask", "ask", "refuse"]))
    return Verdict(
        decision=decision,
        rule=draw(st.sampled_from(RULES)),
        policy=draw(st.sampled_from(["", POLICY.version, "ab" * 32])),
        why=draw(st.sampled_from(["", "because"])),
        question=draw(_questions) if decision == "ask" else None,
        charges=tuple(draw(st.lists(_charges, max_size=2))),
    )


# What laxer means


def laxer_in(own: Verdict, got: Verdict) -> list[str]:
    """Names in what one verdict allows something that the other does not."""
    if STRICTEST.index(got.decision) > STRICTEST.index(own.decision):
        return ["decision"]
    if got.decision == "refuse":
        return []
    laxer = ["charges"] if not all(_is_charged(charge, got) for charge in own.charges) else []
    if own.question is not None:
        assert got.question is not None
        laxer += _laxer_to_answer(own.question, got.question)
    known = {own.policy, hashed(VERSIONS_TAG, *sorted({own.policy, "ab" * 32}))}
    return laxer if got.policy in known or not own.policy else [*laxer, "policy"]


def _is_charged(charge: Charge, got: Verdict) -> bool:
    same = [each for each in got.charges if (each.budget, each.window) == (charge.budget, charge.window)]
    return any(each.amount >= charge.amount and each.limit <= charge.limit for each in same)


def _laxer_to_answer(own: Question, got: Question) -> list[str]:
    is_laxer = {
        "needs": any(_needed(got, role) < _needed(own, role) for role in (None, "finance", "manager")),
        "signature": own.needs_signature and not got.needs_signature,
        "edit": got.may_edit and not own.may_edit,
        "expires": got.expires > own.expires,
        "people": any(_may_decide(got, name, at) and not _may_decide(own, name, at) for name, at in _CASES),
        "told": not set(own.notify) <= set(got.notify),
    }
    return [name for name, is_so in is_laxer.items() if is_so]


_CASES = [(name, at) for name in ("ana", "bob", "eva", "mallory") for at in (timedelta(0), HOUR / 4, HOUR / 2, DAY)]


def _needed(question: Question, role: str | None) -> int:
    return sum(need.count for need in question.needs if need.role == role)


def _may_decide(question: Question, name: str, after: timedelta) -> bool:
    if question.people is None:
        return True
    steps = [step.people for step in question.escalations if step.after <= after]
    return any(find_person(people, name) is not None for people in (question.people, *steps))


# The promise


@pytest.fixture(scope="module")
def judging() -> Iterator[Judging]:
    """A ledger's judging, with a policy of its own and a standing grant for each rule there is."""
    store, make = open_store(":memory:"), Commands("default")
    for number, rule in enumerate(RULES):
        grant = Grant(
            id=f"grant_{number}",
            tool="refund",
            pin=None,
            pinned=pinned_digest("default", "refund", None, b'{"n":1}'),
            schema="",
            policy=POLICY.version,
            rule=rule,
            uses_left=9,
            until=NOW + DAY,
            given_by="ana",
            approval_id="apr_1",
        )
        store.apply("default", [recording(make, sheet=grant_sheet(grant))], [None])
    yield Judging(store, "default", POLICY)
    store.close()


def grants_that_cover(judged: Judged, tool: str) -> set[str]:
    """Names the standing grants by which this verdict would ask nobody."""
    verdict = judged.verdict
    if verdict.question is None:
        return set()
    pinned = pinned_digest("default", tool, None, b'{"n":1}')
    is_rule = {number for number, rule in enumerate(RULES) if rule == verdict.question.rule}
    is_usable = tool == "refund" and verdict.policy == POLICY.version
    return {f"grant_{n}" for n in is_rule if is_usable and judged.grants.get(f"grant_{n}") == pinned}


@settings(max_examples=400)
@given(said=verdicts(), tool=st.sampled_from(TOOLS))
def test_whatever_another_process_says_the_result_is_never_laxer_than_our_own(
    judging: Judging, said: Verdict, tool: str
) -> None:
    call = prepared(ToolCall(tool=tool, args={"n": 1}, run_id="run-1"))
    own, got = judging.judge(call), judging.judge_besides(call, said)
    assert laxer_in(own.verdict, got.verdict) == []
    if own.verdict.question is not None:
        assert grants_that_cover(got, tool) <= grants_that_cover(own, tool)


@settings(max_examples=100)
@given(charges=st.lists(_charges, min_size=1, max_size=3).map(tuple))
def test_no_budget_of_ours_is_charged_less_or_held_to_a_larger_limit(
    judging: Judging, charges: tuple[Charge, ...]
) -> None:
    call = prepared(ToolCall(tool="note", args={"n": 1}, run_id="run-1"))
    own = judging.judge(call).verdict
    assert len(own.charges) == 1
    assert laxer_in(own, judging.judge_besides(call, replace(ALLOWED, charges=charges)).verdict) == []


@settings(max_examples=200)
@given(said=verdicts(), tool=st.sampled_from(TOOLS))
def test_nor_is_it_laxer_than_what_the_other_process_says(judging: Judging, said: Verdict, tool: str) -> None:
    """But for a question that is of the call: that is asked on our terms."""
    call = prepared(ToolCall(tool=tool, args={"n": 1}, run_id="run-1"))
    got = judging.judge_besides(call, said).verdict
    assert STRICTEST.index(got.decision) <= STRICTEST.index(said.decision)


def test_our_own_stands_where_the_other_has_no_objection(judging: Judging) -> None:
    for tool in TOOLS:
        call = prepared(ToolCall(tool=tool, args={"n": 1}, run_id="run-1"))
        assert judging.judge_besides(call, ALLOWED) == judging.judge(call)


@pytest.mark.parametrize("rule", [TOOL_RULE, REPEAT_RULE])
def test_what_the_call_itself_wants_to_be_asked_is_asked_on_our_terms(judging: Judging, rule: str) -> None:
    said = Verdict(decision="ask", rule=rule, question=Question(rule=rule, people={"mallory": Person()}))
    call = prepared(ToolCall(tool="note", args={"n": 1}, run_id="run-1"))
    question = judging.judge_besides(call, said).verdict.question
    assert question is not None
    assert (question.rule, set(question.people or {}), question.expires) == (rule, {"ana", "bob"}, HOUR)


def test_every_channel_here_tells_of_what_another_process_asks_and_so_do_those_of_that_one() -> None:
    store = open_store(":memory:")
    call = prepared(ToolCall(tool="note", args={"n": 1}, run_id="run-1"))
    said = Verdict(decision="ask", rule="own", policy="p", question=Question(rule="own"))
    named = replace(said, question=Question(rule="own", notify=("mail",)))
    of_the_call = replace(named, rule=TOOL_RULE, policy="")
    telling = Judging(store, "default", policy_of({"approvals": {"notify": ["chat"]}}))
    for verdict, channels in ((said, ("chat",)), (named, ("chat", "mail")), (of_the_call, ("chat", "mail"))):
        question = telling.judge_besides(call, verdict).verdict.question
        assert question is not None
        assert question.notify == channels
    to_all = Judging(store, "default")
    for verdict in (said, named, of_the_call):
        question = to_all.judge_besides(call, verdict).verdict.question
        assert question is not None
        assert question.notify == (), "no process narrows a question that every channel tells of"
    refused = telling.judge_besides(call, Verdict(decision="refuse", rule="own"))
    assert (refused.verdict.decision, refused.verdict.question) == ("refuse", None)
    store.close()
