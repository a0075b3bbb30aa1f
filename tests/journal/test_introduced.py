"""A process that signs each event tells its key with the first one that it signs, whoever writes that event."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, ToolCall, migrate
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.errors import Stopped
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.exporting import export
from tests.journal.exported import key_of, store_of
from tests.journal.test_98_remembered import Place as Attacked
from tests.journal.test_set_back import Backup

Place = dict[str, Any]


@pytest.fixture
def place(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    keys = tmp_path / "keys"
    monkeypatch.setenv("INDELIBLE_KEYS", str(keys))
    migrate(store_url)
    return {"url": store_url, "keys": keys, "seal": False, "sign_events": True}


def charge(number: int) -> ToolCall:
    return ToolCall(tool="charge", args={"amount": number}, run_id=f"order-{number}")


def rotate(ledger: Ledger) -> None:
    ledger.rotate_keys()


def revoke(ledger: Ledger) -> None:
    ring: Any = ledger._engine.notary.signer()
    (old,) = [key for key in ring.ring.all_keys() if key.status == "retired"]
    ledger.revoke_key(old.id)


def beat(ledger: Ledger) -> None:
    ledger._engine.notary.sealer().heartbeat()  # as the thread that seals does every ten minutes


def stop(ledger: Ledger) -> None:
    ledger.stop(by="ana", reason="look")
    ledger.go(by="ana")


def call(ledger: Ledger) -> None:
    ledger.run(charge(7), lambda effect: 7)


def check(ledger: Ledger, tmp_path: Path) -> None:
    ledger.seal()
    export(store_of(ledger), ledger.tenant, tmp_path / "whole.zip")
    keys = [key_of(ledger)]
    for evidence in (LiveEvidence(store_of(ledger), ledger.tenant), tmp_path / "whole.zip"):
        report = verify(evidence, keys, deep=True)
        assert report.verdict == "verified", report.why


@pytest.mark.parametrize("write", [rotate, revoke, beat, stop, call])
def test_what_a_process_writes_first_comes_with_its_key(
    place: Place, tmp_path: Path, write: Callable[[Ledger], None]
) -> None:
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), lambda effect: 1)
        ledger.seal()
        ledger.rotate_keys()
    with Ledger.open(**place) as ledger:
        write(ledger)
        told = [event for event in ledger.events(JOURNAL_RUN) if event.type == "writer_registered"]
        assert [event.read()["writer"] for event in told][1:] == [ledger._engine.store.writer_id]
    with Ledger.open(**place) as ledger:
        ledger.run(charge(2), lambda effect: 2)
        check(ledger, tmp_path)


def test_a_declared_loss_comes_with_the_key_of_the_process_that_declares_it(place: Place, tmp_path: Path) -> None:
    backup = Backup(place["url"])
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), lambda effect: 1)
    backup.make()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(2), lambda effect: 2)
        ledger.seal()
    backup.put_back()
    with Ledger.open(**place) as ledger:
        ledger.continue_journal()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(3), lambda effect: 3)
        check(ledger, tmp_path)


def test_a_process_that_goes_on_after_a_restore_tells_its_key_again(place: Place, tmp_path: Path) -> None:
    database = Attacked(place["url"], place["keys"])
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), lambda effect: 1)
        ledger.seal()
    backup = database.state()
    with Ledger.open(**place) as ledger:
        ledger.run(charge(2), lambda effect: 2)
        ledger.seal()
        database.set_back(backup)
        with pytest.raises(Stopped):
            ledger.run(charge(3), lambda effect: 3)
        ledger.continue_journal()
        ledger.run(charge(3), lambda effect: 3)
        check(ledger, tmp_path)
