"""Promises of core.approvals.stuck: an approval that no person can give is recognised, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.approvals import stuck as rules
from indelible.core.approvals.approval import Approval, Escalation, Need, Person, Question, Vote, ended, voted
from indelible.core.approvals.stuck import Stuck, people_named
from indelible.core.people import person as people
from indelible.core.people.sheets import person_sheet
from indelible.core.people.standing import credential_ref, person_id, place_of
from indelible.core.people.vouching import PROVIDER_REF, Vouched, Voucher
from indelible.core.scopes import Scope
from indelible.core.sheets import Sheets
from tests.core.making import HOUR, NOON, asked, effect

KEY = bytes(32)


def question(*needs: Need, people: dict[str, Person] | None = None, **words: Any) -> Approval:
    _, approval = asked(effect("requires_approval"))
    made = Question(rule="r", needs=needs or (Need(),), people=people, **words)
    return replace(approval, question=made)


def vote(by: str, **words: Any) -> Vote:
    return Vote(by=by, via="process", at=NOON, is_approval=True, **words)


def revoked(*names: str) -> Sheets:
    return {place_of(name): person_sheet(somebody(name).revoked()) for name in names}


def reading(*names: str) -> Sheets:
    """May read, and decide nothing."""
    return {place_of(name): person_sheet(somebody(name, scopes=("auditor",))) for name in names}


def somebody(name: str, vouched: Vouched | None = None, scopes: tuple[Scope, ...] = ("approver",)) -> people.Person:
    return people.Person(id=person_id(name), name=name, scopes=scopes, vouched=vouched, created_at=NOON)


def vouched_for(*names: str) -> Sheets:
    """Came by a provider that lets nobody in any more."""
    said = Vouched(by=Voucher("https://id.example", "1"), said=(), at=NOON)
    return {place_of(name): person_sheet(somebody(name, said)) for name in names} | {PROVIDER_REF: None}


def why_stuck(approval: Approval, sheets: Sheets) -> Stuck | None:
    """Asks as a store does: those whom it names were looked up, and most are not known to any server."""
    return rules.why_stuck(approval, {**dict.fromkeys(people_named(approval)), **sheets})


ADA, BO, CY = ({name: Person()} for name in ("ada", "bo", "cy"))
BOSS = {"bo": Person(("boss",))}
ASKER = question().requester.id
LATER: dict[str, Any] = {"escalations": (Escalation(HOUR, {"cy": Person()}),)}


@pytest.mark.parametrize(
    ("approval", "sheets"),
    [
        (question(), {}),
        (question(people=ADA), {}),
        (question(people=ADA | BO), revoked("bo")),
        (question(Need(2), people=ADA | BO), {}),
        (question(Need(2), people=ADA | BO | CY), revoked("cy")),
        (question(Need(1, "boss"), people=ADA | BOSS), {}),
        (question(people={ASKER: Person()} | ADA), {}),
        (question(Need(2), people=ADA, **LATER), {}),
        (replace(question(Need(2), people=ADA | BO), votes=(vote("ada"),)), {}),
        (question(people={"ada": Person((), KEY)}, needs_signature=True), {}),
        (ended(question(people={ASKER: Person()}), "denied"), {}),
        (ended(question(people={ASKER: Person()}), "approved"), {}),
    ],
)
def test_an_approval_that_a_person_can_give_is_not_stuck(approval: Approval, sheets: Sheets) -> None:
    assert why_stuck(approval, sheets) is None


@pytest.mark.parametrize(
    ("approval", "sheets", "names"),
    [
        (question(people={}), {}, "none"),
        (question(people=ADA), revoked("ada"), "ada was revoked"),
        (question(people=ADA), vouched_for("ada"), "ada is not let in by the provider any more"),
        (question(people=ADA), reading("ada"), "ada has only the scope auditor"),
        (question(people={ASKER: Person()}), {}, "asked for it"),
        (replace(question(people=ADA), principal="ada"), {}, "asked for it"),
        (question(Need(2), people=ADA), {}, "needs the approval of 2"),
        (question(Need(1, "boss"), people=ADA), {}, "has none of the roles"),
        (question(Need(1, "boss"), Need(1), people=ADA | BOSS), revoked("bo"), "1 of role boss"),
        (question(Need(2), people=ADA, **LATER), revoked("cy"), "cy was revoked"),
        (replace(question(Need(2), people=ADA | BO), votes=(vote("ada"),)), revoked("ada"), "ada was revoked"),
        (replace(question(Need(2), people=ADA | BO), votes=(vote("ada"),)), revoked("bo"), "bo was revoked"),
        (question(Need(2), people={"ada": Person(), "Ada": Person()}), {}, "has the name of one who has"),
        (question(people=ADA, needs_signature=True), {}, "no key"),
        (replace(question(people=ADA), taken_back=("ada",)), {}, "took a signed approval back"),
        (question(needs_signature=True), {}, "no person with a key"),
    ],
)
def test_an_approval_that_no_person_can_give_says_why_and_the_ways_out(
    approval: Approval, sheets: Sheets, names: str
) -> None:
    stuck = why_stuck(approval, sheets)
    assert stuck is not None
    assert names in stuck.why
    assert any(approval.effect_id in way for way in stuck.ways), "it can be withdrawn"
    assert any("people invite" in way for way in stuck.ways) == bool(sheets), "who was revoked can be let in again"


def test_87_whom_a_provider_lets_in_no_more_can_become_one_of_our_own() -> None:
    stuck = why_stuck(question(people=ADA), vouched_for("ada"))
    assert stuck is not None
    assert stuck.ways[0].endswith("indelible people invite ada --scope approver --convert")


def test_it_names_all_on_whom_it_depends() -> None:
    approval = question(people=ADA, **LATER)
    votes = (vote("bo", on_behalf_of="ada", delegated_with="key_2"), vote("dee", credential="key_1"))
    approval = replace(approval, votes=votes)
    people = {place_of(name) for name in ("ada", "cy", "bo", "dee")}
    assert people_named(approval) == people | {credential_ref("key_1"), credential_ref("key_2")}
    assert people_named(question()) == set()


NAMES = ["ada", "bo", "cy", "dee", ASKER]
PEOPLE = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([Person(), Person(("boss",)), Person(("clerk",))]))
NEEDS = st.lists(
    st.builds(Need, st.integers(1, 2), st.sampled_from([None, "boss", "clerk"])), min_size=1, max_size=2
).map(tuple)


@given(people=PEOPLE, needs=NEEDS, gone=st.sets(st.sampled_from(NAMES)), order=st.permutations(NAMES))
def test_stuck_is_what_everybody_together_cannot_approve(
    people: dict[str, Person], needs: tuple[Need, ...], gone: set[str], order: list[str]
) -> None:
    """Let all vote who may, in any order: the approval comes about if and only if it is not stuck."""
    approval = question(*needs, people=people)
    stuck = why_stuck(approval, revoked(*gone))
    for name in order:
        if name not in gone and approval.status == "pending":
            counted = voted(approval, vote(name), approval.digest, "person", NOON)
            approval = counted if isinstance(counted, Approval) else approval
    assert (approval.status == "approved") == (stuck is None)
