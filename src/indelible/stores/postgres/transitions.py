"""The few things a session does for a batch: look, lock, write. Whoever calls them decides about transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from indelible.core.batch import Batch
from indelible.core.commands import Command, is_about_effect, refs_of, runs_named_by
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Head
from indelible.core.macs import Macs
from indelible.core.sheets import NO_SHEETS, SheetRef, Sheets
from indelible.stores.postgres import rows, wire
from indelible.stores.postgres.connections import Rejected, Session
from indelible.stores.postgres.driver import pq
from indelible.stores.postgres.sheets import move_values_with_sheets, ref_values, sheet_values, sheets_in
from indelible.stores.postgres.statements import SQL

_GUARDS = {("23502", "indelible_events.seq"), ("23505", "indelible_effects_pkey"), ("22012", ".")}
_NEGATIVE_ROOT = "2201F"
_TRUE = b"\1"


@dataclass(frozen=True, slots=True)
class View:
    """Is what was found at one moment of the database's clock; a run that is not among `heads` has no events.

    `sheets` holds those that were asked for.
    """

    now: datetime
    effects: dict[Ref, Effect | None]
    heads: dict[str, Head]
    sheets: Sheets = field(default_factory=lambda: NO_SHEETS)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing was written, for the guard did not hold; `instead` is what is there, if the statement told."""

    instead: View | None = None


def look(
    session: Session,
    commands: Sequence[Command],
    clock: datetime | None,
    until: float,
    sheets: Sequence[SheetRef] = (),
    macs: Macs | None = None,
) -> View:
    """Reads the effects of commands, the heads of their runs and some sheets, all at one moment."""
    # Two callers of two runs may ask for the same effect: the heads of both runs are wanted.
    places = list(
        dict.fromkeys((ref, run) for c in commands for ref in refs_of(c) for run in runs_named_by(c) or (None,))
    )
    moment = None if clock is None else wire.timestamptz(clock)
    values = rows.place_values([ref for ref, _ in places], [run_id for _, run_id in places], moment)
    statement = SQL["look_with_sheets" if sheets else "look"]
    known = {} if macs is None else macs.known(sheets)
    found = session.run(statement, statement.ordered(values | ref_values(sheets) if sheets else values), until)
    effects: dict[Ref, Effect | None] = {}
    heads: dict[str, Head] = {}
    for row, (ref, wanted) in enumerate(places):
        effect = effects[ref] = rows.effect_from(found, row, macs)
        run_id = wanted if effect is None else effect.run_id
        head = None if run_id is None else rows.head_from(found, row, run_id, macs)
        if head is not None and run_id is not None:
            heads[run_id] = head
    seen = sheets_in(found, sheets, macs, known) if sheets else NO_SHEETS
    return View(rows.time_from(found, 0), effects, heads, seen)


@dataclass(frozen=True, slots=True)
class Locked:
    """Is what was there to be locked; of sheets also those that were not there, whose places are held instead."""

    runs: set[str]
    effects: set[Ref]
    sheets: dict[SheetRef, bool]

    def covers(self, seen: View, needed: Sequence[SheetRef]) -> bool:
        """Is everything locked that was seen afterwards and that is needed? Something new may have come in between."""
        return (
            self.runs.issuperset(seen.heads)
            and all(effect is None or ref in self.effects for ref, effect in seen.effects.items())
            and self.sheets.keys() >= set(needed)
        )


def lock(
    session: Session, tenant: str, commands: Sequence[Command], until: float, sheets: Sequence[SheetRef] = ()
) -> Locked:
    """Locks sheets, the runs of commands, then their effects, each in order.

    A run or an effect that is not there cannot be locked; the place of a sheet is held, and has to be given up.
    """
    refs = sorted({ref for command in commands if is_about_effect(command) for ref in refs_of(command)})
    values = {
        "tenant": tenant.encode(),
        "run_ids": wire.words([run_id for command in commands for run_id in runs_named_by(command)]),
        "scopes": wire.words([ref.scope for ref in refs]),
        "keys": wire.hexes([ref.key for ref in refs]),
    }
    held = _lock_sheets(session, tenant, sheets, until) if sheets else {}
    runs, effects = (session.run(SQL[name], SQL[name].ordered(values), until) for name in ("lock_runs", "lock_effects"))
    return Locked(
        {(runs.get_value(row, 0) or b"").decode() for row in range(runs.ntuples)},
        {ref for row, ref in enumerate(refs) if effects.get_value(row, 0) == _TRUE},
        held,
    )


def _lock_sheets(session: Session, tenant: str, refs: Sequence[SheetRef], until: float) -> dict[SheetRef, bool]:
    """Locks sheets in the order given; says for each whether it was there."""
    values = ref_values(refs) | {"tenant": tenant.encode()}
    found = session.run(SQL["lock_sheets"], SQL["lock_sheets"].ordered(values), until)
    return {ref: wire.read_bigint(found.get_value(row, 0) or b"") > 0 for row, ref in enumerate(refs)}


def give_up(session: Session, tenant: str, locked: Locked, batch: Batch, until: float) -> None:
    """Gives the places up that were held for sheets which a batch does not write; to be done before any commit."""
    unused = [ref for ref, was_there in locked.sheets.items() if not was_there and ref not in batch.sheets]
    if unused:
        values = ref_values(unused) | {"tenant": tenant.encode()}
        session.run(SQL["give_up_sheets"], SQL["give_up_sheets"].ordered(values), until)


