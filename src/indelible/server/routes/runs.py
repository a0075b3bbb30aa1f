"""Runs over HTTP: begun, told of, saved, resumed, forked, ended, verified and handed on, by the ledger's own verbs.

Whoever starts or resumes a run gets a token and sends it along: what comes with the newest one is the driver's word.
Without a token, things are told by hand, as every agent of the tenant may. Its last driver or a person ends a run so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Response

from indelible.core.effects.effect import hash_of
from indelible.core.events import Event
from indelible.core.filtering.reading import parse
from indelible.core.remote.admitting import check_scopes
from indelible.core.runs.commands import NewCheckpoint, Told
from indelible.core.runs.run import Checkpoint, Run, RunStatus
from indelible.core.values.recording import too_big
from indelible.engine.running import in_own_thread
from indelible.errors import BadCall, JournalError, RunLost, UnknownRun
from indelible.runs.desk import RunsDesk, Seat
from indelible.runs.keeping import new_checkpoint
from indelible.runs.telling import happenings_of
from indelible.server.requests import sequence
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.filters import Q, finding_of
from indelible.server.requests.routing import resources
from indelible.server.requests.strict import LARGEST_NUMBER, CheckedName, RunName
from indelible.server.shapes.run_bodies import (
    AskedBack,
    AskedCheckpoint,
    AskedFork,
    AskedPacket,
    AskedResume,
    Ending,
    KeptSeat,
    ReleasedSeat,
    SentPacket,
    StartedRun,
    ToldEvents,
)
from indelible.server.shapes.runs import (
    CheckpointPage,
    CheckpointShown,
    Driving,
    KeptDriving,
    Packet,
    RecordedEvent,
    RecordedEvents,
    Report,
    Resumed,
    RunEventPage,
    RunPage,
    RunShown,
    Story,
    checkpoint_shown,
    context_shown,
    driving,
    report_shown,
    run_event_shown,
    run_shown,
    story_shown,
)

Result = TypeVar("Result")
runs: APIRouter = resources("runs")

BY_AGENT = asking("drive_runs")
BY_WHOEVER_ENDS = asking("end_runs")
BY_READER = asking("read")
BY_ADMIN = asking("administer")
Limit = Annotated[int, Query(ge=1, le=1000)]


def desk_of(asked: Asking) -> RunsDesk:
    """Gives what sees to the tenant's runs, acting as whoever asks."""
    return asked.ledger._run_desk().acting_as(asked.actor)


async def aside(function: Callable[..., Result], *arguments: Any) -> Result:
    """Runs what blocks beside the loop."""
    return await in_own_thread(function, *arguments)


@runs.post("/v1/runs", status_code=201)
async def start_run(body: StartedRun, response: Response, asked: Asking = BY_AGENT) -> Driving:
    """Begins a run, which the caller drives. Whoever names `run_id` and `token` may send the same again."""
    words = body.model_dump(exclude={"run_id", "lease_s"})
    lease = timedelta(seconds=body.lease_s)
    desk = desk_of(asked)
    seat = await aside(lambda: desk.begin(body.run_id, lease=lease, **words))
    response.headers.update(sequence.of_run(seat.run))
    return Driving(**driving(seat))


@runs.get("/v1/runs")
async def list_runs(
    status: RunStatus | None = None,
    agent: CheckedName | None = None,
    q: Q = "",
    before: CheckedName | None = None,
    limit: Limit = 100,
    asked: Asking = BY_READER,
) -> RunPage:
    """List every run that has events, the one begun last first; `before` is the id of the last one seen.

    A run that was never started has the status `open`: its id only groups calls, so its agent and intent are unknown
    and empty.
    """
    query = parse(q, "runs")
    found = await aside(finding_of(asked).runs, query, status, agent, before, limit)
    return RunPage(runs=[run_shown(run) for run in found.things], next=found.next)


