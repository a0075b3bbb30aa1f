"""Promises of replaying: what was said of a call is read from the record as it is, and compared with what would be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indelible.core.batch import Batch
from indelible.core.commands import Open
from indelible.core.events import Event
from indelible.core.policy.policy import policy_of
from indelible.core.policy.replaying import RecordedCall, changed, recorded_call
from indelible.core.policy.verdicts import TOOL_RULE, Verdict, asked_by_tool
from indelible.core.values.canonical import encode
from tests.core.making import BY, NOON, decide, open_command
from tests.core.policies import SCHEMA, judged

ALLOW: dict[str, Any] = {"defaults": "allow"}
REFUSE: dict[str, Any] = {"defaults": "refuse"}


def recorded(**words: Any) -> tuple[Event, dict[str, bytes]]:
    """Gives the event by which a call is opened, and the values it commits to."""
    command: Open = open_command(args_json=encode({"amount": 5}), tool="stripe.refund", **words)
    command = replace(command, stamp=replace(command.stamp, salts=bytes(1000)))
    batch: Batch = decide([command], {}, {}, NOON, BY)
    return batch.events[0], {payload.field: payload.value for payload in batch.payloads}


def call_of(**words: Any) -> RecordedCall:
    found = recorded_call(*recorded(**words))
    assert found is not None
    return found


def verdict(content: dict[str, Any]) -> Verdict:
    return judged(content, args={"amount": 5})


def test_a_call_is_read_as_it_was_recorded_with_what_was_said_of_it() -> None:
    said = verdict(ALLOW)
    call = call_of(verdict=said)
    assert (call.tool, call.side_effect, call.run_id, call.seq, call.at) == (
        "stripe.refund",
        "payment",
        "run-1",
        0,
        NOON,
    )
    assert call.args == {"amount": 5}
    assert (call.decision, call.rule, call.policy) == ("allow", "default for payment", said.policy)
    asking = call_of(verdict=verdict({}))
    assert (asking.decision, asking.rule, asking.effect_id) == ("ask", "default for payment", "eff_new")
    refused = call_of(verdict=verdict(REFUSE))
    assert (refused.decision, refused.side_effect, refused.effect_id) == ("refuse", "payment", None)
    assert not refused.was_over_budget


def test_without_a_policy_a_call_was_allowed_or_its_tool_asked() -> None:
    plain = call_of(verdict=Verdict(decision="allow"))
    assert (plain.decision, plain.rule, plain.policy) == ("allow", "", "")
    asked = call_of(verdict=asked_by_tool(Verdict(decision="allow")))
    assert (asked.decision, asked.rule) == ("ask", TOOL_RULE)


def test_a_call_that_went_over_a_budget_is_known_by_it() -> None:
    daily = {"budgets": [{"name": "a day", "limit": 1, "window": "24h", "sum": "amount"}], **ALLOW}
    call = call_of(verdict=verdict(daily))
    assert call.was_over_budget
    assert call.can_be_judged


def test_what_was_erased_cannot_be_judged() -> None:
    event, values = recorded(verdict=verdict(ALLOW))
    for gone in ("args", "policy"):
        call = recorded_call(event, {name: value for name, value in values.items() if name != gone})
        assert call is not None
        assert not call.can_be_judged
    odd = recorded_call(event, {**values, "args": b"5", "policy": b"[]"})
    assert odd is not None
    assert (odd.args, odd.decision) == (None, None)


def test_other_events_tell_of_no_call() -> None:
    event, values = recorded(verdict=verdict(ALLOW))
    assert recorded_call(replace(event, type="tool_call_finished"), values) is None
    later = replace(event, body=event.body.replace(b'"args":', b'"late":'))
    assert recorded_call(later, values) is None


@pytest.mark.parametrize(
    ("then", "now", "change"),
    [
        (ALLOW, ALLOW, None),
        (ALLOW, REFUSE, "refuse"),
        (ALLOW, {}, "ask"),
        ({}, {"approvals": {"quorum": 2}}, None),
        (REFUSE, ALLOW, "allow"),
    ],
)
def test_a_change_is_a_decision_that_would_be_another(then: Any, now: Any, change: str | None) -> None:
    found = changed(call_of(verdict=verdict(then)), policy_of(now), "default", "")
    assert (None if found is None else found.verdict.decision) == change


def test_a_tool_that_asks_by_itself_asks_under_every_policy_that_allows() -> None:
    call = call_of(verdict=asked_by_tool(verdict(ALLOW)))
    assert call.rule == TOOL_RULE
    assert changed(call, policy_of(ALLOW), "default", "") is None
    found = changed(call, policy_of(REFUSE), "default", "")
    assert found is not None
    assert found.verdict.decision == "refuse"


def test_a_pinned_schema_is_taken_for_the_one_that_was_there() -> None:
    pinned = {"tools": {"stripe.refund": {"schema": SCHEMA}}, **ALLOW}
    assert changed(call_of(verdict=verdict(ALLOW)), policy_of(pinned), "default", "") is None
