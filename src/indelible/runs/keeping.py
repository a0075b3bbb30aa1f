"""Keeps the runs of one tenant: begins and ends them, tells of them, saves, verifies and reads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple, get_args

from indelible.core.approvals.approval import Approval
from indelible.core.approvals.sheets import read_approval
from indelible.core.commands import Adopt, Answer, Illegal, Keep, Kept
from indelible.core.effects.calls import check_run_id
from indelible.core.effects.effect import SYSTEM, Actor, Effect
from indelible.core.events import NO_EVENTS, Event, Head
from indelible.core.paging import every_event, read_sheet
from indelible.core.ports import Filter
from indelible.core.privacy.redaction import Redactor
from indelible.core.runs.commands import (
    EndRun,
    NewCheckpoint,
    RunCommand,
    RunMoved,
    RunNotMoved,
    SealCheckpoint,
    StartRun,
    TakeRun,
    Tell,
)
from indelible.core.runs.driving import why_unread
from indelible.core.runs.following import Opened, RunEvent, RunStory, by_event
from indelible.core.runs.ordering import Order, in_order
from indelible.core.runs.resuming import Packet, ResumeContext, context_of, packet_of, why_not_carried
from indelible.core.runs.run import (
    HANDED_OVER,
    UNSTARTED,
    Checkpoint,
    CheckpointReason,
    Driver,
    Handover,
    Happening,
    Run,
    RunStatus,
    driver_ref,
    driver_sheet,
    left_of_run,
    read_checkpoint,
    read_driver,
    read_run,
    run_ref,
    unstarted_run,
)
from indelible.core.sheets import Sheet, SheetFilter
from indelible.core.stamps import Stamp
from indelible.core.values.canonical import decode, encode
from indelible.core.values.tags import Encrypted
from indelible.engine.engine import Engine
from indelible.errors import (
    BadCall,
    IllegalMove,
    JournalError,
    NotPermitted,
    ReviewRequired,
    RunDriven,
    RunHandedOver,
    RunLost,
    RunOver,
    RunRefused,
    UnknownCheckpoint,
    UnknownRun,
)
from indelible.runs.reading import RunReading
from indelible.runs.seals import Seal, SealCheck, checkpoint_sheets

_PAGE = 1000
_AT_ONCE = 200  # effects of a packet are taken over in transactions of so many
_FEW = 20
_ANY_RUN = SheetFilter(kind="run", is_by_time=True, with_unstarted=True, limit=1)
_REFUSALS: Mapping[str, type[RunRefused]] = {
    "driven": RunDriven,
    "lost": RunLost,
    "over": RunOver,
    "handed_over": RunHandedOver,
    "review": ReviewRequired,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Says whether a run's record holds together: its chain, its checkpoints, its lineage."""

    run_id: str
    hash: str
    events: int
    broken: str | None
    altered: Sequence[tuple[int, str]]
    seals: Sequence[Seal]
    parent: str | None
    lineage: str | None

    @property
    def is_valid(self) -> bool:
        """Is everything as it should be?"""
        seals_hold = all(seal.is_valid for seal in self.seals)
        return self.broken is None and not self.altered and self.lineage is None and seals_hold


class TakenOver(NamedTuple):
    """Is what a run is gone on with, and since when, by this process's own clock, its lease runs at the latest."""

    context: ResumeContext
    since: float


