"""Rows of a part that was declared lost are put in again, with SQL alone: it is stopped and not signed (98)."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from indelible import Actor, Ledger, MayHaveHappened, NothingHappened, RunningEffect, ToolCall
from indelible.errors import ApprovalPending, EffectInDoubt, RecordForged, SignerRefused
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.migrating.moving import move_tenant
from indelible.server.signin.credentials import Credentials
from tests.journal.attacked_world import POLICY, Dump, charge, mail
from tests.journal.decided import lose
from tests.journal.exported import key_of
from tests.journal.test_98_remembered import ROOT, Place, place
from tests.lending import lend_writer_keys
from tests.scenarios.shells import Count

__all__ = ["place"]
WIRE = ToolCall(run_id="order-7", tool="wire", args={"amount": 1_000_000})
ASKING: dict[str, Any] = {"approval": "required", "side_effect": "write"}
PAYING: dict[str, Any] = {"side_effect": "payment", "await_inclusion": False}


def put_in_again(place: Place, lost: Dump, run: str) -> None:
    """Put what a run had in the lost part behind what it has now, and its effects and sheets as they were."""
    now = place.state()
    have = {(row["run_id"], row["seq"]) for row in now["events"]}
    new = [row for row in lost["events"] if row["run_id"] == run and (run, row["seq"]) not in have]
    assert new
    now["events"] += new
    now["payloads"] += [row for row in lost["payloads"] if row["run_id"] == run and (run, row["seq"]) not in have]
    for table, is_old in (
        ("sheets", lambda row: row["kind"] in ("approval", "credential")),
        ("effects", lambda row: True),
        ("runs", lambda row: row["run_id"] == run),
    ):
        now[table] = [row for row in now[table] if not is_old(row)] + [row for row in lost[table] if is_old(row)]
    now["pending"] += [{"tenant": "default", "run_id": run, "seq": row["seq"], "hash": row["hash"]} for row in new]
    place.set_back(now)


def check_is_stopped_and_not_signed(place: Place, said: str) -> None:
    with place.opened() as ledger:
        before = ledger._engine.notary.newest_head()
        with suppress(SignerRefused):
            ledger.seal()
        stop = ledger.stopped()
        assert stop is not None
        assert said in stop.reason
        assert before is not None
        evidence = LiveEvidence(ledger._engine.store, "default", ledger._engine.notary.seal_with_own_key)
        assert verify(evidence, [key_of(ledger)], deep=True).verdict != "verified"


@pytest.mark.parametrize("how", ["taken back", "denied", "used"])
def test_98_a_vote_of_the_lost_part_is_put_in_again(place: Place, how: str) -> None:
    with place.opened() as ledger:
        question = ledger.begin(WIRE, **ASKING).approval  # type: ignore[union-attr]
        ledger.seal()
        copy = place.state()
        ledger.approve(question.id, digest=question.digest, by="ana")
        ledger.seal()
        voted = place.state()
        if how == "used":
            ledger.run(WIRE, Count("wired"), **ASKING)
        else:
            ledger.revoke_approval(question.id, by="ana", reason="wrong customer")
        if how == "denied":
            ledger.deny(question.id, by="bo", reason="no")
        ledger.seal()
    place.set_back(copy)
    with place.opened() as ledger:
        ledger.continue_journal()
        with pytest.raises(ApprovalPending):
            ledger.run(WIRE, Count(), **ASKING, wait=timedelta())
    put_in_again(place, voted, "order-7")
    check_is_stopped_and_not_signed(place, "event 1 of run order-7: it was written before a loss was declared")


def test_98_and_another_attempt_that_a_person_allowed_there(place: Place) -> None:
    with place.opened() as ledger:
        with suppress(MayHaveHappened):
            ledger.run(WIRE, lose, **PAYING)
        ledger.seal()
        copy = place.state()
        ledger.retry(ledger.effects(status="in_doubt")[0], by="ana")
        ledger.seal()
        allowed = place.state()
        ledger.run(WIRE, Count("wired"), **PAYING)
        ledger.seal()
    place.set_back(copy)
    with place.opened() as ledger:
        ledger.continue_journal()
        with pytest.raises(EffectInDoubt):
            ledger.run(WIRE, Count(), **PAYING)
    put_in_again(place, allowed, "order-7")
    check_is_stopped_and_not_signed(place, "of run order-7: it was written before a loss was declared")


def test_98_and_a_token_that_came_and_went_there(place: Place) -> None:
    with place.opened() as ledger:
        tokens = Credentials(ledger._engine.store, "default")
        tokens.give("first", ("agent",), by=ROOT)
        ledger.run(mail(1), Count())
        ledger.seal()
        copy = place.state()
        _, token = tokens.give("mallory", ("admin",), by=ROOT)
        ledger.seal()
        given = place.state()
        tokens.revoke(token.credential_id, by=ROOT)
        ledger.seal()
    place.set_back(copy)
    with place.opened() as ledger:
        ledger.continue_journal()
    put_in_again(place, given, "indelible:credentials")
    check_is_stopped_and_not_signed(place, "of run indelible:credentials: it was written before a loss was declared")


def _decide_something(ledger: Ledger, number: int) -> None:
    call = ToolCall(run_id=f"order-{number}", tool="wire", args={"amount": number})
    question = ledger.begin(call, **ASKING).approval  # type: ignore[union-attr]
    ledger.approve(question.id, digest=question.digest, by=Actor("ana"))
    assert ledger.run(call, Count(number), **ASKING) == number


def test_98_honest_decisions_go_on_after_two_losses_also_where_only_the_keys_are(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.opened() as ledger:
        waiting = ledger.begin(WIRE, **ASKING).approval  # type: ignore[union-attr]
        ledger.seal()
        _decide_something(ledger, 1)  # it waits in the copy
        copy = place.state()
        _decide_something(ledger, 2)
        ledger.seal()
    for number in (3, 4):
        place.set_back(copy)
        with place.opened() as ledger:
            ledger.continue_journal()
            _decide_something(ledger, number)
            ledger.seal()
            assert ledger.stopped() is None
    with place.opened() as ledger:
        lend_writer_keys(monkeypatch, ledger)
        ledger.approve(waiting.id, digest=waiting.digest, by="ana")
    monkeypatch.setenv("INDELIBLE_KEYS", str(place.keys.parent / "elsewhere"))
    with place.opened() as ledger:
        assert ledger.run(WIRE, Count("wired"), **ASKING) == "wired"
        _decide_something(ledger, 5)
    monkeypatch.setenv("INDELIBLE_KEYS", str(place.keys))
    monkeypatch.delenv("INDELIBLE_WRITER_KEYS")
    with place.opened() as ledger:
        ledger.seal()
        assert ledger.stopped() is None
        report = verify(LiveEvidence(ledger._engine.store, "default"), [key_of(ledger)], deep=True)
        assert report.verdict == "verified", report.why


@pytest.mark.parametrize("calls", [0, 1])
def test_98_a_process_without_the_folder_that_lived_through_the_loss_learns_of_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """Also by a vote, a retry or another right that it writes before its first call."""
    with place.opened() as ledger:
        with suppress(MayHaveHappened):
            ledger.run(WIRE, lose, **PAYING)
        ledger.seal()
        copy = place.state()
        ledger.run(mail(1), Count())
        ledger.seal()
        lend_writer_keys(monkeypatch, ledger)
    monkeypatch.setenv("INDELIBLE_KEYS", str(place.keys.parent / "elsewhere"))
    with place.opened() as far:
        far.run(mail(2), Count())
        with monkeypatch.context() as near:
            near.setenv("INDELIBLE_KEYS", str(place.keys))
            near.delenv("INDELIBLE_WRITER_KEYS")
            place.set_back(copy)
            with place.opened() as ledger:
                ledger.continue_journal()
        sent = Count("mailed")
        for number in range(calls):
            far.run(mail(3 + number), sent)
        assert sent.entries == calls
        far.retry(far.effects(status="in_doubt")[0], by="ana")
        _decide_something(far, 6)
    monkeypatch.setenv("INDELIBLE_KEYS", str(place.keys))
    monkeypatch.delenv("INDELIBLE_WRITER_KEYS")
    with place.opened() as ledger:
        ledger.seal()
        assert ledger.stopped() is None


def test_98_nor_does_an_attempt_that_it_gives_back_after_the_loss_stop_effects(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt began after the restore, which a process without the folder does not notice."""
    with place.opened() as ledger:
        ledger.seal()
        copy = place.state()
        ledger.run(mail(1), Count())
        ledger.seal()
        lend_writer_keys(monkeypatch, ledger)
    place.set_back(copy)
    monkeypatch.setenv("INDELIBLE_KEYS", str(place.keys.parent / "elsewhere"))

    def declined(effect: RunningEffect) -> None:
        with monkeypatch.context() as near:
            near.setenv("INDELIBLE_KEYS", str(place.keys))
            near.delenv("INDELIBLE_WRITER_KEYS")
            with place.opened() as ledger:
                ledger.continue_journal()
        raise NothingHappened("the bank is closed")

    with place.opened() as far, pytest.raises(NothingHappened):
        far.run(WIRE, declined, **PAYING)
    monkeypatch.setenv("INDELIBLE_KEYS", str(place.keys))
    monkeypatch.delenv("INDELIBLE_WRITER_KEYS")
    with place.opened() as ledger:
        ledger.seal()
        assert ledger.stopped() is None


