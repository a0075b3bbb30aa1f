"""The cases of the suite about sheets: what `indelible.core.ports.Store` owes approvals, budgets and messages."""

from __future__ import annotations

import functools
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

from indelible.core.approvals.approval import Approval, Need
from indelible.core.approvals.sheets import read_approval
from indelible.core.commands import (
    AwaitingApproval,
    Claimed,
    Command,
    Decided,
    InFlight,
    Kept,
    LimitsUnseen,
    MayRun,
    Moved,
    Outrun,
    OverBudget,
    Recorded,
    RefusedByPolicy,
    Replayed,
)
from indelible.core.effects.effect import Claim
from indelible.core.policy.budgets import read_budget
from indelible.core.policy.verdicts import Verdict
from indelible.core.ports import Store
from indelible.core.privacy.forgetting import Prunable
from indelible.core.runs.commands import RunMoved, StartRun
from indelible.core.runs.run import Run
from indelible.core.sheets import Sheet, SheetFilter
from indelible.testing.clock import FakeClock
from indelible.testing.commands import LEASE, Commands, asking, charged, message
from indelible.testing.journal_conformance import recording
from indelible.testing.racing import claim_all, keep_all, race, spend_all, vote_on_all
from indelible.testing.suite import PATIENCE, Suite, apply_one, ask_about, check_chain, in_threads, raises, take_claim

DAY = timedelta(days=1)
OTHER_ARGS = b'{"n":2}'
OTHER_DIGEST = "d2" * 32