class RunKeeping:
    """Carries out what both ledgers say about runs; it blocks."""

    def __init__(
        self,
        engine: Engine,
        tenant: str,
        actor: Actor,
        opened: Opened,
        redactor: Callable[[], Redactor | None] = lambda: None,
    ) -> None:
        """`redactor` gives what keeps secrets out of whatever is told of runs, if there is anything to keep out."""
        self._engine = engine
        self._redactor = redactor
        self._opened = opened
        self._tenant = tenant
        self._actor = actor

    def acting_as(self, actor: Actor) -> RunKeeping:
        """Keeps the same runs, for somebody else."""
        return RunKeeping(self._engine, self._tenant, actor, self._opened, self._redactor)

    # Commands

    def start(self, run: Run, token: str, lease: timedelta) -> RunMoved:
        """Begins a run."""
        return self._moved(self._starting(run, token, lease))

    def _starting(self, run: Run, token: str, lease: timedelta) -> StartRun:
        check_run_id(run.id)
        redactor = self._redactor()
        if redactor is not None:
            run = replace(run, intent=redactor.text(run.intent))
        started = StartRun(tenant=self._tenant, stamp=self._stamp(3), run=run, token=token, lease=lease)
        if run.parent is None or run.parent_event is not None:
            return started
        payload = encode({"agent": run.agent, "run": run.id}, root="payload")
        return replace(started, to_parent_json=self._kept(payload, "payload"))

    def start_whole(
        self, run: Run, token: str, happenings: Sequence[Happening], checkpoint: NewCheckpoint, reason: str
    ) -> Run:
        """Begins a run, tells what happened in it, saves it and lets go of it, all of that or nothing."""
        commands: list[RunCommand] = [
            self._starting(run, token, timedelta(minutes=1)),
            self._telling(run.id, token, happenings),
            self._ending(run.id, token, "blocked", reason, checkpoint),
        ]
        answers = self._engine.writer.do_together(commands)
        moved = [moved_or_raise(command, answer) for command, answer in zip(commands, answers, strict=True)]
        taken = moved[-1].run
        assert taken is not None, "a run that was begun is there"
        return taken

    def tell(self, run_id: str, token: str | None, happenings: Sequence[Happening]) -> RunMoved:
        """Records what happened, all of it or nothing."""
        return self._moved(self._telling(run_id, token, happenings))

    def _telling(self, run_id: str, token: str | None, happenings: Sequence[Happening]) -> Tell:
        check_run_id(run_id)
        if not happenings:
            raise BadCall("there is nothing to record")
        stamp = self._stamp(2 * len(happenings))
        if self._redactor() is not None:
            happenings = [replace(one, payload_json=self._kept(one.payload_json, "payload")) for one in happenings]
        return Tell(tenant=self._tenant, run_id=run_id, stamp=stamp, token=token, happenings=tuple(happenings))

    def seal(self, run_id: str, token: str | None, checkpoint: NewCheckpoint) -> Checkpoint:
        """Saves a run."""
        command = SealCheckpoint(
            tenant=self._tenant,
            run_id=run_id,
            stamp=self._stamp(2),
            token=token,
            checkpoint=self.to_be_sealed(checkpoint),
        )
        sealed = self._moved(command).checkpoint
        assert sealed is not None, "sealing gives the checkpoint"
        return sealed

    def end(
        self,
        run_id: str,
        token: str | None,
        status: RunStatus,
        reason: str,
        checkpoint: NewCheckpoint | None = None,
        by: Actor | None = None,
    ) -> Run:
        """Ends a run, or sets it aside."""
        return self._ended(self._ending(run_id, token, status, reason, checkpoint, by))

    def hand_over(self, run_id: str, handover: Handover, reason: str) -> Run:
        """Hand a run over to another ledger: from then on nothing of it runs here."""
        _refuse_held(run_id, self._effects(run_id))
        ending = self._ending(run_id, None, HANDED_OVER, reason, None)
        return self._ended(replace(ending, handover=handover))

    def take_back(self, run_id: str, reason: str, by: Actor, *, is_forced: bool) -> Run:
        """Take a run back that the other ledger never imported."""
        ending = self._ending(run_id, None, "blocked", reason, None, by)
        return self._ended(replace(ending, takes_back=True, is_forced=is_forced))

    def _ended(self, command: EndRun) -> Run:
        run = self._moved(command).run
        assert run is not None, "a run that ends was there"
        return run

    def _ending(
        self,
        run_id: str,
        token: str | None,
        status: RunStatus,
        reason: str,
        checkpoint: NewCheckpoint | None,
        by: Actor | None = None,
    ) -> EndRun:
        redactor = self._redactor()
        return EndRun(
            tenant=self._tenant,
            run_id=run_id,
            stamp=self._stamp(4, by),
            token=token,
            status=status,
            reason_json=encode(reason if redactor is None else redactor.text(reason), root="reason"),
            checkpoint=None if checkpoint is None else self.to_be_sealed(checkpoint),
        )

    def to_be_sealed(self, checkpoint: NewCheckpoint) -> NewCheckpoint:
        """Gives what may be recorded of a checkpoint: no more of the agent's state than of arguments and results."""
        return replace(checkpoint, state_json=self._kept(checkpoint.state_json, "state"))

    def _kept(self, value: bytes | None, root: str) -> bytes | None:
        redactor = self._redactor()
        return value if redactor is None or value is None else redactor.redacted(value, root)

    def take(
        self, run_id: str, token: str, lease: timedelta, checkpoint_id: str | None, *, is_forced: bool
    ) -> RunMoved:
        """Takes the right to drive a run."""
        command = TakeRun(
            tenant=self._tenant,
            run_id=run_id,
            stamp=self._stamp(2),
            token=token,
            lease=lease,
            checkpoint_id=checkpoint_id,
            is_forced=is_forced,
        )
        return self._moved(command)

    def _stamp(self, values: int, by: Actor | None = None) -> Stamp:
        return self._engine.mint.stamp(by or self._actor, values)

    def _moved(self, command: RunCommand) -> RunMoved:
        return moved_or_raise(command, self._engine.write_alone(command))

    # Reading

    def get(self, run_id: str) -> Run | None:
        """Return the run with this id, or None when it was never started here."""
        found = read_sheet(self._engine.store, self._tenant, run_ref(run_id))
        return None if found is None else self._read(found)

    def known(self, run_id: str) -> Run | None:
        """Return the run with this id, started or only `open`, or None when it has no events."""
        found = self._engine.store.sheets(self._tenant, replace(_ANY_RUN, id=run_id))
        return self._read(found[0]) if found else None

    def _read(self, sheet: Sheet) -> Run:
        """Reads a run; of one that was erased, what its events still tell."""
        if sheet.version == 0:
            return unstarted_run(sheet)
        if sheet.body is not None:
            return read_run(sheet)
        seq = -1 if sheet.seq is None else sheet.seq
        events = every_event(self._engine.store, self._tenant, sheet.id, page=_FEW)
        started = next((event for event in events if event.type == "run_started"), None)
        newest = self._engine.store.events(self._tenant, sheet.id, seq - 1, 1)
        if started is None or not newest:
            raise JournalError(f"run {sheet.id}: the events that tell of it are gone; see: indelible verify")
        kept = self._engine.store.payloads(self._tenant, sheet.id, [seq])
        is_erased = all(payload.field != "run" for payload in kept)
        return left_of_run(sheet, started.read(), newest[0].read(), is_erased=is_erased)

    def find(self, run_id: str) -> Run:
        """Return a run that was started and can be read, or raise why there is none."""
        found = self.known(run_id)
        if found is None:
            raise UnknownRun(f"no run of tenant {self._tenant!r} is named {run_id!r}; see: indelible runs list")
        if found.status == UNSTARTED:
            raise UnknownRun(
                f"run {run_id} was never started, so it has no agent and no state to go on with. "
                f"Start it, and what was called in it replays: ledger.start_run({run_id!r}, agent=…)"
            )
        if found.unread is not None:
            raise _refusal(run_id, replace(why_unread(found.status), run=found))
        return found

    def runs(self, status: RunStatus | None, agent: str | None, before: str | None, limit: int) -> list[Run]:
        """List runs that have events, the one begun last first, from after the one named `before`."""
        if status is not None and status not in get_args(RunStatus):
            raise BadCall(f"status={status!r}: choose one of {', '.join(get_args(RunStatus))}")
        if agent is not None and status == UNSTARTED:
            return []  # nobody knows its agent
        if agent is None and status in (None, UNSTARTED):
            selected = replace(_ANY_RUN, status=status, limit=limit)
        else:
            selected = SheetFilter(kind="run", status=status, topic=agent, is_by_time=True, limit=limit)
        if before is not None:
            selected = replace(selected, before=before, before_time=self._begun_at(before, selected))
        return [self._read(sheet) for sheet in self._engine.store.sheets(self._tenant, selected)]

    def _begun_at(self, run_id: str, selected: SheetFilter) -> datetime | None:
        """Return when a run begun, by the times in which these are listed."""
        named = replace(selected, id=run_id, status=None, topic=None, limit=1)
        found = self._engine.store.sheets(self._tenant, named)
        if not found:
            raise UnknownRun(f"before={run_id!r}: no run has this name; begin with the first page")
        return found[0].created_at

    def driver(self, run_id: str) -> Driver | None:
        """Gives who drives a run, or drove it last."""
        found = read_sheet(self._engine.store, self._tenant, driver_ref(run_id))
        return None if found is None else read_driver(found)

    def checkpoints(self, run_id: str, before: str | None = None, limit: int | None = None) -> list[Checkpoint]:
        """List a run's checkpoints, the one sealed last first, from after the one named `before`."""
        sheets = checkpoint_sheets(self._engine.store, self._tenant, run_id)
        if before is not None:
            ids = [sheet.id for sheet in sheets]
            if before not in ids:
                raise UnknownCheckpoint(f"before={before!r}: run {run_id} has no such checkpoint; omit `before`")
            sheets = sheets[ids.index(before) + 1 :]
        kept = (sheet for sheet in sheets if sheet.body is not None)
        return [read_checkpoint(sheet) for sheet in islice(kept, limit)]

    def open_approvals(self, run_id: str) -> list[Approval]:
        """Lists the approvals of a run that nobody has decided."""
        selected = SheetFilter(kind="approval", status="pending", topic=run_id, limit=_PAGE)
        found = self._engine.store.sheets(self._tenant, selected)
        return [read_approval(sheet) for sheet in found if sheet.body is not None]

    def follow(self, story: RunStory, each: Callable[[RunEvent], None] | None = None) -> RunStory:
        """Reads a run's events on from where the story is, in pages, and gives each of them to `each`."""
        store = self._engine.store
        while True:
            page = store.events(self._tenant, story.run_id, story.head.length - 1, _PAGE)
            if not page:
                return story
            found = by_event(store.payloads(self._tenant, story.run_id, [event.seq for event in page]))
            for event in page:
                seen = story.follow(event, found.get(event.seq, {}))
                if each is not None:
                    each(seen)

    def _new_story(self, run_id: str) -> RunStory:
        return RunStory(run_id, self._opened)

    def story(self, run_id: str, each: Callable[[RunEvent], None] | None = None) -> RunStory:
        """Reads what a run's events tell, from the first on."""
        story = self.follow(self._new_story(run_id), each)
        if story.head == NO_EVENTS:
            raise UnknownRun(f"no run of tenant {self._tenant!r} is named {run_id!r}; see: indelible runs list")
        return story

    def reading(self, run_id: str, after: int = -1) -> RunReading:
        """Reads a run's events from the one after `after` on, as people see them; raises that there is no such run."""
        before = self.recorded(run_id, max(after, 0), 1)
        if not before and self.event_id(run_id, 0) is None:
            raise UnknownRun(f"no run of tenant {self._tenant!r} is named {run_id!r}; see: indelible runs list")
        is_there = after >= 0 and bool(before) and before[0].seq == after
        head = Head(after + 1, before[0].hash if is_there else NO_EVENTS.hash)
        return RunReading(self._engine.store, self._tenant, replace(self._new_story(run_id), head=head))

    def page(self, run_id: str, after: int, limit: int) -> list[RunEvent]:
        """Gives some of a run's events, from the one after `after` on, as people see them."""
        return self.reading(run_id, after).first(limit)

    # Verifying

    def verify(self, run_id: str) -> RunReport:
        """Checks a run's chain, the values it commits to, its checkpoints, and its lineage both ways."""
        story = self.story(run_id)
        run = self.get(run_id)
        return RunReport(
            run_id=run_id,
            hash=story.head.hash,
            events=story.head.length,
            broken=story.broken,
            altered=story.altered,
            seals=self.seals(story),
            parent=None if run is None else run.parent,
            lineage=None if run is None else self._why_lineage_bad(run, story),
        )

    def seals(self, story: RunStory) -> list[Seal]:
        """Says of each checkpoint that is told of whether it is as it was sealed, newest first."""
        return SealCheck(self._engine.store, self._tenant, story).seals()

    def _why_lineage_bad(self, run: Run, story: RunStory) -> str | None:
        """Checks that parent and child name each other."""
        if run.parent is not None and not self._is_told_by(run.parent, run):
            return f"its parent {run.parent} tells nothing of it"
        for child in story.delegations:
            known = self.get(child)
            if known is not None and known.parent != run.id:
                return f"its child {child} names {known.parent or 'nobody'} as its parent"
        return None

    def _is_told_by(self, parent: str, run: Run) -> bool:
        """Does a run tell of a child, at the event that the child names if any? What was erased may have named it."""
        told: dict[str, Any] = {}

        def note(event: RunEvent) -> None:
            if event.type == "delegation_started":
                told[f"evt_{event.id}"] = event.payload

        story = self.follow(self._new_story(parent), note)
        if run.parent_event is None:
            return run.id in story.delegations or None in told.values()
        payload = told.get(run.parent_event, {})
        return payload is None or (isinstance(payload, dict) and run.id in (payload.get("run"), payload.get("runId")))

    # Resuming

    def resume(
        self, run_id: str, token: str, lease: timedelta, checkpoint_id: str | None, *, is_forced: bool
    ) -> TakenOver:
        """Takes a run over and gives what it is gone on with, from its events as they are when it is ours.

        A record that does not hold together sets the run aside for a person; so does a checkpoint that is not what was
        sealed, and then the next older one that is gets named.
        """
        self.find(run_id)
        receipts: list[RunEvent] = []
        story = self.story(run_id, lambda event: receipts.append(event) if event.is_progress else None)
        seal = self._chosen(story, checkpoint_id, is_forced)
        checkpoint = None if seal is None else seal.checkpoint
        since = time.monotonic()
        taken = self.take(run_id, token, lease, None if checkpoint is None else checkpoint.id, is_forced=is_forced)
        self.follow(story, lambda event: receipts.append(event) if event.is_progress else None)
        assert taken.run is not None, "a run that is taken is there"
        context = context_of(
            taken.run,
            story,
            receipts,
            self.open_approvals(run_id),
            checkpoint,
            self._saved_state(story, checkpoint),
            ledger_id=self._engine.store.origin(self._tenant),
            fence=taken.fence,
            now=self._stamp(0).at,
        )
        return TakenOver(context, since)

    def _chosen(self, story: RunStory, checkpoint_id: str | None, is_forced: bool) -> Seal | None:
        """Gives the checkpoint to go on from: the one named, else the newest."""
        seals = self.seals(story)
        if checkpoint_id is not None:
            seals = [seal for seal in seals if seal.checkpoint.id == checkpoint_id] or self._no_such(checkpoint_id)
        older = [seal for seal in seals if seal.is_valid]
        if story.broken is not None:
            self._set_aside(story.run_id, f"its record is broken: {story.broken}", None)
        if seals and not seals[0].is_valid and not (is_forced and checkpoint_id is None and older):
            bad = seals[0]
            self._set_aside(story.run_id, f"{bad.checkpoint.id}: {bad.why}", older[0].checkpoint.id if older else None)
        self._refuse_altered(story, older[0] if older else None, is_forced)
        return older[0] if older else None

    def _refuse_altered(self, story: RunStory, newest: Seal | None, is_forced: bool) -> None:
        """Sets a run aside whose values are not what was recorded; those of other checkpoints do not matter here."""
        sealing = set(story.checkpoints.values())
        altered = [(seq, name) for seq, name in story.altered if seq not in sealing]
        if altered and not is_forced:
            why = "seq {}: {} is not what was recorded".format(*altered[0])
            self._set_aside(story.run_id, why, None if newest is None else newest.checkpoint.id)

    def _no_such(self, checkpoint_id: str) -> list[Seal]:
        raise UnknownCheckpoint(f"this run has no checkpoint {checkpoint_id}; see: indelible runs inspect")

    def _set_aside(self, run_id: str, why: str, older: str | None) -> None:
        run = self.end(run_id, None, "manual_review_required", why, by=SYSTEM)
        advice = "" if older is None else f" The newest one that is whole is {older}: resume from it with force."
        raise ReviewRequired(
            f"run {run_id} cannot be resumed as it is: {why}. It waits for somebody to look at it: indelible runs "
            f"verify {run_id}.{advice}",
            code="review",
            run=run,
            checkpoint_id=older,
        )

    def _saved_state(self, story: RunStory, checkpoint: Checkpoint | None) -> Any:
        """Gives what the agent saved last by a checkpoint: somebody else may have sealed one without its state."""
        if checkpoint is None or checkpoint.seq is None:
            return None
        for seal in self.seals(story):
            known = seal.checkpoint
            if seal.is_valid and known.has_state and known.seq is not None and known.seq <= checkpoint.seq:
                return self.state_of(known)
        return None

    def state_of(self, checkpoint: Checkpoint) -> Any:
        """Gives what the agent saved with a checkpoint; None when it saved nothing, or it was erased."""
        if not checkpoint.has_state or checkpoint.seq is None:
            return None
        found = self._engine.store.payloads(self._tenant, checkpoint.run_id, [checkpoint.seq])
        value = next((self._opened(payload) for payload in found if payload.field == "state"), None)
        state = None if value is None else decode(value)
        return None if isinstance(state, Encrypted) else state

    # Elsewhere

    def packet(self, run_id: str) -> Packet:
        """Gives a run as it can be handed to another ledger."""
        run = self.find(run_id)
        receipts: list[RunEvent] = []
        story = self.story(run_id, lambda event: receipts.append(event) if event.is_progress else None)
        seal = next((seal for seal in self.seals(story) if seal.is_valid), None)
        checkpoint = None if seal is None else seal.checkpoint
        context = context_of(
            run,
            story,
            receipts,
            self.open_approvals(run_id),
            checkpoint,
            self._saved_state(story, checkpoint),
            ledger_id=self._engine.store.origin(self._tenant),
            fence=0,
            now=self._stamp(0).at,
        )
        event_id = None if checkpoint is None else self.event_id(run_id, checkpoint.at)
        check = self._engine.store.forgetting.redaction_check()
        effects = self.effects_of(run_id, by="started")
        if run.handover is not None:  # a call may have begun just before the fence
            _refuse_held(run_id, effects)
        return packet_of(context, self._tenant, effects, event_id, check)

    def event_id(self, run_id: str, seq: int) -> str | None:
        """Gives the id of a run's event."""
        page = self.recorded(run_id, seq, 1)
        return f"evt_{page[0].hash}" if page else None

    def recorded(self, run_id: str, first: int, count: int) -> list[Event]:
        """Gives some of a run's events as they are on the record, from the one with this number on."""
        return self._engine.store.events(self._tenant, run_id, first - 1, count)

    def effects_of(self, run_id: str, *, by: Order) -> list[Effect]:
        """List a run's effects in the order of its events, oldest first; raise `UnknownRun` if it has none."""
        found = list(self._effects(run_id))  # read before the events, so that these tell of each of them
        return in_order(self.story(run_id), found, by)

    def _effects(self, run_id: str) -> Iterator[Effect]:
        before: str | None = None
        while True:
            selected = Filter(run_id=run_id, before=before, limit=_PAGE)
            page = self._engine.store.effects(self._tenant, selected)
            yield from page
            if len(page) < _PAGE:
                return
            before = page[-1].id

    def check_tenant(self, packet: Packet) -> None:
        """Raise `BadCall` unless a packet is of the tenant that this ledger works for."""
        if packet.content["tenant"] != self._tenant:
            raise BadCall(
                f"the packet is of tenant {packet.content['tenant']!r}, and this ledger works for {self._tenant!r}: "
                "keys of other tenants mean nothing here. Open the ledger with tenant=…"
            )

    def adopt(self, packet: Packet, origin: Mapping[str, Any]) -> None:
        """Takes over the effects of a packet, so that none of them is done again here; those that are here stay."""
        for effect in packet.effects:
            here = self._engine.store.get_effect(self._tenant, effect.id)
            if here is not None and here.ref != effect.ref:
                raise BadCall(f"the packet says that {effect.id} is another call than it is here; export it again")
        origin_json = encode(dict(origin), root="origin")
        commands = [
            Adopt(effect=replace(effect, tenant=self._tenant), stamp=self._stamp(4), origin_json=origin_json)
            for effect in packet.effects
        ]
        for start in range(0, len(commands), _AT_ONCE):
            for answer in self._engine.writer.do_together(commands[start : start + _AT_ONCE]):
                if isinstance(answer, Illegal):
                    there = answer.effect
                    raise IllegalMove(f"{there.tool}: {there.id} {answer.why}", effect=there)

    def keep_driving(self, run_id: str, token_hash: str, until_after: timedelta) -> bool:
        """Extends the right to drive a run; says whether it is still ours."""
        driver = self._own_seat(run_id, token_hash)
        return driver is not None and self._keep(driver.kept(self._engine.store.look([]).now + until_after))

    def let_go(self, run_id: str, token_hash: str) -> bool:
        """Gives the right to drive a run back, so that anybody can resume it at once; says whether it was ours."""
        driver = self._own_seat(run_id, token_hash)
        return driver is not None and self._keep(driver.released())

    def _own_seat(self, run_id: str, token_hash: str) -> Driver | None:
        found = self.driver(run_id)
        driver = None if found is None else found.seen_by(token_hash)
        return driver if driver is not None and driver.is_held_by(token_hash) else None

    def _keep(self, driver: Driver) -> bool:
        command = Keep(tenant=self._tenant, stamp=self._stamp(0), sheet=driver_sheet(driver))
        return isinstance(self._engine.writer.do(command), Kept)


