"""An honest ledger is verified while values of its calls are erased."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

from indelible import GrantTerms, Ledger, migrate
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.exporting import export
from tests.journal.decided import POLICY, approve, ask, refund
from tests.journal.exported import call, key_of, store_of
from tests.journal.standing_alone import standalone
from tests.stores.database import Database


@pytest.mark.parametrize("erased", ["order-0", "order-1"], ids=["given with it", "used by it"])
@pytest.mark.parametrize("has_grant", [False, True])
@pytest.mark.parametrize("writer_keys", [False, True])
def test_69_a_call_that_is_erased_while_the_ledger_is_verified_accuses_nobody(
    writer_keys: bool, has_grant: bool, erased: str, store_url: str, tmp_path: Path
) -> None:
    """What was on a grant was there when its events were read, and was gone when its row was compared."""
    migrate(store_url, keys=tmp_path / "keys", writer_keys=writer_keys)
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        ledger.apply_policy(POLICY, by="ana")
        terms = GrantTerms(count=3, until=datetime.now(UTC) + timedelta(days=1))
        approve(ledger, ask(ledger, refund("order-0")), "ana", **({"grant": terms} if has_grant else {}))
        if not has_grant:
            approve(ledger, ask(ledger, refund("order-1")), "ana")
        for run_id in ("order-0", "order-1"):
            assert ledger.run(refund(run_id), lambda effect: "refunded") == "refunded"
        ledger.seal()
        erasures = []

        def erase(done: int, size: int) -> None:
            if done == size and not erasures:
                erasures.append(ledger.erase(run_id=erased, by="ana", reason="asked by the customer"))

        evidence = LiveEvidence(store_of(ledger), "default")
        report = verify(evidence, [key_of(ledger)], up_to_head=True, progress=erase)
        assert erasures
        assert (report.verdict, report.flaw) == ("verified", None), report.why
        ledger.seal()
        assert verify(LiveEvidence(store_of(ledger), "default"), [key_of(ledger)]).verdict == "verified"


@pytest.fixture
def ledger(store_url: str, tmp_path: Path) -> Iterator[Ledger]:
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        for number in range(2):
            ledger.run(call("pay", "order-1", n=number), lambda effect: "paid")
            ledger.run(call("pay", "order-2", n=number), lambda effect: "paid")
        ledger.seal()
        yield ledger


def verdicts(file: Path, key: str) -> set[str]:
    """Ask the library and, of a bundle, the verifier inside it."""
    said: set[str] = {verify(file, [key]).verdict}
    return said | {standalone(file, [key])} if file.suffix == ".zip" else said


@pytest.mark.parametrize("form", ["bundle", "ndjson"])
def test_69_what_was_erased_after_the_head_is_withheld_and_accuses_nobody(
    ledger: Ledger, form: Literal["bundle", "ndjson"], tmp_path: Path
) -> None:
    """Nothing under the head says that it was erased, and the file lacks it: so the file says that it is left out."""
    ledger.erase(run_id="order-1", fields=["result"], by="ana", reason="asked by the customer")
    ledger.seal()
    ledger.erase(run_id="order-1", by="ana", reason="asked by the customer")
    file, key = tmp_path / ("a.zip" if form == "bundle" else "a.ndjson"), key_of(ledger)
    done = export(store_of(ledger), ledger.tenant, file, form=form)
    assert done.erased_since == done.withheld > 0
    assert verdicts(file, key) == {"verified"}
    ledger.seal()
    done = export(store_of(ledger), ledger.tenant, file, form=form, force=True)
    assert done.erased_since == done.withheld == 0
    assert verdicts(file, key) == {"verified"}


@pytest.mark.parametrize("run_id", [None, "order-1"])
def test_69_an_erasure_in_the_middle_of_an_export_accuses_nobody(
    ledger: Ledger, run_id: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.journal.exports.excerpt.PAGE", 2)
    erasures = []

    def erase(done: int, total: int | None) -> None:
        if not erasures:
            erasures.append(ledger.erase(run_id="order-1", by="ana", reason="asked by the customer"))
            ledger.seal()

    done = ledger.export(tmp_path / "a.zip", run_id=run_id, progress=erase)
    assert erasures
    assert done.erased_since > 0
    assert verdicts(tmp_path / "a.zip", key_of(ledger)) == {"verified"}


def test_69_a_value_that_a_hand_took_from_the_database_is_missing_beside_one_that_was_erased(
    ledger: Ledger, tmp_path: Path, store_url: str
) -> None:
    ledger.erase(run_id="order-1", by="ana", reason="asked by the customer")
    with Database(store_url) as database:
        database.run("DELETE FROM indelible_payloads WHERE run_id = 'order-2' AND field = 'result'")
    export(store_of(ledger), ledger.tenant, tmp_path / "a.zip")
    assert verdicts(tmp_path / "a.zip", key_of(ledger)) == {"tampered"}
