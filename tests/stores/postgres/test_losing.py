"""The truth after a lost connection: an answer is that of what was committed, or is called unknown."""

from __future__ import annotations

import contextlib
import os
import select
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from indelible.core.commands import Answer, Cancel, Claimed, Decided, Illegal, InDoubt, InFlight, Moved, Relinquish
from indelible.core.effects.effect import Effect
from indelible.errors import OutcomeUnknown, StoreUnavailable
from indelible.stores.postgres import PostgresStore, migrate
from indelible.stores.postgres.connections import Lost, Session
from tests.postgres import PostgresServer
from tests.stores.postgres.disturbing import (
    check_chain,
    cut_connection,
    give_time,
    lose_while_it_waits,
    nobody_answers,
    writer_pid,
    writer_pid_when_waiting,
)
from tests.stores.postgres.making import TENANT, approval, ask, claim, do, finish, opening, settle, stamp
from tests.waiting import PATIENCE, eventually


def test_a_connection_that_died_while_idle_goes_unnoticed(store: PostgresStore, admin: psycopg.Connection[Any]) -> None:
    held = claim(store, 1)
    for work in (lambda: claim(store, 2), lambda: settle(store, held), lambda: store.look([held.effect.ref])):
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'indelible'")
        assert work() is not None
    assert check_chain(admin, "order-1") == 3


