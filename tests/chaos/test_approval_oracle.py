"""Each invariant of the judges of approvals and budgets fires on a planted violation and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.chaos.approval_oracle import (
    MOVES,
    Asked,
    StoredApproval,
    StoredCall,
    StoredMessage,
    Told,
    decision_name,
    judge_approvals,
    judge_sending,
)
from tests.chaos.approval_subject import Limit
from tests.chaos.budget_oracle import Spent, exceeded
from tests.chaos.oracle import Kind
from tests.chaos.world import Ack, Seen, Touch

TOUCHED = Seen(touches=(Touch(call="pay", key="k", attempt=1),))
UNTOUCHED = Seen()


def told(*types: str, at: str = "12:00") -> list[Told]:
    return [Told(type=type_, by="ana", at=at) for type_ in types]


ASKED = told("approval_requested")
RUN = told("approval_requested", "approval_received", "tool_call_started", "tool_call_finished")
APPROVAL = StoredApproval(id="apr_1", effect_id="eff_1", status="consumed", digest="d", expires_at="13:00")
CALL = StoredCall(call="pay", effect_id="eff_1", status="succeeded", approval_id="apr_1", story=RUN)
GOOD = Asked(calls=[CALL], approvals=[APPROVAL])


def kinds(seen: Seen, asked: Asked) -> list[Kind]:
    return [violation.kind for violation in judge_approvals(seen, asked)]


def story(status: str, approval_status: str, *types: str) -> Asked:
    call = replace(CALL, status=status, story=told(*types))
    return Asked(calls=[call], approvals=[replace(APPROVAL, status=approval_status)])


def test_a_good_story_passes() -> None:
    assert kinds(TOUCHED, GOOD) == []


@pytest.mark.parametrize(
    ("status", "approval_status", "types"),
    [
        ("requires_approval", "pending", ["approval_requested", "approval_viewed", "approval_escalated"]),
        ("ready", "approved", ["approval_requested", "approval_voted", "approval_received"]),
        ("denied", "denied", ["approval_requested", "approval_denied"]),
        ("canceled", "canceled", ["approval_requested", "approval_received", "tool_call_canceled"]),
        ("canceled", "expired", ["approval_requested", "approval_expired", "tool_call_canceled"]),
        ("requires_approval", "stale", ["approval_requested", "approval_received", "approval_stale"]),
        (
            "in_doubt",
            "consumed",
            ["approval_requested", "approval_received", "tool_call_started", "tool_call_in_doubt"],
        ),
    ],
)
def test_every_other_good_end_passes(status: str, approval_status: str, types: Sequence[str]) -> None:
    assert kinds(UNTOUCHED, story(status, approval_status, *types)) == []


def test_an_edited_and_taken_back_approval_passes() -> None:
    types = [
        "approval_requested",
        "approval_edited",
        "approval_received",
        "approval_revoked",
        "approval_received",
        "tool_call_started",
        "tool_call_released",
        "tool_call_started",
        "tool_call_finished",
    ]
    assert kinds(TOUCHED, story("succeeded", "consumed", *types)) == []


def test_a_call_that_is_asked_about_anew_passes() -> None:
    again = replace(APPROVAL, id="apr_0", replaces="apr_1")
    call = replace(CALL, approval_id="apr_0", story=[*told("approval_requested", "approval_expired"), *RUN])
    asked = Asked(calls=[call], approvals=[again, replace(APPROVAL, status="expired")])
    assert kinds(TOUCHED, asked) == []


@pytest.mark.parametrize("state", ["pending", "lapsed", "denied", "canceled"])
def test_a_start_without_an_approval_is_seen(state: str) -> None:
    ways = {
        "pending": ["approval_requested"],
        "lapsed": ["approval_requested", "approval_received", "approval_expired"],
        "denied": ["approval_requested", "approval_denied"],
        "canceled": ["approval_requested", "tool_call_canceled"],
    }
    found = kinds(TOUCHED, story("succeeded", "consumed", *ways[state], "tool_call_started"))
    assert "executed unapproved" in found


def test_an_effect_outside_without_a_start_is_seen() -> None:
    assert kinds(TOUCHED, story("requires_approval", "pending", "approval_requested")) == ["executed unapproved"]


def test_an_effect_of_a_denied_call_is_seen() -> None:
    found = kinds(TOUCHED, story("denied", "denied", "approval_requested", "approval_denied"))
    assert found == ["executed unapproved", "executed unapproved"]


def test_a_call_that_nobody_was_asked_about_is_seen() -> None:
    call = replace(CALL, approval_id=None, story=told("tool_call_started", "tool_call_finished"))
    assert set(kinds(TOUCHED, Asked(calls=[call]))) == {"executed unapproved", "two outcomes"}


def test_an_effect_that_happened_twice_is_seen() -> None:
    twice = Seen(touches=(*TOUCHED.touches, *TOUCHED.touches))
    assert kinds(twice, GOOD) == ["executed unapproved", "duplicate effect"]


def test_a_second_start_is_seen() -> None:
    call = replace(CALL, story=[*RUN, *told("tool_call_started")])
    assert kinds(TOUCHED, replace(GOOD, calls=[call])) == ["duplicate effect"]


def test_a_second_question_is_seen() -> None:
    second = replace(APPROVAL, id="apr_2", replaces="apr_1", status="pending")
    call = replace(CALL, status="requires_approval", approval_id="apr_2", story=[*ASKED, *ASKED])
    asked = Asked(calls=[call], approvals=[replace(APPROVAL, status="pending"), second])
    assert kinds(UNTOUCHED, asked) == ["asked twice", "two outcomes"]


def test_an_approval_without_a_request_is_seen() -> None:
    stray = replace(APPROVAL, id="apr_2", replaces="apr_1", status="expired")
    found = kinds(TOUCHED, replace(GOOD, approvals=[APPROVAL, stray]))
    assert "asked twice" in found


@pytest.mark.parametrize("then", ["approval_received", "approval_expired", "tool_call_canceled", "approval_denied"])
def test_a_decision_after_the_end_is_seen(then: str) -> None:
    found = kinds(UNTOUCHED, story("denied", "denied", "approval_requested", "approval_denied", then))
    assert "two outcomes" in found


def test_an_effect_and_an_approval_that_disagree_are_seen() -> None:
    assert kinds(TOUCHED, replace(GOOD, approvals=[replace(APPROVAL, status="approved")])) == ["approval disagrees"]
    assert kinds(UNTOUCHED, replace(GOOD, calls=[replace(CALL, status="ready")])) == ["approval disagrees"]


@pytest.mark.parametrize("type_", ["approval_received", "tool_call_started"])
def test_a_decision_that_came_too_late_is_seen(type_: str) -> None:
    late = [replace(each, at="13:00") if each.type == type_ else each for each in RUN]
    assert kinds(TOUCHED, replace(GOOD, calls=[replace(CALL, story=late)])) == ["late decision"]


def test_a_decision_that_got_lost_is_seen() -> None:
    approved, denied = (Ack(call=decision_name(deed, "apr_1", "ana"), result=b"") for deed in ("approve", "deny"))
    assert kinds(replace(TOUCHED, acks=(approved, Ack(call="pay", result=b""))), GOOD) == []
    assert kinds(replace(TOUCHED, acks=(approved, denied)), GOOD) == ["lost decision"]


def message(about: str, **more: object) -> StoredMessage:
    made = StoredMessage(id=f"{about}-1", approval_id="apr_1", about=about, channel="log", status="sent")
    return replace(made, **more)  # type: ignore[arg-type]


TOLD = replace(
    GOOD, approvals=[replace(APPROVAL, channels=("log",))], messages=[message("requested"), message("approved")]
)


def test_messages_that_are_there_pass() -> None:
    assert kinds(TOUCHED, TOLD) == []
    assert list(judge_sending(["requested-1", "approved-1", "approved-1"], TOLD)) == []


def test_a_message_that_is_missing_or_about_nothing_is_seen() -> None:
    assert kinds(TOUCHED, replace(TOLD, messages=[message("requested")])) == ["lost notification"]
    assert kinds(TOUCHED, replace(TOLD, messages=[*TOLD.messages, message("denied")])) == ["lost notification"]


@pytest.mark.parametrize(
    ("sent", "changed"),
    [
        (["requested-1"], message("approved")),
        (["requested-1", "approved-1"], message("approved", status="due")),
        (["requested-1", "approved-1", "denied-1"], message("approved")),
    ],
)
def test_a_message_that_was_not_sent_or_never_written_is_seen(sent: list[str], changed: StoredMessage) -> None:
    asked = replace(TOLD, messages=[message("requested"), changed])
    assert [found.kind for found in judge_sending(sent, asked)] == ["lost notification"]


def test_a_message_that_was_skipped_need_not_arrive() -> None:
    asked = replace(TOLD, messages=[message("requested", is_skipped=True), message("approved")])
    assert list(judge_sending(["approved-1"], asked)) == []


def test_no_start_is_allowed_but_on_an_approval() -> None:
    assert [state for state, type_ in MOVES if type_ == "tool_call_started"] == ["approved"]


RATE = Limit(budget="rate", most=2, window=1.0)
SPEND = Limit(budget="spend", most=10, window=1.0, counts="amounts")


def spent(*pairs: tuple[float, int]) -> list[Spent]:
    return [Spent(at=at, call=f"c{at}", amount=amount) for at, amount in pairs]


def test_a_budget_that_is_kept_passes() -> None:
    assert list(exceeded(RATE, spent((0.0, 9), (0.5, 9), (1.01, 9)))) == []
    assert list(exceeded(SPEND, spent((0.0, 5), (0.5, 5), (1.01, 5), (1.6, 5)))) == []


def test_a_budget_that_is_exceeded_in_any_stretch_is_seen() -> None:
    assert [found.kind for found in exceeded(RATE, spent((0.0, 1), (0.9, 1), (1.0, 1)))] == ["over budget"]
    assert [found.kind for found in exceeded(SPEND, spent((0.0, 5), (0.5, 5), (0.9, 1)))] == ["over budget"]
