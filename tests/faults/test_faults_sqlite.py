"""Faults of the SQLite file, and of a handler's own transaction: 49, 50, 57, 58, 59, 81 and 93."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest

import indelible
from indelible import AsyncLedger, Ledger, NothingHappened, Retry, RunningEffect, ToolCall
from indelible.cli import main as cli_main
from indelible.cli.behind import store_behind
from indelible.errors import (
    BadCall,
    EffectFailed,
    EffectInDoubt,
    KeyUnusable,
    MayHaveHappened,
    Misconfigured,
    ResultNotRecorded,
    StoreError,
    StoreUnavailable,
)
from indelible.journal.keys.ring import KeyRing
from indelible.stores.sqlite import write_lock
from indelible.stores.sqlite.store import SqliteStore
from indelible.stores.sqlite.write_lock import WriteLock, is_stopped
from tests.chaos.beside import locks_of
from tests.scenarios.shells import Driver, charge
from tests.scenarios.test_transactions import Table, table
from tests.waiting import PATIENCE, eventually

__all__ = ["table"]


# ── 50: a handler that commits by itself ─────────────────────────────────────────────────────────────────────────────


def by_sql(connection: Any) -> None:
    connection.execute("COMMIT")


def by_sql_and_again(connection: Any) -> None:
    connection.execute("COMMIT")
    connection.execute("BEGIN")
    connection.execute("SELECT nothing FROM nowhere")


def by_method(connection: Any) -> None:
    connection.execute("COMMIT") if isinstance(connection, apsw.Connection) else connection.commit()


def by_rolling_back_first(connection: Any) -> None:
    connection.execute("ROLLBACK")


def then_closed(connection: Any) -> None:
    connection.execute("COMMIT")
    connection.close()


@pytest.mark.parametrize("then", [RuntimeError, NothingHappened])
@pytest.mark.parametrize("commit", [by_sql, by_sql_and_again, by_method, by_rolling_back_first, then_closed])
def test_50_what_a_handler_committed_by_itself_never_counts_as_failed(
    ledger: Driver, table: Table, scenario_url: str, commit: Any, then: type[Exception]
) -> None:
    # On SQLite a handler cannot commit by itself, and over HTTP it has no transaction.
    entered, is_refused = [], scenario_url.startswith("sqlite") or ledger.kind == "http"

    def handler(effect: RunningEffect) -> str:
        entered.append(effect.attempt)
        with effect.transaction() as connection:
            connection.execute(table.insert(5))
            commit(connection)
            connection.execute(table.insert(6))
            raise then("after the commit")

    options: dict[str, Any] = {"side_effect": "write", "retry": Retry(on=(RuntimeError,), attempts=3)}
    with pytest.raises((BadCall, MayHaveHappened)):
        ledger.run(charge(), handler, **options)
    assert (table.amounts() == [], ledger.effects()[0].status) == (is_refused, "failed" if is_refused else "in_doubt")
    with pytest.raises(EffectFailed if is_refused else EffectInDoubt):
        ledger.run(charge(), handler, **options)
    assert len(entered) == 1


# ── 49: a forked child and the program's files ───────────────────────────────────────────────────────────────────────


def test_49_a_forked_child_closes_no_file_of_the_program(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db-lock")
    holder, lock = WriteLock(path, "holder"), WriteLock(path, "waiting")
    taking = threading.Thread(target=lambda: lock.__enter__())
    with holder:
        taking.start()
        eventually(lambda: any(thread.name == "indelible-write-lock" for thread in threading.enumerate()))
    taking.join()
    lock.__exit__(None, None, None)
    queue = lock._queue
    assert queue is not None
    assert queue._thread is not None
    lock.close()
    queue._thread.join()
    # These get the numbers that the lock's descriptors had.
    files = [(tmp_path / f"own-{number}").open("w") for number in range(20)]
    child = os.fork()
    if child == 0:
        os._exit(0 if all(is_open(file.fileno()) for file in files) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for file in files:
        file.close()
    holder.close()


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


FORKING = """
import os, sys
import apsw
from indelible import Ledger, ToolCall

ledger, parent = Ledger.open(sys.argv[1]), os.getpid()
for number in range(20):
    ledger.run(ToolCall(tool="charge", args={"number": number}, run_id="r"), lambda effect: "paid")
own = apsw.Connection(sys.argv[2])
own.set_busy_timeout(20000)
own.execute("CREATE TABLE rows_of_it (text)")
own.close()

