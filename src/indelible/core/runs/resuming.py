"""What whoever goes on with a run is told, and the packet that carries it to another ledger or framework.

Both are computed from the run's events as they are. The packet is a JSON object of documented fields; its hash is told
by an event, so that a receipt of that event proves the packet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from indelible.core.approvals.approval import Approval
from indelible.core.effects.calls import check_name
from indelible.core.effects.effect import ELSEWHERE, Effect, Status
from indelible.core.events import instant
from indelible.core.privacy.redaction import may_have_marks
from indelible.core.runs.following import Artifact, EffectLine, RunEvent, RunStory
from indelible.core.runs.ordering import approvals_in_order
from indelible.core.runs.run import SCHEMA_VERSION, Checkpoint, Run
from indelible.core.values.canonical import decode, encode
from indelible.core.values.tags import base64_or_none, from_base64
from indelible.errors import BadCall

PACKET_KIND = "indelible-resume-packet"
PACKET_EXPORTED = "packet_exported"
"""Is the event that names the hash of a packet: what it names, the ledger vouches for."""
_WAITING: Status = "requires_approval"
_ADOPTED = frozenset({"succeeded", "failed", "in_doubt", "denied", "canceled", _WAITING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeContext:
    """Is everything an agent needs to go on with a run: what was done, what is open, what must not be repeated.

    `state` is what the agent saved itself. `receipts` are all events that tell of work done. `blocked_side_effect_keys`
    are the keys of what happened or may have happened; effects with these keys replay by themselves.
    """

    run_id: str
    ledger_id: str
    run: Run
    fence: int
    checkpoint: Checkpoint | None
    state: Any
    current_step: str | None
    receipts: Sequence[RunEvent]
    artifacts: Sequence[Artifact]
    unresolved_approvals: Sequence[Approval]
    remaining_permissions: Mapping[str, Any]
    blocked_side_effect_keys: Sequence[str]
    in_doubt: Sequence[EffectLine]
    open_delegations: Sequence[str]
    suggested_next_action: str
    resumed_at: datetime
    head: str
    """Is the hash of the run's last event that this takes in."""
    schema_version: int = SCHEMA_VERSION


def context_of(
    run: Run,
    story: RunStory,
    receipts: Sequence[RunEvent],
    approvals: Sequence[Approval],
    checkpoint: Checkpoint | None,
    state: Any,
    *,
    ledger_id: str,
    fence: int,
    now: datetime,
) -> ResumeContext:
    """Gives what a run is gone on with, from what its events tell."""
    return ResumeContext(
        run_id=run.id,
        ledger_id=ledger_id,
        run=run,
        fence=fence,
        checkpoint=checkpoint,
        state=state,
        current_step=story.step,
        receipts=receipts,
        artifacts=story.artifacts,
        unresolved_approvals=approvals_in_order(story, approvals),
        remaining_permissions=remaining_permissions(run),
        blocked_side_effect_keys=story.blocked_keys,
        in_doubt=story.in_doubt,
        open_delegations=story.open_delegations,
        suggested_next_action=suggestion(story, approvals, checkpoint),
        resumed_at=now,
        head=story.head.hash,
    )


def remaining_permissions(run: Run) -> dict[str, Any]:
    """Gives what the run may still do."""
    allowed = {} if run.allowed_tools is None else {"allowed_tools": list(run.allowed_tools)}
    return {**run.permissions, **allowed}


def suggestion(story: RunStory, approvals: Sequence[Approval], checkpoint: Checkpoint | None) -> str:
    """Gives what to do next: what is open comes first, then what was noted when the run was saved."""
    if story.in_doubt:
        return "settle_effects_in_doubt"
    if approvals:
        return "await_approval_then_execute"
    if story.open_delegations:
        return "await_delegation"
    if checkpoint is not None and checkpoint.suggested is not None:
        return checkpoint.suggested
    return "continue"


# As JSON, by the names others use too


def context_content(context: ResumeContext) -> dict[str, Any]:
    """Gives a resume context as the documented JSON object."""
    return {
        "runId": context.run_id,
        "ledgerId": context.ledger_id,
        "checkpointId": None if context.checkpoint is None else context.checkpoint.id,
        "currentStep": context.current_step,
        "receipts": [receipt_content(event) for event in context.receipts],
        "artifacts": [artifact_content(artifact) for artifact in context.artifacts],
        "unresolvedApprovals": [approval_content(approval) for approval in context.unresolved_approvals],
        "remainingPermissions": dict(context.remaining_permissions),
        "blockedSideEffectKeys": list(context.blocked_side_effect_keys),
        "effectsInDoubt": [line_content(line) for line in context.in_doubt],
        "openDelegations": list(context.open_delegations),
        "state": context.state,
        "suggestedNextAction": context.suggested_next_action,
        "resumedAt": millis(context.resumed_at),
        "schemaVersion": context.schema_version,
    }


