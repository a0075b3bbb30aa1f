"""Promises of core.effects.claiming: nobody enters a handler but with the permission that is asked for, once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.approvals.approval import Need, Person, Question
from indelible.core.approvals.sheets import approval_ref, approval_sheet
from indelible.core.changes import Step
from indelible.core.commands import (
    ApprovalEnded,
    AwaitingApproval,
    Claimed,
    Denied,
    InFlight,
    KeyTaken,
    MayRun,
    RefusedByPolicy,
    Replayed,
)
from indelible.core.effects.effect import STATUSES
from indelible.core.policy.verdicts import ALLOWED, TOOL_RULE, Verdict, asked_by_tool
from indelible.core.values.canonical import decode
from tests.core.effects.claiming import ELSEWHERE, OTHER, approved, claim_on, edited, opening
from tests.core.making import (
    ADA,
    AGENT,
    ARGS,
    DIGEST,
    HOUR,
    NOON,
    OTHER_ARGS,
    OTHER_DIGEST,
    REF,
    Shelf,
    allows,
    asks,
    attend,
    cast,
    charge,
    charging,
    effect,
    finish,
    next_step,
    open_command,
    refuses,
    relinquish,
    reopen,
    vote,
)

# ── using an approval ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_approval_is_used_up_by_the_claim_in_the_same_write() -> None:
    shelf, approval = approved()
    batch = shelf.apply(opening(2))
    claimed = batch.answers[0]
    assert isinstance(claimed, Claimed)
    assert (claimed.claim.attempt, claimed.claim.effect.args_json) == (1, ARGS)
    used = shelf.approval()
    assert (used.status, used.attempt, used.version) == ("consumed", 1, approval.version + 1)
    assert [event.type for event in batch.events] == ["tool_call_started"]
    assert set(batch.sheets) == {approval_ref(approval.id)}
    assert shelf.last_commits()["approval"] == approval_sheet(used).body


def test_of_many_who_come_for_one_approval_one_gets_it() -> None:
    shelf, _ = approved()
    batch = shelf.apply(*(opening(number) for number in range(2, 52)))
    answers = [type(answer) for answer in batch.answers]
    assert (answers.count(Claimed), answers.count(InFlight)) == (1, 49)
    assert shelf.types().count("tool_call_started") == 1


def test_an_approval_is_used_once() -> None:
    shelf, _ = approved()
    shelf.do(finish(claim_on(shelf, opening(2)), "failed"))
    shelf.do(reopen())
    again = shelf.do(opening(3))
    assert isinstance(again, AwaitingApproval)
    assert again.approval.id == "apr_3"


def test_what_is_not_decided_does_not_run() -> None:
    shelf = Shelf()
    first = shelf.do(opening(verdict=asks(Need(2))))
    assert isinstance(shelf.do(opening(2, verdict=asks(Need(2)))), AwaitingApproval)
    shelf.do(cast(first.approval, ADA))
    waiting = shelf.do(opening(3, verdict=asks(Need(2))))
    assert isinstance(waiting, AwaitingApproval)
    assert waiting.approval.lacking == 1
    assert shelf.types() == ["approval_requested", "approval_voted"], "asking twice asks once"


def test_once_somebody_was_asked_somebody_has_to_answer() -> None:
    shelf = Shelf()
    asked = shelf.do(opening(verdict=asks(Need(2))))
    assert isinstance(shelf.do(opening(2, verdict=allows())), AwaitingApproval), "also if the policy would let it pass"
    shelf.now = asked.approval.expires_at
    shelf.do(attend(asked.approval))
    again = shelf.do(opening(3, verdict=allows()))
    assert isinstance(again, AwaitingApproval)
    assert again.approval.question == asked.approval.question


def test_a_question_that_was_erased_is_asked_again() -> None:
    shelf = Shelf()
    shelf.do(opening())
    ref = approval_ref("apr_1")
    shelf.sheets[ref] = replace(shelf.sheets[ref], body=None)
    again = shelf.do(opening(2, verdict=allows()))
    assert isinstance(again, AwaitingApproval)
    assert (again.approval.question.rule, again.approval.replaces) == ("it was asked before", None)


def test_a_tool_may_ask_where_no_policy_does() -> None:
    shelf, approval = approved(asked_by_tool(ALLOWED, Question(rule="the policy's terms", notify=("mail",))))
    assert (approval.question.rule, approval.question.notify, approval.policy) == (TOOL_RULE, ("mail",), "")
    assert "policy" not in shelf.last_commits()
    claim_on(shelf, opening(2, verdict=asked_by_tool(ALLOWED)))


def test_the_question_names_who_asked_and_for_whom() -> None:
    shelf = Shelf()
    approval = shelf.do(opening(principal="eve", schema="f00d")).approval
    assert (approval.requester, approval.principal, approval.schema) == (AGENT, "eve", "f00d")
    assert approval.asked_at == NOON


# ── what drifts ──────────────────────────────────────────────────────────────────────────────────────────────────────

DRIFTS: dict[str, Any] = {
    "policy": {"verdict": asks(policy="policy-2")},
    "schema": {"schema": "f00d"},
    "args": OTHER,
    "args, policy, schema": {**OTHER, "verdict": asks(policy="policy-2"), "schema": "f00d"},
}


@pytest.mark.parametrize("names", DRIFTS)
@pytest.mark.parametrize("is_approved", [True, False])
def test_an_approval_of_something_else_goes_stale_and_it_is_asked_anew(names: str, is_approved: bool) -> None:
    shelf = Shelf()
    old = shelf.do(opening()).approval
    if is_approved:
        shelf.do(cast(old, ADA))
    answer = shelf.do(opening(2, **DRIFTS[names]))
    assert isinstance(answer, AwaitingApproval)
    assert shelf.types()[-2:] == ["approval_stale", "approval_requested"]
    new = answer.approval
    assert (new.id, new.replaces, new.status, new.votes) == ("apr_2", "apr_1", "pending", ())
    assert shelf.sheets[approval_ref("apr_1")].status == "stale"
    stale_seq = shelf.events["run-1"][-2].seq
    assert decode(shelf.committed["run-1", stale_seq, "reason"]) == f"changed since it was asked: {names}"
    is_other = "args" in names
    assert shelf.effects[REF].args_json == (OTHER_ARGS if is_other else ARGS)
    assert shelf.effects[REF].digest == (OTHER_DIGEST if is_other else DIGEST)
    assert new.args_seq == shelf.effects[REF].opened_seq == (shelf.events["run-1"][-1].seq if is_other else 0)
    assert ("args" in shelf.last_commits()) == is_other
    shelf.do(cast(new, ADA))
    claim = claim_on(shelf, opening(3, **DRIFTS[names]))
    assert claim.effect.args_json == shelf.effects[REF].args_json


@pytest.mark.parametrize("names", DRIFTS)
def test_whoever_waited_for_it_is_told_instead(names: str) -> None:
    shelf, old = approved()
    answer = shelf.do(opening(2, **DRIFTS[names], awaited_approval=old.id))
    assert isinstance(answer, ApprovalEnded)
    assert (answer.approval.status, answer.effect.status) == ("stale", "requires_approval")
    assert answer.effect.detail == f"changed since it was asked: {names}"
    assert answer.effect == shelf.effects[REF]
    assert shelf.types()[-1] == "approval_stale", "nobody is asked behind its back"
    assert shelf.do(opening(2, **DRIFTS[names], awaited_approval=old.id)) == answer, "its answer got lost"
    assert isinstance(shelf.do(opening(3, **DRIFTS[names])), AwaitingApproval)


def test_whoever_waited_for_a_question_that_somebody_elses_has_replaced_is_told_and_asks_nothing() -> None:
    """Else two callers with different arguments under one key would make each other's questions stale for ever."""
    shelf = Shelf()
    old = shelf.do(opening()).approval
    new = shelf.do(opening(2, **OTHER)).approval
    events = len(shelf.types())
    answer = shelf.do(opening(3, has_key_fields=True, awaited_approval=old.id))
    assert isinstance(answer, ApprovalEnded)
    assert (answer.approval, answer.approval.is_open) == (new, True)
    assert len(shelf.types()) == events
    shelf.now = new.expires_at
    late = shelf.do(opening(4, has_key_fields=True, awaited_approval=old.id))
    assert isinstance(late, AwaitingApproval), "a question that is over stands in nobody's way"


