"""The proxy does to a real client and a real server what each fault is named after, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import errors

from tests.chaos.fault_proxy import KINDS, FaultProxy, Kind, Plan
from tests.chaos.wire import Exchange, Gatherer, Message, query
from tests.postgres import PostgresServer, fresh_database
from tests.waiting import eventually

INSERT = "INSERT INTO marks VALUES (%s) RETURNING id"
OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
Warnings = list[str | None]


@pytest.fixture(scope="module")
def tcp_url() -> Iterator[str]:
    with PostgresServer(fsync=False) as server, fresh_database(server.url) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE marks (id int)")
        yield server.url_of(urlsplit(url).path[1:], tcp=True)


@pytest.fixture
def marks(tcp_url: str) -> Iterator[psycopg.Connection[tuple[int]]]:
    """A connection around the proxy."""
    with psycopg.connect(tcp_url, autocommit=True) as connection:
        # What the test before sent and gave up may still be on its way into the table.
        eventually(lambda: connection.execute(OTHERS).fetchone() == (0,))
        connection.execute("TRUNCATE marks")
        yield connection


def always(kind: Kind, word: str = "INSERT") -> Plan:
    return Plan(rate=1.0, kinds=(kind,), stall=0.01, spares=lambda exchange: word not in exchange.sql)


def count(connection: psycopg.Connection[tuple[int]]) -> int:
    row = connection.execute("SELECT count(*) FROM marks").fetchone()
    assert row is not None
    return row[0]


def warned(connection: psycopg.Connection[tuple[int]]) -> Warnings:
    seen: Warnings = []
    connection.add_notice_handler(lambda notice: seen.append(notice.sqlstate))
    return seen


def test_without_faults_everything_passes(tcp_url: str, marks: psycopg.Connection[tuple[int]]) -> None:
    with FaultProxy(tcp_url, Plan(rate=0.0)) as proxy:
        with psycopg.connect(proxy.url) as client:
            client.execute(INSERT, (1,))
            with client.cursor().copy("COPY marks FROM STDIN") as copy:
                copy.write_row((2,))
        with psycopg.connect(proxy.url, autocommit=True) as client:
            with pytest.raises(errors.UndefinedTable):
                client.execute("SELECT * FROM nowhere")
            with client.pipeline():
                for number in range(5):
                    client.execute(INSERT, (number,))
        assert sum(proxy.faults.values()) == 0
    assert count(marks) == 7


def test_notifications_pass_at_any_time(tcp_url: str, marks: psycopg.Connection[tuple[int]]) -> None:
    with FaultProxy(tcp_url, Plan(rate=1.0)) as proxy, psycopg.connect(proxy.url, autocommit=True) as client:
        client.execute("LISTEN news")
        marks.execute("NOTIFY news, 'hello'")
        assert [notify.payload for notify in client.notifies(timeout=10, stop_after=1)] == ["hello"]


@pytest.mark.parametrize(("kind", "rows"), [("cut before", 0), ("cut after", 1)])
def test_cuts_of_a_statement_of_its_own(
    tcp_url: str, marks: psycopg.Connection[tuple[int]], kind: Kind, rows: int
) -> None:
    with FaultProxy(tcp_url, always(kind)) as proxy, psycopg.connect(proxy.url, autocommit=True) as client:
        with pytest.raises(psycopg.OperationalError):
            client.execute(INSERT, (1,))
        assert client.broken
        assert proxy.faults == {kind: 1}
    assert count(marks) == rows


@pytest.mark.parametrize(("kind", "rows"), [("cut before", 0), ("cut after", 1)])
def test_cuts_of_a_commit(tcp_url: str, marks: psycopg.Connection[tuple[int]], kind: Kind, rows: int) -> None:
    with FaultProxy(tcp_url, always(kind, "COMMIT")) as proxy, psycopg.connect(proxy.url) as client:
        client.execute(INSERT, (1,))
        with pytest.raises(psycopg.OperationalError):
            client.commit()
    assert count(marks) == rows


def test_a_cut_while_the_server_is_at_work(tcp_url: str, marks: psycopg.Connection[tuple[int]]) -> None:
    """The cut and the server's answer race each other, so now and then the answer gets through."""
    cut = 0
    with FaultProxy(tcp_url, always("cut during")) as proxy:
        for number in range(20):
            with psycopg.connect(proxy.url, autocommit=True) as client:
                try:
                    client.execute(INSERT, (number,))
                except psycopg.OperationalError:
                    cut += 1
        assert proxy.faults == {"cut during": 20}
    assert cut >= 10
    assert count(marks) <= 20