def receipt_content(event: RunEvent) -> dict[str, Any]:
    """Gives an event as JSON."""
    return {
        "eventId": f"evt_{event.id}",
        "seq": event.seq,
        "eventType": event.type,
        "actorId": event.actor,
        "stepName": event.step,
        "status": event.status,
        "sideEffectClass": event.side_effect,
        "tool": event.tool,
        "effectId": event.effect_id,
        "payload": event.payload,
        "createdAt": millis_of(event.at),
    }


def artifact_content(artifact: Artifact) -> dict[str, Any]:
    """Gives an artifact as JSON."""
    return {
        "uri": artifact.uri,
        "contentHash": artifact.content_hash,
        "metadata": dict(artifact.metadata),
        "seq": artifact.seq,
    }


def approval_content(approval: Approval) -> dict[str, Any]:
    """Gives an open approval as JSON; its id is what others call an intent's."""
    return {
        "approvalId": approval.id,
        "intentId": approval.id,
        "effectId": approval.effect_id,
        "tool": approval.tool,
        "digest": approval.digest,
        "status": approval.status,
        "askedAt": millis(approval.asked_at),
        "expiresAt": millis(approval.expires_at),
    }


def line_content(line: EffectLine) -> dict[str, Any]:
    """Gives what is known of an effect as JSON."""
    return {
        "effectId": line.id,
        "tool": line.tool,
        "sideEffectClass": line.side_effect,
        "status": line.status,
        "attempt": line.attempt,
        "key": line.key,
    }


def millis(at: datetime) -> str:
    """Writes a moment with three decimals, as others do."""
    return millis_of(instant(at))


def millis_of(text: str) -> str:
    """Writes a recorded moment with three decimals, as others do."""
    return f"{text[:23]}Z" if len(text) > 23 else text


# The packet


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """Is a run as it can be handed to another ledger: its resume context, and the effects that its calls have there.

    They are those that must not be repeated, and those that a person was asked about: a person is asked again there.
    """

    content: Mapping[str, Any]
    effects: Sequence[Effect] = field(repr=False)

    @property
    def digest(self) -> str:
        """Is the hash that an event tells of."""
        return packet_digest(self.content)


def packet_digest(content: Mapping[str, Any]) -> str:
    """Gives the hash of a packet."""
    return sha256(encode(content, root="packet")).hexdigest()


def packet_of(
    context: ResumeContext,
    tenant: str,
    effects: Sequence[Effect],
    checkpoint_event: str | None,
    redaction: str | None = None,
) -> Packet:
    """Return the packet of a run: documented names first, then the effects as they are recorded.

    The ledger that imports it records the effects in the order given here: pass them in the order they started in.
    `redaction` is the hash of the key that marks are made with here.
    """
    run = context.run
    carried = [_carried(effect) for effect in effects if _is_carried(effect)]
    is_marked = any(may_have_marks(effect.args_json) for effect in carried)
    content = {
        **context_content(context),
        "kind": PACKET_KIND,
        "tenant": tenant,
        "checkpointEventId": checkpoint_event,
        "head": context.head,
        "handedOverTo": None if run.handover is None else run.handover.to,
        "importBefore": None if run.handover is None else instant(run.handover.until),
        "redaction": redaction if is_marked else None,
        "nonReplayableSideEffects": list(context.blocked_side_effect_keys),
        "run": {
            "agentId": run.agent,
            "intentSummary": run.intent,
            "runtime": run.runtime,
            "parentRunId": run.parent,
            "permissions": remaining_permissions(run),
            "status": run.status,
            "createdAt": millis(run.created_at),
        },
        "effects": [_effect_content(effect) for effect in carried],
    }
    return Packet(content=content, effects=carried)


def why_not_carried(effects: Iterable[Effect]) -> str | None:
    """Say which call keeps its run here: it may have happened, and no packet carries what it holds. None: no call."""
    for effect in effects:
        if effect.status in ("processing", "in_doubt") and effect.charges_json is not None:
            return (
                f"is not handed over: {effect.tool}, {effect.id}, is {effect.status} and holds an exclusive resource "
                "or part of a budget, which no packet carries. When it has ended, export again. If it is in doubt, "
                f"settle it: indelible effects show {effect.id}"
            )
    return None


def _is_carried(effect: Effect) -> bool:
    """Say whether the other ledger has to know of a call; one that is free to run is judged there as if made first."""
    return effect.status != "ready" or effect.permission_id is not None


