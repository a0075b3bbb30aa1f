"""Promises of approvals over whole lives: any calls, votes, edits, reports and clocks, in any order.

The oracle keeps books of its own, from the answers that people and callers got. It knows nothing of sheets' bodies but
what it compares at the end: who voted on what, what was used, handed back and granted.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from indelible.core.approvals.approval import Approval, Escalation, Need, Person
from indelible.core.approvals.grants import GrantTerms, grant_ref, read_grant
from indelible.core.approvals.sheets import read_approval
from indelible.core.changes import Change
from indelible.core.commands import AwaitingApproval, CastVote, Claimed, Command, Decided, Open, Relinquish
from indelible.core.effects.effect import Actor, Claim, Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import NO_EVENTS
from indelible.core.policy.verdicts import Verdict
from indelible.core.sheets import Sheet
from indelible.core.steps import needed_sheets
from tests.core.making import (
    ADA,
    AGENT,
    ARGS,
    BO,
    CY,
    DIGEST,
    HOUR,
    LEASE,
    OTHER_ARGS,
    OTHER_DIGEST,
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
    next_step,
    open_command,
    refuses,
    relinquish,
    reopen,
    settle,
    stamp,
    take_back,
)

REFS = [Ref("default", "shared", f"{number:064x}") for number in range(3)]
CONTENT = {ARGS: DIGEST, OTHER_ARGS: OTHER_DIGEST}
PEOPLE = {"ada": Person(), "bo": Person()}
STEP = Escalation(HOUR, {"cy": Person()})
VERDICTS = [
    allows(),
    asks(expires=2 * HOUR),
    asks(Need(2), expires=2 * HOUR, rule="two"),
    asks(people=PEOPLE, escalations=(STEP,), expires=2 * HOUR, rule="named", charges=(charge(1, limit=4),)),
    asks(expires=2 * HOUR, policy="policy-2"),
    refuses(),
]
VOTERS = [ADA, BO, CY, Actor("ADA"), Actor("ｂｏ"), Actor("agent"), AGENT]
ENDS = {"denied", "expired", "canceled", "stale"}
PIN = "77" * 32
EDITS = [ARGS, b'{"amount":7}']
WHICH = st.integers(0, 999)


@dataclass(slots=True)
class Book:
    """Is what the oracle knows of one approval: what was asked, who said yes to that, and how often it was used."""

    policy: str
    args: bytes
    expires_at: datetime
    needed: int
    voters: set[str] = field(default_factory=set)
    used: int = 0
    is_over: bool = False


def person(actor: Actor) -> str:
    return {"ADA": "ada", "ｂｏ": "bo"}.get(actor.id, actor.id)


class Approving(RuleBasedStateMachine):
    """Sends commands as agents, people, sweepers and workers would, one at a time, and books what they were told."""

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.count = 0
        self.books: dict[str, Book] = {}
        self.claims: dict[Ref, list[Claim]] = defaultdict(list)
        self.ran_on: dict[str, str] = {}
        """Names the approval that a claim's token ran on."""
        self.granted: dict[str, int] = {}
        self.last: dict[Ref, Open] = {}
        self.entered: Counter[str] = Counter()
        """Counts the ways by which handlers were entered."""

    # What the outside does

    @rule(
        ref=st.sampled_from(REFS),
        verdict=st.sampled_from(VERDICTS),
        args=st.sampled_from([ARGS, ARGS, ARGS, OTHER_ARGS]),
        on_crash=st.sampled_from(["hold", "retry", "retry"]),
        schema=st.sampled_from(["", "", "", "f00d"]),
        has_waited=st.booleans(),
        has_grants=st.booleans(),
    )
    def call(self, ref: Ref, verdict: Verdict, args: bytes, has_waited: bool, has_grants: bool, **words: Any) -> None:
        known = self.shelf.effects.get(ref)
        self.last[ref] = open_command(
            ref=ref,
            verdict=verdict,
            args_json=args,
            digest=CONTENT[args],
            has_key_fields=True,
            awaited_approval=known.approval_id if has_waited and known is not None else None,
            grants=dict.fromkeys(self.granted, PIN) if has_grants else {},
            **words,
        )
        self.call_again(ref)

    def call_again(self, ref: Ref) -> None:
        """Makes the last call of an effect once more, as the same worker or another one would."""
        self.count += 1
        unique = {"effect_id": f"eff_{self.count}", "token": f"{self.count:032x}"}
        self.send(replace(self.last[ref], stamp=stamp(self.shelf.now, AGENT), **unique))

    @rule(which=WHICH)
    @precondition(lambda self: self.last)
    def retry(self, which: int) -> None:
        self.call_again(sorted(self.last)[which % len(self.last)])

    @rule(which=WHICH, is_edited=st.sampled_from([False, False, True]))
    @precondition(lambda self: self.books)
    def enough_people_approve_and_it_is_called_again(self, which: int, is_edited: bool) -> None:
        about = self.one_of(which)
        if is_edited:
            self.send(amend(about, BO, self.shelf.now, args_json=b'{"amount":7}', verdict=self.last[about.ref].verdict))
            about = self.shelf.approval_with(about.id)
        for by in (ADA, BO):
            self.send(cast(about, by, at=self.shelf.now))
        self.call_again(about.ref)

    @rule(which=WHICH, count=st.integers(1, 2))
    @precondition(lambda self: self.books)
    def somebody_grants_and_the_like_is_called_elsewhere(self, which: int, count: int) -> None:
        about = self.one_of(which)
        self.count += 1
        terms = GrantTerms(count=count, until=self.shelf.now + HOUR)
        self.send(cast(about, ADA, at=self.shelf.now, grant=terms, grant_id=f"grt_{self.count}", pinned=PIN))
        for ref in REFS:
            self.last[ref] = replace(self.last[about.ref], ref=ref, grants=dict.fromkeys(self.granted, PIN))
            self.call_again(ref)

    @rule(ref=st.sampled_from(REFS), is_handed_back=st.booleans())
    def it_fails_and_a_person_retries_it_and_the_policy_lets_it_pass(self, ref: Ref, is_handed_back: bool) -> None:
        """And then that attempt comes to nothing, and the policy asks again."""
        if not self.claims[ref]:
            return
        asking = self.last[ref]
        self.send(finish(self.claims[ref][-1], "failed", at=self.shelf.now))
        self.send(reopen(ref, self.shelf.now))
        self.last[ref] = replace(asking, verdict=allows())
        self.call_again(ref)
        if is_handed_back:
            self.send(relinquish(self.claims[ref][-1], "ready", at=self.shelf.now))
        else:
            self.shelf.now += LEASE
        self.last[ref] = asking
        self.call_again(ref)

    @rule(ref=st.sampled_from(REFS))
    def its_worker_dies_and_it_is_called_again(self, ref: Ref) -> None:
        if self.claims[ref]:
            self.shelf.now += LEASE
            self.call_again(ref)

    @rule(
        which=WHICH,
        by=st.sampled_from(VOTERS),
        is_approval=st.sampled_from([True, True, True, False]),
        knows_it=st.sampled_from([True, True, True, False]),
        grants=st.sampled_from([False, False, True]),
    )
    @precondition(lambda self: self.books)
    def vote(self, which: int, by: Actor, is_approval: bool, knows_it: bool, grants: bool) -> None:
        about = self.one_of(which)
        words: dict[str, Any] = {} if knows_it else {"digest": OTHER_DIGEST}
        if grants:
            self.count += 1
            terms = GrantTerms(count=1, until=self.shelf.now + HOUR)
            words |= {"grant": terms, "grant_id": f"grt_{self.count}", "pinned": PIN}
        self.send(cast(about, by, is_approval=is_approval, at=self.shelf.now, **words))

    @rule(which=WHICH, by=st.sampled_from(VOTERS))
    @precondition(lambda self: self.books)
    def take_back(self, which: int, by: Actor) -> None:
        self.send(take_back(self.one_of(which), by, self.shelf.now))

    @rule(which=WHICH, by=st.sampled_from(VOTERS), args=st.sampled_from(EDITS), verdict=st.sampled_from(VERDICTS))
    @precondition(lambda self: self.books)
    def edit(self, which: int, by: Actor, args: bytes, verdict: Verdict) -> None:
        self.send(amend(self.one_of(which), by, self.shelf.now, args_json=args, verdict=verdict))

    @rule(which=WHICH)
    @precondition(lambda self: self.books)
    def attend(self, which: int) -> None:
        self.send(attend(self.one_of(which), self.shelf.now))

    @rule(which=WHICH, status=st.sampled_from(["succeeded", "failed"]))
    @precondition(lambda self: any(self.claims.values()))
    def finish(self, which: int, status: Any) -> None:
        self.send(finish(self.a_claim(which), status, at=self.shelf.now))

    @rule(which=WHICH, status=st.sampled_from(["ready", "ready", "in_doubt"]))
    @precondition(lambda self: any(self.claims.values()))
    def relinquish(self, which: int, status: Any) -> None:
        self.send(relinquish(self.a_claim(which), status, at=self.shelf.now))

    @rule(ref=st.sampled_from(REFS), status=st.sampled_from(["succeeded", "failed"]))
    def settle(self, ref: Ref, status: Any) -> None:
        self.send(settle(status, ref, self.shelf.now))

    @rule(ref=st.sampled_from(REFS), what=st.sampled_from([reopen, reopen, cancel]))
    def reopen_or_cancel(self, ref: Ref, what: Any) -> None:
        self.send(what(ref, self.shelf.now))

    @rule(step=st.sampled_from([SECOND, SECOND, LEASE, LEASE, HOUR, timedelta(days=1)]))
    def time_passes(self, step: timedelta) -> None:
        self.shelf.now += step

    def one_of(self, which: int) -> Approval:
        """Gives an approval as it stands, mostly the newest of an effect."""
        found = [read_approval(sheet) for ref, sheet in sorted(self.shelf.sheets.items()) if ref.kind == "approval"]
        newest = {effect.approval_id for effect in self.shelf.effects.values()}
        likely = [one for one in found if one.id in newest] * 3 + found
        return likely[which % len(likely)]

    def a_claim(self, which: int) -> Claim:
        found = [claim for claims in self.claims.values() for claim in claims[-2:]]
        return found[which % len(found)]

    # What is booked and checked at every write

    def send(self, command: Command) -> None:
        before = self.shelf.effects.get(command.ref)
        self.check_versions(command, before)
        approval = None if before is None or before.approval_id is None else self.shelf.approval(command.ref)
        uses = {grant_id: self.uses_of(grant_id) for grant_id in self.granted}
        answer = self.shelf.do(command)
        after = self.shelf.effects.get(command.ref)
        if isinstance(answer, Claimed) and isinstance(command, Open):
            self.check_entry(command, answer.claim, before, approval, uses)
        if isinstance(answer, AwaitingApproval) and answer.approval.id not in self.books:
            self.book(answer.approval, answer.effect)
        if isinstance(answer, Decided):
            self.book_decision(command, answer)
        if after is not None and approval is not None:
            self.book_use(command, approval, self.shelf.approval_with(approval.id))

    def check_versions(self, command: Command, effect: Effect | None) -> None:
        """Each change of a sheet is one version later than the last, and tells of each kind once."""
        latest: dict[Any, Sheet | None] = {ref: self.shelf.sheets.get(ref) for ref in needed_sheets(command, effect)}
        run_id = "run-1" if effect is None else effect.run_id
        seq = self.shelf.heads.get(run_id, NO_EVENTS).length
        for change in next_step(command, effect, self.shelf.now, seq, latest).changes:
            kinds = [sheet.kind for sheet in change.sheets if sheet.is_recorded]
            assert len(kinds) == len(set(kinds))
            if kinds:
                assert isinstance(change, Change)
            for sheet in change.sheets:
                known = latest.get(sheet.ref)
                assert known == self.shelf.sheets.get(sheet.ref) or sheet.ref in latest, (
                    "it was decided on what is there"
                )
                assert sheet.version == (1 if known is None else known.version + 1), "versions are dense"
                latest[sheet.ref] = sheet

    def uses_of(self, grant_id: str) -> int:
        return read_grant(self.shelf.sheets[grant_ref(grant_id)]).uses_left

    def check_entry(
        self, command: Open, claim: Claim, before: Effect | None, approval: Approval | None, uses: dict[str, int]
    ) -> None:
        """A handler may be entered: by whose permission?"""
        self.claims[command.ref].append(claim)
        verdict = command.verdict
        assert verdict.decision != "refuse"
        used_grants = [one for one, left in uses.items() if self.uses_of(one) < left]
        if approval is not None and approval.status == "approved":
            self.check_approved(command, claim, approval)
            assert not used_grants
            self.entered["on an approval" if approval.edited_by is None else "on an edit"] += 1
            self.ran_on[claim.token] = approval.id
            return
        if self.is_covered(command, before, approval):
            assert approval is not None
            assert claim.effect.args_json == self.books[approval.id].args
            self.entered["after a crash"] += 1
            self.ran_on[claim.token] = approval.id
            return
        assert claim.effect.args_json == command.args_json, "what the policy judged is what runs"
        was_asked = before is not None and before.status == "requires_approval"
        self.entered["on a grant" if used_grants else "unasked"] += 1
        if verdict.question is not None or was_asked:
            assert len(used_grants) == 1, "entered though the policy asks and nobody has allowed it"
            grant = read_grant(self.shelf.sheets[grant_ref(used_grants[0])])
            assert verdict.question is not None
            assert (grant.rule, grant.policy) == (verdict.question.rule, verdict.policy)
            assert (grant.schema, grant.pinned) == (command.schema, PIN)
            assert self.shelf.now < grant.until
            self.granted[grant.id] -= 1
            assert self.granted[grant.id] >= 0, "used more often than granted"

    def check_approved(self, command: Open, claim: Claim, approval: Approval) -> None:
        book = self.books[approval.id]
        assert self.shelf.now < book.expires_at, "an approval that came too late was used"
        assert (command.verdict.policy, claim.effect.args_json) == (book.policy, book.args), (
            "something else was approved"
        )
        assert approval.schema == command.schema
        assert len(book.voters) >= book.needed, "too few have approved it"
        assert "agent" not in book.voters
        assert book.used == 0, "it was used before"
        assert claim.effect.id == approval.effect_id

    def is_covered(self, command: Open, before: Effect | None, approval: Approval | None) -> bool:
        """Does the approval of the attempt that crashed hold for this one?"""
        if before is None or approval is None or before.status not in ("processing", "in_doubt"):
            return False
        last = self.claims[command.ref][-2] if len(self.claims[command.ref]) > 1 else None
        was_on_it = last is not None and self.ran_on.get(last.token) == approval.id
        is_same = (approval.policy, approval.schema) == (command.verdict.policy, command.schema)
        return before.on_crash == "retry" and was_on_it and is_same

    def book(self, approval: Approval, effect: Effect) -> None:
        assert effect.args_json is not None
        needed = sum(need.count for need in approval.question.needs)
        self.books[approval.id] = Book(approval.policy, effect.args_json, approval.expires_at, needed)

    def book_decision(self, command: Command, answer: Decided) -> None:
        """Books what people did, by the answer they got."""
        now = answer.approval
        book, who = self.books[now.id], person(command.stamp.actor)
        match command:
            case CastVote() if command.is_approval and who not in book.voters:
                book.voters.add(who)
                if command.grant is not None and now.grant == command.grant_id:
                    self.granted[command.grant_id] = command.grant.count
            case CastVote():
                book.is_over = now.status == "denied"
            case _ if type(command).__name__ == "TakeBack":
                book.voters.discard(who)
            case _ if type(command).__name__ == "Amend":
                self.book(now, answer.effect)
            case _:
                book.is_over = not now.is_open
        assert {person(Actor(vote.by)) for vote in now.votes if vote.is_approval} == self.books[now.id].voters

    def book_use(self, command: Command, before: Approval, after: Approval) -> None:
        book = self.books[before.id]
        assert before.status not in ENDS or after == before, "what has ended stays as it is"
        if before.status != "consumed" and after.status == "consumed":
            book.used += 1
            assert before.status == "approved"
        elif before.status == "consumed" and after.status != "consumed":
            assert after.status == "approved"
            assert isinstance(command, Relinquish)
            assert self.ran_on.get(command.claim.token) == before.id, "handed back by who did not run on it"
            book.used -= 1
        assert book.used in (0, 1), "used at most once, net of what was handed back"

    # What always holds

    @invariant()
    def every_recorded_sheet_is_what_its_event_commits_to(self) -> None:
        for sheet in self.shelf.sheets.values():
            if sheet.is_recorded:
                assert sheet.run_id is not None
                assert sheet.seq is not None
                assert self.shelf.committed[sheet.run_id, sheet.seq, sheet.kind] == sheet.body

    @invariant()
    def an_effect_and_its_newest_approval_agree(self) -> None:
        fitting = {
            "pending": {"requires_approval"},
            "approved": {"ready"},
            "denied": {"denied"},
            "canceled": {"canceled"},
            "expired": {"requires_approval", "processing", "ready", "succeeded", "failed", "in_doubt", "canceled"},
            "stale": {"requires_approval", "processing", "ready", "succeeded", "failed", "in_doubt", "canceled"},
            "consumed": {"processing", "ready", "succeeded", "failed", "in_doubt", "canceled"},
        }
        for ref, effect in self.shelf.effects.items():
            if effect.approval_id is not None:
                assert effect.status in fitting[self.shelf.approval(ref).status]

    @invariant()
    def at_most_one_question_of_an_effect_is_open(self) -> None:
        still_open: dict[str, int] = defaultdict(int)
        for ref, sheet in self.shelf.sheets.items():
            if ref.kind == "approval" and read_approval(sheet).is_open:
                still_open[read_approval(sheet).effect_id] += 1
        assert set(still_open.values()) <= {1}

    @invariant()
    def grants_have_the_uses_that_were_not_made(self) -> None:
        for grant_id, left in self.granted.items():
            assert self.uses_of(grant_id) == left