@runs.get("/v1/runs/{run_id}")
async def get_run(run_id: RunName, asked: Asking = BY_READER) -> RunShown:
    """Return a run as it stands. One that was never started is `open`, and its agent and intent are empty."""
    return run_shown(await aside(found_run, desk_of(asked), run_id))


def found_run(desk: RunsDesk, run_id: str) -> Run:
    """Return a run that has events, as far as it can be read; raise when the tenant has none of this id."""
    run = desk.keeping.known(run_id)
    if run is None:
        raise UnknownRun(f"no run of this tenant is named {run_id!r}; see: GET /v1/runs")
    return run


@runs.get("/v1/runs/{run_id}/story")
async def run_story(run_id: RunName, asked: Asking = BY_READER) -> Story:
    """Gives what a run's events tell: its step, effects, artifacts, checkpoints, and what is open or in doubt."""
    return story_shown(await aside(desk_of(asked).keeping.story, run_id))


# Events


@runs.get("/v1/runs/{run_id}/events")
async def list_events(
    run_id: RunName,
    after: Annotated[int, Query(ge=-1, le=LARGEST_NUMBER)] = -1,
    limit: Limit = 100,
    asked: Asking = BY_READER,
) -> RunEventPage:
    """Lists a run's events in their order."""
    found = await aside(desk_of(asked).keeping.page, run_id, after, limit + 1)
    following = found[limit - 1].seq if len(found) > limit else None
    return RunEventPage(events=[run_event_shown(event) for event in found[:limit]], next=following)


@runs.post("/v1/runs/{run_id}/events", status_code=201)
async def record_events(
    run_id: RunName, body: ToldEvents, response: Response, asked: Asking = BY_AGENT
) -> RecordedEvents:
    """Records events, all of them or none; a side effect whose key was recorded before is `skipped`."""
    words = [event.words() for event in body.events]
    told = await aside(record_all, desk_of(asked), run_id, body.token, words)
    response.headers.update(sequence.of_event(run_id, told[-1][0].seq))
    return RecordedEvents(
        events=[
            RecordedEvent(id=f"evt_{event.hash}", seq=one.seq, type=one.type, status=one.status, at=event.read()["at"])
            for one, event in told
        ]
    )


def record_all(
    desk: RunsDesk, run_id: str, token: str | None, words: Sequence[dict[str, Any]]
) -> list[tuple[Told, Event]]:
    """Record events of a run that has some, and return each with how it stands in the record."""
    happenings = happenings_of(words)
    for one in happenings:
        check_size(desk, "payload", one.payload_json)
    found_run(desk, run_id)
    told = desk.keeping.tell(run_id, token, happenings).told
    recorded = desk.keeping.recorded(run_id, told[0].seq, len(told))
    return list(zip(told, recorded, strict=True))


def check_size(desk: RunsDesk, what: str, value: bytes | None) -> None:
    """Raises `TooLarge` for what is larger than a result may be."""
    most = desk.most_bytes
    if value is not None and most is not None and len(value) > most:
        raise too_big(what, most, len(value))


# Checkpoints


@runs.get("/v1/runs/{run_id}/checkpoints")
async def list_checkpoints(
    run_id: RunName, before: CheckedName | None = None, limit: Limit = 100, asked: Asking = BY_READER
) -> CheckpointPage:
    """Lists a run's checkpoints, newest first."""

    def listed(desk: RunsDesk) -> list[Checkpoint]:
        found_run(desk, run_id)
        return desk.keeping.checkpoints(run_id, before, limit + 1)

    desk = desk_of(asked)
    found = await aside(listed, desk)
    following = found[limit - 1].id if len(found) > limit else None
    shapes = await aside(lambda: [checkpoint_shown(one, sealing(desk, one)) for one in found[:limit]])
    return CheckpointPage(checkpoints=shapes, next=following)


