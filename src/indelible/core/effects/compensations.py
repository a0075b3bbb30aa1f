"""Compensated calls: how the compensation of an effect is found, and when a call is no longer told that it succeeded.

A compensation is an effect of its own, so the record of the call itself does not change. Its key is made of the id of
the effect that it makes good. From the first attempt of a compensation on, or from when a packet brings one, a sheet
says that its run has one: most ledgers have none, and their replays look no further.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from indelible.core.approvals.edits import holds_mark
from indelible.core.changes import Change, Step
from indelible.core.commands import Claimed, Moved
from indelible.core.effects.calls import COMPENSATION
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref, key_of
from indelible.core.sheets import Sheet, SheetRef, Sheets, sheet_at
from indelible.core.values.canonical import encode
from indelible.errors import BadCall, EffectCompensated

KEY_FIELD = "effect"
"""Names the argument of a compensation that holds the id of the effect, and that its key is made of."""
COMPENSATED_KIND = "compensated"
"""Is the kind of the sheets that say which runs have compensations."""
# A compensation that failed, or was never entered, leaves the call as it was.
_UNDOES = {
    "succeeded": "was compensated by {}",
    "processing": "is being compensated by {}",
    "in_doubt": "may have been compensated: {} is in doubt",
}


class NotRecorded:
    """Stands for a value that the record has only a mark of. What uses it as a text raises `BadCall`."""

    def __init__(self, effect: Effect, place: str) -> None:
        self._effect, self._place = effect, place

    def __repr__(self) -> str:
        return f"<{self._place} of {self._effect.id}, which is redacted>"

    def __str__(self) -> str:
        raise BadCall(
            f"{self._effect.tool}: {self._place} of {self._effect.id} is redacted, so it cannot be made good with that "
            "value. Make it good by hand; for later calls, let compensate= read other values, or use encrypt=True in "
            "place of the redact= rule: docs/redaction.md"
        )


@dataclass(frozen=True, slots=True)
class Undone(Effect):
    """Is an effect as the function gets it that makes it good: no mark in it can be taken for a value."""

    @classmethod
    def of(cls, effect: Effect) -> Undone:
        """Return an effect so."""
        return cls(**{one.name: getattr(effect, one.name) for one in fields(effect)})

    @property
    def args(self) -> dict[str, Any]:
        """Return the recorded arguments; raise `EffectErased` if they were erased."""
        recorded = Effect.args.__get__(self)
        return {name: _unmarked(value, self, f"args.{name}") for name, value in recorded.items()}

    @property
    def detail(self) -> Any:
        """Return the recorded result; raise `EffectErased` if it was erased."""
        return _unmarked(Effect.detail.__get__(self), self, self.detail_field)


def _unmarked(value: Any, effect: Effect, place: str) -> Any:
    """Return a value with `NotRecorded` in place of each part that is a mark or holds one."""
    match value:
        case list():
            return [_unmarked(item, effect, f"{place}[{number}]") for number, item in enumerate(value)]
        case dict() if not any(map(holds_mark, value)) and value.keys() != {"$redacted"}:
            return {name: _unmarked(item, effect, f"{place}.{name}") for name, item in value.items()}
        case _:
            return NotRecorded(effect, place) if holds_mark(value) else value


def is_compensation(tool: str) -> bool:
    """Say whether this tool makes another one's work good."""
    return tool.endswith(COMPENSATION)


def compensation_ref(effect: Effect) -> Ref:
    """Locate the compensation of an effect, whether there is one or not."""
    subject = encode({KEY_FIELD: effect.id}, root="key")
    key = key_of(effect.tenant, effect.run_id, effect.tool + COMPENSATION, "fields", subject)
    return Ref(effect.tenant, effect.run_id, key)


def undoing(effect: Effect, found: Effect | None) -> Effect | None:
    """Return the compensation because of which a success no longer stands, or None if it does.

    Args:
        effect: The effect.
        found: What is at the place of its compensation.
    """
    return found if effect.status == "succeeded" and found is not None and found.status in _UNDOES else None


def by_effect(effects: Iterable[Effect], found: Iterable[Effect | None]) -> dict[str, Effect]:
    """Return the compensations of those effects that no longer stand, by the id of the effect."""
    pairs = ((effect.id, undoing(effect, one)) for effect, one in zip(effects, found, strict=True))
    return {effect_id: one for effect_id, one in pairs if one is not None}


def how_undone(compensation: Effect) -> str:
    """Say how an effect stands that this compensation undoes."""
    return _UNDOES[compensation.status].format(compensation.id)


def compensated(effect: Effect, compensation: Effect) -> EffectCompensated:
    """Return the refusal of a repeat of a call that was compensated."""
    return EffectCompensated(
        f"{effect.tool}: {effect.id} succeeded and {how_undone(compensation)}, so do not take it for done; nothing was "
        f"run now. To do it again on purpose, use another scope. See: indelible effects show {compensation.id}",
        effect=effect,
        compensation=compensation,
    )


# On sheets


def compensated_ref(run_id: str) -> SheetRef:
    """Locate what says that a run has compensations."""
    return SheetRef(COMPENSATED_KIND, run_id)


def noting(step: Step, run_id: str, sheets: Sheets) -> Step:
    """Return the step with a note that the run has a compensation, if it claims or takes over the first one."""
    ref = compensated_ref(run_id)
    if not isinstance(step.answer, Claimed | Moved) or sheet_at(sheets, ref) is not None:
        return step
    note = Sheet(kind=ref.kind, id=ref.id, status="noted", body=b"{}")
    return Step(step.answer, tuple(_with(change, note) for change in step.changes))


def _with(change: object, note: Sheet) -> Change:
    assert isinstance(change, Change), "who claims or takes over moves an effect"
    return Change(change.effect, change.event_type, change.committed, (*change.sheets, note))