TestApproving = Approving.TestCase
TestApproving.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)


def a_step(life: Approving, chance: Random) -> None:
    """Does something by chance: most of the time what a healthy life consists of."""
    which, ref, has_claims = chance.randrange(999), chance.choice(REFS), any(life.claims.values())
    match chance.choices(range(15), weights=[5, 6, 8, 4, 2, 2, 2, 2, 4, 4, 1, 3, 3, 3, 2])[0]:
        case 0:
            life.call(
                ref=ref,
                verdict=chance.choice(VERDICTS),
                args=chance.choice([ARGS, ARGS, ARGS, OTHER_ARGS]),
                on_crash=chance.choice(["hold", "retry"]),
                schema=chance.choice([""] * 5 + ["f00d"]),
                has_waited=chance.random() < 0.1,
                has_grants=chance.random() < 0.5,
            )
        case 1 if life.last:
            life.retry(which=which)
        case 2 if life.books:
            life.enough_people_approve_and_it_is_called_again(which=which, is_edited=chance.random() < 0.3)
        case 3 if life.books:
            life.vote(
                which=which,
                by=chance.choice(VOTERS),
                is_approval=chance.random() < 0.9,
                knows_it=chance.random() < 0.9,
                grants=chance.random() < 0.2,
            )
        case 4 if life.books:
            life.somebody_grants_and_the_like_is_called_elsewhere(which=which, count=chance.randint(1, 2))
        case 5 if life.books:
            life.take_back(which=which, by=chance.choice(VOTERS))
        case 6 if life.books:
            life.edit(which=which, by=chance.choice(VOTERS), args=chance.choice(EDITS), verdict=chance.choice(VERDICTS))
        case 7 if life.books:
            life.attend(which=which)
        case 8 if has_claims:
            life.finish(which=which, status=chance.choice(["succeeded", "failed", "failed"]))
        case 9 if has_claims:
            life.relinquish(which=which, status=chance.choice(["ready", "ready", "in_doubt"]))
        case 10:
            life.settle(ref=ref, status=chance.choice(["succeeded", "failed"]))
        case 11:
            life.reopen_or_cancel(ref=ref, what=chance.choice([reopen] * 6 + [cancel]))
        case 12:
            life.its_worker_dies_and_it_is_called_again(ref=ref)
        case 13:
            is_handed_back = chance.random() < 0.5
            life.it_fails_and_a_person_retries_it_and_the_policy_lets_it_pass(ref=ref, is_handed_back=is_handed_back)
        case _:
            life.time_passes(step=chance.choice([SECOND, LEASE, HOUR, HOUR, 2 * HOUR]))


@pytest.mark.timeout(0)
def test_over_many_lives_nothing_runs_that_was_not_approved() -> None:
    """Leads INDELIBLE_FUZZ / 100 lives (40 unless told) of 100 steps, each by its own chance."""
    fuzz = int(os.environ.get("INDELIBLE_FUZZ", "4000"))
    first = int(os.environ.get("INDELIBLE_FUZZ_SEED", "1"))
    entered: Counter[str] = Counter()
    for seed in range(first, first + fuzz // 100):
        life, chance = Approving(), Random(seed)
        for _ in range(100):
            a_step(life, chance)
            life.an_effect_and_its_newest_approval_agree()
            life.at_most_one_question_of_an_effect_is_open()
            life.grants_have_the_uses_that_were_not_made()
        life.every_recorded_sheet_is_what_its_event_commits_to()
        entered += life.entered
    assert set(entered) == {"on an approval", "on an edit", "after a crash", "on a grant", "unasked"}, (
        "all ways were gone"
    )


def test_the_oracle_knows_one_person_under_two_spellings() -> None:
    assert {person(actor) for actor in VOTERS} == {"ada", "bo", "cy", "agent"}
