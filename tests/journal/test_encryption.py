"""Encryption: files, log and exports hold no value, and a copy from before an erasure cannot be read afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import indelible
from indelible import AwaitingApproval, Claimed, Ledger, MayHaveHappened, NothingHappened, Succeeded, ToolCall
from indelible.core.privacy.encryption import DataKey, KeyId
from indelible.errors import EffectErased, EffectFailed, KeyUnusable, OnHold
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.exporting import export
from indelible.journal.keys.data_keys import DataKeys
from indelible.journal.keys.files import has_data_keys
from tests.journal.test_forgetting import _key_of
from tests.stores.database import open_file

CANARY = "CANARY-in-cipher"
HOLDER = b"\x01" * 16


def pay(customer: str = "ada", run_id: str = "order-1", **args: Any) -> ToolCall:
    return ToolCall(tool="pay", args={"customer": customer, "note": CANARY, **args}, run_id=run_id)


def opened(url: str, **words: Any) -> Ledger:
    return Ledger.open(url, **{"encrypt": True, "subject": "args.customer", "seal": True, **words})


def live_through(ledger: Ledger) -> None:
    """Lets a ledger record a value in every field there is."""
    for customer in ("ada", "bob"):
        ledger.run(pay(customer), lambda effect: {"receipt": CANARY})
        with pytest.raises(ValueError, match=CANARY):
            ledger.run(pay(customer, n=2), _raise(ValueError(CANARY)), failed_on=ValueError)
        with pytest.raises(MayHaveHappened):
            ledger.run(pay(customer, n=3), _raise(MayHaveHappened(CANARY)))
        (doubtful,) = ledger.effects(status="in_doubt")
        ledger.settle(doubtful, Succeeded(CANARY), by="ana", evidence=CANARY)
        decide(ledger, customer)


def decide(ledger: Ledger, customer: str) -> None:
    """Lets people edit, approve, take back and deny, each with words of their own."""
    begun = ledger.begin(pay(customer, n=4), approval="required")
    assert isinstance(begun, AwaitingApproval)
    other = {"customer": customer, "note": f"{CANARY}, edited", "n": 4}
    edited = ledger.edit_approval(begun.approval, other, digest=begun.approval.digest, by="ana", reason=CANARY)
    ledger.approve(edited, digest=edited.digest, by="bo", reason=CANARY)
    ledger.revoke_approval(edited, by="bo", reason=CANARY)
    ledger.approve(edited, digest=edited.digest, by="cy", reason=CANARY)
    assert ledger.view_approval(edited).args == other
    assert ledger.run(pay(customer, n=4), lambda effect: effect.args, approval="required") == other
    begun = ledger.begin(pay(customer, n=5), approval="required")
    assert isinstance(begun, AwaitingApproval)
    ledger.deny(begun.approval, by="ana", reason=CANARY)


def _raise(error: Exception) -> Any:
    def handler(effect: Any) -> None:
        raise error

    return handler


def found_in(folder: Path, word: str = CANARY) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def test_no_value_is_in_the_files_the_log_or_an_export(sqlite_url: str, tmp_path: Path) -> None:
    with opened(sqlite_url) as ledger:
        live_through(ledger)
        assert [path.name for path in tmp_path.iterdir() if path.name.endswith("-wal")]
        for form in ("ndjson", "bundle", "html", "csv"):
            ledger.export(tmp_path / f"out-{form}", form=form)  # type: ignore[arg-type]
        assert found_in(tmp_path) == []
        assert found_in(tmp_path, "$encrypted"), "this looked where values are"
    assert found_in(tmp_path) == []


def test_verification_needs_no_data_key_and_stays_green_without_them(
    store_url: str, tmp_path: Path, keys: Path
) -> None:
    indelible.migrate(store_url)
    with opened(store_url) as ledger:
        live_through(ledger)
        ledger.seal()
        key = _key_of(ledger)
        ledger.export(tmp_path / "before")
        report = verify(tmp_path / "before", [key], deep=True)
        assert (report.verdict, report.counts.approvals) == ("verified", 2), "votes are counted without any key"
        ledger.erase(subject="ada", by="ana", reason="asked")
        ledger.export(tmp_path / "after")
        report = verify(tmp_path / "after", [key], deep=True)
        assert report.verdict == "verified", report.why
        assert "erased" in repr(report)
        for path in key_files(keys):
            path.unlink()
        for place in ("before", "after"):
            assert verify(tmp_path / place, [key], deep=True).verdict == "verified"


def test_a_call_is_the_same_call_before_and_after_encryption_is_switched_on(store_url: str) -> None:
    """Nobody is asked about an effect for its arguments being recorded in another form by now."""
    indelible.migrate(store_url)
    for first in (False, True):
        call = pay(n=int(first))
        with opened(store_url, encrypt=first) as ledger, pytest.raises(NothingHappened):
            ledger.run(call, _raise(NothingHappened("not now")))
        with opened(store_url, encrypt=not first) as ledger:
            assert ledger.run(call, lambda effect: effect.args["note"], wait=False) == CANARY


@pytest.fixture
def keys(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of keys for this test alone."""
    folder = tmp_path_factory.mktemp("keys")
    folder.chmod(0o700)
    monkeypatch.setenv("INDELIBLE_KEYS", str(folder))
    return folder


