"""Takes over the runs of zehrava-gate's Run Ledger from its database, `gate.db`, which is only read.

Each run comes whole, in one transaction: its events, its artifacts, its checkpoints, and how it stood. What is here
already stays, so whoever was stopped starts again. Proposals, policies, agents and handoffs of Gate are not of the Run
Ledger, and are not taken over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import rfc8785

from indelible.core.effects.calls import SIDE_EFFECTS
from indelible.core.effects.effect import Actor
from indelible.core.events import instant
from indelible.core.runs.run import (
    BY_THE_LEDGER,
    CHECKPOINT_REASONS,
    EVENT_TYPES,
    HANDED_OVER,
    OVER,
    CheckpointRule,
    RunStatus,
)
from indelible.errors import BadCall, IndelibleError, Misconfigured
from indelible.ledger import Ledger
from indelible.migrating.taking import Progress, Taking, untold
from indelible.runs.keeping import new_checkpoint
from indelible.runs.telling import happenings_of, new_run

_RUNS = """
SELECT id, run_id, parent_run_id, runtime, agent_id, intent_summary, status, current_step, permissions_json,
       integrity_hash, schema_version, created_at
FROM run_ledgers ORDER BY created_at, run_id
"""
_PARTS = {
    "events": """
SELECT id, ledger_id, seq, event_type, event_ts, actor_id, step_name, payload_json, side_effect_class, side_effect_key,
       status
FROM run_events WHERE ledger_id = ? ORDER BY seq
""",
    "artifacts": """
SELECT id, ledger_id, event_id, artifact_type, uri_or_path, content_hash, metadata_json, created_at
FROM run_artifacts WHERE ledger_id = ? ORDER BY created_at, rowid
""",
    "checkpoints": """
SELECT id, ledger_id, event_id, checkpoint_reason, resume_packet_json, sealed_hash, is_resumable, created_at
FROM run_checkpoints WHERE ledger_id = ? ORDER BY created_at, rowid
""",
}
"""Are what belongs to a run, and how it is read.

Its default checkpoint names the first event, so events do not order checkpoints. `rowid` is the order of writing.
"""
ENDED: Mapping[str, RunStatus] = {"completed": "completed", "failed": "failed", "canceled": "canceled"}
"""Are its statuses that stay what they are; every other run is blocked here, and can be resumed."""
_BY = Actor("migrate from zehrava", "system")
_PERMISSION = "zehrava"
Content = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRun:
    """Is a run as gate.db has it, with everything that belongs to it."""

    told: Content
    events: Sequence[Content]
    artifacts: Sequence[Content]
    checkpoints: Sequence[Content]

    @property
    def id(self) -> str:
        """Is the run's name."""
        return str(self.told["run_id"])


# Verifying


def integrity_holds(told: Content) -> bool:
    """Is the run's identity what its hash was made of? The hash is no secret's: whoever edits can compute it anew."""
    names = {"runId": "run_id", "agentId": "agent_id", "intentSummary": "intent_summary"}
    content = {name: told[column] for name, column in names.items()} | {"schemaVersion": told["schema_version"]}
    return _hash(content) == str(told["integrity_hash"])


def seal_holds(checkpoint: Content, events: Sequence[Content]) -> bool:
    """Is a checkpoint what was sealed, with the events there were then?

    The events are those before the one that tells of it; it is documented as those up to the event it names.
    """
    told = [event["seq"] for event in events if _tells_of(event, checkpoint["id"])]
    named = [event["seq"] + 1 for event in events if event["id"] == checkpoint["event_id"]]
    return any(_seal(checkpoint, [one for one in events if one["seq"] < end]) for end in (*told, *named))


def _seal(checkpoint: Content, events: Sequence[Content]) -> bool:
    hashes = [
        _hash({"id": one["id"], "seq": one["seq"], "type": one["event_type"], "payload": one["payload_json"]})
        for one in events
    ]
    content = {
        "checkpointId": checkpoint["id"],
        "ledgerId": checkpoint["ledger_id"],
        "eventId": checkpoint["event_id"],
        "resumePacket": _read(checkpoint["resume_packet_json"]),
        "eventHashes": hashes,
    }
    return _hash(content) == str(checkpoint["sealed_hash"])


def _tells_of(event: Content, checkpoint_id: str) -> bool:
    payload = _read(event["payload_json"])
    named = payload.get("checkpointId") if isinstance(payload, dict) else None
    return str(event["event_type"]) == "checkpoint_sealed" and str(named) == checkpoint_id


def _hash(content: Content) -> str:
    """Gives SHA-256 of the JSON with sorted names; numbers and texts are written as JavaScript does."""
    try:
        return sha256(rfc8785.dumps(content)).hexdigest()
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        return ""


