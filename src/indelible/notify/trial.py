"""A message about nothing, to see that a channel works."""

from __future__ import annotations

from datetime import datetime

from indelible.core.approvals.approval import Question, ask
from indelible.core.effects.effect import Actor, Effect
from indelible.notify.channels import Message

_NOTHING = "0" * 64


def trial_message(channel: str, now: datetime, link: str | None = None) -> Message:
    """Gives a message that tells of a withdrawn approval which never was, so that nothing in it can be decided."""
    number = f"trial_{now:%Y%m%d%H%M%S}"
    effect = Effect(
        tenant="default",
        scope="trial",
        key=_NOTHING,
        id=number,
        run_id="trial",
        tool="indelible.trial",
        side_effect="none",
        on_crash="hold",
        call_id=None,
        digest=_NOTHING,
        status="canceled",
        attempt=0,
        version=1,
        token_hash="",
        lease_until=None,
        opened_seq=0,
        detail_seq=0,
        created_at=now,
        updated_at=now,
        args_json=b'{"why":"to see that this channel works"}',
        detail_json=b'"this is only a trial: there is nothing to decide"',
    )
    asker = Actor("indelible", "system")
    question = Question(rule="trial")
    approval = ask(number, effect, question, schema="", policy="", requester=asker, principal=None, now=now)
    return Message(id=f"{number}:canceled:{channel}", about="canceled", approval=approval, effect=effect, link=link)
