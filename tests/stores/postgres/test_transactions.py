"""A handler's own transaction: its writes and the end of its effect are one commit."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from indelible.core.commands import Late, Moved
from indelible.errors import BadCall, StoreUnavailable
from indelible.stores.postgres import PostgresStore
from tests.stores.postgres.disturbing import Traffic, check_chain, cut_connection
from tests.stores.postgres.making import TENANT, claim, finish
from tests.waiting import PATIENCE, eventually


@pytest.fixture
def rows(admin: psycopg.Connection[Any]) -> Callable[[], list[int]]:
    admin.execute("CREATE TABLE handlers_own (number bigint)")
    return lambda: [number for (number,) in admin.execute("SELECT number FROM handlers_own ORDER BY number")]


def insert(connection: Any, number: int) -> None:
    connection.execute("INSERT INTO handlers_own VALUES (%s)", (number,))


def test_a_transaction_commits_the_handlers_writes_with_the_effect(
    store: PostgresStore, admin: psycopg.Connection[Any], rows: Callable[[], list[int]], traffic: Traffic
) -> None:
    held = claim(store, 1)
    with store.transaction(TENANT) as transaction:
        insert(transaction.connection, 1)
        with transaction.connection.transaction():
            insert(transaction.connection, 2)
        assert rows() == []
        answer = transaction.settle(finish(held))
        assert isinstance(answer, Moved)
    assert rows() == [1, 2]
    assert store.look([held.effect.ref]).effects == [answer.effect]
    assert traffic.of(lambda: claim(store, 2)) == ["open_one"], "the head it left is known"
    assert check_chain(admin, "order-1") == 3


def test_it_is_committed_while_others_have_the_lane(store: PostgresStore, rows: Callable[[], list[int]]) -> None:
    """They may have it because they wait for a lock of this very transaction."""
    held = claim(store, 1)
    with store.transaction(TENANT) as transaction, ThreadPoolExecutor() as pool:
        insert(transaction.connection, 1)
        with store._writing.lock:
            settling = pool.submit(transaction.settle, finish(held))
            eventually(lambda: rows() == [1])
        assert isinstance(settling.result(PATIENCE), Moved)


def test_a_transaction_that_is_not_settled_or_came_late_leaves_nothing(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], rows: Callable[[], list[int]]
) -> None:
    held = claim(store, 1, lease=0.05, on_crash="retry")
    with store.transaction(TENANT) as transaction:
        insert(transaction.connection, 1)
    with store.transaction(TENANT) as transaction:
        insert(transaction.connection, 2)
        transaction.rollback()
    time.sleep(0.1)
    claim(other, 1, on_crash="retry")
    with store.transaction(TENANT) as transaction:
        insert(transaction.connection, 3)
        assert isinstance(transaction.settle(finish(held)), Late)
    assert rows() == []
    assert check_chain(admin, "order-1") == 2


def test_a_transaction_can_be_closed_while_its_handler_is_inside_a_statement(
    store: PostgresStore, admin: psycopg.Connection[Any], rows: Callable[[], list[int]]
) -> None:
    with ThreadPoolExecutor() as pool:
        with store.transaction(TENANT) as transaction:
            insert(transaction.connection, 1)
            stuck = pool.submit(transaction.connection.execute, "SELECT pg_sleep(300)")
            eventually(lambda: admin.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").fetchone())
        with pytest.raises(psycopg.OperationalError):
            stuck.result(timeout=PATIENCE)
    assert rows() == []
    assert transaction.connection.closed


def test_a_transaction_can_be_closed_while_its_handler_closes_the_connection(store: PostgresStore) -> None:
    """The connection's number may be given to another line at once: that one must not be cut."""
    with contextlib.ExitStack() as stack:
        with store.transaction(TENANT) as transaction:
            number = transaction.connection.fileno()
            transaction.connection.lock.acquire()  # as its thread holds it at the end of a last statement
            stack.callback(transaction.connection.lock.release)
            transaction.connection.close()
            here, there = map(stack.enter_context, socket.socketpair())
            assert number in (here.fileno(), there.fileno()), "the system gives the lowest free numbers"
        here.send(b"still there")
        assert there.recv(20) == b"still there"


@pytest.mark.parametrize("ending", ["commit", "commit and begin", "close", "failed statement"])
def test_a_handler_that_ends_the_transaction_itself_is_told(
    ending: str, store: PostgresStore, rows: Callable[[], list[int]]
) -> None:
    held = claim(store, 1)
    with store.transaction(TENANT) as transaction:
        connection = transaction.connection
        if ending == "failed statement":
            with contextlib.suppress(psycopg.Error):
                connection.execute("SELECT 1 / 0")
        elif ending == "close":
            connection.close()
        else:
            connection.commit()
            if ending == "commit and begin":
                connection.execute("BEGIN")
                insert(connection, 1)
        with pytest.raises(BadCall, match=r"effect.transaction\(\)"):
            transaction.settle(finish(held))
    assert rows() == []
    seen = store.look([held.effect.ref]).effects[0]
    assert seen is not None
    assert seen.status == "processing"


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_transaction_whose_commit_got_lost_says_what_became_of_it(
    is_carried_out: bool,
    store: PostgresStore,
    admin: psycopg.Connection[Any],
    rows: Callable[[], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = claim(store, 1)
    cuts = cut_connection(monkeypatch, "COMMIT", is_carried_out=is_carried_out)
    with store.transaction(TENANT) as transaction:
        insert(transaction.connection, 1)
        if is_carried_out:
            assert isinstance(transaction.settle(finish(held)), Moved)
        else:
            with pytest.raises(StoreUnavailable, match="nothing was written"):
                transaction.settle(finish(held))
    assert cuts
    assert rows() == ([1] if is_carried_out else [])
    assert check_chain(admin, "order-1") == (2 if is_carried_out else 1)
