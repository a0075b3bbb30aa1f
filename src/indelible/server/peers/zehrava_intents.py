"""The endpoints for intents that zehrava-gate's clients call: an intent is an effect that always asks for approval.

An intent's id is the id of its approval. An execution is one attempt, so its id names the effect and the attempt.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response
from pydantic import Field

from indelible.core.approvals.approval import Approval
from indelible.core.commands import AwaitingApproval, Claimed, Denied, MayRun, Replayed, ReplayedFailure
from indelible.core.effects import refusing
from indelible.core.effects.effect import Effect, Failed, Succeeded
from indelible.core.events import instant
from indelible.core.remote.shown import plainly
from indelible.core.runs.resuming import millis_of
from indelible.core.values.canonical import decode, encode
from indelible.errors import (
    ApprovalExpired,
    BudgetExceeded,
    IllegalMove,
    KeyReused,
    PolicyRefused,
    UnknownApproval,
    UnknownEffect,
)
from indelible.server import speaking
from indelible.server.requests import sequence
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import answer, resources
from indelible.server.routes.approvals import find_approval, saying_who
from indelible.server.routes.effects import claim_of, find_by_id
from indelible.server.shapes.effects import Begin, Name, Sent, Text

intents: APIRouter = resources("zehrava-gate")
RUN = "intents"
"""Is the run of intents that are proposed outside of any."""
EXECUTION_SECONDS = 900
"""Is how long there is to report what came of an execution."""
Content = dict[str, Any]
IntentId = Annotated[str, Path(description="An intent's id, which is its approval's, as in apr_0123.")]
ExecutionId = Annotated[str, Path(description="An execution's id, as in exe_0123-1.")]

_LASTING = r"^[1-9][0-9]{0,5}[smhd]$"
_EXECUTION = re.compile(r"exe_([0-9a-f]+)-([1-9][0-9]{0,8})")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_STATUS_OF_EFFECT = {"processing": "scheduled", "denied": "rejected", "canceled": "blocked", "ready": "approved"}


class IntentProposal(Sent):
    """Says what an agent wants to do."""

    destination: Name
    policy: Name
    payload: Any = None
    recordCount: int | None = None
    estimated_value_usd: float | None = None
    sensitivity_tags: Annotated[list[Name], Field(max_length=100)] | None = None
    idempotency_key: Name | None = None
    on_behalf_of: Name | None = None
    expiresIn: Annotated[str, Field(pattern=_LASTING)] | None = None
    """How long the intent may be executed, as in `30m`, unless the ledger's policy allows less."""
    metadata: dict[str, Any] | None = None
    runId: Name | None = None

    def args(self) -> Content:
        """Return the arguments of the call, without what was not said."""
        told = {
            "policy": self.policy,
            "payload": self.payload,
            "record_count": self.recordCount,
            "estimated_value_usd": self.estimated_value_usd,
            "sensitivity_tags": self.sensitivity_tags,
            "idempotency_key": self.idempotency_key,
            "on_behalf_of": self.on_behalf_of,
            "expires_in": self.expiresIn,
            "metadata": self.metadata,
        }
        return {name: value for name, value in told.items() if value is not None}


class NothingTold(Sent):
    """Says nothing."""


class IntentRejection(Sent):
    """Says why an intent is rejected."""

    reason: Text | None = None


class ExecutionReport(Sent):
    """Tells what came of an execution."""

    status: Literal["succeeded", "failed"]
    execution_token: Name
    result: Any = None
    error: Text | None = None


@intents.post("/v1/intents", response_model=Content)
async def propose(body: IntentProposal, asked: Asking = asking("call")) -> Response:
    """Propose an intent: a person has to approve it. The same proposal twice is one intent."""
    asked.ledgers.gateway.check_not_ours(body.destination)
    call = _begin_body(body.destination, body.args(), body.runId or RUN)
    try:
        standing = await speaking.ask(asked.ledger, asked.caller, asked.actor, call, takes_grants=False)
    except (PolicyRefused, BudgetExceeded) as refused:
        return answer(_proposed(None, "blocked", str(refused)))
    except KeyReused as reused:
        return answer(_duplicate(reused.effect))
    assert not isinstance(standing, Claimed), "nothing is claimed by asking"
    effect: Effect | None = standing.effect
    match standing:
        case AwaitingApproval(approval):
            return answer(_open(approval, "pending_approval", body.expiresIn))
        case MayRun() if effect is not None and effect.approval_id is not None:
            return answer(_open(await find_approval(asked, effect.approval_id), "approved", body.expiresIn))
        case Denied(reason):
            return answer(_proposed(standing.effect.approval_id, "blocked", reason))
        case _:
            return answer(_duplicate(effect))