def moved_or_raise(command: RunCommand, answer: Answer) -> RunMoved:
    """Gives how a run stands, or raises why the command about it was refused."""
    match answer:
        case RunMoved():
            return answer
        case RunNotMoved("unknown", why):
            raise UnknownRun(f"run {command.run_id} {why}")
        case RunNotMoved("forbidden", why):
            raise NotPermitted(f"run {command.run_id} {why}")
        case RunNotMoved("tools", why):
            raise BadCall(f"run {command.run_id} {why}")
        case RunNotMoved("checkpoint" | "event", why):
            raise UnknownCheckpoint(f"run {command.run_id} {why}")
        case RunNotMoved():
            raise _refusal(command.run_id, answer)
        case _:
            raise AssertionError(f"{type(command).__name__} is never answered by {type(answer).__name__}")


def _refusal(run_id: str, answer: RunNotMoved) -> RunRefused:
    return _REFUSALS.get(answer.code, RunRefused)(f"run {run_id} {answer.why}", code=answer.code, run=answer.run)


def _refuse_held(run_id: str, effects: Iterable[Effect]) -> None:
    why = why_not_carried(effects)
    if why is not None:
        raise RunRefused(f"run {run_id} {why}", code="reserved")


def new_checkpoint(
    checkpoint_id: str,
    reason: CheckpointReason,
    state: Any,
    suggested: str | None,
    at: int | None = None,
    most: int | None = None,
) -> NewCheckpoint:
    """Gives what to seal; a state that cannot be recorded is refused before anything is written."""
    if reason not in get_args(CheckpointReason):
        raise BadCall(f"reason={reason!r}: choose one of {', '.join(get_args(CheckpointReason))}")
    state_json = None if state is None else encode(state, root="state", max_bytes=most)
    return NewCheckpoint(id=checkpoint_id, reason=reason, state_json=state_json, suggested=suggested, at=at)
