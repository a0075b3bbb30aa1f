"""Approvals: how soon a call runs once it is approved, what waiting costs, and what being judged by a policy costs.

The call waits in one process and somebody approves it in another. Everybody waits for the same times, in turns; each
round approves a number of calls one after the other, at odd moments, so that no polling rhythm is lucky.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.crew import Crew, Process, WorkerFailed
from benchmarks.figures import Figure, figure_of, percentile
from benchmarks.proxy import CountingProxy
from benchmarks.scenarios import Entry, Pace, Results, Scenario, excuse, race, say
from benchmarks.servers import Stores

CALLS = 20
GAPS = (0.015, 0.045)
WARM_UP = 3
MOST_ROUNDS = 3
LONG = 2.0  # seconds; longer waits get one round, and only those whom a goal names
CROWD = 1000
PEERS_CROWD = 100
SETTLING = 2.0
STRETCHES = 3
ENTRIES = {
    "raw": Entry(contestant="raw", database="approving_raw"),
    "indelible_postgres": Entry(contestant="indelible", database="indelible_approving"),
    "indelible_sqlite": Entry(contestant="indelible", database="indelible_approving", store="sqlite"),
    "agent_ledger": Entry(contestant="agent_ledger", database="agent_ledger_approving"),
    "agent_ledger_tuned": Entry(contestant="agent_ledger_tuned", database="agent_ledger_approving"),
    "dbos": Entry(contestant="dbos", database="dbos_approving"),
    "dbos_sqlite": Entry(contestant="dbos", database="dbos_approving", store="sqlite"),
}
NAMED = ("raw", "indelible_postgres", "indelible_sqlite", "agent_ledger", "dbos")
WAITING = {
    "indelible_postgres_1000": ("indelible_postgres", CROWD),
    "indelible_sqlite_1000": ("indelible_sqlite", CROWD),
    "agent_ledger_100": ("agent_ledger", PEERS_CROWD),
    "dbos_100": ("dbos", PEERS_CROWD),
}
POLICED = tuple(
    Scenario(
        name=f"policy_{store}",
        unit="ms",
        entries={
            "without": Entry(contestant="indelible", database="indelible_unjudged", store=store),
            "20_rules": Entry(contestant="indelible_policed", database="indelible_judged", store=store),
        },
    )
    for store in ("postgres", "sqlite")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What came of some calls: milliseconds from the approval to the handler, and of the processor, for each call.

    `sent` counts from the moment the approval was sent, `returned` from the moment it came back. The processor's time
    is that of both processes together, from the first approval to the last result.
    """

    sent: list[float]
    returned: list[float]
    processor: float


@dataclass(frozen=True, slots=True)
class Pair:
    """The two processes of one competitor: in one its calls wait, in the other somebody approves them."""

    waiting: Process
    deciding: Process

    def approved(self, wait: float, calls: int) -> Round:
        """Lets calls wait, approves them, and returns how long each handler took to start."""
        self.waiting.ask("ask", many=calls)
        handles = self.waiting.answer()
        time.sleep(wait)
        before = self._spent()
        self.deciding.ask("approve", handles=handles, gaps=[random.uniform(*GAPS) for _ in handles])
        decided = self.deciding.answer()
        self.waiting.ask("finish")
        started = self.waiting.answer()
        instants = list(zip(started, decided, strict=True))
        return Round(
            sent=[(at - sent) / 1e6 for at, (sent, _) in instants],
            returned=[(at - back) / 1e6 for at, (_, back) in instants],
            processor=1000 * (self._spent() - before) / calls,
        )

    def _spent(self) -> float:
        self.waiting.ask("spent")
        self.deciding.ask("spent")
        return float(self.waiting.answer()) + float(self.deciding.answer())

    def close(self) -> None:
        """Ends both."""
        self.deciding.close()
        self.waiting.close()


def measure(stores: Stores, pace: Pace, results: Results) -> None:
    """Measures all three, and keeps figures of each."""
    say(f"approving: {', '.join(ENTRIES)}, after waits of {', '.join(f'{wait:g}' for wait in pace.approval_waits)} s")
    _measure_starts(stores, pace, results)
    say(f"approving: {', '.join(WAITING)} calls that wait")
    _measure_waiting(stores, pace, results)
    with Crew() as crew:
        for scenario in POLICED:
            race(scenario, stores, crew, pace, results)


# From the approval to the handler


