"""The endpoints that zehrava-gate documents for its Run Ledger, with its names, answered by the same verbs as ours.

Its clients know of no tokens: what they tell is told by hand, and a run that was begun or resumed is let go of at once,
so that whoever needs to can resume it. There, events are counted from 1.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Response

from indelible.core.effects.calls import SideEffect
from indelible.core.remote.shown import plainly
from indelible.core.runs.following import RunEvent
from indelible.core.runs.resuming import artifact_content, context_content, millis_of, receipt_content
from indelible.core.runs.run import CheckpointReason, RunStatus
from indelible.errors import UnknownCheckpoint
from indelible.runs.contents import checkpoint_content, report_content, run_content
from indelible.runs.desk import RunsDesk
from indelible.runs.keeping import new_checkpoint
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import answer, resources
from indelible.server.requests.strict import CheckedName, RunName
from indelible.server.routes.runs import aside, check_size, desk_of, found_run, let_go, record_all, seal, sealing
from indelible.server.shapes.effects import Sent, Text

zehrava: APIRouter = resources("zehrava-gate")
BY_AGENT = asking("drive_runs")
BY_READER = asking("read")

_AT_ONCE = timedelta(seconds=1)
_ENDINGS: dict[str, RunStatus] = {"run_completed": "completed", "run_failed": "failed"}
_APPROVAL_ID = re.compile(r"apr_[0-9a-f]{1,64}")
Content = dict[str, Any]


class Start(Sent):
    """Says which run to begin."""

    agentId: CheckedName
    intentSummary: Text = ""
    runtime: Text | None = None
    parentRunId: CheckedName | None = None
    permissions: dict[str, Any] | None = None


class Event(Sent):
    """Says what happened, and who did it by the word of whoever sends this."""

    eventType: CheckedName
    actorId: CheckedName | None = None
    stepName: CheckedName | None = None
    payload: Any = None
    sideEffectClass: SideEffect | None = None
    sideEffectKey: CheckedName | None = None

    def words(self) -> Content:
        """Gives it in the words of the ledger's `record`."""
        return {
            "event_type": self.eventType,
            "payload": self.payload,
            "step": self.stepName,
            "side_effect": self.sideEffectClass or "none",
            "side_effect_key": self.sideEffectKey,
            "actor": self.actorId,
        }


class Checkpoint(Sent):
    """Says what to save, and what to do next."""

    eventId: CheckedName | None = None
    reason: CheckpointReason | None = None
    suggestedNextAction: Text | None = None


class Resume(Sent):
    """Says where to go on from."""

    fromCheckpointId: CheckedName | None = None


@zehrava.post("/internal/runs/start", response_model=Content)
async def start(body: Start, asked: Asking = BY_AGENT) -> Response:
    """Begins a run."""
    desk = desk_of(asked)
    seat = await aside(
        lambda: let_go(
            desk,
            desk.begin(
                agent=body.agentId,
                intent=body.intentSummary,
                runtime=body.runtime or "zehrava-gate",
                parent=body.parentRunId,
                permissions=body.permissions,
                lease=_AT_ONCE,
            ),
        )
    )
    run = run_content(seat.run, asked.ledger.journal_name)
    return answer({name: run[name] for name in ("runId", "ledgerId", "status", "createdAt")})


@zehrava.post("/internal/runs/{run_id}/events", response_model=Content)
async def record_event(run_id: RunName, body: Event, asked: Asking = BY_AGENT) -> Response:
    """Records an event; a side effect whose key was recorded before is `skipped`, and the end of a run ends it."""
    recorded = _ended if body.eventType in _ENDINGS else _recorded
    return answer(await aside(recorded, desk_of(asked), run_id, body))


def _recorded(desk: RunsDesk, run_id: str, body: Event) -> Content:
    ((told, event),) = record_all(desk, run_id, None, [body.words()])
    return _event_answer(event.hash, told.seq, told.type, told.status, event.read()["at"])


def _ended(desk: RunsDesk, run_id: str, body: Event) -> Content:
    """Ends a run whose end is told: that it ended and the event that says so are one."""
    status = _ENDINGS[body.eventType]
    reason = status if body.payload is None else json.dumps(body.payload, ensure_ascii=False)
    check_size(desk, "payload", reason.encode())
    saved = new_checkpoint(desk.checkpoint_id(), "failure", None, None) if status == "failed" else None
    run = desk.keeping.end(run_id, None, status, reason, saved)
    assert run.seq is not None, "an event tells that it ended"
    event = desk.keeping.recorded(run_id, run.seq, 1)[0]
    return _event_answer(event.hash, run.seq, event.type, "recorded", event.read()["at"])


def _event_answer(event_hash: str, seq: int, event_type: str, status: str, at: str) -> Content:
    return {
        "eventId": f"evt_{event_hash}",
        "seq": seq + 1,
        "eventType": event_type,
        "status": status,
        "createdAt": millis_of(at),
        "timestamp": millis_of(at),
    }