def sealing(desk: RunsDesk, checkpoint: Checkpoint) -> Event | None:
    """Gives the event that seals a checkpoint."""
    if checkpoint.seq is None:
        return None
    return next(iter(desk.keeping.recorded(checkpoint.run_id, checkpoint.seq, 1)), None)


@runs.post("/v1/runs/{run_id}/checkpoints", status_code=201)
async def create_checkpoint(
    run_id: RunName, body: AskedCheckpoint, response: Response, asked: Asking = BY_AGENT
) -> CheckpointShown:
    """Seals a run with the agent's own state."""
    desk = desk_of(asked)
    new = new_checkpoint(desk.checkpoint_id(), body.reason, body.state, body.suggested, body.at, desk.most_bytes)
    sealed, event = await aside(seal, desk, run_id, body.token, new)
    response.headers.update(sequence.of_checkpoint(sealed))
    return checkpoint_shown(sealed, event)


def seal(desk: RunsDesk, run_id: str, token: str | None, new: NewCheckpoint) -> tuple[Checkpoint, Event | None]:
    """Seals a run, and gives the checkpoint with the event that seals it."""
    sealed = desk.keeping.seal(run_id, token, new)
    return sealed, sealing(desk, sealed)


# Driving


@runs.post("/v1/runs/{run_id}/resume")
async def resume_run(run_id: RunName, body: AskedResume, response: Response, asked: Asking = BY_AGENT) -> Resumed:
    """Takes over a run that nobody drives, and says what was done, what is open and what is in doubt."""
    if body.force:
        check_scopes(asked.caller, "administer")  # the run was set aside for a person to look at
    lease, desk = timedelta(seconds=body.lease_s), desk_of(asked)
    words = {"checkpoint": body.checkpoint, "force": body.force, "lease": lease, "token": body.token}
    seat = await aside(lambda: desk.take_over(run_id, **words))  # type: ignore[arg-type]
    assert seat.context is not None, "who takes a run over is told how it stands"
    response.headers.update(sequence.of_run(seat.run))
    return Resumed(**driving(seat), context=context_shown(seat.context))


@runs.post("/v1/runs/{run_id}/fork", status_code=201)
async def fork_run(run_id: RunName, body: AskedFork, response: Response, asked: Asking = BY_AGENT) -> Driving:
    """Begins a run in which the effects of another one replay; a dry run touches nothing outside."""
    lease, desk = timedelta(seconds=body.lease_s), desk_of(asked)
    words = {"at": body.at, "new_id": body.run_id, "dry_run": body.dry_run, "lease": lease, "token": body.token}
    seat = await aside(lambda: desk.begin_fork(run_id, **words))  # type: ignore[arg-type]
    response.headers.update(sequence.of_run(seat.run))
    return Driving(**driving(seat))


@runs.post("/v1/runs/{run_id}/heartbeat")
async def keep_driving(run_id: RunName, body: KeptSeat, asked: Asking = BY_AGENT) -> KeptDriving:
    """Makes the right to drive a run last longer; one that is lost cannot be had back this way."""
    desk, lease = desk_of(asked), timedelta(seconds=body.lease_s)
    await aside(_still_driven, desk, run_id, lambda: desk.keeping.keep_driving(run_id, hash_of(body.token), lease))
    return KeptDriving(run_id=run_id, lease_s=body.lease_s)


@runs.post("/v1/runs/{run_id}/release")
async def release_run(run_id: RunName, body: ReleasedSeat, asked: Asking = BY_AGENT) -> RunShown:
    """Lets go of a run as it is: it stays active, and anybody can resume it at once."""
    desk = desk_of(asked)
    return run_shown(await aside(_still_driven, desk, run_id, lambda: desk.keeping.let_go(run_id, hash_of(body.token))))


def let_go(desk: RunsDesk, seat: Seat) -> Seat:
    """Lets go of a run that was only begun or taken over for others to go on with."""
    desk.keeping.let_go(seat.run.id, hash_of(seat.token))
    return seat


