"""A disk that fails: EIO and ENOSPC at the N-th write or sync of the store, no more descriptors, and a full disk.

Promises: a caller always hears of it as an error of the library, no handler is entered after a claim that could not be
written, and the store is usable once the disk is.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from indelible.errors import IndelibleError
from tests.chaos import mutants, procs, strace
from tests.chaos.benches import DATABASE
from tests.chaos.kill_points import SHAPES, Shape
from tests.chaos.oracle import Violation
from tests.chaos.procs import Child, let_anybody_trace_me
from tests.chaos.report import Job, Order, Report
from tests.chaos.sampling import draw
from tests.chaos.strace import Strace
from tests.chaos.subject import STORE_TROUBLE, Answer, Call, Session, Terms, sqlite_url
from tests.chaos.worker import Work, call_all, open_session, recover
from tests.chaos.world import EFFECTS, World

# A short lease: every point waits for one to run out, and losing it early would be safe.
TERMS = Terms(lease=0.1, wait=5.0)
# What fails, and how. A claim cannot become durable without the first two.
NEEDED = ("pwrite64", "fdatasync")
FAULTS = (
    *((call, error) for call in (*NEEDED, "fsync", "ftruncate") for error in ("EIO", "ENOSPC")),
    ("openat", "EMFILE"),
    ("openat", "EIO"),
    ("pread64", "EIO"),
)
# With the last of these a healthy answer may come, for a fault that passes may pass unnoticed.
HONEST = STORE_TROUBLE | {"unusable", "value", "failed", "in_doubt", "running", "lease_lost"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One place to fail: the N-th call of a kind, once or from then on."""

    shape: Shape
    syscall: str
    error: str
    number: int
    for_good: bool

    def __str__(self) -> str:
        return f"{self.shape.name}:{self.syscall}#{self.number}{'+' if self.for_good else ''}={self.error}"


def fail_disk(order: Order) -> Report:
    """Visits as many faults as ordered, and a tenth as many full disks."""
    report = Report("disk-faults", order)
    full_disks = max(4, order.points // 10)
    if strace.is_available():
        found = [fault for shape in SHAPES for fault in _faults_of(order, shape)]
        report.notes["faults found"] = len(found)
        chosen = draw(found, order.points - full_disks, order.seed, lambda fault: replace(fault, number=0))
        for number, fault in enumerate(chosen):
            _visit(order, report, fault, f"{order.label}-fault-{number}")
            if report.is_done:
                return report.finish()
    for number in range(full_disks):
        _fill_by_limit(order, report, number)
        if number % 4 == 0:
            _fill_by_mount(order, report, number)
        if report.is_done:
            break
    return report.finish()


def _faults_of(order: Order, shape: Shape) -> Iterator[Fault]:
    work = _work(order, shape, f"{order.label}-count-{shape.name}")
    log = work.world.parent / "strace.log"
    names = tuple(dict.fromkeys(name for name, _ in FAULTS))
    with Child(_endure, work) as child:
        child.hear()
        with Strace(child.pid, *_about(work), *strace.only(*names), log=log):
            child.tell()
            child.result()
    counted = strace.count(log)
    for name, error in FAULTS:
        for number in range(1, counted[name] + 1):
            yield from (Fault(shape, name, error, number, for_good) for for_good in (False, True))


def _visit(order: Order, report: Report, fault: Fault, prefix: str) -> None:
    work = _work(order, fault.shape, prefix)
    log = work.world.parent / "strace.log"
    inject = strace.fail_at(fault.syscall, fault.error, fault.number, for_good=fault.for_good)
    with Child(_endure, work) as child:
        child.hear()
        with Strace(child.pid, *_about(work), *strace.only(fault.syscall, "write"), *inject, log=log):
            child.tell()
            answers: list[Answer] = child.result()
    report.points += 1
    report.add(_dishonest(answers), at=fault)
    report.note("calls in trouble", sum(answer.kind in STORE_TROUBLE for answer in answers))
    if fault.for_good and fault.syscall in NEEDED and len(work.calls) == 1:
        report.add(_entered_after_fault(log), at=fault)
    _recover(report, work, fault)
    shutil.rmtree(work.world.parent)


def _about(work: Work) -> tuple[str, ...]:
    """Looks at the store's files and at the effects file alone: what Python itself opens and reads is not at issue."""
    database = work.world.parent / DATABASE
    paths = [str(database) + end for end in ("", "-wal", "-journal", "-shm", "-lock", "-wake")]
    return tuple(part for path in (*paths, str(work.world / EFFECTS)) for part in ("-P", path))


def _endure(line: Connection, work: Work) -> list[Answer]:
    """Makes the calls though the disk fails, each again if the store was the trouble, in the same open session."""
    mutants.plant(work.mutant)
    let_anybody_trace_me()
    with World(work.world) as world:
        line.send("ready")
        line.recv()
        try:
            session = open_session(work, world)
        except IndelibleError as error:
            return [Answer(call="open", kind="unavailable", words=str(error))]
        except Exception as error:
            return [Answer(call="open", kind="foreign", words=f"{type(error).__name__}: {error}")]
        answers = call_all(session, work)
        if any(answer.kind in STORE_TROUBLE for answer in answers):
            answers += call_all(session, work)
        # Closing may fail too; whatever it leaves is what a crash would leave.
        try:
            session.close()
        except IndelibleError as error:
            answers.append(Answer(call="close", kind="unavailable", words=str(error)))
        return answers


def _dishonest(answers: Sequence[Answer]) -> Iterator[Violation]:
    for answer in answers:
        if answer.kind not in HONEST:
            yield Violation("wrong answer", answer.call, f"{answer.kind}: {answer.words}")


def _entered_after_fault(log: Path) -> Iterator[Violation]:
    """With one call and a fault that stays, an effect after the first fault had no durable claim."""
    lines = log.read_bytes().splitlines()
    first = next((place for place, line in enumerate(lines) if b"(INJECTED)" in line), len(lines))
    touched = next((place for place, line in enumerate(lines) if b" write(" in line), len(lines))
    if first < touched < len(lines):
        yield Violation("handler entered without claim", log.parent.name, lines[first].decode(errors="replace")[-80:])


def _recover(report: Report, work: Work, at: object) -> None:
    try:
        answers, violations = procs.ask(recover, replace(work, mutant=None, terms=Terms(lease=0.1, wait=20.0)))
    except procs.ChildRaised as error:
        report.add([Violation("store not usable", work.url, str(error).splitlines()[-1])], at)
        return
    report.add(violations, at)
    bad = [answer for answer in answers if answer.kind not in ("value", "failed", "in_doubt")]
    report.add([Violation("store not usable", answer.call, f"{answer.kind}: {answer.words}") for answer in bad], at)


def _fill_by_limit(order: Order, report: Report, number: int) -> None:
    """No file may grow past a limit; then it may again, in the same process and session."""
    work = _work(order, SHAPES[0], f"{order.label}-limit-{number}")
    calls = tuple(Call(name=f"{work.calls[0].name}-{each}", run_id="full", padding=4000) for each in range(20))
    work = replace(work, calls=calls)
    _outlast(report, work, lambda: procs.ask(_perform_in_limit, work, number * 4096), f"limit+{number}")
    shutil.rmtree(work.world.parent)


def _perform_in_limit(work: Work, more: int) -> tuple[list[Answer], list[Answer]]:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    database = work.world.parent / DATABASE
    with _session(work) as session:
        sizes = [file.stat().st_size for file in database.parent.glob(f"{DATABASE}*") if not file.name.endswith("-shm")]
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) + more, most))
        full = call_all(session, work)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        return full, call_all(session, work)


