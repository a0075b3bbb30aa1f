"""Turns what a caller says about runs into what is kept of them; both ledgers have one beside their desk."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from indelible.core.approvals.edits import stands_for
from indelible.core.commands import Record
from indelible.core.effects.calls import OptionWords, ToolCall, check_name
from indelible.core.effects.effect import Actor, Effect
from indelible.core.effects.requests import Walk
from indelible.core.events import facts_json
from indelible.core.runs.diff import RunDifference, compare
from indelible.core.runs.resuming import PACKET_EXPORTED, Packet, ResumeContext, read_packet, why_not_imported
from indelible.core.runs.run import (
    HANDED_OVER,
    IMPORTED_FROM,
    OVER,
    RUN_STATUSES,
    Checkpoint,
    CheckpointReason,
    CheckpointRule,
    Fork,
    Handover,
    Run,
    RunStatus,
)
from indelible.core.stamps import Stamp
from indelible.core.values.canonical import encode
from indelible.engine.heartbeats import Heartbeats
from indelible.errors import BadCall, RunOver, RunRefused
from indelible.forks import after_fork
from indelible.journal.sealing import receipt_of
from indelible.runs.active import ActiveRun
from indelible.runs.asking import Asking
from indelible.runs.compensating import Compensation, compensating, compensations_of
from indelible.runs.keeping import RunKeeping, new_checkpoint
from indelible.runs.packets import check_packet, opened_packet, told_again, write_packet
from indelible.runs.telling import happenings_of, new_run

if TYPE_CHECKING:
    from indelible.engine.desk import Desk

LEASE = timedelta(seconds=30)
VALID = timedelta(days=7)
"""Is for how long a packet may be imported, unless told otherwise."""
LONGEST_VALID = timedelta(days=366)
_TURN: OptionWords = {"side_effect": "read", "on_crash": "retry"}
_PACKET = "packet"
"""Names, among what a run may do, the packet that it was imported from."""


class Seat(NamedTuple):
    """Is the right to drive a run, as it was taken; `since` is when, by this process's own clock, at the latest."""

    run: Run
    token: str
    fence: int
    lease: timedelta
    since: float
    context: ResumeContext | None = None


