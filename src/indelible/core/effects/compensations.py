"""Compensated calls: how the compensation of an effect is found, and when a call is no longer told that it succeeded.

A compensation is an effect of its own, so the record of the call itself does not change. Its key is made of the id of
the effect that it makes good. From the first attempt of a compensation on, or from when a packet brings one, a sheet
says that its run has one: most ledgers have none, and their replays look no further.
"""

from __future__ import annotations

from collections.abc import Iterable

from indelible.core.changes import Change, Step
from indelible.core.commands import Claimed, Moved
from indelible.core.effects.calls import COMPENSATION
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref, key_of
from indelible.core.sheets import Sheet, SheetRef, Sheets, sheet_at
from indelible.core.values.canonical import encode
from indelible.errors import EffectCompensated

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
