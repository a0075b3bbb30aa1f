"""What a packet carries besides work done: questions are asked again where the run goes on, and forks stay here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import indelible
from indelible import AwaitingApproval
from indelible.errors import EffectCompensated, RunRefused
from indelible.journal.keys.redaction_key import VARIABLE, RedactionKey
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


@pytest.mark.parametrize("redact", [["args.card"], [re.compile(r"4111\d+")]], ids=["a path", "a pattern"])
def test_94_redacted_calls_are_taken_over_only_by_a_ledger_with_the_same_redaction_key(
    here: Driver, there: Driver, redact: list[Any]
) -> None:
    """Under another key the same secret has another mark, so the call has another key, and is made again."""
    started(here)
    card = charge(run_id="r1", args={"card": "4111111111111111"})
    here.run(card, Count(), redact=redact, **PAY)
    packet = here.export_packet("r1", to=name_of(there))
    for _ in range(2):  # before this ledger has a key of its own, and with it
        with pytest.raises(RunRefused) as caught:
            there.import_packet(packet, trust=True)
        assert caught.value.code == "redaction"
        there.run(charge(run_id="other", args={"card": "5"}), Count(), redact=["args.card"], **PAY)
    assert there.effects(run_id="r1") == []


def test_94_redacted_calls_replay_at_a_ledger_with_the_same_redaction_key(
    here: Driver, there: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: dict[str, Any] = {"redact": ["args.card"], **PAY}
    started(here)
    card = charge(run_id="r1", args={"card": "4111111111111111"})
    here.run(card, Count("paid"), **words)
    monkeypatch.setenv(VARIABLE, RedactionKey(here.engine.store, None)().hex())
    there.run(charge(run_id="other", args={"card": "5"}), Count(), **words)
    carried(here, there)
    again = Count()
    assert there.run(card, again, **words) == "paid"
    assert again.entries == 0


def test_94_what_was_not_redacted_is_taken_over_whatever_else_is(here: Driver, there: Driver) -> None:
    here.run(charge(run_id="other", args={"card": "5"}), Count(), redact=["args.card"], **PAY)
    started(here)
    here.run(charge(run_id="r1"), Count("paid"), **PAY)
    carried(here, there)
    assert there.run(charge(run_id="r1"), Count(), **PAY) == "paid"


@pytest.mark.parametrize("is_over", [True, False])
def test_94_a_run_that_delegated_is_not_handed_over(here: Driver, there: Driver, is_over: bool) -> None:
    """Its children stay here with their calls, and the other ledger would begin them anew."""
    run = started(here)
    child = run.delegate("cashier", "charge order 1")
    if is_over:
        child.complete()
        run.finish_delegation(child.id)
    with pytest.raises(RunRefused) as caught:
        here.export_packet("r1", to=name_of(there))
    assert caught.value.code == "delegated"
    assert here.get_run("r1").status == "active"
    assert here.export_packet("r1")["packet"]["handedOverTo"] is None, "a copy for reading is made"
    run.delegate("cashier", "charge order 2")
    assert run.complete().status == "completed"


@pytest.mark.parametrize("undone", [1, 2])
def test_96_a_call_that_was_compensated_is_so_where_the_run_goes_on(here: Driver, there: Driver, undone: int) -> None:
    @here.tool(side_effect="payment", compensate=lambda effect: "re_1")
    def buy(n: int) -> str:
        return f"ch_{n}"

    bought = [charge(run_id="r1", tool="buy", args={"n": n}) for n in range(undone)]
    run = started(here)
    for call in bought:
        here.run(call, Count("ch"), **PAY)
    assert [one.status for one in here.compensate("r1")] == ["done"] * undone
    run.hand_off("another ledger")
    carried(here, there)
    for call in bought:
        with pytest.raises(EffectCompensated):
            there.run(call, Count(), **PAY)
