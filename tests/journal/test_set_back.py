"""A database that lacks what was signed does not know what was done since: nothing is entered until somebody looked."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import indelible
from indelible import AsyncLedger, Ledger, ToolCall
from indelible.errors import IllegalMove, KeyUnusable, SignerRefused, Stopped
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.stores import is_postgres
from tests.journal.exported import key_of
from tests.lending import lent_folder
from tests.scenarios.shells import Count


def charge(amount: int) -> ToolCall:
    return ToolCall(tool="charge", args={"amount": amount}, run_id="order-1")


class Backup:
    """Keeps a copy of a ledger's database, and puts it back."""

    def __init__(self, url: str) -> None:
        self._url = url

    def make(self) -> None:
        if is_postgres(self._url):
            self._copy(self._name, f"{self._name}_copy")
        else:
            shutil.copy(self._file, self._file.with_name("copy.db"))

    def put_back(self) -> None:
        if is_postgres(self._url):
            self._copy(f"{self._name}_copy", self._name)
            return
        for leftover in self._file.parent.glob(f"{self._file.name}*"):
            leftover.unlink()
        shutil.copy(self._file.with_name("copy.db"), self._file)

    @property
    def _file(self) -> Path:
        return Path(self._url.removeprefix("sqlite:///"))

    @property
    def _name(self) -> str:
        return urlsplit(self._url).path[1:]

    def _copy(self, source: str, target: str) -> None:
        with psycopg.connect(self._url.replace(self._name, "postgres", 1), autocommit=True) as server:
            server.execute(f"DROP DATABASE IF EXISTS {target} WITH (FORCE)".encode())
            server.execute(f"CREATE DATABASE {target} TEMPLATE {source}".encode())


@pytest.fixture
def restored(store_url: str, tmp_path: Path) -> dict[str, Any]:
    """A ledger that signs itself, with one call in it, after a second one was made that the backup does not know."""
    indelible.migrate(store_url, keys=tmp_path / "keys")
    place = {"url": store_url, "keys": tmp_path / "keys", "seal": True}
    backup = Backup(store_url)
    with Ledger.open(**place) as ledger:
        assert ledger.run(charge(1), Count("one")) == "one"
    backup.make()
    with Ledger.open(**place) as ledger:
        assert ledger.run(charge(2), Count("two")) == "two"
    backup.put_back()
    return place


def without_keys(place: dict[str, Any]) -> dict[str, Any]:
    """The same ledger as a process has it that cannot know what was signed."""
    return {**place, "seal": False, "keys": lent_folder(place["keys"], place["keys"] / "none")}


def test_a_call_that_was_made_since_the_backup_is_not_made_again(restored: dict[str, Any]) -> None:
    handler = Count("again")
    with Ledger.open(**restored) as ledger:
        with pytest.raises(Stopped, match=r"set back.*journal continue"):
            ledger.run(charge(2), handler)
        assert ledger.run(charge(1), handler) == "one", "what it knows, it tells"
        assert handler.entries == 0
        with pytest.raises(IllegalMove, match="journal continue"):
            ledger.go(by="ana", reason="never mind")
    with Ledger.open(**without_keys(restored)) as ledger, pytest.raises(Stopped, match="set back"):
        ledger.run(charge(2), handler)  # a process without the key is told as well
    assert handler.entries == 0


async def _again(place: dict[str, Any], handler: Count) -> None:
    async with AsyncLedger.open(**place) as ledger:
        await ledger.run(charge(2), handler)


@pytest.mark.anyio
async def test_nor_in_a_loop(restored: dict[str, Any]) -> None:
    handler = Count("again")
    with pytest.raises(Stopped, match="set back"):
        await _again(restored, handler)
    assert handler.entries == 0


def test_once_the_loss_is_declared_it_goes_on_and_verifies(restored: dict[str, Any]) -> None:
    with Ledger.open(**restored) as ledger:
        with pytest.raises(Stopped):
            ledger.run(charge(3), Count())
        ledger.continue_journal()
        assert ledger.stopped() is None
        assert ledger.run(charge(3), Count("three")) == "three"
    with Ledger.open(**restored) as ledger:
        ledger.seal()
        assert (
            verify(LiveEvidence(ledger._engine.store, ledger.tenant), [key_of(ledger)], deep=True).verdict == "verified"
        )
        assert [event.type for event in ledger.events("indelible:stops")] == ["effects_stopped", "effects_let_go"]


def test_what_went_on_without_the_key_is_stopped_by_whoever_has_it(restored: dict[str, Any]) -> None:
    """It may have grown past what was signed by then."""
    with Ledger.open(**without_keys(restored)) as ledger:
        for amount in range(10, 15):
            ledger.run(charge(amount), Count())
    with Ledger.open(**{**restored, "seal": False}) as ledger:
        with pytest.raises(SignerRefused):
            ledger.seal()
        with pytest.raises(Stopped, match="set back"):
            ledger.run(charge(2), Count())


