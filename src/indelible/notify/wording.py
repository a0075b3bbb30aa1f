"""What people read about an approval, the same in every channel: full, escaped, with nothing hidden in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from indelible.core.approvals.approval import Approval, Need
from indelible.core.approvals.rendering import Shown, title_of
from indelible.core.effects.effect import Effect
from indelible.core.values.visible import visible
from indelible.errors import EffectErased
from indelible.notify.channels import Message

ERASED = "(erased)"
MOST_SHOWN = 1_000_000
"""The number of characters of arguments that a message carries."""
_ENDED = {
    "approved": "was approved",
    "denied": "was denied",
    "expired": "expired: nobody decided in time",
    "canceled": "was withdrawn",
    "stale": "is void: what would run is no longer what was asked about",
}
_ASKED = {
    "requested": "asks to run",
    "escalated": "still asks to run",
    "edited": "asks to run, with other arguments than before",
    "reopened": "asks to run again: an approval was taken back",
}


def headline(message: Message) -> str:
    """Says in one line what a message is about."""
    what = _ASKED.get(message.kind) or _ENDED.get(message.kind, f"is {message.kind}")
    return f"{title_of(message.approval)} {what}"


def facts(message: Message) -> list[tuple[str, str]]:
    """Lists what somebody has to know besides the arguments, each with its name."""
    approval = message.approval
    found = [
        ("tool", approval.tool),
        ("side effect", approval.side_effect),
        ("run", approval.run_id),
        ("asked by", _asker(approval)),
        ("rule", approval.question.rule),
        ("needs", needs(approval.question.needs)),
        ("expires", moment(approval.expires_at)),
        ("approval", approval.id),
        ("digest", approval.digest),
    ]
    if approval.edited_by is not None:
        found.insert(4, ("edited by", approval.edited_by))
    careful = [("careful", str(one)) for one in message.elsewhere]
    return [*((name, visible(value)) for name, value in found), *careful]


def ending(message: Message) -> str:
    """Says how it ended: who decided, and why."""
    approval, kind = message.approval, message.kind
    said = [vote.by for vote in approval.votes if vote.is_approval == (kind == "approved")]
    by = f" by {', '.join(map(visible, said))}" if said and kind in ("approved", "denied") else ""
    why = reason(message.effect) if kind in ("denied", "canceled") else ""
    return f"{_ENDED.get(kind, kind)}{by}{': ' + visible(why) if why else ''}"


def reason(effect: Effect) -> str:
    """Gives the recorded reason; nothing when there is none."""
    try:
        said = effect.detail
    except EffectErased:
        return ERASED
    return said if isinstance(said, str) else ""


def shown(
    message: Message, *, fits: Callable[[str], bool] = lambda text: len(text) <= MOST_SHOWN, can_sign: bool = False
) -> Shown:
    """Return what a message shows of the arguments, and the digest that a vote on them names."""
    return message.approval.shown(message.effect, fits=fits, can_sign=can_sign)


def needs(listed: Iterable[Need]) -> str:
    """Says how many people have to approve."""
    said = []
    for need in listed:
        people = "1 person" if need.count == 1 else f"{need.count} people"
        said.append(people if need.role is None else f"{people} ({need.role})")
    return " and ".join(said)


def moment(at: datetime) -> str:
    """Writes a moment in UTC for people."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _asker(approval: Approval) -> str:
    if approval.principal is None:
        return approval.requester.id
    return f"{approval.requester.id} for {approval.principal}"