def write(
    session: Session,
    tenant: str,
    batch: Batch,
    now: datetime,
    clock: datetime | None,
    until: float,
    signed: int = 0,
) -> Refusal | None:
    """Write a batch in one statement, all or nothing.

    Args:
        session: The connection.
        tenant: The tenant.
        batch: What was decided.
        now: The moment it was decided at.
        clock: The time to use instead of the database's, which only tests do.
        until: When to give up.
        signed: How many entries of the tenant's journal were signed. If the tree has fewer and the batch claims
            effects, `Rejected` is raised, which `is_set_back` knows.
    """
    moment = None if clock is None else wire.timestamptz(clock)
    claim = {"signed": wire.bigint(signed) if signed and batch.needs_signed else None}
    if batch.has_sheets:
        return _write_with_sheets(session, tenant, batch, now, moment, until, claim)
    if len(batch.events) == 1:
        if batch.opened and [payload.field for payload in batch.payloads] == ["args", "key"]:
            return _open_one(session, batch, rows.open_values(tenant, batch, now, moment) | claim, until)
        if batch.moved and len(batch.payloads) == 1:
            return _move_one(session, "move_one", batch, rows.move_values(tenant, batch, now, moment) | claim, until)
    return _write_all(session, "write_batch", rows.batch_values(tenant, batch, now, moment) | claim, until)


def is_set_back(trouble: Exception) -> bool:
    """Return whether a claim was refused because the tree has fewer entries than were signed."""
    return isinstance(trouble, Rejected) and trouble.sqlstate == _NEGATIVE_ROOT


def _write_with_sheets(
    session: Session,
    tenant: str,
    batch: Batch,
    now: datetime,
    moment: bytes | None,
    until: float,
    claim: rows.Named,
) -> Refusal | None:
    if len(batch.events) == len(batch.moved) == 1 and batch.payloads:
        values = rows.move_values(tenant, batch, now, moment) | move_values_with_sheets(batch) | claim
        refusal = _move_one(session, "move_one_with_sheets", batch, values, until)
    else:
        values = rows.batch_values(tenant, batch, now, moment) | sheet_values(batch) | claim
        refusal = _write_all(session, "write_batch_with_sheets", values, until)
    if refusal is None and session.awaited:
        # Nobody waits for an attempt to begin, only for its end: no bell need ring beside a handler that starts.
        begun = {ref.key for ref, (_, after) in batch.moved.items() if after.status == "processing"}
        session.awaited = [key for key in session.awaited if key not in begun]
    return refusal


def _move_one(session: Session, name: str, batch: Batch, values: rows.Named, until: float) -> Refusal | None:
    found = _send(session, name, values, until)
    if found is None or found.ntuples == 0:
        return Refusal()
    session.awaited = moved_keys(batch) if found.get_value(0, 0) == _TRUE else []
    return None


def _write_all(session: Session, name: str, values: rows.Named, until: float) -> Refusal | None:
    found = _send(session, name, values, until)
    if found is None:
        return Refusal()
    session.awaited = [key.hex() for key in wire.read_array(found.get_value(0, 0) or b"")]
    return None


def erase(session: Session, tenant: str, batch: Batch, until: float) -> None:
    """Erases what a batch says is to go; after the write, so that what the batch itself brought goes too."""
    run_ids, seqs, fields = zip(*batch.erased, strict=True)
    values = {
        "tenant": tenant.encode(),
        "run_ids": wire.words(run_ids),
        "seqs": wire.bigints(seqs),
        "fields": wire.words(fields),
    }
    session.run(SQL["erase_payloads"], SQL["erase_payloads"].ordered(values), until)
    emptied = session.run(SQL["erase_digests"], SQL["erase_digests"].ordered(values), until)
    session.run(SQL["check_erased"], SQL["check_erased"].ordered(values), until)
    if batch.macs is not None:
        effects = rows.effects_from(emptied, None)
        ids, macs = [effect.id for effect in effects], map(batch.macs.of_effect, effects)
        again = {"tenant": tenant.encode(), "ids": wire.texts(ids), "macs": wire.byteas(macs)}
        session.run(SQL["put_macs"], SQL["put_macs"].ordered(again), until)


def moved_keys(batch: Batch) -> list[str]:
    """Gives the keys of the effects that a batch moves."""
    return [ref.key for ref in batch.moved]


def _open_one(session: Session, batch: Batch, values: rows.Named, until: float) -> Refusal | None:
    session.awaited = []
    found = _send(session, "open_one", values, until)
    if found is None:
        return Refusal()
    if found.ntuples == 0:
        return None
    ((ref, opened),) = batch.opened.items()
    effect = rows.effect_from(found, 0, batch.macs)
    head = rows.head_from(found, 0, opened.run_id, batch.macs)
    heads = {} if head is None else {opened.run_id: head}
    return Refusal(View(rows.time_from(found, 0), {ref: effect}, heads))


def _send(session: Session, name: str, values: rows.Named, until: float) -> pq.abc.PGresult | None:
    """Sends a guarded statement; None when it was undone: an event got no number, or an effect's place was taken."""
    statement = SQL[name]
    try:
        return session.run(statement, statement.ordered(values), until)
    except Rejected as rejected:
        if (rejected.sqlstate, rejected.violated) in _GUARDS:
            return None
        raise


def has_event(session: Session, tenant: str, batch: Batch, until: float) -> bool:
    """Was this batch written? Its first event tells, for a batch is written whole.

    A batch without events keeps sheets aside, and whoever decides it again knows its own write.
    """
    if not batch.events:
        return False
    event = batch.events[0]
    values = {
        "tenant": tenant.encode(),
        "run_id": event.run_id.encode(),
        "seq": wire.bigint(event.seq),
        "hash": bytes.fromhex(event.hash),
    }
    return session.run(SQL["has_event"], SQL["has_event"].ordered(values), until).ntuples == 1
