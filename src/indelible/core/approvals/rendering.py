"""What a person sees before they vote: all recorded arguments, or none of them and no vote. Pure.

Every place that asks uses this: the command line, the server, Slack, mail, webhooks, MCP, and the pauses of frameworks.
An approver may have edited the arguments since the agent asked, so a question never shows what its caller has at hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from indelible.core.values.look_alikes import look_closely
from indelible.core.values.visible import json_text, visible
from indelible.errors import IndelibleError

if TYPE_CHECKING:
    from indelible.core.approvals.approval import Approval
    from indelible.core.effects.effect import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What one place shows of an approval.

    `title` names the tool and its side effect. `args` is all recorded arguments, and `text` the same as indented JSON
    in which nothing hides; both are None if they cannot be shown there. `look_closely` lists where a text may deceive
    the eye, and why. A vote names `digest`, which is of exactly these arguments. It is None where the approval cannot
    be decided: `why_not` says why, and `command` shows it where it can.
    """

    title: str
    command: str
    args: Any = None
    text: str | None = None
    look_closely: tuple[tuple[str, str], ...] = ()
    digest: str | None = None
    why_not: str | None = None

    @property
    def plain(self) -> str:
        """Is the arguments as text, with what to look at closely; or why they are not shown."""
        if self.text is None:
            return f"(not shown: {self.why_not})"
        notes = "".join(f"\n  {visible(path)}: {why}" for path, why in self.look_closely)
        return f"{self.text}\n\nlook closely{notes}" if notes else self.text

    @property
    def where(self) -> str:
        """Says where it is decided, and why not here."""
        why = "" if self.why_not is None else f"It cannot be decided here: {self.why_not}. "
        return f"{why}Decide with: {self.command}"

    def as_json(self) -> dict[str, Any]:
        """Return it for programs that show it to a person."""
        return {
            "args": self.args,
            "text": self.text,
            "look_closely": [{"path": path, "why": why} for path, why in self.look_closely],
            "digest": self.digest,
            "why_not": self.why_not,
            "show": self.command,
        }


def shown(
    approval: Approval,
    effect: Effect | None,
    *,
    fits: Callable[[str], bool] | None = None,
    can_sign: bool = False,
) -> Shown:
    """Return what to show of an approval, and the digest that a vote on it names.

    Args:
        approval: The approval.
        effect: The effect that it is about; None if it is not at hand.
        fits: Says whether the place has room for a text. Default: it has.
        can_sign: Say that a vote there can carry a signature. Default: False.
    """
    title, command = title_of(approval), show_command(approval)
    found = _read(approval, effect)
    if isinstance(found, str):
        return Shown(title=title, command=command, why_not=found)
    text, closely = json_text(found), tuple(look_closely(found))
    why_not = _why_no_vote(approval, can_sign)
    made = Shown(
        title=title,
        command=command,
        args=found,
        text=text,
        look_closely=closely,
        digest=approval.digest if why_not is None else None,
        why_not=why_not,
    )
    if fits is None or fits(made.plain):
        return made
    too_long = f"its arguments have {len(text)} characters, too many to show here"
    return Shown(title=title, command=command, why_not=too_long)


def title_of(approval: Approval) -> str:
    """Return the tool that an approval is about, and its side effect, as text."""
    return f"{visible(approval.tool)} ({visible(approval.side_effect)})"


def show_command(approval: Approval) -> str:
    """Return the command that shows an approval, and how to decide it."""
    return f"indelible approvals show {approval.id}"


def _read(approval: Approval, effect: Effect | None) -> dict[str, Any] | str:
    """Return the recorded arguments that the digest is of, or why they are not at hand."""
    if effect is None or effect.id != approval.effect_id:
        return "its recorded arguments are not at hand"
    if effect.are_args_erased:
        return "its arguments were erased"
    if effect.opened_seq != approval.args_seq:  # the approval and the effect were read at different times
        return "its call has other arguments since"
    try:
        _ = effect.args  # raises what to do when they are encrypted and cannot be opened here
    except IndelibleError as sealed:
        return str(sealed)
    assert effect.args_json is not None
    recorded: dict[str, Any] = json.loads(effect.args_json)
    return recorded


def _why_no_vote(approval: Approval, can_sign: bool) -> str | None:
    if approval.status != "pending":
        return f"it is {approval.status}"
    if approval.question.needs_signature and not can_sign:
        return "it has to be signed with a key of the approver's own"
    return None
