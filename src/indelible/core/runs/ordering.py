"""Put what belongs to a run into the order of its events; ids and clocks do not keep that order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from indelible.core.approvals.approval import Approval
from indelible.core.effects.effect import Effect
from indelible.core.runs.following import EffectLine, RunStory

Order = Literal["called", "started"]


def in_order(story: RunStory, effects: Iterable[Effect], by: Order) -> list[Effect]:
    """Sort the effects of one run, oldest first.

    Args:
        story: What the run's events tell.
        effects: The effects to sort, in any order.
        by: `called` sorts by the first call; `started` by the start of the newest attempt. A call that waits for
            approval, or is retried, starts later than it was called.

    Returns:
        The sorted effects. If a broken record does not tell of an effect, its `opened_seq` is its place.
    """
    return sorted(effects, key=lambda one: _place(story.effects.get(one.id), by, one.opened_seq))


def approvals_in_order(story: RunStory, approvals: Iterable[Approval]) -> list[Approval]:
    """Sort the approvals of one run by the first call of their effects, oldest first."""
    return sorted(approvals, key=lambda one: _place(story.effects.get(one.effect_id), "called", one.args_seq))


def _place(line: EffectLine | None, by: Order, otherwise: int) -> int:
    if line is None:
        return otherwise
    return line.opened_seq if by == "called" else line.started_seq
