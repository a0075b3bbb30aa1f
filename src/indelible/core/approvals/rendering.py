"""What a person sees before they vote: all recorded arguments, or none of them and no vote. Pure.

An approver may have edited the arguments since the agent asked, so a question never shows what its caller has at hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indelible.core.values.visible import visible
from indelible.errors import IndelibleError

if TYPE_CHECKING:
    from indelible.core.approvals.approval import Approval
    from indelible.core.effects.effect import Effect


@dataclass(frozen=True, slots=True)
class Shown:
    """What one place shows of an approval.

    `text` is all recorded arguments, as indented JSON in which nothing hides; None if they cannot be shown there, and
    `why_not` says why. A vote names `digest`; it is None where the approval cannot be decided, and `command` shows
    where it can.
    """

    text: str | None
    why_not: str | None
    digest: str | None
    command: str


def shown(approval: Approval, effect: Effect | None, most: int | None = None) -> Shown:
    """Return what to show of an approval, and the digest that a vote on it names.

    Args:
        approval: The approval.
        effect: The effect that it is about, as it was read together with it; None if it is not at hand.
        most: The number of characters that fit. Default: any.
    """
    command = f"indelible approvals show {approval.id}"
    if effect is None or effect.id != approval.effect_id:
        return Shown(None, "its recorded arguments are not at hand here", None, command)
    if effect.are_args_erased:
        return Shown(None, "its arguments were erased", None, command)
    try:
        text = args_text(effect)
    except IndelibleError as sealed:
        return Shown(None, str(sealed), None, command)
    if most is not None and len(text) > most:
        return Shown(None, f"its arguments have {len(text)} characters, which is too many to show here", None, command)
    if approval.question.needs_signature:
        return Shown(text, "it has to be signed with a key of the approver's own", None, command)
    return Shown(text, None, approval.digest, command)


def args_text(effect: Effect) -> str:
    """Show all arguments as they are recorded, as indented JSON in which nothing hides."""
    _ = effect.args  # raises what to do when they are encrypted and cannot be opened here
    assert effect.args_json is not None
    return visible(json.dumps(json.loads(effect.args_json), indent=2, ensure_ascii=False), keep="\n")
