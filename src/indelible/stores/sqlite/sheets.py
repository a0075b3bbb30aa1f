"""Sheets on a SQLite connection: reads those that commands need, writes them guarded, and lists them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import apsw

from indelible.core.batch import Batch
from indelible.core.effects.calls import OWN_RUNS
from indelible.core.macs import Macs
from indelible.core.runs.run import UNSTARTED
from indelible.core.sheets import KEPT_ASIDE, NO_SHEETS, Sheet, SheetFilter, SheetRef, Sheets, attested_body
from indelible.stores.assumptions import order_of, way_to
from indelible.stores.sqlite.bulk import execute_rows, select_rows
from indelible.stores.sqlite.rows import Row, micros, moment
from indelible.stores.sqlite.statements import SQL

# The index for each way, and what it is searched by: left alone, SQLite takes the primary key and reads every sheet.
_BETWEEN = "s.id > :after AND s.id < :before"
_OLDER = "s.created_at IS NOT NULL AND (s.created_at, s.id) < (:before_time, :before)"
_WAYS = {
    "id": ("", f"s.id = :id AND {_BETWEEN}"),
    "channel": (
        "INDEXED BY indelible_sheets_by_channel",
        f"s.kind = 'delivery' AND s.topic = :topic AND s.due_at <= :due_by AND {_BETWEEN}",
    ),
    "due": ("INDEXED BY indelible_sheets_by_due", f"s.due_at <= :due_by AND {_BETWEEN}"),
    "topic": ("INDEXED BY indelible_sheets_by_topic", f"s.topic = :topic AND {_BETWEEN}"),
    "status": ("INDEXED BY indelible_sheets_by_status", f"s.status = :status AND {_BETWEEN}"),
    "kind": ("", _BETWEEN),
    "newest": ("INDEXED BY indelible_sheets_newest", _OLDER),
    "newest_by_topic": ("INDEXED BY indelible_sheets_newest_by_topic", f"s.topic = :topic AND {_OLDER}"),
    "newest_by_status": ("INDEXED BY indelible_sheets_newest_by_status", f"s.status = :status AND {_OLDER}"),
}
_RUN_WAYS = {
    "id": ("", "r.run_id = :id"),
    "newest": ("INDEXED BY indelible_runs_newest", "(r.begun_at, r.run_id) < (:before_time, :before)"),
}
_END_OF_TIME = 2**63 - 1


def read_sheets(connection: apsw.Connection, tenant: str, refs: Sequence[SheetRef], macs: Macs | None = None) -> Sheets:
    """Gives the sheets at these places, None where there is none."""
    if not refs:
        return NO_SHEETS
    known = {} if macs is None else macs.known(refs)
    found = select_rows(connection, SQL["sheets_at"], [(tenant, *ref) for ref in refs])
    sheets = {SheetRef(kind, id_): None if row[0] is None else sheet_from(row) for kind, id_, *row in found}
    return sheets if macs is None else macs.believed(sheets, known)


def write_sheets(connection: apsw.Connection, tenant: str, batch: Batch) -> bool:
    """Writes the sheets of a batch, new ones and those that nobody changed since; says whether that was all of them."""
    new = [
        _row(tenant, batch, before, after)
        for before, after in batch.sheets.values()
        if before is None or not before.guard
    ]
    written = execute_rows(connection, SQL["insert_sheets"], new)
    changed = [(before, after) for before, after in batch.sheets.values() if before is not None and before.guard]
    kept = [_kept_row(tenant, batch, *pair) for pair in changed if _stays_in_place(*pair)]
    moved = [_moved_row(tenant, batch, *pair) for pair in changed if not _stays_in_place(*pair)]
    written += execute_rows(connection, SQL["update_sheets"], kept)
    written += execute_rows(connection, SQL["move_sheets"], moved)
    return written == len(new) + len(changed)


def list_sheets(
    connection: apsw.Connection, tenant: str, selected: SheetFilter, macs: Macs | None = None
) -> list[Sheet]:
    """Lists the sheets that fit a filter."""
    if selected.with_unstarted:
        text, (index, way) = SQL["list_any_runs"], _RUN_WAYS["newest" if selected.id is None else "id"]
    else:
        text, (index, way) = SQL["list_sheets"], _WAYS[way_to(selected)]
    words = {"{index}": index, "{way}": way, "{order}": order_of(selected)}
    sql = functools.reduce(lambda text, word: text.replace(word, words[word]), words, text)
    values = {
        "tenant": tenant,
        "kind": selected.kind,
        "id": selected.id,
        "status": selected.status,
        "topic": selected.topic,
        "after": selected.after or "",
        "before": selected.before or "\U0010ffff",
        "due_by": None if selected.due_by is None else micros(selected.due_by),
        "before_time": _END_OF_TIME if selected.before_time is None else micros(selected.before_time),
        "limit": selected.limit,
        "own": OWN_RUNS,
        "unstarted": UNSTARTED,
    }
    known = {} if macs is None else macs.known_of(selected)
    found = [sheet_from(row) for row in connection.execute(sql, values)]
    return found if macs is None else macs.believed_list(found, selected, known)


def sheet_from(row: Row) -> Sheet:
    """Reads a row of `sheets` followed by the payload that its event commits to, the salt of that, and the event.

    A newer version may have added columns in between while this one is running. A run that was never started has
    version 0, and only its event.
    """
    _, kind, id_, version, status, topic, due_at, run_id, seq, body, created_at, mac, *told = row
    return Sheet(
        kind=kind,
        id=id_,
        version=version,
        status=status,
        topic=topic,
        due_at=None if due_at is None else moment(due_at),
        body=told[-1] if version == 0 else body if kind in KEPT_ASIDE else attested_body(kind, *told[-3:]),
        run_id=run_id,
        seq=seq,
        created_at=None if created_at is None else moment(created_at),
        mac=mac,
    )


def _stays_in_place(before: Sheet, after: Sheet) -> bool:
    """Does a sheet stay where it is in every index? SQLite writes an index anew when it is told to, changed or not."""
    return (before.status, before.topic, before.due_at) == (after.status, after.topic, after.due_at)


def _row(tenant: str, batch: Batch, before: Sheet | None, sheet: Sheet) -> Row:
    due_at = None if sheet.due_at is None else micros(sheet.due_at)
    created_at = None if sheet.created_at is None else micros(sheet.created_at)
    place = (tenant, sheet.kind, sheet.id)
    told = (sheet.run_id, sheet.seq, _body(sheet))
    return (
        *place,
        sheet.version,
        sheet.status,
        sheet.topic,
        due_at,
        *told,
        created_at,
        batch.mac_of_sheet(before, sheet),
    )


def _kept_row(tenant: str, batch: Batch, before: Sheet, after: Sheet) -> Row:
    place = (tenant, after.kind, after.id)
    told = (after.run_id, after.seq, _body(after))
    return (*place, before.guard, after.version, *told, batch.mac_of_sheet(before, after))


def _moved_row(tenant: str, batch: Batch, before: Sheet, after: Sheet) -> Row:
    due_at = None if after.due_at is None else micros(after.due_at)
    return (*_kept_row(tenant, batch, before, after), after.status, after.topic, due_at)


def _body(sheet: Sheet) -> bytes | None:
    """Gives what is kept on the sheet itself; what is on the record is kept with the event that commits to it."""
    return None if sheet.is_recorded else sheet.body
