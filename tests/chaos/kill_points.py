"""SIGKILL of a real worker at the N-th line of the library and at the N-th system call; then a clean worker repeats.

A first run without killing discovers how many lines and calls of each kind there are. Points are drawn from them
without repetition, so every one counted is distinct.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from tests.chaos import procs, strace
from tests.chaos.deaths import SYSCALLS, Death, at_line, at_syscall, together
from tests.chaos.oracle import Violation
from tests.chaos.procs import Child
from tests.chaos.report import Job, Order, Report
from tests.chaos.sampling import draw
from tests.chaos.strace import Strace
from tests.chaos.subject import Answer, Call, Terms
from tests.chaos.worker import Manner, Work, perform_gated, perform_until_line, recover

# Short, so that a dead worker's claim is out by the time its batch is recovered; a caller waits far longer than that.
TERMS = Terms(lease=0.25, wait=20.0, seals=True)
RECOVERY = replace(TERMS, lease=30.0)
BATCH = 16
WIDTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One workload under the knife: its calls, named after a prefix, and how they are made."""

    name: str
    calls: Callable[[str], tuple[Call, ...]]
    manner: Manner = "serial"
    from_open: bool = False


def _one(prefix: str) -> tuple[Call, ...]:
    return (Call(name=f"{prefix}/a", run_id=prefix),)


def _mixed(prefix: str) -> tuple[Call, ...]:
    """Two runs, a failing call, a repeatable one, and a replay of the first."""
    first = Call(name=f"{prefix}/a", run_id=prefix)
    fails = Call(name=f"{prefix}/fails", run_id=prefix, fails=True)
    repeatable = Call(name=f"{prefix}/again", run_id=f"{prefix}-2", is_repeatable=True)
    return (first, fails, repeatable, first)


def _crowd(prefix: str) -> tuple[Call, ...]:
    """Six callers at once, two of them with the same call."""
    calls = tuple(Call(name=f"{prefix}/{number}", run_id=f"{prefix}-{number % 2}") for number in range(5))
    return (*calls, calls[0])


SHAPES = (
    Shape(name="one", calls=_one),
    Shape(name="mixed", calls=_mixed),
    Shape(name="threads", calls=_crowd, manner="threads"),
    Shape(name="tasks", calls=_crowd, manner="tasks"),
    Shape(name="open", calls=_one, from_open=True),
)


@dataclass(frozen=True, slots=True)
class Point:
    """One place to die: the N-th line, or the N-th system call of a kind, of one shape."""

    shape: Shape
    what: str
    number: int

    def __str__(self) -> str:
        return f"{self.shape.name}:{self.what}#{self.number}"


def kill_at_lines(order: Order) -> Report:
    """Kills at lines of the library."""
    report = Report("kill-lines", order)
    found = [point for shape in SHAPES for point in _lines_of(order, shape)]
    report.notes["lines found"] = len(found)
    return _visit(order, report, _draw(found, order), _die_at_line)


def kill_at_syscalls(order: Order) -> Report:
    """Kills at system calls, by strace."""
    report = Report("kill-syscalls", order)
    if not strace.is_available():
        raise FileNotFoundError("strace is missing or may not attach; run the job kill-lines instead")
    found = [point for shape in SHAPES for point in _syscalls_of(order, shape)]
    report.notes["calls found"] = len(found)
    return _visit(order, report, _draw(found, order), _die_at_syscall)


def _lines_of(order: Order, shape: Shape) -> Iterator[Point]:
    work = _work(order, shape, f"{order.label}-lines-{shape.name}")
    with Child(_count_lines, work, shape.from_open) as child:
        total = child.result()
    return (Point(shape, "line", number) for number in range(1, total + 1))


def _count_lines(line: object, work: Work, from_open: bool) -> int:
    return len(perform_until_line(line, work, None, is_traced_from_open=from_open))  # type: ignore[arg-type]