class RunsDesk:
    """Knows the runs that this process drives, and prepares everything that is said about runs."""

    def __init__(self, desk: Desk, actor: Actor) -> None:
        self._desk = desk
        self._engine = desk._engine
        self.tenant = desk.tenant
        self._actor = actor
        self.keeping = RunKeeping(self._engine, desk.tenant, actor, desk._opened_run_value, desk._run_redactor)
        self.driven: dict[str, ActiveRun] = {}
        self._seats: Heartbeats[ActiveRun] = Heartbeats(lambda run, lease: run.beat(lease))
        after_fork(self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """Forget what is driven: one process drives a run, and a forked child is another one."""
        for run in self.driven.values():
            run._leave_to_parent()
        self.driven.clear()

    def acting_as(self, actor: Actor) -> RunsDesk:
        """Gives the same desk, at which somebody else acts."""
        other = copy(self)
        other._actor = actor
        other.keeping = self.keeping.acting_as(actor)
        return other

    @property
    def most_bytes(self) -> int | None:
        """Is how large a value from outside may be, if that is limited."""
        return self._desk._max_result_bytes

    def stamp(self, values: int) -> Stamp:
        """Gives the time now, by whoever this ledger acts as."""
        return self._engine.mint.stamp(self._actor, values)

    def checkpoint_id(self) -> str:
        """Gives a new checkpoint its name."""
        return self._engine.mint.new_id("ckpt")

    def run_id(self) -> str:
        """Gives a new run its name."""
        return self._engine.mint.new_id("run")

    # Beginning

    def start_run(
        self, run_id: str | None = None, *, state: Callable[[], Any] | None = None, **words: Any
    ) -> ActiveRun:
        """Begins a run and drives it; the words are those of `begin`."""
        return self._drive(self.begin(run_id, **words), state)

    def begin(
        self,
        run_id: str | None = None,
        *,
        agent: str,
        intent: str = "",
        runtime: str = "indelible",
        parent: str | None = None,
        parent_event: str | None = None,
        allowed_tools: Sequence[str] | None = None,
        permissions: Mapping[str, Any] | None = None,
        checkpointing: CheckpointRule | None = None,
        lease: timedelta = LEASE,
        fork: Fork | None = None,
        token: str | None = None,
    ) -> Seat:
        """Begins a run, and gives the right to drive it; whoever names the token can ask twice."""
        run = new_run(
            run_id or self.run_id(),
            self.stamp(0).at,
            agent=agent,
            intent=intent,
            runtime=runtime,
            parent=parent,
            parent_event=parent_event,
            allowed_tools=allowed_tools,
            permissions=permissions,
            checkpointing=checkpointing or CheckpointRule(),
            fork=fork,
        )
        token = token or self._engine.mint.token()
        since = time.monotonic()
        moved = self.keeping.start(run, token, lease)
        assert moved.run is not None, "a run that was started is there"
        return self._seated(Seat(moved.run, token, moved.fence, lease, since))

    def resume_run(self, run_id: str, *, state: Callable[[], Any] | None = None, **words: Any) -> ActiveRun:
        """Takes a run over that nobody drives, and drives it; the words are those of `take_over`."""
        return self._drive(self.take_over(run_id, **words), state)

    def take_over(
        self,
        run_id: str,
        *,
        checkpoint: str | None = None,
        lease: timedelta = LEASE,
        force: bool = False,
        token: str | None = None,
    ) -> Seat:
        """Takes the right to drive a run that nobody drives, and gives what it is gone on with."""
        check_name("run_id", run_id)
        token = token or self._engine.mint.token()
        context, since = self.keeping.resume(run_id, token, lease, checkpoint, is_forced=force)
        return self._seated(Seat(context.run, token, context.fence, lease, since, context))

    def fork_run(
        self, run_id: str, *, at: int | None = None, new_id: str | None = None, dry_run: bool = True
    ) -> ActiveRun:
        """Begins a run in which the effects of another one replay, and drives it."""
        return self._drive(self.begin_fork(run_id, at=at, new_id=new_id, dry_run=dry_run))

    def begin_fork(
        self,
        run_id: str,
        *,
        at: int | None = None,
        new_id: str | None = None,
        dry_run: bool = True,
        lease: timedelta = LEASE,
        token: str | None = None,
    ) -> Seat:
        """Begins a run in which the effects of another one, up to one of its events, replay from the record."""
        origin = self.keeping.find(run_id)
        story = self.keeping.story(run_id)
        last = story.head.length - 1
        if at is not None and not 0 <= at <= last:
            raise BadCall(f"run {run_id} has no event with seq {at}; its last has {last}")
        fork = Fork(run_id=run_id, at=last if at is None else at, is_dry=dry_run)
        return self.begin(
            new_id,
            agent=origin.agent,
            intent=origin.intent,
            runtime=origin.runtime,
            allowed_tools=origin.allowed_tools,
            permissions=origin.permissions,
            lease=lease,
            fork=fork,
            token=token,
        )

    def _seated(self, seat: Seat) -> Seat:
        if seat.run.allowed_tools is not None or seat.run.fork is not None:
            self._engine.judging.forget()  # it may have looked before the run had limits
        return seat

    def go_on(self, run: Run) -> ActiveRun:
        """Resume a run; if it has ended, give it as it is: its calls replay, and there are no others."""
        if run.status not in OVER:
            return self.resume_run(run.id)
        words: Any = {"token": self._engine.mint.token(), "fence": 0, "lease": LEASE, "since": time.monotonic()}
        self.driven[run.id] = ended = ActiveRun(self, self.keeping, run, **words, is_replay=True)
        return ended

    def _drive(self, seat: Seat, state: Callable[[], Any] | None = None) -> ActiveRun:
        run, token, fence, lease, since, context = seat
        active = ActiveRun(
            self, self.keeping, run, token=token, fence=fence, lease=lease, since=since, context=context, state=state
        )
        self.driven[run.id] = active
        self._seats.keep(active, lease)
        return active

    def let_go(self, run: ActiveRun) -> None:
        """Forgets a run that this process drives no longer."""
        self._seats.drop(run)
        if self.driven.get(run.id) is run:
            del self.driven[run.id]

    def lose(self, run: ActiveRun) -> None:
        """Stops keeping a run alive; whoever still calls tools for it here is asked for a right that may be gone."""
        self._seats.drop(run)

    def close(self) -> None:
        """Stops keeping runs alive; those that were not ended can be resumed when their leases are over."""
        self._seats.close()

    # By hand, whoever drives

    def checkpoint(
        self, run_id: str, state: Any, reason: CheckpointReason, suggested: str | None, at: int | None
    ) -> Checkpoint:
        """Seals a run."""
        return self.keeping.seal(run_id, None, new_checkpoint(self.checkpoint_id(), reason, state, suggested, at))

    def end_run(self, run_id: str, status: RunStatus, by: Actor, reason: str) -> Run:
        """Ends a run or sets it aside."""
        if status not in RUN_STATUSES or status in ("active", HANDED_OVER):
            known = [one for one in RUN_STATUSES if one not in ("active", HANDED_OVER)]
            raise BadCall(f"status={status!r}: choose one of {', '.join(known)}")
        return self.keeping.end(run_id, None, status, reason, by=by)

    # Model turns

    def drive_turn(self, turn: ToolCall, asking: Asking) -> Any:
        """Asks a model once."""
        with asking.raising_own():
            return self._engine.drive(self._desk._running(turn, asking.handler, _TURN), asking.handler)["answer"]

    async def drive_turn_async(self, turn: ToolCall, asking: Asking) -> Any:
        """Asks a model once, from a task."""
        with asking.raising_own():
            walk = self._desk._running(turn, asking.handler, _TURN)
            return (await self._engine.drive_async(walk, asking.handler))["answer"]

    # Making good

    def compensations(self, run_id: str) -> list[Compensation]:
        """List what would make a run's effects good, the one that started last first."""
        return list(compensations_of(self._desk, reversed(self.keeping.effects_of(run_id, by="started"))))

    def compensating(self, one: Compensation) -> Walk:
        """Gives the walk that makes one effect good, and says what came of it."""
        return compensating(self._desk, one)

    # Comparing

    def diff(self, left: str, right: str) -> list[RunDifference]:
        """Compares the tool calls of two runs; those that a fork replays from another run are its own too."""
        return compare(self._calls_of(left), self._calls_of(right))

    def _calls_of(self, run_id: str, up_to: int | None = None) -> list[Effect]:
        run = self.keeping.get(run_id)
        fork = None if run is None else run.fork
        before = [] if fork is None else self._calls_of(fork.run_id, fork.at)
        own = self.keeping.effects_of(run_id, by="called")
        calls = [one for one in own if stands_for(one) is None]  # a place that an edit took is no call
        return before + [one for one in calls if up_to is None or one.opened_seq <= up_to]

    # Packets

    def export_packet(
        self, run_id: str, path: str | Path | None, to: str | None = None, valid: timedelta = VALID
    ) -> dict[str, Any]:
        """Return the packet of a run with the proof that this ledger made it; write it to a file if one is named.

        The run is handed over first, then the packet is made: whatever happens in between, nothing of it runs here.
        The packet is made where the ledger is: through a server, by the server, from what it finds in the record.
        """
        if to is not None:
            self._hand_over(run_id, to, valid)
        elsewhere: Callable[[str, str], bytes] | None = getattr(self._engine.store, "packet", None)
        written = self.signed_packet(run_id) if elsewhere is None else elsewhere(self.tenant, run_id)
        if path is not None:
            write_packet(Path(path), written + b"\n")
        content: dict[str, Any] = json.loads(written)  # as others read it: what JSON cannot say is tagged
        return content

    def _hand_over(self, run_id: str, to: str, valid: timedelta) -> None:
        name = to.partition("+")[0]  # a public key begins with the name of its journal
        check_name("to", name)
        if name == self._engine.store.origin(self.tenant):
            raise BadCall(f"to={name!r} is this ledger; name the journal of the one that goes on, its journal_name")
        if not timedelta(0) < valid <= LONGEST_VALID:
            raise BadCall(f"valid={valid}: longer than nothing and at most {LONGEST_VALID.days} days")
        until = self._engine.store.look([]).now + valid
        self.keeping.hand_over(run_id, Handover(to=name, until=until), f"handed over to {name}")
        active = self.driven.get(run_id)
        if active is not None:
            active._give_up()  # so the end of its block ends nothing

    def take_back(self, run_id: str, by: Actor, reason: str, *, force: bool) -> Run:
        """Take a run back that the other ledger never imported."""
        return self.keeping.take_back(run_id, reason, by, is_forced=force)

    def signed_packet(self, run_id: str) -> bytes:
        """Makes the packet of a run, tells its hash on the record, and gives it with the proof of that."""
        before = self.keeping.find(run_id)
        packet = self.keeping.packet(run_id)
        command = Record(
            tenant=self.tenant,
            run_id=run_id,
            stamp=self.stamp(0),
            event_type=PACKET_EXPORTED,
            facts=facts_json({"packet": packet.digest}),
        )
        recorded = self._engine.write_alone(command)
        seq: int = recorded.seq  # type: ignore[union-attr]  # a Record without a sheet is always recorded
        self._desk._await_sealed(run_id, seq)
        event = self._engine.store.events(self.tenant, run_id, seq - 1, 1)[0]
        if self.keeping.find(run_id).handover != before.handover:  # taken back meanwhile: nobody may import this one
            raise RunRefused(
                f"run {run_id} was handed over or taken back while its packet was made; export it again", code="moved"
            )
        signed = {
            "event": b64encode(event.body).decode("ascii"),
            "packet": dict(packet.content),
            "receipt": str(receipt_of(self._engine.recorded, self.tenant, run_id, seq)),
        }
        return encode(signed, root="packet")

    def import_packet(self, named: Mapping[str, Any] | str | Path, key: str | None, *, trust: bool) -> Run:
        """Takes a run over from another ledger: its effects replay here, and it can be resumed.

        Its effects come first, some at a time: without the run they do no harm. Then the run comes whole, in one
        transaction. Whoever is stopped in between imports the same packet again.
        """
        signed = opened_packet(named)
        if key is not None:
            check_packet(signed, key)
        elif not trust:
            raise BadCall("name the key of the ledger the packet comes from, or say that you trust it as it is")
        packet = read_packet(signed["packet"], self.stamp(0).at)
        self.keeping.check_tenant(packet)
        there = self.keeping.get(packet.content["runId"])
        if there is not None and there.permissions.get(_PACKET) == packet.digest:
            return there  # it was imported before
        self._refuse_import(packet.content, there)
        return self._adopt(packet)

    def _adopt(self, packet: Packet) -> Run:
        content = packet.content
        told, run_id = content["run"], content["runId"]
        origin = {"head": content["head"], "ledger": content["ledgerId"], "packet": packet.digest, "run": run_id}
        run = new_run(
            run_id,
            self.stamp(0).at,
            agent=told["agentId"],
            intent=told["intentSummary"],
            runtime=told["runtime"],
            parent=None,
            parent_event=None,
            allowed_tools=None,
            permissions={**told["permissions"], _PACKET: packet.digest, IMPORTED_FROM: content["ledgerId"]},
            checkpointing=CheckpointRule(),
        )
        imported = {"event_type": "indelible.packet_imported", "payload": origin, "step": content["currentStep"]}
        happenings = happenings_of([*told_again(packet), imported])
        suggested = content["suggestedNextAction"]
        saved = new_checkpoint(self.checkpoint_id(), "explicit_handoff", content["state"], suggested)
        self.keeping.adopt(packet, origin)
        taken = self.keeping.start_whole(run, self._engine.mint.token(), happenings, saved, "imported from a packet")
        self._engine.judging.forget()  # it may have looked before the run had limits
        return taken

    def _refuse_import(self, content: Mapping[str, Any], there: Run | None) -> None:
        store = self._engine.store
        check = store.forgetting.redaction_check()
        refusal = why_not_imported(content, store.origin(self.tenant), store.look([]).now, check)
        if refusal is not None and there is None:
            raise RunRefused(refusal[1], code=refusal[0])
        run_id, status = content["runId"], content["run"]["status"]
        if there is not None:
            raise RunRefused(f"run {run_id} is here already and {there.status}; resume it", code="exists", run=there)
        if status in OVER:
            raise RunOver(f"run {run_id} is {status}; there is nothing to go on with", code="over")