def test_98_a_loss_that_was_declared_goes_with_a_tenant_to_another_place(place: Place, tmp_path: Path) -> None:
    """There and back again: whatever decides at either place is bound to it."""
    (tmp_path / "new").mkdir()
    new = Place(f"sqlite:///{tmp_path / 'new' / 'ledger.db'}", place.keys)
    with place.opened() as ledger:
        _decide_something(ledger, 1)
        ledger.seal()
        copy = place.state()
        _decide_something(ledger, 2)
        ledger.seal()
    place.set_back(copy)
    with place.opened() as ledger:
        ledger.continue_journal()
    for source, target in ((place, new), (new, place)):
        move_tenant(source.url, target.url, "default", by="ana")
        for number in (3, 4):
            with target.opened() as ledger:
                call = ToolCall(run_id=f"order-{number}{target.url}", tool="wire", args={"amount": number})
                question = ledger.begin(call, **ASKING).approval  # type: ignore[union-attr]
            with target.opened() as ledger:
                ledger.approve(question.id, digest=question.digest, by="ana")
                ledger.seal()
                assert ledger.stopped() is None
    with place.opened() as ledger:
        report = verify(LiveEvidence(ledger._engine.store, "default"), [key_of(ledger)], deep=True)
        assert report.verdict == "verified", report.why


def test_98_nor_does_it_refuse_for_ever_what_takes_from_a_budget(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.opened() as ledger:
        ledger.apply_policy(POLICY, by="ana")
        ledger.seal()
        lend_writer_keys(monkeypatch, ledger)
    monkeypatch.setenv("INDELIBLE_KEYS", str(place.keys.parent / "elsewhere"))
    with place.opened() as far, monkeypatch.context() as near:
        far.run(charge(10), Count())
        near.setenv("INDELIBLE_KEYS", str(place.keys))
        near.delenv("INDELIBLE_WRITER_KEYS")
        with place.opened() as ledger:
            ledger.seal()
            copy = place.state()
            far.run(charge(20), Count())
            ledger.seal()
        place.set_back(copy)
        with place.opened() as ledger:
            ledger.continue_journal()
        with suppress(RecordForged):
            far.run(charge(30), Count())
        assert far.run(charge(31), Count("paid")) == "paid"