def handler(effect):
    with effect.transaction() as connection:
        for number in range(3000):  # more than SQLite keeps in memory, so it is in the log already
            connection.execute("INSERT INTO rows_of_it VALUES (?)", ("x" * 2000,))
        child = os.fork()
        if child == 0:
            if sys.argv[3] == "raise":
                raise ValueError("in the child")
            sys.exit(3)
        os.waitpid(child, 0)
        connection.execute("INSERT INTO rows_of_it VALUES ('last')")
    return "done"

try:
    print(ledger.run(ToolCall(tool="write", run_id="r"), handler), flush=True)
    ledger.close()
finally:
    if os.getpid() != parent and sys.argv[3] == "raise":
        os._exit(1)
"""


@pytest.mark.parametrize("how", ["exit", "raise"])
def test_49_a_child_that_is_forked_inside_a_transaction_leaves_it_to_its_parent(tmp_path: Path, how: str) -> None:
    path = tmp_path / "ledger.db"
    command = [sys.executable, "-c", FORKING, f"sqlite:///{path}", str(path), how]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stdout == "done\n", ran.stderr
    found = sqlite3.connect(path)
    assert found.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert found.execute("SELECT count(*) FROM rows_of_it").fetchall() == [(3001,)]


# ── 57: a process that is stopped ────────────────────────────────────────────────────────────────────────────────────

STOPPING = """
import sys
from indelible import Ledger, ToolCall

def handler(effect):
    print("entered", flush=True)
    return sys.stdin.readline()

with Ledger.open(sys.argv[1]) as ledger:
    print(ledger.run(ToolCall(run_id=sys.argv[2], tool="stop", args={}), handler))
"""


def test_57_a_process_stopped_as_it_enters_its_handler_holds_up_no_other(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url) as ledger:
        ledger.run(charge(), lambda effect: "warm")
        for number in range(4):
            command = [sys.executable, "-c", STOPPING, sqlite_url, f"stopped-{number}"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            with subprocess.Popen(command, **pipes, text=True) as stopped, ExitStack() as exits:
                exits.callback(stopped.kill)
                assert stopped.stdout is not None
                assert stopped.stdout.readline() == "entered\n"
                os.kill(stopped.pid, signal.SIGSTOP)
                eventually(lambda pid=stopped.pid: is_stopped(pid))
                assert ledger.run(charge(args={"amount": 100 + number}), lambda effect: "went on") == "went on"
                os.kill(stopped.pid, signal.SIGCONT)
                assert stopped.communicate("done", timeout=PATIENCE)[0] == "done\n"


def test_57_whoever_waits_for_a_stopped_process_is_told_which_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_lock, "PATIENCE", 0.05)
    path = str(tmp_path / "ledger.db-lock")
    child = os.fork()
    if child == 0:
        with WriteLock(path, "child"):
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
    try:
        eventually(lambda: is_stopped(child))
        waiting = WriteLock(path, "waiting")
        with pytest.raises(StoreUnavailable, match=f"kill -CONT {child}"):
            waiting.__enter__()
        waiting.close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


# ── 58: SQLite's lock, and the log that it keeps in place ────────────────────────────────────────────────────────────


def run_elsewhere(program: str, *arguments: object) -> str:
    """Run a program of another process, with Python's own and older SQLite."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


READ = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(*c.execute(sys.argv[2]).fetchone()); c.close()"
HOW_MANY = "SELECT count(*) FROM indelible_effects WHERE status = 'succeeded'"


def reads_it(ledger: Ledger, file: Path) -> None:
    for each in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        each.open("rb").close()


def copies_it(ledger: Ledger, file: Path) -> None:
    shutil.copy(file, file.with_suffix(".copy"))


def opens_it_twice(ledger: Ledger, file: Path) -> None:
    Ledger.open(f"sqlite:///{file}", seal=False).close()


def writes_in_it(ledger: Ledger, file: Path) -> None:
    def handler(effect: RunningEffect) -> None:
        with effect.transaction() as connection:
            connection.execute("CREATE TABLE own (amount)")

    ledger.run(ToolCall(run_id="own", tool="own", args={}), handler)


def verifies_it(ledger: Ledger, file: Path) -> None:
    assert not indelible.verify(file).is_verified


def examines_it(ledger: Ledger, file: Path) -> None:
    assert cli_main(["doctor", "--url", f"sqlite:///{file}"]) in (0, 1)


