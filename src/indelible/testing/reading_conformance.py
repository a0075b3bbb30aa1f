"""The cases of the suite about reading: effects, lists of them, events and payloads; and the alarm of a change."""

from __future__ import annotations

import select
import time
from datetime import datetime, timedelta
from typing import Any

from indelible.core.effects.effect import Effect
from indelible.core.events import commitment
from indelible.core.ports import Filter, Outline
from indelible.errors import BadCall
from indelible.testing.clock import FakeClock
from indelible.testing.commands import LEASE, Commands, asking
from indelible.testing.racing import move_and_tell, race
from indelible.testing.suite import PATIENCE, Suite, apply_one, raises, take_claim


class ReadingConformance(Suite):
    """Holds a store to its contract for reading."""

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

    def test_find_by_key_must_refuse_a_key_of_several_scopes(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            effect = take_claim(store, make, "effect").effect
            take_claim(store, Commands(make.tenant, "run-2", "scope-2"), "effect")
            assert store.find_by_key(make.tenant, effect.key, effect.scope) == effect
            with raises(BadCall):
                store.find_by_key(make.tenant, effect.key, None)

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

    def test_alike_lists_what_has_one_of_these_digests_and_was_opened_since_then_but_no_reads(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            for number, (key, side_effect) in enumerate(
                [("a", "payment"), ("b", "payment"), ("c", "read"), ("d", "write"), ("e", "payment")]
            ):
                digest = "ab" * 32 if key != "e" else "cd" * 32
                apply_one(store, make.ask(key, effect_id=f"eff_{number}", digest=digest, side_effect=side_effect))
            long_ago = store.look([]).now - timedelta(hours=1)

            def ids(*digests: str, since: datetime = long_ago, limit: int = 10) -> list[str]:
                return sorted(one.id for one in store.alike(make.tenant, digests, since, limit))

            assert ids("ab" * 32) == ["eff_0", "eff_1", "eff_3"]
            assert ids("ab" * 32, "cd" * 32) == ["eff_0", "eff_1", "eff_3", "eff_4"]
            assert ids("ef" * 32) == []
            assert ids() == []
            assert ids("ab" * 32, since=store.look([]).now + timedelta(hours=1)) == []
            assert len(ids("ab" * 32, "cd" * 32, limit=2)) == 2
            (found,) = store.alike(make.tenant, ["cd" * 32], long_ago, 1)
            effect = store.get_effect(make.tenant, "eff_4")
            assert found == Outline(*(getattr(effect, name) for name in Outline._fields))
            assert store.alike(self.tenant(), ["ab" * 32], long_ago, 10) == []

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
            apply_one(store, make.finish(late))
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
