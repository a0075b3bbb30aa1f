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

from dataclasses import replace
from datetime import timedelta
from typing import Any

from indelible.core.commands import InFlight, Late, Moved
from indelible.testing.apply_conformance import ApplyConformance
from indelible.testing.clock import FakeClock
from indelible.testing.commands import LEASE, Commands
from indelible.testing.forgetting_conformance import ForgettingConformance
from indelible.testing.journal_conformance import JournalConformance
from indelible.testing.reading_conformance import ReadingConformance
from indelible.testing.sheet_lists_conformance import SheetListsConformance
from indelible.testing.sheets_conformance import SheetsConformance
from indelible.testing.suite import apply_one, check_chain, fail, raises, take_claim


class StoreConformance(
    ApplyConformance,
    ReadingConformance,
    ForgettingConformance,
    JournalConformance,
    SheetsConformance,
    SheetListsConformance,
):
    """Holds a store to its contract. Subclass it with the hooks; pytest finds the tests by their names."""

    # heartbeat

    def test_heartbeat_must_extend_the_lease_while_the_claim_holds_and_say_so(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect")
            clock.advance(timedelta(seconds=20))
            assert store.heartbeat(claim, LEASE) is True
            (seen,) = store.look([claim.effect.ref]).effects
            assert seen == replace(claim.effect, lease_until=clock.now() + LEASE), "and nothing else changed"
            clock.advance(LEASE * 0.9)
            assert isinstance(apply_one(store, make.open("effect")), InFlight)

    def test_heartbeat_must_extend_only_while_the_lease_holds(self) -> None:
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            claim = take_claim(store, make, "effect")
            clock.advance(LEASE)
            assert store.heartbeat(claim, LEASE) is False, "also while nobody has noticed"
            assert store.look([claim.effect.ref]).effects == [claim.effect]
            late = apply_one(store, make.finish(claim))
            assert isinstance(late, Moved), "its report still counts"

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
            apply_one(store, make.settle(claim.effect.ref))
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
            assert event.read()["log"] == again.origin(make.tenant) == f"{again.ledger_name}/{make.tenant}"

    def test_close_may_be_called_twice_and_nothing_works_afterwards(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            take_claim(store, make, "effect")
            store.close()
            store.close()
            with raises():
                apply_one(store, make.open("after"))
