"""SIGKILL of the process that asks, decides, claims or sweeps, at the N-th line or system call; then life goes on.

Each point is a call of its own in a tenant of its own. A process that lives brings it to where the shape begins, the
one that dies does its part, and a clean one asks, decides, calls and sends whatever is left to do. Then the judge reads
the store, what happened outside and which messages arrived, and the journal is verified.
"""

from __future__ import annotations

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
    """One place to die: the N-th line, or the N-th system call of a kind, of one shape."""

    shape: str
    what: str
    number: int

    def __str__(self) -> str:
        return f"{self.shape}:{self.what}#{self.number}"


def kill_in_approvals(order: Order) -> Report:
    """Kills at lines of the library and at system calls; where strace is not to be had, at lines alone."""
    report = Report("approval-kills", order)
    found = _lines(order)
    report.notes["lines found"] = len(found)
    if order.mutant is None and strace.is_available():  # a planted bug is found at lines as well
        calls = _syscalls(order)
        report.notes["system calls found"] = len(calls)
        found = found + calls
    points = draw(found, order.points, order.seed, lambda point: (point.what == "line", point.shape))
    return _visit(order, report, points)


# Where to die. A planted bug moves lines a little and adds some; where the sound library has them is good enough.

_FOUND: dict[str, list[Point]] = {}


def _lines(order: Order) -> list[Point]:
    known = _FOUND.get(order.bench.name)
    if known is None:
        cases = [_case(replace(order, mutant=None), shape, f"lines-{n}") for n, shape in enumerate(SHAPES)]
        procs.ask(prepare, cases)
        counted = zip(SHAPES, procs.ask_all(count_lines, ((case,) for case in cases)), strict=True)
        known = [Point(shape, "line", number) for shape, total in counted for number in range(1, total + 1)]
        _FOUND[order.bench.name] = known
    return known


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


def strike(case: Case, when_open: Callable[[], None]) -> None:
    """Does the part of a shape that somebody dies in."""
    mutants.plant(case.place.mutant)
    shape = SHAPES[case.shape]
    with Office(case.place, shape.rules) as office:
        when_open()
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
        ends = dict(zip([case.petition.name for (share,) in shares for case in share], _recovered(shares), strict=True))
        for case, (_, point) in zip(cases, batch, strict=True):
            kind, violations = ends[case.petition.name]
            report.add(violations, at=point)
            report.note(f"ended as {kind}")
            shutil.rmtree(case.place.world.parent)
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
        terms=TERMS,
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
