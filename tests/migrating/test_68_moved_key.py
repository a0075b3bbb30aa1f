"""The line that is logged where a move makes the first key of a ledger is one that auditors can pin (68)."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import indelible
from indelible import Ledger
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.migrating.moving import move_tenant
from tests.journal.test_set_back import charge


def test_68_the_key_that_a_move_makes_is_named_as_the_journal_that_it_signs(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    (tmp_path / "old").mkdir()
    old = f"sqlite:///{tmp_path / 'old' / 'ledger.db'}"
    indelible.migrate(old)
    indelible.migrate(store_url)
    with Ledger.open(old, seal=False, tenant="acme") as ledger:
        ledger.run(charge(1), lambda effect: 1)
        ledger.seal()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "indelible.journal"):
        move_tenant(old, store_url, "acme", by="ana")
    (line,) = (record.getMessage() for record in caplog.records if "Auditors verify" in record.getMessage())
    with Ledger.open(store_url, seal=False, tenant="acme") as ledger:
        ledger.run(charge(2), lambda effect: 2)
        ledger.seal()
        report = verify(LiveEvidence(ledger._engine.store, "acme"), [line.rpartition(": ")[2]], deep=True)
    assert report.verdict == "verified", report.why