@intents.get("/v1/intents/{intent_id}", response_model=Content)
async def show_intent(intent_id: IntentId, asked: Asking = asking("read")) -> Response:
    """Show an intent and how it stands."""
    view = await asked.ledger.view_approval(await find_approval(asked, intent_id))
    approval, effect, args = view.approval, view.effect, dict(view.args)
    expires_in = args.get("expires_in")
    status = _STATUS_OF_EFFECT.get(effect.status, effect.status)
    if effect.status in ("requires_approval", "ready"):
        status = {"pending": "pending_approval"}.get(approval.status, approval.status)
        status = "expired" if _is_over(approval, expires_in) else status
    shown = {
        "id": intent_id,
        "intentId": intent_id,
        "status": status,
        "destination": effect.tool,
        "policy_id": args.get("policy"),
        "payload": args.get("payload"),
        "block_reason": effect.detail if effect.status in ("denied", "canceled") else None,
        "idempotency_key": args.get("idempotency_key"),
        "on_behalf_of": args.get("on_behalf_of"),
        "created_at": millis_of(instant(approval.asked_at)),
        "expires_at": millis_of(instant(_expiry(approval, expires_in))),
        "effect_id": effect.id,
    }
    return answer(plainly(shown))


@intents.post("/v1/intents/{intent_id}/approve", response_model=Content)
async def approve(intent_id: IntentId, body: NothingTold | None = None, asked: Asking = asking("decide")) -> Response:
    """Approve what is asked at this moment; to decide on what was seen, use `POST /v1/approvals/{id}/decisions`."""
    approval = await find_approval(asked, intent_id)
    with saying_who():
        decided = await asked.ledger.approve(approval, digest=approval.digest, by=asked.actor, reason="approved")
    return await _decided(asked, decided)


@intents.post("/v1/intents/{intent_id}/reject", response_model=Content)
async def reject(
    intent_id: IntentId, body: IntentRejection | None = None, asked: Asking = asking("decide")
) -> Response:
    """Reject an intent."""
    approval = await find_approval(asked, intent_id)
    with saying_who():
        decided = await asked.ledger.deny(approval, by=asked.actor, reason=(body and body.reason) or "rejected")
    return await _decided(asked, decided)


@intents.post("/v1/intents/{intent_id}/execute", response_model=Content, status_code=201)
async def execute(intent_id: IntentId, body: NothingTold | None = None, asked: Asking = asking("call")) -> Response:
    """Give the right to execute an approved intent, once. Report what came of it within 15 minutes."""
    approval = await find_approval(asked, intent_id)
    view = await asked.ledger.view_approval(approval)
    asked.ledgers.gateway.check_not_ours(approval.tool)
    if view.effect.approval_id not in (None, approval.id):
        message = f"intent {intent_id} was replaced by {view.effect.approval_id}; execute that one"
        raise IllegalMove(message, effect=view.effect)
    if approval.is_open and _is_over(approval, view.args.get("expires_in")):
        message = f"intent {intent_id} expired before it was executed; propose it again with another idempotency_key"
        raise ApprovalExpired(message, approval=approval, effect=view.effect)
    call = _begin_body(approval.tool, dict(view.args), approval.for_run)
    prepared = speaking.prepared_for(asked.ledger, asked.caller, asked.actor, call)
    if not approval.editors and prepared.identity.ref != approval.ref:
        raise UnknownApproval(f"{intent_id} is an approval, and no intent; run its call again instead")
    begun = await speaking.begin(asked.ledger, asked.caller, asked.actor, call, takes_grants=False)
    if isinstance(begun, Replayed | ReplayedFailure):
        done = begun.effect
        raise IllegalMove(f"intent {intent_id} was executed before: {done.id} is {done.status}", effect=done)
    if not isinstance(begun, Claimed):
        refusing.refuse(begun)
    claim = begun.claim
    asked.ledgers.claims.keep(claim.effect)
    headers = await sequence.of_sheet(asked, "approval", intent_id)
    return answer(_order(approval, claim.effect, claim.token), 201, headers)


