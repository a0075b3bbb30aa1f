"""Counts what one call costs the store: statements, round trips, fsyncs, log bytes. Measured, not assumed.

Statements and round trips are seen by a proxy between the contestant and PostgreSQL, log bytes by the position of the
log, both before and after a burst of calls. A session tells its fsyncs for certain only when it ends, so these are the
difference between a process that warms up and makes calls and one that only warms up. On SQLite fsyncs are seen by
strace, where it is installed, and written bytes by the kernel.
"""

from __future__ import annotations

import shutil
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.crew import Process, WorkerFailed
from benchmarks.proxy import CountingProxy
from benchmarks.scenarios import SMALL, Results, excuse, say
from benchmarks.servers import Stores

WARM_UP = 60
BURSTS = 3
POSTGRES = {"raw": "raw_postgres", "indelible": "indelible", "agent_ledger": "agent_ledger", "dbos": "dbos"}
SQLITE = {"raw": "raw_sqlite", "indelible": "indelible", "dbos": "dbos"}
KINDS = ("fresh", "replay")
SILENCE = 0.1  # seconds
POSITION = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND backend_type = 'client backend'"
FSYNCS = "SELECT coalesce(sum(fsyncs), 0) FROM pg_stat_io WHERE object = 'wal' AND backend_type = 'client backend'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one call costs; None where it cannot be measured here."""

    statements: float | None = None
    round_trips: float | None = None
    fsyncs: float | None = None
    wal_bytes: float | None = None
    written_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tally:
    """What a whole process synced, and what its counted calls cost on average."""

    fsyncs: int
    per_call: dict[str, float]


def measure(stores: Stores, calls: int, results: Results) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns the cost of a fresh call and of a replay, by store and competitor."""
    say("counters: statements, round trips, fsyncs, log bytes")
    costs: dict[str, dict[str, dict[str, Any]]] = {}
    for store, names, costs_of in (("postgres", POSTGRES, _on_postgres), ("sqlite", SQLITE, _on_sqlite)):
        for label, contestant in names.items():
            try:
                for do, cost in costs_of(stores, contestant, calls).items():
                    costs.setdefault(f"{store}_{do}", {})[label] = asdict(cost)
            except (WorkerFailed, ImportError, AttributeError) as error:
                excuse(f"counters_{store}.{label}", error, results)
    return costs


def _on_postgres(stores: Stores, contestant: str, calls: int) -> dict[str, Cost]:
    _tally(stores, contestant, "fresh", 0)  # the first to come creates tables; that is nobody's call
    idle = _tally(stores, contestant, "fresh", 0)
    costs = {}
    for do in KINDS:
        busy = _tally(stores, contestant, do, calls)
        costs[do] = Cost(fsyncs=(busy.fsyncs - idle.fsyncs) / (calls * BURSTS), **busy.per_call)
    return costs


def _tally(stores: Stores, contestant: str, do: str, calls: int) -> _Tally:
    database = f"{contestant.removesuffix('_postgres')}_counted"
    with stores.connect() as look, CountingProxy(stores.server.port) as proxy:
        fsyncs = _number(look, FSYNCS)
        worker = Process(contestant, stores.postgres_by_tcp(database, proxy.port))
        bursts: list[dict[str, float]] = []
        try:
            _warm_up(worker)
            if calls:
                bursts = [_burst(look, proxy, worker, do, calls) for _ in range(BURSTS)]
        finally:
            worker.close()
        while _number(look, SESSIONS.format(database)):
            time.sleep(0.02)
        middle = {kind: statistics.median(burst[kind] for burst in bursts) for kind in (bursts[0] if bursts else ())}
        return _Tally(fsyncs=_number(look, FSYNCS) - fsyncs, per_call=middle)


def _burst(look: Any, proxy: CountingProxy, worker: Process, do: str, calls: int) -> dict[str, float]:
    """Counts one burst, from silence to silence, so that what trails behind a call is counted with it."""
    time.sleep(SILENCE)
    before = (proxy.statements, proxy.round_trips, _number(look, POSITION))
    worker.measure(do, callers=1, size=SMALL, calls=calls)
    time.sleep(SILENCE)
    after = (proxy.statements, proxy.round_trips, _number(look, POSITION))
    each = [(late - early) / calls for early, late in zip(before, after, strict=True)]
    return dict(zip(("statements", "round_trips", "wal_bytes"), each, strict=True))


def _warm_up(worker: Process) -> None:
    for do in KINDS:
        worker.measure(do, callers=1, size=SMALL, calls=WARM_UP)


def _number(look: Any, query: str) -> int:
    return int(look.execute(query).fetchone()[0])


def _on_sqlite(stores: Stores, contestant: str, calls: int) -> dict[str, Cost]:
    seen = stores.directory / "strace.txt"
    strace = shutil.which("strace")
    wrapped = (strace, "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(seen)) if strace else ()
    worker = Process(contestant, stores.sqlite(f"{contestant}_counted"), wrapped_by=wrapped)
    costs = {}
    try:
        _warm_up(worker)
        for do in KINDS:
            made = calls * BURSTS
            written, syncs = _written(worker), _sync_lines(seen)
            worker.measure(do, callers=1, size=SMALL, calls=made)
            fsyncs = (_sync_lines(seen) - syncs) / made if strace else None
            costs[do] = Cost(fsyncs=fsyncs, written_bytes=(_written(worker) - written) / made)
    finally:
        worker.close()
    return costs


def _sync_lines(seen: Path) -> int:
    """Counts calls; one that was interrupted by another thread is printed twice, as unfinished and as resumed."""
    lines = seen.read_text().splitlines() if seen.exists() else []
    return sum(("fsync(" in line or "fdatasync(" in line) and "resumed" not in line for line in lines)


def _written(worker: Process) -> int:
    worker.ask("written")
    return int(worker.answer())
