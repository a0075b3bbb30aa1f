"""Faults of our own, 37, 51 and 95: what becomes of a call that is asked about again, about other things or people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from indelible import Approval, Ledger, ToolCall, migrate
from indelible.errors import (
    ApprovalPending,
    BudgetExceeded,
    EffectErased,
    EffectInDoubt,
    IllegalMove,
    OnHold,
)
from indelible.journal.evidence.verification import verify
from indelible.journal.keys.files import data_keys_folder
from tests.journal.exported import key_of

PAYS: Any = {"side_effect": "payment", "wait": False}
ASKS: Any = {**PAYS, "approval": "required"}


@pytest.fixture
def opened(store_url: str) -> Iterator[Callable[..., Ledger]]:
    """Open ledgers on one store; they are closed at the end."""
    migrate(store_url)
    ledgers: list[Ledger] = []

    def open_ledger(**words: Any) -> Ledger:
        ledgers.append(Ledger.open(store_url, seal=False, **words))
        return ledgers[-1]

    yield open_ledger
    for one in ledgers:
        one.close()


def pay(order: str, *, amount: int = 100, run_id: str = "r", **fields: Any) -> ToolCall:
    return ToolCall(run_id=run_id, tool="pay", args={"order": order, "amount": amount, **fields}, key=["order"])


def policy(*asked: str) -> dict[str, Any]:
    """Allow 100 in all, and ask about these orders."""
    rules = [{"name": f"ask {one}", "match": {"args": {"order": {"eq": one}}}, "then": "ask"} for one in asked]
    budget = {"name": "month", "match": {"tool": "pay"}, "sum": "amount", "limit": 100, "window": "30d"}
    return {"rules": [*rules, {"name": "rest", "then": "allow"}], "budgets": [budget]}


def pending(ledger: Ledger) -> Approval:
    found = ledger.approvals(status="pending")
    assert len(found) == 1
    return found[0]


def lose_answer(paid: list[Any]) -> Callable[[Any], None]:
    def handler(effect: Any) -> None:
        paid.append(effect.args["amount"])
        raise TimeoutError("the answer was lost")

    return handler


# ── 37, 51: what may have happened is not asked about ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("was_approved", [False, True], ids=["allowed", "approved"])
def test_37_what_may_have_happened_stays_in_doubt_when_a_person_would_be_asked(
    opened: Callable[..., Ledger], was_approved: bool
) -> None:
    ledger, paid = opened(subject="args.order"), list[Any]()
    words = {**PAYS, "on_crash": "retry"}
    ledger.apply_policy(policy(*(["a"] if was_approved else [])), by="ana")
    if was_approved:
        with pytest.raises(ApprovalPending) as told:
            ledger.run(pay("a"), lose_answer(paid), **words)
        ledger.approve(told.value.approval, digest=told.value.approval.digest, by="bob")
    with pytest.raises(TimeoutError):
        ledger.run(pay("a"), lose_answer(paid), **words)
    (doubtful,) = ledger.effects(status="in_doubt")
    ledger.apply_policy(policy("a", "c"), by="ana")
    with pytest.raises(EffectInDoubt):
        ledger.run(pay("a"), lose_answer(paid), **words)
    assert [one.id for one in ledger.effects(status="in_doubt")] == [doubtful.id]
    assert ledger.approvals(status="pending") == []
    with pytest.raises(IllegalMove):
        ledger.cancel(doubtful.id, by="ana", reason="not wanted")
    with pytest.raises(IllegalMove):
        ledger.erase(subject="a", by="ana", reason="asked by a", force=True, rewrite=False)
    with pytest.raises(BudgetExceeded):
        ledger.run(pay("b"), lose_answer(paid), **words)
    assert paid == [100]


def test_51_a_person_says_that_it_did_not_happen_and_then_it_is_asked_about(opened: Callable[..., Ledger]) -> None:
    ledger, paid = opened(), list[Any]()
    words = {**PAYS, "on_crash": "retry"}
    with pytest.raises(TimeoutError):
        ledger.run(pay("a"), lose_answer(paid), **words)
    with pytest.raises(EffectInDoubt):
        ledger.run(pay("a"), lose_answer(paid), **words, approval="required")
    (doubtful,) = ledger.effects(status="in_doubt")
    ledger.retry(doubtful.id, by="ana")
    with pytest.raises(ApprovalPending):
        ledger.run(pay("a"), lose_answer(paid), **words, approval="required")
    ledger.deny(pending(ledger), by="bob", reason="no")
    assert (ledger.effects()[0].status, paid) == ("denied", [100])


def test_51_a_read_that_may_have_happened_is_asked_about(opened: Callable[..., Ledger]) -> None:
    ledger = opened()
    words: Any = {"side_effect": "read", "on_crash": "retry", "wait": False}
    with pytest.raises(KeyboardInterrupt):
        ledger.run(pay("a"), _interrupted, **words)
    assert ledger.effects()[0].status == "in_doubt"
    with pytest.raises(ApprovalPending):
        ledger.run(pay("a"), _interrupted, **words, approval="required")


def _interrupted(effect: Any) -> None:
    raise KeyboardInterrupt


# ── 95: whose arguments they are ─────────────────────────────────────────────────────────────────────────────────────


def _key_files(ledger: Ledger) -> list[Path]:
    return list(data_keys_folder(ledger._engine.store.ledger_name, None).rglob("*.key"))


def _lose_keys(ledger: Ledger) -> None:
    for path in _key_files(ledger):
        path.unlink()


def done_for(effect: Any) -> dict[str, Any]:
    return {"paid by": effect.args.get("customer"), "amount": effect.args["amount"]}


def ask_about(ledger: Ledger, call: ToolCall) -> Approval:
    with pytest.raises(ApprovalPending):
        ledger.run(call, done_for, **ASKS)
    return pending(ledger)


def runs_as_approved(ledger: Ledger, asked: Approval, call: ToolCall) -> None:
    """See that a person sees the arguments, and that exactly these run."""
    assert ledger.view_approval(asked).args == call.args
    ledger.approve(asked, digest=asked.digest, by="bob")
    assert ledger.run(call, done_for, **ASKS)["amount"] == call.args["amount"]


def test_95_arguments_of_another_run_in_the_same_scope_can_be_read(opened: Callable[..., Ledger]) -> None:
    ledger = opened(encrypt=True)
    first, second = (
        ToolCall(run_id=run, tool="pay", args={"order": "o", "amount": n}, scope="shop", key=["order"])
        for run, n in (("r1", 100), ("r2", 30))
    )
    ask_about(ledger, first)
    runs_as_approved(ledger, ask_about(ledger, second), second)


def test_95_arguments_about_another_person_can_be_read(opened: Callable[..., Ledger]) -> None:
    ledger = opened(encrypt=True, subject="args.customer")
    ask_about(ledger, pay("o", customer="ann"))
    second = pay("o", customer="ben")
    runs_as_approved(ledger, ask_about(ledger, second), second)


def test_95_arguments_can_be_read_if_encryption_was_switched_on_while_a_question_waits(
    opened: Callable[..., Ledger],
) -> None:
    ask_about(opened(), pay("o"))
    ledger, second = opened(encrypt=True), pay("o", amount=30)
    runs_as_approved(ledger, ask_about(ledger, second), second)


def test_95_a_call_of_a_person_who_was_erased_makes_no_new_key(opened: Callable[..., Ledger]) -> None:
    ledger = opened(encrypt=True, subject="args.customer")
    call = pay("o", customer="ann")
    ledger.run(call, done_for, **PAYS)
    ledger.erase(subject="ann", by="ana", reason="asked by ann", rewrite=False)
    with pytest.raises(EffectErased):
        ledger.run(call, done_for, **PAYS)
    assert _key_files(ledger) == []


def test_95_a_question_whose_key_is_gone_is_not_approved(opened: Callable[..., Ledger]) -> None:
    ledger = opened(encrypt=True, subject="args.customer")
    call = pay("o", customer="ann")
    asked = ask_about(ledger, call)
    _lose_keys(ledger)
    with pytest.raises(EffectErased):
        ledger.view_approval(asked)
    with pytest.raises(IllegalMove):
        ledger.approve(asked, digest=asked.digest, by="bob")
    with pytest.raises(EffectErased):
        ledger.run(call, done_for, **ASKS)
    assert ledger.deny(asked, by="bob", reason="cannot be read").status == "denied"


def test_95_a_call_whose_key_was_lost_after_its_approval_is_told_so(opened: Callable[..., Ledger]) -> None:
    ledger = opened(encrypt=True, subject="args.customer")
    call = pay("o", customer="ann")
    asked = ask_about(ledger, call)
    ledger.approve(asked, digest=asked.digest, by="bob")
    _lose_keys(ledger)
    with pytest.raises(EffectErased):
        ledger.run(call, done_for, **ASKS)


@pytest.mark.parametrize("encrypt", [False, True], ids=["clear", "encrypted"])
@pytest.mark.parametrize("way", ["edited", "edited elsewhere", "asked anew"])
def test_95_erasing_a_person_finds_a_call_that_is_about_them_since_it_was_asked_about_again(
    opened: Callable[..., Ledger], encrypt: bool, way: str, tmp_path: Path
) -> None:
    ledger = opened(encrypt=encrypt, subject="args.customer")
    first, second = pay("o", customer="ann"), pay("o", customer="ben")
    asked = ask_about(ledger, first)
    if way == "asked anew":
        first, asked = second, ask_about(ledger, second)
    else:  # a process elsewhere does not know the tool
        editor = ledger if way == "edited" else opened(encrypt=encrypt)
        asked = editor.edit_approval(asked, second.args, digest=asked.digest, by="ana", reason="wrong person")
    ledger.approve(asked, digest=asked.digest, by="bob")
    assert ledger.run(first, done_for, **ASKS)["paid by"] == "ben"
    hold = ledger.hold(subject="ben", by="eve", reason="a lawsuit")
    for person in ("ann", "ben"):
        with pytest.raises(OnHold):
            ledger.erase(subject=person, by="ana", reason="asked to", rewrite=False)
    ledger.lift_hold(hold.id, by="eve", reason="over")
    assert ledger.erase(subject="ben", by="ana", reason="asked by ben", rewrite=False).count > 0
    (effect,) = (one for one in ledger.effects() if one.status == "succeeded")
    assert (effect.are_args_erased, effect.is_detail_erased) == (True, True)
    ledger.seal()
    ledger.export(tmp_path / "bundle")
    report = verify(tmp_path / "bundle", [key_of(ledger)])
    assert report.verdict == "verified", report.why


# ── 51: who decides it ───────────────────────────────────────────────────────────────────────────────────────────────


def test_51_a_delegate_of_two_people_votes_for_the_one_who_has_not(opened: Callable[..., Ledger]) -> None:
    ledger = opened()
    people = {name: {"roles": ["finance"]} for name in ("ana", "bob")}
    rules = [{"name": "two", "then": "ask", "approvals": {"quorum": 2}}]
    ledger.apply_policy({"people": people, "rules": rules}, by="eve")
    for giver in ("ana", "bob"):
        ledger.delegate(to="dan", until=datetime.now(UTC) + timedelta(hours=1), by=giver, reason="on leave")
    for voter in ("bob", "ana"):
        with pytest.raises(ApprovalPending) as told:
            ledger.run(pay(f"asked of {voter}"), done_for, **PAYS)
        asked = told.value.approval
        ledger.approve(asked, digest=asked.digest, by=voter)
        assert ledger.approve(asked, digest=asked.digest, by="dan").status == "approved"


def test_51_a_delegate_votes_for_the_person_whose_place_lacks(opened: Callable[..., Ledger], tmp_path: Path) -> None:
    ledger, soon = opened(), datetime.now(UTC) + timedelta(hours=1)
    people = {"ana": {"roles": ["finance"]}, "bob": {"roles": ["finance"]}, "cy": {"roles": ["legal"]}, "dan": {}}
    needs = {"needs": [{"role": "finance"}, {"role": "legal"}], "people": ["ana", "bob", "cy"]}
    ledger.apply_policy({"people": people, "rules": [{"name": "two", "then": "ask", "approvals": needs}]}, by="eve")

    def ask(name: str) -> Approval:
        with pytest.raises(ApprovalPending) as told:
            ledger.run(pay(name), done_for, **PAYS)
        return ledger.approve(told.value.approval, digest=told.value.approval.digest, by="ana")

    for giver in ("cy", "ana", "bob"):
        ledger.delegate(to="dan", until=soon, by=giver, reason="on leave")
    ledger.delegate(to="bob", until=soon, by="cy", reason="on leave")
    for delegate in ("dan", "bob"):  # one who may not decide, and one who has a vote of their own
        asked = ask(delegate)
        decided = ledger.approve(asked, digest=asked.digest, by=delegate)
        assert (decided.status, decided.votes[-1].on_behalf_of) == ("approved", "cy")
    refused = ledger.deny(ask("denied"), by="bob", reason="no")
    assert (refused.status, refused.votes[-1].on_behalf_of) == ("denied", None)
    ledger.seal()
    ledger.export(tmp_path / "bundle")
    assert verify(tmp_path / "bundle", [key_of(ledger)]).verdict == "verified"
