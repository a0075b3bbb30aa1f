"""Commands as a ledger gives them to a PostgreSQL store."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from indelible.core.commands import Answer, AwaitingApproval, CastVote, Claimed, Finish, Moved, Open, Record, Stamp
from indelible.core.effects.calls import ToolCall
from indelible.core.effects.effect import Actor, Claim, Effect
from indelible.core.effects.identity import identify
from indelible.core.events import facts_json
from indelible.core.policy.verdicts import ALLOWED
from indelible.stores.postgres import PostgresStore
from indelible.stores.postgres.schema import MIGRATIONS
from indelible.testing.commands import asking

TENANT = "default"
NAMES = [f"{migration.number:04}_{migration.name}" for migration in MIGRATIONS]
AGENT = Actor("billing", "agent")


def stamp(actor: Actor = AGENT) -> Stamp:
    return Stamp(at=datetime.now(UTC), actor=actor, salts=os.urandom(256))


def opening(number: int, run: str = "order-1", *, lease: float = 30.0, **changed: Any) -> Open:
    call = ToolCall(tool="stripe.charge", args={"number": number}, run_id=run)
    identity = identify(call, TENANT)
    fields: dict[str, Any] = {
        "ref": identity.ref,
        "stamp": stamp(),
        "effect_id": f"eff_{time.time_ns():016x}{os.urandom(4).hex()}",
        "token": os.urandom(16).hex(),
        "run_id": run,
        "tool": call.tool,
        "side_effect": "payment",
        "on_crash": "hold",
        "call_id": None,
        "dedupe": "args",
        "digest": identity.digest,
        "args_json": identity.args_json,
        "lease": timedelta(seconds=lease),
        "verdict": ALLOWED,
        "has_key_fields": False,
    }
    return Open(**(fields | changed))


def finish(claim: Claim, result: str = "paid") -> Finish:
    return Finish(claim=claim, stamp=stamp(), status="succeeded", detail_json=json.dumps(result).encode())


def recording(run: str = "order-1", **changed: Any) -> Record:
    fact = Record(tenant=TENANT, run_id=run, stamp=stamp(), event_type="noted", facts=facts_json({"n": 1}))
    return replace(fact, **changed)


def do(store: PostgresStore, command: Any, known: Effect | None = None) -> Answer:
    (answer,) = store.apply(TENANT, [command], [known])
    return answer


def ask(store: PostgresStore, number: int, run: str = "order-1", **changed: Any) -> AwaitingApproval:
    answer = do(store, opening(number, run, **{"verdict": asking(), **changed}))
    assert isinstance(answer, AwaitingApproval)
    return answer


def approval(asked: AwaitingApproval, by: str = "ada", **changed: Any) -> CastVote:
    vote = CastVote(
        ref=asked.effect.ref,
        stamp=stamp(Actor(by)),
        approval_id=asked.approval.id,
        digest=asked.approval.digest,
        is_approval=True,
        detail_json=b'"yes"',
    )
    return replace(vote, **changed)


def claim(store: PostgresStore, number: int, run: str = "order-1", **changed: Any) -> Claim:
    answer = do(store, opening(number, run, **changed))
    assert isinstance(answer, Claimed)
    return answer.claim


def settle(store: PostgresStore, claim: Claim) -> Effect:
    answer = do(store, finish(claim), claim.effect)
    assert isinstance(answer, Moved)
    return answer.effect


def integrate_everything(store: PostgresStore, most: int = 7) -> None:
    while store.journal.integrate(TENANT, most) is not None:
        pass
