"""A handler that writes to the ledger's own database: its rows and its effect are one commit, so exactly once."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import psycopg
import pytest

from indelible import (
    AsyncLedger,
    Ledger,
    MayHaveHappened,
    NothingHappened,
    RunningEffect,
    Succeeded,
    ToolCall,
    current_effect,
    migrate,
)
from indelible.errors import BadCall, EffectInDoubt, LeaseLost, ResultNotRecorded
from indelible.testing.clock import FakeClock
from tests.scenarios.shells import LEASE, Count, Driver, Gate, Shell, charge, in_thread, types_of
from tests.stores.database import open_file
from tests.waiting import PATIENCE, eventually


class Table:
    """Is a table of the user's own in the ledger's database, looked at from outside."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = f"bookings_{uuid4().hex[:8]}"
        self._execute(f"CREATE TABLE {self._name} (amount integer)")

    def amounts(self) -> list[int]:
        """Lists what is booked and committed."""
        return sorted(row[0] for row in self._execute(f"SELECT amount FROM {self._name}"))

    def end_queries(self, like: str) -> None:
        """Ends what a PostgreSQL server still computes for a client that has gone: it notices only when it answers."""
        if self._url.startswith("postgresql"):
            self._execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '{like}'")

    def insert(self, amount: int) -> str:
        """Gives the statement that books an amount."""
        return f"INSERT INTO {self._name} VALUES ({amount})"

    def book(self, effect: RunningEffect, *amounts: int) -> None:
        """Books amounts in a blocking handler."""
        with effect.transaction() as connection:
            for amount in amounts:
                connection.execute(self.insert(amount))

    def _execute(self, sql: str) -> list[Any]:
        if self._url.startswith("sqlite"):
            connection = open_file(self._url)
            try:
                return list(connection.execute(sql))
            finally:
                connection.close()
        with psycopg.connect(self._url, autocommit=True) as postgres:
            found = postgres.execute(sql)
            return found.fetchall() if found.description else []


@pytest.fixture
def table(scenario_url: str) -> Table:
    """The user's own table."""
    return Table(scenario_url)


def test_what_the_handler_wrote_is_committed_with_its_effect(ledger: Driver, table: Table) -> None:
    def handler(effect: RunningEffect) -> str:
        table.book(effect, 5)
        assert table.amounts() == [], "nothing is visible before the effect is settled"
        return "booked"

    assert ledger.run(charge(), handler) == ledger.run(charge(), handler) == "booked"
    assert table.amounts() == [5]
    assert types_of(ledger) == ["tool_call_started", "tool_call_finished"]


def test_an_asynchronous_handler_has_a_transaction_too(ledger: Driver, table: Table) -> None:
    async def handler(effect: RunningEffect) -> str:
        async with effect.transaction() as connection:
            await asyncio.to_thread(connection.execute, table.insert(5))
        return "booked"

    assert ledger.run(charge(), handler) == ledger.run(charge(), handler) == "booked"
    assert table.amounts() == [5]


@pytest.mark.parametrize("error", [ValueError("no"), NothingHappened("no"), MayHaveHappened("no")])
@pytest.mark.parametrize("place", ["inside", "after"])
def test_what_the_handler_wrote_is_undone_when_it_raises(
    ledger: Driver, table: Table, error: Exception, place: str
) -> None:
    def handler(effect: RunningEffect) -> None:
        with effect.transaction() as connection:
            connection.execute(table.insert(5))
            if place == "inside":
                raise error
        raise error

    with pytest.raises(type(error)):
        ledger.run(charge(), handler)
    assert table.amounts() == []
    assert ledger.effects()[0].status in ("failed", "ready", "in_doubt")
    ledger.run(charge(args={"amount": 6}), lambda effect: table.book(effect, 6))
    assert table.amounts() == [6], "the database is free again"


def test_what_the_handler_wrote_is_undone_with_a_failure_that_its_tool_declares(ledger: Driver, table: Table) -> None:
    def handler(effect: RunningEffect) -> None:
        table.book(effect, 5)
        raise ValueError("sold out")

    with pytest.raises(ValueError, match="sold out"):
        ledger.run(charge(), handler, failed_on=ValueError)
    assert ledger.effects()[0].status == "failed"
    assert table.amounts() == []


def test_what_the_handler_wrote_is_undone_when_its_result_cannot_be_recorded(ledger: Driver, table: Table) -> None:
    def handler(effect: RunningEffect) -> object:
        table.book(effect, 5)
        return object()

    with pytest.raises(ResultNotRecorded):
        ledger.run(charge(), handler)
    assert table.amounts() == []
    assert ledger.effects()[0].status == "in_doubt"


