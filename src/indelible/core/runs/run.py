"""Runs: pieces of agent work across restarts, who drives them, and where they were saved.

A run's own state is little: who works on what, with which permissions, and how it stands. Everything else, such as the
step it is at or what it has done, is told by its events and read from them. One process at a time drives a run; its
right to is a lease, which is an aid and no evidence: the events tell who took it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from indelible.core.effects.calls import OWN_RUNS, SIDE_EFFECTS, SideEffect, check_name
from indelible.core.effects.effect import hash_of
from indelible.core.effects.identity import hashed
from indelible.core.events import instant
from indelible.core.sheets import Sheet, SheetRef, body_of
from indelible.errors import BadCall

RunStatus = Literal[
    "active", "blocked", "completed", "failed", "manual_review_required", "canceled", "handed_over", "open"
]
UNSTARTED: Literal["open"] = "open"
"""Is the status of a run that was never started: its id only groups calls and events, and nothing ends it."""
RUN_STATUSES: tuple[RunStatus, ...] = tuple(status for status in get_args(RunStatus) if status != UNSTARTED)
"""Are the statuses of runs that were started."""
OVER: frozenset[RunStatus] = frozenset({"completed", "canceled"})
"""Are the statuses from which no run goes on; one that failed may be resumed."""

HANDED_OVER: RunStatus = "handed_over"
"""Is the status of a run that another ledger goes on with: nothing of it runs here any more."""

LIMITED = "active"
"""Is the status of what says that a run is limited."""

IMPORTED_FROM = "packet_from"
"""Names, among what a run may do, the ledger that it was imported from."""

PROGRESS = frozenset(
    {
        "plan_locked",
        "tool_call_finished",
        "artifact_created",
        "policy_checked",
        "approval_received",
        "execution_succeeded",
        "delegation_finished",
        "run_completed",
    }
)
"""Are the events that tell of work done: only they move the last safe event."""
EVENT_TYPES = PROGRESS | {
    "run_started",
    "tool_call_started",
    "intent_proposed",
    "approval_requested",
    "execution_requested",
    "delegation_started",
    "checkpoint_sealed",
    "interruption_detected",
    "run_resumed",
    "run_failed",
}
BY_THE_LEDGER = frozenset({"run_started", "checkpoint_sealed", "run_resumed", "run_failed", "run_completed"})
"""Are the events that come with a change of the run, and are not recorded by hand."""
# A second execution of these harms somebody, so their keys block it.
NOT_REPLAYABLE: frozenset[SideEffect] = frozenset({"external_mutation", "payment", "notification"})

CheckpointReason = Literal[
    "interruption", "failure", "approval_requested", "explicit_handoff", "periodic_safety", "risky_boundary", "manual"
]
CHECKPOINT_REASONS: tuple[CheckpointReason, ...] = get_args(CheckpointReason)

SIDE_EFFECT_TAG = b"indelible/mark/v1\0"
SCHEMA_VERSION = 1
_OWN_TYPE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRule:
    """Says when checkpoints are sealed without being asked for; None and False mean never."""

    every_progress: int | None = None
    every: timedelta | None = None
    before_risky: bool = False

    def __post_init__(self) -> None:
        if self.every_progress is not None and self.every_progress < 1:
            raise BadCall("checkpoint every 1 or more progress events")
        if self.every is not None and self.every <= timedelta(0):
            raise BadCall("checkpoint every so often, for example every=timedelta(minutes=5)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Says which run another one was forked from, and up to which of its events its effects are replayed."""

    run_id: str
    at: int
    is_dry: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Says to which ledger a run was handed over, and until when that ledger may import it.

    Attributes:
        to: The name of the journal of the other ledger, such as `ledger-0123456789ab/default`.
        until: When the packet becomes useless, by the clock of the other ledger.
    """

    to: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Is one piece of agent work: who does what, under which permissions, and how it stands.

    `allowed_tools` None lets it use every tool. `parent` and `parent_event` name the run that delegated it and the
    event that says so. A run that was never started is `open`: its version is 0, and its agent and intent are empty.
    """

    id: str
    version: int = 1
    status: RunStatus = "active"
    agent: str
    intent: str = ""
    runtime: str = "indelible"
    parent: str | None = None
    parent_event: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    permissions: Mapping[str, Any] = field(default_factory=dict)
    checkpointing: CheckpointRule = field(default_factory=CheckpointRule)
    fork: Fork | None = None
    handover: Handover | None = None
    created_at: datetime
    updated_at: datetime
    seq: int | None = None
    """Is the event that told of this state."""
    unread: Literal["erased", "altered"] | None = None
    """Says why only what its events tell in clear is known of it."""

    @property
    def imported_from(self) -> str | None:
        """Return the ledger that handed this run over, or None if it was started here."""
        return self.permissions.get(IMPORTED_FROM)

    def moved(self, status: RunStatus, at: datetime) -> Run:
        """Gives the run one change later."""
        return replace(self, version=self.version + 1, status=status, updated_at=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Is the right to drive a run, for a while; `fence` counts who had it."""

    run_id: str
    version: int = 1
    fence: int
    token_hash: str = field(repr=False)
    holder: str
    until: datetime
    is_released: bool = False

    def is_live(self, now: datetime) -> bool:
        """Does somebody drive the run now?"""
        return not self.is_released and now < self.until

    def is_held_by(self, token_hash: str) -> bool:
        """Has whoever has this token taken it last, and not let go of it?"""
        return not self.is_released and self.token_hash == token_hash

    def seen_by(self, token_hash: str) -> Driver:
        """Gives it as whoever has this token knows it, though it was shown as others see it."""
        return replace(self, token_hash=token_hash) if self.token_hash == hash_of(token_hash) else self

    def kept(self, until: datetime) -> Driver:
        """Gives it for longer."""
        return replace(self, version=self.version + 1, until=until)

    def released(self) -> Driver:
        """Gives it back."""
        return replace(self, version=self.version + 1, is_released=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Is a run saved at one of its events: the event that seals it commits to this and to the agent's own state."""

    id: str
    run_id: str
    at: int
    reason: CheckpointReason
    suggested: str | None
    has_state: bool
    created_at: datetime
    seq: int | None = None
    """Is the event that seals it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Is something that somebody tells of a run by hand."""

    type: str
    payload_json: bytes | None = field(default=None, repr=False)
    step: str | None = None
    side_effect: SideEffect = "none"
    side_effect_key: str | None = None
    said_by: str | None = None

    def __post_init__(self) -> None:
        check_type(self.type)
        if self.side_effect not in SIDE_EFFECTS:
            raise BadCall(f"side_effect={self.side_effect!r}: choose one of {', '.join(SIDE_EFFECTS)}")
        for what, name in (("step", self.step), ("side_effect_key", self.side_effect_key), ("actor", self.said_by)):
            if name is not None:
                check_name(what, name)


def check_type(event_type: str) -> None:
    """Raises `BadCall` unless this type may be recorded by hand: one of the known, or one's own with a namespace."""
    if event_type in BY_THE_LEDGER:
        verb = {"run_failed": "fail", "run_completed": "complete", "checkpoint_sealed": "checkpoint"}
        raise BadCall(f"{event_type!r} is told by the ledger itself: use run.{verb.get(event_type, 'start')}()")
    if event_type not in EVENT_TYPES and not _OWN_TYPE.fullmatch(event_type):
        raise BadCall(
            f"{event_type!r} is no type of event: choose one of {', '.join(sorted(EVENT_TYPES - BY_THE_LEDGER))}, or "
            "one of your own with a namespace, as in 'acme.lead_scored'"
        )


def side_effect_key(action: str, target: str, payload_hash: str) -> str:
    """Gives the key by which a side effect that is recorded by hand is known again.

    SHA-256 of the canonical JSON object of the three, as others compute it too.
    """
    from hashlib import sha256

    from indelible.core.values.canonical import encode

    return sha256(encode({"action": action, "payloadHash": payload_hash, "target": target})).hexdigest()


# On sheets


def is_limited(run: Run) -> bool:
    """Return whether a run says which tools may be called in it, or where its calls may stand already."""
    return run.allowed_tools is not None or run.fork is not None


def limit_ref(run_id: str) -> SheetRef:
    """Locates what says that a run limits its calls: there from its start on, or never."""
    return SheetRef("limit", run_id)


def fence_ref(run_id: str) -> SheetRef:
    """Locate what keeps calls of a run from being entered here because another ledger goes on with it.

    Its kind is that of limits, of which a write sees by itself that there is none. No run of a caller has such a name.
    """
    return SheetRef("limit", f"{OWN_RUNS}handed-over:{run_id}")


def delegated_ref(run_id: str) -> SheetRef:
    """Locate what says that a run has delegated, so that it is not handed over; its kind is that of limits too."""
    return SheetRef("limit", f"{OWN_RUNS}delegated:{run_id}")


def fenced_to(sheet: Sheet | None) -> str | None:
    """Return the ledger that a fence says goes on with the run, or None if none does."""
    return None if sheet is None or sheet.status != HANDED_OVER else str(sheet.read()["to"])


def run_ref(run_id: str) -> SheetRef:
    """Locates a run."""
    return SheetRef("run", run_id)


def driver_ref(run_id: str) -> SheetRef:
    """Locates the right to drive a run."""
    return SheetRef("driver", run_id)


def checkpoint_ref(checkpoint_id: str) -> SheetRef:
    """Locates a checkpoint."""
    return SheetRef("checkpoint", checkpoint_id)


def mark_ref(run_id: str, key: str) -> SheetRef:
    """Locates the note that a side effect of a run was recorded; the key itself stays on the record only."""
    return SheetRef("mark", hashed(SIDE_EFFECT_TAG, run_id, key))


def run_sheet(run: Run) -> Sheet:
    """Writes a run on its sheet."""
    rule, fork = run.checkpointing, run.fork
    content = {
        "agent": run.agent,
        "allowed_tools": None if run.allowed_tools is None else list(run.allowed_tools),
        "checkpointing": {
            "before_risky": rule.before_risky,
            "every": None if rule.every is None else rule.every // timedelta(microseconds=1),
            "every_progress": rule.every_progress,
        },
        "created_at": instant(run.created_at),
        "fork": None if fork is None else {"at": fork.at, "is_dry": fork.is_dry, "run": fork.run_id},
        "intent": run.intent,
        "parent": run.parent,
        "parent_event": run.parent_event,
        "permissions": dict(run.permissions),
        "runtime": run.runtime,
        "status": run.status,
        "updated_at": instant(run.updated_at),
        "v": 1,
    }
    if run.handover is not None:
        content["handover"] = {"to": run.handover.to, "until": instant(run.handover.until)}
    return Sheet(
        kind="run",
        id=run.id,
        version=run.version,
        status=run.status,
        topic=run.agent,
        body=body_of(content),
        created_at=run.created_at,
    )


def read_run(sheet: Sheet) -> Run:
    """Reads a run from its sheet."""
    content = sheet.read()
    rule, fork, allowed = content["checkpointing"], content["fork"], content["allowed_tools"]
    handed = content.get("handover")
    return Run(
        id=sheet.id,
        version=sheet.version,
        status=content["status"],
        agent=content["agent"],
        intent=content["intent"],
        runtime=content["runtime"],
        parent=content["parent"],
        parent_event=content["parent_event"],
        allowed_tools=None if allowed is None else tuple(allowed),
        permissions=content["permissions"],
        checkpointing=CheckpointRule(
            every_progress=rule["every_progress"],
            every=None if rule["every"] is None else timedelta(microseconds=rule["every"]),
            before_risky=rule["before_risky"],
        ),
        fork=None if fork is None else Fork(run_id=fork["run"], at=fork["at"], is_dry=fork["is_dry"]),
        handover=None if handed is None else Handover(to=handed["to"], until=datetime.fromisoformat(handed["until"])),
        created_at=datetime.fromisoformat(content["created_at"]),
        updated_at=datetime.fromisoformat(content["updated_at"]),
        seq=sheet.seq,
    )


def left_of_run(sheet: Sheet, started: Mapping[str, Any], newest: Mapping[str, Any], *, is_erased: bool) -> Run:
    """Gives what its events tell in clear of a run that was erased or altered: its name, how it stands, since when."""
    unread: Literal["erased", "altered"] = "erased" if is_erased else "altered"
    told = started.get("facts", {})
    return Run(
        id=sheet.id,
        version=sheet.version,
        status=sheet.status,  # type: ignore[arg-type]  # the sheet of a run has no other
        agent=sheet.topic,
        intent=f"({unread})",
        runtime=f"({unread})",
        parent=told.get("parent"),
        parent_event=told.get("parent_event"),
        created_at=datetime.fromisoformat(started["at"]),
        updated_at=datetime.fromisoformat(newest["at"]),
        seq=sheet.seq,
        unread=unread,
    )


def unstarted_run(sheet: Sheet) -> Run:
    """Return a run that was never started, from a sheet that no event wrote: its body is the run's newest event."""
    assert sheet.created_at is not None, "a store knows since when a run has events"
    return Run(
        id=sheet.id,
        version=0,
        status=UNSTARTED,
        agent="",
        runtime="",
        created_at=sheet.created_at,
        updated_at=_told_at(sheet.body) or sheet.created_at,
        seq=sheet.seq,
    )


def _told_at(event: bytes | None) -> datetime | None:
    """Return when an event says that it happened, or None if it was altered."""
    try:
        return datetime.fromisoformat(json.loads(event or b"")["at"])
    except (ValueError, KeyError, TypeError):
        return None


def driver_sheet(driver: Driver) -> Sheet:
    """Writes the right to drive a run on its sheet."""
    content = {"fence": driver.fence, "holder": driver.holder, "token_hash": driver.token_hash}
    return Sheet(
        kind="driver",
        id=driver.run_id,
        version=driver.version,
        status="released" if driver.is_released else "driving",
        topic=driver.holder,
        due_at=driver.until,
        body=body_of(content),
    )


def hidden_driver(sheet: Sheet) -> Sheet:
    """Gives the sheet of a driver as others may see it: who has the token knows it again, and nobody can use it."""
    driver = read_driver(sheet)
    return replace(driver_sheet(replace(driver, token_hash=hash_of(driver.token_hash))), status=sheet.status)


def read_driver(sheet: Sheet) -> Driver:
    """Reads the right to drive a run from its sheet."""
    content = sheet.read()
    assert sheet.due_at is not None, "a lease has an end"
    return Driver(
        run_id=sheet.id,
        version=sheet.version,
        fence=content["fence"],
        token_hash=content["token_hash"],
        holder=content["holder"],
        until=sheet.due_at,
        is_released=sheet.status == "released",
    )


def checkpoint_sheet(checkpoint: Checkpoint) -> Sheet:
    """Writes a checkpoint on its sheet."""
    content = {
        "at": checkpoint.at,
        "created_at": instant(checkpoint.created_at),
        "has_state": checkpoint.has_state,
        "reason": checkpoint.reason,
        "run": checkpoint.run_id,
        "suggested": checkpoint.suggested,
        "v": 1,
    }
    return Sheet(kind="checkpoint", id=checkpoint.id, status="sealed", topic=checkpoint.run_id, body=body_of(content))


def read_checkpoint(sheet: Sheet) -> Checkpoint:
    """Reads a checkpoint from its sheet."""
    content = sheet.read()
    return Checkpoint(
        id=sheet.id,
        run_id=content["run"],
        at=content["at"],
        reason=content["reason"],
        suggested=content["suggested"],
        has_state=content["has_state"],
        created_at=datetime.fromisoformat(content["created_at"]),
        seq=sheet.seq,
    )
