"""Sheets as PostgreSQL has them: rows both ways, and the statement that lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indelible.core.batch import Batch
from indelible.core.effects.calls import OWN_RUNS
from indelible.core.macs import Known, Macs
from indelible.core.runs.run import UNSTARTED
from indelible.core.sheets import KEPT_ASIDE, Sheet, SheetFilter, SheetRef, Sheets, attested_body
from indelible.stores.assumptions import order_of, way_to
from indelible.stores.postgres import wire
from indelible.stores.postgres.driver import pq
from indelible.stores.postgres.rows import Named
from indelible.stores.postgres.statements import Statement, listing_any_runs, listing_sheets

_ASKED = "requires_approval"
# Each leaves the planner one index to take: what a filter says besides is hidden from it.
_ELSEWHERE = 'tenant COLLATE "POSIX" = %(tenant)s::text'
_BETWEEN = "id > coalesce(%(after)s::text, '') AND (%(before)s::text IS NULL OR id < %(before)s)"
_OLDER = (
    "created_at IS NOT NULL AND (created_at, id) < "
    "(coalesce(%(before_time)s::timestamptz, 'infinity'), coalesce(%(before)s::text, ''))"
)
_WAYS = {
    "id": f"tenant = %(tenant)s::text AND id = %(id)s AND {_BETWEEN}",
    "channel": f"{_ELSEWHERE} AND kind = 'delivery' AND topic = %(topic)s AND due_at <= %(due_by)s AND {_BETWEEN}",
    "due": f"{_ELSEWHERE} AND due_at <= %(due_by)s AND {_BETWEEN}",
    "topic": f"{_ELSEWHERE} AND topic = %(topic)s AND {_BETWEEN}",
    "status": f"{_ELSEWHERE} AND status = %(status)s AND {_BETWEEN}",
    "kind": f"tenant = %(tenant)s::text AND {_BETWEEN}",
    "newest": f"{_ELSEWHERE} AND {_OLDER}",
    "newest_by_topic": f"{_ELSEWHERE} AND topic = %(topic)s AND {_OLDER}",
    "newest_by_status": f"{_ELSEWHERE} AND status = %(status)s AND {_OLDER}",
}
_RUN_WAYS = {
    "id": "r.tenant = %(tenant)s::text AND r.run_id = %(id)s::text",
    "newest": (
        'r.tenant COLLATE "POSIX" = %(tenant)s::text AND (r.begun_at, r.run_id) < '
        "(coalesce(%(before_time)s::timestamptz, 'infinity'), coalesce(%(before)s::text, ''))"
    ),
}


def _sheet_in(raw: bytes) -> Sheet | None:
    """Read the fragment `sheet`, or a row of `list_any_runs`; None if there is no sheet at its place."""
    columns, told = wire.read_record(raw)
    return None if columns is None else _sheet_from(columns, told)


def _sheet_from(columns: bytes, told: bytes | None) -> Sheet:
    at: list[Any] = wire.read_record(columns)
    kind, version = at[1].decode(), wire.read_bigint(at[3])
    return Sheet(
        kind=kind,
        id=at[2].decode(),
        version=version,
        status=at[4].decode(),
        topic=at[5].decode(),
        due_at=None if at[6] is None else wire.read_timestamptz(at[6]),
        body=_newest_event(told) if version == 0 else at[9] if kind in KEPT_ASIDE else _attested(kind, told),
        run_id=None if at[7] is None else at[7].decode(),
        seq=None if at[8] is None else wire.read_bigint(at[8]),
        created_at=None if at[10] is None else wire.read_timestamptz(at[10]),
        mac=at[11],
    )


def _attested(kind: str, told: bytes | None) -> bytes | None:
    return None if told is None else attested_body(kind, *wire.read_record(told))


def _newest_event(told: bytes | None) -> bytes | None:
    """Return the event of a run that was never started; of a place that is only held, there is none."""
    return None if told is None else wire.read_record(told)[2]


def sheets_in(result: pq.abc.PGresult, refs: Sequence[SheetRef], macs: Macs | None, known: Known) -> Sheets:
    """Return the sheets that `look_with_sheets` looked for; None where there is none or only a place that is held.

    `known` are the newest versions that were known before it looked.
    """
    found = map(_sheet_in, wire.read_array(result.get_value(0, 3) or b""))
    sheets = {
        ref: sheet if sheet is not None and sheet.version else None for ref, sheet in zip(refs, found, strict=False)
    }
    return sheets if macs is None else macs.believed(sheets, known)


def ref_values(refs: Sequence[SheetRef]) -> Named:
    """Gives the parameters that locate sheets."""
    return {"sheet_kinds": wire.words([kind for kind, _ in refs]), "sheet_ids": wire.texts(id_ for _, id_ in refs)}


def sheet_values(batch: Batch) -> Named:
    """Gives the parameters of `write_batch_with_sheets` that `write_batch` has not, in the order of locks."""
    opened = [batch.opened[ref] for ref in sorted(batch.opened)]
    moved = [batch.moved[ref][1] for ref in sorted(batch.moved)]
    values: Named = {
        "opened_approval_id": wire.texts(effect.permission_id for effect in opened),
        "opened_charges": wire.byteas(effect.charges_json for effect in opened),
        "moved_digest": wire.hexes([effect.digest for effect in moved]),
        "moved_opened_seq": wire.bigints(effect.opened_seq for effect in moved),
        "moved_approval_id": wire.texts(effect.permission_id for effect in moved),
        "moved_charges": wire.byteas(effect.charges_json for effect in moved),
        "decided_key": wire.hexes([ref.key for ref, (was, _) in batch.moved.items() if was.status == _ASKED]),
    }
    _put_kept(values, batch)
    return values


def move_values_with_sheets(batch: Batch) -> Named:
    """Gives the parameters of `move_one_with_sheets` that `move_one` has not."""
    ((was, effect),) = batch.moved.values()
    more = batch.payloads[1:]
    values: Named = {
        "digest": bytes.fromhex(effect.digest),
        "opened_seq": wire.bigint(effect.opened_seq),
        "approval_id": None if effect.permission_id is None else effect.permission_id.encode(),
        "charges": effect.charges_json,
        "more_field": wire.words([payload.field for payload in more]),
        "more_salt": wire.byteas(payload.salt for payload in more),
        "more_value": wire.byteas(payload.value for payload in more),
        "more_mac": wire.byteas(payload.mac for payload in more),
        "is_decided": b"\1" if was.status == _ASKED else b"\0",
    }
    _put_kept(values, batch)
    return values


def _put_kept(values: Named, batch: Batch) -> None:
    """Put in the sheets that a batch writes, in the order in which they are locked, and whom it rests on."""
    pairs = [batch.sheets[ref] for ref in sorted(batch.sheets)]
    sheets = [after for _, after in pairs]
    values["kept_was_version"] = wire.bigints(0 if before is None else before.guard for before, _ in pairs)
    values["kept_kind"] = wire.words([sheet.kind for sheet in sheets])
    values["kept_id"] = wire.texts(sheet.id for sheet in sheets)
    values["kept_version"] = wire.bigints(sheet.version for sheet in sheets)
    values["kept_status"] = wire.words([sheet.status for sheet in sheets])
    values["kept_topic"] = wire.texts(sheet.topic for sheet in sheets)
    values["kept_due_at"] = wire.timestamptzs(sheet.due_at for sheet in sheets)
    values["kept_run_id"] = wire.texts(sheet.run_id for sheet in sheets)
    values["kept_seq"] = wire.bigints(sheet.seq for sheet in sheets)
    # What is on the record is kept with the event that commits to it.
    values["kept_body"] = wire.byteas(None if sheet.is_recorded else sheet.body for sheet in sheets)
    values["kept_mac"] = wire.byteas(batch.mac_of_sheet(*pair) for pair in pairs)
    values["kept_created_at"] = wire.timestamptzs(sheet.created_at for sheet in sheets)
    # One whose own sheet is written is guarded by that.
    read = [ref for ref in sorted(batch.standing) if ref not in batch.sheets]
    values["standing_kind"] = wire.words([ref.kind for ref in read])
    values["standing_id"] = wire.texts(ref.id for ref in read)
    values["standing_version"] = wire.bigints(batch.standing[ref] for ref in read)


def listing(tenant: str, selected: SheetFilter) -> tuple[Statement, Named]:
    """Gives the statement that lists the sheets of a filter, and its parameters."""
    words = {
        "own": OWN_RUNS,
        "unstarted": UNSTARTED,
        "tenant": tenant,
        "kind": selected.kind,
        "id": selected.id,
        "status": selected.status,
        "topic": selected.topic,
        "after": selected.after,
        "before": selected.before,
    }
    values: Named = {name: None if word is None else word.encode() for name, word in words.items()}
    values["due_by"] = None if selected.due_by is None else wire.timestamptz(selected.due_by)
    values["before_time"] = None if selected.before_time is None else wire.timestamptz(selected.before_time)
    values["limit"] = wire.bigint(selected.limit)
    if selected.with_unstarted:
        return listing_any_runs(_RUN_WAYS["newest" if selected.id is None else "id"]), values
    return listing_sheets(_WAYS[way_to(selected)], order_of(selected)), values


def sheets_from(result: pq.abc.PGresult, selected: SheetFilter, macs: Macs | None, known: Known) -> list[Sheet]:
    """Read rows of `list_sheets`; `known` are the newest versions that were known before."""
    rows = (_sheet_in(result.get_value(row, 0) or b"") for row in range(result.ntuples))
    found = [sheet for sheet in rows if sheet is not None]
    return found if macs is None else macs.believed_list(found, selected, known)
