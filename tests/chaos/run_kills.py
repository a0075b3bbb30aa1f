"""SIGKILL of whoever records, saves, resumes or ends a run, at the N-th line or system call; then life goes on.

Each point is a run of its own in a tenant of its own. A process that lives brings it to where the shape begins, the one
that dies does its part, and a clean one takes the run over when it can, tells everything again that has a key, saves it
and completes it. Then the judge compares the store with what anybody was told, and the journal is verified.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from indelible.core.runs.run import CheckpointRule
from indelible.errors import IndelibleError, RunLost
from tests.chaos import mutants, procs, strace
from tests.chaos.approval_reading import not_verified
from tests.chaos.approval_subject import Place
from tests.chaos.deaths import SYSCALLS, Death, at_line, at_syscall, together
from tests.chaos.linekill import LineKill
from tests.chaos.oracle import Violation
from tests.chaos.procs import Child, let_anybody_trace_me
from tests.chaos.report import Job, Order, Report
from tests.chaos.run_oracle import Telling, judge_run
from tests.chaos.run_subject import NOTES, Pilot, let_lapse, read_lines, read_noted, read_stored
from tests.chaos.sampling import draw
from tests.chaos.subject import Terms

# A driver that is traced line by line must not lose its run by being slow; whoever lives on waits for the rest of this.
TERMS = Terms(lease=2.0, wait=20.0)
BATCH = 16
WIDTH = 4
UNKEYED = "plain"


class Spoiled(Exception):
    """Is raised by an agent's work, in the block of its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One part in the life of a run that somebody dies in; `is_taken` says that they drive it already."""

    name: str
    struck: Callable[[Pilot], Any]
    is_taken: bool = True
    is_lapsed: bool = False
    rule: CheckpointRule = CheckpointRule()  # noqa: RUF009  # it is frozen


def tell(pilot: Pilot) -> None:
    """Records one thing after the other, the last one without a key."""
    pilot.tell("one")
    pilot.tell("two")
    pilot.tell(UNKEYED, is_keyed=False)


def tell_many(pilot: Pilot) -> None:
    """Records several things in one go, twice."""
    pilot.tell("a1", "a2", "a3", "a4")
    pilot.tell("b1", "b2", "b3")


def save(pilot: Pilot) -> None:
    """Saves twice, with something told in between."""
    pilot.save("first")
    pilot.tell("between")
    pilot.save("second")


def save_by_rule(pilot: Pilot) -> None:
    """Tells of so much work that the run saves itself."""
    pilot.tell("work-1", event_type="plan_locked")
    pilot.tell("work-2", event_type="plan_locked")


def resume(pilot: Pilot) -> None:
    """Takes the run over and tells something."""
    pilot.resume()
    pilot.tell("here")


def complete(pilot: Pilot) -> None:
    """Completes the run."""
    pilot.end(lambda run: run.complete())


def cancel(pilot: Pilot) -> None:
    """Cancels the run."""
    pilot.end(lambda run: run.cancel())


def fail(pilot: Pilot) -> None:
    """Calls the run failed, and saves it with that."""
    state = pilot.expect_save("failed")
    pilot.end(lambda run: run.fail("it went wrong", state=state))


def hand_off(pilot: Pilot) -> None:
    """Hands the run to somebody else."""
    state = pilot.expect_save("handed off")
    pilot.end(lambda run: run.hand_off("ana", state=state))


def leave_by_error(pilot: Pilot) -> None:
    """Leaves the block of the run by an exception."""
    with contextlib.suppress(Spoiled), pilot.run:
        raise Spoiled
    pilot.note_end()


