"""What tests do to a PostgreSQL store from outside: count what it sends, cut it off, make it wait, check its rows."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from indelible.core.events import event_hash
from indelible.stores.postgres import PostgresStore
from indelible.stores.postgres.connections import Lost, Session
from tests.postgres import PostgresServer


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
        return self.sent[before:]


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
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = admin.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'indelible' AND wait_event_type = 'Lock'"
        ).fetchone()
        if found is not None:
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError("no backend waits for a lock")


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
            time.sleep(0.2)

    set_names("ghost")
    try:
        yield lambda: set_names("")
    finally:
        set_names("")


def cancel_waiting_commit(server: PostgresServer) -> int:
    with psycopg.connect(server.url, autocommit=True) as connection:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            found = connection.execute(
                "SELECT pid, pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            ).fetchone()
            if found is not None:
                return int(found[0])
            time.sleep(0.01)
    raise AssertionError("no commit waits for a standby")


def with_option(url: str, option: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{option}"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)
