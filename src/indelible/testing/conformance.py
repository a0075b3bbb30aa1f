"""The suite that every store passes: one test for each MUST of `indelible.core.ports`, and for what lists promise.

    class TestMyStore(StoreConformance):
        @pytest.fixture(autouse=True)
        def database(self, tmp_path):
            self.url = f"my:///{tmp_path}/ledger"

        def factory(self):
            return functools.partial(MyStore, self.url)

        def handler_writes(self, connection, number):
            connection.execute("INSERT INTO mine VALUES (?)", (number,))

        def handler_wrote(self):
            return [number for (number,) in my_own_connection.execute("SELECT * FROM mine")]

        def tamper(self, tenant, run_id, seq, field, value):
            my_own_connection.execute("UPDATE …", (value, tenant, run_id, seq, field))

A test opens the store as often as it likes; every time it is the same database, and each test has tenants of its own.
"""

from __future__ import annotations

import functools
import os
import random
import select
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

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
from indelible.core.effects.effect import Effect
from indelible.core.events import commitment
from indelible.core.ports import Filter, Outline, Store
from indelible.testing.clock import FakeClock
from indelible.testing.commands import LEASE, Commands, asking
from indelible.testing.comparing import Comparison
from indelible.testing.forgetting_conformance import ForgettingConformance
from indelible.testing.journal_conformance import JournalConformance
from indelible.testing.racing import move_and_tell, open_own_keys, open_same_keys, race, run_to_its_death
from indelible.testing.sheet_lists_conformance import SheetListsConformance
from indelible.testing.sheets_conformance import SheetsConformance
from indelible.testing.suite import PATIENCE, apply_one, check_chain, fail, in_threads, raises, take_claim

MEBIBYTE = 1024 * 1024


