"""The raw limit on SQLite: the least SQL that keeps an effect, its run's head and one event per transition.

WAL and synchronous=FULL, as a ledger needs them. One caller commits twice per call from its own thread; the writer
thread does the same for many callers, one transaction per batch; the select is what a replay costs at the very least.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw

from benchmarks.calls import RESULT, TOOL, Call
from benchmarks.contestant import Blocking
from benchmarks.raw_lane import Lane, Transition, claim_of, key_of, settlement_of

SCHEMA = """
CREATE TABLE IF NOT EXISTS raw_run (
    tenant TEXT NOT NULL, run_id TEXT NOT NULL, seq INTEGER NOT NULL, head BLOB NOT NULL,
    PRIMARY KEY (tenant, run_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS raw_effect (
    tenant TEXT NOT NULL, run_id TEXT NOT NULL, key BLOB NOT NULL, tool TEXT NOT NULL, status TEXT NOT NULL,
    args BLOB NOT NULL, result BLOB,
    PRIMARY KEY (tenant, run_id, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS raw_event (
    tenant TEXT NOT NULL, run_id TEXT NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (tenant, run_id, seq)) WITHOUT ROWID;
"""

OPEN_EFFECT = (
    "INSERT INTO raw_effect (tenant, run_id, key, tool, status, args) VALUES ('default', ?, ?, ?, 'processing', ?)"
)
OPEN_RUN = """
INSERT INTO raw_run (tenant, run_id, seq, head) VALUES ('default', ?, 0, ?)
ON CONFLICT (tenant, run_id) DO UPDATE SET seq = seq + 1, head = excluded.head RETURNING seq
"""
CLOSE_EFFECT = """
UPDATE raw_effect SET status = 'succeeded', result = ?
WHERE tenant = 'default' AND run_id = ? AND key = ? AND status = 'processing'
"""
MOVE_RUN = "UPDATE raw_run SET seq = seq + 1, head = ? WHERE tenant = 'default' AND run_id = ? RETURNING seq"
APPEND = "INSERT INTO raw_event (tenant, run_id, seq, hash, body) VALUES ('default', ?, ?, ?, ?)"
REPLAY = "SELECT status, result FROM raw_effect WHERE tenant = 'default' AND run_id = ? AND key = ?"


def connect(url: str) -> apsw.Connection:
    """Opens the file a `sqlite:///` address names, durable, with the raw tables in it."""
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.set_busy_timeout(30_000)
    connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    connection.execute(SCHEMA)
    return connection


def write_claim(connection: apsw.Connection, step: Transition) -> None:
    """Writes the first transition of a call; the caller holds the transaction."""
    connection.execute(OPEN_EFFECT, (step.run, step.key, TOOL, step.payload))
    ((seq,),) = connection.execute(OPEN_RUN, (step.run, step.hash)).fetchall()
    connection.execute(APPEND, (step.run, seq, step.hash, step.body))


def write_settlement(connection: apsw.Connection, step: Transition) -> None:
    """Writes the second transition of a call; the caller holds the transaction."""
    connection.execute(CLOSE_EFFECT, (step.payload, step.run, step.key))
    ((seq,),) = connection.execute(MOVE_RUN, (step.hash, step.run)).fetchall()
    connection.execute(APPEND, (step.run, seq, step.hash, step.body))


class RawOne(Blocking):
    """One caller, one connection, two transactions, no thread."""

    def open(self, url: str) -> None:
        self._connection = connect(url)

    def call(self, call: Call) -> Any:
        claim = claim_of(call)
        self._connection.execute("BEGIN IMMEDIATE")
        write_claim(self._connection, claim)
        self._connection.execute("COMMIT")
        settlement = settlement_of(call, claim.key)
        self._connection.execute("BEGIN IMMEDIATE")
        write_settlement(self._connection, settlement)
        self._connection.execute("COMMIT")
        return RESULT

    def replay(self, call: Call) -> Any:
        ((_, result),) = self._connection.execute(REPLAY, (call.run_id, key_of(call))).fetchall()
        return json.loads(result)  # type: ignore[arg-type]

    def close(self) -> None:
        self._connection.close()


class RawWriter(Lane):
    """Many callers, one writer thread, one transaction per batch."""

    def connect(self, url: str) -> None:
        self._connection = connect(url)

    def write(self, claims: Sequence[Transition], settlements: Sequence[Transition]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for step in claims:
            write_claim(self._connection, step)
        for step in settlements:
            write_settlement(self._connection, step)
        self._connection.execute("COMMIT")

    def disconnect(self) -> None:
        self._connection.close()