def test_somebody_elses_stop_outlasts_the_declaration(restored: dict[str, Any]) -> None:
    with Ledger.open(**without_keys(restored)) as ledger:
        ledger.stop(by="ana", reason="wrong prices")
    with Ledger.open(**restored) as ledger:
        with pytest.raises(Stopped, match="set back"):
            ledger.run(charge(2), Count())
        ledger.continue_journal()
        with pytest.raises(Stopped, match="wrong prices"):
            ledger.run(charge(2), Count())


def test_a_ledger_that_is_whole_is_not_stopped(store_url: str, tmp_path: Path) -> None:
    indelible.migrate(store_url, keys=tmp_path / "keys")
    for amount in range(3):
        with Ledger.open(store_url, keys=tmp_path / "keys", seal=True) as ledger:
            ledger.run(charge(amount), Count())
            assert ledger.stopped() is None


@pytest.mark.parametrize("back_to", range(4))
@pytest.mark.parametrize("is_revoked", [False, True])
def test_21_changes_of_keys_that_were_lost_are_told_again(
    store_url: str, tmp_path: Path, back_to: int, is_revoked: bool
) -> None:
    """Whatever the backup is from: before the first head, or before, between and after two rotations."""
    indelible.migrate(store_url, keys=tmp_path / "keys")
    place: dict[str, Any] = {"url": store_url, "keys": tmp_path / "keys", "seal": False}
    backup, keys = Backup(store_url), []
    for number in range(4):
        with Ledger.open(**place) as ledger:
            ledger.run(charge(number), Count())
        if number == back_to == 0:
            backup.make()
        with Ledger.open(**place) as ledger:
            if number > 1:
                ledger.rotate_keys()
            ledger.seal()
            keys.append(key_of(ledger))
        if number == back_to > 0:
            backup.make()
    with Ledger.open(**place) as ledger:
        if is_revoked:
            ledger.revoke_key(keys[0])
        ledger.run(charge(7), Count())
        ledger.seal()
    backup.put_back()
    with Ledger.open(**place) as ledger:
        with pytest.raises(SignerRefused):
            ledger.seal()
        ledger.continue_journal()
        ledger.run(charge(8), Count("done"))
        ledger.seal()
        told = [event.type for event in ledger.events("indelible:journal")]
        assert told.count("key_rotated") == len(set(keys)) - 1
        assert told.count("key_revoked") == is_revoked
        ledger.rotate_keys()
        keys.append(key_of(ledger))
        ledger.export(tmp_path / "run", run_id="order-1")
        for key in dict.fromkeys(keys):
            report = verify(LiveEvidence(ledger._engine.store, "default"), [key])
            assert report.verdict == "verified", report.why
            report = verify(tmp_path / "run", [key])
            assert report.verdict == "verified", report.why


def test_21_without_the_key_that_the_journal_names_nothing_is_continued(store_url: str, tmp_path: Path) -> None:
    indelible.migrate(store_url, keys=tmp_path / "keys")
    place: dict[str, Any] = {"url": store_url, "keys": tmp_path / "keys", "seal": False}
    backup = Backup(store_url)
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), Count())
        ledger.seal()
    backup.make()
    with Ledger.open(**place) as ledger:
        ledger.rotate_keys()
    backup.put_back()
    (retired,) = (tmp_path / "keys").glob("*/retired-*.pem")
    content = retired.read_bytes()
    retired.unlink()
    with Ledger.open(**place) as ledger:
        with pytest.raises(KeyUnusable):
            ledger.continue_journal()
        retired.write_bytes(content)
        retired.chmod(0o600)
        ledger.continue_journal()
        assert verify(LiveEvidence(ledger._engine.store, "default"), [key_of(ledger)]).verdict == "verified"


_KILLED = """
import os, signal, sys
from pathlib import Path
from indelible import Ledger
from indelible.journal import sealing
def die(*args, **words):
    os.kill(os.getpid(), signal.SIGKILL)
with Ledger.open(sys.argv[1], keys=Path(sys.argv[2]), seal=False) as ledger:
    if sys.argv[3] == "before the go":
        sealing.go_after_loss = die
    else:
        keep = type(ledger._engine.store.journal).keep_head
        def kept(*args):
            keep(*args)
            die()
        type(ledger._engine.store.journal).keep_head = kept
    ledger.continue_journal()
"""


@pytest.mark.parametrize("when", ["before the go", "after the head"])
@pytest.mark.parametrize("is_noticed", [True, False])
def test_59_a_continuation_that_was_killed_is_done_again(restored: dict[str, Any], when: str, is_noticed: bool) -> None:
    if is_noticed:
        with Ledger.open(**restored) as ledger, pytest.raises(Stopped):
            ledger.run(charge(3), Count())
    died = subprocess.run([sys.executable, "-c", _KILLED, restored["url"], str(restored["keys"]), when], check=False)
    assert died.returncode == -signal.SIGKILL
    with Ledger.open(**restored) as ledger:
        ledger.continue_journal()
        assert ledger.stopped() is None
        assert ledger.run(charge(3), Count("three")) == "three"
        told = [event.type for event in ledger.events("indelible:journal")]
        assert told.count("log_continued") == 1, "the loss is told once"
