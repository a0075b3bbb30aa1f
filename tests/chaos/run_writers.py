"""Sixteen writers on one run, two in each process, while processes are killed: dense, nothing lost, nothing double.

Each writer tells its own events by hand, one by one and in batches, with keys and without. When its process is killed,
another one goes on where it was: what it does not know to be there it tells again if it has a key, and else leaves.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from indelible import Ledger
from indelible.errors import IndelibleError
from tests.chaos import mutants, procs
from tests.chaos.approval_reading import not_verified
from tests.chaos.approval_subject import Place, open_ledger
from tests.chaos.clerks import at_once
from tests.chaos.oracle import StoredEvent as ChainedEvent
from tests.chaos.oracle import StoreDump, Violation, check_chains
from tests.chaos.procs import Child
from tests.chaos.report import Job, Order, Report
from tests.chaos.run_oracle import Telling, judge_tellings
from tests.chaos.run_subject import Notebook, let_lapse, named_event, read_events, read_lines, read_noted, read_stored
from tests.chaos.subject import Terms, apply_terms, read_heads

TERMS = Terms(lease=120.0, wait=120.0)
RUN = "shared"
PROCESSES = 8
THREADS = 2
WRITERS = PROCESSES * THREADS
KILLS = 12
TICK = 0.005
PROGRESS = "progress.log"
SIZES = (1, 1, 1, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one process has to write: so many events by each of its writers."""

    place: Place
    run_id: str
    writers: tuple[int, ...]
    events: int


