"""The moves of effects, and of the questions about them, that the rules allow: tables for the verifier. Pure.

`core.steps` decides which moves there are; a test derives these tables from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

Names = tuple[str, ...]
"""Lists what an event commits to, in the order of the alphabet."""

_ABOUT_PERMISSION = frozenset({"approval", "grant", "policy"})


@dataclass(frozen=True, slots=True)
class Move:
    """Is a legal move: what the event commits to, how the attempt changes, and whether only `retry` allows it.

    Each list of names comes with whether it says something of a permission.
    """

    commits: Mapping[Names, bool]
    adds: int = 0
    only_retry: bool = False
    only_harmless: bool = False
    """Does only an effect that changes nothing move so?"""


def _forms(*always: str, optional: Names = ()) -> dict[Names, bool]:
    """Lists what an event may commit to: some values always, others now and then."""
    forms = [
        tuple(sorted((*always, *more)))
        for count in range(len(optional) + 1)
        for more in combinations(optional, count)
        if not {"approval", "grant"} <= {*more}
    ]
    return {names: not _ABOUT_PERMISSION.isdisjoint(names) for names in forms}


AGAIN = "again"
"""Names the attempt that its own holder gave up in doubt and tries again, because the tool says `retry=`."""
JOINED = "tool_call_joined"
"""Tells that a call of another turn was taken for this one, which had not ended."""
_JUDGED = ("charges", "policy")
_REASON = _forms("reason")
_VOTE = _forms("approval", "reason")
_RESULT_SHOWN, _ERROR_SHOWN = _forms("evidence", "result"), _forms("error", "evidence")

# (status before, type, status after). A late report leaves everything as it is and is treated apart.
MOVES: dict[tuple[str, str, str], Move] = {
    ("", "approval_requested", "requires_approval"): Move(
        _forms("approval", "args", "key", optional=("subject", *_JUDGED))
    ),
    ("", "tool_call_started", "processing"): Move(_forms("args", "key", optional=("grant", "subject", *_JUDGED)), 1),
    ("requires_approval", "approval_requested", "requires_approval"): Move(
        _forms("approval", optional=("args", "subject", *_JUDGED))
    ),
    ("requires_approval", "approval_received", "ready"): Move(_forms("approval", "reason", optional=("grant",))),
    ("requires_approval", "approval_voted", "requires_approval"): Move(_VOTE),
    ("requires_approval", "approval_denied", "denied"): Move(_VOTE),
    ("requires_approval", "approval_escalated", "requires_approval"): Move(_forms("approval")),
    ("requires_approval", "approval_expired", "requires_approval"): Move(_VOTE),
    ("requires_approval", "approval_stale", "requires_approval"): Move(_VOTE),
    ("requires_approval", "approval_revoked", "requires_approval"): Move(_VOTE),
    ("requires_approval", "approval_edited", "requires_approval"): Move(
        _forms("approval", "args", "reason", optional=("subject", *_JUDGED))
    ),
    ("requires_approval", "tool_call_started", "processing"): Move(_forms("grant", optional=("subject", *_JUDGED)), 1),
    ("requires_approval", "tool_call_canceled", "canceled"): Move(_forms("reason", optional=("approval",))),
    ("ready", "approval_requested", "requires_approval"): Move(
        _forms("approval", optional=("args", "subject", *_JUDGED))
    ),
    ("ready", "approval_expired", "requires_approval"): Move(_VOTE),
    ("ready", "approval_stale", "requires_approval"): Move(_VOTE),
    ("ready", "approval_revoked", "requires_approval"): Move(_VOTE),
    ("ready", "approval_edited", "requires_approval"): Move(
        _forms("approval", "args", "reason", optional=("subject", *_JUDGED))
    ),
    ("ready", "tool_call_started", "processing"): Move(_forms(optional=("approval", "grant", "subject", *_JUDGED)), 1),
    ("ready", "tool_call_canceled", "canceled"): Move(_forms("reason", optional=("approval",))),
    ("processing", "approval_requested", "requires_approval"): Move(
        _forms("approval", optional=("args", "subject", *_JUDGED)), only_retry=True, only_harmless=True
    ),
    ("processing", "tool_call_started", "processing"): Move(
        _forms(optional=("approval", "grant", "subject", *_JUDGED)), 1, only_retry=True
    ),
    ("processing", "tool_call_finished", "succeeded"): Move(_forms("result") | _RESULT_SHOWN),
    ("processing", "tool_call_finished", "failed"): Move(_forms("error") | _ERROR_SHOWN),
    ("processing", "tool_call_released", "ready"): Move(_forms("reason", optional=("approval",))),
    ("processing", "tool_call_in_doubt", "in_doubt"): Move(_REASON),
    ("in_doubt", "approval_requested", "requires_approval"): Move(
        _forms("approval", optional=("args", "subject", *_JUDGED)), only_retry=True, only_harmless=True
    ),
    ("in_doubt", "tool_call_started", "processing"): Move(
        _forms(optional=(AGAIN, "approval", "grant", "subject", *_JUDGED)), 1, only_retry=True
    ),
    ("in_doubt", "tool_call_finished", "succeeded"): Move(_RESULT_SHOWN),
    ("in_doubt", "tool_call_finished", "failed"): Move(_ERROR_SHOWN),
    ("in_doubt", "tool_call_released", "ready"): Move(_REASON),
    ("failed", "tool_call_released", "ready"): Move(_REASON),
    **{
        ("", "tool_call_adopted", status): Move(_forms("key", "origin", optional=("args", detail, "subject")))
        for status, detail in (
            *(("succeeded", "result"), ("failed", "error"), ("in_doubt", "reason")),
            *(("denied", "reason"), ("canceled", "reason"), ("requires_approval", "reason")),
        )
    },
    **{(status, JOINED, status): Move(_forms()) for status in ("requires_approval", "ready", "processing", "in_doubt")},
    ("requires_approval", "policy_checked", "requires_approval"): Move(_forms("policy")),
    ("ready", "policy_checked", "ready"): Move(_forms("policy")),
    ("processing", "policy_checked", "processing"): Move(_forms("policy"), only_retry=True),
    ("in_doubt", "policy_checked", "in_doubt"): Move(_forms("policy"), only_retry=True),
    **{
        (status, "approval_viewed", status): Move({(): True})
        for status in (
            *("requires_approval", "ready", "processing", "in_doubt"),
            *("succeeded", "failed", "denied", "canceled"),
        )
    },
}
LATE = "tool_call_late"
ADOPTED = "tool_call_adopted"
"""Takes an effect over from another ledger, with as many attempts as it had there."""
LATE_NAMES = frozenset({("late_error",), ("late_result",)})
STILL = frozenset({LATE, "approval_voted", "approval_viewed", "approval_escalated", "policy_checked"})
"""Names the events that leave their effect as it is."""
CHECKED = "policy_checked"
"""Tells of a refused call: of an effect, or of a call that never was one."""
EFFECT_TYPES = frozenset({LATE, *(type_ for _, type_, _ in MOVES)})
STATUSES = frozenset({status for _, _, status in MOVES})
WORDS = frozenset({*((type_, status) for _, type_, status in MOVES), *((LATE, status) for status in STATUSES)})
OPENINGS = frozenset(names for (before, _, _), move in MOVES.items() if before == "" for names in move.commits)
"""Is what an event may commit to that opens an effect; nothing else commits to a key."""

# What becomes of the question about an effect. `used`: a call ran on it. `over`: it ended, or a call ran on a standing
# grant instead.
_OPEN = frozenset({"pending", "approved"})
_OVER = frozenset({"used", "over"})
NOT_ASKED, UNKNOWN = "", "?"
QUESTIONS: dict[str, tuple[frozenset[str], str]] = {
    "approval_requested": (_OVER | {NOT_ASKED}, "pending"),
    "approval_voted": (frozenset({"pending"}), "pending"),
    "approval_escalated": (frozenset({"pending"}), "pending"),
    "approval_received": (frozenset({"pending"}), "approved"),
    "approval_denied": (frozenset({"pending"}), "over"),
    "approval_expired": (_OPEN, "over"),
    "approval_stale": (_OPEN, "over"),
    "approval_revoked": (_OPEN, "pending"),
    "approval_edited": (_OPEN, "pending"),
    "tool_call_started": (frozenset({"approved"}), "used"),
    "tool_call_released": (frozenset({"used"}), "approved"),
    "tool_call_canceled": (_OPEN, "over"),
}
"""Says of each event that commits to an approval how the question may stand before it, and how it stands after."""


def next_question(question: str, kind: str, names: Names, status: str) -> str | None:
    """Says how the question about an effect stands after a legal move; None when the question does not allow it.

    `status` is the effect's before. After a crash, an attempt takes over the approval that the last one ran on.
    """
    if "approval" in names:
        if kind == "tool_call_started" and question == "used" and status != "ready":
            return "used"
        befores, after = QUESTIONS[kind]
        return after if question in befores or question == UNKNOWN else None
    if question == UNKNOWN:
        return UNKNOWN
    if kind == "tool_call_started":
        if "grant" in names and question in _OVER | {NOT_ASKED}:
            return "over"
        # Once a person was asked or a grant was used, each entry takes an approval or a grant.
        return NOT_ASKED if question == NOT_ASKED else None
    if kind == "tool_call_canceled":
        return None if question in _OPEN else question
    return None if kind == "approval_viewed" and question == NOT_ASKED else question
