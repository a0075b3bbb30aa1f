"""Makes good what a run did: one compensation after the other, each an effect of its own, and what came of each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from indelible.core.effects import walk
from indelible.core.effects.calls import COMPENSATION, HARMLESS, CompensatingCall, OptionWords, ToolCall
from indelible.core.effects.compensations import KEY_FIELD, Undone, compensation_ref, is_compensation
from indelible.core.effects.effect import Effect
from indelible.core.effects.from_arguments import ALL
from indelible.core.effects.meaning import Fate, fate_of
from indelible.core.effects.requests import Prepared, Raised, Recall, Request
from indelible.engine.running import Compensated, CompensationStatus
from indelible.errors import (
    ApprovalPending,
    EffectErased,
    IndelibleError,
    StillRunning,
    StoreError,
)

_STATUSES: Mapping[Fate, CompensationStatus] = {
    "succeeded": "done",
    "nothing": "failed",
    "failed": "failed",
    "in_doubt": "in_doubt",
}

if TYPE_CHECKING:
    from indelible.engine.desk import Desk
    from indelible.engine.running import RunningEffect


@dataclass(frozen=True, slots=True)
class Compensation:
    """Is what would make an effect good; `handler` is None where nothing is declared for its tool."""

    effect: Effect
    call: ToolCall
    handler: Callable[[RunningEffect], Any] | None


def compensations_of(desk: Desk, effects: Iterator[Effect]) -> Iterator[Compensation]:
    """Gives what would make these effects good; those that changed nothing outside, or failed, need nothing."""
    for effect in effects:
        compensate = desk._compensation_of(effect)
        is_needed = compensate is not None or effect.side_effect not in HARMLESS
        if effect.status != "succeeded" or not is_needed or is_compensation(effect.tool):
            continue
        # The handler gets the effect itself. A copy of its arguments would stay when they are erased.
        call = CompensatingCall(
            tool=effect.tool + COMPENSATION,
            args={KEY_FIELD: effect.id},
            run_id=effect.run_id,
            key=[KEY_FIELD],
            derived_from=[ALL],
        )
        yield Compensation(effect, call, None if compensate is None else _handler(compensate, effect))


def _handler(compensate: Callable[[Effect], Any], effect: Effect) -> Callable[[RunningEffect], Any]:
    return lambda _: compensate(Undone.of(effect))


def compensating(desk: Desk, one: Compensation) -> Generator[Request, Any, Compensated | Raised]:
    """Walks one compensation and gives what came of it; only a store that is away and an interruption stop the rest.

    Whoever makes good need not drive the run: it may have ended long ago.
    """
    if one.handler is None:
        return Compensated(one.effect, "undeclared")
    words: OptionWords = {"side_effect": one.effect.side_effect}
    ref = compensation_ref(one.effect)
    before: Effect | None = yield Recall(ref)
    was_done = before is not None and before.status == "succeeded"
    try:
        subject = desk._recorded_subject(one.effect)
        prepared = replace(desk._prepare(one.call, words), driver_token=None, subject_json=subject)
        value = yield from _walked(desk, prepared)
    except StoreError:
        raise
    except IndelibleError as error:
        if was_done and isinstance(error, EffectErased):
            return Compensated(one.effect, "nothing_to_do")
        if isinstance(error, ApprovalPending | StillRunning):
            return Compensated(one.effect, "waiting", error=error)
        after: Effect | None = yield Recall(ref)  # the error may be of what came after the deed, as a seal that is late
        was_entered = after is not None and after.attempt > 0
        return Compensated(one.effect, _STATUSES[fate_of(after)] if was_entered else "failed", error=error)
    if isinstance(value, Raised):
        if value.is_interruption or not isinstance(value.error, Exception):
            return value
        after = yield Recall(ref)
        return Compensated(one.effect, _STATUSES[fate_of(after)], error=value.error)
    return Compensated(one.effect, "nothing_to_do" if was_done else "done", value)


def _walked(desk: Desk, prepared: Prepared) -> Generator[Request, Any, Any]:
    """Walk a compensation; from then on, repeats of what it undoes look whether they still stand."""
    try:
        return (yield from walk.run(prepared, desk._mint))
    finally:
        desk._engine.judging.forget()
