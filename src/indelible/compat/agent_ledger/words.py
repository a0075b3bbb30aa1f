"""Our words in theirs: an effect of our ledger as agent-ledger's users know it."""

from __future__ import annotations

from indelible import Effect as OurEffect
from indelible import Failed, Succeeded
from indelible.compat.agent_ledger.errors import EffectLedgerValidationError, code_of, reason_of
from indelible.compat.agent_ledger.keys import canonicalize
from indelible.compat.agent_ledger.types import TERMINAL_STATUSES, Effect, EffectError, EffectStatus
from indelible.errors import EffectErased


def effect_as_there(effect: OurEffect, resource: str | None = None) -> Effect:
    """Gives an effect in agent-ledger's form; what it was about is not kept, but in the digest, so `resource` says."""
    status = EffectStatus(effect.status)
    outcome = _outcome_of(effect)
    return Effect(
        id=effect.id,
        idem_key=effect.key,
        workflow_id=effect.run_id,
        call_id=effect.call_id or effect.id,
        tool=effect.tool,
        status=status,
        args_canonical=_args_of(effect),
        resource_id_canonical=resource or effect.tool,
        dedup_count=0,
        created_at=effect.created_at,
        updated_at=effect.updated_at,
        result=outcome.value if isinstance(outcome, Succeeded) else None,
        error=_error_of(effect, outcome),
        completed_at=effect.updated_at if status in TERMINAL_STATUSES else None,
    )


def _error_of(effect: OurEffect, outcome: Succeeded | Failed | None) -> EffectError | None:
    """Gives why it failed; or why it was denied or canceled, if somebody gave a reason."""
    if isinstance(outcome, Failed):
        return EffectError(outcome.error, code_of(outcome.error_type))
    reason = reason_of(effect) if effect.status in ("denied", "canceled") else None
    return None if reason is None else EffectError(reason)


def _outcome_of(effect: OurEffect) -> Succeeded | Failed | None:
    try:
        return effect.outcome
    except EffectErased:
        return None


def _args_of(effect: OurEffect) -> str:
    """Gives the arguments as JSON; what plain JSON cannot say stands there as it is recorded."""
    if effect.args_json is None:
        return ""
    try:
        return canonicalize(effect.args)
    except EffectLedgerValidationError:
        return effect.args_json.decode("utf-8")
