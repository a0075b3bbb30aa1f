"""Four writers on one SQLite file, and beside them what people do to such a file: backups, shells, checkpoints, copies.

The programs beside use another, older SQLite: the system's shell and Python's own library. The writers themselves copy
the file, open it a second time, fork, and write in the ledger's transaction. At the end the writers are killed. A call
that was acknowledged must then be known, and no handler may have been entered twice.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import apsw

from indelible import Ledger, RunningEffect, ToolCall
from indelible.errors import IndelibleError
from tests.chaos import mutants, procs
from tests.chaos.oracle import Violation
from tests.chaos.procs import Child
from tests.chaos.report import Job, Order, Report
from tests.chaos.subject import lent, sqlite_url
from tests.chaos.world import Touch, World, observe

WRITERS = 4
# The bytes that every reader of a database locks, as /proc shows them.
SHARED = "1073741826 1073742335"
_BACKUP = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute(f\"VACUUM INTO '{sys.argv[2]}'\")"
_SQL = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]).fetchall(); c.close()"
_STATEMENTS = (
    "SELECT count(*) FROM indelible_effects",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA wal_checkpoint",
    "SELECT 1",
)


def work_beside(order: Order) -> Report:
    """Let writers and programs work beside each other for so many seconds; points are seconds."""
    report = Report("sqlite-beside", order)
    where = order.where / f"{order.label}-beside"
    order.bench.lay_out(where)
    database, world = where / "ledger.db", where / "world"
    with ExitStack() as exits:
        writers = [exits.enter_context(Child(write, database, world, order.mutant, n)) for n in range(WRITERS)]
        for writer in writers:
            writer.hear()
        programs = Programs(database, where)
        ends = time.monotonic() + order.points
        while time.monotonic() < ends:
            programs.check()
            for number, writer in enumerate(writers):
                report.note("looks at a writer's lock")
                if not locks_of(writer.pid, database):
                    report.add([Violation("store not usable", "lock", f"writer {number} does not hold its lock")])
            time.sleep(0.05)
        for writer in writers:
            writer.kill()
        report.notes["programs beside"] = programs.stop()
    report.points = order.points
    violations, acknowledged = procs.ask(judge, database, world)
    report.notes["acknowledged"] = acknowledged
    report.add(violations)
    return report.finish()


def locks_of(pid: int, database: Path) -> dict[int, int]:
    """Return the open files by which a process holds the lock that keeps a database's log in place, with their offsets.

    No close() of another file drops these. `/proc/locks` does not tell them: it is read in pieces of a page, and a lock
    that ends between two of them shifts the rest, so that lines are left out or come twice. What is said of one open
    file is read at once. Files with one offset, if it is set to an odd one, are one file that was inherited.
    """
    held = re.compile(rf"^lock:.* OFDLCK .*:{database.stat().st_ino} {SHARED}$", re.MULTILINE)
    found: dict[int, int] = {}
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # the process is gone
        for opened in Path(f"/proc/{pid}/fdinfo").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed since
                if held.search(told := opened.read_text()):
                    found[int(opened.name)] = int(told.split()[1])
    return found


class Programs:
    """Run one program after the other beside the writers, in two threads."""

    def __init__(self, database: Path, where: Path) -> None:
        self._is_over = threading.Event()
        self._done = itertools.count()
        self._failure: str | None = None
        self._threads = [
            threading.Thread(
                target=self._run, args=(list(commands(database, where / f"copy-{number}.db")), number), daemon=True
            )
            for number in range(2)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, every: Sequence[Sequence[str]], number: int) -> None:
        for command in itertools.cycle(every[number:] + every[:number]):
            if self._is_over.is_set():
                return
            for copy in {word for word in command if "copy-" in word}:
                Path(copy.split("'")[-2] if "'" in copy else copy).unlink(missing_ok=True)
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=procs.PATIENCE)
            # A checkpoint may find the file busy: then it has done nothing.
            if ended.returncode and "locked" not in ended.stderr + ended.stdout:
                self._failure = f"{command}: {ended.stderr}"
            next(self._done)

    def check(self) -> None:
        """Raise what went wrong with a program."""
        assert self._failure is None, self._failure

    def stop(self) -> int:
        """Let them end, and return how many have run."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        self.check()
        return next(self._done)


