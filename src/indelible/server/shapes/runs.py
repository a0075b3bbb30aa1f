"""Runs as the server says them: names of ours, times in UTC, values as plain JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from indelible.core.effects.calls import SideEffect
from indelible.core.events import Event
from indelible.core.remote.shown import plainly
from indelible.core.runs.following import Artifact, EffectLine, RunEvent, RunStory
from indelible.core.runs.resuming import ResumeContext, remaining_permissions
from indelible.core.runs.run import Checkpoint, CheckpointReason, Run, RunStatus
from indelible.runs.contents import why_invalid
from indelible.runs.desk import Seat
from indelible.runs.keeping import RunReport

Shown = TypeVar("Shown", bound=BaseModel)


def _shown(kind: type[Shown], thing: object, **otherwise: Any) -> Shown:
    """Gives a thing as it is answered: what is not said otherwise is the thing's own of the same name."""
    own = {name: getattr(thing, name) for name in kind.model_fields if name not in otherwise}
    return kind(**own, **otherwise)


class ForkShown(BaseModel):
    """Says what a run was forked from."""

    run_id: str
    at: int
    is_dry: bool


class HandoverShown(BaseModel):
    """Says to which ledger a run was handed over, and until when that ledger may import it."""

    to: str
    until: datetime


class RunShown(BaseModel):
    """Is a run as it stands. One that was never started is `open`: `agent`, `intent` and `runtime` are empty.

    `handover` names the ledger that goes on with it, `imported_from` the one that handed it over to this ledger.
    """

    id: str
    status: RunStatus
    agent: str
    intent: str
    runtime: str
    parent: str | None
    parent_event: str | None
    permissions: dict[str, Any]
    fork: ForkShown | None
    handover: HandoverShown | None
    imported_from: str | None
    version: int
    seq: int | None
    created_at: datetime
    updated_at: datetime
    unread: Literal["erased", "altered"] | None


def run_shown(run: Run) -> RunShown:
    """Gives a run as it is answered."""
    fork = None if run.fork is None else _shown(ForkShown, run.fork)
    handover = None if run.handover is None else _shown(HandoverShown, run.handover)
    return _shown(RunShown, run, fork=fork, handover=handover, permissions=plainly(remaining_permissions(run)))


class RunPage(BaseModel):
    """Is a page of runs, the one begun last first; pass `next` as `before` for the one after it."""

    runs: list[RunShown]
    next: str | None


class RunEventShown(BaseModel):
    """Is one event of a run; `actor` is who is said to have acted, `told_by` whose credential told of it."""

    id: str
    seq: int
    type: str
    at: str
    actor: str
    told_by: str
    step: str | None
    status: str
    side_effect: SideEffect
    tool: str | None
    effect_id: str | None
    effect_status: str | None
    payload: Any


def run_event_shown(event: RunEvent) -> RunEventShown:
    """Gives an event as it is answered."""
    return _shown(RunEventShown, event, id=f"evt_{event.id}", payload=plainly(event.payload))


class RunEventPage(BaseModel):
    """Is a page of a run's events, in their order; pass `next` as `after` for the one after it."""

    events: list[RunEventShown]
    next: int | None


class RecordedEvent(BaseModel):
    """Is an event that was recorded; a side effect that was told before is `skipped`."""

    id: str
    seq: int
    type: str
    status: str
    at: str


class RecordedEvents(BaseModel):
    """Are the events that were recorded together."""

    events: list[RecordedEvent]


class CheckpointShown(BaseModel):
    """Is a run saved at one of its events; `sealed_hash` is of the event that seals it."""

    id: str
    run_id: str
    at: int
    reason: CheckpointReason
    suggested: str | None
    has_state: bool
    seq: int | None
    sealed_hash: str | None
    created_at: datetime


def checkpoint_shown(checkpoint: Checkpoint, sealed_by: Event | None) -> CheckpointShown:
    """Gives a checkpoint as it is answered."""
    return _shown(CheckpointShown, checkpoint, sealed_hash=None if sealed_by is None else sealed_by.hash)


class CheckpointPage(BaseModel):
    """Is a page of a run's checkpoints, newest first; pass `next` as `before` for the one after it."""

    checkpoints: list[CheckpointShown]
    next: str | None


class Driving(BaseModel):
    """Is the right to drive a run: keep the token, and send it along with whatever is told of the run."""

    run: RunShown
    token: str
    fence: int
    lease_s: float