def _carried(effect: Effect) -> Effect:
    """Return an effect as the other ledger takes it over. An unused approval does not hold there."""
    if effect.status in ("ready", _WAITING):
        return replace(effect, status=_WAITING, detail_json=None)
    if effect.status == "processing":
        return replace(effect, status="in_doubt", detail_json=b'"it was under way when the packet was made"')
    return effect


def _effect_content(effect: Effect) -> dict[str, Any]:
    return {
        "id": effect.id,
        "scope": effect.scope,
        "key": effect.key,
        "tool": effect.tool,
        "sideEffectClass": effect.side_effect,
        # The window of the provider is counted from the first entry, whose time another ledger does not know.
        "onCrash": "hold" if effect.on_crash == "resend" else effect.on_crash,
        "callId": effect.call_id,
        "turn": effect.turn,
        "digest": effect.digest,
        "status": effect.status,
        "attempt": effect.attempt,
        "createdAt": millis(effect.created_at),
        "asked": effect.permission_id is not None,
        "args": base64_or_none(effect.args_json),
        "detail": base64_or_none(effect.detail_json),
    }


def check_kind(content: Mapping[str, Any]) -> None:
    """Raises `BadCall` unless this is a packet, and of the version that is known here."""
    if content.get("kind") != PACKET_KIND or content.get("schemaVersion") != SCHEMA_VERSION:
        raise BadCall(f"this is no resume packet of version {SCHEMA_VERSION}; export it again: indelible runs packet")


def why_not_imported(
    content: Mapping[str, Any], ledger: str, now: datetime, redaction: str | None
) -> tuple[str, str] | None:
    """Say why this ledger may not go on with the run of a packet, as a word and a sentence; None if it may.

    Args:
        content: The packet.
        ledger: The name of the journal here.
        now: The time here.
        redaction: The hash of the key that marks are made with here.
    """
    to, run_id = content["handedOverTo"], content["runId"]
    if to is None:
        return "copy", (
            f"this packet is a copy for reading: {content['ledgerId']} goes on with run {run_id}. To go on with it "
            f"here, hand it over there: indelible runs packet {run_id} --to {ledger}"
        )
    if to != ledger:
        return "elsewhere", f"run {run_id} was handed over to {to}, and this is {ledger}; import it there"
    if now >= datetime.fromisoformat(content["importBefore"]):
        return "too_late", (
            f"this packet could be imported until {content['importBefore']}, so {content['ledgerId']} may have taken "
            f"run {run_id} back; hand it over there again"
        )
    if content["redaction"] not in (None, redaction):
        return "redaction", (
            f"run {run_id} has calls that were redacted with another key than this ledger's, so here they would count "
            f"as other calls and run again. Use the redaction key of {content['ledgerId']} here, make a call that is "
            "redacted with it, then import the packet; or take the run back there: indelible runs take-back"
        )
    return None


def read_packet(content: Mapping[str, Any], now: datetime) -> Packet:
    """Reads a packet; raises `BadCall` when it is none or of a version that is not known here."""
    check_kind(content)
    try:
        effects = [_read_effect(content["tenant"], content["runId"], told, now) for told in content["effects"]]
        if content["handedOverTo"] is not None:
            datetime.fromisoformat(content["importBefore"])
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise BadCall(f"the packet cannot be read: {problem!r}") from problem
    return Packet(content=content, effects=effects)


def _read_effect(tenant: str, run_id: str, told: Mapping[str, Any], now: datetime) -> Effect:
    if told["status"] not in _ADOPTED:
        raise ValueError(f"an effect in a packet is never {told['status']}")
    check_name("scope", told["scope"])
    args, detail = from_base64(told["args"]), from_base64(told["detail"])
    for value in (args, detail):
        if value is not None:
            decode(value)
    return Effect(
        tenant=tenant,
        scope=str(told["scope"]),
        key=str(told["key"]),
        id=str(told["id"]),
        run_id=run_id,
        tool=str(told["tool"]),
        side_effect=told["sideEffectClass"],
        on_crash=told["onCrash"],
        call_id=told["callId"],
        digest=str(told["digest"]),
        status=told["status"],
        attempt=int(told["attempt"]),
        version=1,
        token_hash="0" * 64,
        lease_until=None,
        opened_seq=0,
        detail_seq=0,
        created_at=datetime.fromisoformat(told["createdAt"]),
        updated_at=now,
        args_json=args,
        detail_json=detail,
        permission_id=ELSEWHERE if told["asked"] else None,
        turn=told.get("turn"),
    )