def test_going_back_to_what_was_approved_does_not_bring_the_approval_back() -> None:
    shelf, _ = approved()
    shelf.do(opening(2, verdict=asks(policy="policy-2")))
    back = shelf.do(opening(3))
    assert isinstance(back, AwaitingApproval)
    assert (back.approval.id, back.approval.replaces) == ("apr_3", "apr_2")


def test_without_key_fields_other_arguments_are_another_call() -> None:
    shelf, approval = approved()
    assert isinstance(shelf.do(opening(2, digest=OTHER_DIGEST, args_json=OTHER_ARGS)), KeyTaken)
    assert shelf.approval() == approval


def test_other_arguments_under_a_key_whose_call_was_attempted_are_refused() -> None:
    shelf, _ = approved()
    shelf.do(relinquish(claim_on(shelf, opening(2))))
    assert isinstance(shelf.do(opening(3, **OTHER)), KeyTaken)


def test_what_people_said_no_to_stays_denied_under_its_key() -> None:
    shelf = Shelf()
    shelf.do(cast(shelf.do(opening()).approval, ADA, is_approval=False))
    assert isinstance(shelf.do(opening(2, **OTHER)), Denied)


@pytest.mark.parametrize("is_approved", [True, False])
def test_an_approval_that_comes_too_late_allows_nothing(is_approved: bool) -> None:
    shelf = Shelf()
    old = shelf.do(opening(verdict=asks(expires=HOUR))).approval
    if is_approved:
        shelf.do(cast(old, ADA))
    shelf.now += HOUR
    told = shelf.do(opening(2, verdict=asks(expires=HOUR), awaited_approval=old.id))
    assert isinstance(told, ApprovalEnded)
    assert (told.approval.status, told.effect.detail) == ("expired", "its time ran out")
    asked = shelf.do(opening(3, verdict=asks(expires=HOUR)))
    assert isinstance(asked, AwaitingApproval)
    assert (asked.approval.replaces, asked.approval.expires_at) == (old.id, NOON + 2 * HOUR)
    assert shelf.types()[-2:] == ["approval_expired", "approval_requested"]


