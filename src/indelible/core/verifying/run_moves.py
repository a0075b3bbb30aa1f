"""The moves of runs, and what is told of them, that the rules allow: tables for the verifier. Pure.

`core.runs.driving` decides which moves there are; a test derives these tables from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from indelible.core.effects.calls import SIDE_EFFECTS
from indelible.core.runs.run import BY_THE_LEDGER, CHECKPOINT_REASONS, EVENT_TYPES, HANDED_OVER, OVER, RUN_STATUSES
from indelible.core.verifying.moves import CHECKED, Names

NOT_STARTED, UNKNOWN = "", "?"
HANDED, TAKEN_BACK = "run_handed_over", "run_taken_back"
STARTED, RESUMED, SEALED, INTERRUPTED = "run_started", "run_resumed", "checkpoint_sealed", "interruption_detected"
_AFTER = {
    RESUMED: "active",
    "run_completed": "completed",
    "run_failed": "failed",
    "run_canceled": "canceled",
    "run_blocked": "blocked",
    "run_flagged": "manual_review_required",
    HANDED: HANDED_OVER,
    TAKEN_BACK: "blocked",
}
_OPEN = tuple(status for status in RUN_STATUSES if status not in OVER and status != HANDED_OVER)
RUN_MOVES: dict[tuple[str, str], str] = {
    (NOT_STARTED, STARTED): "active",
    **{(before, kind): after for before in _OPEN for kind, after in _AFTER.items() if kind != TAKEN_BACK},
    (HANDED_OVER, TAKEN_BACK): "blocked",
    (HANDED_OVER, "run_canceled"): "canceled",
    **{(status, SEALED): status for status in _OPEN},
    ("active", INTERRUPTED): "active",
}
"""Says how a run stands after what the ledger tells of it, by how it stood before."""
STATUS_AFTER = {STARTED: "active", **_AFTER}
"""Says how a run stands after each event that commits to it."""
MAY_BE_TOLD = frozenset({NOT_STARTED, UNKNOWN, *_OPEN})
"""Names how a run may stand when somebody tells of it by hand; to what is over nothing is added."""

_FENCE, _MAYBE = int, (str, None)


@dataclass(frozen=True, slots=True)
class Form:
    """Is what an event about a run says in clear, and what it may commit to."""

    facts: dict[str, Any]
    commits: frozenset[Names]


_ENDING = Form({}, frozenset({("reason", "run")}))
FORMS: dict[str, Form] = {
    **dict.fromkeys(_AFTER, _ENDING),
    HANDED: Form({"to": str, "until": str}, frozenset({("reason", "run")})),
    STARTED: Form({"fence": _FENCE, "parent": _MAYBE, "parent_event": _MAYBE}, frozenset({("run",)})),
    RESUMED: Form({"checkpoint": _MAYBE, "fence": _FENCE}, frozenset({("run",)})),
    SEALED: Form(
        {"at": int, "checkpoint": str, "reason": CHECKPOINT_REASONS},
        frozenset({("checkpoint",), ("checkpoint", "state")}),
    ),
    INTERRUPTED: Form({"fence": _FENCE}, frozenset({()})),
}
_TOLD = {"side_effect": SIDE_EFFECTS, "status": ("recorded", "skipped"), "step": _MAYBE}
_TOLD_NAMES = frozenset({(), ("payload",), ("side_effect_key",), ("payload", "side_effect_key")})
_BY_HAND, _FOR_SOMEBODY = Form(_TOLD, _TOLD_NAMES), Form({**_TOLD, "said_by": str}, _TOLD_NAMES)
_TYPES_BY_HAND = EVENT_TYPES - BY_THE_LEDGER


def status_after(before: str, kind: str) -> str | None:
    """Says how a run stands after what the ledger tells of it; None when the rules do not allow it."""
    return STATUS_AFTER.get(kind, UNKNOWN) if before == UNKNOWN else RUN_MOVES.get((before, kind))


def is_by_the_ledger(kind: str, facts: dict[str, Any]) -> bool:
    """Does the ledger itself tell this of a run? An interruption may also be told by hand."""
    return kind in FORMS and (kind != INTERRUPTED or "fence" in facts)


def is_by_hand(kind: str, facts: dict[str, Any]) -> bool:
    """Did somebody tell this of a run? The ledger tells of refused calls under a name that is also told by hand."""
    if kind == CHECKED and "decision" in facts:
        return False
    return kind in _TYPES_BY_HAND or "." in kind


def form_of(kind: str, facts: dict[str, Any]) -> Form:
    """Gives what an event about a run says and commits to."""
    if is_by_the_ledger(kind, facts):
        return FORMS[kind]
    return _FOR_SOMEBODY if "said_by" in facts else _BY_HAND