# Reading


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """Opens gate.db to be read, and nothing else."""
    if not path.is_file():
        raise Misconfigured(f"there is no file {path}; name gate.db")
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.row_trace = _by_column
            connection.execute(_RUNS)
            for statement in _PARTS.values():  # before anything is taken over, all of it can be read
                connection.execute(statement, ("",))
            with connection:  # everything is read as it was at one moment
                yield connection
        finally:
            connection.close()
    except (apsw.SQLError, apsw.NotADBError) as problem:
        raise Misconfigured(
            f"{path} is no database of zehrava-gate's Run Ledger as it is known here: {problem}"
        ) from problem


def _by_column(cursor: apsw.Cursor, row: tuple[Any, ...]) -> Content:
    names = [name for name, _ in cursor.get_description()]
    return dict(zip(names, row, strict=True))


def runs_in(connection: apsw.Connection) -> list[Content]:
    """Lists the runs, oldest first."""
    return list(connection.execute(_RUNS))


def read_run(connection: apsw.Connection, told: Content) -> GateRun:
    """Reads everything that belongs to a run."""
    parts = {name: list(connection.execute(statement, (told["id"],))) for name, statement in _PARTS.items()}
    return GateRun(told=told, **parts)


# Saying it in our words


def happenings(run: GateRun, seals: Mapping[str, bool]) -> list[Content]:
    """Gives what is told of a run here: its events in their order, then artifacts and checkpoints.

    What only the ledger itself may tell of keeps its name behind `zehrava.`, for it happened elsewhere.
    """
    told = [_event(one) for one in run.events]
    shown = {one["id"] for one in run.events if one["event_type"] == "artifact_created"}
    told += [_artifact(one) for one in run.artifacts if one["event_id"] not in shown]
    return told + [_checkpoint(one, is_whole=seals[one["id"]]) for one in run.checkpoints]


def _event(event: Content) -> Content:
    kind, side_effect = event["event_type"], event["side_effect_class"] or "none"
    is_known = kind in EVENT_TYPES and kind not in BY_THE_LEDGER
    return {
        "event_type": kind if is_known else f"zehrava.{kind}",
        "payload": _payload(_read(event["payload_json"]), event, event["event_ts"]),
        "step": event["step_name"] or None,
        "side_effect": side_effect if side_effect in SIDE_EFFECTS else "external_mutation",
        "side_effect_key": event["side_effect_key"] or None,
        "actor": event["actor_id"] or None,
    }


def _artifact(artifact: Content) -> Content:
    told = {
        "path": artifact["uri_or_path"],
        "type": artifact["artifact_type"],
        "hash": artifact["content_hash"],
        "metadata": _read(artifact["metadata_json"]),
    }
    return {"event_type": "artifact_created", "payload": _payload(told, artifact, artifact["created_at"])}


def _checkpoint(checkpoint: Content, *, is_whole: bool) -> Content:
    told = {
        "checkpointId": checkpoint["id"],
        "eventId": checkpoint["event_id"],
        "reason": checkpoint["checkpoint_reason"],
        "isResumable": bool(checkpoint["is_resumable"]),
        "sealedHash": checkpoint["sealed_hash"],
        "sealHolds": is_whole,
        "resumePacket": _read(checkpoint["resume_packet_json"]),
    }
    payload = _payload(told, checkpoint, checkpoint["created_at"])
    return {"event_type": "zehrava.checkpoint", "payload": payload}


def _payload(payload: Any, told: Content, at: int) -> Content:
    """Adds to a payload what it was called there, and when it happened."""
    content = payload if isinstance(payload, dict) else {"value": payload}
    there = {"id": told["id"], "at": instant(datetime.fromtimestamp(at / 1000, UTC))}
    return {**content, _PERMISSION: there}