def key_files(keys: Path) -> list[Path]:
    return sorted(keys.rglob("data/*/*.key"))


def test_a_copy_from_before_the_erasure_cannot_be_read_afterwards(sqlite_url: str, tmp_path: Path, keys: Path) -> None:
    copy = tmp_path / "backup" / "ledger.db"
    copy.parent.mkdir()
    with opened(sqlite_url) as ledger:
        live_through(ledger)
        _copy(tmp_path / "ledger.db", copy)
        with opened(f"sqlite:///{copy}", seal=False) as restored:
            assert restored.run(pay(), lambda effect: pytest.fail("entered")) == {"receipt": CANARY}
        ledger.erase(subject="ada", by="ana", reason="asked")
    with opened(f"sqlite:///{copy}", seal=False) as restored:
        for call in (pay(), pay(n=3)):
            with pytest.raises(EffectErased):
                restored.run(call, lambda effect: pytest.fail("entered"))
        with pytest.raises(EffectFailed, match=r"\(erased\)"):
            restored.run(pay(n=2), lambda effect: pytest.fail("entered"))
        assert restored.run(pay("bob"), lambda effect: pytest.fail("entered")) == {"receipt": CANARY}
        assert restored.erase(subject="ada", by="ana", reason="again").count > 0
    assert found_in(tmp_path) == []


def _copy(source: Path, target: Path) -> None:
    """Copies a database as a backup does, while it is in use."""
    one, other = open_file(source), open_file(target)
    with other.backup("main", one, "main") as backup:
        backup.step()
    one.close()
    other.close()


def test_a_hold_keeps_the_key(sqlite_url: str, keys: Path) -> None:
    with opened(sqlite_url) as ledger:
        ledger.run(pay(), lambda effect: CANARY)
        ledger.hold(subject="ada", by="legal", reason="case")
        with pytest.raises(OnHold):
            ledger.erase(subject="ada", by="ana", reason="asked")
        assert len(key_files(keys)) == 1
        assert ledger.run(pay(), lambda effect: pytest.fail("entered")) == CANARY


