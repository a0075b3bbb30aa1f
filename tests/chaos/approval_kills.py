"""SIGKILL of the process that asks, decides, claims or sweeps, at the N-th line or system call; then life goes on.

A shape is done once without a knife, to learn its lines and its steps: a step ends when something is durable, in the
store or outside. Points are drawn from every step of every shape in turn, so that a step of few lines is met as well.

Each point is a call of its own in a tenant of its own. A process that lives brings it to where the shape begins, the
one that dies does its part, and a clean one asks, decides, calls and sends whatever is left to do. Then the judge reads
the store, what happened outside and which messages arrived, and the journal is verified.
"""

from __future__ import annotations

import bisect
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.connection import Connection

from tests.chaos import mutants, procs, strace
from tests.chaos.approval_oracle import judge_approvals, judge_sending
from tests.chaos.approval_reading import not_verified, read_asked, received
from tests.chaos.approval_shapes import SHAPES
from tests.chaos.approval_subject import Deed, Office, Petition, Place
from tests.chaos.deaths import SYSCALLS, Death, at_line, at_syscall, together
from tests.chaos.linekill import LineKill
from tests.chaos.oracle import Violation
from tests.chaos.procs import Child, let_anybody_trace_me
from tests.chaos.report import Job, Order, Report
from tests.chaos.sampling import draw
from tests.chaos.strace import Strace
from tests.chaos.subject import Answer, Terms
from tests.chaos.world import observe