def write_together(order: Order) -> Report:
    """Lets sixteen writers tell as many events as ordered; points are events that are there."""
    report = Report("run-writers", order)
    where = order.where / f"{order.label}-writers"
    place = Place(
        url=order.bench.lay_out(where),
        tenant=f"{order.label}-writers",
        world=where / "world",
        terms=TERMS,
        mutant=order.mutant,
    )
    run_id = f"{order.label}-{RUN}"
    procs.ask(put_up, place, run_id)
    shares = [
        Share(
            place=place,
            run_id=run_id,
            writers=tuple(range(first, first + THREADS)),
            events=-(-order.points // WRITERS),
        )
        for first in range(0, WRITERS, THREADS)
    ]
    _run_crew(shares, order, report)
    violations, report.points = procs.ask(judge, place, run_id, shares[0].events)
    report.add(violations)
    return report.finish()


def _run_crew(shares: Sequence[Share], order: Order, report: Report) -> None:
    """Keeps all shares at work, and kills a process each time another part of the events is there."""
    rng = random.Random(order.seed)
    progress = shares[0].place.world / PROGRESS
    due = [order.points * number // (KILLS + 1) for number in range(1, KILLS + 1)]
    with ExitStack() as exits:
        crew = {share: exits.enter_context(Child(write, share)) for share in shares}
        at_work = set(crew)
        while at_work:
            time.sleep(TICK)
            if due and _size(progress) >= due[0]:
                due.pop(0)
                victim = rng.choice(sorted(at_work, key=lambda share: share.writers))
                crew[victim].kill()
                crew[victim] = exits.enter_context(Child(write, victim))
                report.note("killed")
            at_work = {share for share in at_work if not crew[share].is_over}
        for child in crew.values():
            child.result()


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def put_up(place: Place, run_id: str) -> None:
    """Starts the run, which nobody drives from then on."""
    apply_terms(place.terms)
    place.world.mkdir(parents=True)
    with open_ledger(place) as ledger:
        let_lapse(ledger.start_run(run_id, agent="chaos", lease=timedelta(seconds=place.terms.lease)))


# Writing


def write(line: Connection, share: Share) -> None:
    """Writes in a thread for each writer."""
    mutants.plant(share.place.mutant)
    apply_terms(share.place.terms)
    progress = os.open(share.place.world / PROGRESS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open_ledger(share.place) as ledger:
        writers = [Writer(ledger, share, number, progress) for number in share.writers]
        at_once(Writer.go, writers)
    os.close(progress)


class Writer:
    """Tells its events in order, from where its notes end."""

    def __init__(self, ledger: Ledger, share: Share, number: int, progress: int) -> None:
        self._ledger = ledger
        self._share = share
        self._number = number
        self._progress = progress
        self._file = notes_of(share.place, number)

    def go(self) -> None:
        """Tells all of them."""
        begun = [each for each in read_noted(read_lines(self._file)) if isinstance(each, Telling)]
        done = {each.names for each in begun if each.is_done}
        known = {each.names for each in begun}
        notes = Notebook(self._file)
        try:
            for names, is_keyed in plan_of(self._number, self._share.events):
                if names not in done and (is_keyed or names not in known):
                    self._tell(notes, names, is_keyed=is_keyed)
        except IndelibleError as error:
            notes.write("raised", words=f"{type(error).__name__}: {error}")
        finally:
            notes.close()

    def _tell(self, notes: Notebook, names: tuple[str, ...], *, is_keyed: bool) -> None:
        notes.write("tell", names=names)
        events = [named_event(name, is_keyed=is_keyed) for name in names]
        if len(events) == 1:
            self._ledger.record(self._share.run_id, **events[0])
        else:
            self._ledger.record_all(self._share.run_id, events)
        notes.write("told", of=names[0])
        os.write(self._progress, b"." * len(names))


def plan_of(writer: int, events: int) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Gives what a writer tells in one go each time, and whether it has keys; the same after each death."""
    first, turn = 0, 0
    while first < events:
        many = min(SIZES[turn % len(SIZES)], events - first)
        yield tuple(f"w{writer}-{number}" for number in range(first, first + many)), turn % 3 != 0
        first, turn = first + many, turn + 1


def notes_of(place: Place, writer: int) -> Path:
    """Names the file in which a writer notes what it does."""
    return place.world / f"writer-{writer}.log"


# Judging


def judge(place: Place, run_id: str, events: int) -> tuple[list[Violation], int]:
    """Compares the writers' notes with the run; gives how many of their events are there, too."""
    lines = {writer: read_lines(notes_of(place, writer)) for writer in range(WRITERS)}
    with open_ledger(place) as ledger:
        chained = [ChainedEvent(seq=event.seq, body=event.body) for event in read_events(ledger, run_id)]
        run = read_stored(ledger, run_id)
    head = {name: head for name, head in read_heads(place.url) if name == run_id}
    tellings = [each for noted in lines.values() for each in read_noted(noted) if isinstance(each, Telling)]
    found = [
        *check_chains(StoreDump(events={run_id: chained}, heads=head)),
        *judge_tellings(run, tellings),
        *(found for writer, noted in lines.items() for found in _unfinished(writer, noted, events)),
    ]
    if run.wrong is not None:
        found.append(Violation("run not valid", run_id, run.wrong))
    there = sum(event.name is not None and event.status == "recorded" for event in run.events)
    return [*found, *not_verified(place)], there


def _unfinished(writer: int, lines: Sequence[dict[str, Any]], events: int) -> Iterator[Violation]:
    """Each writer has come to its end; only what has no key and was under way when it died may be unknown."""
    for line in lines:
        if line["what"] == "raised":
            yield Violation("wrong answer", f"writer {writer}", line["words"])
    done = {each.names: each.is_done for each in read_noted(lines) if isinstance(each, Telling)}
    for names, is_keyed in plan_of(writer, events):
        if not done.get(names, False) and (is_keyed or names not in done):
            yield Violation("lost event", f"writer {writer}", f"{names} were never told to be there")


TEETH = ("stale-run-head", "told-before-write", "told-one-by-one")
JOB = Job(
    name="run-writers",
    run=write_together,
    points={"sqlite": 16_000, "postgres": 16_000},
    teeth={"sqlite": TEETH, "postgres": TEETH},
    bites=1600,
)