@pytest.mark.parametrize(
    ("kind", "error"), [("serialization", errors.SerializationFailure), ("deadlock", errors.DeadlockDetected)]
)
@pytest.mark.parametrize("where", ["own", "block", "commit"])
def test_conflicts_roll_back_and_leave_the_connection_usable(
    tcp_url: str, marks: psycopg.Connection[tuple[int]], kind: Kind, error: type[Exception], where: str
) -> None:
    plan = always(kind, "COMMIT" if where == "commit" else "(99")
    with FaultProxy(tcp_url, plan) as proxy, psycopg.connect(proxy.url, autocommit=where == "own") as client:
        if where != "own":
            client.execute(INSERT, (1,))
        with pytest.raises(error):
            client.execute("INSERT INTO marks VALUES (99)") if where != "commit" else client.commit()
        if where == "block":
            with pytest.raises(errors.InFailedSqlTransaction):
                client.execute("SELECT 1")
            client.rollback()
        assert client.execute("SELECT 7").fetchone() == (7,)
        client.rollback()
    assert count(marks) == 0


@pytest.mark.parametrize("kind", ["stall before", "stall after"])
def test_stalls_only_delay(tcp_url: str, marks: psycopg.Connection[tuple[int]], kind: Kind) -> None:
    with FaultProxy(tcp_url, always(kind)) as proxy, psycopg.connect(proxy.url, autocommit=True) as client:
        assert client.execute(INSERT, (1,)).fetchone() == (1,)
        assert proxy.faults == {kind: 1}
    assert count(marks) == 1


@pytest.mark.parametrize(("kind", "rows"), [("warned", 1), ("warned and lost", 0)])
@pytest.mark.parametrize("is_own", [True, False])
def test_commits_that_no_replica_has(
    tcp_url: str, marks: psycopg.Connection[tuple[int]], kind: Kind, rows: int, is_own: bool
) -> None:
    plan = always(kind, "INSERT" if is_own else "COMMIT")
    with FaultProxy(tcp_url, plan) as proxy, psycopg.connect(proxy.url, autocommit=is_own) as client:
        seen = warned(client)
        assert client.execute(INSERT, (1,)).fetchone() == (1,)
        client.commit()
        assert seen == ["01000"]
        assert client.info.transaction_status.name == "IDLE"
        assert client.execute("SELECT 7").fetchone() == (7,)
    assert count(marks) == rows


def test_a_refused_connection(tcp_url: str) -> None:
    with FaultProxy(tcp_url, Plan(rate=10.0, kinds=("refused",))) as proxy:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(proxy.url)
        assert proxy.faults["refused"] == 1


def test_the_same_seed_gives_the_same_faults() -> None:
    plan, other = Plan(seed=3), Plan(seed=4)
    exchange = Exchange(messages=[query("INSERT INTO marks VALUES (1)")], sql="INSERT INTO marks VALUES (1)")
    fates = [plan.decide(number, exchange) for number in range(1000)]
    assert fates == [plan.decide(number, exchange) for number in range(1000)]
    assert fates != [other.decide(number, exchange) for number in range(1000)]
    assert set(fates) == {None, *KINDS} - {"refused"}


def test_an_exchange_knows_its_statement_by_the_name_it_was_prepared_under() -> None:
    gatherer = Gatherer()
    assert gatherer.add(Message(b"P", b"one\0UPDATE marks SET id = 1\0\0\0")) is None
    assert gatherer.add(Message(b"S", b"")) is not None
    gatherer.add(Message(b"B", b"\0one\0\0\0\0\0\0\0"))
    gatherer.add(Message(b"E", b"\0\0\0\0\0"))
    exchange = gatherer.add(Message(b"S", b""))
    assert exchange is not None
    assert (exchange.sql, exchange.is_write) == ("UPDATE marks SET id = 1", True)