def _fill_by_mount(order: Order, report: Report, number: int) -> None:
    """The disk itself is full, where we may mount one in memory; then something else on it is deleted."""
    where = order.where / f"{order.label}-mount-{number}"
    disk = where / "disk"
    disk.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        report.notes["tmpfs"] = "not permitted"
        return
    try:
        order.bench.lay_out(disk)
        calls = tuple(Call(name=f"mount-{number}-{each}", run_id="full", padding=8000) for each in range(20))
        url = sqlite_url(disk / DATABASE)
        work = Work(url=url, world=where / "world", calls=calls, terms=TERMS, mutant=order.mutant)
        ballast = disk / "ballast"
        _outlast(report, work, lambda: procs.ask(_perform_on_full, work, ballast, number), f"tmpfs+{number}")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        shutil.rmtree(where)


def _perform_on_full(work: Work, ballast: Path, number: int) -> tuple[list[Answer], list[Answer]]:
    with _session(work) as session:
        room = shutil.disk_usage(ballast.parent).free
        ballast.write_bytes(bytes(max(0, room - 4096 * (number % 40))))
        full = call_all(session, work)
        ballast.unlink()
        return full, call_all(session, work)


def _outlast(report: Report, work: Work, perform: Callable[[], tuple[list[Answer], list[Answer]]], at: str) -> None:
    """Judges a disk that was full and is not any more: trouble only while it was, and nothing forgotten."""
    full, after = perform()
    report.points += 1
    report.note("full disks noticed", any(answer.kind in STORE_TROUBLE for answer in full))
    report.add(_dishonest(full), at)
    bad = [answer for answer in after if answer.kind not in ("value", "failed", "in_doubt")]
    report.add([Violation("store not usable", answer.call, f"{answer.kind}: {answer.words}") for answer in bad], at)
    _recover(report, work, at)


@contextmanager
def _session(work: Work) -> Iterator[Session]:
    mutants.plant(work.mutant)
    with World(work.world) as world:
        session = Session(work.url, world, work.terms)
        try:
            yield session
        finally:
            session.close()


def _work(order: Order, shape: Shape, prefix: str) -> Work:
    where = order.where / prefix
    url = order.bench.lay_out_bare(where) if shape.from_open else order.bench.lay_out(where)
    return Work(
        url=url, world=where / "world", calls=shape.calls(prefix), manner=shape.manner, terms=TERMS, mutant=order.mutant
    )


JOB = Job(
    name="disk-faults",
    run=fail_disk,
    points={"sqlite": 600},
    teeth={"sqlite": ("fail-open", "effect-before-claim")},
)
