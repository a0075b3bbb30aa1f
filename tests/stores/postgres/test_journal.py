"""Integrating the journal on PostgreSQL: one statement where nothing is new, and nobody waits."""

from __future__ import annotations

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from indelible.core.journal.journal import Tree
from indelible.errors import OutcomeUnknown, StoreError, StoreUnavailable
from indelible.stores.postgres import PostgresStore, migrate
from indelible.testing.journal_conformance import check_journal
from tests.postgres import PostgresServer
from tests.stores.postgres.disturbing import (
    Traffic,
    a_standby_that_never_answers,
    cancel_waiting_commit,
    cut_connection,
    nobody_answers,
    writer_pid_when_waiting,
)
from tests.stores.postgres.making import TENANT, claim, do, integrate_everything, recording, settle
from tests.waiting import PATIENCE, eventually


def record(store: PostgresStore, count: int, run: str = "order-1") -> None:
    store.apply(TENANT, [recording(run) for _ in range(count)], [None] * count)


def test_integrating_nothing_is_one_statement_that_writes_nothing(
    store: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic
) -> None:
    record(store, 1)
    store.journal.integrate(TENANT, 10)
    before = admin.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
    assert traffic.of(lambda: store.journal.integrate(TENANT, 10)) == ["has_pending"]
    assert admin.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone() == before