def test_an_erasure_that_was_cut_off_before_the_key_went_is_finished_by_another(
    sqlite_url: str, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(sqlite_url) as ledger:
        ledger.run(pay(), lambda effect: CANARY)
        with monkeypatch.context() as patched:
            patched.setattr(DataKeys, "destroy", _crash)
            with pytest.raises(RuntimeError, match="crash"):
                ledger.erase(subject="ada", by="ana", reason="asked")
        assert len(key_files(keys)) == 1
        assert ledger.erase(subject="ada", by="ana", reason="asked").count == 0
        assert key_files(keys) == []


def _crash(*_: Any) -> None:
    raise RuntimeError("crash")


def test_pruning_destroys_no_key(sqlite_url: str, keys: Path) -> None:
    with opened(sqlite_url) as ledger:
        ledger.run(pay(), lambda effect: CANARY)
        ledger.prune(timedelta(0), by="cron")
        assert len(key_files(keys)) == 1


def test_a_ledger_in_memory_keeps_keys_in_memory(keys: Path) -> None:
    with Ledger.open(":memory:", encrypt=True, subject="args.customer") as ledger:
        ledger.run(pay(), lambda effect: CANARY)
        ledger.run(pay("bob"), lambda effect: CANARY)
        assert ledger.run(pay(), lambda effect: pytest.fail("entered")) == CANARY
        ledger.erase(subject="ada", by="ana", reason="asked")
        with pytest.raises(EffectErased):
            ledger.run(pay(), lambda effect: pytest.fail("entered"))
        assert ledger.run(pay("bob"), lambda effect: pytest.fail("entered")) == CANARY
    assert key_files(keys) == []


def test_a_ledger_that_does_not_encrypt_has_no_view_and_no_keys(sqlite_url: str, keys: Path) -> None:
    with Ledger.open(sqlite_url, subject="args.customer") as ledger:
        ledger.run(pay(), lambda effect: CANARY)
        assert ledger._engine.store is ledger._engine.recorded
        assert ledger._data_keys is None
    assert not has_data_keys(ledger._engine.store.ledger_name, None)
    assert list(keys.rglob("data")) == []


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_DIES = """
import os, signal, sys
from indelible import Ledger, ToolCall
ledger = Ledger.open(sys.argv[1], encrypt=True, subject="args.customer", seal=False)
store = ledger._engine.recorded
write = store.apply
def written_and_dead(*words):
    answers = write(*words)
    os.kill(os.getpid(), signal.SIGKILL)
store.apply = written_and_dead
ledger.run(ToolCall(tool="pay", args={"customer": "ada", "note": "CANARY-in-cipher"}, run_id="order-1"), print)
"""


def test_whoever_dies_right_after_the_first_write_leaves_arguments_that_can_be_read(store_url: str, keys: Path) -> None:
    indelible.migrate(store_url)
    died = subprocess.run([sys.executable, "-c", _DIES, store_url], env={**os.environ}, check=False)
    assert died.returncode == -signal.SIGKILL
    with opened(store_url) as ledger:
        (effect,) = ledger.effects()
        assert effect.args == pay().args


def test_a_key_is_on_disk_before_anything_is_written_with_it(sqlite_url: str, keys: Path) -> None:
    with opened(sqlite_url, seal=False) as ledger:
        store: Any = ledger._engine.recorded
        write, there = store.apply, []

        def watched(*words: Any) -> Any:
            there.append(len(key_files(keys)))
            return write(*words)

        store.apply = watched
        assert isinstance(ledger.begin(pay()), Claimed)
        assert isinstance(ledger.begin(pay("bob")), Claimed)
        store.apply = write
    assert there == [1, 2]


# ── the files ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_threads_and_processes_that_need_a_key_first_get_the_same_one(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    start = threading.Barrier(8)

    def make() -> KeyId:
        keys = DataKeys(folder)
        start.wait()
        return keys.make(HOLDER).id

    with ThreadPoolExecutor(8) as pool:
        made = [pool.submit(make) for _ in range(8)]
    assert len({each.result() for each in made}) == 1


def test_a_destroyed_key_is_gone_from_every_hand(tmp_path: Path) -> None:
    one, other = DataKeys(tmp_path / "data"), DataKeys(tmp_path / "data")
    key = one.make(HOLDER)
    assert other.find(key.id) is not None
    raw = next((tmp_path / "data").rglob("*.key")).read_bytes()
    one.destroy(HOLDER)
    one.destroy(HOLDER)
    assert one.find(key.id) is None
    assert other.find(key.id) is None
    assert list((tmp_path / "data").rglob("*.key")) == []
    assert found_in(tmp_path, raw.decode()) == []
    again = other.make(HOLDER)
    assert again.id.holder == HOLDER
    assert again.id != key.id
    assert one.find(key.id) is None
    assert one.find(again.id) is not None


def test_a_key_that_was_overwritten_when_the_machine_died_is_gone_too(tmp_path: Path) -> None:
    keys = DataKeys(tmp_path / "data")
    key = keys.make(HOLDER)
    (path,) = (tmp_path / "data").rglob("*.key")
    path.write_bytes(b"\0" * len(path.read_bytes()))
    assert keys.find(key.id) is None
    assert keys.make(HOLDER).id != key.id


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(KeyUnusable, match="data"):
        DataKeys(tmp_path / "data").make(HOLDER)


def test_what_is_in_mind_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indelible.journal.keys.data_keys._MOST_REMEMBERED", 2)
    keys = DataKeys(tmp_path / "data")
    made = [keys.make(bytes([number]) * 16) for number in range(5)]
    assert len(keys._remembered) <= 2
    assert [keys.find(key.id) is not None for key in made] == [True] * 5


def test_a_key_opens_only_what_is_its_own(tmp_path: Path) -> None:
    keys = DataKeys(tmp_path / "data")
    keys.make(HOLDER)
    assert keys.find(DataKey(HOLDER, b"\x05" * 32).id) is None


def test_an_export_of_the_store_itself_is_in_cipher_too(sqlite_url: str, tmp_path: Path, keys: Path) -> None:
    with opened(sqlite_url) as ledger:
        live_through(ledger)
        ledger.seal()
        export(ledger._engine.store, "default", tmp_path / "out", form="ndjson")
    assert found_in(tmp_path) == []
