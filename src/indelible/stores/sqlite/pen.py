"""Writes decided batches on one SQLite connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from indelible.core.approvals.revoked import people_behind
from indelible.core.batch import Batch, decide
from indelible.core.commands import Command, Open, Record, refs_of, runs_named_by
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.effects.stops import STOP_REF, read_stop
from indelible.core.events import Head, Provenance
from indelible.core.macs import Macs
from indelible.core.moving import adds_to_record, check_is_kept_here
from indelible.core.ports import Clock
from indelible.core.sheets import SheetRef
from indelible.core.steps import brakes_of, needed_sheets, sheets_led_by_run
from indelible.stores.assumptions import is_guarded, sheets_for
from indelible.stores.sqlite import rows
from indelible.stores.sqlite.bulk import Refused, select_rows, write_rows
from indelible.stores.sqlite.rows import Row
from indelible.stores.sqlite.sheets import read_sheets, write_sheets
from indelible.stores.sqlite.statements import SQL

_MOST_HEADS = 10_000


class Pen:
    """Decides and writes inside a transaction that its caller began, and remembers the heads it wrote last."""

    def __init__(self, connection: apsw.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._heads: dict[tuple[str, str], Head] = {}
        self._heads_version: object = None
        self._kept_here: set[str] = set()
        """Names tenants that were not moved away when this was read last; forgotten with the heads."""

    def write(
        self,
        tenant: str,
        commands: Sequence[Command],
        effects: dict[Ref, Effect | None],
        by: Provenance,
        *,
        is_guess: bool = False,
    ) -> Batch:
        """Decides commands on these states and writes what follows; raises `Refused` when a state was another."""
        runs = {effect.run_id for effect in effects.values() if effect is not None}
        runs.update(run_id for command in commands for run_id in runs_named_by(command))
        brakes = {ref for command in commands for ref in brakes_of(command)}
        sheets = read_sheets(self._connection, tenant, [*sheets_for(commands, effects), *brakes], by.macs)
        asked: set[SheetRef] = set()
        while people := people_behind(sheets) - sheets.keys() - asked:
            asked |= people
            sheets = {**sheets, **read_sheets(self._connection, tenant, sorted(people), by.macs)}
        batch = decide(commands, effects, self._heads_of(tenant, runs, by.macs), self._clock.now(), by, sheets)
        if is_guess and not is_guarded(batch, effects):
            raise Refused
        if batch.events and any(adds_to_record(command) for command in commands):
            self._check_is_kept_here(tenant, by.macs)
        if not batch.is_empty:
            self._write(tenant, batch)
        return batch

    def _check_is_kept_here(self, tenant: str, macs: Macs | None) -> None:
        """Raise if the tenant was moved to another database; read again only after another connection wrote."""
        if tenant not in self._kept_here:
            stop = read_sheets(self._connection, tenant, [STOP_REF], macs)[STOP_REF]
            check_is_kept_here(None if stop is None else read_stop(stop), tenant)
            self._kept_here.add(tenant)

    def remember(self, tenant: str, batch: Batch) -> None:
        """Notes the heads that a committed batch left."""
        if STOP_REF in batch.sheets:
            self._kept_here.discard(tenant)
        for run, (_, head) in batch.heads.items():
            self._heads[tenant, run] = head

    def forget(self) -> None:
        """Notes that what was written did not stay."""
        self._heads.clear()

    def _heads_of(self, tenant: str, runs: set[str], macs: Macs | None) -> dict[str, Head]:
        """Gives the ends of runs' chains: as we wrote them last, if no other connection has written since."""
        version = self._connection.execute(SQL["data_version"]).get
        if version != self._heads_version or len(self._heads) > _MOST_HEADS:
            self._heads.clear()
            self._kept_here.clear()
            self._heads_version = version
        heads = {run: head for run in runs if (head := self._heads.get((tenant, run))) is not None}
        unknown = [(tenant, run) for run in runs if run not in heads]
        for run, count, head, kind, hash_, mac in select_rows(self._connection, SQL["heads_of"], unknown):
            if macs is not None:
                macs.check_head(run, head.hex(), None if kind is None else (kind, hash_.hex(), mac))
            heads[run] = Head(count, head.hex())
        return heads

    def _write(self, tenant: str, batch: Batch) -> None:
        connection = self._connection
        if batch.has_sheets:
            self._write_with_sheets(tenant, batch)
        else:
            if batch.moved:
                moves = [rows.move_row(before, after, batch.mac_of(after)) for before, after in batch.moved.values()]
                self._write_rows("update_effects", moves)
            opened = [rows.effect_row(effect, batch.mac_of(effect)) for effect in batch.opened.values()]
            self._write_rows("insert_effects", opened)
        begun = {event.run_id: rows.micros(event.at) for event in batch.events if event.seq == 0}
        heads = [
            (tenant, run, head.length, bytes.fromhex(head.hash), begun.get(run, 0))
            for run, (_, head) in batch.heads.items()
        ]
        self._write_rows("put_heads", heads)
        events = [(event, bytes.fromhex(event.hash)) for event in batch.events]
        self._write_rows(
            "insert_events",
            [
                (
                    *(tenant, event.run_id, event.seq, event.effect_id, event.type, hash_, event.body),
                    event.signature,
                    event.mac,
                )
                for event, hash_ in events
            ],
        )
        self._write_rows("insert_payloads", [(tenant, *payload) for payload in batch.payloads])
        self._write_rows("insert_pending", [(tenant, event.run_id, event.seq, hash_) for event, hash_ in events])
        for run_id, seq, name in batch.erased:
            connection.execute(SQL["erase_payload"], (tenant, run_id, seq, name))
            if name == "args":
                for place in connection.execute(SQL["erase_digest"], (tenant, tenant, run_id, seq, seq)).fetchall():
                    self._put_mac(batch, place)
            values = {"tenant": tenant, "run_id": run_id, "seq": seq, "field": name}
            if connection.execute(SQL["is_kept"], values).get:  # not counted: another may have erased it before us
                raise Refused

    def _write_rows(self, name: str, values: Sequence[Sequence[Any]]) -> None:
        write_rows(self._connection, SQL[name], values)

    def _put_mac(self, batch: Batch, place: Row) -> None:
        """Write the mac of an effect again, whose digest was erased with its arguments."""
        if batch.macs is not None:
            row: Any = self._connection.execute(SQL["effect_at"], place).fetchone()
            self._write_rows("put_mac", [(batch.macs.of_effect(rows.effect_from(row, None)), *place)])

    def _write_with_sheets(self, tenant: str, batch: Batch) -> None:
        """Writes effects with what only those have that somebody was asked about, or that a budget limits."""
        moved = batch.moved.values()
        moves = [rows.move_row_with_sheets(before, after, batch.mac_of(after)) for before, after in moved]
        self._write_rows("update_effects_with_sheets", moves)
        opened = [rows.effect_row_with_sheets(effect, batch.mac_of(effect)) for effect in batch.opened.values()]
        self._write_rows("insert_effects_with_sheets", opened)
        if not write_sheets(self._connection, tenant, batch):
            raise Refused


