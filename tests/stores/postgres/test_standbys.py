"""Synchronous replication: nothing is told before it is as durable as the database promises."""

from __future__ import annotations

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from indelible.errors import Misconfigured, OutcomeUnknown
from indelible.stores.postgres import PostgresStore, durability, migrate
from tests.postgres import PostgresServer
from tests.stores.postgres.disturbing import (
    a_standby_that_never_answers,
    cancel_waiting_commit,
    check_chain,
    with_option,
)
from tests.stores.postgres.making import TENANT, claim, settle
from tests.waiting import PATIENCE


def test_a_commit_whose_wait_for_the_standby_was_cancelled_is_made_sure_before_it_is_told(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database(f"sync_{os.urandom(4).hex()}")
    migrate(url)
    store = PostgresStore(url, wakeups=False, patience=timedelta(seconds=PATIENCE))
    claim(store, 1)
    with a_standby_that_never_answers(postgres_server) as relent, ThreadPoolExecutor() as pool:
        future = pool.submit(claim, store, 2)
        cancel_waiting_commit(postgres_server)
        cancel_waiting_commit(postgres_server)  # the second one is the commit that was to make sure
        time.sleep(0.3)
        assert not future.done(), "the server said COMMIT, and the standby has nothing"
        relent()
        held = future.result(timeout=PATIENCE)
    assert settle(store, held).status == "succeeded"
    with psycopg.connect(url) as connection:
        assert check_chain(connection, "order-1") == 3
    store.close()


def test_a_commit_that_no_standby_ever_confirms_is_called_unknown(postgres_server: PostgresServer) -> None:
    """Also where the server was told to keep its warnings to itself: one of them is all that tells us."""
    name = f"sync_{os.urandom(4).hex()}"
    url = postgres_server.create_database(name)
    migrate(url)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} SET client_min_messages = error")
    store = PostgresStore(url, wakeups=False)
    claim(store, 1)
    with a_standby_that_never_answers(postgres_server), ThreadPoolExecutor() as pool:
        store._lane._seconds = 1.0
        future = pool.submit(claim, store, 2)
        cancel_waiting_commit(postgres_server)
        with pytest.raises(OutcomeUnknown):
            future.result(timeout=PATIENCE)
    store.close()
    with pytest.raises(Misconfigured, match="client_min_messages"):
        PostgresStore(with_option(url, "pooler=transaction"))


def test_a_server_that_answers_before_the_disk_has_it_is_told_to_wait(url: str, admin: psycopg.Connection[Any]) -> None:
    admin.execute("ALTER DATABASE " + admin.info.dbname + " SET synchronous_commit = off")
    with contextlib.closing(PostgresStore(url, wakeups=False)) as store:
        session = store._writing._session
        assert session is not None
        assert session.connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        with store.transaction(TENANT) as transaction:
            assert transaction.connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    with pytest.raises(Misconfigured, match="synchronous_commit"):
        PostgresStore(with_option(url, "pooler=transaction"))


def test_durability_is_graded(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(name := f"graded_{os.urandom(4).hex()}")
    report = durability(url)
    assert (report["grade"], report["fsync"], report["standbys"]) == ("single", "on", [])
    assert report["server_version"].split(".")[0].isdigit()
    with a_standby_that_never_answers(postgres_server):
        assert durability(url)["grade"] == "quorum"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    assert durability(url)["grade"] == "unsafe"


@pytest.mark.parametrize("waits_for", ["local", "remote_write"])
def test_a_commit_that_waits_for_no_standbys_disk_is_no_quorum(postgres_server: PostgresServer, waits_for: str) -> None:
    url = postgres_server.create_database(name := f"graded_{os.urandom(4).hex()}")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = {waits_for}".encode())
    with a_standby_that_never_answers(postgres_server):
        assert durability(url)["grade"] != "quorum"
