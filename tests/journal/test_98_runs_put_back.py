"""The row of a run that is over is put back: what is then told of the run is not signed, and effects are stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from indelible import Ledger, migrate
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from tests.journal.exported import key_of, store_of
from tests.journal.tampering import Database


def say_nothing(ledger: Ledger) -> None:
    """Tell nothing after the end."""


def erase(ledger: Ledger) -> None:
    ledger.erase(run_id="lead-1", by="ana", reason="asked by the customer")


def hold(ledger: Ledger) -> None:
    ledger.hold(run_id="lead-1", by="ana", reason="a lawsuit")


@pytest.mark.parametrize("is_sealed_between", [True, False])
@pytest.mark.parametrize("between", [say_nothing, hold, erase])
def test_98_what_is_told_of_a_canceled_run_whose_row_was_put_back_is_not_signed(
    between: Callable[[Ledger], None],
    is_sealed_between: bool,
    store_url: str,
    tmp_path: Path,
) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger, closing(Database(store_url)) as database:
        run = ledger.start_run("lead-1", agent="sales")
        run.checkpoint({"n": 1})
        ledger.seal()
        old = {(row["kind"], row["id"]): row for row in database.rows("sheets") if row["kind"] == "run"}
        payloads = database.rows("payloads")
        run.cancel("no more")
        between(ledger)
        if is_sealed_between:
            ledger.seal()
        told = [event.type for event in ledger.events("lead-1")]
        database.replace("sheets", [old.get((row["kind"], row["id"]), row) for row in database.rows("sheets")])
        places = {(row["run_id"], row["seq"], row["field"]) for row in database.rows("payloads")}
        gone = [row for row in payloads if (row["run_id"], row["seq"], row["field"]) not in places]
        database.replace("payloads", [*database.rows("payloads"), *gone])
        resumed = ledger.resume_run("lead-1")
        resumed.record("acme.lead_scored", {"score": 3})
        ledger.seal()
        stop = ledger.stopped()
        assert stop is not None
        assert "run lead-1" in stop.reason
        entries = store_of(ledger).journal.entries("default", 0, 1000)
        assert 0 < max(entry.seq for entry in entries if entry.run_id == "lead-1") < len(told)
        report = verify(LiveEvidence(store_of(ledger), "default"), [key_of(ledger)])
        assert report.verdict == "tampered"


def test_98_what_runs_may_tell_is_signed_event_by_event_and_at_once(store_url: str, tmp_path: Path) -> None:
    """Each is held against the newest one before, wherever a seal falls between them."""
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        for number, seal in enumerate((ledger.seal, lambda: None)):
            name = f"lead-{number}"
            run = ledger.start_run(name, agent="sales")
            seal()
            run.record("acme.lead_scored", {"score": 3})
            seal()
            run.checkpoint({"n": 1})
            seal()
            run.release()
            seal()
            run = ledger.resume_run(name)
            seal()
            run.complete()
            seal()
            ledger.hold(run_id=name, by="ana", reason="a lawsuit")
            seal()
        ledger.seal()
        assert ledger.stopped() is None
        assert store_of(ledger).journal.waiting("default") == 0
        assert verify(LiveEvidence(store_of(ledger), "default"), [key_of(ledger)]).verdict == "verified"