@intents.post("/v1/executions/{execution_id}/report", response_model=Content)
async def report(execution_id: ExecutionId, body: ExecutionReport, asked: Asking = asking("report")) -> Response:
    """Tell what came of an execution; until then nobody else may execute it."""
    named = _EXECUTION.fullmatch(execution_id)
    if named is None:
        raise UnknownEffect(f"no execution of this tenant has the id {execution_id}")
    known, attempt = await find_by_id(asked, f"eff_{named[1]}"), int(named[2])
    failed = Failed(body.error or "the execution failed", "Error")
    outcome = Succeeded(body.result) if body.status == "succeeded" else failed
    claim = claim_of(known, body.execution_token, attempt)
    moved = await speaking.commit(asked.ledger, asked.actor, claim, outcome, known)
    status = "in_doubt" if moved.status == "in_doubt" else body.status
    recorded = decode(encode(body.result, root="result"))  # as every later caller gets it, keys sorted
    shown = {"executionId": execution_id, "status": status, "result": recorded}
    return answer(plainly(shown), 200, sequence.of_effect(moved))


def _begin_body(tool: str, args: Content, run_id: str) -> Begin:
    """Return the call of an intent; a key that was used is a duplicate, whatever comes with it, as in zehrava-gate."""
    same: Content = {"key": ["idempotency_key"], "on_reuse": "replay"} if "idempotency_key" in args else {}
    return Begin(
        tool=tool,
        args=args,
        run_id=run_id,
        side_effect="external_mutation",
        approval="required",
        token=secrets.token_hex(16),
        lease_s=EXECUTION_SECONDS,
        **same,
    )


def _proposed(intent_id: str | None, status: str, reason: str | None, until: datetime | None = None) -> Content:
    expires_at = None if until is None else millis_of(instant(until))
    return {
        "intentId": intent_id,
        "proposalId": intent_id,
        "status": status,
        "blockReason": reason,
        "expiresAt": expires_at,
    }


def _open(approval: Approval, status: str, expires_in: str | None) -> Content:
    until = _expiry(approval, expires_in)
    if _is_over(approval, expires_in):
        return _proposed(approval.id, "blocked", "it expired; propose it with another idempotency_key", until)
    return _proposed(approval.id, status, None, until)


def _duplicate(effect: Effect | None) -> Content:
    why = "this idempotency_key was used before" if effect is None else f"{effect.id} is {effect.status}"
    return _proposed(None if effect is None else effect.approval_id, "duplicate_blocked", why)


async def _decided(asked: Asking, approval: Approval) -> Response:
    status = {"denied": "rejected", "pending": "pending_approval"}.get(approval.status, approval.status)
    at = millis_of(instant(approval.votes[-1].at)) if approval.votes and status == "approved" else None
    headers = await sequence.of_sheet(asked, "approval", approval.id)
    return answer({"intentId": approval.id, "status": status, "approvedAt": at}, 200, headers)


def _order(approval: Approval, effect: Effect, token: str) -> Content:
    assert effect.lease_until is not None
    execution_id = f"exe_{effect.id.removeprefix('eff_')}-{effect.attempt}"
    return {
        "executionId": execution_id,
        "execution_id": execution_id,
        "execution_token": token,
        "intent_id": approval.id,
        "destination": effect.tool,
        "payload": effect.args.get("payload"),
        "edited": bool(approval.editors),
        "status": "scheduled",
        "mode": "runner_exec",
        "expires_at": millis_of(instant(effect.lease_until)),
    }


def _expiry(approval: Approval, expires_in: object) -> datetime:
    """Return when an intent ends: when the approval does, or earlier if the agent said so."""
    if not isinstance(expires_in, str) or re.fullmatch(_LASTING, expires_in) is None:
        return approval.expires_at
    own = approval.asked_at + timedelta(seconds=int(expires_in[:-1]) * _UNITS[expires_in[-1]])
    return min(approval.expires_at, own)


def _is_over(approval: Approval, expires_in: object) -> bool:
    return _expiry(approval, expires_in) <= datetime.now(UTC)
