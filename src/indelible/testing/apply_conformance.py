"""The cases of the suite about `apply`: commands are decided by the core, on what is, and all of them or none."""

from __future__ import annotations

import functools
import os
import random
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

from indelible.core.approvals.grants import Delegation, delegation_sheet
from indelible.core.commands import (
    AwaitingApproval,
    Claimed,
    Command,
    Decided,
    InDoubt,
    InFlight,
    Late,
    Moved,
    NoSuchEffect,
    Replayed,
)
from indelible.core.ports import Filter, Store
from indelible.testing.clock import FakeClock
from indelible.testing.commands import LEASE, Commands
from indelible.testing.comparing import Comparison
from indelible.testing.journal_conformance import recording
from indelible.testing.racing import open_own_keys, open_same_keys, race, run_to_its_death
from indelible.testing.suite import PATIENCE, Suite, apply_one, check_chain, in_threads, raises, take_claim

MEBIBYTE = 1024 * 1024


class ApplyConformance(Suite):
    """Holds a store to its contract for writing."""

    def test_apply_must_decide_every_command_with_core_batch_decide(self) -> None:
        """Sends the same commands to the store and to the core, and compares answers, states, events and payloads."""
        clock = FakeClock()
        with self.opened(clock) as store:
            for seed in range(10):
                Comparison(store, clock, self.tenant(), random.Random(seed)).run(steps=100)  # noqa: S311

    def test_apply_must_decide_on_a_state_that_nobody_changed_before_the_commit_threads(self) -> None:
        """Many threads ask for the same effects: each effect is granted once."""
        tenant, names = self.tenant(), [f"effect-{n}" for n in range(10)]
        granted: list[str] = []
        with self.opened() as one, self.opened() as other:
            together = threading.Barrier(8)

            def ask(store: Store) -> None:
                make = Commands(tenant)
                together.wait(PATIENCE)
                granted.extend(name for name in names if isinstance(apply_one(store, make.open(name)), Claimed))

            in_threads([functools.partial(ask, store) for store in [one, other] * 4])
            assert sorted(granted) == sorted(names)
            check_chain(one, tenant, "run-1")

    def test_apply_must_decide_on_a_state_that_nobody_changed_before_the_commit_processes(self) -> None:
        """Processes ask for the same effects, and write to the same run: each is granted once, the chain is whole."""
        tenant, racers, count = self.tenant(), 3, 15
        granted = race(self.factory(), open_same_keys, [(tenant, count)] * racers)
        assert sorted(n for each in granted for n in each) == list(range(count))
        opened = race(self.factory(), open_own_keys, [(tenant, racer, count) for racer in range(racers)])
        assert opened == [count] * racers
        with self.opened() as store:
            assert len(check_chain(store, tenant, "run-1")) == count + racers * count

    def test_apply_must_decide_on_the_state_that_is_and_not_on_the_one_that_was_known(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            waiting = apply_one(store, make.ask("effect"))
            assert isinstance(waiting, AwaitingApproval)
            approved = apply_one(store, make.approve(waiting.approval), known=waiting.effect)
            assert isinstance(approved, Decided)
            first = apply_one(store, make.ask("effect"), known=approved.effect)
            second = apply_one(store, make.ask("effect"), known=approved.effect)
            assert (type(first), type(second)) == (Claimed, InFlight)
            assert isinstance(first, Claimed)
            stale = replace(first.claim.effect, version=1)
            assert isinstance(apply_one(store, make.finish(first.claim), known=stale), Moved)
            assert isinstance(apply_one(store, make.open("effect"), known=None), Replayed)

    def test_apply_must_write_all_of_it_or_nothing(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            take_claim(store, make, "before")
            poison: Any = make.open("poison", args_json=None)
            with raises():
                store.apply(make.tenant, [make.open("one"), poison, make.open("two")], [None] * 3)
            names = ("one", "poison", "two")
            assert store.look([make.ref(name) for name in names]).effects == [None, None, None]
            assert len(check_chain(store, make.tenant, "run-1")) == 1
            take_claim(store, make, "after")
            assert len(check_chain(store, make.tenant, "run-1")) == 2

    def test_apply_must_not_return_before_it_is_durable(self) -> None:
        """A process ends abruptly, right after the call returned."""
        tenant = self.tenant()
        with self.opened():
            assert run_to_its_death(self.factory(), tenant) == 17
        with self.opened() as store:
            (effect,) = store.look([Commands(tenant).ref("durable")]).effects
            assert effect is not None
            assert effect.status == "succeeded"
            assert len(check_chain(store, tenant, "run-1")) == 2

    def test_apply_must_give_after_a_lost_outcome_the_answers_of_what_was_committed(self) -> None:
        """Whoever never heard the answer sends the same command again."""
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            opening = make.open("effect")
            first, again = apply_one(store, opening), apply_one(store, opening)
            assert isinstance(first, Claimed)
            assert first == again
            finish = make.finish(first.claim)
            settled, settled_again = apply_one(store, finish), apply_one(store, finish)
            assert isinstance(settled, Moved)
            assert settled == settled_again
            assert len(check_chain(store, make.tenant, "run-1")) == 2

    def test_apply_answers_each_command_in_order_and_on_what_those_before_it_left(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            asked = make.ask("b")
            commands: list[Command] = [
                make.open("a"),
                make.open("a"),
                asked,
                make.approve_unseen(asked, clock.now()),
                make.ask("b"),
                make.cancel(make.ref("nothing")),
            ]
            answers = store.apply(make.tenant, commands, [None] * len(commands))
            assert [type(answer) for answer in answers] == [
                Claimed, InFlight, AwaitingApproval, Decided, Claimed, NoSuchEffect,
            ]  # fmt: skip
            assert len(check_chain(store, make.tenant, "run-1")) == 4

    def test_apply_takes_several_commands_about_one_new_effect(self) -> None:
        """Two callers of two runs open the same effect at once, in a run that has events already."""
        clock, make = FakeClock(), Commands(self.tenant())
        asked = make.ask("c")
        with self.opened(clock) as store:
            for run_id in ("run-1", "run-2"):
                take_claim(store, make, f"first of {run_id}", run_id=run_id)
            batches: list[list[Command]] = [
                [make.open("a", run_id="run-1"), make.open("a", run_id="run-2")],
                [make.open("b", run_id="run-2"), make.open("b", run_id="run-1"), make.expire(make.ref("b"))],
                [asked, make.approve_unseen(asked, clock.now())],
                [make.expire(make.ref("d")), make.open("d")],
                [make.ask("e"), make.cancel(make.ref("e"))],
            ]
            answers = [store.apply(make.tenant, batch, [None] * len(batch)) for batch in batches]
            assert [[type(answer) for answer in batch] for batch in answers] == [
                [Claimed, InFlight],
                [Claimed, InFlight, Moved],
                [AwaitingApproval, Decided],
                [NoSuchEffect, Claimed],
                [AwaitingApproval, Moved],
            ]
            assert len(check_chain(store, make.tenant, "run-1")) == 7
            assert len(check_chain(store, make.tenant, "run-2")) == 2

    def test_apply_takes_a_delegation_and_a_vote_by_it_at_once(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            waiting = apply_one(store, make.ask("effect"))
            assert isinstance(waiting, AwaitingApproval)
            voter = make.approve(waiting.approval).stamp.actor
            given = Delegation(id="dlg_1", giver="giver", to=voter.id, until=clock.now() + LEASE)
            vote = make.approve(waiting.approval, delegation_id=given.id)
            giving = recording(make, sheet=delegation_sheet(given))
            _, decided = store.apply(make.tenant, [giving, vote], [None, None])
            assert isinstance(decided, Decided)
            assert [each.on_behalf_of for each in decided.approval.votes] == ["giver"]

    def test_apply_takes_many_commands_of_many_runs_at_once(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            commands = [make.open(f"effect-{n}", run_id=f"run-{n % 7}") for n in range(256)]
            answers = store.apply(make.tenant, commands, [None] * 256)
            assert all(isinstance(answer, Claimed) for answer in answers)
            assert sum(len(check_chain(store, make.tenant, f"run-{n}")) for n in range(7)) == 256

    def test_apply_takes_nothing_at_all(self) -> None:
        with self.opened() as store:
            assert store.apply(self.tenant(), [], []) == []

    def test_apply_keeps_an_effect_in_the_run_that_opened_it(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            claim = take_claim(store, make, "effect", run_id="first")
            apply_one(store, make.relinquish(claim))
            assert isinstance(apply_one(store, make.open("effect", run_id="second")), Claimed)
            assert len(check_chain(store, make.tenant, "first")) == 3
            assert store.events(make.tenant, "second", -1, 10) == []

    def test_apply_keeps_a_late_result_and_leaves_the_effect_as_it_is(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            slow = take_claim(store, make, "effect", on_crash="retry")
            clock.advance(LEASE)
            quick = take_claim(store, make, "effect", on_crash="retry")
            before = store.look([quick.effect.ref]).effects
            assert isinstance(apply_one(store, make.finish(slow, detail=b'"late"'), known=slow.effect), Late)
            assert store.look([quick.effect.ref]).effects == before
            last = check_chain(store, make.tenant, "run-1")[-1]
            (kept,) = store.payloads(make.tenant, "run-1", [last.seq])
            assert (last.type, kept.field, kept.value) == ("tool_call_late", "late_result", b'"late"')
            assert isinstance(apply_one(store, make.finish(quick)), Moved)

    def test_apply_keeps_payloads_of_any_size(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            args = b'{"text":"' + b"x" * MEBIBYTE + b'"}'
            claim = take_claim(store, make, "large", args_json=args)
            result = b'"' + "ä\u2028🎁".encode() * 400_000 + b'"'
            apply_one(store, make.finish(claim, detail=result))
            (effect,) = store.look([claim.effect.ref]).effects
            assert effect is not None
            assert (effect.args_json, effect.detail_json) == (args, result)

    def test_apply_keeps_payloads_of_any_bytes(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            strange = bytes(range(256))
            apply_one(store, make.finish(take_claim(store, make, "strange"), detail=strange))
            (found,) = store.look([make.ref("strange")]).effects
            assert found is not None
            assert found.detail_json == strange

    def test_apply_keeps_names_of_any_letters(self) -> None:
        clock = FakeClock()
        for name in ("ürün 🎁", "a|b/c", "'; --", "line\nbreak\ttab", '"quoted"', "\\", "%_", "e\u0301", "x" * 500):
            make = Commands(f"{name[:480]}{os.urandom(4).hex()}", run_id=name, scope=name)
            with self.opened(clock) as store:
                claim = take_claim(store, make, name, call_id=name)
                (found,) = store.look([claim.effect.ref]).effects
                assert found == claim.effect
                assert (found.run_id, found.scope, found.call_id) == (name, name, name)
                assert store.effects(make.tenant, Filter(run_id=name)) == [found]
                check_chain(store, make.tenant, name)

    def test_apply_rests_on_the_stores_clock_for_leases(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect")
            assert claim.effect.lease_until == clock.now() + LEASE
            clock.advance(LEASE - timedelta(microseconds=1))
            assert isinstance(apply_one(store, make.open("effect")), InFlight)
            clock.advance(timedelta(microseconds=1))
            assert isinstance(apply_one(store, make.open("effect")), InDoubt)

    def test_a_store_is_used_from_many_threads_at_once(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:

            def work(number: int) -> None:
                for n in range(5):
                    claim = take_claim(store, make, f"{number}-{n}")
                    assert store.heartbeat(claim, LEASE)
                    assert store.look([claim.effect.ref]).effects[0] is not None
                    assert isinstance(apply_one(store, make.finish(claim)), Moved)
                    assert store.effects(make.tenant, Filter(limit=3))

            in_threads([functools.partial(work, number) for number in range(8)])
            assert len(check_chain(store, make.tenant, "run-1")) == 80
