"""Promises of core.approvals.asking: what people do about an approval, and what becomes of the effect by it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.approvals.approval import Approval, Escalation, Need, Person, ended
from indelible.core.approvals.asking import why_altered
from indelible.core.approvals.grants import Delegation, GrantTerms, delegation_sheet, grant_ref, read_grant
from indelible.core.commands import (
    ApprovalEnded,
    AwaitingApproval,
    CastVote,
    Claimed,
    Decided,
    Denied,
    Illegal,
    NotCounted,
)
from indelible.core.effects.effect import Actor
from indelible.core.policy.verdicts import Verdict
from indelible.core.values.canonical import decode
from tests.core.making import (
    ADA,
    AGENT,
    ARGS,
    BO,
    CY,
    HOUR,
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
    cancel,
    cast,
    charge,
    finish,
    open_command,
    refuses,
    relinquish,
    show_to,
    stamp,
    take_back,
)

PAIR = asks(Need(2))


def asked_for(verdict: Verdict, **words: Any) -> tuple[Shelf, Approval]:
    """Gives a shelf on which somebody is asked about a payment, and the question."""
    shelf = Shelf()
    answer = shelf.do(open_command(verdict=verdict, stamp=stamp(actor=AGENT), **words))
    assert isinstance(answer, AwaitingApproval)
    return shelf, answer.approval


def code(answer: Any) -> str:
    assert isinstance(answer, NotCounted), f"it was counted: {answer}"
    return answer.refusal.code


def messages(shelf: Shelf) -> list[tuple[str, str]]:
    """Lists the messages that have to go out: what they are about, and by which channel."""
    found = [sheet.read() for ref, sheet in sorted(shelf.sheets.items()) if ref.kind == "delivery"]
    return [(content["about"], content["channel"]) for content in found]


# ── voting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_enough_approvals_make_the_effect_ready_and_say_why() -> None:
    shelf, approval = asked_for(PAIR)
    first = shelf.do(cast(approval, ADA, detail_json=b'"fine"'))
    assert isinstance(first, Decided)
    assert (first.approval.status, first.approval.lacking, first.effect.status) == ("pending", 1, "requires_approval")
    assert shelf.last_commits()["reason"] == b'"fine"'
    second = shelf.do(cast(approval, BO, detail_json=b'"go"'))
    assert (second.approval.status, second.effect.status) == ("approved", "ready")
    assert (second.effect.attempt, second.effect.lease_until, second.effect.detail) == (0, None, "go")
    assert shelf.types() == ["approval_requested", "approval_voted", "approval_received"]
    assert [event.read()["actor"]["id"] for event in shelf.events["run-1"]] == ["agent", "ada", "bo"]


def test_a_denial_ends_it_and_gives_the_budget_back() -> None:
    shelf, approval = asked_for(asks(Need(2), charges=(charge(2),)))
    shelf.do(cast(approval, ADA))
    assert shelf.budget().reserved == 2
    denied = shelf.do(cast(approval, BO, is_approval=False, digest=None, detail_json=b'"too much"'))
    assert (denied.approval.status, denied.effect.status, denied.effect.detail) == ("denied", "denied", "too much")
    assert shelf.types()[-1] == "approval_denied"
    assert (shelf.budget().reserved, shelf.budget().spent) == (0, {})
    assert denied.effect.charges_json is None
    answer = shelf.do(open_command(verdict=allows()))
    assert isinstance(answer, Denied)
    assert answer.reason == "too much", "a rule that has changed its mind does not override a person's no"


@pytest.mark.parametrize(
    ("by", "words", "why"),
    [
        (AGENT, {}, "not_a_person"),
        (Actor("agent"), {}, "self_approval"),
        (ADA, {"digest": OTHER_DIGEST}, "digest"),
        (ADA, {"digest": None}, "no_digest"),
        (ADA, {"signature": b"x" * 64}, "signature"),
        (ADA, {"delegation_id": "dlg_none"}, "delegation"),
    ],
)
def test_a_vote_that_does_not_count_changes_nothing(by: Actor, words: Any, why: str) -> None:
    shelf, approval = asked_for(asks())
    before = dict(shelf.sheets)
    answer = shelf.do(cast(approval, by, **words))
    assert code(answer) == why
    assert (answer.approval, answer.effect) == (approval, shelf.effects[REF])
    assert (shelf.sheets, len(shelf.types())) == (before, 1)


def test_nobody_approves_what_is_stored_otherwise_than_it_was_asked_and_anybody_denies_it() -> None:
    shelf, approval = asked_for(asks())
    shelf.effects[REF] = replace(shelf.effects[REF], args_json=b'{"amount":9}')
    answer = shelf.do(cast(approval, ADA))
    assert isinstance(answer, Illegal)
    assert "is not what was asked about" in answer.why
    assert len(shelf.types()) == 1
    assert code(shelf.do(cast(approval, ADA, digest=OTHER_DIGEST))) == "digest", "what does not count need not be right"
    assert shelf.do(cast(approval, ADA, is_approval=False)).approval.status == "denied"


def test_what_is_over_or_erased_has_nothing_left_to_compare() -> None:
    shelf, approval = asked_for(asks())
    altered = replace(shelf.effects[REF], args_json=b'{"amount":9}')
    assert why_altered(approval, altered) is not None
    assert why_altered(approval, shelf.effects[REF]) is None
    assert why_altered(ended(approval, "expired"), altered) is None
    assert why_altered(approval, replace(altered, args_json=None)) is None
    assert why_altered(approval, replace(altered, permission_id="apr_2")) is None


def test_the_person_the_agent_acts_for_does_not_count() -> None:
    shelf, approval = asked_for(asks(), principal="Ada")
    assert code(shelf.do(cast(approval, ADA))) == "self_approval"


def test_a_vote_whose_answer_got_lost_is_not_cast_twice() -> None:
    shelf, approval = asked_for(PAIR)
    vote = cast(approval, ADA)
    first = shelf.do(vote)
    assert shelf.do(vote) == first
    assert len(shelf.types()) == 2
    assert code(shelf.do(cast(approval, ADA, at=NOON + SECOND))) == "voted_already"
    shelf.do(cast(approval, BO))
    assert shelf.do(vote).approval.status == "approved"
    shelf.do(open_command(verdict=PAIR))
    assert shelf.do(vote).approval.status == "consumed"


def test_a_vote_that_comes_when_the_time_is_over_does_not_count() -> None:
    shelf, approval = asked_for(asks(expires=HOUR))
    shelf.now += HOUR
    assert code(shelf.do(cast(approval, ADA))) == "expired", "whatever the voter's clock says"
    assert code(shelf.do(cast(approval, ADA, is_approval=False))) == "expired"
    shelf.now -= SECOND
    assert code(shelf.do(cast(approval, ADA, at=NOON + HOUR))) == "expired"
    assert shelf.do(cast(approval, ADA)).approval.status == "approved"


def test_both_of_two_votes_in_one_batch_count() -> None:
    shelf, approval = asked_for(PAIR)
    batch = shelf.apply(cast(approval, ADA), cast(approval, BO))
    assert [answer.approval.status for answer in batch.answers] == ["pending", "approved"]
    shelf, approval = asked_for(PAIR)
    batch = shelf.apply(cast(approval, ADA), cast(approval, Actor("ＡＤＡ")))
    assert code(batch.answers[1]) == "voted_already"
    shelf, approval = asked_for(asks())
    batch = shelf.apply(cast(approval, ADA), cast(approval, BO, is_approval=False))
    assert code(batch.answers[1]) == "not_pending", "one outcome"


# ── delegation ───────────────────────────────────────────────────────────────────────────────────────────────────────


def delegated(shelf: Shelf, **words: Any) -> str:
    one = Delegation(**{"id": "dlg_1", "giver": "ada", "to": "bo", "until": NOON + HOUR, **words})
    sheet = delegation_sheet(one).told_by("indelible:approvals", 0)
    shelf.sheets[sheet.ref] = sheet
    return one.id


def test_somebody_decides_for_another_until_the_end_of_the_delegation() -> None:
    shelf, approval = asked_for(asks(people={"ada": Person()}))
    delegated(shelf)
    assert code(shelf.do(cast(approval, BO))) == "not_entitled"
    assert code(shelf.do(cast(approval, CY, delegation_id="dlg_1"))) == "delegation"
    shelf.now = NOON + HOUR
    assert code(shelf.do(cast(approval, BO, delegation_id="dlg_1"))) == "delegation"
    shelf.now -= SECOND
    counted = shelf.do(cast(approval, BO, delegation_id="dlg_1")).approval
    assert (counted.status, counted.votes[0].by, counted.votes[0].on_behalf_of) == ("approved", "bo", "ada")


@pytest.mark.parametrize("words", [{"is_ended": True}, {"to": "cy"}, {"until": NOON}])
def test_a_delegation_that_does_not_cover_lets_nobody_decide(words: Any) -> None:
    shelf, approval = asked_for(asks(people={"ada": Person()}))
    delegated(shelf, **words)
    assert code(shelf.do(cast(approval, BO, delegation_id="dlg_1"))) == "delegation"


def test_a_delegation_that_was_erased_lets_nobody_decide() -> None:
    shelf, approval = asked_for(asks(people={"ada": Person()}))
    sheet = delegation_sheet(Delegation(id="dlg_1", giver="ada", to="bo", until=NOON + HOUR))
    shelf.sheets[sheet.ref] = replace(sheet, body=None)
    assert code(shelf.do(cast(approval, BO, delegation_id="dlg_1"))) == "delegation"


@pytest.mark.parametrize("words", [{"giver": "agent"}, {"giver": "eve"}, {"to": "agent"}, {"to": "EVE"}])
def test_nobody_decides_their_own_call_through_another(words: Any) -> None:
    people = {"ada": Person(), "agent": Person(), "eve": Person()}
    shelf, approval = asked_for(asks(people=people), principal="eve")
    delegated(shelf, **words)
    by = Actor(words.get("to", "bo"))
    assert code(shelf.do(cast(approval, by, delegation_id="dlg_1"))) == "self_approval"


# ── taking back ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_approval_is_taken_back_until_it_is_claimed() -> None:
    shelf, approval = asked_for(asks(notify=("mail",)))
    shelf.do(cast(approval, ADA))
    back = shelf.do(take_back(approval, ADA))
    assert (back.approval.status, back.approval.votes, back.effect.status) == ("pending", (), "requires_approval")
    assert back.effect.lease_until == approval.expires_at
    assert shelf.types()[-1] == "approval_revoked"
    assert shelf.last_commits()["reason"] == b'"on second thoughts"'
    assert isinstance(shelf.do(open_command(verdict=asks())), AwaitingApproval)
    assert code(shelf.do(take_back(approval, ADA))) == "no_vote"
    shelf.do(cast(approval, ADA, at=NOON + SECOND))
    assert isinstance(shelf.do(open_command(verdict=asks())), Claimed)
    assert code(shelf.do(take_back(approval, ADA))) == "not_open"


def test_what_is_said_twice_of_one_approval_are_two_messages() -> None:
    shelf, approval = asked_for(asks(notify=("mail", "mail", "hook")))
    assert messages(shelf) == [("requested", "hook"), ("requested", "mail")]
    shelf.do(cast(approval, ADA))
    shelf.do(take_back(approval, ADA))
    shelf.do(cast(approval, BO))
    assert sorted(about for about, channel in messages(shelf) if channel == "mail") == [
        "approved", "approved", "reopened-3", "requested",
    ]  # fmt: skip


def test_a_vote_that_was_not_the_last_is_taken_back_without_a_word_to_the_channels() -> None:
    shelf, approval = asked_for(asks(Need(2), notify=("mail",)))
    shelf.do(cast(approval, ADA))
    back = shelf.do(take_back(approval, ADA))
    assert (back.approval.status, back.approval.lacking) == ("pending", 2)
    assert messages(shelf) == [("requested", "mail")]


def test_an_agent_of_the_same_name_does_not_take_back_what_a_person_has_given() -> None:
    shelf, approval = asked_for(asks())
    shelf.do(cast(approval, ADA))
    assert code(shelf.do(take_back(approval, Actor("ada", "agent")))) == "not_a_person"
    assert shelf.approval().status == "approved"


def test_what_nobody_can_read_any_more_still_lapses_and_is_not_decided() -> None:
    shelf, approval = asked_for(asks(expires=HOUR, charges=(charge(2),)))
    shelf.effects[REF] = replace(shelf.effects[REF], args_json=None)
    for command in (cast(approval), take_back(approval), amend(approval), show_to(approval)):
        assert isinstance(shelf.do(command), Illegal)
    shelf.now += HOUR
    assert shelf.do(attend(approval)).approval.status == "expired"
    assert shelf.budget().reserved == 0


def test_others_do_not_take_back_what_one_has_given() -> None:
    shelf, approval = asked_for(asks())
    shelf.do(cast(approval, ADA))
    assert code(shelf.do(take_back(approval, BO))) == "no_vote"
    assert isinstance(shelf.do(open_command(verdict=asks())), Claimed)


# ── editing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_asks_anew_and_nobody_has_voted_on_it_yet() -> None:
    shelf, approval = asked_for(asks(Need(2), notify=("mail",)))
    shelf.do(cast(approval, BO))
    shelf.now += HOUR
    edited = shelf.do(amend(approval, ADA, verdict=asks(Need(2), notify=("mail",))))
    now = edited.approval
    assert (now.id, now.status, now.votes, now.edited_by) == (approval.id, "pending", (), "ada")
    assert now.digest != approval.digest
    assert (now.asked_at, now.expires_at) == (shelf.now, shelf.now + timedelta(hours=24))
    assert (now.requester, now.replaces, now.version) == (AGENT, None, 3)
    assert (edited.effect.args_json, edited.effect.status) == (OTHER_ARGS, "requires_approval")
    assert edited.effect.opened_seq == now.args_seq == 2, "the edit's own event commits to the new arguments"
    assert edited.effect.lease_until == now.expires_at
    commits = shelf.last_commits()
    assert (commits["args"], commits["reason"]) == (OTHER_ARGS, b'"six will do"')
    assert decode(commits["policy"])["decision"] == "ask"  # type: ignore[index, call-overload]
    assert ("edited-3", "mail") in messages(shelf)


def test_the_edited_arguments_run_once_they_are_approved_and_the_old_ones_never() -> None:
    shelf, approval = asked_for(asks())
    shelf.do(cast(approval, BO))
    edited = shelf.do(amend(approval, ADA)).approval
    assert code(shelf.do(cast(approval, BO, at=NOON + SECOND))) == "digest", "that was for the old ones"
    assert isinstance(shelf.begin(open_command(verdict=asks())), AwaitingApproval)
    shelf.do(cast(edited, BO, at=NOON + SECOND))
    claimed = shelf.begin(open_command(verdict=asks()))
    assert isinstance(claimed, Claimed)
    assert claimed.claim.effect.args_json == OTHER_ARGS
    assert shelf.approval().status == "consumed"


def test_an_edit_is_judged_by_the_policy() -> None:
    shelf, approval = asked_for(asks())
    refused = shelf.do(amend(approval, ADA, verdict=refuses("not so much")))
    assert code(refused) == "policy"
    assert "'not so much'" in refused.refusal.why
    stricter = asks(Need(2), policy="policy-2", rule="two for that")
    edited = shelf.do(amend(approval, ADA, verdict=stricter)).approval
    assert (edited.question, edited.policy) == (stricter.question, "policy-2")
    shelf.do(cast(edited, ADA))
    assert shelf.approval().status == "pending", "two are asked for now"


def test_an_edit_that_the_policy_would_let_pass_is_still_decided_by_people() -> None:
    shelf, approval = asked_for(asks(Need(2)))
    edited = shelf.do(amend(approval, CY, verdict=allows())).approval
    assert edited.question == approval.question
    assert isinstance(shelf.begin(open_command(verdict=asks(Need(2))), verdict=allows()), AwaitingApproval)
    shelf.do(cast(edited, ADA))
    shelf.do(cast(edited, BO))
    assert isinstance(shelf.begin(open_command(verdict=asks(Need(2))), verdict=allows()), Claimed)


def test_a_lighter_question_about_the_edit_is_not_weighed_by_the_heavier_one_about_the_call() -> None:
    shelf, approval = asked_for(asks(Need(3)))
    edited = shelf.do(amend(approval, BO, verdict=asks(Need(1)))).approval
    shelf.do(cast(edited, ADA))
    assert isinstance(shelf.begin(open_command(verdict=asks(Need(3))), verdict=asks(Need(1))), Claimed)


@pytest.mark.parametrize(
    ("by", "words", "why"),
    [
        (AGENT, {}, "not_a_person"),
        (Actor("AGENT"), {}, "self_approval"),
        (CY, {}, "not_entitled"),
        (ADA, {"digest": OTHER_DIGEST}, "digest"),
        (ADA, {"verdict": refuses()}, "policy"),
    ],
)
def test_only_those_who_may_decide_may_edit_what_they_saw(by: Actor, words: Any, why: str) -> None:
    shelf, approval = asked_for(asks(people={"ada": Person(), "bo": Person()}, needs_signature=True))
    assert code(shelf.do(amend(approval, by, **words))) == why
    assert shelf.effects[REF].args_json == ARGS
    assert isinstance(shelf.do(amend(approval, ADA)), Decided), "an edit is no vote, and needs no signature"


def test_whoever_has_voted_may_still_edit() -> None:
    shelf, approval = asked_for(PAIR)
    shelf.do(cast(approval, ADA))
    assert isinstance(shelf.do(amend(approval, ADA)), Decided)


def test_what_may_not_be_edited_is_not() -> None:
    shelf, approval = asked_for(asks(may_edit=False))
    assert code(shelf.do(amend(approval, ADA))) == "no_edit"


def test_what_is_used_ended_or_overdue_is_not_edited() -> None:
    shelf, approval = asked_for(asks(expires=HOUR))
    shelf.now += HOUR
    assert code(shelf.do(amend(approval, ADA))) == "expired"
    shelf.now -= HOUR
    shelf.do(cast(approval, ADA))
    shelf.do(open_command(verdict=asks()))
    assert code(shelf.do(amend(approval, ADA))) == "not_pending"


def test_an_edit_reserves_what_it_takes_instead_of_what_was_reserved() -> None:
    shelf, approval = asked_for(asks(charges=(charge(2),)))
    dearer = asks(charges=(charge(5),))
    edited = shelf.do(amend(approval, ADA, verdict=dearer))
    assert isinstance(edited, Decided)
    assert shelf.budget().reserved == 5
    assert shelf.last_commits()["charges"] == edited.effect.charges_json
    too_dear = shelf.do(amend(edited.approval, ADA, verdict=asks(charges=(charge(6),)), args_json=b'{"amount":7}'))
    assert code(too_dear) == "budget"
    assert "'spend': 0 of 5 are taken, and these arguments take 6" in too_dear.refusal.why
    assert (shelf.budget().reserved, shelf.effects[REF].args_json) == (5, OTHER_ARGS)
    shelf.do(cast(edited.approval, BO))
    claimed = shelf.begin(open_command(verdict=asks(charges=(charge(2),))), verdict=dearer)
    assert isinstance(claimed, Claimed)
    assert shelf.budget().reserved == 5, "the claim charges what runs, not what was called"
    shelf.do(finish(claimed.claim))
    assert (shelf.budget().reserved, sum(shelf.budget().spent.values())) == (0, 5)


def test_an_edit_that_costs_nothing_gives_back_what_was_reserved() -> None:
    shelf, approval = asked_for(asks(charges=(charge(2),)))
    edited = shelf.do(amend(approval, ADA))
    assert (shelf.budget().reserved, edited.effect.charges_json) == (0, None)
    assert "charges" not in shelf.last_commits()
    shelf.do(cast(edited.approval, BO))
    assert isinstance(shelf.begin(open_command(verdict=asks(charges=(charge(2),))), verdict=asks()), Claimed)
    assert shelf.budget().reserved == 0


def test_an_edit_ends_with_the_question_it_was_made_to() -> None:
    """The policy judges the call at each claim, not the edit: so the call is what is asked about anew."""
    shelf, approval = asked_for(asks(charges=(charge(2),)))
    edited = shelf.do(amend(approval, ADA, verdict=asks(charges=(charge(5),)))).approval
    shelf.do(cast(edited, BO))
    again = shelf.do(open_command(verdict=asks(policy="policy-2", charges=(charge(2),)), effect_id="eff_2"))
    assert isinstance(again, AwaitingApproval)
    assert (again.effect.args_json, again.approval.edited_by, again.approval.replaces) == (ARGS, None, approval.id)
    assert shelf.budget().reserved == 2


# ── looking and attending ────────────────────────────────────────────────────────────────────────────────────────────


def test_who_looked_is_on_the_record_and_nothing_else_changes() -> None:
    shelf, approval = asked_for(asks())
    before = dict(shelf.sheets), dict(shelf.effects)
    assert shelf.do(show_to(approval, BO)) == Decided(approval, shelf.effects[REF])
    assert (shelf.sheets, shelf.effects) == before
    event = shelf.events["run-1"][-1]
    assert (event.type, event.read()["actor"]["id"], event.read()["commits"]) == ("approval_viewed", "bo", {})


STEPS = (
    Escalation(HOUR, {"boss": Person()}, ("pager",)),
    Escalation(2 * HOUR, {"chief": Person()}),
    Escalation(30 * HOUR, {"late": Person()}),
)


def test_more_people_are_asked_as_time_goes_by() -> None:
    shelf, approval = asked_for(asks(people={"ada": Person()}, escalations=STEPS, notify=("mail",)))
    shelf.now += HOUR - SECOND
    assert shelf.do(attend(approval)) == Decided(approval, shelf.effects[REF])
    assert len(shelf.types()) == 1
    shelf.now += SECOND
    assert code(shelf.do(cast(approval, Actor("boss")))) == "not_entitled"
    once = shelf.do(attend(approval))
    assert (once.approval.escalated, once.effect) == (1, shelf.effects[REF])
    assert messages(shelf)[-1] == ("escalated-1", "pager")
    assert isinstance(shelf.do(attend(approval)), Decided)
    assert shelf.types() == ["approval_requested", "approval_escalated"], "once each"
    shelf.now += HOUR
    shelf.do(attend(approval))
    assert ("escalated-2", "mail") in messages(shelf), "by the question's channels where the step has none"
    assert shelf.do(cast(approval, Actor("chief"))).approval.status == "approved"


def test_steps_that_nobody_attended_to_are_taken_together() -> None:
    shelf, approval = asked_for(asks(people={"ada": Person()}, escalations=STEPS, notify=("mail",)))
    shelf.now += 3 * HOUR
    assert shelf.do(attend(approval)).approval.escalated == 2
    assert shelf.types()[1:] == ["approval_escalated"]
    assert sorted(messages(shelf)) == [("escalated-1", "pager"), ("escalated-2", "mail"), ("requested", "mail")]


def test_a_question_that_names_no_channel_is_told_by_those_of_every_process_once() -> None:
    shelf, approval = asked_for(asks(people={"ada": Person(), "boss": Person()}, escalations=STEPS))
    assert shelf.do(attend(approval)) == Decided(approval, shelf.effects[REF])
    assert messages(shelf) == [], "who has no channels tells nobody"
    for channels in (("slack",), ("slack", "mail"), ("slack", "mail"), ("mail",)):
        assert shelf.do(attend(approval, NOON, *channels)) == Decided(approval, shelf.effects[REF])
    assert sorted(messages(shelf)) == [("requested", "mail"), ("requested", "slack")]
    assert shelf.types() == ["approval_requested"], "no event tells of it"
    shelf.now += HOUR
    shelf.do(attend(approval, NOON, "slack"))
    assert ("escalated-1", "pager") in messages(shelf)
    shelf.now += HOUR
    shelf.do(attend(approval))
    told = {name for about, name in messages(shelf) if about == "escalated-2"}
    assert told == {"slack", "mail"}, "a step without channels goes to those who were told"
    denied = shelf.do(cast(approval, ADA, is_approval=False))
    assert denied.approval.status == "denied"
    assert {name for about, name in messages(shelf) if about == "denied"} == {"slack", "mail", "pager"}
    before = messages(shelf)
    shelf.do(attend(approval, NOON, "late"))
    assert messages(shelf) == before, "what is decided is asked no more"


@pytest.mark.parametrize("end", ["approved", "edited-2", "reopened-3", "expired", "canceled", "stale"])
def test_who_was_told_without_being_named_is_told_what_becomes_of_it(end: str) -> None:
    shelf, approval = asked_for(asks(expires=HOUR))
    shelf.do(attend(approval, NOON, "slack"))
    match end:
        case "approved":
            shelf.do(cast(approval))
        case "edited-2":
            shelf.do(amend(approval, verdict=asks(expires=HOUR)))
        case "reopened-3":
            shelf.do(cast(approval))
            shelf.do(take_back(approval))
        case "expired":
            shelf.now += HOUR
            shelf.do(attend(approval))
        case "canceled":
            shelf.do(cancel())
        case _:
            shelf.do(open_command(verdict=asks(policy="another"), effect_id="eff_2", stamp=stamp(actor=AGENT)))
    assert (end, "slack") in messages(shelf)


def test_channels_of_others_are_left_out_of_a_question_that_names_its_own_or_is_over() -> None:
    shelf, approval = asked_for(asks(notify=("mail",), expires=HOUR))
    shelf.do(attend(approval, NOON, "slack"))
    assert messages(shelf) == [("requested", "mail")]
    other, unnamed = asked_for(asks(expires=HOUR))
    other.now += HOUR
    other.do(attend(unnamed, NOON, "slack"))
    assert messages(other) == [], "it expired, and nobody was told of it before"


def test_an_edit_begins_the_steps_anew_and_their_messages_are_new_ones() -> None:
    shelf, approval = asked_for(asks(people={"ada": Person()}, escalations=STEPS))
    shelf.now += HOUR
    shelf.do(attend(approval))
    verdict = asks(people={"ada": Person()}, escalations=STEPS)
    assert shelf.do(amend(approval, ADA, verdict=verdict)).approval.escalated == 0
    shelf.now += HOUR
    assert shelf.do(attend(approval)).approval.escalated == 1
    assert messages(shelf) == [("escalated-1", "pager"), ("escalated-1", "pager")]


@pytest.mark.parametrize("is_approved", [False, True])
def test_an_approval_whose_time_is_over_lapses_and_gives_the_budget_back(is_approved: bool) -> None:
    shelf, approval = asked_for(asks(expires=HOUR, notify=("mail",), charges=(charge(2),)))
    if is_approved:
        shelf.do(cast(approval, ADA))
    shelf.now += HOUR - SECOND
    shelf.do(attend(approval))
    assert shelf.approval().is_open
    shelf.now += SECOND
    over = shelf.do(attend(approval))
    assert (over.approval.status, over.effect.status) == ("expired", "requires_approval")
    assert (over.effect.lease_until, over.effect.detail) == (None, "its time ran out")
    assert shelf.types()[-1] == "approval_expired"
    assert (shelf.budget().reserved, over.effect.charges_json) == (0, None)
    assert ("expired", "mail") in messages(shelf)
    assert shelf.do(attend(approval)) == over, "once"
    ended = shelf.do(open_command(verdict=asks(), awaited_approval=approval.id))
    assert isinstance(ended, ApprovalEnded)


def test_a_question_that_was_asked_anew_takes_no_more_answers() -> None:
    shelf, old = asked_for(asks(expires=HOUR))
    shelf.now += HOUR
    new = shelf.do(open_command(verdict=asks(), effect_id="eff_2")).approval
    assert new.id != old.id
    answers = [
        shelf.do(command)
        for command in (cast(old), take_back(old), amend(old), show_to(old), attend(old), cast(old, is_approval=False))
    ]
    assert {code(answer) for answer in answers} == {"replaced"}
    assert all(answer.approval == new for answer in answers)
    assert new.id in answers[0].refusal.why


def test_what_nobody_asked_about_cannot_be_decided() -> None:
    shelf, approval = asked_for(asks())
    shelf.effects[REF] = replace(shelf.effects[REF], permission_id=None)
    assert isinstance(shelf.do(cast(approval)), Illegal)
    shelf, approval = asked_for(asks())
    ref = next(ref for ref in shelf.sheets if ref.kind == "approval")
    shelf.sheets[ref] = replace(shelf.sheets[ref], body=None)
    assert isinstance(shelf.do(cast(approval)), Illegal), "it was erased"


def test_withdrawing_the_call_ends_the_question() -> None:
    shelf, approval = asked_for(asks(notify=("mail",), charges=(charge(2),)))
    shelf.do(cast(approval, ADA))
    assert shelf.do(cancel()).effect.status == "canceled"
    assert shelf.approval().status == "canceled"
    assert ("canceled", "mail") in messages(shelf)
    assert shelf.budget().reserved == 0
    assert code(shelf.do(take_back(approval, ADA))) == "not_open"


# ── granting further calls ───────────────────────────────────────────────────────────────────────────────────────────

TERMS = GrantTerms(count=2, until=NOON + HOUR, pin=("amount",))


def granting(approval: Approval, **words: Any) -> CastVote:
    return cast(approval, ADA, **{"grant": TERMS, "grant_id": "grt_1", "pinned": "ab" * 32, **words})


def test_whoever_approves_may_grant_further_calls() -> None:
    shelf, approval = asked_for(asks(rule="payments"), schema="f00d")
    counted = shelf.do(granting(approval)).approval
    assert counted.grant == "grt_1"
    grant = read_grant(shelf.sheets[grant_ref("grt_1")])
    assert (grant.tool, grant.pin, grant.pinned, grant.uses_left, grant.until) == (
        "pay", ("amount",), "ab" * 32, 2, NOON + HOUR,
    )  # fmt: skip
    assert (grant.schema, grant.policy, grant.rule) == ("f00d", "policy-1", "payments")
    assert (grant.given_by, grant.approval_id) == ("ada", approval.id)
    assert {"approval", "grant", "reason"} == set(shelf.last_commits())


def test_where_more_than_one_has_to_agree_one_alone_grants_nothing() -> None:
    shelf, approval = asked_for(PAIR)
    shelf.do(cast(approval, BO))
    assert code(shelf.do(granting(approval))) == "no_grant"
    assert grant_ref("grt_1") not in shelf.sheets
    assert shelf.approval().status == "pending", "nothing was counted"
    shelf, approval = asked_for(PAIR)
    assert code(shelf.do(granting(approval))) == "no_grant", "nor does the first of them"
    assert shelf.approval().votes == ()


def test_a_signature_is_for_one_call_and_grants_nothing() -> None:
    shelf, approval = asked_for(asks(needs_signature=True))
    answer = shelf.do(granting(approval))
    assert code(answer) == "no_grant"
    assert "signed for this call alone" in answer.refusal.why


def test_whoever_denies_grants_nothing() -> None:
    shelf, approval = asked_for(asks())
    shelf.do(granting(approval, is_approval=False))
    assert grant_ref("grt_1") not in shelf.sheets


def test_reports_about_an_attempt_leave_its_approval_alone() -> None:
    shelf, approval = asked_for(asks())
    shelf.do(cast(approval))
    claim = shelf.do(open_command(verdict=asks())).claim
    shelf.do(relinquish(claim, "in_doubt"))
    assert shelf.approval().status == "consumed"


# ── on what was seen ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_two_answers_to_the_same_version_one_counts_and_the_other_is_told_to_look_again() -> None:
    shelf, approval = asked_for(PAIR)
    assert isinstance(shelf.do(cast(approval, ADA, version=1)), Decided)
    second = shelf.do(cast(approval, BO, version=1))
    assert code(second) == "version"
    assert "is at version 2 now, not 1" in second.refusal.why
    assert code(shelf.do(amend(approval, BO, version=1))) == "version"
    assert code(shelf.do(replace(take_back(approval, ADA), version=1))) == "version"
    assert shelf.types() == ["approval_requested", "approval_voted"]
    assert isinstance(shelf.do(cast(approval, BO, version=2)), Decided)


def test_an_answer_whose_own_write_went_through_is_not_outdated_by_it() -> None:
    shelf, approval = asked_for(PAIR)
    mine = cast(approval, ADA, version=1)
    assert isinstance(shelf.do(mine), Decided)
    assert isinstance(shelf.do(mine), Decided)


def test_of_what_is_decided_it_is_told_that_it_is_and_not_that_it_changed() -> None:
    shelf, approval = asked_for(asks())
    shelf.do(cast(approval, ADA, version=1))
    assert code(shelf.do(cast(approval, BO, version=1))) == "not_pending"
    assert isinstance(shelf.do(replace(take_back(approval, ADA), version=2)), Decided)
    assert isinstance(shelf.do(amend(approval, BO, version=3)), Decided)
