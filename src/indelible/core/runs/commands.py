"""What is asked of the core about runs, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from indelible.core.effects.identity import Ref
from indelible.core.runs.run import Checkpoint, CheckpointReason, Handover, Happening, Run, RunStatus
from indelible.core.stamps import Stamp

SET_BACK = "set_back"
"""Is the code of the refusal to resume a run in a database that was set back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """Begins a run, and drives it.

    A run with a parent is told of by that parent: in the same write, by what `to_parent_json` holds, or before, by the
    event that `run.parent_event` names.
    """

    tenant: str
    stamp: Stamp
    run: Run
    token: str = field(repr=False)
    lease: timedelta
    to_parent_json: bytes | None = field(default=None, repr=False)

    @property
    def run_id(self) -> str:
        """Names the run."""
        return self.run.id

    @property
    def telling(self) -> Tell | None:
        """Is what the parent's record is told in the same write; None when there is nothing to tell."""
        if self.run.parent is None or self.to_parent_json is None:
            return None
        told = Happening(type="delegation_started", payload_json=self.to_parent_json, side_effect="delegation")
        return Tell(tenant=self.tenant, run_id=self.run.parent, stamp=self.stamp, happenings=(told,))

    @property
    def ref(self) -> Ref:
        """Is a place where no effect can be: no key is empty."""
        return Ref(self.tenant, self.run_id, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutRun:
    """Is what all commands about a run that is there have; with a token, only from who drives it."""

    tenant: str
    run_id: str
    stamp: Stamp
    token: str | None = field(default=None, repr=False)

    @property
    def ref(self) -> Ref:
        """Is a place where no effect can be: no key is empty."""
        return Ref(self.tenant, self.run_id, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell(AboutRun):
    """Records what happened in a run, all of it or nothing; a side effect told before is told as skipped."""

    happenings: tuple[Happening, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCheckpoint:
    """Says what a checkpoint to be sealed holds; without `at` it is of the latest event."""

    id: str
    reason: CheckpointReason
    state_json: bytes | None = field(default=None, repr=False)
    suggested: str | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SealCheckpoint(AboutRun):
    """Saves a run at one of its events."""

    checkpoint: NewCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeRun(AboutRun):
    """Takes the right to drive a run that nobody drives, and goes on with it from a checkpoint or from its events.

    `token` is the new driver's. `is_forced` also takes a run that was set aside for a person to look at.
    """

    lease: timedelta
    checkpoint_id: str | None = None
    is_forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRun(AboutRun):
    """Ends a run or sets it aside, with a checkpoint before if there is something to save; its driver lets go."""

    status: RunStatus
    reason_json: bytes = field(repr=False)
    checkpoint: NewCheckpoint | None = None
    handover: Handover | None = None
    """Where it goes on, for the status `handed_over` alone."""
    takes_back: bool = False
    """Take a run back, as `blocked`, that was handed over and that the other ledger never imported."""
    is_forced: bool = False
    """Take it back before its packet has become useless, because a person knows that nobody imports it."""


RunCommand = StartRun | Tell | SealCheckpoint | TakeRun | EndRun


@dataclass(frozen=True, slots=True)
class Told:
    """Is one event that came of a command: its number, its type, and whether it was recorded or skipped."""

    seq: int
    type: str
    status: str


@dataclass(frozen=True, slots=True)
class RunMoved:
    """The command about a run was carried out; this is how it stands, and what was told."""

    run: Run | None
    told: tuple[Told, ...] = ()
    fence: int = 0
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class RunNotMoved:
    """The command about a run was refused; `code` is one word for programs."""

    code: str
    why: str
    run: Run | None = None


RunAnswer = RunMoved | RunNotMoved