def test_a_backend_killed_in_the_middle_of_a_statement_has_written_nothing(
    store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    claim(store, 1)
    with psycopg.connect(admin.info.dsn) as blocker, ThreadPoolExecutor() as pool:
        blocker.execute("LOCK TABLE indelible_payloads IN EXCLUSIVE MODE")
        future = pool.submit(claim, store, 2)
        pid = writer_pid_when_waiting(admin)
        admin.execute("SELECT pg_terminate_backend(%s)", (pid,))
        blocker.rollback()
        held = future.result(timeout=PATIENCE)
    assert settle(store, held).status == "succeeded"
    assert check_chain(admin, "order-1") == 3


def test_a_late_commit_by_the_lost_backend_is_the_one_that_counts(
    url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        contextlib.closing(PostgresStore(url, wakeups=False, patience=timedelta(seconds=PATIENCE))) as store,
        psycopg.connect(url) as blocker,
        ThreadPoolExecutor() as pool,
    ):
        first = claim(store, 1)
        asked = ask(store, 2)
        blocker.execute("LOCK TABLE indelible_pending IN EXCLUSIVE MODE")
        future = pool.submit(do, store, approval(asked), asked.effect)
        # The store looks for the truth on a new connection. There it waits for the old backend, which holds the effect
        # and gets through in the end.
        stalled = lose_while_it_waits(monkeypatch, admin)
        blocker.rollback()
        answer = future.result(timeout=PATIENCE)
        assert isinstance(answer, Decided)
        assert answer.effect.status == "ready"
        assert writer_pid(store) != stalled
        settle(store, first)
    assert check_chain(admin, "order-1") == 4


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_every_command_gets_the_answer_of_what_was_committed_when_the_answer_was_lost(
    is_carried_out: bool, store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    def lossy(statement: str, command: Any, known: Effect | None) -> Answer:
        with pytest.MonkeyPatch.context() as patch:
            cuts = cut_connection(patch, statement, is_carried_out=is_carried_out)
            answer = do(store, command, known)
            assert cuts == [statement]
            return answer

    opened = lossy("open_one", opening(1), None)
    assert isinstance(opened, Claimed)
    assert isinstance(lossy("move_one", finish(opened.claim), opened.claim.effect), Moved)
    gone = Cancel(ref=opening(2).ref, stamp=stamp(), detail_json=b'"changed my mind"')
    given_back = Relinquish(claim=claim(store, 2), stamp=stamp(), status="ready", detail_json=b'"not now"')
    ready = lossy("move_one", given_back, given_back.claim.effect)
    assert isinstance(ready, Moved)
    canceled = lossy("move_one", gone, ready.effect)
    assert isinstance(canceled, Moved), "deciding again on the new state would say that it cannot be canceled"
    assert isinstance(do(store, gone), Illegal)
    assert check_chain(admin, "order-1") == 5


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_batch_whose_answer_was_lost_is_written_once(
    is_carried_out: bool, store: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [opening(number, f"order-{number % 2}") for number in range(10)]
    cuts = cut_connection(monkeypatch, "write_batch", is_carried_out=is_carried_out)
    answers = store.apply(TENANT, commands, [None] * 10)
    assert cuts
    assert [type(answer) for answer in answers] == [Claimed] * 10
    assert [check_chain(admin, run) for run in ("order-0", "order-1")] == [5, 5]


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_lost_commit_under_locks_is_found_again(
    is_carried_out: bool, store: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(store, 1, lease=0.05)
    time.sleep(0.1)
    cuts = cut_connection(monkeypatch, "COMMIT", is_carried_out=is_carried_out, times=2)
    assert isinstance(do(store, opening(1)), InDoubt)
    assert len(cuts) == 2
    assert check_chain(admin, "order-1") == 2


def test_an_event_of_another_in_its_place_is_not_taken_for_ones_own(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(store, 1)
    run = Session.run
    cuts: list[bytes] = []

    def cut_and_let_another_go_first(session: Session, statement: Any, values: Any, until: float) -> Any:
        if statement.name.endswith(b"open_one") and not cuts:
            cuts.append(statement.name)
            claim(other, 3)
            session.close()
            raise Lost("cut by the test", may_have_run=True)
        return run(session, statement, values, until)

    monkeypatch.setattr(Session, "run", cut_and_let_another_go_first)
    held = claim(store, 2)
    assert cuts
    assert settle(store, held).status == "succeeded"
    assert check_chain(admin, "order-1") == 4


def test_the_answer_stands_even_when_others_moved_on_meanwhile(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = claim(store, 1)
    given_back = Relinquish(claim=held, stamp=stamp(), status="ready", detail_json=b'"not now"')
    run = Session.run
    done: list[Answer] = []

    def cut_and_let_another_go_on(session: Session, statement: Any, values: Any, until: float) -> Any:
        found = run(session, statement, values, until)
        if statement.name.endswith(b"move_one") and not done:
            done.append(InFlight(held.effect))
            done.append(do(other, opening(1)))
            session.close()
            raise Lost("cut by the test", may_have_run=True)
        return found

    monkeypatch.setattr(Session, "run", cut_and_let_another_go_on)
    answer = do(store, given_back, held.effect)
    assert isinstance(done[1], Claimed)
    assert isinstance(answer, Moved)
    assert answer.effect.status == "ready", "what was committed, not what became of it"
    assert check_chain(admin, "order-1") == 3


def test_an_outcome_that_cannot_be_learnt_is_called_unknown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresStore(url, wakeups=False)
    claim(store, 2)  # it is connected
    store._lane._seconds = 0.5
    cut_connection(monkeypatch, "open_one", is_carried_out=True)
    monkeypatch.setattr("indelible.stores.postgres.connections.open_session", nobody_answers)
    with pytest.raises(OutcomeUnknown, match="could not be learnt"):
        do(store, opening(1))
    monkeypatch.undo()
    assert isinstance(do(store, opening(1)), InFlight)
    store.close()


def test_a_server_that_is_away_is_told_and_found_again(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(f"away_{os.urandom(4).hex()}")
    migrate(url)
    store = PostgresStore(url, wakeups=False)
    held = claim(store, 1)
    postgres_server.kill()
    # Until its session has gone, and not only said good-bye: a statement sent to it would be in doubt.
    assert store._writing._session is not None
    hearing = select.poll()
    hearing.register(store._writing._session.connection, select.POLLRDHUP)
    assert hearing.poll(PATIENCE * 1000)
    store._lane._seconds = 0.6
    with pytest.raises(StoreUnavailable, match="nothing was written"):
        claim(store, 2)
    store._lane._seconds = store._seconds = 10 * PATIENCE
    for work in (lambda: claim(store, 2), lambda: store.look([held.effect.ref])):
        with pytest.raises(StoreUnavailable):
            work()  # once it is known to be away, callers are told sooner
    postgres_server.start()
    give_time(store, PATIENCE)
    assert settle(store, held).status == "succeeded"
    store.close()


def test_a_server_that_answers_late_is_not_taken_for_one_that_is_away(
    store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    """Else the next caller would have the little time of an outage, in which it answers no sooner, and so for ever."""
    held = claim(store, 1)
    store._target.is_away = True
    with psycopg.connect(admin.info.dsn) as blocker:
        blocker.execute("LOCK TABLE indelible_effects")
        with pytest.raises(StoreUnavailable):
            store.look([held.effect.ref])
    assert not store._target.is_away


def test_a_restart_in_between_is_waited_for(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(f"restart_{os.urandom(4).hex()}")
    migrate(url)
    store = PostgresStore(url, wakeups=False, patience=timedelta(seconds=PATIENCE))
    held = claim(store, 1)
    postgres_server.kill()
    with ThreadPoolExecutor() as pool:
        future = pool.submit(settle, store, held)
        eventually(lambda: store._writing._session is None)  # it has noticed
        postgres_server.start()
        assert future.result(timeout=PATIENCE).status == "succeeded"
    store.close()


def test_an_interrupt_closes_the_connection_and_leaves_the_store_usable(
    store: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(store, 1)
    before = writer_pid(store)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Session, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            do(store, opening(2))
    assert isinstance(do(store, opening(3)), Claimed)
    assert writer_pid(store) != before
    assert check_chain(admin, "order-1") in (2, 3)


def test_serialisation_failures_and_deadlocks_are_tried_again(
    store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    claim(store, 1)
    admin.execute("ALTER DATABASE " + admin.info.dbname + " SET default_transaction_isolation = 'serializable'")
    stores = [PostgresStore(admin.info.dsn, wakeups=False) for _ in range(3)]

    def work(which: int) -> int:
        return len([settle(stores[which], claim(stores[which], 100 * (which + 1) + step)) for step in range(20)])

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(work, range(3))) == [20] * 3
    for one in stores:
        one.close()
    assert check_chain(admin, "order-1") == 121
