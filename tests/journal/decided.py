"""A ledger in which people decided: something of everything there is about approvals."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from indelible import AwaitingApproval, Ledger, MayHaveHappened, NothingHappened, RunningEffect, ToolCall
from indelible.core.approvals.approval import Approval
from indelible.core.approvals.grants import GrantTerms
from indelible.errors import PolicyRefused

_PAYING = ["wire", "refund", "charge"]
POLICY: dict[str, Any] = {
    "people": {"ana": {"roles": "lead"}, "bo": {"roles": "lead"}, "cy": {"roles": "ops"}},
    "approvals": {"notify": "nobody"},
    "rules": [
        {"name": "two people", "match": {"tool": "wire"}, "then": "ask", "approvals": {"quorum": 2}},
        {"name": "one person", "match": {"tool": "refund"}, "then": "ask"},
        {"name": "never", "match": {"tool": "drop"}, "then": "refuse"},
        {"name": "all else", "then": "allow"},
    ],
    "budgets": [{"name": "money", "match": {"tool": _PAYING}, "limit": 100_000_000, "window": "24h", "sum": "amount"}],
}


def wire(amount: int, run_id: str = "order-7", **args: Any) -> ToolCall:
    return ToolCall(tool="wire", args={"amount": amount, **args}, run_id=run_id)


def refund(run_id: str, amount: int = 5) -> ToolCall:
    return ToolCall(tool="refund", args={"amount": amount}, run_id=run_id)


def ask(ledger: Ledger, call: ToolCall) -> Approval:
    begun = ledger.begin(call)
    assert isinstance(begun, AwaitingApproval), begun
    return begun.approval


def approve(ledger: Ledger, approval: Approval, *people: str, **words: Any) -> None:
    for by in people:
        ledger.approve(approval.id, digest=approval.digest, by=by, **words)


def nothing(effect: RunningEffect) -> None:
    raise NothingHappened("not today")


def lose(effect: RunningEffect) -> None:
    raise MayHaveHappened("who knows")


def decide(ledger: Ledger) -> None:
    """Leaves approvals in every state, grants, delegations, a policy, budgets, and messages that nobody sends."""
    for _ in range(2):
        ledger.apply_policy(POLICY, by="ana")
    soon = datetime.now(UTC) + timedelta(days=1)
    ended = ledger.delegate("dee", until=soon, by="bo")
    ledger.end_delegation(ended.id, by="bo")
    ledger.delegate("eve", until=soon, by="bo")
    _grant(ledger, soon)
    first = ask(ledger, wire(1))
    ledger.view_approval(first.id, by="ana")
    approve(ledger, first, "ana")
    ledger.revoke_approval(first.id, by="ana")
    approve(ledger, first, "ana", "eve")
    ledger.run(wire(1), lambda effect: "sent")
    edited = ledger.edit_approval(ask(ledger, wire(2)).id, {"amount": 3}, digest=ask(ledger, wire(2)).digest, by="ana")
    approve(ledger, edited, "cy", "bo")
    with suppress(NothingHappened):
        ledger.run(wire(2), nothing)
    ledger.deny(ask(ledger, wire(4)).id, by="bo", reason="no")
    ledger.cancel(ask(ledger, wire(5)).effect_id, by="bo")
    approve(ledger, ask(ledger, wire(6)), "bo")
    with suppress(PolicyRefused):
        ledger.run(ToolCall(tool="drop", run_id="order-7"), lambda effect: None)
    with suppress(MayHaveHappened):
        ledger.run(ToolCall(tool="charge", args={"amount": 7}, run_id="order-7"), lose)


def _grant(ledger: Ledger, until: datetime) -> None:
    """Grants two more calls with an approval, uses one, and ends a second grant."""
    approve(ledger, ask(ledger, refund("order-8")), "ana", grant=GrantTerms(count=3, until=until))
    for run_id in ("order-8", "order-9", "order-10"):
        ledger.run(refund(run_id), lambda effect: "done")
    approve(ledger, ask(ledger, refund("order-8", 6)), "bo", grant=GrantTerms(count=1, until=until))
    (grant,) = (one for one in ledger.grants() if one.given_by == "bo")
    ledger.end_grant(grant.id, by="bo")
