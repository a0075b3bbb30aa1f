"""The PostgreSQL that the other tests stand on: it answers, survives being killed, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PostgresServer, PostgresUnavailable


def _one(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def _eventually(condition: object, *, within: float = 10) -> bool:
    deadline = time.monotonic() + within
    while not (met := condition()) and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.02)
    return bool(met)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # In a container whose first process does not collect orphans, a dead one stays as a zombie.
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def test_a_database_is_empty_and_each_test_has_its_own(postgres_url: str) -> None:
    assert _one(postgres_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    assert str(_one(postgres_url, "SELECT current_database()")).startswith("indelible_")


def test_the_store_fixture_gives_both_kinds(store_url: str) -> None:
    assert store_url.startswith(("sqlite:///", "postgresql://"))


def test_it_is_durable_and_roomy(postgres_server: PostgresServer) -> None:
    assert _one(postgres_server.url, "SHOW fsync") == "on"
    assert _one(postgres_server.url, "SHOW synchronous_commit") == "on"
    assert _one(postgres_server.url, "SHOW max_connections") == "300"


def test_it_listens_on_tcp_and_asks_for_the_password_there(postgres_server: PostgresServer) -> None:
    url = postgres_server.url_of("postgres", tcp=True)
    assert _one(url, "SELECT 1") == 1
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url.replace(postgres_server.password, "guess"))


def test_a_killed_server_comes_back_with_what_was_committed(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database("survivor")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    witness = psycopg.connect(url)
    postgres_server.kill()
    with pytest.raises(psycopg.OperationalError):
        _one(url, "SELECT 1")
    postgres_server.start()
    assert _one(url, "SELECT answer FROM kept") == 42
    with pytest.raises(psycopg.OperationalError):
        witness.execute("SELECT 1")
    witness.close()
    postgres_server.drop_database("survivor")


def test_a_server_killed_amid_a_long_query_comes_back(postgres_server: PostgresServer) -> None:
    busy = psycopg.connect(postgres_server.url)
    busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 5000000)")  # does not look up while it counts
    time.sleep(0.1)
    postgres_server.kill()
    postgres_server.start()
    assert _one(postgres_server.url, "SELECT 1") == 1
    busy.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_keeps_address_and_data(postgres_server: PostgresServer, mode: str) -> None:
    url, pid = postgres_server.url, postgres_server.pid
    postgres_server.restart(mode)  # type: ignore[arg-type]
    assert postgres_server.url == url
    assert postgres_server.pid != pid
    assert _one(url, "SELECT 1") == 1


def test_a_test_that_leaves_the_server_dead(postgres_server: PostgresServer, postgres_url: str) -> None:
    postgres_server.kill()
    with pytest.raises(psycopg.OperationalError):
        _one(postgres_url, "SELECT 1")


def test_does_not_disturb_the_next(postgres_url: str) -> None:
    assert _one(postgres_url, "SELECT 1") == 1


def test_a_server_may_be_named_instead(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("INDELIBLE_TEST_POSTGRES", postgres_server.url_of("postgres", tcp=True))
    url: str = request.getfixturevalue("postgres_url")
    assert "@127.0.0.1:" in url
    assert _one(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0


def test_closing_leaves_neither_process_nor_file() -> None:
    with PostgresServer(settings={"max_connections": 10}) as server:
        pid, data = server.pid, server.data
        assert _one(server.url, "SHOW max_connections") == "10"
    assert not data.parent.exists()
    assert not _is_alive(pid)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_test_run_that_is_ended_leaves_neither_process_nor_file(end: signal.Signals) -> None:
    program = """
import sys, time
from tests.postgres import PostgresServer
server = PostgresServer().start()
print(server.pid, server.data.parent, flush=True)
time.sleep(60)
"""
    run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with run:
        assert run.stdout is not None
        pid, home = run.stdout.readline().split()
        assert _is_alive(int(pid))
        run.send_signal(end)
    assert _eventually(lambda: not _is_alive(int(pid)))
    assert _eventually(lambda: not Path(home).exists())


def test_a_server_that_cannot_start_says_why() -> None:
    server = PostgresServer(settings={"shared_preload_libraries": "no_such_library"})
    with pytest.raises(PostgresUnavailable, match="no_such_library"):
        server.start()
    server.close()
