"""What a packet carries besides work done: questions are asked again where the run goes on, and forks stay here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import indelible
from indelible import AwaitingApproval, Claimed, Ledger, MayHaveHappened, Succeeded
from indelible.errors import (
    ApprovalPending,
    EffectCompensated,
    EffectErased,
    EffectFailed,
    EffectInDoubt,
    RunRefused,
)
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.keys.redaction_key import VARIABLE, RedactionKey
from indelible.runs import keeping
from tests.faults.test_faults_handover import PAY, here, name_of, there
from tests.journal.exported import key_of
from tests.scenarios.hands import begun, resumed, started
from tests.scenarios.policies import limiting
from tests.scenarios.shells import Count, Driver, approve, charge, prepare_store

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


# To a ledger on either store


Two = Callable[..., tuple[Ledger, Ledger]]


@pytest.fixture
def two(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    """Opens the ledger that hands a run over, on a file, and the one that goes on with it, on either store."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    with ExitStack() as opened:

        def open_two(**words: Any) -> tuple[Ledger, Ledger]:
            urls = f"sqlite:///{tmp_path / 'here.db'}", prepare_store(store_url)
            here, there = (opened.enter_context(Ledger.open(url, tenant="acme", seal=True, **words)) for url in urls)
            return here, there

        yield open_two


def go_on(here: Ledger, there: Ledger) -> None:
    there.import_packet(here.export_packet("r1", to=there.journal_name), trust=True)
    there.resume_run("r1")


@pytest.mark.parametrize(("value", "raised"), [("paid", EffectErased), (ValueError("no funds"), EffectFailed)])
def test_94_an_erased_call_is_as_erased_where_the_run_goes_on(
    two: Two, tmp_path: Path, value: Any, raised: type[Exception]
) -> None:
    here, there = two()
    words: dict[str, Any] = {"failed_on": ValueError, **PAY}
    run = here.start_run("r1", agent="scout")
    with suppress(ValueError):
        here.run(charge(run_id="r1"), Count(value), **words)
    run.hand_off("another ledger")
    here.erase(run_id="r1", by="ada", reason="asked for")
    go_on(here, there)
    again = Count()
    for ledger in (here, there):
        with pytest.raises(raised):
            ledger.run(charge(run_id="r1"), again, **words)
        (effect,) = ledger.effects(run_id="r1")
        with pytest.raises(EffectErased):
            _ = effect.args
        assert ledger.verify_run("r1").is_valid
    assert again.entries == 0
    there.export(tmp_path / "bundle")
    assert indelible.verify(tmp_path / "bundle", key=key_of(there), deep=True).verdict == "verified"


def doubted(ledger: Ledger, **words: Any) -> None:
    with pytest.raises(MayHaveHappened):
        ledger.run(charge(run_id="r1"), Count(MayHaveHappened("cut")), **words)


def under_way(ledger: Ledger, **words: Any) -> None:
    assert isinstance(ledger.begin(charge(run_id="r1"), **words), Claimed)


ORDER: dict[str, Any] = {"exclusive": {"namespace": "shop", "type": "order", "id": "7"}}


@pytest.mark.parametrize("leave", [doubted, under_way])
@pytest.mark.parametrize(("opening", "words"), [({}, ORDER), ({"policy": limiting(5)}, {})], ids=["order", "budget"])
def test_94_a_run_is_not_handed_over_while_a_call_that_may_have_happened_holds_something(
    two: Two, leave: Callable[..., None], opening: dict[str, Any], words: dict[str, Any]
) -> None:
    """No packet carries what it holds, so at the other ledger a second call would not find it taken."""
    here, there = two(**opening)
    run = here.start_run("r1", agent="scout")
    leave(here, **words)
    with pytest.raises(RunRefused) as caught:
        here.export_packet("r1", to=there.journal_name)
    assert caught.value.code == "reserved"
    assert run.run.status == "active"
    assert here.export_packet("r1")["packet"]["handedOverTo"] is None, "a copy for reading is made"
    if leave is doubted:
        here.settle(here.effects()[0].id, Succeeded("shipped"), by="ada", evidence="seen")
        go_on(here, there)
        assert there.run(charge(run_id="r1"), Count(), **words) == "shipped"


def test_94_a_call_that_began_just_before_the_fence_keeps_its_packet_back_until_it_is_settled(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = two()
    here.start_run("r1", agent="scout")
    doubted(here, **ORDER)
    looks = iter([None])
    monkeypatch.setattr(keeping, "why_not_carried", lambda effects: next(looks, "it holds something"))
    with pytest.raises(RunRefused) as caught:
        here.export_packet("r1", to=there.journal_name)
    run = here.get_run("r1")
    assert run is not None
    assert (caught.value.code, run.status) == ("reserved", "handed_over")
    monkeypatch.undo()
    here.settle(here.effects()[0].id, Succeeded("shipped"), by="ada", evidence="seen")
    go_on(here, there)
    assert there.run(charge(run_id="r1"), Count(), **ORDER) == "shipped"


def is_live_verified(ledger: Ledger) -> bool:
    ledger.seal()
    evidence = LiveEvidence(ledger._engine.store, "acme")
    return verify(evidence, [key_of(ledger)], up_to_head=True).verdict == "verified"


def test_94_a_call_in_doubt_keeps_the_time_it_was_opened_at(two: Two, tmp_path: Path) -> None:
    """A probe that lists what the provider did since then would not find it, and the call would be made again."""
    here, there = two()
    here.start_run("r1", agent="scout")
    doubted(here, **PAY)
    go_on(here, there)
    asked: list[datetime] = []
    with pytest.raises(EffectInDoubt):
        there.run(charge(run_id="r1"), Count(), reconcile=lambda effect: asked.append(effect.created_at), **PAY)
    (opened,) = here.effects()
    assert [opened.created_at - at < timedelta(milliseconds=1) for at in asked] == [True]
    assert asked[0] <= opened.created_at
    assert is_live_verified(there)


@pytest.mark.parametrize("on_crash", ["hold", "retry"])
def test_94_a_call_that_took_a_permission_takes_one_where_the_run_goes_on(two: Two, on_crash: Any) -> None:
    here, there = two()
    here.start_run("r1", agent="scout")
    words: dict[str, Any] = {"on_crash": on_crash, "wait": False, **PAY}
    question = here.begin(charge(run_id="r1"), approval="required", **words)
    assert isinstance(question, AwaitingApproval)
    here.approve(question.approval, digest=question.approval.digest, by="ada")
    doubted(here, approval="required", **words)
    go_on(here, there)
    handler = Count()
    with pytest.raises(EffectInDoubt):
        there.run(charge(run_id="r1"), handler, **words)
    there.retry(there.effects()[0], by="bob", reason="not at the bank")
    with pytest.raises(ApprovalPending):
        there.run(charge(run_id="r1"), handler, **words)
    assert handler.entries == 0
    assert is_live_verified(there)
