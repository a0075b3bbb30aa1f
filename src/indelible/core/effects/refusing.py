"""What a caller is told whose call does not run: one exception for each reason, with the next step."""

from __future__ import annotations

from typing import Any, NoReturn

from indelible.core.approvals.approval import Approval
from indelible.core.commands import AwaitingApproval, Begun, Canceled, Denied, InDoubt, InFlight, Open
from indelible.core.effects.effect import ERASED_TEXT, Effect
from indelible.core.effects.identity import differing, without
from indelible.core.effects.requests import Prepared
from indelible.core.policy.verdicts import Verdict
from indelible.core.values.canonical import decode
from indelible.errors import (
    ApprovalEndedUnused,
    ApprovalExpired,
    ApprovalPending,
    ApprovalStale,
    EffectCanceled,
    EffectDenied,
    EffectInDoubt,
    KeyReused,
    PolicyRefused,
    StillRunning,
)


def refused_by(command: Open, verdict: Verdict, effect: Effect | None) -> PolicyRefused:
    return PolicyRefused(
        f"{command.tool}: refused by the rule {verdict.rule!r}{_because(verdict.why)}; see: indelible policy explain",
        verdict=verdict,
        effect=effect,
    )


def key_reused(prepared: Prepared, effect: Effect) -> KeyReused:
    """Return the refusal of a call whose key belongs to another one, with what came of that and what differs."""
    omitted = prepared.identity.omitted
    try:
        recorded: Any = {} if effect.are_args_erased else decode(without(effect.args_json or b"{}", omitted))
        fields = differing(recorded, decode(without(prepared.identity.args_json, omitted)))
    except (AttributeError, TypeError, ValueError):  # the recorded arguments are encrypted, and the key is not here
        fields = {}
    named = f" ({', '.join(fields)} differs)" if fields else ""
    return KeyReused(
        f"{effect.tool}: this key belongs to {effect.id}, which is {effect.status} with other arguments{named}; "
        "nothing was run now. If this is another call, let key, scope or call_id tell the two apart",
        effect=effect,
        differing=fields,
    )


def _because(why: str) -> str:
    return f" ({why})" if why else ""


def ended(approval: Approval, effect: Effect) -> ApprovalEndedUnused:
    """Gives the refusal of a call whose approval ended while it waited."""
    if approval.status == "expired":
        message = f"nobody decided {approval.id} until {approval.expires_at:%Y-%m-%d %H:%M} UTC"
        return ApprovalExpired(f"{effect.tool}: {message}; call again to ask anew", approval=approval, effect=effect)
    if approval.is_open:
        message = f"{approval.id} has taken the place of what this call waited for, and asks about something else"
    else:
        message = f"{approval.id} is no longer about what would run now ({_reason(effect)})"
    return ApprovalStale(f"{effect.tool}: {message}; call again to ask anew", approval=approval, effect=effect)


def _reason(effect: Effect) -> Any:
    return ERASED_TEXT if effect.is_detail_erased else effect.detail


def refuse(begun: Begun) -> NoReturn:
    """Raises what keeps the call from running now, with the next step."""
    match begun:
        case InFlight(effect):
            raise StillRunning(
                f"{effect.tool}: {effect.id} is being executed by another caller; call again to get its result, or "
                "wait longer with wait=",
                effect=effect,
            )
        case AwaitingApproval(approval, effect):
            raise ApprovalPending(
                f"{effect.tool}: {approval.id} waits for a person until {approval.expires_at:%Y-%m-%d %H:%M} UTC: "
                f"indelible approvals show {approval.id}; when it is decided, call again",
                approval=approval,
                effect=effect,
            )
        case InDoubt(effect):
            raise EffectInDoubt(
                f"{effect.tool}: {effect.id} may have happened, attempt {effect.attempt} never reported "
                f"({_reason(effect)}). Find out, then: indelible effects settle {effect.id} --as succeeded|failed "
                f"--evidence …, or: indelible effects retry {effect.id}",
                effect=effect,
            )
        case Denied(reason):
            raise EffectDenied(f"{begun.effect.tool}: {begun.effect.id} was denied: {reason}", effect=begun.effect)
        case Canceled(reason):
            raise EffectCanceled(f"{begun.effect.tool}: {begun.effect.id} was canceled: {reason}", effect=begun.effect)
        case _:
            raise AssertionError(f"{type(begun).__name__} is no refusal")