def _still_driven(desk: RunsDesk, run_id: str, is_ours: Callable[[], bool]) -> Run:
    """Gives a run whose driver did something with their right to; raises when it is not theirs any more."""
    run = found_run(desk, run_id)
    if not is_ours():
        why = "is driven by somebody else now, or by nobody; stop working on it, and resume it to go on"
        raise RunLost(f"run {run_id} {why}", code="lost", run=run)
    return run


# Ending


@runs.post("/v1/runs/{run_id}/complete")
async def complete_run(run_id: RunName, body: Ending, response: Response, asked: Asking = BY_WHOEVER_ENDS) -> RunShown:
    """Ends a run: its work is done."""
    return await _ended(run_id, "completed", body, asked, response)


@runs.post("/v1/runs/{run_id}/fail")
async def fail_run(run_id: RunName, body: Ending, response: Response, asked: Asking = BY_WHOEVER_ENDS) -> RunShown:
    """Saves a run and calls it failed; it can be resumed."""
    return await _ended(run_id, "failed", body, asked, response)


@runs.post("/v1/runs/{run_id}/cancel")
async def cancel_run(run_id: RunName, body: Ending, response: Response, asked: Asking = BY_WHOEVER_ENDS) -> RunShown:
    """Ends a run before its work is done; whoever drives it loses it."""
    return await _ended(run_id, "canceled", body, asked, response)


async def _ended(run_id: str, status: RunStatus, body: Ending, asked: Asking, response: Response) -> RunShown:
    desk = desk_of(asked)
    if body.state is not None and status != "failed":
        raise BadCall("state is saved where a run may be resumed, as with /fail or /checkpoints; leave it out here")
    saved = None
    if status == "failed":
        saved = new_checkpoint(desk.checkpoint_id(), "failure", body.state, None, most=desk.most_bytes)
    ended = await aside(desk.keeping.end, run_id, body.token, status, body.reason, saved)
    response.headers.update(sequence.of_run(ended))
    return run_shown(ended)


# Looking closer, and elsewhere


@runs.post("/v1/runs/{run_id}/verify")
async def verify_run(run_id: RunName, asked: Asking = BY_READER) -> Report:
    """Checks a run's chain, the values it commits to, its checkpoints and its lineage."""
    return report_shown(await aside(desk_of(asked).keeping.verify, run_id))


@runs.post("/v1/runs/{run_id}/packet")
async def export_packet(run_id: RunName, body: AskedPacket | None = None, asked: Asking = BY_AGENT) -> Packet:
    """Return a run as a signed packet. With `to`, the run is handed over: its calls are refused here from now on."""
    named = body or AskedPacket()
    valid = timedelta(seconds=named.valid_s)
    return Packet(**await aside(desk_of(asked).export_packet, run_id, None, named.to, valid))


@runs.post("/v1/runs/{run_id}/take-back")
async def take_back_run(
    run_id: RunName, body: AskedBack, response: Response, asked: Asking = BY_WHOEVER_ENDS
) -> RunShown:
    """Take a run back that was handed over and that the other ledger never imported. Only people may."""
    run = await aside(partial(desk_of(asked).take_back, force=body.force), run_id, asked.actor, body.reason)
    response.headers.update(sequence.of_run(run))
    return run_shown(run)


@runs.post("/v1/packets", status_code=201)
async def import_packet(body: SentPacket, response: Response, asked: Asking = BY_ADMIN) -> RunShown:
    """Takes over a run of another ledger, whose key proves the packet; nothing of it is done again here."""

    def taken(desk: RunsDesk) -> Run:
        try:
            return desk.import_packet(body.packet, body.key, trust=body.trust)
        except JournalError as problem:  # the packet is the client's, and not our journal
            raise BadCall(str(problem)) from problem

    run = await aside(taken, desk_of(asked))
    response.headers.update(sequence.of_run(run))
    return run_shown(run)