def test_an_approval_that_comes_in_the_last_moment_allows() -> None:
    shelf, _ = approved(asks(expires=HOUR))
    shelf.now += HOUR - timedelta(microseconds=1)
    claim_on(shelf, opening(2, verdict=asks(expires=HOUR)))


def test_an_approval_that_lapsed_unattended_is_replaced_in_one_step() -> None:
    shelf, old = approved(asks(expires=HOUR))
    shelf.now += HOUR
    asked = shelf.do(opening(2))
    assert isinstance(asked, AwaitingApproval)
    assert asked.approval.replaces == old.id
    assert shelf.types()[-2:] == ["approval_expired", "approval_requested"]


# ── what is stored is not believed ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("verdict", "changes"),
    [
        (asks(Need(2)), {"status": "approved"}),
        (asks(Need(2)), {"status": "approved", "votes": (vote("ada"),)}),
        (asks(Need(2)), {"status": "approved", "votes": (vote("ada"), vote("Ada"))}),
        (asks(Need(2)), {"status": "approved", "votes": (vote("ada"), vote("agent"))}),
        (asks(Need(2)), {"status": "approved", "votes": (vote("ada"),), "question": asks(Need(1)).question}),
        (asks(people={"bo": Person()}), {"status": "approved", "votes": (vote("ada"),)}),
        (asks(people={"bo": Person()}), {"status": "approved", "votes": (vote("ada"),), "question": asks().question}),
        (asks(needs_signature=True), {"status": "approved", "votes": (vote("ada", signature=b"x" * 64),)}),
        (asks(), {"status": "approved", "votes": (vote("ada", is_approval=False),)}),
        (asks(), {"status": "approved", "votes": (vote("ada"),), "digest": OTHER_DIGEST}),
        (asks(), {"status": "approved", "votes": (vote("ada"),), "expires_at": NOON + 999 * HOUR}),
        (asks(), {"status": "approved", "votes": (vote("ada"),), "effect_id": "eff_other"}),
    ],
)
def test_an_edited_store_does_not_beat_the_quorum(verdict: Verdict, changes: Any) -> None:
    shelf = Shelf()
    approval = shelf.do(opening(verdict=verdict)).approval
    edited(shelf, approval, **changes)
    shelf.effects[REF] = replace(shelf.effects[REF], status="ready")
    answer = shelf.do(opening(2, verdict=verdict))
    assert isinstance(answer, AwaitingApproval)
    assert (answer.approval.id, answer.approval.votes) == ("apr_2", ())
    assert shelf.types()[-2:] == ["approval_stale", "approval_requested"]
    stale = shelf.events["run-1"][-2].seq
    own_vote = any(each.by == "agent" for each in changes.get("votes", ()))
    what = "who may decide it" if own_vote else "what is stored of it"
    assert decode(shelf.committed["run-1", stale, "reason"]) == f"changed since it was asked: {what}"


