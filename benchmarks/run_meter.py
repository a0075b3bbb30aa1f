"""Measures one thing about a run in a process of its own: `python -m benchmarks.run_meter DO URL RUN NUMBER`.

`DO` is fill, append, inspect, resume, verify, record, record_100, write, count, raw or raw_100. Prints JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import apsw
import psycopg

from benchmarks.verifier import _peak_mb

BATCH = 100
FILLING = 500
# One event in ten tells of work done, as in a run that calls tools; only those are receipts.
PROGRESS_EVERY = 10
LEASE = timedelta(minutes=10)
WARM_UP = 20
PAYLOAD = {"lead": "lead-4711", "note": "x" * 120, "score": 17}
RAW_SCHEMA = """
CREATE TABLE IF NOT EXISTS told_head (run_id TEXT PRIMARY KEY, seq BIGINT NOT NULL, hash {blob} NOT NULL);
CREATE TABLE IF NOT EXISTS told_event (run_id TEXT, seq BIGINT, type TEXT, hash {blob}, body {blob},
    PRIMARY KEY (run_id, seq));
CREATE TABLE IF NOT EXISTS told_payload (run_id TEXT, seq BIGINT, field TEXT, salt {blob}, value {blob},
    PRIMARY KEY (run_id, seq, field));
CREATE TABLE IF NOT EXISTS told_pending (run_id TEXT, seq BIGINT, PRIMARY KEY (run_id, seq));
"""
RAW_ROWS = (
    "INSERT INTO told_event VALUES (?, ?, 'acme.noted', ?, ?)",
    "INSERT INTO told_payload VALUES (?, ?, 'payload', ?, ?)",
    "INSERT INTO told_pending VALUES (?, ?)",
)
RAW_HEAD = """
INSERT INTO told_head VALUES (?, ?, ?)
ON CONFLICT (run_id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash
"""


def main() -> int:
    """Does what it is asked for once."""
    do, url, run_id, number = sys.argv[1:]
    print(json.dumps(_MEASURES[do](url, run_id, int(number))))
    return 0


# Ours


@contextmanager
def _ledger(url: str) -> Iterator[Any]:
    from indelible import Ledger  # so that the raw rows can be measured without us

    # Sealing goes on beside the writing in a deployment, and is measured on its own.
    with Ledger.open(url, seal=False) as ledger:
        yield ledger


def _event(number: int) -> dict[str, Any]:
    kind = "plan_locked" if number % PROGRESS_EVERY == 0 else "acme.noted"
    return {"event_type": kind, "payload": PAYLOAD | {"number": number}, "step": f"step-{number // 1000}"}


def fill(url: str, run_id: str, number: int) -> dict[str, Any]:
    """Starts a run with so many events and lets go of it."""
    with _ledger(url) as ledger:
        run = ledger.start_run(run_id, agent="bench", lease=LEASE)
        for first in range(0, number, FILLING):
            run.record_all([_event(each) for each in range(first, min(first + FILLING, number))])
        run.checkpoint({"done": number})
        run.release()
    return {}


def append(url: str, run_id: str, number: int) -> dict[str, Any]:
    """Records so many events one by one; returns the median time of one, in milliseconds."""
    with _ledger(url) as ledger:
        for each in range(WARM_UP):
            ledger.record(run_id, **_event(each))
        taken = []
        for each in range(number):
            event = _event(each)
            begun = time.perf_counter_ns()
            ledger.record(run_id, **event)
            taken.append(time.perf_counter_ns() - begun)
    return {"ms": statistics.median(taken) / 1e6}


def inspect(url: str, run_id: str, number: int) -> dict[str, Any]:
    """Reads what the run's events tell."""
    return _reading(url, run_id, number, lambda ledger: ledger.run_story(run_id).head.length)


def resume(url: str, run_id: str, number: int) -> dict[str, Any]:
    """Takes the run over with everything it goes on with, and lets go of it."""

    def once(ledger: Any) -> int:
        run = ledger.resume_run(run_id, lease=LEASE)
        length: int = run.run.seq + 1
        run.release()
        return length

    return _reading(url, run_id, number, once)


def verify(url: str, run_id: str, number: int) -> dict[str, Any]:
    """Verifies the run."""

    def once(ledger: Any) -> int:
        report = ledger.verify_run(run_id)
        if not report.is_valid:
            raise AssertionError(f"{run_id} is not valid: {report.broken}")
        events: int = report.events
        return events

    return _reading(url, run_id, number, once)


def _reading(url: str, run_id: str, times: int, once: Callable[[Any], int]) -> dict[str, Any]:
    """Does it so many times; returns microseconds per event, of the clock and of the processor, and the memory."""
    clock, processor = [], []
    with _ledger(url) as ledger:
        ledger.events(run_id)  # warms up: the connection, the statements
        for _ in range(times):
            begun, used = time.perf_counter(), time.process_time()
            events = once(ledger)
            processor.append((time.process_time() - used) * 1e6 / events)
            clock.append((time.perf_counter() - begun) * 1e6 / events)
    return {"us": statistics.median(clock), "cpu_us": statistics.median(processor), "peak_mb": _peak_mb()}


def _recording(batch: int) -> Callable[[str, str, int], dict[str, Any]]:
    def record(url: str, run_id: str, number: int) -> dict[str, Any]:
        with _ledger(url) as ledger:
            ledger.record(run_id, "acme.noted", PAYLOAD)
            begun = time.perf_counter()
            for first in range(0, number, batch):
                events = [_event(each) for each in range(first, first + batch)]
                if batch == 1:
                    ledger.record(run_id, **events[0])
                else:
                    ledger.record_all(run_id, events)
            return {"events_per_s": number / (time.perf_counter() - begun)}

    return record


def write(url: str, run_id: str, number: int) -> dict[str, Any]:
    """Records so many events one by one, beside others."""
    with _ledger(url) as ledger:
        for each in range(number):
            ledger.record(run_id, **_event(each))
    return {}


def count(url: str, run_id: str, number: int) -> dict[str, Any]:
    """Counts the events of a run whose chain holds; raises when it does not."""
    with _ledger(url) as ledger:
        story = ledger.run_story(run_id)
    if story.broken is not None or story.altered:
        raise AssertionError(f"{run_id} is not dense: {story.broken or story.altered}")
    return {"events": story.head.length}


# The raw rows


def _writing_raw(batch: int) -> Callable[[str, str, int], dict[str, Any]]:
    """The same rows, durable: the event, its value with a salt, the run's head, and that it waits to be sealed."""

    def write(url: str, run_id: str, number: int) -> dict[str, Any]:
        transaction, execute_many, close = _raw_sqlite(url) if url.startswith("sqlite") else _raw_postgres(url)
        begun = time.perf_counter()
        for first in range(0, number, batch):
            rows = [_raw_rows(run_id, seq) for seq in range(first, first + batch)]
            with transaction():
                for statement, of_table in zip(RAW_ROWS, zip(*rows, strict=True), strict=True):
                    execute_many(statement, of_table)
                execute_many(RAW_HEAD, [(run_id, first + batch, b"h" * 32)])
        taken = time.perf_counter() - begun
        close()
        return {"events_per_s": number / taken}

    return write


def _raw_rows(run_id: str, seq: int) -> tuple[tuple[Any, ...], ...]:
    value = json.dumps(PAYLOAD | {"number": seq}).encode()
    body = json.dumps({"run": run_id, "seq": seq, "type": "acme.noted", "prev": "0" * 64, "commits": "0" * 64}).encode()
    event = (run_id, seq, hashlib.sha256(body).digest(), body)
    return event, (run_id, seq, os.urandom(16), value), (run_id, seq)


Raw = tuple[Callable[[], Any], Callable[..., Any], Callable[[], None]]
"""Is how raw rows are written: begin a transaction, write rows of one table, close."""


def _raw_sqlite(url: str) -> Raw:
    file = apsw.Connection(url.removeprefix("sqlite:///"))
    file.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    file.execute(RAW_SCHEMA.format(blob="BLOB"))
    return lambda: file, file.executemany, file.close


def _raw_postgres(url: str) -> Raw:
    server = psycopg.connect(url, autocommit=True)
    server.execute(RAW_SCHEMA.format(blob="BYTEA"))
    cursor = server.cursor()

    def execute_many(statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        cursor.executemany(statement.replace("?", "%s"), rows)  # which sends all rows before it waits

    return server.transaction, execute_many, server.close


_MEASURES: dict[str, Callable[[str, str, int], dict[str, Any]]] = {
    "fill": fill,
    "append": append,
    "inspect": inspect,
    "resume": resume,
    "verify": verify,
    "write": write,
    "count": count,
    "record": _recording(1),
    "record_100": _recording(BATCH),
    "raw": _writing_raw(1),
    "raw_100": _writing_raw(BATCH),
}

if __name__ == "__main__":
    sys.exit(main())