# Short, so that a dead worker's claim is out by the time its batch is recovered; a caller waits far longer than that.
TERMS = Terms(lease=0.25, wait=20.0)
# Some planted bugs let a caller wait in vain; what it would find in the end is known before.
IN_VAIN = replace(TERMS, wait=1.0)
BATCH = 16
WIDTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call, in a place of its own, under the knife in one shape."""

    place: Place
    petition: Petition
    shape: str


@dataclass(frozen=True, slots=True)
class Point:
    """One place to die: the N-th line or system call of one shape; of a line it is known in which step it lies."""

    shape: str
    what: str
    number: int
    step: int | None = None

    def __str__(self) -> str:
        return f"{self.shape}:{self.what}#{self.number}"


def kill_in_approvals(order: Order) -> Report:
    """Kills at lines of the library and at system calls; where strace is not to be had, at lines alone."""
    report = Report("approval-kills", order)
    found = _lines(order)
    report.notes["lines found"] = len(found)
    report.notes["steps found"] = len({_step_of(point) for point in found})
    if order.mutant is None and strace.is_available():  # a planted bug is found at lines as well
        calls = _syscalls(order)
        report.notes["system calls found"] = len(calls)
        found = found + calls
    random.Random(order.seed).shuffle(found)  # else a few points would all be of the first shapes
    return _visit(order, report, draw(found, order.points, order.seed, _step_of))


def _step_of(point: Point) -> tuple[str, int | None]:
    """Names the step that a point lies in; all system calls of a shape count as one."""
    return point.shape, point.step


# Where to die: counted with the planted bug, if there is one, for it adds steps of its own.


def _lines(order: Order) -> list[Point]:
    cases = [_case(order, shape, f"lines-{number}") for number, shape in enumerate(SHAPES)]
    procs.ask(prepare, cases)
    counted = zip(SHAPES, procs.ask_all(steps_of_lines, ((case,) for case in cases)), strict=True)
    return [
        Point(shape, "line", number, step) for shape, steps in counted for number, step in enumerate(steps, start=1)
    ]


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
        with Strace(child.pid, *strace.only(*SYSCALLS[order.bench.name]), log=log):
            child.tell()
            yield
            child.result()
    counted = strace.count(log)
    return [Point(case.shape, name, number) for name, most in counted.items() for number in range(1, most + 1)]


def steps_of_lines(case: Case) -> list[int]:
    """Does the part that is to be struck, and gives for each line of the library how many steps were over by then."""
    kill = LineKill(None, last_words=print)
    ends: list[int] = []

    def begin(office: Office) -> None:
        office.on_step(lambda: ends.append(len(kill.lines)))
        kill.arm()

    with kill:
        strike(case, begin)
    return [bisect.bisect_left(ends, number) for number in range(1, len(kill.lines) + 1)]


def strike_at_line(line: Connection, case: Case, number: int) -> None:
    """Does the part, and dies at a line."""
    kill = LineKill(number, last_words=line.send)
    with kill:
        strike(case, lambda office: kill.arm())


def strike_when_told(line: Connection, case: Case) -> None:
    """Does the part once the harness traces it."""
    let_anybody_trace_me()

    def wait_for_go(office: Office) -> None:
        line.send("ready")
        line.recv()

    strike(case, wait_for_go)


def strike(case: Case, when_open: Callable[[Office], None]) -> None:
    """Does the part of a shape that somebody dies in."""
    mutants.plant(case.place.mutant)
    shape = SHAPES[case.shape]
    with Office(case.place, shape.rules) as office:
        when_open(office)
        shape.struck(office, case.petition)


def _death(case: Case, point: Point) -> Death:
    if point.what == "line":
        return at_line(strike_at_line, case, point.number)
    return at_syscall(point.what, point.number, strike_when_told, case)


# Before and after


def prepare(cases: Sequence[Case]) -> None:
    """Brings calls to where their shapes begin."""
    mutants.plant(cases[0].place.mutant)
    for case in cases:
        shape = SHAPES[case.shape]
        with Office(case.place, shape.asked_by) as office:
            for part in shape.before:
                told = part(office, case.petition)
                assert not isinstance(told, Answer) or told.kind == "pending", told


def recover(cases: Sequence[Case]) -> list[tuple[str, list[Violation]]]:
    """Lives on after each death, and lets the oracle judge; gives how each call ended, too."""
    mutants.plant(cases[0].place.mutant)
    return [_recover(case) for case in cases]


def _recover(case: Case) -> tuple[str, list[Violation]]:
    with Office(case.place, SHAPES[case.shape].rules) as office:
        answer = _live_on(office, case)
        _sweep_all(office, case)
    asked = read_asked(case.place)
    violations = [
        *_wrong(answer, SHAPES[case.shape].ends),
        *judge_approvals(observe(case.place.world), asked),
        *judge_sending(received(case.place.world), asked),
        *not_verified(case.place),
    ]
    return answer.kind, violations


def _live_on(office: Office, case: Case) -> Answer:
    """Calls as a clean caller does, and decides as people do, until there is an end."""
    deeds: dict[str, Deed] = {"value": "approve", "denied": "deny", "canceled": "cancel"}
    answer = office.call(case.petition, wait=0)
    for _ in range(3):
        if answer.kind == "running":
            answer = office.call(case.petition)  # until the lease of the dead is over
        elif answer.kind == "pending":
            office.act(deeds[SHAPES[case.shape].ends], office.newest(case.petition), "ben")
            answer = office.call(case.petition, wait=0)
    return answer


def _sweep_all(office: Office, case: Case) -> None:
    """Sends what is left, also what a dead sender had in hand until its time was over."""
    office.sweep()
    while any(message.status == "sending" for message in read_asked(case.place).messages):
        threading.Event().wait(TERMS.lease / 5)
        office.sweep()


def _wrong(answer: Answer, ends: str) -> Iterator[Violation]:
    """A clean caller hears the value or that it is in doubt, or that it was denied or canceled; nothing else."""
    if answer.kind not in (("value", "in_doubt") if ends == "value" else (ends,)):
        yield Violation("wrong answer", answer.call, f"{answer.kind}: {answer.words}")


def _visit(order: Order, report: Report, points: Sequence[Point]) -> Report:
    """Kills a batch of processes, then recovers it: by then the leases of the dead are over and nobody has to wait."""
    numbered = enumerate(points)
    places: Counter[str] = Counter()
    steps: set[tuple[str, int | None]] = set()
    while not report.is_done and (batch := list(islice(numbered, BATCH))):
        cases = [_case(order, point.shape, f"kill-{number}") for number, point in batch]
        procs.ask(prepare, cases)
        struck = [_death(case, point) for case, (_, point) in zip(cases, batch, strict=True)]
        for start in range(0, len(struck), WIDTH):
            share = batch[start : start + WIDTH]
            for where, (_, point) in zip(together(struck[start : start + WIDTH]), share, strict=True):
                report.note("survived" if where is None else "killed")
                report.points += where is not None
                places.update([where] if where else [])
                steps.update([_step_of(point)] if where and point.step is not None else [])
        shares = [(cases[start::WIDTH],) for start in range(min(WIDTH, len(cases)))]
        ends = dict(zip([case.petition.name for (share,) in shares for case in share], _recovered(shares), strict=True))
        for case, (_, point) in zip(cases, batch, strict=True):
            kind, violations = ends[case.petition.name]
            report.add(violations, at=point)
            report.note(f"ended as {kind}")
            shutil.rmtree(case.place.world.parent)
    report.notes["steps met"] = len(steps)
    if missed := {_step_of(point) for point in points if point.step is not None} - steps:
        report.notes["missed"] = " and ".join(f"{shape}:{step}" for shape, step in sorted(missed, key=str))
    report.notes["distinct places"] = len(places)
    return report.finish()


def _recovered(shares: list[tuple[list[Case]]]) -> list[tuple[str, list[Violation]]]:
    return [each for share in procs.ask_all(recover, shares) for each in share]


def _case(order: Order, shape: str, name: str) -> Case:
    where = order.where / f"{order.label}-{name}"
    place = Place(
        url=order.bench.lay_out(where),
        tenant=f"{order.label}-{name}",
        world=where / "world",
        terms=TERMS if order.mutant is None else IN_VAIN,
        mutant=order.mutant,
    )
    return Case(place=place, petition=Petition(name=name, run_id=name), shape=shape)


TEETH = ("asked-again", "told-after-commit", "vote-before-write")
JOB = Job(
    name="approval-kills",
    run=kill_in_approvals,
    points={"sqlite": 2000, "postgres": 2000},
    teeth={"sqlite": TEETH, "postgres": TEETH},
)