def commands(database: Path, copy: Path) -> Iterator[Sequence[str]]:
    """Return what people type."""
    for statement in _STATEMENTS:
        yield [sys.executable, "-c", _SQL, str(database), statement]
    yield [sys.executable, "-c", _BACKUP, str(database), str(copy)]
    if shell := shutil.which("sqlite3"):
        for statement in (*_STATEMENTS, f"VACUUM INTO '{copy}'"):
            yield [shell, str(database), statement]


# The writers


def write(line: Connection, database: Path, world: Path, mutant: str | None, number: int) -> None:
    """Make calls, one after the other, until killed."""
    mutants.plant(mutant)
    with World(world) as outside, Ledger.open(sqlite_url(database), keys=lent(world / "keys")) as ledger:
        line.send("ready")
        for count in itertools.count():
            name = f"{number}-{count}"
            with contextlib.suppress(IndelibleError) if mutant is not None else contextlib.nullcontext():
                outside.acknowledge(name, ledger.run(call_named(name), lambda effect: act(outside, effect)))
            if count % 10 == 0:
                disturb(ledger, database, count // 10)


def call_named(name: str) -> ToolCall:
    """Return the call of a name."""
    return ToolCall(run_id=name.partition("-")[0], tool="pay", args={"name": name})


def act(outside: World, effect: RunningEffect) -> str:
    """Do what the call asks for; every third one writes in the ledger's own database too."""
    name: str = effect.args["name"]
    if name.endswith(("0", "3", "6")):
        with effect.transaction() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS own (name)")
            connection.execute("INSERT INTO own VALUES (?)", (name,))
            outside.touch(Touch(call=name, key=effect.key, attempt=effect.attempt))
    else:
        outside.touch(Touch(call=name, key=effect.key, attempt=effect.attempt))
    return name


def disturb(ledger: Ledger, database: Path, turn: int) -> None:
    """Do to the file what a program may do that has it open as a ledger."""
    if turn % 4 == 0:
        for file in (database, Path(f"{database}-shm"), Path(f"{database}-wal")):
            file.open("rb").close()
    elif turn % 4 == 1:
        shutil.copyfile(database, f"{database}-{os.getpid()}.copy")
    elif turn % 4 == 2:
        with Ledger.open(sqlite_url(database), seal=False) as second:
            second.effects(limit=1)
    elif (child := os.fork()) == 0:
        ledger.effects(limit=1)
        os._exit(0)
    else:
        os.waitpid(child, 0)


# The judge


def judge(database: Path, world: Path) -> tuple[list[Violation], int]:
    """Ask a fresh ledger for every call that was acknowledged; return what is wrong, and how many there were."""
    seen = observe(world)
    found: list[Violation] = []
    entered: list[str] = []
    with Ledger.open(sqlite_url(database), keys=lent(world / "keys")) as ledger:
        for ack in seen.acks:
            try:
                ledger.run(call_named(ack.call), lambda effect: entered.append(effect.args["name"]) or "again")
            except IndelibleError as error:
                found.append(Violation("lost ack", ack.call, f"was acknowledged, and now: {error}"))
        health = apsw.Connection(str(database)).pragma("integrity_check")
    found += [Violation("lost ack", name, "was acknowledged and ran again") for name in entered]
    twice = [name for name, times in Counter(touch.call for touch in seen.touches).items() if times > 1]
    found += [Violation("duplicate effect", name, "was entered twice") for name in twice]
    if health != "ok":
        found.append(Violation("store corrupt", "database", str(health)))
    return found, len(seen.acks)


JOB = Job(
    name="sqlite-beside",
    run=work_beside,
    points={"sqlite": 60},
    teeth={"sqlite": ("locks-dropped",)},
    bites=6,
)
