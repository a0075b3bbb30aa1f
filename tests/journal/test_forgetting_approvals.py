"""Forgetting what people decided about: whatever is made of the arguments goes with them, wherever it was told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import indelible
from indelible import AwaitingApproval, Claimed, Ledger, ToolCall
from indelible.core.approvals.approval import Approval
from indelible.core.approvals.grants import GrantTerms
from indelible.core.privacy.forgetting import POLICY_STAYS
from indelible.core.sheets import SheetFilter
from indelible.errors import ApprovalPending, EffectErased, IllegalMove, OnHold, PolicyRefused
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.stores import is_postgres
from tests.journal.exported import key_of
from tests.stores.database import open_file

CANARY = "CANARY-forget-me"
POLICY: dict[str, Any] = {
    "people": {"ana": {}, "bo": {}, "cy": {}},
    "rules": [
        {"name": "two people", "match": {"tool": "wire"}, "then": "ask", "approvals": {"quorum": 2}},
        {"name": "one person", "match": {"tool": "refund"}, "then": "ask"},
        {"name": "never", "match": {"tool": "drop"}, "then": "refuse"},
        {"name": "all else", "then": "allow"},
    ],
    "budgets": [{"name": "money", "match": {"tool": "wire"}, "limit": 10_000_000, "window": "24h", "sum": "amount"}],
}
AMOUNT = 4_711_815


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    """A ledger with a policy, once per kind of store."""
    indelible.migrate(store_url)
    with Ledger.open(store_url, seal=False, subject="args.customer") as opened:
        opened.apply_policy(POLICY, by="ana")
        yield opened


def wire(customer: str = "ada", run_id: str = "order-1", **args: Any) -> ToolCall:
    return ToolCall(tool="wire", args={"customer": customer, "amount": AMOUNT, **args}, run_id=run_id)


def refund(run_id: str, customer: str = "ada") -> ToolCall:
    return ToolCall(tool="refund", args={"customer": customer}, run_id=run_id)


def ask(ledger: Ledger, call: ToolCall) -> Approval:
    begun = ledger.begin(call)
    assert isinstance(begun, AwaitingApproval), begun
    return begun.approval


def decide(ledger: Ledger, call: ToolCall, *, edited: dict[str, Any] | None = None) -> Approval:
    """Asks, lets somebody edit, lets two vote, and runs."""
    approval = ask(ledger, call)
    if edited is not None:
        approval = ledger.edit_approval(approval.id, edited, digest=approval.digest, by="cy", reason=f"edited {CANARY}")
    for by in ("ana", "bo"):
        ledger.approve(approval.id, digest=approval.digest, by=by, reason=f"{by} says {CANARY}")
    ledger.run(call, lambda effect: {"receipt": CANARY})
    return approval


def granted(ledger: Ledger, *runs: str) -> str:
    """Grants further calls with one of `order-1`, and uses the grant in these runs; gives what it pins."""
    approval = ask(ledger, refund("order-1"))
    terms = GrantTerms(count=9, until=datetime.now(UTC) + timedelta(days=1))
    ledger.approve(approval.id, digest=approval.digest, by="ana", grant=terms)
    for run_id in ("order-1", *runs):
        ledger.run(refund(run_id), lambda effect: "done")
    (grant,) = ledger.grants()
    return grant.pinned


def payloads(ledger: Ledger, run_id: str = "order-1") -> dict[tuple[int, str], bytes]:
    seqs = [event.seq for event in ledger.events(run_id)]
    found = ledger._engine.store.payloads(ledger.tenant, run_id, seqs)
    return {(payload.seq, payload.field): payload.value for payload in found}


def everything(ledger: Ledger) -> bytes:
    """Gives all values that are left, of all runs."""
    store = ledger._engine.store
    runs = [run_id for run_id, _, _ in store.journal.runs(ledger.tenant, "", 100)]
    return b"\n".join(value for run_id in runs for value in payloads(ledger, run_id).values())


def look(ledger: Ledger) -> Any:
    ledger.seal()
    report = verify(LiveEvidence(ledger._engine.store, ledger.tenant), [key_of(ledger)], deep=True)
    assert report.verdict == "verified", report.why
    assert report.counts.payloads is not None
    return report.counts.payloads


# ── approvals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_with_the_arguments_goes_whatever_is_made_of_them(ledger: Ledger) -> None:
    approval = decide(ledger, wire(note=CANARY), edited={"customer": "ada", "amount": 77_123, "note": CANARY})
    seq = next(event.seq for event in ledger.events("order-1") if event.type == "approval_edited")
    approvals = ledger.approvals()
    assert approvals
    for one in approvals:
        assert one.digest.encode() in everything(ledger)
    ledger.erase(run_id="order-1", seq=seq, fields=["args"], by="ana", reason="request of 3 May")
    left = {name for _, name in payloads(ledger)}
    assert left == {"key", "subject", "result", "reason", "origin"}, "whom the edited call's place belongs to stays"
    assert everything(ledger).count(CANARY.encode()) == 1, "the result was not asked for"
    for told in (approval.digest.encode(), b"77123", str(AMOUNT).encode(), b"ana says", b'"by"'):
        assert told not in everything(ledger)
    assert ledger.get_approval(approval.id) is None, "nothing is left that could be shown"
    assert look(ledger).erased >= 10


def test_a_run_a_person_and_time_take_approvals_along(ledger: Ledger) -> None:
    for number, forget in enumerate(
        (
            lambda: ledger.erase(run_id="order-0", by="ana", reason="x"),
            lambda: ledger.erase(subject="c1", by="ana", reason="x"),
            lambda: ledger.prune(timedelta(0), by="ana"),
        )
    ):
        call = wire(f"c{number}", f"order-{number}", note=CANARY)
        decide(ledger, call, edited={"customer": f"c{number}", "amount": 1, "note": CANARY})
        assert CANARY.encode() in everything(ledger)
        forget()
        assert {name for _, name in payloads(ledger, f"order-{number}")} == {"reason"}, "of the erasure"
        assert CANARY.encode() not in everything(ledger)
    assert look(ledger).missing == 0


def test_what_was_decided_about_and_erased_is_not_run_again(ledger: Ledger) -> None:
    decide(ledger, wire())
    ledger.erase(run_id="order-1", by="ana", reason="x")
    with pytest.raises(EffectErased):
        ledger.run(wire(), lambda effect: pytest.fail("entered"))
    (effect,) = ledger.effects()
    assert effect.approval_id is not None
    with pytest.raises(indelible.errors.UnknownApproval):
        ledger.approve(effect.approval_id, digest="0" * 64, by="cy")


def test_a_question_that_waits_is_kept_or_withdrawn_and_then_allows_nothing(ledger: Ledger) -> None:
    approval = ask(ledger, wire())
    with pytest.raises(IllegalMove, match="cancel it first"):
        ledger.erase(subject="ada", by="ana", reason="x")
    ledger.erase(subject="ada", by="ana", reason="x", force=True)
    with pytest.raises(indelible.errors.UnknownApproval):
        ledger.approve(approval.id, digest=approval.digest, by="bo")
    with pytest.raises(indelible.errors.EffectCanceled):
        ledger.run(wire(), lambda effect: pytest.fail("entered"))
    look(ledger)


def test_a_question_whose_arguments_somebody_deleted_never_allows(ledger: Ledger, store_url: str) -> None:
    """Behind our back, or by an erasure at the very moment when somebody was asked anew."""
    for fields, refusals in (("args", EffectErased), ("approval", ApprovalPending)):
        approval = ask(ledger, wire(run_id=f"order-{fields}"))
        _delete(store_url, fields)
        with pytest.raises((IllegalMove, indelible.errors.UnknownApproval)):
            ledger.approve(approval.id, digest=approval.digest, by="bo")
        with pytest.raises(refusals):
            ledger.run(wire(run_id=f"order-{fields}"), lambda effect: pytest.fail("entered"), wait=False)


def _delete(url: str, field: str) -> None:
    statement = f"DELETE FROM indelible_payloads WHERE field = '{field}'"
    if is_postgres(url):
        with psycopg.connect(url) as server:
            server.execute(statement.encode())
    else:
        connection = open_file(url)
        connection.execute(statement)
        connection.close()


def test_a_hold_on_a_person_keeps_what_was_edited_about_them(ledger: Ledger) -> None:
    """The arguments of an edited effect are told elsewhere than whom it is about."""
    decide(ledger, wire(), edited={"customer": "ada", "amount": 1})
    hold = ledger.hold(subject="ada", by="legal", reason="lawsuit")
    with pytest.raises(OnHold):
        ledger.erase(subject="ada", by="ana", reason="x")
    with pytest.raises(OnHold, match=hold.id):
        ledger.erase(run_id="order-1", by="ana", reason="x")
    assert ledger.prune(timedelta(0), by="ana").count == 0


def test_a_call_that_was_refused_is_found_by_whom_it_was_about(ledger: Ledger) -> None:
    for customer in ("ada", "bob"):
        with pytest.raises(PolicyRefused):
            ledger.run(
                ToolCall(tool="drop", args={"customer": customer, "note": CANARY}, run_id="order-1"),
                lambda effect: None,
            )
    report = ledger.erase(subject="ada", by="ana", reason="x")
    assert report.count == 3, "its arguments, what the policy said, and whom it was about"
    assert everything(ledger).count(CANARY.encode()) == 1
    assert b'"bob"' in everything(ledger)
    look(ledger)


def test_the_policy_stays(ledger: Ledger) -> None:
    report = ledger.erase(run_id="indelible:journal", by="ana", reason="x")
    assert [kept.why for kept in report.kept] == [POLICY_STAYS]
    assert ledger.policy() is not None
    with pytest.raises(IllegalMove, match="indelible:journal cannot be erased: calls were judged by it"):
        ledger.erase(run_id="indelible:journal", fields=["policy"], by="ana", reason="x")


# ── grants ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_granted(ledger: Ledger, run_id: str = "later") -> bool:
    begun = ledger.begin(refund(run_id))
    if isinstance(begun, Claimed):
        ledger.commit(begun.claim, indelible.Succeeded(1))
    return isinstance(begun, Claimed)


@pytest.mark.parametrize("run_id", ["order-1", "order-2", "order-3"])
def test_a_grant_goes_as_a_whole_with_the_call_it_was_given_with_or_used_for(ledger: Ledger, run_id: str) -> None:
    pinned = granted(ledger, "order-2", "order-3", "order-4")
    assert everything(ledger).count(pinned.encode()) == 4
    report = ledger.erase(run_id=run_id, by="ana", reason="x")
    assert report.erased.keys() == {"order-1", "order-2", "order-3", "order-4"}
    assert pinned.encode() not in everything(ledger)
    assert not is_granted(ledger)
    assert ledger.grants() == []
    look(ledger)


def test_a_grant_stands_until_the_call_it_was_given_with_is_pruned(ledger: Ledger) -> None:
    granted(ledger, "order-2")
    ledger.erase(run_id="order-2", seq=1, by="ana", reason="a result alone does not matter to it")
    assert is_granted(ledger)
    rehearsal = ledger.prune(timedelta(0), by="ana", dry_run=True)
    report = ledger.prune(timedelta(0), by="ana")
    assert rehearsal.erased.keys() == report.erased.keys() == {"order-1", "order-2", "later"}
    assert not is_granted(ledger, "even later")
    look(ledger)


def test_pruning_a_call_that_used_a_grant_leaves_the_grant(ledger: Ledger) -> None:
    pinned = granted(ledger)
    ledger.hold(run_id="order-1", by="legal", reason="lawsuit")
    assert is_granted(ledger, "order-2")
    ledger.prune(timedelta(0), by="ana")
    assert is_granted(ledger, "order-3")
    assert everything(ledger).count(pinned.encode()) == 3
    look(ledger)


def test_a_hold_keeps_the_state_of_a_grant_and_says_so(ledger: Ledger) -> None:
    pinned = granted(ledger, "order-2", "order-3")
    ledger.hold(run_id="order-2", by="legal", reason="lawsuit")
    report = ledger.erase(run_id="order-1", by="ana", reason="x")
    assert [kept.run_id for kept in report.kept] == ["order-2"]
    assert everything(ledger).count(pinned.encode()) == 1
    look(ledger)


def test_a_hold_on_a_person_keeps_the_state_of_a_grant_that_was_used_for_them(ledger: Ledger) -> None:
    approval = ask(ledger, ToolCall(tool="refund", args={"customer": "bob", "n": 1}, run_id="order-1"))
    terms = GrantTerms(count=9, until=datetime.now(UTC) + timedelta(days=1), pin=("n",))
    ledger.approve(approval.id, digest=approval.digest, by="ana", grant=terms)
    ledger.run(ToolCall(tool="refund", args={"customer": "ada", "n": 1}, run_id="order-2"), lambda effect: 1)
    ledger.run(ToolCall(tool="refund", args={"customer": "bob", "n": 1}, run_id="order-1"), lambda effect: 1)
    ledger.hold(subject="ada", by="legal", reason="lawsuit")
    report = ledger.erase(subject="bob", by="ana", reason="x")
    assert [(kept.run_id, "hold" in kept.why) for kept in report.kept] == [("order-2", True)]
    assert (0, "grant") in payloads(ledger, "order-2")
    look(ledger)


def test_nothing_of_what_was_decided_about_is_left_in_the_files_of_sqlite(sqlite_url: str, tmp_path: Path) -> None:
    with Ledger.open(sqlite_url, seal=False, subject="args.customer") as ledger:
        ledger.apply_policy(POLICY, by="ana")
        approval = decide(ledger, wire(note=CANARY), edited={"customer": "ada", "amount": 7_712_345, "note": CANARY})
        pinned = granted(ledger, "order-2")
        digests = (approval.digest.encode(), pinned.encode(), CANARY.encode(), b'"amount":7712345')
        assert all(told in _raw(tmp_path) for told in digests)
        ledger.erase(subject="ada", by="cy", reason="request of 3 May")
        assert not any(told in _raw(tmp_path) for told in digests)
        assert b"7712345" in _raw(tmp_path), "what a budget has added up stays until it has left its window"
        (sheet,) = ledger._engine.store.sheets("default", SheetFilter(kind="grant"))
        assert sheet.body is None
        look(ledger)


def _raw(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and "keys" not in path.parts)