def connects_to_it(ledger: Ledger, file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute(HOW_MANY).fetchall()
    connection.close()


def forks(ledger: Ledger, file: Path) -> None:
    child = os.fork()
    if child == 0:
        ledger.effects()
        ledger.close()
        os._exit(0)
    os.waitpid(child, 0)


DEEDS = [reads_it, copies_it, opens_it_twice, writes_in_it, verifies_it, examines_it, connects_to_it, forks]


@pytest.mark.parametrize("deed", DEEDS)
def test_58_the_lock_is_held_whatever_the_process_does_with_the_file(tmp_path: Path, deed: Any) -> None:
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        held = locks_of(os.getpid(), file)
        assert len(held) == 1
        deed(ledger, file)
        assert locks_of(os.getpid(), file) == held
        log = Path(f"{file}-wal").stat().st_ino
        run_elsewhere(READ, file, HOW_MANY)
        assert Path(f"{file}-wal").stat().st_ino == log, "another program's close deleted the log"
        before = int(run_elsewhere(READ, file, HOW_MANY))
        ledger.run(charge(), lambda effect: "paid")
        assert int(run_elsewhere(READ, file, HOW_MANY)) == before + 1
        assert locks_of(os.getpid(), file) == held
    assert not locks_of(os.getpid(), file)
    assert not Path(f"{file}-wal").exists(), "the last one clears up"


def test_58_a_forked_child_holds_a_lock_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    ledger = Ledger.open(f"sqlite:///{file}")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        ledger.effects()
        os.write(ready[1], b"!")
        os.read(go[0], 1)
        os._exit(0 if ledger.run(charge(), lambda effect: "paid") == "paid" else 1)
    os.read(ready[0], 1)
    (held,) = locks_of(os.getpid(), file)
    os.lseek(held, 4711, os.SEEK_SET)
    own = locks_of(child, file)
    assert len(own) == 1
    assert 4711 not in own.values(), "what it inherited is the parent's"
    ledger.close()
    run_elsewhere(READ, file, HOW_MANY)
    assert locks_of(child, file) == own
    os.write(go[1], b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert int(run_elsewhere(READ, file, HOW_MANY)) == 1
    for descriptor in (*ready, *go):
        os.close(descriptor)


def log_deleted(file: Path) -> None:
    Path(f"{file}-wal").unlink()


def log_replaced(file: Path) -> None:
    shutil.copy(f"{file}-wal", f"{file}-new")
    Path(f"{file}-new").rename(f"{file}-wal")


def log_emptied(file: Path) -> None:
    os.truncate(f"{file}-wal", 0)


def index_deleted(file: Path) -> None:
    Path(f"{file}-shm").unlink()


def index_moved(file: Path) -> None:
    Path(f"{file}-shm").rename(f"{file}-old")


def deleted(file: Path) -> None:
    file.unlink()


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def replaced(file: Path) -> None:
    shutil.copy(file, f"{file}-new")
    Path(f"{file}-new").rename(file)


@pytest.mark.parametrize(
    "loss", [log_deleted, log_replaced, log_emptied, index_deleted, index_moved, deleted, emptied, replaced]
)
@pytest.mark.parametrize("when", ["before", "inside"])
def test_58_a_file_or_log_that_is_gone_is_refused_and_starts_nothing(tmp_path: Path, loss: Any, when: str) -> None:
    file = tmp_path / "ledger.db"
    ledger = Ledger.open(f"sqlite:///{file}")
    ledger.run(charge(args={"amount": 1}), lambda effect: "paid")
    entered: list[str] = []

    def handler(effect: RunningEffect) -> str:
        entered.append(effect.id)
        loss(file)
        return "paid"

    if when == "before":
        loss(file)
    with pytest.raises((StoreError, ResultNotRecorded)):
        ledger.run(charge(args={"amount": 2}), handler)
    assert len(entered) == (when == "inside")
    with pytest.raises(StoreError):
        ledger.run(charge(args={"amount": 3}), handler)
    assert len(entered) == (when == "inside")
    ledger.close()


@pytest.mark.parametrize(
    "loss", [log_deleted, log_replaced, log_emptied, index_deleted, index_moved, deleted, emptied, replaced]
)
def test_58_what_was_written_to_a_file_that_is_gone_by_then_starts_nothing(
    tmp_path: Path, loss: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ledger.db"
    entered: list[str] = []
    with Ledger.open(f"sqlite:///{file}", seal=False) as ledger:
        assert ledger.run(charge(args={"amount": 1}), lambda effect: "paid") == "paid"
        transact = SqliteStore._transact

        def lost_after_the_commit(store: SqliteStore, *words: Any) -> Any:
            monkeypatch.undo()
            batch = transact(store, *words)
            loss(file)
            return batch

        monkeypatch.setattr(SqliteStore, "_transact", lost_after_the_commit)
        with pytest.raises(StoreError):
            ledger.run(charge(args={"amount": 2}), lambda effect: entered.append(effect.id))
    assert SqliteStore._transact is transact, "the file was lost while the call was written"
    assert entered == []


PAY = """
import sys
from indelible import Ledger, ToolCall
with Ledger.open(f"sqlite:///{sys.argv[1]}") as ledger:
    for n in map(int, sys.argv[2:]):
        call = ToolCall(tool="charge", args={"amount": n}, run_id="order-1")
        print(ledger.run(call, lambda effect: "entered"))
"""


def test_58_a_process_without_the_index_of_the_log_undoes_nothing_when_it_closes(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    ledger = Ledger.open(f"sqlite:///{file}")
    assert ledger.run(charge(args={"amount": 1}), lambda effect: "paid") == "paid"
    index_deleted(file)
    assert run_elsewhere(PAY, file, "1", "2").split() == ["paid", "entered"]
    with pytest.raises(StoreError):
        ledger.run(charge(args={"amount": 3}), lambda effect: "entered")
    ledger.close()
    assert run_elsewhere(READ, file, HOW_MANY).strip() == "2"


CHECKPOINT = (
    "import apsw, sys; c = apsw.Connection(sys.argv[1]); print(*c.execute('PRAGMA wal_checkpoint(TRUNCATE)').get)"
)


def test_58_a_log_that_another_program_truncates_by_a_checkpoint_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{file}", seal=False) as ledger:
        for number in range(3):
            assert ledger.run(charge(args={"amount": number}), lambda effect: "paid") == "paid"
            assert run_elsewhere(CHECKPOINT, file).startswith("0 ")
            assert Path(f"{file}-wal").stat().st_size == 0
        assert ledger.run(charge(args={"amount": 3}), lambda effect: "paid") == "paid"
    assert run_elsewhere(READ, file, HOW_MANY).strip() == "4"


def test_58_a_log_deleted_inside_a_transaction_commits_nothing(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    ledger = Ledger.open(f"sqlite:///{file}")

    def handler(effect: RunningEffect) -> str:
        with effect.transaction() as connection:
            connection.execute("CREATE TABLE own (amount)")
            log_deleted(file)
        return "paid"

    with pytest.raises(ResultNotRecorded):
        ledger.run(charge(), handler)
    ledger.close()


# ── 59: a file that was deleted, emptied or replaced, and a new process ──────────────────────────────────────────────


@pytest.fixture
def lost(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A ledger that has signed something, and then lost its file."""
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        ledger.run(charge(), lambda effect: "paid")
    shutil.copy(file, tmp_path / "backup.db")
    request.param(file)
    return file


def replaced_by_another(file: Path) -> None:
    other = file.with_name("other.db")
    with Ledger.open(f"sqlite:///{other}") as ledger:
        ledger.run(charge(), lambda effect: "paid")
    other.rename(file)


def replaced_by_own_tables(file: Path) -> None:
    file.unlink()
    apsw.Connection(str(file)).execute("CREATE TABLE own (amount)")


def by_ledger(url: str) -> object:
    return Ledger.open(url)


def by_writer_alone(url: str) -> object:
    return Ledger.open(url, seal=False)


def by_async_ledger(url: str) -> object:
    return AsyncLedger.open(url)


def by_migrate(url: str) -> object:
    return indelible.migrate(url)


def by_server(url: str) -> object:
    from indelible.server.running import serve

    with socket.create_server(("127.0.0.1", 0)) as listening:
        return serve(url, listening=listening)


LOSSES = [deleted, emptied, replaced_by_another, replaced_by_own_tables]
DOORS = [by_ledger, by_writer_alone, by_async_ledger, by_migrate, by_server]


@pytest.mark.parametrize("lost", LOSSES, indirect=True)
@pytest.mark.parametrize("door", DOORS)
def test_59_no_door_begins_a_new_ledger_where_the_keys_know_another(lost: Path, door: Any) -> None:
    before = lost.stat().st_size if lost.exists() else None
    with pytest.raises(Misconfigured, match="--new-ledger"):
        door(f"sqlite:///{lost}")
    assert (lost.stat().st_size if lost.exists() else None) == before
    shutil.copy(lost.with_name("backup.db"), lost)
    with Ledger.open(f"sqlite:///{lost}") as ledger:
        assert ledger.run(charge(), lambda effect: "again") == "paid"


@pytest.mark.parametrize("lost", [deleted, emptied, replaced_by_another], indirect=True)
def test_59_the_command_tells_of_it_and_declares_a_new_ledger(lost: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{lost}"
    assert cli_main(["doctor", "--url", url]) == 1
    assert cli_main(["migrate", "--url", url]) != 0
    assert cli_main(["migrate", "--new-ledger", "--url", url]) == 0
    with Ledger.open(url) as ledger:
        ledger.run(charge(args={"amount": 77}), lambda effect: "new")
    with Ledger.open(url) as ledger:
        assert ledger.run(charge(args={"amount": 77}), lambda effect: "again") == "new"


@pytest.mark.parametrize("how", ["link", "folder"])
def test_59_an_address_that_leads_elsewhere_begins_no_new_ledger(tmp_path: Path, how: str) -> None:
    """The folder is a link to another release or volume now, where no ledger is."""
    folder = tmp_path / "current"
    first = tmp_path / "release-1"
    first.mkdir()
    folder.symlink_to(first) if how == "link" else folder.mkdir()
    url = f"sqlite:///{folder / 'ledger.db'}"
    with Ledger.open(url) as ledger:
        ledger.run(charge(), lambda effect: "paid")
    folder.unlink() if how == "link" else folder.rename(tmp_path / "moved")
    (tmp_path / "release-2").mkdir()
    folder.symlink_to(tmp_path / "release-2")
    with pytest.raises(Misconfigured):
        Ledger.open(url)
    assert cli_main(["doctor", "--url", url]) == 1
    folder.unlink()
    folder.symlink_to(first if how == "link" else tmp_path / "moved")
    with Ledger.open(url) as ledger:
        assert ledger.run(charge(), lambda effect: "again") == "paid"


@pytest.mark.parametrize("has_other", [True, False], ids=["another ledger there", "nothing there"])
@pytest.mark.parametrize("how", ["folder", "folder above", "file"])
def test_59_a_link_that_is_switched_under_an_open_ledger_ends_its_calls(
    tmp_path: Path, how: str, has_other: bool
) -> None:
    """A new program would use what is at the address now, so two ledgers would run each call."""
    homes = [tmp_path / name / "data" for name in ("release-1", "release-2")]
    for home in homes:
        home.mkdir(parents=True)
    link = tmp_path / ("ledger.db" if how == "file" else "current")
    targets = [{"folder": home, "folder above": home.parent, "file": home / "ledger.db"}[how] for home in homes]
    address = {"folder": link / "ledger.db", "folder above": link / "data" / "ledger.db", "file": link}[how]
    Ledger.open(f"sqlite:///{homes[0] / 'ledger.db'}").close()
    if has_other:
        Ledger.open(f"sqlite:///{homes[1] / 'ledger.db'}").close()
    link.symlink_to(targets[0])
    entered: list[str] = []
    with Ledger.open(f"sqlite:///{address}") as ledger:
        assert ledger.run(charge(), lambda effect: "paid") == "paid"
        link.unlink()
        link.symlink_to(targets[1])
        with pytest.raises(StoreUnavailable):
            ledger.run(charge(args={"amount": 77}), lambda effect: entered.append("old"))
        link.unlink()
        with pytest.raises(StoreUnavailable):
            ledger.run(charge(args={"amount": 77}), lambda effect: entered.append("old"))
        assert entered == []
        link.symlink_to(targets[0])
        assert ledger.run(charge(args={"amount": 77}), lambda effect: "paid") == "paid"


def test_59_many_processes_may_begin_one_ledger_together(tmp_path: Path) -> None:
    program = "import sys; from indelible import Ledger, ToolCall; l = Ledger.open(sys.argv[1]); " + (
        "print(l.run(ToolCall(run_id='r', tool='t', args={}), lambda e: 'once')); l.close()"
    )
    command = [sys.executable, "-c", program, f"sqlite:///{tmp_path / 'ledger.db'}"]
    together = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [each.communicate(timeout=PATIENCE)[0] for each in together] == ["once\n"] * 4


# ── 81: files beside the database, and folders ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["ledger.db-wake", "ledger.db-lock"])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
def test_81_what_is_no_file_beside_the_database_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    target = tmp_path / "target"
    if kind == "link":
        target.write_bytes(b"precious")
    os.mkfifo(tmp_path / name) if kind == "pipe" else (tmp_path / name).symlink_to(target)
    with pytest.raises(StoreUnavailable):
        Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert not target.exists() if kind != "link" else target.read_bytes() == b"precious"


def test_81_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    was = os.umask(0)
    try:
        Ledger.open(f"sqlite:///{tmp_path / '.indelible' / 'inner' / 'ledger.db'}").close()
    finally:
        os.umask(was)
    for made in (tmp_path / ".indelible", tmp_path / ".indelible" / "inner"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / ".indelible" / "inner").iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_81_a_folder_of_keys_that_every_user_can_write_is_refused_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url, keys = f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "keys"
    monkeypatch.setenv("INDELIBLE_KEYS", str(keys))
    with Ledger.open(url) as ledger:
        ledger.run(charge(), lambda effect: "paid")
        name = store_behind(ledger).ledger_name
    assert cli_main(["doctor", "--url", url]) == 0
    keys.chmod(0o777)
    with pytest.raises(KeyUnusable):
        KeyRing.open(name).current()
    capsys.readouterr()
    assert cli_main(["doctor", "--url", url]) == 1
    assert "chmod o-w" in capsys.readouterr().out
    keys.chmod(0o1777)  # as /tmp: nobody can rename what is another's
    assert KeyRing.open(name).current() is not None


# ── 93: Python's own sqlite3 in the same process ─────────────────────────────────────────────────────────────────────


def by_path(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file)


def by_name(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(os.path.relpath(file))


def by_bytes(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(os.fsencode(file))


def by_address(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)


def by_link(file: Path) -> sqlite3.Connection:
    link = file.with_name("link.db")
    link.unlink(missing_ok=True)
    link.symlink_to(file)
    return sqlite3.connect(link)


@pytest.mark.parametrize("connect", [by_path, by_name, by_bytes, by_address, by_link])
def test_93_the_other_library_is_refused_while_a_ledger_is_open(tmp_path: Path, connect: Any) -> None:
    file = tmp_path / "ledger.db"

    def handler(effect: RunningEffect) -> str:
        with effect.transaction() as connection:
            connection.execute("CREATE TABLE own (amount)")
            connection.execute("INSERT INTO own VALUES (5)")
            with pytest.raises(Misconfigured):
                connect(file)
        return "paid"

    with Ledger.open(f"sqlite:///{file}") as ledger:
        with pytest.raises(Misconfigured):
            connect(file)
        assert ledger.run(charge(), handler) == "paid"
        assert sqlite3.connect(":memory:").execute("SELECT 1").fetchone() == (1,)
        assert sqlite3.connect(tmp_path / "own.db").execute("SELECT 1").fetchone() == (1,)
        assert apsw.Connection(str(file)).execute("SELECT amount FROM own").fetchall() == [(5,)]
        assert run_elsewhere(READ, file, HOW_MANY) == "1\n"
    own = connect(file)
    assert own.execute("SELECT amount FROM own").fetchall() == [(5,)]
    own.close()


def test_93_a_ledger_is_not_opened_beside_the_other_library(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        ledger.run(charge(), lambda effect: "paid")
    own = sqlite3.connect(file)
    with pytest.raises(Misconfigured):
        Ledger.open(f"sqlite:///{file}")
    own.close()
    with Ledger.open(f"sqlite:///{file}") as ledger:
        assert ledger.run(charge(), lambda effect: "again") == "paid"


def test_93_a_result_that_could_not_be_committed_is_not_called_a_success(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"

    def handler(effect: RunningEffect) -> str:
        with effect.transaction() as connection:
            connection.execute("CREATE TABLE own (amount)")
            log_deleted(file)
        return "paid"

    ledger = Ledger.open(f"sqlite:///{file}")
    with pytest.raises(ResultNotRecorded) as raised:
        ledger.run(charge(), handler)
    assert "succeeded" not in str(raised.value)
    ledger.close()


def test_58_a_connection_of_the_programs_own_keeps_its_lock_when_the_ledger_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    ledger = Ledger.open(f"sqlite:///{file}")
    own = apsw.Connection(str(file))
    own.execute("CREATE TABLE own (amount)")
    ledger.close()
    run_elsewhere(READ, file, HOW_MANY)
    own.execute("INSERT INTO own VALUES (5)")
    assert run_elsewhere(READ, file, "SELECT amount FROM own") == "5\n"
    own.close()