def test_what_a_handler_wrote_after_another_attempt_took_over_is_undone(
    ledger: Driver, table: Table, clock: FakeClock, shell: Shell
) -> None:
    other = shell.open(clock=clock)

    def handler(effect: RunningEffect) -> str:
        clock.advance(LEASE)
        assert other.run(charge(), Count("second"), wait=False, on_crash="retry") == "second"
        table.book(effect, 5)
        return "late"

    with pytest.raises(LeaseLost):
        ledger.run(charge(), handler, on_crash="retry")
    assert table.amounts() == []
    assert ledger.effects()[0].outcome == Succeeded("second")
    assert types_of(ledger)[-1] == "tool_call_late"


def test_what_a_handler_wrote_after_its_lease_was_lost_resolves_the_doubt_in_the_same_commit(
    ledger: Driver, table: Table, clock: FakeClock, shell: Shell
) -> None:
    other = shell.open(clock=clock)

    def handler(effect: RunningEffect) -> str:
        clock.advance(LEASE)
        with pytest.raises(EffectInDoubt):
            other.run(charge(), Count(), wait=False)
        table.book(effect, 5)
        return "late"

    assert ledger.run(charge(), handler) == "late"
    assert table.amounts() == [5]
    assert ledger.effects()[0].outcome == Succeeded("late")
    assert types_of(ledger) == ["tool_call_started", "tool_call_in_doubt", "tool_call_finished"]


def test_a_handler_that_ran_out_of_time_and_lost_its_rows_does_not_succeed_late(place: dict[str, Any]) -> None:
    table, gate = Table(place["url"]), Gate("booked")

    def handler(effect: RunningEffect) -> Any:
        with effect.transaction() as connection:
            connection.execute(table.insert(5))
        return gate(effect)

    with Ledger.open(**place) as ledger:
        with pytest.raises(TimeoutError):
            ledger.run(charge(), handler, timeout=timedelta(milliseconds=500))
        gate.await_entry()
        gate.open()
        eventually(lambda: not [one for one in threading.enumerate() if one.name.startswith("indelible-handler")])
        eventually(lambda: not [one for one in threading.enumerate() if one.name == "indelible-late"])
        assert table.amounts() == []
        assert ledger.effects()[0].status == "in_doubt", "its rows were undone, so its result is not true"


def test_a_transaction_whose_error_the_handler_swallows_leaves_no_rows_and_no_lock(
    ledger: Driver, table: Table
) -> None:
    def handler(effect: RunningEffect) -> str:
        try:
            with effect.transaction() as connection:
                connection.execute(table.insert(5))
                raise ValueError("never mind")
        except ValueError:
            return "done without"

    assert ledger.run(charge(), handler) == "done without"
    assert table.amounts() == []


def test_a_handler_has_one_transaction(ledger: Driver, table: Table) -> None:
    def handler(effect: RunningEffect) -> None:
        table.book(effect, 5)
        table.book(effect, 6)

    with pytest.raises(BadCall, match="one transaction"):
        ledger.run(charge(), handler)
    assert table.amounts() == []


def test_the_ledger_cannot_be_called_inside_a_transaction(place: dict[str, Any], table: Table) -> None:
    with Ledger.open(**place) as ledger:

        def handler(effect: RunningEffect) -> None:
            with effect.transaction():
                ledger.run(charge(tool="other"), Count())

        with pytest.raises(BadCall, match="is inside"):
            ledger.run(charge(), handler)
        ledger.run(charge(args={"amount": 6}), Count())


def test_effects_settled_in_a_transaction_wake_those_who_wait(ledger: Driver, table: Table) -> None:
    gate = Gate()

    def handler(effect: RunningEffect) -> str:
        gate(effect)
        table.book(effect, 5)
        return "booked"

    winner = ledger.spawn("run", charge(), handler)
    gate.await_entry()
    waiter = ledger.spawn("run", charge(), Count())
    gate.open()
    assert winner.result(PATIENCE) == waiter.result(PATIENCE) == "booked"


def test_many_handlers_with_transactions_take_turns(ledger: Driver, table: Table) -> None:
    def booking(amount: int) -> Any:
        return ledger.spawn("run", charge(args={"amount": amount}), lambda effect: table.book(effect, amount))

    for call in [booking(amount) for amount in range(12)]:
        call.result(PATIENCE)
    assert table.amounts() == list(range(12))


@pytest.mark.parametrize(("side_effect", "status"), [("write", "failed"), ("payment", "in_doubt")])
def test_a_statement_that_fails_fails_a_write_and_frees_the_database(
    ledger: Driver, table: Table, side_effect: Any, status: str
) -> None:
    def handler(effect: RunningEffect) -> None:
        with effect.transaction() as connection:
            connection.execute("INSERT INTO nowhere VALUES (5)")

    with pytest.raises((apsw.SQLError, psycopg.errors.UndefinedTable)):
        ledger.run(charge(), handler, side_effect=side_effect)
    assert ledger.effects()[0].status == status
    ledger.run(charge(args={"amount": 6}), lambda effect: table.book(effect, 6))
    assert table.amounts() == [6]


