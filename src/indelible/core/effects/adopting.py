"""Takes over a call that was made elsewhere: it is recorded as it ended there, and no rule judges it here. Pure."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from indelible.core.commands import Adopt
from indelible.core.effects.effect import Effect, Outcome, Succeeded
from indelible.core.effects.outcomes import outcome_json, result_json
from indelible.core.effects.requests import Mint, Prepared, Request
from indelible.core.effects.turns import first_turn
from indelible.core.effects.walk import carry_out
from indelible.core.values.canonical import encode

_VALUES = 5


def adopt(
    prepared: Prepared, outcome: Outcome, mint: Mint, origin: Mapping[str, Any]
) -> Generator[Request, Any, Effect]:
    """Record what came of a call elsewhere, unless that is on the record already.

    Policies, approvals, budgets and stops decide what may be done. They cannot undo what was done.

    Args:
        prepared: The call, as it would be made here.
        outcome: What came of it.
        mint: Makes its id and its stamp.
        origin: Where it was made.

    Returns:
        The effect.

    Raises:
        IllegalMove: The call is on the record here with another end, or without one.
        NotPermitted: The caller's credential takes nothing over.
        BadCall: The outcome has no recorded form.
    """
    call, identity, handling, screen = prepared.call, prepared.identity, prepared.handling, prepared.screen
    stamp = mint.stamp(prepared.actor, _VALUES)
    if isinstance(outcome, Succeeded):
        detail = result_json(outcome.value, screen, prepared.max_result_bytes)
    else:
        detail = outcome_json(outcome, screen)
    effect = Effect(
        tenant=identity.ref.tenant,
        scope=identity.ref.scope,
        key=identity.ref.key,
        id=mint.effect_id(),
        run_id=call.run,
        tool=call.tool,
        side_effect=handling.side_effect,
        on_crash=handling.on_crash,
        call_id=call.call_id,
        digest=identity.digest,
        status="succeeded" if isinstance(outcome, Succeeded) else "failed",
        attempt=1,
        version=1,
        token_hash="0" * 64,
        lease_until=None,
        opened_seq=0,
        detail_seq=0,
        created_at=stamp.at,
        updated_at=stamp.at,
        args_json=identity.args_json,
        detail_json=detail,
        turn=first_turn(call.turn),
    )
    origin_json = encode(dict(origin), root="origin")
    command = Adopt(effect=effect, stamp=stamp, origin_json=origin_json, subject_json=prepared.subject_json)
    return (yield from carry_out(command, None))
