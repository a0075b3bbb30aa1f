"""The timed scenarios: who competes, at what, in which unit; and how rounds are interleaved."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.crew import Crew, Process, WorkerFailed
from benchmarks.figures import Figure, Unit, figure, together
from benchmarks.loops import Burst
from benchmarks.servers import Stores

_BEGUN = time.monotonic()

SMALL = 200
LARGE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How much is measured: rounds, and seconds per contestant and round."""

    rounds: int
    seconds: float
    rows: int
    events: int
    identical_works: tuple[float, ...]
    counted_calls: int
    approval_waits: tuple[float, ...]
    idle_seconds: float


FULL = Pace(
    rounds=9,
    seconds=1.0,
    rows=1_000_000,
    events=1_000_000,
    identical_works=(0.2, 0.35, 0.5, 0.65, 0.8),
    counted_calls=300,
    approval_waits=(0.05, 0.2, 1.0, 5.0, 30.0),
    idle_seconds=3.0,
)
QUICK = Pace(
    rounds=3,
    seconds=0.35,
    rows=100_000,
    events=100_000,
    identical_works=(0.3, 0.6),
    counted_calls=50,
    approval_waits=(0.05, 0.3, 1.0),
    idle_seconds=2.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One competitor in a scenario: a contestant, on a database of its own, in one or more processes."""

    contestant: str
    database: str
    store: str = "postgres"
    processes: int = 1
    callers: int | None = None  # if not as many as the others have


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A race: every competitor does the same, in turns."""

    name: str
    unit: Unit
    entries: dict[str, Entry]
    do: str = "fresh"
    callers: int = 1
    size: int = SMALL


@dataclass(slots=True)
class Results:
    """Everything measured so far, by scenario and competitor, and who could not take part and why."""

    figures: dict[str, dict[str, Figure]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


def _entry(contestant: str, store: str = "postgres", **more: Any) -> Entry:
    family = next(name for name in ("agent_ledger", "dbos", "raw", "indelible") if contestant.startswith(name))
    database = f"{family}_wal" if contestant == "dbos_tuned" else family
    return Entry(contestant=contestant, store=store, **({"database": database} | more))


_ONE = {
    "raw": _entry("raw_postgres"),
    "indelible": _entry("indelible"),
    "agent_ledger": _entry("agent_ledger"),
    "agent_ledger_tuned": _entry("agent_ledger_tuned"),
    "dbos": _entry("dbos"),
}
_MANY = {
    "raw_lane": _entry("raw_postgres_lane"),
    "indelible": _entry("indelible_many"),
    "agent_ledger": _entry("agent_ledger_many"),
    "agent_ledger_tuned": _entry("agent_ledger_tuned_many"),
    "dbos": _entry("dbos_many"),
}
_SQLITE_ONE = {
    "raw": _entry("raw_sqlite", "sqlite"),
    "indelible": _entry("indelible", "sqlite"),
    "dbos": _entry("dbos", "sqlite"),
    "dbos_tuned": _entry("dbos_tuned", "sqlite"),
}
_LEDGERS = ("indelible", "agent_ledger", "agent_ledger_tuned", "dbos")

SCENARIOS = (
    Scenario(name="postgres_1", unit="ms", entries=_ONE),
    Scenario(name="postgres_20kb", unit="ms", entries={name: _ONE[name] for name in _LEDGERS}, size=LARGE),
    Scenario(
        name="postgres_replay", unit="ms", entries={"select": _ONE["raw"]} | {n: _ONE[n] for n in _LEDGERS}, do="replay"
    ),
    Scenario(name="postgres_32", unit="calls/s", entries=_MANY, callers=32),
    Scenario(name="postgres_64", unit="calls/s", entries=_MANY, callers=64),
    Scenario(name="sqlite_1", unit="ms", entries=_SQLITE_ONE),
    Scenario(
        name="sqlite_replay",
        unit="ms",
        entries={"select": _SQLITE_ONE["raw"], "indelible": _SQLITE_ONE["indelible"], "dbos": _SQLITE_ONE["dbos"]},
        do="replay",
    ),
    Scenario(
        name="sqlite_32",
        unit="calls/s",
        entries={
            "raw_writer": _entry("raw_sqlite_writer", "sqlite", database="raw_writer"),
            "indelible": _entry("indelible_many", "sqlite", database="indelible_many"),
        },
        callers=32,
    ),
    Scenario(
        name="sqlite_processes",
        unit="p99 ms",
        entries={
            "one_process": _entry("indelible", "sqlite", database="indelible_one_process"),
            "four_processes": _entry("indelible", "sqlite", database="indelible_four_processes", processes=4),
        },
    ),
    Scenario(
        name="wakeups_32",
        unit="calls/s",
        entries={
            "postgres_on": _entry("indelible_many"),
            "postgres_off": _entry("indelible_many_no_wakeups", database="indelible_no_wakeups"),
            "sqlite_on": _entry("indelible_many", "sqlite", database="indelible_many"),
            "sqlite_off": _entry("indelible_many_no_wakeups", "sqlite", database="indelible_no_wakeups"),
        },
        callers=32,
    ),
)


def say(text: str) -> None:
    """Tells whoever waits how far it is; results alone go to standard output."""
    print(f"{time.monotonic() - _BEGUN:5.0f} s  {text}", file=sys.stderr, flush=True)


def race(scenario: Scenario, stores: Stores, crew: Crew, pace: Pace, results: Results) -> None:
    """Runs one scenario in interleaved rounds: each competitor once, then each again."""
    say(f"{scenario.name}: {', '.join(scenario.entries)}")
    ready = {name: _hire(scenario.name, name, entry, stores, crew, results) for name, entry in scenario.entries.items()}
    ready = {name: workers for name, workers in ready.items() if workers}
    for name in list(ready):  # warms up connections, plans, caches and the WAL file; not counted
        if _attempt(scenario, name, ready[name], max(0.2, pace.seconds / 2), results) is None:
            del ready[name]
    rounds: dict[str, list[Burst]] = {name: [] for name in ready}
    for _ in range(pace.rounds):
        for name, workers in ready.items():
            burst = _attempt(scenario, name, workers, pace.seconds, results)
            if burst is not None and burst.nanoseconds:
                rounds[name].append(burst)
    results.figures[scenario.name] = {name: figure(bursts, scenario.unit) for name, bursts in rounds.items() if bursts}


def _hire(scenario: str, name: str, entry: Entry, stores: Stores, crew: Crew, results: Results) -> list[Process]:
    try:
        url = stores.address(entry.store, entry.database)
        return [crew.worker(entry.contestant, url, number) for number in range(entry.processes)]
    except (WorkerFailed, ImportError, AttributeError) as error:
        excuse(f"{scenario}.{name}", error, results)
        return []


def _attempt(
    scenario: Scenario, name: str, workers: Sequence[Process], seconds: float, results: Results
) -> Burst | None:
    asked: dict[str, Any] = {"callers": scenario.callers, "size": scenario.size, "seconds": seconds}
    if scenario.do == "fresh":
        asked["start_ns"] = time.monotonic_ns() + (20_000_000 if len(workers) > 1 else 0)
    try:
        for worker in workers:
            worker.ask(scenario.do, **asked)
        bursts = [worker.burst() for worker in workers]
        for worker in workers:  # what trails behind is not to land in another's round
            worker.drain()
        return together(bursts)
    except WorkerFailed as error:
        excuse(f"{scenario.name}.{name}", error, results)
        return None


def excuse(name: str, error: Exception, results: Results) -> None:
    """Notes who could not take part, and why; the others go on."""
    if name not in results.absent:
        say(f"  {name} cannot take part: {error}")
        results.absent[name] = str(error)
