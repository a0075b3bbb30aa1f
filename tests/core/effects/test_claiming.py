"""Promises of core.effects.claiming: nobody enters a handler but with the permission that is asked for, once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.approvals.approval import Approval, Need, Person, Question
from indelible.core.approvals.grants import Grant, grant_ref, grant_sheet, read_grant
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
    Open,
    OverBudget,
    RefusedByPolicy,
    Replayed,
)
from indelible.core.effects.effect import STATUSES, Claim
from indelible.core.effects.identity import Ref
from indelible.core.policy.verdicts import ALLOWED, TOOL_RULE, Verdict, asked_by_tool
from indelible.core.steps import next_step
from indelible.core.values.canonical import decode
from tests.core.making import (
    ADA,
    AGENT,
    ARGS,
    BO,
    DIGEST,
    HOUR,
    LEASE,
    NOON,
    OTHER_ARGS,
    OTHER_DIGEST,
    REF,
    SECOND,
    Shelf,
    allows,
    amend,
    asks,
    attend,
    cast,
    charge,
    charging,
    effect,
    finish,
    open_command,
    refuses,
    relinquish,
    reopen,
    settle,
    stamp,
    vote,
)

OTHER: Any = {"digest": OTHER_DIGEST, "args_json": OTHER_ARGS, "has_key_fields": True}
ELSEWHERE = Ref("default", "run-1", "12" * 32)


def opening(number: int = 1, **words: Any) -> Open:
    """Gives the call of an agent, with an id and a token of its own."""
    fields = {"effect_id": f"eff_{number}", "token": f"{number:032x}", "stamp": stamp(actor=AGENT), "verdict": asks()}
    return open_command(**{**fields, **words})


def approved(verdict: Verdict | None = None, **words: Any) -> tuple[Shelf, Approval]:
    """Gives a shelf with a payment that somebody has approved, and the approval."""
    shelf = Shelf()
    asked = shelf.do(opening(verdict=verdict or asks(), **words))
    assert isinstance(asked, AwaitingApproval)
    shelf.do(cast(asked.approval, ADA))
    assert shelf.effects[REF].status == "ready"
    return shelf, shelf.approval()


def claim_on(shelf: Shelf, command: Open) -> Claim:
    answer = shelf.do(command)
    assert isinstance(answer, Claimed), answer
    return answer.claim


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


def edited(shelf: Shelf, approval: Approval, **changes: Any) -> None:
    """Writes an approval over, as somebody with access to the store could."""
    shelf.sheets[approval_ref(approval.id)] = replace(
        approval_sheet(replace(approval, **changes)), run_id="run-1", seq=0
    )


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
    assert decode(shelf.committed["run-1", stale, "reason"]) == "changed since it was asked: what is stored of it"


@pytest.mark.parametrize("status", ["ready", "requires_approval"])
def test_a_status_of_the_effect_alone_allows_nothing(status: Any) -> None:
    shelf = Shelf()
    shelf.do(opening())
    shelf.effects[REF] = replace(shelf.effects[REF], status=status)
    assert isinstance(shelf.do(opening(2)), AwaitingApproval)
    shelf.effects[REF] = replace(shelf.effects[REF], status=status, approval_id=None)
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
    shelf.effects[ELSEWHERE] = replace(twin, status="ready", approval_id=approval.id)
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


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

PRICED = asks(charges=(charge(2),))


def test_a_call_reserves_before_anybody_is_asked_and_spends_when_it_is_done() -> None:
    shelf, _ = approved(PRICED)
    assert shelf.budget().reserved == 2
    assert shelf.effects[REF].charges_json is not None
    claim = claim_on(shelf, opening(2, verdict=PRICED))
    assert shelf.budget().reserved == 2, "once"
    assert "charges" not in shelf.last_commits()
    shelf.do(finish(claim))
    assert (shelf.budget().reserved, sum(shelf.budget().spent.values())) == (0, 2)
    assert shelf.effects[REF].charges_json is None


def test_a_call_that_a_budget_does_not_have_is_refused_and_told() -> None:
    shelf = Shelf()
    answer = shelf.do(opening(verdict=charging(charge(6))))
    assert isinstance(answer, OverBudget)
    assert (answer.exceeded.used, answer.effect) == (0, None)
    assert shelf.effects == {}
    assert shelf.types() == ["policy_checked"]
    said: Any = decode(shelf.last_commits()["policy"])
    assert (said["decision"], said["rule"], said["policy"]) == ("refuse", "spend", "policy-1")
    assert said["why"] == "0 of 5 are taken, and this call takes 6"
    assert shelf.sheets == {}


def test_an_effect_that_a_budget_does_not_have_by_now_stays_as_it_is() -> None:
    shelf = Shelf()
    claim = claim_on(shelf, opening(verdict=charging(charge(4))))
    shelf.do(relinquish(claim))
    assert shelf.budget().reserved == 0
    claim_on(shelf, opening(2, ref=ELSEWHERE, verdict=charging(charge(4))))
    before = shelf.effects[REF]
    answer = shelf.do(opening(3, verdict=charging(charge(4))))
    assert isinstance(answer, OverBudget)
    assert answer.effect == before == shelf.effects[REF]
    assert isinstance(shelf.do(opening(4, verdict=asks(charges=(charge(4),)))), OverBudget), "nor is anybody asked"
    assert shelf.effects[REF] == before


@pytest.mark.parametrize("drift", [OTHER, {"schema": "f00d"}])
def test_asking_anew_reserves_anew_instead_of_what_was_reserved(drift: Any) -> None:
    shelf, _ = approved(PRICED)
    dearer = asks(charges=(charge(5),))
    assert isinstance(shelf.do(opening(2, **{**drift, "verdict": dearer})), AwaitingApproval)
    assert shelf.budget().reserved == 5
    assert shelf.last_commits()["charges"] == shelf.effects[REF].charges_json


def test_asking_anew_about_what_costs_nothing_gives_back_what_was_reserved() -> None:
    shelf, _ = approved(PRICED)
    shelf.do(opening(2, **OTHER))
    assert (shelf.budget().reserved, shelf.effects[REF].charges_json) == (0, None)


@pytest.mark.parametrize("drift", [OTHER, {"schema": "f00d"}, {}])
def test_what_cannot_be_asked_anew_for_want_of_budget_leaves_the_old_question(drift: Any) -> None:
    shelf, approval = approved(asks(expires=HOUR, charges=(charge(2),)))
    claim_on(shelf, opening(2, ref=ELSEWHERE, verdict=charging(charge(3))))
    shelf.now += timedelta(0) if drift else HOUR
    before = shelf.effects[REF]
    answer = shelf.do(opening(3, **{**drift, "verdict": asks(charges=(charge(3),))}))
    assert isinstance(answer, OverBudget)
    assert (answer.exceeded.used, answer.effect) == (3, before)
    assert (shelf.effects[REF], shelf.approval(), shelf.budget().reserved) == (before, approval, 5)
    assert shelf.types()[-1] == "policy_checked"


def test_whoever_is_told_that_an_approval_ended_holds_no_budget() -> None:
    shelf, old = approved(PRICED)
    shelf.do(opening(2, verdict=asks(policy="policy-2", charges=(charge(2),)), awaited_approval=old.id))
    assert (shelf.budget().reserved, shelf.effects[REF].charges_json) == (0, None)
    shelf.do(opening(3, verdict=PRICED))
    assert shelf.budget().reserved == 2


def test_what_is_in_doubt_stays_reserved_until_somebody_knows() -> None:
    shelf, _ = approved(PRICED)
    shelf.do(relinquish(claim_on(shelf, opening(2, verdict=PRICED)), "in_doubt"))
    assert shelf.budget().reserved == 2
    shelf.do(settle("failed"))
    assert (shelf.budget().reserved, shelf.budget().spent) == (0, {})
    shelf, _ = approved(PRICED)
    shelf.do(relinquish(claim_on(shelf, opening(2, verdict=PRICED)), "in_doubt"))
    shelf.do(settle("succeeded"))
    assert sum(shelf.budget().spent.values()) == 2


def test_what_is_tried_again_after_doubt_reserves_once() -> None:
    shelf = Shelf()
    shelf.do(relinquish(claim_on(shelf, opening(verdict=charging(charge(2)))), "in_doubt"))
    shelf.do(reopen())
    claim_on(shelf, opening(2, verdict=charging(charge(2))))
    assert shelf.budget().reserved == 2


# ── handing back, crashing, trying again ─────────────────────────────────────────────────────────────────────────────


def test_an_attempt_in_which_nothing_happened_hands_its_approval_back() -> None:
    shelf, approval = approved(PRICED)
    shelf.do(relinquish(claim_on(shelf, opening(2, verdict=PRICED))))
    free = shelf.approval()
    assert (free.status, free.attempt, free.votes, free.version) == ("approved", None, approval.votes, 4)
    assert shelf.budget().reserved == 2, "as while it waited"
    claim = claim_on(shelf, opening(3, verdict=PRICED))
    assert (claim.attempt, shelf.approval().status, shelf.approval().attempt) == (2, "consumed", 2)
    assert shelf.budget().reserved == 2


def test_an_approval_that_was_handed_back_can_still_lapse_or_be_taken_back() -> None:
    shelf, approval = approved(asks(expires=HOUR, charges=(charge(2),)))
    shelf.do(relinquish(claim_on(shelf, opening(2, verdict=PRICED))))
    shelf.now += HOUR
    shelf.do(attend(approval))
    assert (shelf.approval().status, shelf.budget().reserved) == ("expired", 0)
    assert isinstance(shelf.do(opening(3, verdict=PRICED)), AwaitingApproval)


def test_an_attempt_that_needed_no_approval_hands_its_budget_back() -> None:
    shelf = Shelf()
    shelf.do(relinquish(claim_on(shelf, opening(verdict=charging(charge(2))))))
    assert (shelf.budget().reserved, shelf.effects[REF].charges_json) == (0, None)
    claim_on(shelf, opening(2, verdict=charging(charge(2))))
    assert shelf.budget().reserved == 2
    assert shelf.last_commits()["charges"] == shelf.effects[REF].charges_json


def test_an_attempt_after_a_crash_is_covered_by_the_approval_that_was_used() -> None:
    shelf, _ = approved(on_crash="retry")
    claim_on(shelf, opening(2))
    shelf.now += LEASE
    second = claim_on(shelf, opening(3))
    assert second.attempt == 2
    shelf.do(relinquish(second, "in_doubt"))
    third = claim_on(shelf, opening(4))
    assert third.attempt == 3
    used = shelf.approval()
    assert (used.status, used.attempt, used.votes) == ("consumed", 3, (vote("ada"),)), "each takes it over"
    assert shelf.last_commits()["approval"] == approval_sheet(used).body, "and says so on the record"
    shelf.now += timedelta(days=9)
    assert claim_on(shelf, opening(5)).attempt == 4, "also when its time is over: it was used in time"


@pytest.mark.parametrize("drift", [{"verdict": asks(policy="policy-2")}, {"schema": "f00d"}])
def test_after_a_crash_it_covers_nothing_else(drift: Any) -> None:
    shelf, _ = approved(on_crash="retry")
    claim_on(shelf, opening(2))
    shelf.now += LEASE
    answer = shelf.do(opening(3, **drift))
    assert isinstance(answer, AwaitingApproval)
    assert (answer.effect.attempt, answer.approval.replaces) == (1, "apr_1")
    shelf.do(cast(answer.approval, BO))
    assert claim_on(shelf, opening(4, **drift)).attempt == 2


def test_after_a_crash_its_votes_are_counted_again() -> None:
    shelf, _ = approved(on_crash="retry")
    claim_on(shelf, opening(2))
    edited(shelf, shelf.approval(), votes=())
    shelf.now += LEASE
    assert isinstance(shelf.do(opening(3)), AwaitingApproval)


def test_after_a_crash_edited_arguments_run_again_as_they_were_approved() -> None:
    shelf = Shelf()
    verdict = asks(charges=(charge(2),))
    first = shelf.do(opening(on_crash="retry", verdict=verdict)).approval
    changed = shelf.do(amend(first, ADA, verdict=asks(charges=(charge(3),)))).approval
    shelf.do(cast(changed, BO))
    claim_on(shelf, opening(2, verdict=verdict))
    shelf.now += LEASE
    claim = claim_on(shelf, opening(3, verdict=verdict))
    assert (claim.attempt, claim.effect.args_json, shelf.budget().reserved) == (2, OTHER_ARGS, 3)


def test_a_tool_that_may_not_be_repeated_is_held_after_a_crash_though_it_was_approved() -> None:
    shelf, _ = approved()
    claim_on(shelf, opening(2))
    shelf.now += LEASE
    assert type(shelf.do(opening(3))).__name__ == "InDoubt"


@pytest.mark.parametrize("status", ["failed", "in_doubt"])
def test_a_persons_retry_is_not_covered_by_what_was_used(status: Any) -> None:
    shelf, _ = approved(PRICED)
    claim = claim_on(shelf, opening(2, verdict=PRICED))
    shelf.do(finish(claim, "failed") if status == "failed" else relinquish(claim, "in_doubt"))
    shelf.do(reopen())
    asked = shelf.do(opening(3, verdict=PRICED))
    assert isinstance(asked, AwaitingApproval)
    assert (asked.approval.replaces, asked.effect.attempt) == ("apr_1", 1)
    assert shelf.budget().reserved == 2
    shelf.do(cast(asked.approval, ADA))
    assert claim_on(shelf, opening(4, verdict=PRICED)).attempt == 2


def test_an_attempt_that_ran_without_an_approval_hands_none_back() -> None:
    """The first attempt used the approval up; a person allowed a second, which the policy let pass by then."""
    shelf, _ = approved()
    shelf.do(finish(claim_on(shelf, opening(2)), "failed"))
    shelf.do(reopen())
    second = claim_on(shelf, opening(3, verdict=allows()))
    shelf.do(relinquish(second))
    assert shelf.approval().status == "consumed"
    assert isinstance(shelf.do(opening(4)), AwaitingApproval)


def test_an_attempt_after_the_crash_of_one_that_ran_without_an_approval_is_not_covered_by_an_older_one() -> None:
    """The approval was used up by the first attempt; the second ran on a person's word and the policy's leave."""
    shelf, _ = approved(on_crash="retry")
    shelf.do(finish(claim_on(shelf, opening(2)), "failed"))
    shelf.do(reopen())
    claim_on(shelf, opening(3, verdict=allows()))
    shelf.now += LEASE
    answer = shelf.do(opening(4))
    assert isinstance(answer, AwaitingApproval)
    assert answer.effect.attempt == 2


def test_an_attempt_after_a_crash_in_which_nothing_happened_hands_the_approval_back() -> None:
    shelf, _ = approved(on_crash="retry")
    claim_on(shelf, opening(2))
    shelf.now += LEASE
    shelf.do(relinquish(claim_on(shelf, opening(3))))
    assert (shelf.approval().status, shelf.approval().attempt) == ("approved", None)
    assert claim_on(shelf, opening(4)).attempt == 3


def test_a_retry_of_an_edited_call_that_failed_is_asked_about() -> None:
    shelf = Shelf()
    changed = shelf.do(amend(shelf.do(opening()).approval, ADA)).approval
    shelf.do(cast(changed, BO))
    shelf.do(finish(claim_on(shelf, opening(2)), "failed"))
    shelf.do(reopen())
    asked = shelf.do(opening(3, verdict=allows()))
    assert isinstance(asked, AwaitingApproval)
    assert asked.effect.args_json == ARGS, "as it was called, for that is what the policy has judged"


# ── standing grants ──────────────────────────────────────────────────────────────────────────────────────────────────

PINNED = "99" * 32
GRANT = Grant(
    id="grt_1",
    tool="pay",
    pin=("amount",),
    pinned=PINNED,
    schema="",
    policy="policy-1",
    rule="ask first",
    uses_left=2,
    until=NOON + HOUR,
    given_by="ada",
    approval_id="apr_0",
)


def granted(*grants: Grant) -> Shelf:
    shelf = Shelf()
    for grant in grants:
        shelf.sheets[grant_ref(grant.id)] = grant_sheet(grant).told_by("run-0", 7)
    return shelf


def under_grant(number: int = 1, **words: Any) -> Open:
    return opening(number, **{"grants": {"grt_1": PINNED}, **words})


def test_a_grant_lets_calls_pass_and_counts_them() -> None:
    shelf = granted(GRANT)
    claim_on(shelf, under_grant())
    left = read_grant(shelf.sheets[grant_ref("grt_1")])
    assert (left.uses_left, left.version, left.before) == (1, 2, ("run-0", 7))
    assert shelf.effects[REF].approval_id is None
    assert set(shelf.last_commits()) == {"args", "key", "policy", "grant"}
    claim_on(shelf, under_grant(2, ref=ELSEWHERE))
    assert read_grant(shelf.sheets[grant_ref("grt_1")]).uses_left == 0
    third = shelf.do(under_grant(3, ref=Ref("default", "run-1", "34" * 32)))
    assert isinstance(third, AwaitingApproval)


def test_of_many_calls_at_once_a_grant_lets_as_many_pass_as_it_has_uses() -> None:
    shelf = granted(GRANT)
    refs = [Ref("default", "run-1", f"{number:02x}" * 32) for number in range(9)]
    batch = shelf.apply(*(under_grant(number, ref=ref) for number, ref in enumerate(refs)))
    assert [type(answer) for answer in batch.answers].count(Claimed) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"uses_left": 0},
        {"until": NOON},
        {"is_ended": True},
        {"tool": "refund"},
        {"pinned": "98" * 32},
        {"schema": "f00d"},
        {"policy": "policy-2"},
        {"rule": "two for large ones"},
        {"given_by": "AGENT"},
        {"given_by": "Eve"},
    ],
)
def test_a_grant_covers_nothing_else(changes: Any) -> None:
    shelf = granted(replace(GRANT, **changes))
    assert isinstance(shelf.do(under_grant(principal="eve")), AwaitingApproval)


def test_a_grant_that_is_not_there_or_was_erased_covers_nothing() -> None:
    shelf = granted()
    assert isinstance(shelf.do(under_grant()), AwaitingApproval)
    shelf = granted(GRANT)
    shelf.sheets[grant_ref("grt_1")] = replace(shelf.sheets[grant_ref("grt_1")], body=None)
    assert isinstance(shelf.do(under_grant()), AwaitingApproval)


def test_the_first_grant_that_covers_is_used() -> None:
    over, good, other = (
        replace(GRANT, id="grt_0", uses_left=0),
        replace(GRANT, id="grt_1"),
        replace(GRANT, id="grt_2"),
    )
    shelf = granted(over, good, other)
    claim_on(shelf, opening(grants=dict.fromkeys(("grt_0", "grt_1", "grt_2"), PINNED)))
    assert [read_grant(shelf.sheets[grant_ref(f"grt_{number}")]).uses_left for number in range(3)] == [0, 1, 2]


def test_a_grant_is_not_used_where_nobody_asks_or_where_it_is_refused() -> None:
    shelf = granted(GRANT)
    claim_on(shelf, under_grant(verdict=allows()))
    assert isinstance(shelf.do(under_grant(2, ref=ELSEWHERE, verdict=refuses())), RefusedByPolicy)
    assert read_grant(shelf.sheets[grant_ref("grt_1")]).uses_left == 2


def test_a_grant_does_not_help_a_budget() -> None:
    shelf = granted(GRANT)
    assert isinstance(shelf.do(under_grant(verdict=asks(charges=(charge(6),)))), OverBudget)
    assert read_grant(shelf.sheets[grant_ref("grt_1")]).uses_left == 2
    claim_on(shelf, under_grant(2, verdict=asks(charges=(charge(5),))))
    assert shelf.budget().reserved == 5


def test_a_question_that_stands_is_not_passed_by_a_grant() -> None:
    shelf = Shelf()
    shelf.do(opening())
    shelf.sheets[grant_ref("grt_1")] = grant_sheet(GRANT).told_by("run-0", 7)
    assert isinstance(shelf.do(under_grant(2)), AwaitingApproval)


def test_a_question_that_lapsed_is_passed_by_a_grant() -> None:
    shelf = granted(GRANT)
    asked = shelf.do(opening(verdict=asks(expires=SECOND)))
    shelf.now += SECOND
    shelf.do(attend(asked.approval))
    claim = claim_on(shelf, under_grant(2))
    assert (claim.attempt, set(shelf.last_commits())) == (1, {"policy", "grant"})


def test_a_grant_never_runs_other_arguments_than_it_was_compared_with() -> None:
    """Under key fields the effect holds the arguments of a call whose question lapsed; this call has others."""
    shelf = granted(GRANT)
    asked = shelf.do(opening(verdict=asks(expires=SECOND)))
    shelf.now += SECOND
    shelf.do(attend(asked.approval))
    answer = shelf.do(under_grant(2, **OTHER))
    assert isinstance(answer, AwaitingApproval)
    assert answer.effect.args_json == OTHER_ARGS
    assert read_grant(shelf.sheets[grant_ref("grt_1")]).uses_left == 2


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