def leave_by_interruption(pilot: Pilot) -> None:
    """Leaves the block of the run by Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt), pilot.run:
        raise KeyboardInterrupt
    pilot.note_end()


def release(pilot: Pilot) -> None:
    """Lets go of the run, and takes it again."""
    pilot.run.release()
    pilot.resume()


SHAPES = {
    shape.name: shape
    for shape in (
        Shape(name="telling", struck=tell),
        Shape(name="telling many", struck=tell_many),
        Shape(name="saving", struck=save),
        Shape(name="saving by rule", struck=save_by_rule, rule=CheckpointRule(every_progress=1)),
        Shape(name="resuming", struck=resume, is_taken=False),
        Shape(name="resuming after a death", struck=resume, is_taken=False, is_lapsed=True),
        Shape(name="completing", struck=complete),
        Shape(name="canceling", struck=cancel),
        Shape(name="failing", struck=fail),
        Shape(name="handing off", struck=hand_off),
        Shape(name="leaving by an error", struck=leave_by_error),
        Shape(name="leaving by an interruption", struck=leave_by_interruption),
        Shape(name="releasing", struck=release),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run, in a place of its own, under the knife in one shape."""

    place: Place
    run_id: str
    shape: str


@dataclass(frozen=True, slots=True)
class Point:
    """One place to die: the N-th line, or the N-th system call of a kind, of one shape."""

    shape: str
    what: str
    number: int

    def __str__(self) -> str:
        return f"{self.shape}:{self.what}#{self.number}"


def kill_in_runs(order: Order) -> Report:
    """Kills at lines of the library and at system calls; where strace is not to be had, at lines alone."""
    report = Report("run-kills", order)
    found = _lines(order)
    report.notes["lines found"] = len(found)
    if order.mutant is None and strace.is_available():  # a planted bug is found at lines as well
        calls = _syscalls(order)
        report.notes["system calls found"] = len(calls)
        found = found + calls
    points = draw(found, order.points, order.seed, lambda point: (point.what == "line", point.shape))
    return _visit(order, report, points)


# Where to die. A planted bug that writes twice has twice as many lines, and is found in the second half of them.


def _lines(order: Order) -> list[Point]:
    cases = [_case(order, shape, f"lines-{number}") for number, shape in enumerate(SHAPES)]
    procs.ask(prepare, cases)
    counted = zip(SHAPES, procs.ask_all(count_lines, ((case,) for case in cases)), strict=True)
    return [Point(shape, "line", number) for shape, total in counted for number in range(1, total + 1)]


def _syscalls(order: Order) -> list[Point]:
    cases = [_case(order, shape, f"calls-{number}") for number, shape in enumerate(SHAPES)]
    procs.ask(prepare, cases)
    shares = [cases[start : start + WIDTH] for start in range(0, len(cases), WIDTH)]
    counted = [found for share in shares for found in together(_syscalls_of(order, case) for case in share)]
    return [point for found in counted for point in found]


def _syscalls_of(order: Order, case: Case) -> Generator[None, None, list[Point]]:
    log = case.place.world.parent / "strace.log"
    with Child(strike_when_told, case) as child:
        yield
        child.hear()
        with strace.Strace(child.pid, *strace.only(*SYSCALLS[order.bench.name]), log=log):
            child.tell()
            yield
            child.result()
    counted = strace.count(log)
    return [Point(case.shape, name, number) for name, most in counted.items() for number in range(1, most + 1)]


def count_lines(case: Case) -> int:
    """Does the part that is to be struck, and counts the library's lines."""
    kill = LineKill(None, last_words=print)
    with kill:
        strike(case, kill.arm)
    return len(kill.lines)


def strike_at_line(line: Connection, case: Case, number: int) -> None:
    """Does the part, and dies at a line."""
    kill = LineKill(number, last_words=line.send)
    with kill:
        strike(case, kill.arm)


def strike_when_told(line: Connection, case: Case) -> None:
    """Does the part once the harness traces it."""
    let_anybody_trace_me()

    def wait_for_go() -> None:
        line.send("ready")
        line.recv()

    strike(case, wait_for_go)


def strike(case: Case, when_ready: Callable[[], None]) -> None:
    """Does the part of a shape that somebody dies in; an error of the library is for the judge."""
    mutants.plant(case.place.mutant)
    shape = SHAPES[case.shape]
    with Pilot(case.place, case.run_id) as pilot:
        if shape.is_taken:
            pilot.resume()
        when_ready()
        try:
            shape.struck(pilot)
        except IndelibleError as error:
            pilot.note_error(error)


