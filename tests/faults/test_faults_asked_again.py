"""Faults of our own, 37, 51 and 95: what becomes of a call that is asked about again, about other things or people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
