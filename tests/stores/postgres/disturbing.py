"""What tests do to a PostgreSQL store from outside: count what it sends, cut it off, make it wait, check its rows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from indelible.core.events import event_hash
from indelible.stores.postgres import PostgresStore
from indelible.stores.postgres.connections import Lost, Session
from tests.postgres import PostgresServer
from tests.waiting import eventually


class Traffic:
    """Writes down every statement that the store sends, as one line of its text."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        run, command = Session.run, Session.command

        def counted_run(session: Session, statement: Any, values: Any, until: float) -> Any:
            self.sent.append(statement.name.decode().removeprefix("indelible_"))
            return run(session, statement, values, until)

        def counted_command(session: Session, sql: bytes, until: float) -> None:
            self.sent.append(sql.split()[0].decode())
            command(session, sql, until)

        patch.setattr(Session, "run", counted_run)
        patch.setattr(Session, "command", counted_command)

    def of(self, work: Callable[[], object]) -> list[str]:
        before = len(self.sent)
        work()
        # A process asks for the name of a tenant's journal before its first event there, and remembers it.
        return [statement for statement in self.sent[before:] if statement != "read_origin"]


def writer_pid(store: PostgresStore) -> int:
    with store._writing.lock:
        session = store._writing._session
        assert session is not None
        return session.backend_pid


def check_chain(admin: psycopg.Connection[Any], run: str) -> int:
    """Checks that a run's events are numbered without gaps and linked, end at its head, and await the journal once."""
    rows = admin.execute(
        "SELECT seq, hash, body FROM indelible_events WHERE run_id = %s ORDER BY seq", (run,)
    ).fetchall()
    previous = "0" * 64
    for expected, (seq, digest, body) in enumerate(rows):
        content = json.loads(body)
        assert (seq, content["seq"], content["prev"]) == (expected, expected, previous)
        assert digest.hex() == event_hash(body)
        previous = digest.hex()
    assert admin.execute("SELECT count, head FROM indelible_runs WHERE run_id = %s", (run,)).fetchone() == (
        len(rows),
        bytes.fromhex(previous),
    )
    pending = admin.execute("SELECT seq, hash FROM indelible_pending WHERE run_id = %s ORDER BY seq", (run,)).fetchall()
    assert pending == [(seq, digest) for seq, digest, _ in rows]
    return len(rows)


def writer_pid_when_waiting(admin: psycopg.Connection[Any]) -> int:
    """Gives the backend of a store that waits for a lock, once there is one."""
    return int(eventually(lambda: _waiting_for_a_lock(admin))[0])


def _waiting_for_a_lock(admin: psycopg.Connection[Any]) -> list[int]:
    found = admin.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'indelible' AND wait_event_type = 'Lock'"
    )
    return [pid for (pid,) in found]


def lose_while_it_waits(patch: pytest.MonkeyPatch, admin: psycopg.Connection[Any]) -> int:
    """Has a store give up a connection that waits for a lock, as after half its patience; gives the backend's number.

    The backend goes on, and what the store does next waits for the same lock or for the backend.
    """
    stalled, wait = writer_pid_when_waiting(admin), Session._wait

    def given_up(session: Session, until: float, events: int) -> None:
        if session.backend_pid == stalled:
            raise Lost("the server did not answer in time", may_have_run=True)
        wait(session, until, events)

    patch.setattr(Session, "_wait", given_up)
    eventually(lambda: set(_waiting_for_a_lock(admin)) - {stalled})
    return stalled


def give_time(store: PostgresStore, seconds: float) -> None:
    """Has a store go on trying for so long from now on, whatever it has found out about the server."""
    store._target.is_away = False
    for part in (store, store._lane, store.journal):
        part._seconds = seconds


def cut_connection(patch: pytest.MonkeyPatch, statement: str, *, is_carried_out: bool, times: int = 1) -> list[str]:
    """Cuts the connection at a statement: before the server got it, or after it has carried it out."""
    cuts: list[str] = []
    run, command = Session.run, Session.command

    def cut(session: Session, name: str, send: Callable[[], Any]) -> Any:
        if name != statement or len(cuts) >= times:
            return send()
        if is_carried_out:
            send()
        cuts.append(name)
        session.close()
        raise Lost("cut by the test", may_have_run=True)

    def cut_run(session: Session, asked: Any, values: Any, until: float) -> Any:
        name = asked.name.decode().removeprefix("indelible_")
        return cut(session, name, lambda: run(session, asked, values, until))

    def cut_command(session: Session, sql: bytes, until: float) -> Any:
        return cut(session, sql.decode(), lambda: command(session, sql, until))

    patch.setattr(Session, "run", cut_run)
    patch.setattr(Session, "command", cut_command)
    return cuts


def nobody_answers(*_: object) -> None:
    raise Lost("nobody answers", may_have_run=False)


@contextlib.contextmanager
def a_standby_that_never_answers(server: PostgresServer) -> Iterator[Callable[[], None]]:
    """Makes every commit wait for a standby that is not there, until the given function is called."""

    def set_names(names: str) -> None:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = local")
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            connection.execute("SELECT pg_reload_conf()")
        eventually(lambda: _commits_wait(server) == bool(names))

    set_names("ghost")
    try:
        yield lambda: set_names("")
    finally:
        set_names("")


def _commits_wait(server: PostgresServer) -> bool:
    """Tries whether a commit waits for a standby now: the server's processes hear of new settings one by one."""
    with contextlib.closing(psycopg.connect(server.url, autocommit=True)) as trying:

        def is_over() -> bool:
            trying.pgconn.consume_input()
            return not trying.pgconn.is_busy()

        trying.pgconn.send_query(b"SELECT pg_logical_emit_message(true, 'indelible', 'does this wait?')")
        is_waiting = eventually(lambda: is_over() or _waiting_commits(server, trying.info.backend_pid)) is not True
        trying.cancel()
        eventually(is_over)
        return is_waiting


def _waiting_commits(server: PostgresServer, pid: int | None = None) -> list[tuple[int, Any]]:
    with psycopg.connect(server.url, autocommit=True) as connection:
        found = connection.execute("SELECT pid, query_start FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        return [each for each in found if pid in (None, each[0])]


def cancel_waiting_commit(server: PostgresServer) -> None:
    """Cancels a commit that waits for a standby, once there is one, and returns when it waits no more."""
    waiting = eventually(lambda: _waiting_commits(server))[0]
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SELECT pg_cancel_backend(%s)", (waiting[0],))
    eventually(lambda: waiting not in _waiting_commits(server))


def with_option(url: str, option: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{option}"
