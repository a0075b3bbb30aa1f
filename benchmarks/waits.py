"""How long callers of one and the same call wait after its handler has ended: 50 in each of 1, 2 and 4 processes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from benchmarks.crew import Crew, Process, WorkerFailed
from benchmarks.figures import figure_of, percentile
from benchmarks.scenarios import Pace, Results, excuse, say
from benchmarks.servers import Stores

CALLERS = 50
PROCESSES = (1, 2, 4)
ENTRIES = {
    "indelible_postgres": ("indelible_many", "postgres", "indelible"),
    "indelible_sqlite": ("indelible_many", "sqlite", "indelible_waits"),
    "agent_ledger": ("agent_ledger_many", "postgres", "agent_ledger"),
    "agent_ledger_tuned": ("agent_ledger_tuned_many", "postgres", "agent_ledger"),
}


def measure(stores: Stores, crew: Crew, pace: Pace, results: Results) -> None:
    """Runs the identical calls in turns, and keeps one figure per competitor and number of processes."""
    say(f"waits: {', '.join(ENTRIES)}")
    ready: dict[str, list[Process]] = {}
    for name, (contestant, store, database) in ENTRIES.items():
        try:
            url = stores.address(store, database)
            ready[name] = [crew.worker(contestant, url, number) for number in range(max(PROCESSES))]
            _once(ready[name], 0.05)  # warms up
        except (WorkerFailed, ImportError, AttributeError) as error:
            excuse(f"waits.{name}", error, results)
            ready.pop(name, None)
    for processes in PROCESSES:
        waits = _rounds(ready, processes, pace, results)
        results.figures[f"waits_{processes}_processes"] = {
            name: figure_of([percentile(round_, 99) for round_ in rounds], "p99 ms", p99_ms=_pooled(rounds))
            for name, rounds in waits.items()
            if rounds
        }


def _rounds(
    ready: dict[str, list[Process]], processes: int, pace: Pace, results: Results
) -> dict[str, list[list[float]]]:
    waits: dict[str, list[list[float]]] = {name: [] for name in ready}
    for work in pace.identical_works:
        for name in list(ready):
            try:
                waits[name].append(_once(ready[name][:processes], work))
            except WorkerFailed as error:
                excuse(f"waits.{name}", error, results)
                del ready[name]
    return waits


def _once(workers: Sequence[Process], work: float) -> list[float]:
    """Makes one call, unknown so far, from every caller at the same time; returns their waits in milliseconds."""
    run_id = f"{time.time_ns() // 1_000_000:012x}-same-{secrets.token_hex(4)}"
    start_ns = time.monotonic_ns() + 20_000_000
    for worker in workers:
        worker.ask("identical", callers=CALLERS, run_id=run_id, work=work, start_ns=start_ns)
    return [waited / 1e6 for worker in workers for waited in worker.burst().nanoseconds]


def _pooled(rounds: Sequence[Sequence[float]]) -> float:
    return percentile([waited for round_ in rounds for waited in round_], 99)
