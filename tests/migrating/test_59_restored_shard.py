"""A shard that is restored to before a tenant came begins no second history: the old place has what it did (59)."""

from __future__ import annotations

from pathlib import Path

import pytest

import indelible
from indelible import Actor, Ledger
from indelible.core.journal.notes import parse_vkey
from indelible.engine.stops import Stops
from indelible.errors import SignerRefused, Stopped
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.migrating.moving import move_tenant
from tests.journal.exported import key_of
from tests.journal.test_set_back import Backup, charge


@pytest.mark.parametrize("is_noticed", [True, False])
def test_59_a_shard_that_is_restored_to_before_a_tenant_came_begins_no_second_history(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_noticed: bool
) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    (tmp_path / "old").mkdir()
    old = f"sqlite:///{tmp_path / 'old' / 'ledger.db'}"
    indelible.migrate(old)
    indelible.migrate(store_url)
    with Ledger.open(old, seal=True, tenant="acme") as ledger:
        ledger.run(charge(1), lambda effect: 1)
        ledger.seal()
        pinned = parse_vkey(str(key_of(ledger)))
    with Ledger.open(store_url, seal=True) as other:
        other.run(charge(1), lambda effect: 1)
    backup = Backup(store_url)
    backup.make()
    move_tenant(old, store_url, "acme", by="ana")
    with Ledger.open(store_url, seal=True, tenant="acme") as ledger:
        ledger.run(charge(2), lambda effect: 2)
    backup.put_back()
    if is_noticed:
        with Ledger.open(store_url, seal=True, tenant="acme") as ledger, pytest.raises(Stopped):
            ledger.run(charge(1), lambda effect: "again")
    with Ledger.open(store_url, seal=True, tenant="acme") as ledger:
        with pytest.raises(SignerRefused):
            ledger.continue_journal()
        with pytest.raises(Stopped):
            ledger.run(charge(1), lambda effect: "again")
    backup.put_back()
    with Ledger.open(old, seal=False, tenant="acme") as ledger:
        Stops(ledger._engine, "acme").go(Actor("ana"), "it is not there any more", is_forced=True)
        ledger.continue_journal()
    with pytest.raises(SignerRefused, match="journal continue"):  # it arrived; what it signed there before is lost
        move_tenant(old, store_url, "acme", by="ana")
    with Ledger.open(store_url, seal=True, tenant="acme") as ledger:
        ledger.continue_journal()
        assert ledger.run(charge(1), lambda effect: "again") == 1
        assert ledger.run(charge(2), lambda effect: "two") == "two"
        ledger.seal()
        report = verify(LiveEvidence(ledger._engine.store, "acme"), [pinned], deep=True)
        assert report.verdict == "verified", report.why
