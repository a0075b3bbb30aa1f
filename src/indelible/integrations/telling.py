"""What a model hears of a call that was not simply run. Every adapter uses this table, and says nothing of its own.

No text invites a repeat of what may have happened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from indelible import (
    Approval,
    AwaitingApproval,
    Canceled,
    Denied,
    Effect,
    Failed,
    InDoubt,
    InFlight,
    NothingHappened,
    ReplayedFailure,
    Succeeded,
    ToolCall,
)
from indelible.errors import (
    ApprovalPending,
    BudgetExceeded,
    EffectCanceled,
    EffectCompensated,
    EffectDenied,
    EffectErased,
    EffectFailed,
    EffectInDoubt,
    KeyReused,
    NotRecordable,
    PolicyRefused,
    RepeatRefused,
    ResourceBusy,
    StillRunning,
    Stopped,
    TooLarge,
    UnfitArguments,
)

Outcome = Literal[
    "replayed",
    "in_doubt",
    "waits",
    "denied",
    "refused",
    "over_budget",
    "key_reused",
    "repeat_refused",
    "unfit",
    "failed",
    "nothing_happened",
    "stopped",
    "busy",
    "running",
    "canceled",
    "compensated",
    "erased",
]

TEXTS: Mapping[Outcome, str] = MappingProxyType(
    {
        "replayed": "Already done: this is the recorded result of {tool}, made at {when} UTC ({effect}). Nothing was "
        "run now. To do it once more on purpose, ask the user to say so in a new message.",
        "in_doubt": "{tool} may have happened ({effect}), and its outcome is not known yet. Do not call it again and "
        "do not try another way. A person finds out what became of it; tell the user so.",
        "waits": "{tool} waits for a person, until {until} UTC, and was not carried out. A person decides with: "
        "indelible approvals show {approval}. When it is decided, call again with exactly the same arguments.",
        "denied": "{tool} was denied by a person and was not carried out: {why}. Do not try another way.",
        "refused": "{tool} was not carried out: a rule does not allow it ({why}).",
        "over_budget": "{tool} was not carried out: {why}",
        "key_reused": "Already {stands} with {recorded} ({effect}); nothing was run now with {given}. The recorded "
        "outcome is: {outcome}. Do not try another way; if a second call is meant, the user has to say so.",
        "repeat_refused": "{why}",
        "unfit": "{tool} was not carried out, and nothing was recorded: {why}",
        "failed": "{why}",
        "nothing_happened": "{why}. Nothing was done, so you may call {tool} again.",
        "stopped": "{tool} was not carried out: all effects are stopped by a person. Do not call tools until the user "
        "says that they may go on.",
        "busy": "{tool} was not carried out: another call on the same resource is open. Wait until it has ended.",
        "running": "{tool} is being carried out by another caller and is not finished ({effect}). Do not do it another "
        "way; call again with the same arguments to get its result.",
        "canceled": "{tool} was withdrawn and was not carried out: {why}.",
        "compensated": "{tool} was done once ({effect}) and undone since ({compensation}), so it does not stand. "
        "Nothing was run now. Do not call it again unless the user asks for it in a new message.",
        "erased": "{tool} was done, and its result was erased since ({effect}). It is not done again.",
    }
)
"""The texts, by outcome. `{why}` is what the ledger or the tool says."""

SAID_NOTHING = "the tool failed and said nothing"
"""What a model hears of an error without words: an empty text reads like a success."""

_LONGEST_SHOWN = 500
_NUMBERED = re.compile(r"(?:[a-z]*call|tool)[_-]?\d{1,4}|\d{1,4}", re.ASCII | re.IGNORECASE)
_OUTCOMES: tuple[tuple[type[Exception], Outcome], ...] = (
    (EffectInDoubt, "in_doubt"),
    (ApprovalPending, "waits"),
    (EffectDenied, "denied"),
    (PolicyRefused, "refused"),
    (BudgetExceeded, "over_budget"),
    (KeyReused, "key_reused"),
    (RepeatRefused, "repeat_refused"),
    (UnfitArguments, "unfit"),
    (NotRecordable, "unfit"),
    (TooLarge, "unfit"),
    (EffectFailed, "failed"),
    (NothingHappened, "nothing_happened"),
    (Stopped, "stopped"),
    (ResourceBusy, "busy"),
    (StillRunning, "running"),
    (EffectCanceled, "canceled"),
    (EffectCompensated, "compensated"),
    (EffectErased, "erased"),
)


class Heard(NamedTuple):
    """What a model hears: the outcome in one word, and the text."""

    outcome: Outcome
    text: str


def heard_of(error: Exception, tool: str) -> Heard | None:
    """Return what a model hears of a call that gave no value; None if the error is not the ledger's to explain."""
    for kind, outcome in _OUTCOMES:
        if isinstance(error, kind):
            return Heard(outcome, TEXTS[outcome].format_map(_facts(error, tool)))
    return None