@zehrava.post("/internal/runs/{run_id}/checkpoint", response_model=Content)
async def create_checkpoint(run_id: RunName, body: Checkpoint, asked: Asking = BY_AGENT) -> Response:
    """Seals a run at its latest event, or at one that is named."""

    def sealed(desk: RunsDesk) -> Content:
        found_run(desk, run_id)
        at = None if body.eventId is None else _seq_of(desk, run_id, body.eventId)
        new = new_checkpoint(desk.checkpoint_id(), body.reason or "manual", None, body.suggestedNextAction, at)
        checkpoint, event = seal(desk, run_id, None, new)
        return checkpoint_content(checkpoint, None if event is None else event.hash)

    return answer(_counted_from_one(await aside(sealed, desk_of(asked)), "atSeq"))


def _seq_of(desk: RunsDesk, run_id: str, event_id: str) -> int:
    found: list[int] = []
    desk.keeping.story(run_id, lambda event: found.append(event.seq) if f"evt_{event.id}" == event_id else None)
    if not found:
        raise UnknownCheckpoint(f"run {run_id} has no event {event_id}; see: GET /internal/runs/{run_id}")
    return found[0]


@zehrava.post("/internal/runs/{run_id}/resume", response_model=Content)
async def resume(run_id: RunName, body: Resume | None = None, asked: Asking = BY_AGENT) -> Response:
    """Resumes a run from its latest checkpoint or the one that is named, and lets go of it for whoever goes on."""
    chosen = None if body is None else body.fromCheckpointId

    def resumed(desk: RunsDesk) -> Content:
        seat = let_go(desk, desk.take_over(run_id, checkpoint=chosen, lease=_AT_ONCE))
        assert seat.context is not None, "who takes a run over is told how it stands"
        content = context_content(seat.context)
        listed = {approval["intentId"] for approval in content["unresolvedApprovals"]}
        by_hand = _asked_by_hand(desk, asked, run_id)
        content["unresolvedApprovals"] += [one for one in by_hand if one["intentId"] not in listed]
        return content

    content = await aside(resumed, desk_of(asked))
    content["receipts"] = [_event_shown(receipt) for receipt in content["receipts"]]
    content["artifacts"] = [_counted_from_one(artifact, "seq") for artifact in content["artifacts"]]
    return answer(plainly(content))


def _asked_by_hand(desk: RunsDesk, asked: Asking, run_id: str) -> list[Content]:
    """Lists approvals that were told to be asked for and not to be received, unless the ledger knows better."""
    waiting: dict[str, RunEvent] = {}

    def note(event: RunEvent) -> None:
        named = event.payload.get("intentId") if isinstance(event.payload, dict) else None
        if event.effect_id is None and isinstance(named, str):
            if event.type == "approval_requested":
                waiting[named] = event
            elif event.type == "approval_received":
                waiting.pop(named, None)

    desk.keeping.story(run_id, note)
    still = [name for name in waiting if _may_be_pending(asked, name)]
    return [{"intentId": name, "status": "pending", "askedAt": millis_of(waiting[name].at)} for name in still]


def _may_be_pending(asked: Asking, name: str) -> bool:
    known = asked.ledger._approving.get(name) if _APPROVAL_ID.fullmatch(name) else None
    return known is None or known.status == "pending"


@zehrava.get("/internal/runs/{run_id}", response_model=Content)
async def get_run(run_id: RunName, asked: Asking = BY_READER) -> Response:
    """Gives a run with all its events, checkpoints and artifacts."""
    return answer(plainly(await aside(_inspected, desk_of(asked), asked.ledger.journal_name, run_id)))


@zehrava.get("/internal/runs/{run_id}/events", response_model=Content)
async def get_events(run_id: RunName, asked: Asking = BY_READER) -> Response:
    """Gives all events of a run."""
    inspected = await aside(_inspected, desk_of(asked), asked.ledger.journal_name, run_id)
    return answer(plainly({"runId": run_id, "events": inspected["events"]}))


def _inspected(desk: RunsDesk, ledger_id: str, run_id: str) -> Content:
    run = found_run(desk, run_id)
    events: list[RunEvent] = []
    story = desk.keeping.story(run_id, events.append)
    sound = [seal.checkpoint.id for seal in desk.keeping.seals(story) if seal.is_valid]
    checkpoints = []
    for one in desk.keeping.checkpoints(run_id):
        event = sealing(desk, one)
        content = checkpoint_content(one, None if event is None else event.hash, is_valid=one.id in sound)
        at = events[one.at] if one.at < len(events) else None
        checkpoints.append({**_counted_from_one(content, "atSeq"), "eventId": None if at is None else f"evt_{at.id}"})
    return {
        "run": run_content(run, ledger_id, story),
        "events": [_event_shown(receipt_content(event)) for event in events],
        "checkpoints": checkpoints,
        "artifacts": [_counted_from_one(artifact_content(artifact), "seq") for artifact in story.artifacts],
        "resumableCheckpoints": sound,
    }


def _event_shown(content: Content) -> Content:
    """Gives an event by the names of its endpoints, and by those that its implementation answers with."""
    return {
        **_counted_from_one(content, "seq"),
        "type": content["eventType"],
        "timestamp": content["createdAt"],
        "actor": content["actorId"],
        "step": content["stepName"],
    }


def _counted_from_one(content: Content, name: str) -> Content:
    return {**content, name: content[name] + 1}


@zehrava.post("/internal/runs/{run_id}/verify", response_model=Content)
async def verify(run_id: RunName, asked: Asking = BY_READER) -> Response:
    """Checks a run's chain, its checkpoints and its lineage."""
    return answer(dict(report_content(await aside(desk_of(asked).keeping.verify, run_id))))