@pytest.mark.parametrize("status", ["ready", "requires_approval"])
def test_a_status_of_the_effect_alone_allows_nothing(status: Any) -> None:
    shelf = Shelf()
    shelf.do(opening())
    shelf.effects[REF] = replace(shelf.effects[REF], status=status)
    assert isinstance(shelf.do(opening(2)), AwaitingApproval)
    shelf.effects[REF] = replace(shelf.effects[REF], status=status, permission_id=None)
    assert isinstance(shelf.do(opening(3)), AwaitingApproval)


def test_an_approval_alone_does_not_make_the_effect_ready() -> None:
    shelf = Shelf()
    approval = shelf.do(opening()).approval
    edited(shelf, approval, status="approved", votes=(vote("ada"),))
    assert isinstance(shelf.do(opening(2)), AwaitingApproval)


def test_the_approval_of_another_effect_with_the_same_call_allows_nothing() -> None:
    """Two calls of one run under ids of their own have equal arguments, and one is approved."""
    shelf, approval = approved()
    twin = shelf.do(opening(2, ref=ELSEWHERE)).effect
    shelf.effects[ELSEWHERE] = replace(twin, status="ready", permission_id=approval.id)
    answer = shelf.do(opening(3, ref=ELSEWHERE))
    assert isinstance(answer, AwaitingApproval)


# ── refused ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_the_policy_refuses_never_becomes_an_effect() -> None:
    shelf = Shelf()
    assert shelf.do(opening(verdict=refuses())) == RefusedByPolicy(refuses())
    assert shelf.effects == {}
    assert shelf.types() == ["policy_checked"]
    assert decode(shelf.last_commits()["policy"]) == {
        "decision": "refuse", "policy": "policy-1", "rule": "never", "why": "on principle",
    }  # fmt: skip
    assert shelf.last_commits()["args"] == ARGS
    assert "subject" not in shelf.last_commits()
    shelf.do(opening(2, verdict=refuses(), subject_json=b'"mark"'))
    assert shelf.last_commits()["subject"] == b'"mark"', "it is found when this person is to be forgotten"


def test_what_the_policy_refuses_by_now_does_not_run_though_it_was_approved() -> None:
    shelf, approval = approved()
    answer = shelf.do(opening(2, verdict=refuses()))
    assert answer == RefusedByPolicy(refuses(), shelf.effects[REF])
    assert shelf.approval() == approval
    assert shelf.types()[-1] == "policy_checked"
    assert shelf.effects[REF].status == "ready"
    claim_on(shelf, opening(3))


def test_a_result_is_replayed_whatever_the_policy_says_by_now() -> None:
    shelf, _ = approved()
    shelf.do(finish(claim_on(shelf, opening(2))))
    assert isinstance(shelf.do(opening(3, verdict=refuses())), Replayed)


# ── standing grants ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [None, *STATUSES])
@pytest.mark.parametrize("verdict", [allows(), asks(), charging(charge(amount=9))], ids=["allows", "asks", "too much"])
def test_whoever_only_asks_is_answered_as_whoever_claims_but_takes_nothing(
    status: str | None, verdict: Verdict
) -> None:
    there = None if status is None else effect(status)
    command = open_command(verdict=verdict, token="ee" * 16)
    step = next_step(command, there, NOON, 0)
    asking = next_step(replace(command, only_asks=True), there, NOON, 0)
    assert asking == (Step(MayRun(there)) if isinstance(step.answer, Claimed) else step)
