"""The store is down before a call, while its handler works, and after it; then it is back, and nobody restarts.

Promises: without a durable claim no handler is entered, every error names the store and the next step, and the same
open session works again as soon as the store does.
"""

from __future__ import annotations

import fcntl
import functools
import os
import pwd
import re
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from indelible.errors import IndelibleError
from tests.chaos import mutants, procs
from tests.chaos.benches import DATABASE, PostgresBench, memory_disk
from tests.chaos.oracle import Violation
from tests.chaos.procs import Child, ChildHangs
from tests.chaos.report import Job, Order, Report
from tests.chaos.subject import KEYS, STORE_TROUBLE, Answer, Call, Session, Terms, sqlite_url
from tests.chaos.worker import Work, judge
from tests.chaos.world import World, observe
from tests.stores.database import open_file

TERMS = Terms(lease=0.5, wait=10.0, patience=0.5)
# Trying for half a second, the library answers long before this.
PATIENCE = 15.0
# Calls made while the store is down, in each round.
CALLS_IN_OUTAGE = 10
_NAMES_STORE = re.compile(r"sqlite|postgres|ledger\.db|127\.0\.0\.1|socket", re.I)
_NAMES_STEP = re.compile(r"call again|try again|retry|check|start|settle|free|close|run|wait", re.I)


class Outage(Protocol):
    """One way for the store to be away."""

    name: str

    def begin(self) -> None:
        """Takes the store away."""
        ...

    def end(self) -> None:
        """Brings it back."""
        ...


@dataclass(slots=True)
class ServerKilled:
    """The PostgreSQL server crashes and is started again."""

    bench: PostgresBench
    name: str = "server killed"

    def begin(self) -> None:
        """Ends it at once. Killing only its first process would let a session live on and commit once more."""
        self.bench.server.stop("immediate")

    def end(self) -> None:
        """Starts it."""
        self.bench.server.start()


@dataclass(slots=True)
class FileLocked:
    """Another process sits on the SQLite file's write lock."""

    database: Path
    name: str = "file locked"
    _holder: Child | None = None

    def begin(self) -> None:
        """Takes the lock."""
        self._holder = Child(_hold_lock, self.database)
        assert self._holder.hear() == "locked"

    def end(self) -> None:
        """Lets go of it."""
        assert self._holder is not None
        self._holder.tell("let go")
        self._holder.result()


@dataclass(slots=True)
class DiskFull:
    """No file of the worker may grow."""

    worker: Child
    name: str = "disk full"

    def begin(self) -> None:
        """Sets the limit."""
        self.worker.tell(("limit", True))
        self.worker.hear()

    def end(self) -> None:
        """Lifts it."""
        self.worker.tell(("limit", False))
        self.worker.hear()


@dataclass(slots=True)
class LockFileHeld:
    """Another process was stopped while it held the store's lock file."""

    database: Path
    name: str = "lock file held"
    _file: BinaryIO | None = None

    def begin(self) -> None:
        """Takes the lock."""
        self._file = self.database.with_name(f"{DATABASE}-lock").open("rb")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def end(self) -> None:
        """Lets go of it."""
        assert self._file is not None
        self._file.close()


def _hold_lock(line: Connection, database: Path) -> None:
    connection = open_file(database)
    connection.execute("BEGIN IMMEDIATE")
    line.send("locked")
    line.recv()
    connection.execute("ROLLBACK")
    connection.close()


SQLITE_OUTAGES: dict[str, Callable[[Child, Path], Outage]] = {
    "locked": lambda worker, database: FileLocked(database),
    "full": lambda worker, database: DiskFull(worker),
    "lock file": lambda worker, database: LockFileHeld(database),
}


def take_store_away(order: Order) -> Report:
    """Does rounds until as many calls were made in outages as ordered."""
    report = Report("outages", order)
    number = 0
    while report.points < order.points and not report.is_done:
        kinds = ("server",) if isinstance(order.bench, PostgresBench) else tuple(SQLITE_OUTAGES)
        _one_round(order, report, kinds[number % len(kinds)], number)
        if number == 0 and not isinstance(order.bench, PostgresBench):
            _open_unwritable(order, report)
        number += 1
    report.notes["rounds"] = number
    return report.finish()


@dataclass(slots=True)
class _Round:
    """One worker, kept open through three outages."""

    report: Report
    worker: Child
    outage: Outage
    work: Work
    prefix: str
    made: list[Call] = field(default_factory=list)

    def call(self, name: str) -> Answer:
        """Lets the worker make a call."""
        return self.ask("call", self._named(name))

    def call_and_linger(self, name: str) -> None:
        """Lets the worker make a call and waits until it is in the handler."""
        self.worker.tell(("linger", self._named(name)))
        assert self.worker.hear() == "in the handler"

    def ask(self, *command: Any) -> Answer:
        """Gives the worker a command and waits for its answer."""
        self.worker.tell(command)
        answer: Answer = self.worker.hear(PATIENCE)
        return answer

    def expect(self, answer: Answer, *kinds: str, when: str) -> None:
        """Notes a violation unless the answer is of one of these kinds, and if trouble, says which and what to do."""
        at = f"{self.outage.name}, {when}"
        if answer.kind not in kinds:
            found = f"{answer.kind}, not {' or '.join(kinds)}: {answer.words}"
            self.report.add([Violation("wrong answer", answer.call, found)], at)
        elif answer.kind in STORE_TROUBLE and not (
            _NAMES_STORE.search(answer.words) and _NAMES_STEP.search(answer.words)
        ):
            found = f"does not name store and next step: {answer.words}"
            self.report.add([Violation("wrong answer", answer.call, found)], at)

    def _named(self, name: str) -> Call:
        call = Call(name=f"{self.prefix}/{name}", run_id=self.prefix)
        self.made.append(call)
        return call