def guessed(commands: Sequence[Command], known: Sequence[Effect | None]) -> dict[Ref, Effect | None]:
    """Gives the likely states: as their callers saw them last, and new where nobody has seen any.

    The write checks it: a key that is taken and a state that has moved on are both refused. What people said of an
    effect holds for the effect as it is recorded, so nothing is guessed where that is needed.
    """
    effects: dict[Ref, Effect | None] = {}
    for command, seen in zip(commands, known, strict=True):
        if (seen is None and not isinstance(command, Open | Record)) or len(refs_of(command)) > 1:
            raise Refused
        needed = needed_sheets(command, seen)
        if needed and not set(needed).issubset(sheets_led_by_run(command)):
            raise Refused
        effects.setdefault(command.ref, seen)
    return effects


def read_effects(
    connection: apsw.Connection, commands: Sequence[Command], macs: Macs | None
) -> dict[Ref, Effect | None]:
    """Gives the states as they are."""
    refs = {ref for command in commands for ref in refs_of(command)}
    return {ref: read_effect(connection, ref, macs) for ref in refs}


def read_effect(connection: apsw.Connection, ref: Ref, macs: Macs | None) -> Effect | None:
    """Reads an effect; None where there is none."""
    row = connection.execute(SQL["effect_at"], rows.place(ref)).fetchone()
    return None if row is None else rows.effect_from(row, macs)