def _read(text: str | None) -> Any:
    """Reads JSON; what is none stays the text it is."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


# Taking over


def take_over(ledger: Ledger, connection: apsw.Connection, *, progress: Progress = untold) -> Taking:
    """Takes all runs over; one that cannot be placed is left out and named, and the others come."""
    taking, found = Taking(), runs_in(connection)
    counted = {"runs": 0, "identities": 0, "events": 0, "seals": 0, "checkpoints": 0}
    ended: dict[str, RunStatus] = {}
    for number, told in enumerate(found, start=1):
        try:
            run = read_run(connection, told)
            status = _take_one(ledger, run, taking, counted)
            if status is not None:
                ended[run.id] = status
        except (IndelibleError, OverflowError, OSError) as problem:
            taking.leave_out(str(told["run_id"]), str(problem))
        progress(number, len(found))
    for run_id, status in reversed(ended.items()):  # children first: a parent that has ended is told nothing
        _end(ledger, run_id, status)
    _say_what_holds(taking, counted)
    return taking


def _take_one(ledger: Ledger, run: GateRun, taking: Taking, counted: dict[str, int]) -> RunStatus | None:
    """Take a run over; return how it has to end here, or None if it has not ended or ends no more."""
    seals = {one["id"]: seal_holds(one, run.events) for one in run.checkpoints}
    is_itself = integrity_holds(run.told)
    taking.not_as_written += _what_does_not_hold(run, seals, is_itself=is_itself)
    counted["runs"] += 1
    counted["identities"] += is_itself
    counted["seals"] += sum(seals.values())
    counted["checkpoints"] += len(seals)
    there = ledger._run_desk().keeping.get(run.id)
    if there is None:
        _start(ledger, run, seals)
        taking.became["events"] += len(run.events)
    elif there.permissions.get(_PERMISSION) != run.told["id"]:
        raise BadCall("a run of this name is here already, and is another one")
    status = ENDED.get(run.told["status"])
    taking.became["here already" if there is not None else status or "resumable"] += 1
    return status if there is None or there.status == "blocked" else None


def _end(ledger: Ledger, run_id: str, status: RunStatus) -> None:
    """End a run as it ended there, and let its parent know."""
    run = ledger.get_run(run_id)
    if run is not None and run.parent is not None:
        ledger.record(run.parent, "delegation_finished", {"run": run_id}, side_effect="delegation")
    ledger.end_run(run_id, status, by=_BY, reason=f"it was {status} in zehrava-gate")


def _what_does_not_hold(run: GateRun, seals: Mapping[str, bool], *, is_itself: bool) -> list[str]:
    """Names what of a run is not as it was written."""
    found = [] if is_itself else [f"{run.id}: its name, agent or intent is not what its hash says"]
    numbers = [event["seq"] for event in run.events]
    if numbers != list(range(1, len(numbers) + 1)):
        found.append(f"{run.id}: its events are numbered {_gaps(numbers)}; some are missing or were moved")
    broken = [name for name, holds in seals.items() if not holds]
    return found + [f"{run.id}: checkpoint {name} is not what was sealed; nobody goes on from it" for name in broken]


def _start(ledger: Ledger, run: GateRun, seals: Mapping[str, bool]) -> None:
    """Begins the run, tells everything of it, saves it and lets go of it, all of that or nothing."""
    told, desk = run.told, ledger._run_desk()
    permissions = _read(told["permissions_json"])
    rest = permissions if isinstance(permissions, dict) else {"permissions": permissions}
    parent = desk.keeping.get(told["parent_run_id"]) if told["parent_run_id"] else None
    is_told = parent is not None and parent.status not in OVER and parent.status != HANDED_OVER
    begun = new_run(
        run.id,
        desk.stamp(0).at,
        agent=told["agent_id"],
        intent=told["intent_summary"],
        runtime=told["runtime"] or "zehrava-gate",
        parent=told["parent_run_id"] if is_told else None,
        parent_event=None,
        allowed_tools=None,
        permissions={**rest, _PERMISSION: told["id"]},
        checkpointing=CheckpointRule(),
    )
    last = run.checkpoints[-1] if run.checkpoints else None
    packet = None if last is None or not seals[last["id"]] else _read(last["resume_packet_json"])
    reason = "manual" if last is None else last["checkpoint_reason"]
    suggested = packet.get("suggestedNextAction") if isinstance(packet, dict) else None
    saved = new_checkpoint(
        desk.checkpoint_id(), reason if reason in CHECKPOINT_REASONS else "explicit_handoff", packet, suggested
    )
    there = {"ledgerId": told["id"], "parentRunId": told["parent_run_id"], "status": told["status"]}
    imported = {"event_type": "zehrava.run_imported", "payload": there, "step": told["current_step"] or None}
    said = happenings_of([*happenings(run, seals), imported])
    desk.keeping.start_whole(begun, ledger._mint.token(), said, saved, "taken over from zehrava-gate")


def _gaps(numbers: Sequence[int]) -> str:
    return f"{min(numbers)} to {max(numbers)}, {len(numbers)} of them"


def _say_what_holds(taking: Taking, counted: Mapping[str, int]) -> None:
    taking.verified.append(f"the identity of {counted['identities']} of {counted['runs']} runs is what its hash says")
    taking.verified.append(f"{counted['seals']} of {counted['checkpoints']} checkpoints are what was sealed")
    taking.not_verified.append("who wrote it: its hashes have no key, so whoever edits gate.db can compute them anew")
    taking.not_verified.append("events after the last checkpoint of a run: nothing there commits to them")
