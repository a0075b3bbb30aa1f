"""A ledger begins with writer keys: they are made in the transaction that begins it, or it does not begin."""

from __future__ import annotations

import multiprocessing
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

import indelible
from indelible import AwaitingApproval, GrantTerms, Ledger, NothingHappened, ToolCall, migrate
from indelible.errors import ApprovalPending, KeyUnusable, Misconfigured
from indelible.journal.keys import writers
from indelible.journal.keys.writers import VARIABLE, WriterKeys
from indelible.stores import is_postgres, open_store, sqlite_path
from indelible.stores.postgres import schema as postgres_schema
from indelible.testing.crashing import start
from tests.chaos.linekill import LineKill
from tests.journal.dying import each_moment_kills
from tests.postgres import fresh_database

NAMES = 6


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for keys that nothing else uses."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "keys"


def begin(url: str, **words: Any) -> None:
    """Begin a ledger as a program does: a PostgreSQL one by `migrate`, a SQLite one by opening it."""
    if is_postgres(url):
        migrate(url, **words)
    else:
        Ledger.open(url, **words).close()


def pay(url: str, run_id: str = "r", **words: Any) -> object:
    with Ledger.open(url, **words) as ledger:
        return ledger.run(ToolCall(tool="pay", args={}, run_id=run_id), lambda effect: "paid")


def kept_in(url: str) -> list[tuple[str, bool]]:
    """Return the name of the ledger that is there and whether its rows carry macs; nothing if none was begun."""
    statement = "SELECT name, has_macs FROM indelible_ledger"
    try:
        if is_postgres(url):
            with psycopg.connect(url) as server:
                return [(name, bool(macs)) for name, macs in server.execute(statement).fetchall()]
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            return [(name, bool(macs)) for name, macs in file.execute(statement).fetchall()]
    except (psycopg.errors.UndefinedTable, sqlite3.OperationalError):
        return []


def check_has_its_key(url: str, keys: Path) -> bool:
    """Say whether a ledger was begun; if it was, its key is there."""
    found = kept_in(url)
    for name, has_macs in found:
        assert has_macs
        assert (keys / name / "writers.key").stat().st_size > 0
    return bool(found)


def test_a_new_ledger_has_writer_keys(store_url: str, keys: Path) -> None:
    begin(store_url)
    assert check_has_its_key(store_url, keys)
    with Ledger.open(store_url) as ledger:
        assert isinstance(ledger._engine.store.macs, WriterKeys)
    assert pay(store_url) == "paid"
    assert len(list(keys.rglob("writers.key"))) == 1


def test_the_keys_are_made_in_the_folder_that_the_program_names(store_url: str, keys: Path, tmp_path: Path) -> None:
    begin(store_url, keys=tmp_path / "own")
    assert check_has_its_key(store_url, tmp_path / "own")
    assert not list(keys.rglob("writers.key"))
    assert pay(store_url, keys=tmp_path / "own") == "paid"


def test_migrate_begins_a_sqlite_ledger_with_keys_too(sqlite_url: str, keys: Path) -> None:
    migrate(sqlite_url)
    assert check_has_its_key(sqlite_url, keys)
    assert migrate(sqlite_url) == []
    assert len(list(keys.rglob("writers.key"))) == 1


def test_a_ledger_in_memory_has_no_other_writer_and_needs_no_key(keys: Path) -> None:
    with Ledger.open(":memory:", seal=False) as ledger:
        assert ledger._engine.store.macs is None
        assert not ledger._engine.store.has_macs()
        assert ledger.run(ToolCall(tool="pay", args={}, run_id="r"), lambda effect: "paid") == "paid"
    assert not list(keys.rglob("writers.key"))


