"""An honest ledger is verified while values of its calls are erased."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from indelible import GrantTerms, Ledger, migrate
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from tests.journal.decided import POLICY, approve, ask, refund
from tests.journal.exported import key_of, store_of


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
