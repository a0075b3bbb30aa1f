"""What the tests of `indelible approvals` share: calls that ask, and policies by which they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from indelible import Approval, Ledger, RunningEffect, ToolCall
from indelible.errors import ApprovalPending

TOOL = "stripe.refund"
TWO = {
    "people": {"ana": {"roles": ["finance"]}, "bob": {"roles": ["legal"]}, "cy": {"roles": ["finance", "legal"]}},
    "rules": [
        {
            "name": "refunds",
            "match": {"tool": TOOL},
            "then": "ask",
            "why": "money leaves the house",
            "approvals": {"needs": [{"role": "finance"}, {"role": "legal"}], "roles": ["finance", "legal"]},
        }
    ],
}
"""Asks one person of finance and one of legal."""


SOON = {"rules": [{"name": "soon", "match": {"tool": "*"}, "then": "ask", "approvals": {"expires": "1s"}}]}
"""Asks anybody, for a second."""


def refund(run_id: str = "order-1", **args: Any) -> ToolCall:
    """Gives a call whose identity is the charge alone."""
    return ToolCall(tool=TOOL, args={"charge": "ch_1", "amount": 4200, **args}, key=["charge"], run_id=run_id)


def ask(url: str, call: ToolCall | None = None, *, policy: Mapping[str, Any] | None = None, **words: Any) -> Approval:
    """Makes a call that has to be approved, and gives what is asked."""
    with Ledger.open(url, policy=policy, **words) as ledger, pytest.raises(ApprovalPending) as refused:
        ledger.run(
            call or refund(),
            lambda effect: pytest.fail("entered"),
            wait=False,
            side_effect="payment",
            **({} if policy else {"approval": "required"}),
        )
    return refused.value.approval


def call_again(url: str, call: ToolCall | None = None, *, policy: Mapping[str, Any] | None = None) -> Any:
    """Makes the call once more, as an agent that comes back; gives its value."""

    def handler(effect: RunningEffect) -> Any:
        return {"refunded": effect.args["amount"]}

    with Ledger.open(url, policy=policy) as ledger:
        options: dict[str, Any] = {} if policy else {"approval": "required"}
        return ledger.run(call or refund(), handler, wait=False, side_effect="payment", **options)


def approval_at(url: str, approval: Approval) -> Approval:
    """Gives an approval as it stands now."""
    with Ledger.open(url) as ledger:
        found = ledger.get_approval(approval.id)
    assert found is not None
    return found


def approve(url: str, approval: Approval, by: str = "ana") -> None:
    """Approves past the command line."""
    with Ledger.open(url) as ledger:
        ledger.approve(approval.id, digest=approval.digest, by=by)


def await_end(url: str, approval: Approval) -> None:
    """Waits until an approval's time is up, by the store's clock."""
    with Ledger.open(url) as ledger:
        while ledger._engine.store.look([approval.ref]).now < approval.expires_at:
            pass