@pytest.mark.parametrize("way", ["variable", "word"])
def test_a_ledger_can_be_begun_without_writer_keys_and_stays_so(
    store_url: str, keys: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "variable":
        monkeypatch.setenv(VARIABLE, "none")
        begin(store_url)
        monkeypatch.delenv(VARIABLE)
    else:
        migrate(store_url, writer_keys=False)
    assert [has_macs for _, has_macs in kept_in(store_url)] == [False]
    migrate(store_url)
    for run_id in ("a", "b"):
        assert pay(store_url, run_id) == "paid"
        assert [has_macs for _, has_macs in kept_in(store_url)] == [False]
    assert not list(keys.rglob("writers.key"))


def test_none_does_not_take_the_keys_of_a_ledger_away(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(store_url)
    monkeypatch.setenv(VARIABLE, "none")
    with Ledger.open(store_url) as ledger:
        assert isinstance(ledger._engine.store.macs, WriterKeys)
    assert pay(store_url) == "paid"


def test_a_worker_on_another_machine_is_told_the_command_and_the_variable(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(store_url)
    pay(store_url, tenant="acme")
    with Ledger.open(store_url) as ledger:
        before = ledger._engine.store.journal.waiting("acme") + ledger._engine.store.journal.tree("acme").size
    for given in (None, "none"):
        if given is not None:
            monkeypatch.setenv(VARIABLE, given)
        with pytest.raises(KeyUnusable) as refused:
            Ledger.open(store_url, tenant="acme", keys=tmp_path / "another", seal=False)
        said = str(refused.value)
        assert "indelible keys export-writer --tenant acme --url" in said
        assert f"${VARIABLE}" in said
        assert "INDELIBLE_KEYS" in said
    monkeypatch.delenv(VARIABLE)
    with Ledger.open(store_url) as ledger:
        journal = ledger._engine.store.journal
        assert journal.waiting("acme") + journal.tree("acme").size == before, "it wrote nothing"


def test_that_keys_are_demanded_is_not_for_the_database_to_say(store_url: str) -> None:
    begin(store_url)
    pay(store_url)
    statement = "UPDATE indelible_ledger SET has_macs = 0"
    if is_postgres(store_url):
        with psycopg.connect(store_url) as server:
            server.execute(statement)
    else:
        with closing(sqlite3.connect(sqlite_path(store_url))) as file, file:
            file.execute(statement)
    with Ledger.open(store_url) as ledger:
        assert isinstance(ledger._engine.store.macs, WriterKeys)


# A folder that cannot be written


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that not even root can write to")
def test_a_folder_of_keys_that_cannot_be_made_begins_no_ledger(
    store_url: str, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as for_now:
        for_now.setenv("INDELIBLE_KEYS", "/proc/indelible/keys")
        _check_begins_nothing(store_url)
    begin(store_url)
    assert check_has_its_key(store_url, keys)


def test_a_folder_of_keys_that_is_no_folder_begins_no_ledger(store_url: str, keys: Path) -> None:
    keys.write_text("a file")
    _check_begins_nothing(store_url)
    keys.unlink()
    begin(store_url)
    assert check_has_its_key(store_url, keys)


def test_a_full_disk_begins_no_ledger(store_url: str, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as for_now:
        for_now.setattr(writers, "write_private", full)
        _check_begins_nothing(store_url)
    begin(store_url)
    assert check_has_its_key(store_url, keys)


def _check_begins_nothing(url: str) -> None:
    with pytest.raises(KeyUnusable) as refused:
        begin(url)
    assert "INDELIBLE_KEYS" in str(refused.value)
    assert f"{VARIABLE}=none" in str(refused.value)
    assert kept_in(url) == []


def test_a_user_without_a_home_is_told_to_name_a_folder(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("INDELIBLE_KEYS")
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(KeyUnusable, match="INDELIBLE_KEYS"):
        begin(store_url)
    assert kept_in(store_url) == []


def test_a_file_in_which_no_ledger_could_be_begun_is_taken_by_migrate(sqlite_url: str, keys: Path) -> None:
    from click.testing import CliRunner

    from indelible.cli.root import root

    keys.write_text("a file")
    with pytest.raises(KeyUnusable):
        begin(sqlite_url)
    keys.unlink()
    assert CliRunner().invoke(root, ["migrate", "--url", sqlite_url]).exit_code == 0
    assert check_has_its_key(sqlite_url, keys)


def test_where_no_ledger_is_made_no_key_is_made(sqlite_url: str, keys: Path) -> None:
    with pytest.raises(Misconfigured):
        Ledger.open(sqlite_url, create=False)
    Path(sqlite_path(sqlite_url)).touch()
    with pytest.raises(Misconfigured):
        Ledger.open(sqlite_url, create=False)
    assert not list(keys.rglob("writers.key"))


# Several at once


def _begin_and_pay(url: str, number: int, barrier: Any, line: Any) -> None:
    barrier.wait(60)
    try:
        if is_postgres(url):
            migrate(url)
        line.send(pay(url, f"run-{number}"))
    except BaseException as error:
        line.send(repr(error))


def test_of_several_processes_that_open_a_new_ledger_at_once_one_begins_it(store_url: str, keys: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, lines, processes = context.Barrier(NAMES), [], []
    for number in range(NAMES):
        ours, theirs = context.Pipe()
        process = context.Process(target=_begin_and_pay, args=(store_url, number, barrier, theirs), daemon=True)
        process.start()
        lines.append(ours)
        processes.append(process)
    for line in lines:
        assert line.poll(120)
    assert [line.recv() for line in lines] == ["paid"] * NAMES
    for process in processes:
        process.join(60)
    assert check_has_its_key(store_url, keys)
    assert len(list(keys.rglob("writers.key"))) == 1
    with Ledger.open(store_url) as ledger:
        assert {effect.status for effect in ledger.effects()} == {"succeeded"}


# Killed while it is begun


def test_killed_at_any_moment_no_sqlite_ledger_is_without_its_key(tmp_path: Path) -> None:
    assert each_moment_kills("begin", tmp_path) > 5


class _BeginningKill(LineKill):
    """Counts the lines that begin a PostgreSQL ledger and make its keys."""

    def _on_call(self, frame: Any, event: str, argument: Any) -> Any:
        return self._on_line if frame.f_code.co_filename in (postgres_schema.__file__, writers.__file__) else None


def _migrate_and_die(url: str, number: int | None, found: Path) -> None:
    with _BeginningKill(number, lambda words: None) as kill:
        kill.arm()
        migrate(url)
    found.write_text(str(len(kill.lines)))


def test_killed_at_any_line_no_postgres_ledger_is_without_its_key(
    postgres_server_url: str, tmp_path: Path, keys: Path
) -> None:
    found = tmp_path / "lines"
    with fresh_database(postgres_server_url) as url:
        assert start(lambda: _migrate_and_die(url, None, found)).end()[0] == 0
        assert check_has_its_key(url, keys)
    last = int(found.read_text())
    begun = []
    for number in range(1, last + 1):
        with fresh_database(postgres_server_url) as url:
            assert start(lambda: _migrate_and_die(url, number, found)).end()[0] == -signal.SIGKILL  # noqa: B023
            begun.append(check_has_its_key(url, keys))
            indelible.migrate(url)
            assert check_has_its_key(url, keys)
            if number == last:
                assert pay(url) == "paid"
    assert begun[0] is False
    assert sum(1 for before, after in pairwise(begun) if before != after) <= 1


def test_a_store_that_is_opened_without_keys_begins_a_ledger_without(sqlite_url: str, keys: Path) -> None:
    with closing(open_store(sqlite_url)) as store:
        assert not store.has_macs()
    assert pay(sqlite_url) == "paid"
    assert not list(keys.rglob("writers.key"))


def test_98_calls_at_once_that_use_a_grant_raise_no_alarm(
    store_url: str, own_keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Threads read the grant while others use it: an older row that was read before is not one that was put back."""
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:

        def pay(number: int) -> Any:
            call = ToolCall(tool="pay", args={"number": number, "amount": 1}, run_id=f"order-{number % 4}")
            return ledger.run(call, lambda effect: number, side_effect="payment", approval="required", wait=False)

        with pytest.raises(ApprovalPending) as asked:
            pay(0)
        terms = GrantTerms(count=200, until=datetime.now(UTC) + timedelta(hours=1), pin=("amount",))
        ledger.approve(asked.value.approval, digest=asked.value.approval.digest, by="ana", grant=terms)
        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(pay, range(1, 200))) == list(range(1, 200))
            assert [grant.uses_left for grant in ledger.grants()] == [1]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("has_rights", [True, False])
def test_37_a_worker_with_the_effects_key_gives_an_approved_call_back_in_which_nothing_happened(
    store_url: str, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_rights: bool
) -> None:
    def close(effect: object) -> str:
        raise NothingHappened("the bank was closed")

    call = ToolCall(tool="pay", args={"n": 1}, run_id="r")
    words: Any = {"side_effect": "payment", "approval": "required", "wait": False}
    begin(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        asked = ledger.begin(call, **words)
        assert isinstance(asked, AwaitingApproval)
        ledger.approve(asked.approval, digest=asked.approval.digest, by="ana")
        held = ledger._engine.store.macs
        assert isinstance(held, WriterKeys)
        monkeypatch.setenv(VARIABLE, held.export("default", with_rights=has_rights))
    with Ledger.open(store_url, seal=False, keys=tmp_path / "far") as worker:
        for _ in range(2):
            with pytest.raises(NothingHappened):
                worker.run(call, close, **words)
            assert [effect.status for effect in worker.effects()] == ["ready"]
        assert worker.run(call, lambda effect: "paid", **words) == "paid"
    monkeypatch.delenv(VARIABLE)
    with Ledger.open(store_url, seal=False) as ledger:
        ledger.seal()
        assert ledger.stopped() is None