def _one_round(order: Order, report: Report, kind: str, number: int) -> None:
    prefix = f"{order.label}-outage-{number}"
    where = order.where / prefix
    work = Work(url=order.bench.lay_out(where), world=where / "world", terms=TERMS, mutant=order.mutant)
    with Child(_serve, work) as worker:
        assert worker.hear() == "open"
        outage: Outage
        if isinstance(order.bench, PostgresBench):
            outage = ServerKilled(order.bench)
        else:
            outage = SQLITE_OUTAGES[kind](worker, where / DATABASE)
        this = _Round(report, worker, outage, work, prefix)
        try:
            _before(this)
            _during(this)
            _after(this)
            worker.tell(("close",))
            worker.result()
        except ChildHangs as error:
            report.add([Violation("wrong answer", prefix, f"none at all: {error}")], at=outage.name)
    judged = replace(work, calls=tuple(this.made))
    report.add(procs.ask(judge, judged), at=f"{outage.name}, round {number}")
    shutil.rmtree(where)


def _before(this: _Round) -> None:
    with _away(this.outage):
        for each in range(CALLS_IN_OUTAGE):
            # A statement that was sent on a dead connection may for all we know have run.
            this.expect(this.call(f"before-{each}"), "unavailable", "unknown", when="before")
            this.report.points += 1
        entered = [touch.call for touch in observe(this.work.world).touches if touch.call.startswith(this.prefix)]
        this.report.add([Violation("handler entered without claim", call, this.outage.name) for call in entered])
    for each in range(CALLS_IN_OUTAGE):
        this.expect(this.call(f"before-{each}"), "value", when="back again")


def _during(this: _Round) -> None:
    this.call_and_linger("during")
    with _away(this.outage):
        answer = this.ask("go on")
        this.report.points += 1
        this.expect(answer, "not_recorded", "unknown", when="during")
    # It may have been settled by a late write, or be in doubt; it is not made again.
    this.expect(this.call("during"), "in_doubt", "value", when="after during")


def _after(this: _Round) -> None:
    first = this.call("after")
    this.expect(first, "value", when="healthy")
    with _away(this.outage):
        # A store that only cannot be written can still be read.
        meanwhile = this.call("after")
        this.report.points += 1
        this.expect(meanwhile, "value", "unavailable", "unknown", when="replay while away")
    again = this.call("after")
    this.expect(again, "value", when="replay")
    if again.value != first.value:
        this.report.add([Violation("changed result", again.call, f"{first.value} became {again.value}")])


@contextmanager
def _away(outage: Outage) -> Iterator[None]:
    outage.begin()
    try:
        yield
    finally:
        outage.end()


def _serve(line: Connection, work: Work) -> None:
    """Does what the harness says, in one session that is never opened again."""
    mutants.plant(work.mutant)
    lingered: set[str] = set()

    def linger(call: Call) -> None:
        if call.name in lingered:
            return  # only a broken ledger comes here twice; the oracle will tell
        lingered.add(call.name)
        line.send("in the handler")
        while (command := line.recv()) != ("go on",):
            _limit(line, is_on=command[1])

    with World(work.world) as world:
        session = Session(work.url, world, work.terms)
        line.send("open")
        while True:
            match line.recv():
                case ("call", call):
                    line.send(session.call(call))
                case ("linger", call):
                    line.send(session.call(call, functools.partial(linger, call)))
                case ("limit", is_on):
                    _limit(line, is_on=is_on)
                case ("close",):
                    session.close()
                    return
                case unknown:
                    raise ValueError(f"no such command: {unknown}")


def _limit(line: Connection, *, is_on: bool) -> None:
    """Lets no write go past the first page of any file; the world's own few lines still fit."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096 if is_on else most, most))
    line.send("limited")


def _open_unwritable(order: Order, report: Report) -> None:
    """A directory that may not be written: opening says so, and works once it may, in the same process."""
    where = Path(tempfile.mkdtemp(prefix="chaos-unwritable-", dir=memory_disk()))
    try:
        answer: str = procs.ask(_try_unwritable, where)
        report.points += 1
        if answer:
            report.add([Violation("wrong answer", "open", answer)], "unwritable directory")
    finally:
        shutil.rmtree(where)


def _try_unwritable(where: Path) -> str:
    os.environ[KEYS] = str(where / "keys")
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(where, nobody.pw_uid, nobody.pw_gid)
        # Permissions do not bind root.
        os.setresuid(nobody.pw_uid, nobody.pw_uid, nobody.pw_uid)
    folder = where / "store"
    folder.mkdir()
    url = sqlite_url(folder / DATABASE)
    world = World(where / "world")
    folder.chmod(0o500)
    try:
        Session(url, world, Terms()).close()
    except IndelibleError as error:
        words = f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"not an error of the library: {type(error).__name__}: {error}"
    else:
        return "it opened"
    finally:
        folder.chmod(0o700)
    Session(url, world, Terms()).close()
    return "" if _NAMES_STORE.search(words) and _NAMES_STEP.search(words) else f"does not name store and step: {words}"


JOB = Job(
    name="outages",
    run=take_store_away,
    points={"sqlite": 1000, "postgres": 1000},
    teeth={"sqlite": ("fail-open",), "postgres": ("fail-open", "naive-retry")},
)