class StoreConformance(ForgettingConformance, JournalConformance, SheetsConformance, SheetListsConformance):
    """Holds a store to its contract. Subclass it with the hooks; pytest finds the tests by their names."""

    # Hooks, beside `factory`

    def handler_writes(self, connection: Any, number: int) -> None:
        """Writes a number through a transaction's connection, as a handler would."""
        raise NotImplementedError

    def handler_wrote(self) -> list[int]:
        """Gives the numbers that were written and committed, in any order, seen from outside."""
        raise NotImplementedError

    # apply

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
            ]
            answers = [store.apply(make.tenant, batch, [None] * len(batch)) for batch in batches]
            assert [[type(answer) for answer in batch] for batch in answers] == [
                [Claimed, InFlight],
                [Claimed, InFlight, Moved],
                [AwaitingApproval, Decided],
                [NoSuchEffect, Claimed],
            ]
            assert len(check_chain(store, make.tenant, "run-1")) == 5
            assert len(check_chain(store, make.tenant, "run-2")) == 2

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

    # look and watch

    def test_look_must_give_the_committed_state_of_each_effect_and_none_where_there_is_none(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "here")
            here, nowhere = make.ref("here"), make.ref("nowhere")
            for read in (store.look, store.watch):
                assert read([nowhere, here, nowhere, here]).effects == [None, claim.effect, None, claim.effect]
                assert read([]).effects == []

    def test_look_must_not_give_what_is_not_committed(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect")
            with self.opened(clock) as other, store.transaction(make.tenant) as transaction:
                self.handler_writes(transaction.connection, 1)
                assert other.look([claim.effect.ref]).effects == [claim.effect]
                assert store.look([claim.effect.ref]).effects == [claim.effect]
            assert self.handler_wrote() == []

    def test_look_must_give_what_another_has_committed(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store, self.opened(clock) as other:
            for n in range(5):
                claim = take_claim(store, make, f"effect-{n}")
                assert other.look([claim.effect.ref]).effects == [claim.effect]
                apply_one(other, make.finish(claim))
                (seen,) = store.look([claim.effect.ref]).effects
                assert seen is not None
                assert seen.status == "succeeded"

    def test_look_must_give_the_stores_time(self) -> None:
        clock = FakeClock()
        with self.opened(clock) as store:
            ref = Commands(self.tenant()).ref("effect")
            for read in (store.look, store.watch):
                assert read([ref]).now == clock.now()
                clock.advance(timedelta(seconds=5))
                assert read([ref]).now == clock.now()
        with self.opened() as store:
            first, second = store.look([ref]).now, store.look([ref]).now
            assert first.utcoffset() == timedelta(0)
            assert first <= second

    def test_an_alarm_rings_when_another_process_moves_a_watched_effect(self) -> None:
        """An alarm may get lost, so it is tried a few times; a store without alarms has nothing to ring."""
        tenant = self.tenant()
        make = Commands(tenant)
        with self.opened() as store:
            alarm = store.alarm()
            if alarm is None:
                return
            try:
                apply_one(store, make.ask("watched"))
                store.watch([make.ref("watched")])
                alarm.drain()
                assert race(self.factory(), move_and_tell, [(tenant,)]) == ["Decided"]
                until = time.monotonic() + PATIENCE
                heard: set[str] | None = set()
                while heard is not None and make.ref("watched").key[:16] not in heard:
                    ready, _, _ = select.select([alarm.fileno()], [], [], until - time.monotonic())
                    assert ready, "the alarm did not ring"
                    told = alarm.drain()
                    heard = None if told is None else heard | told
            finally:
                alarm.close()

    # heartbeat

    def test_heartbeat_must_extend_the_lease_while_the_claim_holds_and_say_so(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect")
            clock.advance(timedelta(seconds=20))
            assert store.heartbeat(claim, LEASE) is True
            (seen,) = store.look([claim.effect.ref]).effects
            assert seen == replace(claim.effect, lease_until=clock.now() + LEASE), "and nothing else changed"
            clock.advance(LEASE * 2)
            assert store.heartbeat(claim, LEASE) is True, "as long as nobody has noticed, the claim holds"
            assert isinstance(apply_one(store, make.open("effect")), InFlight)

    def test_heartbeat_must_not_shorten_a_lease(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect", lease=timedelta(hours=1))
            assert store.heartbeat(claim, LEASE) is True
            (seen,) = store.look([claim.effect.ref]).effects
            assert seen is not None
            assert seen.lease_until == clock.now() + timedelta(hours=1)

    def test_heartbeat_must_extend_only_while_the_token_holds(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect")
            assert store.heartbeat(replace(claim, token="00" * 16), LEASE * 9) is False
            assert store.look([claim.effect.ref]).effects == [claim.effect]

    def test_heartbeat_must_extend_only_while_the_attempt_holds(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect")
            other = replace(claim, effect=replace(claim.effect, attempt=2))
            assert store.heartbeat(other, LEASE * 9) is False
            assert store.look([claim.effect.ref]).effects == [claim.effect]

    def test_heartbeat_must_extend_only_while_the_status_is_processing(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            finished = take_claim(store, make, "finished")
            apply_one(store, make.finish(finished))
            doubtful = take_claim(store, make, "doubtful")
            clock.advance(LEASE)
            apply_one(store, make.expire(doubtful.effect.ref))
            nothing = replace(finished, effect=replace(finished.effect, key="00" * 32))
            for claim in (finished, doubtful, nothing):
                assert store.heartbeat(claim, LEASE) is False
            seen = store.look([finished.effect.ref, doubtful.effect.ref]).effects
            assert [effect and (effect.status, effect.lease_until) for effect in seen] == [
                ("succeeded", None),
                ("in_doubt", None),
            ]

    # transaction

    def test_settle_must_commit_the_effect_and_what_the_handler_wrote_together(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect")
            with store.transaction(make.tenant) as transaction:
                self.handler_writes(transaction.connection, 7)
                answer = transaction.settle(make.finish(claim))
                assert isinstance(answer, Moved)
                assert self.handler_wrote() == [7]
            assert store.look([claim.effect.ref]).effects == [answer.effect]
            assert self.handler_wrote() == [7]
            assert len(check_chain(store, make.tenant, "run-1")) == 2

    def test_settle_must_roll_both_back_for_any_other_answer(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect")
            clock.advance(LEASE)
            apply_one(store, make.expire(claim.effect.ref))
            before = store.look([claim.effect.ref]).effects
            with store.transaction(make.tenant) as transaction:
                self.handler_writes(transaction.connection, 7)
                assert isinstance(transaction.settle(make.finish(claim)), Late)
            assert self.handler_wrote() == []
            assert store.look([claim.effect.ref]).effects == before
            take_claim(store, make, "the store is free again")

    def test_settle_must_roll_both_back_for_any_error(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect")
            nothing: Any = None
            poison = replace(make.finish(claim), detail_json=nothing)
            with raises(), store.transaction(make.tenant) as transaction:
                self.handler_writes(transaction.connection, 7)
                transaction.settle(poison)
            assert self.handler_wrote() == []
            assert store.look([claim.effect.ref]).effects == [claim.effect]
            assert isinstance(apply_one(store, make.finish(claim)), Moved)

    def test_a_transaction_that_is_left_without_settling_leaves_nothing(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            claim = take_claim(store, make, "effect")
            with store.transaction(make.tenant) as transaction:
                self.handler_writes(transaction.connection, 7)
            with raises(ZeroDivisionError), store.transaction(make.tenant) as transaction:
                self.handler_writes(transaction.connection, 8)
                fail()
            assert self.handler_wrote() == []
            assert isinstance(apply_one(store, make.finish(claim)), Moved)

    # Reading

    def test_tenants_do_not_see_each_other(self) -> None:
        clock = FakeClock()
        one, other = Commands(self.tenant()), Commands(self.tenant())
        with self.opened(clock) as store:
            mine, theirs = take_claim(store, one, "effect"), take_claim(store, other, "effect")
            assert (mine.effect.scope, mine.effect.key) == (theirs.effect.scope, theirs.effect.key)
            assert store.get_effect(other.tenant, mine.effect.id) is None
            assert store.effects(other.tenant, Filter()) == [theirs.effect]
            assert store.find_by_key(other.tenant, mine.effect.key, None) == theirs.effect
            assert len(store.events(other.tenant, "run-1", -1, 10)) == 1
            assert {payload.value for payload in store.payloads(one.tenant, "run-1", [0])} == {
                b'{"n":1}',
                bytes.fromhex(mine.effect.key),
            }
            apply_one(store, one.finish(mine))
            assert store.look([theirs.effect.ref]).effects == [theirs.effect]
            assert store.abandoned(other.tenant, 10) == []

    def test_get_effect_gives_the_effect_with_this_id_or_the_only_one_whose_id_begins_so(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            first = take_claim(store, make, "a", effect_id="eff_0001").effect
            second = take_claim(store, make, "b", effect_id="eff_0002").effect
            longer = take_claim(store, make, "c", effect_id="eff_00021").effect
            assert store.get_effect(make.tenant, "eff_0001") == first
            assert store.get_effect(make.tenant, "eff_00021") == longer
            assert store.get_effect(make.tenant, "eff_0002") == second, "its own id, though another begins so"
            for nobody in ("eff_0003", "eff_00011", "EFF_0001", "%", "_", "eff_0001 "):
                assert store.get_effect(make.tenant, nobody) is None
            with raises(ValueError):
                store.get_effect(make.tenant, "eff_000")

    def test_find_by_key_gives_the_effect_with_or_without_its_scope(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            effect = take_claim(store, make, "effect").effect
            assert store.find_by_key(make.tenant, effect.key, effect.scope) == effect
            assert store.find_by_key(make.tenant, effect.key, None) == effect
            assert store.find_by_key(make.tenant, effect.key, "another") is None
            assert store.find_by_key(make.tenant, "00" * 32, None) is None

    def test_effects_lists_newest_first_what_fits_the_filter(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            made = {}
            for n in range(6):
                changes: dict[str, Any] = {
                    "effect_id": f"eff_{n}",
                    "run_id": f"run-{n % 2}",
                    "tool": f"tool-{n % 3}",
                    "side_effect": "read" if n < 2 else "payment",
                }
                claim = take_claim(store, make, f"effect-{n}", **changes)
                if n % 2:
                    apply_one(store, make.finish(claim, detail=b'"%d"' % n))
                made[n] = store.look([claim.effect.ref]).effects[0]

            def listed(**words: Any) -> list[Effect]:
                return store.effects(make.tenant, Filter(**words))

            assert listed() == [made[n] for n in (5, 4, 3, 2, 1, 0)]
            assert listed(status="succeeded") == [made[n] for n in (5, 3, 1)]
            assert listed(tool="tool-1") == [made[n] for n in (4, 1)]
            assert listed(run_id="run-0", side_effect="payment") == [made[n] for n in (4, 2)]
            assert listed(before="eff_3", limit=2) == [made[n] for n in (2, 1)]
            assert listed(status="denied") == []

    def test_outlines_lists_newest_first_what_lies_in_a_range_of_ids(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            claims = [take_claim(store, make, f"effect-{n}", effect_id=f"eff_{n}") for n in range(4)]
            apply_one(store, make.finish(claims[2]))
            apply_one(store, make.ask("waiting", effect_id="eff_4", verdict=asking()))
            refs = [claim.effect.ref for claim in claims]
            seen = [effect for effect in store.look(refs).effects if effect is not None]
            expected = [
                Outline(*(getattr(effect, name) for name in Outline._fields))
                for effect in (*seen, *store.effects(make.tenant, Filter(limit=1)))
            ]
            assert store.outlines(make.tenant, "", None, 10) == expected[::-1]
            assert store.outlines(make.tenant, "eff_1", "eff_3", 10) == [expected[2], expected[1]]
            assert store.outlines(make.tenant, "", None, 1) == [expected[4]]
            assert store.outlines(self.tenant(), "", None, 10) == []

    def test_abandoned_lists_what_is_in_doubt_or_past_its_lease_by_the_stores_clock_oldest_first(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            late = take_claim(store, make, "late", effect_id="eff_3")
            doubtful = take_claim(store, make, "doubtful", effect_id="eff_1")
            apply_one(store, make.relinquish(doubtful, "in_doubt"))
            apply_one(store, make.finish(take_claim(store, make, "finished", effect_id="eff_0")))
            question = asking(expires=LEASE / 2)
            apply_one(store, make.ask("waiting", effect_id="eff_2", verdict=question))
            assert [effect.id for effect in store.abandoned(make.tenant, 10)] == ["eff_1"]
            clock.advance(LEASE)
            live = take_claim(store, make, "live", effect_id="eff_4")
            assert [effect.id for effect in store.abandoned(make.tenant, 10)] == ["eff_1", "eff_3"]
            assert [effect.id for effect in store.abandoned(make.tenant, 1)] == ["eff_1"]
            assert store.heartbeat(late, LEASE)
            assert [effect.id for effect in store.abandoned(make.tenant, 10)] == ["eff_1"]
            assert live.effect.status == "processing"

    def test_events_lists_those_numbered_above_in_order(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            for n in range(5):
                take_claim(store, make, f"effect-{n}")
            everything = store.events(make.tenant, "run-1", -1, 100)
            assert [event.seq for event in everything] == [0, 1, 2, 3, 4]
            assert store.events(make.tenant, "run-1", 1, 2) == everything[2:4]
            assert store.events(make.tenant, "run-1", 4, 100) == []
            assert store.events(make.tenant, "nowhere", -1, 100) == []

    def test_payloads_are_what_the_events_commit_to(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            claim = take_claim(store, make, "effect", args_json=b'{"secret":1}')
            apply_one(store, make.finish(claim, detail=b'"result"'))
            events = store.events(make.tenant, "run-1", -1, 10)
            kept = store.payloads(make.tenant, "run-1", [event.seq for event in events])
            assert {(payload.seq, payload.field, payload.value) for payload in kept} == {
                (0, "args", b'{"secret":1}'),
                (0, "key", bytes.fromhex(claim.effect.key)),
                (1, "result", b'"result"'),
            }
            for payload in kept:
                commits = events[payload.seq].read()["commits"]
                assert commits[payload.field] == commitment(payload.salt, payload.field, payload.value)
            assert store.payloads(make.tenant, "run-1", []) == []
            assert store.payloads(make.tenant, "run-1", [99]) == []

    # The store itself

    def test_the_ledgers_name_is_made_once_and_kept(self) -> None:
        with self.opened() as store, self.opened() as other:
            assert store.ledger_name
            assert store.ledger_name == other.ledger_name
        with self.opened() as again:
            assert again.ledger_name == store.ledger_name
            make = Commands(self.tenant())
            take_claim(again, make, "effect")
            (event,) = again.events(make.tenant, "run-1", -1, 1)
            assert event.read()["log"] == f"{again.ledger_name}/{make.tenant}"

    def test_close_may_be_called_twice_and_nothing_works_afterwards(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            take_claim(store, make, "effect")
            store.close()
            store.close()
            with raises():
                apply_one(store, make.open("after"))
