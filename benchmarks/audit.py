"""What the journal costs: calls while it is sealed against calls without it, and calls that wait for a signed head.

Sealing trails behind the calls, so a round is long enough to hold several seals, begins with a lead-in that is not
counted, and ends when everything is sealed. A seal is due after a quarter of a second and may take another; what is not
sealed by then counts as time of the calls, so nobody is fast by leaving work for later.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.crew import Crew, Process, WorkerFailed
from benchmarks.figures import Unit, figure, figure_of
from benchmarks.loops import Burst
from benchmarks.scenarios import SMALL, Entry, Pace, Results, excuse, say
from benchmarks.sealing import SealingProcess
from benchmarks.servers import Stores

WRITERS = 16
LEAD_IN = 0.5  # seconds: two seals
IN_TIME = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A race in which some competitors have a process beside them that seals."""

    name: str
    unit: Unit
    callers: int
    entries: dict[str, Entry]
    is_judged: bool = True

    def rounds(self, pace: Pace) -> int:
        """Returns how many rounds it gets: fewer if it only informs."""
        return pace.rounds if self.is_judged else max(2, pace.rounds // 3)


@dataclass(slots=True)
class _Rounds:
    """What one competitor needs and what came of its rounds."""

    worker: Process
    sealing: SealingProcess | None
    bursts: list[Burst] = field(default_factory=list)
    drains: list[float] = field(default_factory=list)


def _entries(store: str, names: dict[str, str]) -> dict[str, Entry]:
    return {
        name: Entry(contestant=contestant, database=f"indelible_{name}", store=store)
        for name, contestant in names.items()
    }


AUDITED = {
    "off": "indelible_many_unaudited",
    "sealed_by_worker": "indelible_many_sealed_elsewhere",
    "sealed_inside": "indelible_many_sealing",
    "signed_by_worker": "indelible_many_signed",
    "signed_inside": "indelible_many_signed_sealing",
}
AWAITED = {
    "not_awaited": "indelible_sealing",
    "awaited_inside": "indelible_paying",
    "awaited_from_worker": "indelible_awaiting_elsewhere",
}
SIGNED = {
    "indelible": Entry(contestant="indelible_many_signed_sealing", database="indelible_signed", store="sqlite"),
    "indelible_postgres": Entry(contestant="indelible_many_signed_sealing", database="indelible_signed"),
    "provedex": Entry(contestant="provedex_many", database="provedex", store="sqlite"),
    "provedex_one": Entry(contestant="provedex", database="provedex_one", store="sqlite", callers=1),
}
ELSEWHERE = frozenset({"sealed_by_worker", "signed_by_worker", "awaited_from_worker"})
TRIALS = (
    Trial(name="audit_postgres", unit="calls/s", callers=WRITERS, entries=_entries("postgres", AUDITED)),
    Trial(name="audit_sqlite", unit="calls/s", callers=WRITERS, entries=_entries("sqlite", AUDITED), is_judged=False),
    Trial(name="signed_64", unit="calls/s", callers=64, entries=SIGNED),
    Trial(name="awaited_postgres", unit="ms", callers=1, entries=_entries("postgres", AWAITED), is_judged=False),
    Trial(name="awaited_sqlite", unit="ms", callers=1, entries=_entries("sqlite", AWAITED), is_judged=False),
)


def measure(chosen: set[str], stores: Stores, pace: Pace, results: Results) -> None:
    """Runs trials, and keeps what each competitor did and how long it took to seal what was left."""
    for trial in TRIALS:
        if trial.name not in chosen:
            continue
        with Crew() as crew, contextlib.ExitStack() as ends:
            say(f"{trial.name}: {', '.join(trial.entries)}")
            ready = _ready(trial, stores, crew, ends, pace, results)
            for _ in range(trial.rounds(pace)):
                for name in list(ready):
                    if not _attempt(trial, name, ready[name], pace.seconds, results):
                        del ready[name]
        results.figures[trial.name] = {name: figure(rounds.bursts, trial.unit) for name, rounds in ready.items()}
        results.figures[f"{trial.name}_left_to_seal"] = {
            name: figure_of([drain * 1000 for drain in rounds.drains], "ms") for name, rounds in ready.items()
        }


def _ready(
    trial: Trial, stores: Stores, crew: Crew, ends: contextlib.ExitStack, pace: Pace, results: Results
) -> dict[str, _Rounds]:
    """Starts everybody and warms them up; whoever cannot start is excused."""
    ready = {}
    for name, entry in trial.entries.items():
        try:
            url = stores.address(entry.store, entry.database)
            worker = crew.worker(entry.contestant, url)
            sealing = SealingProcess(url) if name in ELSEWHERE else None
        except (WorkerFailed, ImportError, AttributeError) as error:
            excuse(f"{trial.name}.{name}", error, results)
            continue
        if sealing is not None:
            ends.callback(sealing.close)
        rounds = _Rounds(worker, sealing)
        if _attempt(trial, name, rounds, max(0.2, pace.seconds / 2), results):
            ready[name] = _Rounds(worker, sealing)
    return ready


def _attempt(trial: Trial, name: str, rounds: _Rounds, seconds: float, results: Results) -> bool:
    asked = {"callers": trial.entries[name].callers or trial.callers, "size": SMALL}
    try:
        with _sealed(rounds.sealing):
            rounds.worker.measure("fresh", seconds=LEAD_IN, **asked)
            burst = rounds.worker.measure("fresh", seconds=max(seconds, LEAD_IN), **asked)
            drain = rounds.worker.drain()
    except (WorkerFailed, ChildProcessError) as error:
        excuse(f"{trial.name}.{name}", error, results)
        return False
    late = max(0.0, drain - IN_TIME)
    rounds.bursts.append(Burst(nanoseconds=burst.nanoseconds, seconds=burst.seconds + late))
    rounds.drains.append(drain)
    return True


@contextlib.contextmanager
def _sealed(sealing: SealingProcess | None) -> Iterator[None]:
    with sealing.at_work() if sealing is not None else contextlib.nullcontext():
        yield
