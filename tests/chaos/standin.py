"""A tiny ledger with the library's face, on which the harnesses were built. Delete it once `subject.py` is hooked up.

It keeps the rules that the oracle checks (durable claim first, token and attempt in every write, chained events) and
nothing else: no group commit, no wake-ups, no heartbeat.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import apsw
import psycopg

from indelible.errors import (
    EffectFailed,
    EffectInDoubt,
    LeaseLost,
    OutcomeUnknown,
    ResultNotRecorded,
    StillRunning,
    StoreUnavailable,
)

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS effects (key TEXT PRIMARY KEY, run_id TEXT NOT NULL, args TEXT NOT NULL,"
    " status TEXT NOT NULL, attempt INTEGER NOT NULL, token TEXT NOT NULL, lease_until DOUBLE PRECISION NOT NULL,"
    " on_crash TEXT NOT NULL, detail TEXT)",
    "CREATE TABLE IF NOT EXISTS runs (run_id TEXT PRIMARY KEY, count INTEGER NOT NULL, head TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS events (run_id TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL,"
    " PRIMARY KEY (run_id, seq))",
)
POLL = 0.01
Query = Callable[..., list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    run_id: str
    tool: str
    args: dict[str, Any]


def key_of(call: ToolCall) -> str:
    return sha256(json.dumps([call.run_id, call.tool, call.args], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    key: str
    run_id: str
    args: dict[str, Any]
    status: str
    attempt: int
    token: str
    lease_until: datetime
    on_crash: str
    detail_json: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    seq: int
    body: bytes


class SqliteStore:
    name = "SQLite"
    synchronous = "FULL"

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.RLock()
        try:
            self.db = apsw.Connection(path)
            self.db.set_busy_timeout(500)
            self.query("PRAGMA journal_mode=WAL")
            self.query(f"PRAGMA synchronous={self.synchronous}")
            with self.transaction() as query:
                for statement in SCHEMA:
                    query(statement)
        except apsw.Error as error:
            raise StoreUnavailable(f"SQLite {path}: {error}; check the disk and call again") from error

    @contextmanager
    def transaction(self) -> Iterator[Query]:
        with self.lock:
            try:
                self.db.execute("BEGIN IMMEDIATE")
                try:
                    yield self.query
                    self.db.execute("COMMIT")
                finally:
                    if self.db.in_transaction:
                        self.db.execute("ROLLBACK")
            except apsw.Error as error:
                raise StoreUnavailable(f"SQLite {self.path}: {error}; check the disk and call again") from error

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(self.db.execute(sql, values))

    def close(self) -> None:
        self.db.close()


class PostgresStore:
    name = "PostgreSQL"
    heeds_warnings = True

    def __init__(self, url: str) -> None:
        self.url = url
        self.lock = threading.RLock()
        self.db: psycopg.Connection[Any] | None = None
        self.warned = False
        with self.transaction() as query:
            query("SELECT pg_advisory_xact_lock(1)")
            for statement in SCHEMA:
                query(statement)

    @contextmanager
    def transaction(self) -> Iterator[Query]:
        with self.lock:
            self.warned, sent = False, False
            try:
                if self.db is None:
                    self.db = psycopg.connect(self.url, prepare_threshold=None)
                    self.db.add_notice_handler(self._notice)
                yield self.query
                sent = True
                self.db.commit()
            except psycopg.Error as error:
                self._drop()
                if isinstance(error, psycopg.errors.SerializationFailure | psycopg.errors.DeadlockDetected):
                    sent = False
                kind = OutcomeUnknown if sent else StoreUnavailable
                raise kind(f"PostgreSQL: {error}; check the server and call again") from error
            except BaseException:
                self._drop()
                raise
            if self.warned and self.heeds_warnings:
                raise OutcomeUnknown("PostgreSQL: synchronous replication was not waited for; call again")

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        assert self.db is not None
        cursor = self.db.execute(sql.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        self._drop()

    def _notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        self.warned = self.warned or diagnostic.sqlstate == "01000"

    def _drop(self) -> None:
        if self.db is not None:
            self.db.close()
            self.db = None


class Ledger:
    """Runs a call at most once. Its private methods are the seams that `mutants.py` breaks."""

    def __init__(self, store: SqliteStore | PostgresStore, lease: timedelta, wait: timedelta) -> None:
        self.store, self.lease, self.wait = store, lease, wait

    @classmethod
    def open(cls, url: str, *, lease: timedelta, wait: timedelta) -> Ledger:
        is_sqlite = url.startswith("sqlite:///")
        return cls(SqliteStore(url.removeprefix("sqlite:///")) if is_sqlite else PostgresStore(url), lease, wait)

    def close(self) -> None:
        self.store.close()

    def run(self, call: ToolCall, handler: Callable[[Effect], Any], *, on_crash: str = "hold") -> Any:
        until = time.monotonic() + self.wait.total_seconds()
        key = key_of(call)
        token = uuid.uuid4().hex
        while True:
            effect = self._persist(lambda: self._claim(key, call, token, on_crash))
            if effect.status == "processing" and effect.token == token:
                return self._execute(effect, handler)
            if effect.status == "succeeded":
                return json.loads(effect.detail_json or b"null")
            if effect.status == "failed":
                raise EffectFailed(f"{key} failed", effect=effect, error_type="Error")
            if effect.status == "in_doubt":
                raise EffectInDoubt(f"{key} may have happened; settle it")
            if time.monotonic() > until:
                raise StillRunning(f"{key} is being executed; call again")
            threading.Event().wait(POLL)

    def _execute(self, effect: Effect, handler: Callable[[Effect], Any]) -> Any:
        try:
            status, value = "succeeded", handler(effect)
        except Exception as error:
            status, value = "failed", str(error)
        detail = json.dumps(value, sort_keys=True, separators=(",", ":"))
        try:
            settled = self._persist(lambda: self._settle(effect, status, detail))
        except (StoreUnavailable, OutcomeUnknown) as error:
            raise ResultNotRecorded(f"{self.store.name}: {error}", value=value) from error
        if not settled:
            raise LeaseLost(f"{effect.key}: the lease was lost", effect=effect)  # type: ignore[arg-type]
        if status == "failed":
            raise RuntimeError(value)
        return json.loads(detail)

    def _persist(self, change: Callable[[], Any]) -> Any:
        """Repeats a change whose fate is unknown: its token makes the repetition harmless."""
        for patience in (5, 4, 3, 2, 1, 0):
            try:
                return change()
            except (OutcomeUnknown, StoreUnavailable):
                if not patience or isinstance(self.store, SqliteStore):
                    raise
        raise AssertionError

    def _claim(self, key: str, call: ToolCall, token: str, on_crash: str) -> Effect:
        with self.store.transaction() as query:
            # The run's row is the lock: everything below is decided alone.
            query("INSERT INTO runs VALUES (?, 0, ?) ON CONFLICT DO NOTHING", call.run_id, "0" * 64)
            query("UPDATE runs SET count = count WHERE run_id = ?", call.run_id)
            found = self._find(query, key)
            now = time.time()
            if found is None:
                row = (
                    key,
                    call.run_id,
                    json.dumps(call.args),
                    "processing",
                    1,
                    token,
                    now + self.lease.total_seconds(),
                )
                query("INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)", *row, on_crash)
                self._append(query, call.run_id, "claimed")
            elif found.status == "processing" and found.token != token and found.lease_until.timestamp() < now:
                self._take_over(query, found, token, now)
            effect = self._find(query, key)
            assert effect is not None
            return effect

    def _take_over(self, query: Query, found: Effect, token: str, now: float) -> None:
        if found.on_crash != "retry":
            query("UPDATE effects SET status = 'in_doubt' WHERE key = ?", found.key)
            self._append(query, found.run_id, "in_doubt")
            return
        sql = "UPDATE effects SET attempt = attempt + 1, token = ?, lease_until = ? WHERE key = ?"
        query(sql, token, now + self.lease.total_seconds(), found.key)
        self._append(query, found.run_id, "claimed")

    def _settle(self, effect: Effect, status: str, detail: str) -> bool:
        with self.store.transaction() as query:
            query("UPDATE runs SET count = count WHERE run_id = ?", effect.run_id)
            now = self._find(query, effect.key)
            assert now is not None
            if (now.token, now.attempt) == (effect.token, effect.attempt) and now.status == "processing":
                query("UPDATE effects SET status = ?, detail = ? WHERE key = ?", status, detail, effect.key)
                self._append(query, effect.run_id, status)
                return True
            if (now.token, now.status) == (effect.token, status):
                return True
            self._append(query, effect.run_id, "late_result")
            return False

    def _append(self, query: Query, run_id: str, kind: str) -> None:
        [(count, head)] = query("SELECT count, head FROM runs WHERE run_id = ?", run_id)
        body = json.dumps({"prev": head, "run": run_id, "seq": count, "type": kind})
        query("INSERT INTO events VALUES (?, ?, ?)", run_id, count, body)
        link = sha256(b"\0" + body.encode()).hexdigest()
        query("UPDATE runs SET count = count + 1, head = ? WHERE run_id = ?", link, run_id)

    def _find(self, query: Query, key: str) -> Effect | None:
        return next(self._read(query("SELECT * FROM effects WHERE key = ?", key)), None)

    def _read(self, rows: list[tuple[Any, ...]]) -> Iterator[Effect]:
        for key, run_id, args, status, attempt, token, lease_until, on_crash, detail in rows:
            until = datetime.fromtimestamp(lease_until, UTC)
            kept = None if detail is None else detail.encode()
            yield Effect(
                key=key, run_id=run_id, args=json.loads(args), status=status, attempt=attempt, token=token,
                lease_until=until, on_crash=on_crash, detail_json=kept,
            )  # fmt: skip

    def effects(self) -> list[Effect]:
        with self.store.transaction() as query:
            return list(self._read(query("SELECT * FROM effects")))

    def events(self, run_id: str) -> list[Event]:
        with self.store.transaction() as query:
            rows = query("SELECT seq, body FROM events WHERE run_id = ? ORDER BY seq", run_id)
            return [Event(seq=seq, body=body.encode()) for seq, body in rows]

    def heads(self) -> dict[str, tuple[int, str]]:
        with self.store.transaction() as query:
            return {run_id: (count, head) for run_id, count, head in query("SELECT run_id, count, head FROM runs")}


class AsyncLedger:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    async def run(self, call: ToolCall, handler: Callable[[Effect], Any], *, on_crash: str = "hold") -> Any:
        return await asyncio.to_thread(self.ledger.run, call, handler, on_crash=on_crash)