def test_a_handler_that_ends_the_transaction_itself_is_told_so(ledger: Driver, table: Table) -> None:
    def handler(effect: RunningEffect) -> str:
        with effect.transaction() as connection:
            connection.execute(table.insert(5))
            connection.execute("COMMIT")
        return "booked"

    with pytest.raises((BadCall, ResultNotRecorded)):
        ledger.run(charge(), handler)
    assert ledger.effects()[0].status == "in_doubt", "its rows are there, its effect could not be settled with them"


# ── handlers that are given up on ────────────────────────────────────────────────────────────────────────────────────


def assert_free(ledger: Driver) -> None:
    """Somebody else can still use the ledger."""
    assert ledger.spawn("run", charge(args={"amount": 99}), Count("free")).result(PATIENCE) == "free"


def run_out_of_time(ledger: Driver, handler: Callable[[RunningEffect], Any], entered: threading.Event) -> None:
    """Lets a handler's time run out; again, where a busy machine had not even a thread for it in that time."""
    for amount in itertools.count(5):
        with pytest.raises(TimeoutError):
            ledger.run(charge(args={"amount": amount}), handler, timeout=timedelta(milliseconds=200))
        if entered.is_set():
            return


def test_a_handler_that_ran_out_of_time_cannot_write_any_more(ledger: Driver, table: Table) -> None:
    gate, ended = Gate(), threading.Event()

    def handler(effect: RunningEffect) -> None:
        try:
            with effect.transaction() as connection:
                connection.execute(table.insert(1))
                gate(effect)
                connection.execute(table.insert(2))
        finally:
            ended.set()

    run_out_of_time(ledger, handler, gate.entered)
    assert ledger.effects()[0].status == "in_doubt"
    gate.open()
    assert ended.wait(PATIENCE)
    assert_free(ledger)
    assert table.amounts() == []


def test_a_handler_that_ran_out_of_time_cannot_lock_the_ledger_afterwards(ledger: Driver, table: Table) -> None:
    gate, ended = Gate(), threading.Event()

    def handler(effect: RunningEffect) -> None:
        try:
            gate(effect)
            table.book(effect, 1)
        finally:
            ended.set()

    run_out_of_time(ledger, handler, gate.entered)
    gate.open()
    assert ended.wait(PATIENCE)
    assert_free(ledger)
    assert table.amounts() == []


def test_a_task_cancelled_while_it_waits_for_its_transaction_does_not_lock_the_ledger(
    place: dict[str, Any], table: Table
) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            is_held, may_end, asks = asyncio.Event(), asyncio.Event(), asyncio.Event()
            both_are_claimed = asyncio.Event()

            async def holder(effect: RunningEffect) -> None:
                await both_are_claimed.wait()
                async with effect.transaction() as connection:
                    connection.execute(table.insert(1))
                    is_held.set()
                    await may_end.wait()

            async def second(effect: RunningEffect) -> None:
                both_are_claimed.set()
                await is_held.wait()
                asks.set()
                async with effect.transaction() as connection:
                    connection.execute(table.insert(2))

            first_call = asyncio.create_task(ledger.run(charge(), holder))
            second_call = asyncio.create_task(ledger.run(charge(args={"amount": 6}), second))
            await asks.wait()
            second_call.cancel()
            may_end.set()
            async with asyncio.timeout(PATIENCE):
                await first_call
                with pytest.raises(asyncio.CancelledError):
                    await second_call
                assert await ledger.run(charge(args={"amount": 7}), Count("free")) == "free"
            by_amount = {effect.args["amount"]: effect.status for effect in await ledger.effects()}
            assert by_amount[6] == "in_doubt"

    asyncio.run(scenario())
    assert table.amounts() == [1]


def test_a_blocking_handler_in_a_notebook_has_its_transaction(place: dict[str, Any], table: Table) -> None:
    """Notebooks call blocking code from a thread whose loop is running."""

    async def cell() -> Any:
        with Ledger.open(**place) as ledger:
            return ledger.run(charge(), lambda effect: table.book(effect, 5))

    asyncio.run(cell())
    assert table.amounts() == [5]


def test_a_blocking_with_in_a_coroutine_is_refused(ledger: Driver, table: Table) -> None:
    async def handler(effect: RunningEffect) -> None:
        with effect.transaction():
            raise AssertionError("not reached")

    with pytest.raises(BadCall, match="async with"):
        ledger.run(charge(), handler)