def _death(case: Case, point: Point) -> Death:
    if point.what == "line":
        return at_line(strike_at_line, case, point.number)
    return at_syscall(point.what, point.number, strike_when_told, case)


# Before and after


def prepare(cases: Sequence[Case]) -> None:
    """Brings runs to where their shapes begin: somebody has told of something, saved it, and let go or died."""
    mutants.plant(cases[0].place.mutant)
    for case in cases:
        shape = SHAPES[case.shape]
        with Pilot(case.place, case.run_id) as pilot:
            pilot.start(checkpointing=shape.rule)
            pilot.tell("before")
            pilot.save("prepared")
            if shape.is_lapsed:
                let_lapse(pilot.run)
            else:
                pilot.run.release()


def recover(cases: Sequence[Case]) -> list[tuple[str, list[Violation]]]:
    """Lives on after each death, and lets the oracle judge; gives how far each run had come, too."""
    mutants.plant(cases[0].place.mutant)
    return [_recover(case) for case in cases]


def _recover(case: Case) -> tuple[str, list[Violation]]:
    notes = case.place.world / NOTES
    with Pilot(case.place, case.run_id) as pilot:
        before = read_noted(read_lines(notes))
        had_come = pilot.ledger.get_run(case.run_id)
        if pilot.resume_in_time():
            for telling in before:
                if isinstance(telling, Telling) and UNKEYED not in telling.names:
                    pilot.tell(*telling.names)
            pilot.save("recovered")
            pilot.end(lambda run: run.complete())
        run = read_stored(pilot.ledger, case.run_id)
    lines = read_lines(notes)
    violations = [*judge_run(run, read_noted(lines)), *_raised(case, lines), *not_verified(case.place)]
    return "nothing" if had_come is None else had_come.status, violations


def _raised(case: Case, lines: Sequence[dict[str, Any]]) -> Iterator[Violation]:
    """Nobody who lives hears an error here, save that they were too slow."""
    for line in lines:
        if line["what"] == "raised" and line["kind"] != RunLost.__name__:
            yield Violation("wrong answer", case.run_id, f"{line['kind']}: {line['words']}")


def _visit(order: Order, report: Report, points: Sequence[Point]) -> Report:
    """Kills a batch of processes, then recovers it: the leases of the dead end together."""
    numbered = enumerate(points)
    places: Counter[str] = Counter()
    while not report.is_done and (batch := list(islice(numbered, BATCH))):
        cases = [_case(order, point.shape, f"kill-{number}") for number, point in batch]
        procs.ask(prepare, cases)
        struck = [_death(case, point) for case, (_, point) in zip(cases, batch, strict=True)]
        for start in range(0, len(struck), WIDTH):
            for where in together(struck[start : start + WIDTH]):
                report.note("survived" if where is None else "killed")
                report.points += where is not None
                places.update([where] if where else [])
        shares = [(cases[start::WIDTH],) for start in range(min(WIDTH, len(cases)))]
        ends = dict(zip([case.run_id for (share,) in shares for case in share], _recovered(shares), strict=True))
        for case, (_, point) in zip(cases, batch, strict=True):
            had_come, violations = ends[case.run_id]
            report.add(violations, at=point)
            report.note(f"found {had_come}")
            shutil.rmtree(case.place.world.parent)
    report.notes["distinct places"] = len(places)
    return report.finish()


def _recovered(shares: list[tuple[list[Case]]]) -> list[tuple[str, list[Violation]]]:
    return [each for share in procs.ask_all(recover, shares) for each in share]


def _case(order: Order, shape: str, name: str) -> Case:
    where = order.where / f"{order.label}-{name}"
    place = Place(
        url=order.bench.lay_out(where),
        tenant=f"{order.label}-runs-{name}",
        world=where / "world",
        terms=TERMS,
        mutant=order.mutant,
    )
    return Case(place=place, run_id=name, shape=shape)


TEETH = ("told-one-by-one", "mark-after-event", "seat-after-event", "saved-before-end")
JOB = Job(
    name="run-kills",
    run=kill_in_runs,
    points={"sqlite": 1000, "postgres": 1000},
    teeth={"sqlite": TEETH, "postgres": TEETH},
)
