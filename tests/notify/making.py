"""Makes messages without a store, for the tests of single channels."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from indelible.core.approvals.approval import Approval, Question, Vote, ask
from indelible.core.effects.effect import Actor, Effect
from indelible.core.values.canonical import encode
from indelible.notify.channels import Message

NOON = datetime(2030, 1, 2, 12, 0, 0, tzinfo=UTC)
NASTY = 'x"\\\u202e\u200b\x1b[2J<script>alert(1)</script>&`*bold*`<!channel>\r\nBcc: all@example.com\u3164⟨U+0041⟩'


def effect(args: dict[str, Any] | None = None, **changes: Any) -> Effect:
    """Gives an effect that waits for somebody."""
    made = Effect(
        tenant="default",
        scope="run-1",
        key="ab" * 32,
        id="eff_1",
        run_id="run-1",
        tool="refund",
        side_effect="payment",
        on_crash="hold",
        call_id=None,
        digest="cd" * 32,
        status="requires_approval",
        attempt=0,
        version=1,
        token_hash="",
        lease_until=None,
        opened_seq=0,
        detail_seq=None,
        created_at=NOON,
        updated_at=NOON,
        args_json=encode({"amount": 5} if args is None else args, root="args"),
        detail_json=None,
    )
    return replace(made, **changes)


def approval(about: Effect | None = None, question: Question | None = None, **changes: Any) -> Approval:
    """Gives the question whether it may run."""
    made = ask(
        "apr_1",
        about or effect(),
        question or Question(rule="refunds need a person"),
        schema="",
        policy="policy-1",
        requester=Actor("agent", "agent"),
        principal=None,
        now=NOON,
    )
    return replace(made, **changes)


def message(about: str = "requested", args: dict[str, Any] | None = None, **changes: Any) -> Message:
    """Gives a message about it."""
    made = changes.pop("effect", None) or effect(args)
    asked = changes.pop("approval", None) or approval(made)
    return Message(id=f"apr_1:1:{about}:ops", about=about, approval=asked, effect=made, **changes)


def denied(reason: str = "too much") -> Message:
    """Gives a message that tells of a denial."""
    made = effect(status="denied", detail_seq=1, detail_json=encode(reason, root="reason"))
    vote = Vote(by="carol", via="process", at=NOON, is_approval=False)
    return message("denied", effect=made, approval=approval(made, status="denied", votes=(vote,)))


def approved(by: str = "alice") -> Message:
    """Gives a message that tells of an approval."""
    vote = Vote(by=by, via="process", at=NOON, is_approval=True)
    return message("approved", approval=approval(status="approved", votes=(vote,)))