Unanswered = AwaitingApproval | Canceled | Denied | InDoubt | InFlight | ReplayedFailure
"""What the ledger answers to a call that may not run now and has no value."""


def heard_of_answer(answer: Unanswered, tool: str) -> Heard:
    """Return what a model hears of a call that the ledger answers without a value."""
    match answer:
        case AwaitingApproval(approval):
            return Heard("waits", waits(approval))
        case Denied(reason):
            return Heard("denied", TEXTS["denied"].format(tool=tool, why=reason))
        case Canceled(reason):
            return Heard("canceled", TEXTS["canceled"].format(tool=tool, why=reason))
        case InDoubt(effect):
            return Heard("in_doubt", TEXTS["in_doubt"].format(tool=tool, effect=effect.id))
        case InFlight(effect):
            return Heard("running", TEXTS["running"].format(tool=tool, effect=effect.id))
        case ReplayedFailure(error):
            return Heard("failed", TEXTS["failed"].format(why=error or SAID_NOTHING))


def waits(approval: Approval) -> str:
    """Return what a model hears while a person has to decide."""
    until = f"{approval.expires_at:%Y-%m-%d %H:%M}"
    return TEXTS["waits"].format(tool=approval.tool, until=until, approval=approval.id)


def replayed(effect: Effect, call: ToolCall) -> str | None:
    """Return what a model hears with a recorded result; None if the same call only came again, as after a resume.

    A call without an id counts as a new one. So does one whose id is only a number: such models begin anew with each
    answer, and their ids tell nothing.
    """
    if effect.call_id == call.call_id and not is_only_numbered(call.call_id):
        return None
    return TEXTS["replayed"].format(tool=effect.tool, when=f"{effect.created_at:%Y-%m-%d %H:%M}", effect=effect.id)


def is_only_numbered(call_id: str | None) -> bool:
    """Say whether an id tells calls apart only within one answer of a model, as `call_0` does; None tells nothing."""
    return call_id is None or _NUMBERED.fullmatch(call_id) is not None


def with_note(text: str, note: str | None) -> str:
    """Return a result with the note that it was replayed, if there is one."""
    return text if note is None else f"{text}\n\n{note}"


def _facts(error: Exception, tool: str) -> dict[str, Any]:
    effect, approval = getattr(error, "effect", None), getattr(error, "approval", None)
    return {
        "tool": tool,
        "effect": "not recorded" if effect is None else effect.id,
        "compensation": getattr(getattr(error, "compensation", None), "id", "not recorded"),
        "why": _why(error),
        "stands": getattr(effect, "status", "made").replace("succeeded", "done"),
        **_reused(error),
        "until": "" if approval is None else f"{approval.expires_at:%Y-%m-%d %H:%M}",
        "approval": "" if approval is None else approval.id,
    }


def _reused(error: Exception) -> dict[str, str]:
    """Return what tells two calls apart that share a key, and what came of the first."""
    if not isinstance(error, KeyReused):
        return {}
    pairs = error.differing.items()
    return {
        "recorded": ", ".join(f"{name}={_shown(pair[0])}" for name, pair in pairs) or "other arguments",
        "given": ", ".join(f"{name}={_shown(pair[1])}" for name, pair in pairs) or "these",
        "outcome": "not known yet" if error.outcome is None else _shown(error.outcome),
    }


def _shown(value: Any) -> str:
    if isinstance(value, Succeeded | Failed):
        value = value.value if isinstance(value, Succeeded) else value.error
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _why(error: Exception) -> str:
    if isinstance(error, EffectFailed):
        return error_in(error)
    said = str(error)
    return said.rstrip(".") or SAID_NOTHING if isinstance(error, NothingHappened) else said


def error_in(failed: EffectFailed) -> str:
    """Return what a tool said when it failed, as it is recorded."""
    return str(getattr(failed.effect.outcome, "error", failed)) or SAID_NOTHING