def test_nobody_waits_while_events_are_integrated(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    """Somebody holds the lock of the tree; calls, looks and lists go on meanwhile."""
    settle(store, claim(store, 1))
    store.journal.integrate(TENANT, 1)
    with psycopg.connect(admin.info.dsn) as blocker, ThreadPoolExecutor() as pool:
        blocker.execute("SELECT FROM indelible_trees FOR UPDATE")
        integrating = [pool.submit(which.journal.integrate, TENANT, 10) for which in (store, other)]
        writer_pid_when_waiting(admin)
        held = claim(store, 2)
        do(store, recording())
        assert settle(store, held).status == "succeeded"
        assert store.look([held.effect.ref]).effects[0] is not None
        assert len(store.events(TENANT, "order-1", -1, 10)) == 5
        assert not any(future.done() for future in integrating)
        blocker.rollback()
        grown = [future.result(timeout=PATIENCE) for future in integrating]
    assert Tree(5, store.journal.tree(TENANT).root) in grown
    assert len(check_journal(store, TENANT)) == 5


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_an_integration_whose_commit_got_lost_is_finished_and_told(
    is_carried_out: bool, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(store, 5)
    cuts = cut_connection(monkeypatch, "COMMIT", is_carried_out=is_carried_out, times=2)
    grown = store.journal.integrate(TENANT, 10)
    assert len(cuts) == 2
    assert grown is not None
    assert grown == store.journal.tree(TENANT)
    assert grown.size == 5, "what grew is told, even if nothing waited when it was tried again"
    assert len(check_journal(store, TENANT)) == 5


def test_an_integration_that_takes_too_long_takes_less_when_it_is_tried_again(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(store, 3000)
    cuts = cut_connection(monkeypatch, "grow_tree", is_carried_out=False, times=1)
    sizes = [tree and tree.size for tree in (store.journal.integrate(TENANT, 100_000) for _ in range(2))]
    assert (cuts, sizes) == (["grow_tree"], [3000, None]), "a quarter of what one transaction may take, at the most"
    record(store, 3000)
    cut_connection(monkeypatch, "grow_tree", is_carried_out=False, times=3)
    assert [tree and tree.size for tree in (store.journal.integrate(TENANT, 4000) for _ in range(2))] == [3500, 6000]


@pytest.mark.parametrize(("is_sent", "expected"), [(True, OutcomeUnknown), (False, StoreUnavailable)])
def test_an_integration_that_cannot_be_finished_says_whether_it_may_have_taken_place(
    is_sent: bool, expected: type[StoreError], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(PostgresStore(url, wakeups=False)) as store:
        record(store, 5)
        store.journal._seconds = 0.5
        cut_connection(monkeypatch, "COMMIT" if is_sent else "take_pending", is_carried_out=True)
        monkeypatch.setattr("indelible.stores.postgres.connections.open_session", nobody_answers)
        store.journal._line._session = store._writing._session  # the one connection there is
        with pytest.raises(expected):
            store.journal.integrate(TENANT, 10)
        store._writing._session = None
        monkeypatch.undo()
        integrate_everything(store)
        assert len(check_journal(store, TENANT)) == 5


@pytest.mark.parametrize("table", ["indelible_trees", "indelible_pending", "indelible_leaves", "indelible_tiles"])
def test_an_integrator_that_is_killed_in_the_middle_leaves_the_tree_as_it_was(
    table: str, store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    record(store, 300)
    store.journal.integrate(TENANT, 10)
    with psycopg.connect(admin.info.dsn) as blocker, ThreadPoolExecutor() as pool:
        blocker.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        future = pool.submit(store.journal.integrate, TENANT, 1000)
        admin.execute("SELECT pg_terminate_backend(%s)", (writer_pid_when_waiting(admin),))
        assert admin.execute("SELECT size FROM indelible_trees").fetchone() == (10,)
        blocker.rollback()
        assert future.result(timeout=PATIENCE) == store.journal.tree(TENANT)
    assert len(check_journal(store, TENANT)) == 300


def test_an_integrator_that_finds_a_wrong_tile_lets_go_of_the_tree(
    store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    record(store, 10)
    store.journal.integrate(TENANT, 5)
    admin.execute("UPDATE indelible_tiles SET hashes = ''")
    with pytest.raises(ValueError, match="too short"):
        store.journal.integrate(TENANT, 5)
    admin.execute("SET lock_timeout = '100s'")  # for the server to notice that the connection is gone
    admin.execute("SELECT FROM indelible_trees FOR UPDATE")
    assert store.journal.waiting(TENANT) == 5


def test_a_refusal_that_may_pass_is_tried_again(url: str, admin: psycopg.Connection[Any]) -> None:
    admin.execute("ALTER DATABASE " + admin.info.dbname + " SET lock_timeout = '50ms'")
    admin.execute("ALTER DATABASE " + admin.info.dbname + " SET default_transaction_isolation = 'serializable'")
    stores = [PostgresStore(url, wakeups=False) for _ in range(3)]
    for run in range(20):
        record(stores[0], 3, f"order-{run}")
    with psycopg.connect(url) as blocker, ThreadPoolExecutor() as pool:
        blocker.execute("LOCK TABLE indelible_trees IN EXCLUSIVE MODE")
        integrating = [pool.submit(integrate_everything, which) for which in stores]
        writer_pid_when_waiting(admin)
        time.sleep(0.2)
        blocker.rollback()
        for future in integrating:
            future.result(timeout=PATIENCE)
    assert len(check_journal(stores[0], TENANT)) == 60
    for one in stores:
        one.close()


def test_a_tree_is_not_told_before_the_standbys_have_it(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(f"sync_{os.urandom(4).hex()}")
    migrate(url)
    with contextlib.closing(PostgresStore(url, wakeups=False, patience=timedelta(seconds=PATIENCE))) as store:
        record(store, 3)
        with a_standby_that_never_answers(postgres_server) as relent, ThreadPoolExecutor() as pool:
            future = pool.submit(store.journal.integrate, TENANT, 10)
            cancel_waiting_commit(postgres_server)
            cancel_waiting_commit(postgres_server)  # the second one is the commit that was to make sure
            time.sleep(0.3)
            assert not future.done(), "the server said COMMIT, and the standby has nothing"
            relent()
            assert future.result(timeout=PATIENCE) == store.journal.tree(TENANT)
        assert len(check_journal(store, TENANT)) == 3


def test_what_was_taken_is_cleared_away(
    store: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.stores.postgres.journal._CLEAR_AFTER", 200)
    monkeypatch.setattr("indelible.stores.postgres.journal._CLEAR_AT_MOST", 1e9)

    def go_on() -> None:
        for _ in range(20):
            record(store, 100)
            store.journal.integrate(TENANT, 1000)

    assert traffic.of(go_on).count("clear_pending") == 10
    (pages,) = admin.execute("SELECT pg_relation_size('indelible_pending') / 8192").fetchone() or (0,)
    assert pages < 10, "2,000 rows were written, and no more than 300 were ever there at once"
    assert len(check_journal(store, TENANT)) == 2000


def test_whoever_may_not_clear_away_integrates_all_the_same(
    store: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.stores.postgres.journal._CLEAR_AFTER", 1)
    role = f"worker_{os.urandom(4).hex()}"
    admin.execute(f"CREATE ROLE {role} LOGIN")
    admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
    try:
        url = f"postgresql://{role}@/{admin.info.dbname}?host={quote(admin.info.host)}&port={admin.info.port}"
        with contextlib.closing(PostgresStore(url, wakeups=False)) as worker:
            for tries in (1, 0):
                record(worker, 1)
                assert traffic.of(lambda: worker.journal.integrate(TENANT, 5)).count("clear_pending") == tries
            assert len(check_journal(worker, TENANT)) == 2
    finally:
        admin.execute(f"DROP OWNED BY {role}")
        admin.execute(f"DROP ROLE {role}")


def test_an_entry_whose_event_is_gone_is_left_out(store: PostgresStore, admin: psycopg.Connection[Any]) -> None:
    record(store, 3)
    store.journal.integrate(TENANT, 10)
    admin.execute("DELETE FROM indelible_events WHERE seq = 1")
    assert [entry.index for entry in store.journal.entries(TENANT, 0, 10)] == [0, 2]
    assert store.journal.tree(TENANT).size == 3


def test_a_closed_store_integrates_nothing_and_opens_no_connection(store: PostgresStore) -> None:
    record(store, 1)
    line = store.journal._line
    with ThreadPoolExecutor() as pool:
        with line.lock:  # it has passed the check and waits for its turn while the store is closed
            waiting = pool.submit(store.journal.integrate, TENANT, 1)
            closing = pool.submit(store.close)
            eventually(lambda: store._is_closed)
        closing.result(timeout=PATIENCE)
        with contextlib.suppress(StoreUnavailable):
            waiting.result(timeout=PATIENCE)
    assert line._session is None
    with pytest.raises(StoreUnavailable, match="open it again"):
        store.journal.tree(TENANT)
