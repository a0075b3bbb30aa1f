"""Many commands, one write: decides a batch on what is known and gives the rows that make it true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from indelible.core.approvals.deliveries import told_ref
from indelible.core.changes import Aside, Change, Fact
from indelible.core.commands import (
    AllStopped,
    Answer,
    Claimed,
    Command,
    Open,
    Stamp,
    is_about_effect,
    refs_of,
    run_named_by,
)
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.effects.stops import STOP_REF, stop_in, stop_version
from indelible.core.events import (
    NO_EVENTS,
    SALT_BYTES,
    Event,
    Head,
    Payload,
    Provenance,
    commitment,
    effect_event,
    event_hash,
    fact_event,
    signed_message,
)
from indelible.core.macs import Macs
from indelible.core.runs.commands import SET_BACK, RunNotMoved, TakeRun
from indelible.core.runs.run import fence_ref
from indelible.core.sheets import GUARDED, NO_SHEETS, Sheet, SheetRef, Sheets, sheet_at
from indelible.core.steps import brakes_of, next_step
from indelible.errors import StateNotRead


@dataclass(slots=True)
class Batch:
    """Collects what one transaction writes: effects opened and moved, sheets, heads, events, payloads, answers.

    `moved`, `sheets` and `heads` pair the state decided on with the state to write, so that a store can guard the
    write; a new sheet is decided on None.
    """

    answers: list[Answer] = field(default_factory=list)
    opened: dict[Ref, Effect] = field(default_factory=dict)
    moved: dict[Ref, tuple[Effect, Effect]] = field(default_factory=dict)
    sheets: dict[SheetRef, tuple[Sheet | None, Sheet]] = field(default_factory=dict)
    heads: dict[str, tuple[Head, Head]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    payloads: list[Payload] = field(default_factory=list)
    stop_version: int | None = None
    """Is the version of the tenant's stop that it was decided on; None where nothing rests on it."""
    needs_signed: bool = False
    """Must the journal have every entry that was signed? A claim could repeat a call that is missing there, and a run
    that is taken over could go on from an old checkpoint. While effects are stopped, nothing is claimed."""
    unlimited: set[str] = field(default_factory=set)
    """Names limits that there are none of, as far as its claims were decided; the write sees that it is so."""
    standing: dict[SheetRef, int] = field(default_factory=dict)
    """The versions of the sheets of people and tokens that it was decided on, 0 where there is none: one that gave a
    permission may be revoked meanwhile, and the write sees that none was."""
    erased: list[tuple[str, int, str]] = field(default_factory=list)
    """Names payloads that go in this transaction, by run, number of the event, and field."""
    macs: Macs | None = None
    """Makes the macs of its rows, if rows carry them."""

    @property
    def is_empty(self) -> bool:
        """Is there nothing to write?"""
        return not self.events and not self.sheets

    @property
    def has_sheets(self) -> bool:
        """Are there sheets to write, or effects with a permission, which come with sheets or from another ledger?"""
        return bool(self.sheets) or any(effect.permission_id is not None for effect in self.opened.values())

    @property
    def is_stopped(self) -> bool:
        """Return whether an answer rests on a stop, or on there being none, that no write compares.

        A store must have read the stop for it, and not assumed it. A claim that is handed out again writes nothing.
        """
        written = self.opened.keys() | self.moved.keys()
        return any(
            isinstance(answer, AllStopped)
            or (isinstance(answer, RunNotMoved) and answer.code == SET_BACK)
            or (isinstance(answer, Claimed) and answer.claim.effect.ref not in written)
            for answer in self.answers
        )

    def mac_of(self, effect: Effect) -> bytes | None:
        """Return the mac of an effect's row."""
        return None if self.macs is None else self.macs.of_effect(effect)

    def mac_of_sheet(self, before: Sheet | None, after: Sheet) -> bytes | None:
        """Return the mac of a sheet's row."""
        return None if self.macs is None else self.macs.of_sheet(after, before)

    def changed(self) -> list[Effect]:
        """Lists the effects as they are after the write."""
        return [*self.opened.values(), *(after for _, after in self.moved.values())]


def decide(
    commands: Sequence[Command],
    effects: Mapping[Ref, Effect | None],
    heads: Mapping[str, Head],
    now: datetime,
    by: Provenance,
    sheets: Sheets = NO_SHEETS,
) -> Batch:
    """Decides commands in their order, each on the state its predecessors leave; an unknown run has no events.

    `effects` holds those of all commands, and `sheets` those that `needed_sheets` and `brakes_of` name for them; None
    where there is none. What is not in them was not read, and a command that rests on it raises `StateNotRead`.
    """
    standing = {ref: 0 if sheet is None else sheet.guard for ref, sheet in sheets.items() if ref.kind in GUARDED}
    batch = Batch(standing=standing, macs=by.macs)
    latest = dict(sheets)
    for command in commands:
        state = _latest(batch, effects, command, command.ref) if is_about_effect(command) else None
        run_id = _run_of(command, state)
        head = batch.heads[run_id][1] if run_id in batch.heads else heads.get(run_id, NO_EVENTS)
        beside = [_latest(batch, effects, command, ref) for ref in refs_of(command)[1:]]
        step = next_step(command, state, now, head.length, latest, *beside)
        salts = command.stamp.salts
        for change in step.changes:
            if not isinstance(change, Aside):
                salts = _tell(batch, command, change, heads, by, salts)
            if isinstance(change, Change):
                is_beside = change.effect.ref != command.ref
                _note(batch, None if is_beside else state, change.effect)
                state = state if is_beside else change.effect
            if change.sheets:
                _note_sheets(batch, latest, change)
        if step.changes and STOP_REF in brakes_of(command):
            batch.stop_version = stop_version(sheets)
        if step.changes and isinstance(command, Open | TakeRun):
            batch.needs_signed = stop_in(sheets) is None
        if isinstance(command, Open) and step.changes:
            batch.unlimited.update(_unlimited(command, latest))
        batch.answers.append(step.answer)
    return batch