class SheetsConformance(Suite):
    """Holds a store to what it owes sheets."""

    are_channels_the_servers = False
    """Does a server decide which channels tell people, whatever its callers name?"""

    # apply: on a state that nobody changed

    def test_apply_must_decide_on_sheets_that_nobody_changed_before_the_commit_threads(self) -> None:
        """A budget of 5 is not overdrawn, however many ask for 2 of it at once, each in a run of its own."""
        tenant = self.tenant()
        granted: list[Claim] = []
        with self.opened() as one, self.opened() as other:
            together = threading.Barrier(6)

            def ask(store: Store, number: int) -> None:
                make = Commands(tenant, run_id=f"run-{number}")
                together.wait(PATIENCE)
                answer = apply_one(store, make.open(f"effect-{number}", verdict=charged(2)))
                if isinstance(answer, Claimed):
                    granted.append(answer.claim)
                else:
                    assert isinstance(answer, OverBudget), answer

            in_threads([functools.partial(ask, store, number) for number, store in enumerate([one, other] * 3)])
            assert len(granted) == 2
            (budget,) = one.sheets(tenant, SheetFilter(kind="budget"))
            assert read_budget(budget).reserved == 4

    def test_apply_must_decide_on_sheets_that_nobody_changed_before_the_commit_processes(self) -> None:
        """A budget that nobody used yet is made once, and holds for all processes."""
        tenant = self.tenant()
        assert sum(race(self.factory(), spend_all, [(tenant, racer, 3) for racer in range(3)])) == 2
        with self.opened() as store:
            (budget,) = store.sheets(tenant, SheetFilter(kind="budget"))
            assert read_budget(budget).reserved == 4

    def test_apply_must_count_the_votes_of_people_who_vote_at_the_same_moment(self) -> None:
        """Two processes vote on the same approvals: no vote is lost, and both together are enough."""
        make, count = Commands(self.tenant()), 8
        with self.opened() as store:
            _ask_all(store, make, count, asking(needs=(Need(2),)))
            voted = race(self.factory(), vote_on_all, [(make.tenant, name) for name in ("bob", "eve")])
            assert voted == [count, count]
            for sheet in store.sheets(make.tenant, SheetFilter(kind="approval")):
                approval = read_approval(sheet)
                assert (sheet.version, approval.status) == (3, "approved")
                assert {vote.by for vote in approval.votes} == {"bob", "eve"}
            assert len(check_chain(store, make.tenant, "run-1")) == 3 * count

    def test_apply_must_let_one_of_many_use_an_approval(self) -> None:
        """Processes claim the same approved effects: each approval is used once."""
        make, count, racers = Commands(self.tenant()), 6, 3
        with self.opened() as store:
            for approval in _ask_all(store, make, count, asking()):
                assert isinstance(apply_one(store, make.approve(approval)), Decided)
            granted = race(self.factory(), claim_all, [(make.tenant, count)] * racers)
            assert sorted(n for each in granted for n in each) == list(range(count))
            sheets = store.sheets(make.tenant, SheetFilter(kind="approval"))
            assert [sheet.status for sheet in sheets] == ["consumed"] * count
            assert len(check_chain(store, make.tenant, "run-1")) == 3 * count

    def test_apply_must_let_one_of_many_change_a_sheet_that_is_kept_aside(self) -> None:
        """Processes make the same sheets, and then change them from the same version: each time one is first."""
        tenant, count, racers = self.tenant(), 6, 3
        with self.opened() as store:
            for version in (1, 2):
                given = [(tenant, racer, version, count) for racer in range(racers)]
                first = race(self.factory(), keep_all, given)
                winners = {n: racer for racer, each in enumerate(first) for n in each}
                kept = {sheet.id: sheet for sheet in store.sheets(tenant, SheetFilter(kind="delivery"))}
                assert sorted(n for each in first for n in each) == list(range(count))
                for n in range(count):
                    sheet = kept[f"kept-{n}"]
                    assert (sheet.version, sheet.read()) == (version, {"by": winners[n]})

    def test_apply_must_decide_on_the_sheets_that_are_and_not_on_those_that_were_known(self) -> None:
        """Whoever comes with an old state of the effect is answered by the approval as it is."""
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store, self.opened(clock) as other:
            waiting = ask_about(store, make, "effect")
            approved = apply_one(other, make.approve(waiting.approval), waiting.effect)
            assert isinstance(approved, Decided)
            taken = apply_one(store, make.take_back(approved.approval), waiting.effect)
            assert isinstance(taken, Decided)
            assert isinstance(apply_one(other, make.ask("effect"), approved.effect), AwaitingApproval)
            assert isinstance(apply_one(store, make.deny(taken.approval), approved.effect), Decided)
            late = apply_one(other, make.approve(taken.approval), taken.effect)
            assert type(late).__name__ == "NotCounted"
            refused = Verdict(decision="refuse", rule="never")
            assert type(apply_one(store, make.open("effect", verdict=refused), approved.effect)).__name__ == "Denied"

    def test_apply_must_not_refuse_by_policy_what_is_settled_already(self) -> None:
        """Whoever thinks that a call is new learns what became of it."""
        make, refused = Commands(self.tenant()), Verdict(decision="refuse", rule="never")
        with self.opened() as store, self.opened() as other:
            claim = take_claim(other, make, "effect")
            apply_one(other, make.finish(claim))
            assert isinstance(apply_one(store, make.open("effect", verdict=refused)), Replayed)
            assert isinstance(apply_one(store, make.open("another", verdict=refused)), RefusedByPolicy)
            assert len(check_chain(store, make.tenant, "run-1")) == 3

    def test_apply_must_claim_nothing_for_an_open_that_only_asks(self) -> None:
        """Whoever only asks is answered by what is, whatever they knew; where they could claim, nothing is written."""
        make = Commands(self.tenant())
        with self.opened() as store, self.opened() as other:
            assert apply_one(store, make.open("effect", only_asks=True)) == MayRun(None)
            assert not store.look([make.ref("effect")]).effects[0]
            claim = take_claim(other, make, "effect")
            assert isinstance(apply_one(store, make.open("effect", only_asks=True)), InFlight)
            apply_one(other, make.finish(claim))
            assert isinstance(apply_one(store, make.open("effect", only_asks=True)), Replayed)
            asked = apply_one(store, replace(make.ask("asked"), only_asks=True))
            assert isinstance(asked, AwaitingApproval)
            approved = apply_one(other, make.approve(asked.approval), asked.effect)
            assert isinstance(approved, Decided)
            assert apply_one(store, replace(make.ask("asked"), only_asks=True), asked.effect) == MayRun(approved.effect)
            assert isinstance(apply_one(store, make.ask("asked"), asked.effect), Claimed)
            check_chain(store, make.tenant, "run-1")

    def test_apply_must_enter_no_run_with_limits_for_an_open_that_was_judged_without_them(self) -> None:
        """Also if whoever asks saw the run, and wrote to it, before it had any."""
        make = Commands(self.tenant())
        with self.opened() as store, self.opened() as other:
            first = take_claim(store, make, "first")
            stamp = make.stamp()
            run = Run(id="run-1", agent="a", allowed_tools=("tool",), created_at=stamp.at, updated_at=stamp.at)
            start = StartRun(tenant=make.tenant, stamp=stamp, run=run, token="00" * 16, lease=LEASE)
            assert isinstance(apply_one(other, start), RunMoved)
            opening = make.open("second")
            for asked in (store, other):
                assert apply_one(asked, opening) == LimitsUnseen(None)
            assert isinstance(apply_one(store, replace(opening, knows_limits=True)), Claimed)
            assert isinstance(apply_one(store, make.finish(first)), Moved)
            assert isinstance(apply_one(store, make.open("first")), Replayed)
            assert len(check_chain(store, make.tenant, "run-1")) == 4

    # apply: all or nothing, durable, and the answers of what was committed

    def test_apply_must_write_sheets_with_all_the_rest_or_not_at_all(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            ask_about(store, make, "before")
            poison: Any = make.open("poison", args_json=None)
            kept = make.keep(message("kept"))
            for rest in ([make.ask("one"), poison], [make.open("two", verdict=charged(1)), poison], [kept, poison]):
                with raises():
                    store.apply(make.tenant, rest, [None] * len(rest))
            kinds = {kind: len(store.sheets(make.tenant, SheetFilter(kind=kind))) for kind in ("approval", "budget")}
            assert kinds == {"approval": 1, "budget": 0}
            assert store.sheets(make.tenant, SheetFilter(kind="delivery")) == []
            assert len(check_chain(store, make.tenant, "run-1")) == 1

    def test_apply_must_change_each_of_many_sheets_by_itself(self) -> None:
        """One that somebody else has changed is told; the others change all the same, in the same transaction."""
        make = Commands(self.tenant())
        with self.opened() as store:
            sheets = [message(f"m-{n}") for n in range(40)]
            answers = store.apply(make.tenant, [make.keep(sheet) for sheet in sheets], [None] * 40)
            assert answers == [Kept(sheet) for sheet in sheets]
            changed = [sheet.after(status="sent", body=b"{}") for sheet in sheets]
            changed[7] = replace(changed[7], version=9)
            answers = store.apply(make.tenant, [make.keep(sheet) for sheet in changed], [None] * 40)
            assert answers[7] == Outrun(sheets[7])
            assert [answer for n, answer in enumerate(answers) if n != 7] == [
                Kept(sheet) for n, sheet in enumerate(changed) if n != 7
            ]
            found = store.sheets(make.tenant, SheetFilter(kind="delivery", status="sent"))
            assert len(found) == 39
            assert isinstance(apply_one(store, make.keep(message("m-7"))), Kept), "its own write, told twice"
            assert apply_one(store, make.keep(message("m-8"))) == Outrun(changed[8])

    def test_apply_must_give_after_a_lost_outcome_the_answers_of_what_was_committed_with_sheets(self) -> None:
        """Whoever never heard the answer sends the same command again: nothing is asked, counted or charged twice."""
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            asking_once = make.ask("effect", verdict=asking(charges=charged(2).charges, notify=("chat",)))
            asked = twice(store, asking_once)
            assert isinstance(asked, AwaitingApproval)
            approved = twice(store, make.approve(asked.approval))
            assert isinstance(approved, Decided)
            claimed = twice(store, replace(asking_once, stamp=make.stamp(), token="00" * 16))
            assert isinstance(claimed, Claimed)
            assert isinstance(twice(store, make.finish(claimed.claim)), Moved)
            assert isinstance(twice(store, make.keep(message("kept"))), Kept)
            (sheet,) = store.sheets(make.tenant, SheetFilter(kind="budget"))
            budget = read_budget(sheet)
            assert (int(budget.reserved), int(sum(budget.spent.values()))) == (0, 2)
            assert len(check_chain(store, make.tenant, "run-1")) == 4
            assert len(store.sheets(make.tenant, SheetFilter(kind="approval"))) == 1

    def test_apply_takes_sheets_among_all_other_commands(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            asked = make.ask("asked", verdict=asking(notify=("chat", "mail")))
            note = Sheet(kind="note", id="n-1", status="open", body=b'{"n":1}')
            commands: list[Command] = [
                make.open("plain"),
                asked,
                recording(make, sheet=note),
                make.open("paid", verdict=charged(2)),
                make.keep(message("m-1")),
                make.approve_unseen(asked, clock.now()),
                make.open("paid too", verdict=charged(2)),
                make.open("not paid", verdict=charged(2)),
                recording(make, sheet=note),
            ]
            answers = store.apply(make.tenant, commands, [None] * len(commands))
            assert [type(answer) for answer in answers] == [
                Claimed, AwaitingApproval, Recorded, Claimed, Kept, Decided, Claimed, OverBudget, Outrun,
            ]  # fmt: skip
            check_chain(store, make.tenant, "run-1")
            counts = {kind: len(store.sheets(make.tenant, SheetFilter(kind=kind))) for kind in KINDS}
            told = 1 if self.are_channels_the_servers else 5
            assert counts == {"approval": 1, "budget": 1, "delivery": told, "note": 1}

    def test_a_record_changes_its_sheet_only_from_the_version_before(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            first = Sheet(kind="note", id="n-1", status="open", topic="x", body=b'{"n":1}')
            assert apply_one(store, recording(make, sheet=first)) == Recorded("run-1", 0)
            told = first.told_by("run-1", 0)
            assert store.sheets(make.tenant, SheetFilter(kind="note")) == [told]
            second = first.after(status="closed", body=b'{"n":2}')
            assert apply_one(store, recording(make, sheet=second, run_id="run-2")) == Recorded("run-2", 0)
            assert apply_one(store, recording(make, sheet=second)) == Outrun(second.told_by("run-2", 0))
            assert store.sheets(make.tenant, SheetFilter(kind="note")) == [second.told_by("run-2", 0)]
            assert len(check_chain(store, make.tenant, "run-1")) == 1

    # What an effect knows of sheets

    def test_an_effect_keeps_its_approval_and_what_it_reserved(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        verdict = asking(charges=charged(2).charges)
        with self.opened(clock) as store:
            asked = ask_about(store, make, "effect", verdict)
            assert asked.effect.approval_id == asked.approval.id
            assert asked.effect.lease_until == asked.approval.expires_at
            assert asked.effect.charges_json is not None
            assert store.look([asked.effect.ref]).effects == [asked.effect]
            apply_one(store, make.approve(asked.approval))
            claimed = apply_one(store, make.ask("effect", verdict=verdict))
            assert isinstance(claimed, Claimed)
            assert store.look([asked.effect.ref]).effects == [claimed.claim.effect]
            finished = apply_one(store, make.finish(claimed.claim), claimed.claim.effect)
            assert isinstance(finished, Moved)
            assert (finished.effect.approval_id, finished.effect.charges_json) == (asked.approval.id, None)
            assert store.look([asked.effect.ref]).effects == [finished.effect]

    def test_a_move_may_change_what_the_effect_is_about(self) -> None:
        """An edit by whoever decides, and a call that is asked about anew: the effect is about these arguments then."""
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            asked = ask_about(store, make, "effect", has_key_fields=True)
            edited = apply_one(store, make.amend(asked.approval, OTHER_ARGS), asked.effect)
            assert isinstance(edited, Decided)
            assert (edited.effect.args_json, edited.effect.opened_seq) == (OTHER_ARGS, 1)
            assert store.look([asked.effect.ref]).effects == [edited.effect]
            again = make.ask("effect", has_key_fields=True, args_json=b'{"n":3}', digest=OTHER_DIGEST)
            anew = apply_one(store, again, edited.effect)
            assert isinstance(anew, AwaitingApproval)
            assert (anew.effect.args_json, anew.effect.digest) == (b'{"n":3}', OTHER_DIGEST)
            assert (anew.effect.approval_id, anew.approval.replaces) == (anew.approval.id, asked.approval.id)
            assert store.look([asked.effect.ref]).effects == [anew.effect]
            statuses = {sheet.id: sheet.status for sheet in store.sheets(make.tenant, SheetFilter(kind="approval"))}
            assert statuses == {asked.approval.id: "stale", anew.approval.id: "pending"}

    def test_prunable_lists_where_the_payloads_of_an_edited_effect_begin(self) -> None:
        """What it was about at first has to go too."""
        make = Commands(self.tenant())
        with self.opened() as store:
            take_claim(store, make, "another")
            asked = ask_about(store, make, "effect")
            edited = apply_one(store, make.amend(asked.approval, OTHER_ARGS))
            assert isinstance(edited, Decided)
            apply_one(store, make.deny(edited.approval))
            listed = store.forgetting.prunable(make.tenant, asked.effect.created_at + DAY, "", 9)
            assert Prunable(asked.effect.id, "run-1", 1) in listed  # an edit may have taken the place of another call

    def test_a_question_is_no_lease(self) -> None:
        """Nobody can extend the time of a question, and nobody has abandoned an effect that waits for an answer."""
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            asked = ask_about(store, make, "effect", asking(expires=LEASE))
            claim = Claim(asked.effect, "00" * 16)
            mine = replace(claim, effect=replace(asked.effect, token_hash=claim.token_hash))
            assert store.heartbeat(claim, DAY) is store.heartbeat(mine, DAY) is False
            clock.advance(LEASE)
            assert store.abandoned(make.tenant, 9) == []
            assert isinstance(apply_one(store, make.expire(asked.effect.ref)), Moved)
            assert store.look([asked.effect.ref]).effects == [asked.effect]
            attended = apply_one(store, make.attend(asked.approval))
            assert isinstance(attended, Decided)
            assert (attended.approval.status, attended.effect.lease_until) == ("expired", None)

    def test_settle_spends_a_budget_in_the_transaction_of_the_handler(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            for is_left, spent in ((True, 0), (False, 2)):
                claim = take_claim(store, make, f"effect {is_left}", verdict=charged(2))
                with store.transaction(make.tenant) as transaction:
                    if not is_left:
                        assert isinstance(transaction.settle(make.finish(claim)), Moved)
                (budget,) = store.sheets(make.tenant, SheetFilter(kind="budget"))
                assert sum(read_budget(budget).spent.values()) == spent


KINDS = ("approval", "budget", "delivery", "note")


def twice(store: Store, command: Command) -> Any:
    """Sends a command two times, and sees that both get the same answer."""
    first, again = apply_one(store, command), apply_one(store, command)
    assert first == again
    return first


def _ask_all(store: Store, make: Commands, count: int, verdict: Verdict) -> list[Approval]:
    return [ask_about(store, make, f"asked-{n}", verdict).approval for n in range(count)]