def _syscalls_of(order: Order, shape: Shape) -> Iterator[Point]:
    work = _work(order, shape, f"{order.label}-calls-{shape.name}")
    log = work.world.parent / "strace.log"
    with Child(_perform_gated, work, shape.from_open) as child:
        child.hear()
        with Strace(child.pid, *strace.only(*SYSCALLS[order.bench.name]), log=log):
            child.tell()
            child.result()
    counted = strace.count(log)
    return (Point(shape, name, number) for name, most in counted.items() for number in range(1, most + 1))


def _draw(found: Sequence[Point], order: Order) -> list[Point]:
    return draw(found, order.points, order.seed, lambda point: (point.shape.name, point.what))


def _die_at_line(work: Work, point: Point) -> Death:
    return at_line(_perform_until_line, work, point.number, point.shape.from_open)


def _die_at_syscall(work: Work, point: Point) -> Death:
    return at_syscall(point.what, point.number, _perform_gated, work, point.shape.from_open)


def _perform_gated(line: object, work: Work, from_open: bool) -> list[Answer]:
    return perform_gated(line, work, is_traced_from_open=from_open)  # type: ignore[arg-type]


def _perform_until_line(line: object, work: Work, number: int, from_open: bool) -> None:
    perform_until_line(line, work, number, is_traced_from_open=from_open)  # type: ignore[arg-type]


def _visit(order: Order, report: Report, points: Sequence[Point], die: Callable[[Work, Point], Death]) -> Report:
    """Kills a batch of workers, then recovers it: by then the leases of the dead are over and nobody has to wait."""
    numbered = enumerate(points)
    places: Counter[str] = Counter()
    while not report.is_done and (batch := list(islice(numbered, BATCH))):
        works = [_work(order, point.shape, f"{order.label}-{report.job}-{number}") for number, point in batch]
        struck = [die(work, point) for work, (_, point) in zip(works, batch, strict=True)]
        for where in (
            where for start in range(0, len(struck), WIDTH) for where in together(struck[start : start + WIDTH])
        ):
            report.note("survived" if where is None else "killed")
            report.points += where is not None
            places.update([where] if where else [])
        # The lease of the dead is short. A recovering worker keeps its own for longer, however busy the machine is.
        recovered = procs.ask_all(recover, ((replace(work, terms=RECOVERY),) for work in works))
        for work, (_, point), (answers, violations) in zip(works, batch, recovered, strict=True):
            report.add([*violations, *_wrong(answers)], at=point)
            report.note("in doubt", sum(answer.kind == "in_doubt" for answer in answers))
            _clear(work)
    report.notes["distinct places"] = len(places)
    return report.finish()


def _wrong(answers: Sequence[Answer]) -> Iterator[Violation]:
    """A clean worker on a healthy store hears the value, the failure, or that it is in doubt; nothing else."""
    for answer in answers:
        if answer.kind not in ("value", "failed", "in_doubt"):
            yield Violation("wrong answer", answer.call, f"{answer.kind}: {answer.words}")


def _work(order: Order, shape: Shape, prefix: str) -> Work:
    where = order.where / prefix
    url = order.bench.lay_out_bare(where) if shape.from_open else order.bench.lay_out(where)
    return Work(
        url=url, world=where / "world", calls=shape.calls(prefix), manner=shape.manner, terms=TERMS, mutant=order.mutant
    )


def _clear(work: Work) -> None:
    shutil.rmtree(Path(work.world).parent)


TEETH = ("effect-before-claim", "ack-before-settle", "retry-in-doubt")
LINES = Job(
    name="kill-lines",
    run=kill_at_lines,
    points={"sqlite": 2000, "postgres": 2000},
    teeth={"sqlite": TEETH, "postgres": TEETH},
)
SYSTEM_CALLS = Job(
    name="kill-syscalls",
    run=kill_at_syscalls,
    points={"sqlite": 2000, "postgres": 2000},
    teeth={"sqlite": TEETH, "postgres": TEETH},
)