def driving(seat: Seat) -> dict[str, Any]:
    """Gives the right to drive a run as it is answered."""
    return {
        "run": run_shown(seat.run),
        "token": seat.token,
        "fence": seat.fence,
        "lease_s": seat.lease.total_seconds(),
    }


class KeptDriving(BaseModel):
    """Says for how long the run is still driven."""

    run_id: str
    lease_s: float


class ArtifactShown(BaseModel):
    """Is something a run made."""

    seq: int
    uri: str
    content_hash: str | None
    metadata: dict[str, Any]


def _artifact_shown(artifact: Artifact) -> ArtifactShown:
    found = artifact.content_hash
    content_hash = found if found is None else str(found)
    return _shown(ArtifactShown, artifact, content_hash=content_hash, metadata=plainly(dict(artifact.metadata)))


class EffectLineShown(BaseModel):
    """Is what a run's events tell of one effect."""

    id: str
    tool: str
    side_effect: SideEffect
    status: str
    attempt: int
    key: str | None
    opened_seq: int
    seq: int


def _line_shown(line: EffectLine) -> EffectLineShown:
    return _shown(EffectLineShown, line)


class OpenApproval(BaseModel):
    """Is an approval that nobody has decided."""

    id: str
    effect_id: str
    tool: str
    digest: str
    asked_at: datetime
    expires_at: datetime


class Context(BaseModel):
    """Is everything an agent needs to go on with a run."""

    checkpoint: str | None
    state: Any
    current_step: str | None
    receipts: list[RunEventShown]
    artifacts: list[ArtifactShown]
    unresolved_approvals: list[OpenApproval]
    remaining_permissions: dict[str, Any]
    blocked_side_effect_keys: list[str]
    in_doubt: list[EffectLineShown]
    open_delegations: list[str]
    suggested_next_action: str
    resumed_at: datetime
    head: str


def context_shown(context: ResumeContext) -> Context:
    """Gives what a run is gone on with as it is answered."""
    return _shown(
        Context,
        context,
        checkpoint=None if context.checkpoint is None else context.checkpoint.id,
        state=plainly(context.state),
        receipts=[run_event_shown(event) for event in context.receipts],
        artifacts=[_artifact_shown(artifact) for artifact in context.artifacts],
        unresolved_approvals=[_shown(OpenApproval, approval) for approval in context.unresolved_approvals],
        remaining_permissions=plainly(dict(context.remaining_permissions)),
        blocked_side_effect_keys=list(context.blocked_side_effect_keys),
        in_doubt=[_line_shown(line) for line in context.in_doubt],
        open_delegations=list(context.open_delegations),
    )


class Resumed(Driving):
    """Is the right to drive a run, and what it is gone on with."""

    context: Context


class Story(BaseModel):
    """Is what a run's events tell, read in one pass."""

    run_id: str
    events: int
    head: str
    current_step: str | None
    progress: int
    last_safe_event: str | None
    artifacts: list[ArtifactShown]
    effects: list[EffectLineShown]
    checkpoints: dict[str, int]
    open_delegations: list[str]
    blocked_side_effect_keys: list[str]
    in_doubt: list[EffectLineShown]
    broken: str | None


def story_shown(story: RunStory) -> Story:
    """Gives what a run's events tell as it is answered."""
    return _shown(
        Story,
        story,
        events=story.head.length,
        head=story.head.hash,
        current_step=story.step,
        last_safe_event=None if story.last_safe is None else f"evt_{story.last_safe.hash}",
        artifacts=[_artifact_shown(artifact) for artifact in story.artifacts],
        effects=[_line_shown(line) for line in story.effects.values()],
        blocked_side_effect_keys=story.blocked_keys,
        in_doubt=[_line_shown(line) for line in story.in_doubt],
    )


class SealShown(BaseModel):
    """Says whether a checkpoint is what was sealed."""

    checkpoint: str
    is_valid: bool
    why: str | None


class Report(BaseModel):
    """Says whether a run's record holds together; it rests on this database alone."""

    run_id: str
    is_valid: bool
    hash: str
    events: int
    not_valid: list[str]
    checkpoints: list[SealShown]
    parent: str | None


def report_shown(report: RunReport) -> Report:
    """Gives the verification of a run as it is answered."""
    checkpoints = [_shown(SealShown, seal, checkpoint=seal.checkpoint.id) for seal in report.seals]
    return _shown(Report, report, not_valid=why_invalid(report), checkpoints=checkpoints)


class Packet(BaseModel):
    """Is a run that another ledger can take over, with the proof of where it comes from."""

    event: str
    packet: dict[str, Any]
    receipt: str
