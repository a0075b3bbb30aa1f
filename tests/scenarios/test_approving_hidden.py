"""Approvals of calls of which not everything is on the record, or not in clear: redacted and encrypted ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import indelible
from indelible import Redacted, RunningEffect
from indelible.core.values.differences import Difference
from indelible.errors import ApprovalPending, BadCall, EffectErased, VoteRefused
from tests.journal.exported import key_of
from tests.scenarios.policies import asking
from tests.scenarios.shells import Count, Driver, Shell, approve, asked, charge, somebody_waits
from tests.scenarios.test_redaction import assert_found_nowhere
from tests.waiting import PATIENCE

CARD = "4000056655665556"
NOTE = f"to be booked on card {CARD}, please"
SECRETS = {"amount": 5, "pin": "CANARY-approval-pin", "note": NOTE, "items": [{"token": "CANARY-approval-token"}]}
RULES = ["args.pin", "*.token", "card"]


@pytest.fixture
def screened(shell: Shell) -> Driver:
    """A ledger that keeps pins, tokens and card numbers out of the record."""
    return shell.open(redact=RULES)


def seen_by(seen: list[Any]) -> Any:
    def handler(effect: RunningEffect) -> str:
        seen.append(effect.args)
        return "ran"

    return handler


# ── redacted ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_whoever_decides_sees_marks_and_the_handler_gets_the_values(screened: Driver) -> None:
    question = asked(screened, args=SECRETS)
    shown = screened.view_approval(question.approval.id).args
    assert isinstance(shown["pin"], Redacted)
    assert CARD not in str(shown)
    approve(screened, question, reason=f"yes, {CARD} is fine")
    seen: list[Any] = []
    assert screened.run(charge(args=SECRETS), seen_by(seen), approval="required") == "ran"
    assert seen == [SECRETS]
    assert_found_nowhere(screened.url, CARD, "CANARY-approval-pin", "CANARY-approval-token")


def test_another_secret_is_another_call_and_is_not_approved_by_the_first(screened: Driver) -> None:
    approve(screened, asked(screened, args={**SECRETS, "order": 7}, key=["order"]))
    handler = Count()
    with pytest.raises(ApprovalPending) as told:
        screened.run(
            charge(args={**SECRETS, "order": 7, "pin": "CANARY-other-pin"}, key=["order"]),
            handler,
            approval="required",
            wait=False,
        )
    assert handler.entries == 0
    changed = screened.view_approval(told.value.approval.id).changed
    assert [each.path for each in changed] == ["args.pin"]
    assert all(isinstance(each, Redacted) for each in (changed[0].before, changed[0].after))


def test_an_edit_leaves_the_callers_secrets_in_their_places(screened: Driver) -> None:
    seen: list[Any] = []
    waiter = screened.spawn("run", charge(args=SECRETS), seen_by(seen), approval="required", wait=PATIENCE)
    somebody_waits(screened)
    (question,) = screened.approvals()
    shown = screened.view_approval(question.id).args
    edited = {**shown, "amount": 4, "items": [*shown["items"], {"name": "added"}]}
    approve(screened, screened.edit_approval(question.id, edited, digest=question.digest, by="bob"), by="ana")
    assert waiter.result(PATIENCE) == "ran"
    assert seen == [{**SECRETS, "amount": 4, "items": [{"token": "CANARY-approval-token"}, {"name": "added"}]}]


@pytest.mark.parametrize(
    "change",
    [
        lambda shown: {**shown, "pin": "CANARY-typed-pin"},
        lambda shown: {**shown, "items": [{"token": "CANARY-typed-token"}]},
        lambda shown: {**shown, "note": f"use {CARD}"},
        lambda shown: {**shown, "amount": shown["pin"]},
        lambda shown: {**shown, "extra": shown["note"]},
        lambda shown: {**shown, "pin": Redacted("ab" * 32)},
    ],
    ids=["a path", "a path anywhere", "a detector", "a mark moved", "a mark in a text", "a mark made up"],
)
def test_an_edit_of_what_is_kept_out_of_the_record_is_refused(screened: Driver, change: Any) -> None:
    question = asked(screened, args=SECRETS).approval
    shown = screened.view_approval(question.id).args
    with pytest.raises(BadCall, match="redacted"):
        screened.edit_approval(question.id, change(shown), digest=question.digest, by="ana")
    assert screened.get_approval(question.id) == question
    assert_found_nowhere(screened.url, "CANARY-typed-pin", "CANARY-typed-token")


def test_marks_cannot_be_moved_by_somebody_who_does_not_know_the_rules(screened: Driver, shell: Shell) -> None:
    question = asked(screened, args=SECRETS).approval
    elsewhere = shell.open()
    shown = elsewhere.view_approval(question.id).args
    with pytest.raises(BadCall, match="redacted"):
        elsewhere.edit_approval(question.id, {**shown, "amount": shown["pin"]}, digest=question.digest, by="ana")
    edited = elsewhere.edit_approval(question.id, {**shown, "amount": 1}, digest=question.digest, by="ana")
    approve(elsewhere, edited, by="bob")
    seen: list[Any] = []
    screened.run(charge(args=SECRETS), seen_by(seen), approval="required")
    assert seen == [{**SECRETS, "amount": 1}]


# ── encrypted ────────────────────────────────────────────────────────────────────────────────────────────────────────

CANARY = "CANARY-approval-encrypted"


@pytest.fixture
def encrypted(shell: Shell, keys: Path) -> Driver:
    """A ledger that records arguments, results and reasons encrypted."""
    return shell.open(encrypt=True)


def test_an_encrypted_call_is_seen_edited_and_approved_in_clear(encrypted: Driver) -> None:
    question = asked(encrypted, args={"note": CANARY, "amount": 5}).approval
    assert encrypted.view_approval(question.id, by="ana").args == {"note": CANARY, "amount": 5}
    edited = encrypted.edit_approval(
        question.id, {"note": f"{CANARY} 2", "amount": 4}, digest=question.digest, by="ana", reason=CANARY
    )
    approve(encrypted, edited, by="bob", reason=f"fine, {CANARY}")
    seen: list[Any] = []
    encrypted.run(charge(args={"note": CANARY, "amount": 5}), seen_by(seen), approval="required")
    assert seen == [{"note": f"{CANARY} 2", "amount": 4}]
    assert_found_nowhere(encrypted.url, CANARY)


def test_what_changed_in_an_encrypted_call_is_shown_in_clear(encrypted: Driver) -> None:
    approve(encrypted, asked(encrypted, args={"order": 7, "note": CANARY}, key=["order"]))
    encrypted.run(charge(args={"order": 7, "note": CANARY}, key=["order"]), Count(), approval="required")
    first = asked(encrypted, args={"order": 8, "note": CANARY}, key=["order"])
    second = asked(encrypted, args={"order": 8, "note": "other"}, key=["order"])
    seen = encrypted.view_approval(second.approval.id)
    assert (seen.approval.replaces, seen.changed) == (
        first.approval.id,
        [Difference("args.note", CANARY, "other")],
    )
    assert seen.unusual == [Difference("args.note", CANARY, "other"), Difference("args.order", 7, 8)]
    assert_found_nowhere(encrypted.url, CANARY)


@pytest.mark.parametrize("words", [({"encrypt": True}, {}), ({}, {"encrypt": True})])
def test_what_one_process_asks_encrypted_another_runs_in_clear_and_the_other_way_round(
    shell: Shell, keys: Path, words: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    question = asked(shell.open(**words[0]), args={"note": "shared"})
    running_one = shell.open(**words[1])
    approve(running_one, question)
    assert running_one.run(charge(args={"note": "shared"}), lambda effect: effect.args, approval="required") == {
        "note": "shared"
    }


def test_an_encrypted_call_whose_key_is_gone_can_be_neither_seen_nor_run(encrypted: Driver) -> None:
    question = asked(encrypted, args={"note": CANARY})
    approve(encrypted, question)
    encrypted.cancel(question.effect.id, by="ana")
    encrypted.erase(run_id="order-1", by="ana", reason="asked for")
    with pytest.raises((EffectErased, BadCall, VoteRefused)):
        assert encrypted.view_approval(question.approval.id).args != {"note": CANARY}
    handler = Count()
    with pytest.raises(indelible.IndelibleError):
        encrypted.run(charge(args={"note": CANARY}), handler, approval="required")
    assert handler.entries == 0


def test_rules_see_an_encrypted_call_in_clear(shell: Shell, keys: Path) -> None:
    policy = asking()
    policy["rules"][0]["match"]["args"] = {"note": {"eq": CANARY}}
    ledger = shell.open(encrypt=True, policy=policy)
    with pytest.raises(ApprovalPending):
        ledger.run(charge(args={"note": CANARY}), Count(), wait=False)
    assert ledger.run(charge(args={"note": "other"}), Count("free")) == "free"


# ── on the record ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", [{}, {"redact": RULES}, {"encrypt": True}], ids=["clear", "redacted", "encrypted"])
def test_a_journal_with_approvals_verifies(place: dict[str, Any], tmp_path: Path, words: dict[str, Any]) -> None:
    args = {"amount": 5, "pin": "1234", "note": "of no card"}  # no canary: others look whether one is in the database
    with indelible.Ledger.open(**place, **words, seal=True, policy=asking(quorum=2)) as ledger:
        begun: Any = ledger.begin(charge(args=args))
        ledger.view_approval(begun.approval.id, by="ana")
        shown = ledger.view_approval(begun.approval.id).args
        question = ledger.edit_approval(
            begun.approval.id, {**shown, "amount": 4}, digest=begun.approval.digest, by="ana"
        )
        for name in ("bob", "cleo"):
            ledger.approve(question.id, digest=question.digest, by=name)
        ledger.run(charge(args=args), lambda effect: "ran")
        denied: Any = ledger.begin(charge(args=args, run_id="order-2"))
        ledger.deny(denied.approval.id, by="ana", reason="no")
        key = key_of(ledger)
        exported = ledger.export(tmp_path / "bundle")
    report = indelible.verify(exported.path, key, deep=True)
    assert report.verdict == "verified", report