def _measure_starts(stores: Stores, pace: Pace, results: Results) -> None:
    rounds: dict[str, dict[float, list[Round]]] = {name: {} for name in ENTRIES}
    with contextlib.ExitStack() as exits:
        ready = dict(_ready(stores, exits, results))
        for wait in pace.approval_waits:
            for _ in range(1 if wait > LONG else min(pace.rounds, MOST_ROUNDS)):
                for name in [name for name in ready if wait <= LONG or name in NAMED]:
                    try:
                        rounds[name].setdefault(wait, []).append(ready[name].approved(wait, CALLS))
                    except WorkerFailed as error:
                        excuse(f"approving.{name}", error, results)
                        del ready[name]
    everything = {name: [each for many in found.values() for each in many] for name, found in rounds.items() if found}
    results.figures["approve_to_start"] = {name: _times(found, "sent") for name, found in everything.items()}
    results.figures["approve_returned_to_start"] = {
        name: _times(found, "returned") for name, found in everything.items()
    }
    results.figures["approve_processor"] = {
        name: figure_of([each.processor for each in found], "ms of the processor") for name, found in everything.items()
    }
    for wait in pace.approval_waits:
        results.figures[f"approve_to_start_after_{wait * 1000:g}_ms"] = {
            name: _times(found[wait], "sent") for name, found in rounds.items() if wait in found
        }


def _times(rounds: Sequence[Round], since: Literal["sent", "returned"]) -> Figure:
    """Returns the median of the rounds' medians; the 99th percentile is taken over all calls."""
    times: list[list[float]] = [getattr(each, since) for each in rounds]
    p99 = percentile([time for many in times for time in many], 99)
    return figure_of([percentile(many, 50) for many in times], "ms", p99_ms=p99)


def _ready(stores: Stores, exits: contextlib.ExitStack, results: Results) -> Iterator[tuple[str, Pair]]:
    """Starts everybody and warms them up; whoever cannot start is excused."""
    for name, entry in ENTRIES.items():
        try:
            pair = _pair(entry.contestant, stores.address(entry.store, entry.database))
            exits.callback(pair.close)
            pair.approved(0.05, WARM_UP)
        except (WorkerFailed, ImportError, AttributeError) as error:
            excuse(f"approving.{name}", error, results)
        else:
            yield name, pair


def _pair(contestant: str, url: str) -> Pair:
    waiting = Process(contestant, url, module="approval_worker", decides=False)
    return Pair(waiting, Process(contestant, url, module="approval_worker", decides=True))


# What waiting costs


def _measure_waiting(stores: Stores, pace: Pace, results: Results) -> None:
    """Lets calls wait and nobody decide: counts the processor's time of their process, and its statements."""
    loads: dict[str, list[float]] = {}
    statements: dict[str, list[float]] = {}
    for name, (entry, many) in WAITING.items():
        try:
            loads[name], statements[name] = _idle(stores, ENTRIES[entry], many, pace)
        except (WorkerFailed, ImportError, AttributeError) as error:
            excuse(f"approving.{name}", error, results)
    results.figures["waiting_processor"] = {name: figure_of(found, "% of a core") for name, found in loads.items()}
    results.figures["waiting_statements"] = {
        name: figure_of(found, "statements/s") for name, found in statements.items() if found
    }


def _idle(stores: Stores, entry: Entry, many: int, pace: Pace) -> tuple[list[float], list[float]]:
    """Returns, for each stretch of time, the share of a core in percent and the statements per second."""
    if entry.store == "sqlite":
        with contextlib.closing(_waiting(entry, stores.sqlite(f"{entry.database}_idle"), many)) as process:
            return [_load(process, pace.idle_seconds) for _ in range(STRETCHES)], []
    with CountingProxy(stores.server.port) as proxy:
        url = stores.postgres_by_tcp(f"{entry.database}_idle", proxy.port)
        loads: list[float] = []
        counts: list[float] = []
        with contextlib.closing(_waiting(entry, url, many)) as process:
            for _ in range(STRETCHES):
                before = proxy.statements
                loads.append(_load(process, pace.idle_seconds))
                counts.append((proxy.statements - before) / pace.idle_seconds)
        return loads, counts


def _waiting(entry: Entry, url: str, many: int) -> Process:
    process = Process(entry.contestant, url, module="approval_worker", decides=False)
    process.ask("ask", many=many)
    process.answer()
    _load(process, SETTLING)
    return process


def _load(process: Process, seconds: float) -> float:
    process.ask("idle", seconds=seconds)
    return 100 * float(process.answer()) / seconds
