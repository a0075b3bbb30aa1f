"""What a packet carries besides work done: questions are asked again where the run goes on, and forks stay here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import indelible
from indelible import AwaitingApproval
from indelible.errors import RunRefused
from tests.faults.test_faults_handover import PAY, here, name_of, there
from tests.journal.exported import key_of
from tests.scenarios.hands import begun, resumed, started
from tests.scenarios.shells import Count, Driver, approve, charge

__all__ = ["here", "there"]
ANOTHER = charge(run_id="r1", args={"amount": 6})


def carried(here: Driver, there: Driver) -> dict[str, Any]:
    packet: dict[str, Any] = here.export_packet("r1", to=name_of(there))
    there.import_packet(packet, key=key_of(here.ledger))
    resumed(there)
    return packet


def test_94_a_call_that_waited_or_was_approved_is_asked_about_again_where_the_run_goes_on(
    here: Driver, there: Driver, tmp_path: Path
) -> None:
    started(here)
    here.begin(charge(run_id="r1"), approval="required", **PAY)
    approve(here, here.begin(ANOTHER, approval="required", **PAY))
    packet = carried(here, there)
    assert [one["status"] for one in packet["packet"]["effects"]] == ["requires_approval"] * 2
    handler = Count("paid")
    for call in (charge(run_id="r1"), ANOTHER):  # the terms there ask nobody
        question = there.begin(call, wait=False, **PAY)
        assert isinstance(question, AwaitingApproval)
        assert question.effect.status == "requires_approval"
        assert handler.entries == 0
        approve(there, question)
    assert [there.run(call, handler, wait=False, **PAY) for call in (charge(run_id="r1"), ANOTHER)] == ["paid"] * 2
    assert handler.entries == 2
    assert there.verify_run("r1").is_valid
    there.export(tmp_path / "bundle")
    assert indelible.verify(tmp_path / "bundle", key=key_of(there.ledger), deep=True).verdict == "verified"


@pytest.mark.parametrize("is_dry", [True, False])
def test_94_a_fork_is_not_handed_over(here: Driver, there: Driver, is_dry: bool) -> None:
    started(here).complete()
    begun(here, "fork_run", "r1", new_id="f1", dry_run=is_dry)
    with pytest.raises(RunRefused) as caught:
        here.export_packet("f1", to=name_of(there))
    assert caught.value.code == "fork"
    assert here.get_run("f1").status == "active"
    assert here.export_packet("f1")["packet"]["handedOverTo"] is None, "a copy for reading is made"
