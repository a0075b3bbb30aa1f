"""What is sent about runs, as far as its shape says whether it can be meant."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from indelible.core.effects.calls import SideEffect
from indelible.core.runs.run import CheckpointReason
from indelible.server.requests.strict import CheckedName, DriverToken, RunName, Seq
from indelible.server.shapes.effects import Sent, Text

LeaseSeconds = Annotated[float, Field(ge=0.001, le=86_400, allow_inf_nan=False)]
MOST_EVENTS = 256
"""Is how many events are recorded at once, all of them or none."""


class StartedRun(Sent):
    """Says which run to begin."""

    run_id: RunName | None = None
    agent: CheckedName
    intent: Text = ""
    runtime: Text = "indelible"
    parent: CheckedName | None = None
    allowed_tools: list[CheckedName] | None = None
    permissions: dict[str, Any] = Field(default_factory=dict)
    lease_s: LeaseSeconds = 30
    token: DriverToken | None = None


class ToldEvent(Sent):
    """Says what happened; `said_by` is who did it, by the word of whoever sends this."""

    type: CheckedName
    payload: Any = None
    step: CheckedName | None = None
    side_effect: SideEffect = "none"
    side_effect_key: CheckedName | None = None
    said_by: CheckedName | None = None

    def words(self) -> dict[str, Any]:
        """Gives it in the words of the ledger's `record`."""
        told = self.model_dump(exclude={"type", "said_by"})
        return {**told, "event_type": self.type, "actor": self.said_by}


class ToldEvents(Sent):
    """Says what happened, all of which is recorded or nothing."""

    events: Annotated[list[ToldEvent], Field(min_length=1, max_length=MOST_EVENTS)]
    token: DriverToken | None = None


class AskedCheckpoint(Sent):
    """Says what to save; without `at`, at the latest event."""

    state: Any = None
    reason: CheckpointReason = "manual"
    suggested: Text | None = None
    at: Seq | None = None
    token: DriverToken | None = None


class AskedResume(Sent):
    """Says where to go on from; without a checkpoint, from the newest."""

    checkpoint: CheckedName | None = None
    force: bool = False
    lease_s: LeaseSeconds = 30
    token: DriverToken | None = None


class AskedFork(Sent):
    """Says up to which event the other run's effects replay; without `at`, all."""

    at: Seq | None = None
    run_id: RunName | None = None
    dry_run: bool = True
    lease_s: LeaseSeconds = 30
    token: DriverToken | None = None


class KeptSeat(Sent):
    """Says who goes on driving, and for how long."""

    token: DriverToken
    lease_s: LeaseSeconds = 30


class ReleasedSeat(Sent):
    """Says who lets go of a run."""

    token: DriverToken


class Ending(Sent):
    """Says why a run ends; `state` is saved with it where it may be resumed."""

    reason: Text
    state: Any = None
    token: DriverToken | None = None


class AskedPacket(Sent):
    """Says which ledger goes on with a run. Without it, the packet is a copy for reading, which no ledger imports."""

    to: CheckedName | None = None
    """The journal name of the other ledger, or its public key. From now on this ledger refuses the run's calls."""
    valid_s: Annotated[int, Field(ge=1, le=31_622_400)] = 604_800
    """For how many seconds the other ledger may import it; by default 7 days."""


class AskedBack(Sent):
    """Says why a person takes a run back that the other ledger never imported."""

    reason: Text
    force: bool = False
    """Take it back although the packet could still be imported: somebody looked, and it is destroyed."""


class SentPacket(Sent):
    """Is a run of another ledger; `key` proves where it comes from, unless it is trusted as it is."""

    packet: dict[str, Any]
    key: str | None = None
    trust: bool = False