def _unlimited(command: Open, sheets: Sheets) -> set[str]:
    """Name the limits that must not be there when this claim is written: those that nobody had seen."""
    fence = fence_ref(command.run_id)
    unseen = set() if command.knows_limits else {command.run_id}
    return unseen if sheet_at(sheets, fence) is not None else {*unseen, fence.id}


def _tell(
    batch: Batch,
    command: Command,
    change: Change | Fact,
    heads: Mapping[str, Head],
    by: Provenance,
    salts: bytes,
) -> bytes:
    """Writes the event of a change at the end of its run's chain; gives the salts that are left."""
    run_id = change.run_id if isinstance(change, Fact) else change.effect.run_id
    known = heads.get(run_id, NO_EVENTS)
    was, head = batch.heads.get(run_id, (known, known))
    committed = change.committed
    if change.sheets:
        bodies = [(sheet.kind, _body(sheet)) for sheet in change.sheets if sheet.is_recorded]
        committed = {**committed, **dict(bodies)}
        assert len(committed) == len(change.committed) + len(bodies), "each value has a name of its own"
    batch.heads[run_id] = (was, Head(head.length + 1, _record(batch, command, change, head, by, committed, salts)))
    if isinstance(change, Fact):
        batch.erased += [(run_id, seq, name) for seq, name in change.erased]
    return salts[len(committed) * SALT_BYTES :]


def _body(sheet: Sheet) -> bytes:
    assert sheet.body is not None, "what is written has a body"
    return sheet.body


def _note_sheets(batch: Batch, latest: dict[SheetRef, Sheet | None], change: Change | Fact | Aside) -> None:
    """Keeps each sheet's first state and its last one, with the place of the event that commits to it."""
    for sheet in change.sheets:
        ref = sheet.ref
        before = batch.sheets[ref][0] if ref in batch.sheets else latest.get(ref)
        if sheet.is_recorded:
            assert not isinstance(change, Aside), "what is on the record is told by an event"
            sheet = sheet.told_by(batch.events[-1].run_id, batch.events[-1].seq)
        if before is None and ref.kind == "approval":
            latest.setdefault(told_ref(ref.id), None)  # new in this batch, so no channel has told of it besides
        batch.sheets[ref] = (before, sheet)
        latest[ref] = sheet


def _run_of(command: Command, effect: Effect | None) -> str:
    """Gives the run whose chain an event about this would join; an effect stays in the run that opened it."""
    if effect is not None:
        return effect.run_id
    return run_named_by(command) or ""


def _latest(batch: Batch, effects: Mapping[Ref, Effect | None], command: Command, ref: Ref) -> Effect | None:
    if ref in batch.moved:
        return batch.moved[ref][1]
    if ref in batch.opened:
        return batch.opened[ref]
    try:
        return effects[ref]
    except KeyError:
        raise StateNotRead(
            f"the store did not read the effect of this {type(command).__name__}; nothing was run. This is a fault of "
            "the store: please report it"
        ) from None


def _record(
    batch: Batch,
    command: Command,
    change: Change | Fact,
    head: Head,
    by: Provenance,
    committed: Mapping[str, bytes],
    salts: bytes,
) -> str:
    """Writes the change's event and the values it commits to; gives its hash."""
    effect = change.effect if isinstance(change, Change) else None
    run_id = change.run_id if isinstance(change, Fact) else change.effect.run_id
    commits = {}
    assert len(committed) * SALT_BYTES <= len(salts), "every value is hidden by a salt of its own"
    for number, (name, value) in enumerate(committed.items()):
        salt = salts[number * SALT_BYTES : (number + 1) * SALT_BYTES]
        commits[name] = commitment(salt, name, value)
        mac = None if by.macs is None else by.macs.of_payload(run_id, head.length, name, value)
        batch.payloads.append(Payload(run_id, head.length, name, salt, value, mac))
    body = _event_body(change, head, command.stamp, commits, by)
    hash_ = event_hash(body)
    event = Event(
        run_id=run_id,
        seq=head.length,
        effect_id=None if effect is None else effect.id,
        type=change.event_type,
        hash=hash_,
        body=body,
        signature=None if by.sign is None else by.sign(signed_message(hash_)),
        mac=None if by.macs is None else by.macs.of_event(change.event_type, hash_),
    )
    batch.events.append(event)
    return hash_


def _event_body(change: Change | Fact, head: Head, stamp: Stamp, commits: Mapping[str, str], by: Provenance) -> bytes:
    if isinstance(change, Change):
        return effect_event(
            effect=change.effect,
            head=head,
            event_type=change.event_type,
            at=stamp.at,
            actor=stamp.actor,
            commits=commits,
            by=by,
        )
    return fact_event(
        run_id=change.run_id,
        head=head,
        event_type=change.event_type,
        at=stamp.at,
        actor=stamp.actor,
        commits=commits,
        facts=change.facts,
        by=by,
    )


def _note(batch: Batch, before: Effect | None, after: Effect) -> None:
    """Keeps the first state and the last one, when one batch moves an effect more than once."""
    ref = after.ref
    if before is None or ref in batch.opened:
        batch.opened[ref] = after
    elif after is not before:
        first = batch.moved[ref][0] if ref in batch.moved else before
        batch.moved[ref] = (first, after)
