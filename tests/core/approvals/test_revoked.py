"""Promises of core.approvals.revoked: from the moment somebody is revoked, nothing they permitted opens anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indelible.core.approvals.approval import Approval, Need, Person
from indelible.core.approvals.grants import Delegation, GrantTerms, delegation_sheet, pinned_digest
from indelible.core.approvals.revoked import people_behind, without_revoked
from indelible.core.commands import (
    AwaitingApproval,
    Claimed,
    Decided,
    Forbidden,
    InDoubt,
    Moved,
    NotCounted,
    Outrun,
    Record,
    Recorded,
)
from indelible.core.effects.effect import Actor
from indelible.core.events import facts_json
from indelible.core.people import person as people
from indelible.core.people.sheets import person_sheet, read_person
from indelible.core.people.standing import credential_ref, may_permit, person_id, place_of, standing_of
from indelible.core.people.vouching import ProviderRules, Said, Vouched, Voucher, provider_sheet, read_allowed
from indelible.core.policy.verdicts import Verdict
from indelible.core.verifying.findings import Caught
from tests.core.explored import Path, examine
from tests.core.forged import Journal
from tests.core.making import (
    ADA,
    AGENT,
    ARGS,
    BO,
    CY,
    HOUR,
    NOON,
    Shelf,
    amend,
    asks,
    attend,
    cast,
    open_command,
    relinquish,
    settle,
    stamp,
    vote,
)

PINNED = pinned_digest("default", "pay", None, ARGS)


def tell(shelf: Any, event_type: str, sheet: Any, by: Actor = CY) -> Any:
    words: Any = {"tenant": "default", "run_id": "indelible:people", "event_type": event_type, "sheet": sheet}
    return shelf.do(Record(stamp=stamp(actor=by), facts=facts_json({"id": sheet.id}), **words))


def let_in(shelf: Shelf, name: str) -> None:
    made = people.Person(id=person_id(name), name=name, scopes=("approver",), created_at=NOON)
    assert isinstance(tell(shelf, "person_invited", person_sheet(made)), Recorded)


def revoke(shelf: Shelf, name: str) -> None:
    if place_of(name) not in shelf.sheets:
        let_in(shelf, name)
    over = read_person(shelf.sheets[place_of(name)]).revoked()
    assert isinstance(tell(shelf, "person_revoked", person_sheet(over)), Recorded)


def asked_for(verdict: Verdict, **words: Any) -> tuple[Shelf, Approval]:
    shelf = Shelf()
    answer = shelf.do(open_command(verdict=verdict, stamp=stamp(actor=AGENT), **words))
    assert isinstance(answer, AwaitingApproval)
    return shelf, answer.approval


def call(shelf: Shelf, verdict: Verdict, effect_id: str = "eff_later", **words: Any) -> Any:
    return shelf.do(open_command(verdict=verdict, stamp=stamp(actor=AGENT), effect_id=effect_id, **words))


def code(answer: Any) -> str:
    assert isinstance(answer, NotCounted), f"it was counted: {answer}"
    return answer.refusal.code


@pytest.mark.parametrize("name", ["ada", "ADA"])
def test_what_somebody_approved_does_not_run_after_they_were_revoked(name: str) -> None:
    shelf, approval = asked_for(asks())
    shelf.do(cast(approval))
    revoke(shelf, name)
    asked = call(shelf, asks())
    assert isinstance(asked, AwaitingApproval)
    assert (asked.approval.replaces, asked.approval.votes) == (approval.id, ())
    assert shelf.committed["run-1", 2, "reason"] == b'"changed since it was asked: who may decide it"'
    shelf.do(cast(asked.approval, BO))
    assert isinstance(call(shelf, asks()), Claimed)


def test_what_others_approved_runs() -> None:
    shelf, approval = asked_for(asks())
    let_in(shelf, "ada")
    shelf.do(cast(approval))
    revoke(shelf, "bo")
    assert isinstance(call(shelf, asks()), Claimed)


def test_of_votes_those_of_the_revoked_go_and_the_question_stands_again() -> None:
    shelf, approval = asked_for(asks(Need(2)))
    shelf.do(cast(approval, ADA))
    shelf.do(cast(shelf.approval(), BO))
    revoke(shelf, "ada")
    by_agent = replace(attend(approval), stamp=stamp(actor=AGENT))
    assert shelf.do(by_agent) == Decided(shelf.approval(), shelf.effects[approval.ref])
    assert len(shelf.approval().votes) == 2, "nobody takes another's vote away"
    seen = shelf.do(attend(approval))
    assert (seen.approval.status, [vote.by for vote in seen.approval.votes]) == ("pending", ["bo"])
    assert (seen.effect.status, shelf.types()[-1]) == ("requires_approval", "approval_revoked")
    assert shelf.do(attend(approval)) == Decided(seen.approval, seen.effect), "once"
    shelf.do(cast(shelf.approval(), CY))
    assert isinstance(call(shelf, asks(Need(2))), Claimed)


def test_42_who_loses_a_signed_vote_with_their_token_signs_the_question_again() -> None:
    """They took nothing back: with the new token they vote again."""
    shelf, approval = asked_for(asks(Need(2)))
    revoke(shelf, "ada")
    signed = replace(approval, votes=(vote("ada", signature=b"s"),))
    left = without_revoked(signed, {place_of("ada"): shelf.sheets[place_of("ada")]})
    assert left is not None
    assert (left.votes, left.taken_back) == ((), ())


def test_who_was_revoked_neither_votes_nor_edits() -> None:
    shelf, approval = asked_for(asks())
    revoke(shelf, "ada")
    assert code(shelf.do(cast(approval))) == "revoked"
    assert code(shelf.do(cast(approval, is_approval=False))) == "revoked"
    assert code(shelf.do(amend(approval))) == "revoked"


def test_a_vote_by_delegation_goes_with_either_of_the_two() -> None:
    verdict = asks(people={"ada": Person()})
    for gone in ("ada", "bo"):
        shelf, approval = asked_for(verdict)
        given = Delegation(id="dlg_1", giver="ada", to="bo", until=NOON + HOUR)
        assert isinstance(tell(shelf, "delegation_given", delegation_sheet(given), ADA), Recorded)
        voted = shelf.do(cast(approval, BO, delegation_id="dlg_1"))
        assert voted.approval.status == "approved"
        revoke(shelf, gone)
        assert isinstance(call(shelf, verdict), AwaitingApproval)
        assert code(shelf.do(cast(shelf.approval(), BO, delegation_id="dlg_1"))) == (
            "delegation" if gone == "ada" else "revoked"
        )


def test_a_grant_of_somebody_who_was_revoked_covers_nothing() -> None:
    shelf, approval = asked_for(asks())
    grant: Any = {"grant": GrantTerms(count=3, until=NOON + HOUR), "grant_id": "grt_1", "pinned": PINNED}
    shelf.do(cast(approval, **grant))
    other = {"ref": approval.ref._replace(key="cd" * 32), "grants": {"grt_1": PINNED}}
    assert isinstance(call(shelf, asks(), **other), Claimed)
    revoke(shelf, "ada")
    third = {"ref": approval.ref._replace(key="ef" * 32), "grants": {"grt_1": PINNED}}
    assert isinstance(call(shelf, asks(), **third), AwaitingApproval)


def test_an_approval_is_not_handed_back_to_an_attempt_after_its_voter_was_revoked() -> None:
    for gone in (None, "ada"):
        shelf, approval = asked_for(asks())
        shelf.do(cast(approval))
        claimed = call(shelf, asks())
        if gone is not None:
            revoke(shelf, gone)
        shelf.do(relinquish(claimed.claim))
        assert shelf.approval_with(approval.id).status == ("approved" if gone is None else "consumed")
        again = call(shelf, asks(), token="bb" * 16)
        assert isinstance(again, Claimed if gone is None else AwaitingApproval)


@pytest.mark.parametrize(("side_effect", "expected"), [("payment", InDoubt), ("read", AwaitingApproval)])
def test_an_attempt_after_a_crash_needs_another_approval_when_its_voter_was_revoked(
    side_effect: Any, expected: Any
) -> None:
    shelf, approval = asked_for(asks(), on_crash="retry", side_effect=side_effect)
    shelf.do(cast(approval))
    assert isinstance(call(shelf, asks()), Claimed)
    revoke(shelf, "ada")
    shelf.now += HOUR
    assert isinstance(call(shelf, asks(), token="bb" * 16, on_crash="retry"), expected)


@pytest.mark.parametrize(("via", "is_written"), [("passkey", False), ("api_key", False), ("process", True)])
def test_who_was_revoked_sets_nothing_up_by_a_request_that_was_under_way(via: Any, is_written: bool) -> None:
    shelf = Shelf()
    revoke(shelf, "ada")
    given = Delegation(id="dlg_1", giver="ada", to="bo", until=NOON + HOUR)
    answer = tell(shelf, "delegation_given", delegation_sheet(given), Actor("ada", "person", via))
    assert isinstance(answer, Recorded if is_written else Outrun)


def test_a_person_whose_sheet_was_edited_by_hand_counts_as_revoked() -> None:
    shelf = Shelf()
    let_in(shelf, "ada")
    sheet = shelf.sheets[place_of("ada")]
    assert may_permit("ada", {sheet.ref: sheet})
    assert not may_permit("ada", {sheet.ref: replace(sheet, body=None)})
    assert may_permit("ada", {sheet.ref: None})


def test_what_somebody_permitted_before_they_were_let_in_again_does_not_count() -> None:
    shelf = Shelf()
    let_in(shelf, "ada")
    sheet = shelf.sheets[place_of("ada")]
    assert [may_permit("ada", {sheet.ref: sheet}, at) for at in (NOON - HOUR, NOON, NOON + HOUR)] == [False, True, True]


def test_a_verifier_believes_that_the_ledger_takes_votes_away_and_not_that_it_adds_or_keeps_them() -> None:
    path = Path(Shelf())
    path.send(open_command(verdict=asks(Need(2)), stamp=stamp(actor=AGENT)))
    path.send(cast(path.shelf.approval(), ADA))
    path.send(cast(path.shelf.approval(), BO))
    revoke(path.shelf, "ada")
    path.send(attend(path.shelf.approval()))
    journal, index = Journal(path), len(path.events) - 1
    examine(journal.events, journal.shown)
    adas, bos = journal.value(index - 1, "approval")["votes"]
    for votes in ([{**bos, "by": "cy"}], [adas, bos], [bos, adas]):
        with pytest.raises(Caught):
            examine(*journal.retold(index, "approval", lambda value, votes=votes: {**value, "votes": votes}))


def test_46_a_delegation_rests_on_its_giver_and_on_the_token_it_was_given_with() -> None:
    for credential, tokens in ((None, set()), ("key_1", {credential_ref("key_1")})):
        given = Delegation(id="dlg_1", giver="ada", to="bo", until=NOON + HOUR, credential=credential)
        sheet = delegation_sheet(given)
        assert people_behind({sheet.ref: sheet}) == {place_of("ada"), *tokens}


# People of a provider

RULES = ProviderRules(issuer="https://id.example", allowed=(read_allowed("dept=it:approver"),))
GONE: dict[str, ProviderRules] = {
    "rule": replace(RULES, allowed=(read_allowed("dept=hr:approver"),)),
    "role": replace(RULES, allowed=(read_allowed("dept=it:auditor"),)),
    "provider": ProviderRules(issuer=None),
    "another provider": replace(RULES, issuer="https://id.example/"),
}


def vouch(shelf: Shelf, name: str) -> None:
    """Lets somebody in by a provider."""
    put(shelf, RULES)
    vouched = Vouched(by=Voucher("https://id.example", name), said=(Said("dept", "it"),), at=shelf.now)
    words: Any = {"id": person_id(name), "name": name, "scopes": ("approver",), "created_at": shelf.now}
    made = people.Person(**words, vouched=vouched)
    assert isinstance(tell(shelf, "person_signed_in", person_sheet(made)), Recorded)


def put(shelf: Shelf, rules: ProviderRules) -> None:
    """Puts rules in force."""
    before = shelf.sheets.get(provider_sheet(rules).ref)
    version = 1 if before is None else before.version + 1
    assert isinstance(tell(shelf, "provider_changed", provider_sheet(replace(rules, version=version))), Recorded)


@pytest.mark.parametrize("gone", GONE)
def test_87_what_a_providers_person_permitted_does_not_run_after_their_rule_went(gone: str) -> None:
    shelf, approval = asked_for(asks())
    vouch(shelf, "ada")
    grant: Any = {"grant": GrantTerms(count=3, until=NOON + HOUR), "grant_id": "grt_1", "pinned": PINNED}
    assert shelf.do(cast(approval, **grant)).approval.status == "approved"
    put(shelf, GONE[gone])
    assert isinstance(call(shelf, asks()), AwaitingApproval)
    other: Any = {"ref": approval.ref._replace(key="cd" * 32), "grants": {"grt_1": PINNED}}
    assert isinstance(call(shelf, asks(), "eff_other", **other), AwaitingApproval)
    assert code(shelf.do(cast(shelf.approval()))) == "revoked"
    put(shelf, RULES)
    assert isinstance(shelf.do(cast(shelf.approval())), Decided)


def test_87_when_a_provider_spoke_too_long_ago_a_person_decides_nothing_more_and_what_they_permitted_stands() -> None:
    shelf, approval = asked_for(asks(Need(2)))
    vouch(shelf, "ada")
    shelf.do(cast(approval, ADA))
    put(shelf, replace(RULES, max_age=HOUR / 4))
    shelf.now += HOUR / 4
    assert code(shelf.do(cast(asked_for_also(shelf), ADA))) == "sign_in_again"
    shelf.do(cast(shelf.approval(), BO))
    assert isinstance(call(shelf, asks(Need(2))), Claimed)


def asked_for_also(shelf: Shelf) -> Approval:
    ref = open_command().ref._replace(key="cd" * 32)
    answer = shelf.do(open_command(verdict=asks(), stamp=stamp(actor=AGENT), ref=ref, effect_id="eff_9"))
    assert isinstance(answer, AwaitingApproval)
    return answer.approval


@pytest.mark.parametrize("via", ["passkey", "api_key", "oidc"])
def test_87_who_is_let_in_no_more_settles_and_sets_up_nothing_by_a_request_that_was_under_way(via: Any) -> None:
    shelf = Shelf()
    vouch(shelf, "ada")
    actor = Actor("ada", "person", via)
    in_doubt(shelf)
    put(shelf, GONE["rule"])
    assert isinstance(shelf.do(replace(settle(), stamp=stamp(actor=actor))), Forbidden)
    given = Delegation(id="dlg_1", giver="ada", to="bo", until=NOON + HOUR)
    assert isinstance(tell(shelf, "delegation_given", delegation_sheet(given), actor), Outrun)
    put(shelf, RULES)
    assert isinstance(tell(shelf, "delegation_given", delegation_sheet(given), actor), Recorded)
    assert isinstance(shelf.do(replace(settle(), stamp=stamp(actor=actor))), Moved)


def in_doubt(shelf: Shelf) -> None:
    claimed = shelf.do(open_command())
    assert isinstance(claimed, Claimed)
    shelf.do(relinquish(claimed.claim, "in_doubt"))


def test_87_who_comes_from_the_provider_again_stands_by_what_it_says_now() -> None:
    shelf = Shelf()
    vouch(shelf, "ada")
    put(shelf, replace(RULES, max_age=HOUR))
    shelf.now += HOUR
    known = read_person(shelf.sheets[place_of("ada")])
    actor = Actor("ada", "person", "oidc")
    assert isinstance(tell(shelf, "person_signed_in", person_sheet(replace(known, version=2)), actor), Outrun)
    assert known.vouched is not None
    fresh = replace(known, version=2, vouched=replace(known.vouched, at=shelf.now))
    assert isinstance(tell(shelf, "person_signed_in", person_sheet(fresh), actor), Recorded)
    found = standing_of("ada", shelf.sheets)
    assert found is not None
    assert found.word(shelf.now) == "in"
