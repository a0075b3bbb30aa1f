"""Between records and SQLite's rows: times are microseconds since 1970, hashes and keys are blobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Event, Payload, moment_after
from indelible.core.macs import Macs
from indelible.core.ports import Outline

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Row = tuple[Any, ...]


def micros(at: datetime) -> int:
    """Gives a moment as microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def moment(number: int) -> datetime:
    """Gives the moment so many microseconds after 1970."""
    return moment_after(_EPOCH, number)


def place(ref: Ref) -> tuple[str, str, bytes]:
    """Gives the columns that locate an effect."""
    return (ref.tenant, ref.scope, bytes.fromhex(ref.key))


def effect_from(row: Row, macs: Macs | None) -> Effect:
    """Reads a row of `effects` followed by its arguments and detail, and the macs of both.

    Those are counted from the end: a newer version may have added columns while this one is running.
    """
    effect = Effect(
        tenant=row[0],
        scope=row[1],
        key=row[2].hex(),
        id=row[3],
        run_id=row[4],
        tool=row[5],
        side_effect=row[6],
        on_crash=row[7],
        call_id=row[8],
        digest=row[9].hex(),
        status=row[10],
        attempt=row[11],
        version=row[12],
        token_hash=row[13].hex(),
        lease_until=None if row[14] is None else moment(row[14]),
        opened_seq=row[15],
        detail_seq=row[16],
        created_at=moment(row[17]),
        updated_at=moment(row[18]),
        args_json=row[-4],
        detail_json=row[-3],
        permission_id=row[19],
        charges_json=row[20],
        turn=row[21],
        doubted=row[22],
    )
    if macs is not None:
        macs.check_effect(effect, row[23], row[-2], row[-1])
    return effect


def effect_row(effect: Effect, mac: bytes | None) -> Row:
    """Gives the columns of a new effect, in the order of `insert_effects`."""
    return (
        effect.tenant,
        effect.scope,
        bytes.fromhex(effect.key),
        effect.id,
        effect.run_id,
        effect.tool,
        effect.side_effect,
        effect.on_crash,
        effect.call_id,
        bytes.fromhex(effect.digest),
        effect.status,
        effect.attempt,
        effect.version,
        bytes.fromhex(effect.token_hash),
        None if effect.lease_until is None else micros(effect.lease_until),
        effect.opened_seq,
        effect.detail_seq,
        micros(effect.created_at),
        micros(effect.updated_at),
        effect.turn,
        mac,
    )


def effect_row_with_sheets(effect: Effect, mac: bytes | None) -> Row:
    """Gives the columns of a new effect, in the order of `insert_effects_with_sheets`."""
    return (*effect_row(effect, mac), effect.permission_id, effect.charges_json)


def move_row(before: Effect, after: Effect, mac: bytes | None) -> Row:
    """Gives the place and state an effect moves from and the columns it moves to, in the order of `update_effects`."""
    return (
        before.tenant,
        before.scope,
        bytes.fromhex(before.key),
        before.version,
        bytes.fromhex(before.token_hash),
        after.status,
        after.attempt,
        after.version,
        bytes.fromhex(after.token_hash),
        None if after.lease_until is None else micros(after.lease_until),
        after.detail_seq,
        micros(after.updated_at),
        after.turn,
        after.doubted,
        mac,
    )


def move_row_with_sheets(before: Effect, after: Effect, mac: bytes | None) -> Row:
    """Gives the place and the columns an effect moves to, in the order of `update_effects_with_sheets`."""
    added = (bytes.fromhex(after.digest), after.opened_seq, after.permission_id, after.charges_json)
    return (*move_row(before, after, mac), *added)


def event_from(row: Row) -> Event:
    """Reads a row of `list_events`."""
    run_id, seq, effect_id, kind, hash_, body, signature, mac = row
    return Event(
        run_id=run_id,
        seq=seq,
        effect_id=effect_id,
        type=kind,
        hash=hash_.hex(),
        body=body,
        signature=signature,
        mac=mac,
    )


def outline_from(row: Row) -> Outline:
    """Read a row of `list_outlines` or `list_alike`."""
    *told, created_at, updated_at, digest = row
    return Outline._make((*told, moment(created_at), moment(updated_at), digest.hex()))


def payload_from(row: Row) -> Payload:
    """Reads a row of `list_payloads`."""
    return Payload(*row)