def test_two_ledgers_on_one_file_do_not_wait_for_each_other_in_one_thread(place: dict[str, Any], table: Table) -> None:
    with Ledger.open(**place) as one, Ledger.open(**place) as other:

        def handler(effect: RunningEffect) -> str:
            with effect.transaction() as connection:
                connection.execute(table.insert(5))
                try:
                    other.run(charge(tool="other"), Count())
                except BadCall:
                    return "refused"
            return "done"

        assert in_thread(lambda: one.run(charge(), handler)).result(PATIENCE) in ("refused", "done")


def test_a_handler_that_ran_out_of_time_inside_a_statement_is_stopped(ledger: Driver, table: Table) -> None:
    """A recursive query of more than a minute: nobody can wait for its end."""
    forever = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000000) SELECT count(*) FROM n"
    )
    entered, ended = threading.Event(), threading.Event()

    def handler(effect: RunningEffect) -> None:
        entered.set()
        try:
            with effect.transaction() as connection:
                connection.execute(table.insert(1))
                list(connection.execute(forever))
        finally:
            ended.set()

    try:
        run_out_of_time(ledger, handler, entered)
        assert ended.wait(PATIENCE)
        assert_free(ledger)
        assert table.amounts() == []
    finally:
        table.end_queries("WITH RECURSIVE%")


@pytest.mark.parametrize("side_effect", ["external_mutation", "write"])
def test_a_handler_broken_off_by_its_time_limit_is_in_doubt_and_not_failed(
    ledger: Driver, table: Table, monkeypatch: pytest.MonkeyPatch, side_effect: Any
) -> None:
    """Losing its transaction makes the handler raise, perhaps before its caller has noted the doubt."""
    gate = Gate()

    def handler(effect: RunningEffect) -> None:
        with effect.transaction() as connection:
            gate(effect)
            connection.execute(table.insert(1))

    give_up = RunningEffect.give_up

    def give_up_slowly(running: RunningEffect) -> None:
        give_up(running)
        gate.open()
        eventually(lambda: "indelible-handler" not in {thread.name for thread in threading.enumerate()})

    monkeypatch.setattr(RunningEffect, "give_up", give_up_slowly)
    with pytest.raises(TimeoutError):
        ledger.run(charge(), handler, timeout=timedelta(milliseconds=200), side_effect=side_effect)
    eventually(lambda: "indelible-late" not in {thread.name for thread in threading.enumerate()})
    assert ledger.effects()[0].status == "in_doubt"


def test_the_current_effect_is_known_inside_a_transaction(ledger: Driver, table: Table) -> None:
    seen: list[Any] = []

    def handler(effect: RunningEffect) -> None:
        with effect.transaction():
            seen.append(current_effect())

    ledger.run(ToolCall(tool="t", run_id="order-1"), handler)
    assert seen[0].tool == "t"


def test_another_ledger_in_memory_may_be_used_inside_a_transaction() -> None:
    with Ledger.open(":memory:") as outer, Ledger.open(":memory:") as inner:

        def handler(effect: RunningEffect) -> Any:
            with effect.transaction():
                return inner.run(charge(), Count("inner"))

        assert outer.run(charge(), handler) == "inner"


def test_05_a_cursor_that_outlives_the_handler_with_rows_unread_leaves_no_doubt(ledger: Driver, table: Table) -> None:
    """SQLite committed nothing, and the effect was in doubt because of a lock that no program held."""
    kept: list[Any] = []

    def add(effect: RunningEffect) -> Any:
        with effect.transaction() as connection:
            kept.append(connection.cursor())
            kept[0].execute(f"{table.insert(5)} RETURNING amount")
            kept.append(connection.execute(f"{table.insert(6)} RETURNING amount"))
            return kept[0].fetchone()[0]

    assert ledger.run(charge(), add, side_effect="write") == 5
    assert table.amounts() == [5, 6]
    assert [effect.status for effect in ledger.effects()] == ["succeeded"]


def test_05_statements_that_a_handler_left_unrun_are_not_passed_over(tmp_path: Path) -> None:
    kept: list[Any] = []

    def add(effect: RunningEffect) -> None:
        with effect.transaction() as connection:
            connection.execute("CREATE TABLE kept (amount integer)")
            kept.append(connection.execute("SELECT 1; INSERT INTO kept VALUES (5)"))

    url = f"sqlite:///{tmp_path}/ledger.db"
    migrate(url)
    with Ledger.open(url) as ledger:
        with pytest.raises(ResultNotRecorded):
            ledger.run(charge(), add, side_effect="write")
        assert [effect.status for effect in ledger.effects()] == ["in_doubt"]
