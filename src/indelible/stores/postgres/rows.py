"""Between records and PostgreSQL's rows, both ways, in its binary formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from indelible.core.batch import Batch
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Event, Head, Payload
from indelible.core.macs import Macs
from indelible.core.ports import Outline
from indelible.stores.postgres import wire
from indelible.stores.postgres.driver import pq

Named = dict[str, bytes | None]
_NOTHING = (None, None)


def effect_from(result: pq.abc.PGresult, row: int, macs: Macs | None) -> Effect | None:
    """Reads the first column, the fragment `effect`; None when there is none."""
    raw = result.get_value(row, 0)
    if raw is None:
        return None
    columns, args_told, detail_told = wire.read_record(raw)
    if columns is None:
        return None
    args, args_mac = _NOTHING if args_told is None else wire.read_record(args_told)
    detail, detail_mac = _NOTHING if detail_told is None else wire.read_record(detail_told)
    # In the order of the table; what later migrations add stands behind.
    at: list[Any] = wire.read_record(columns)
    effect = Effect(
        tenant=at[0].decode(),
        scope=at[1].decode(),
        key=at[2].hex(),
        id=at[3].decode(),
        run_id=at[4].decode(),
        tool=at[5].decode(),
        side_effect=at[6].decode(),
        on_crash=at[7].decode(),
        call_id=None if at[8] is None else at[8].decode(),
        digest=at[9].hex(),
        status=at[10].decode(),
        attempt=wire.read_bigint(at[11]),
        version=wire.read_bigint(at[12]),
        token_hash=at[13].hex(),
        lease_until=None if at[14] is None else wire.read_timestamptz(at[14]),
        opened_seq=wire.read_bigint(at[15]),
        detail_seq=None if at[16] is None else wire.read_bigint(at[16]),
        created_at=wire.read_timestamptz(at[17]),
        updated_at=wire.read_timestamptz(at[18]),
        args_json=args,
        detail_json=detail,
        permission_id=None if at[20] is None else at[20].decode(),
        charges_json=at[21],
        turn=None if at[22] is None else at[22].decode(),
        doubted=None if at[23] is None else wire.read_bigint(at[23]),
    )
    if macs is not None:
        macs.check_effect(effect, at[24], args_mac, detail_mac)
    return effect


def effects_from(result: pq.abc.PGresult, macs: Macs | None) -> list[Effect]:
    """Reads all rows that begin with the fragment `effect`."""
    found = (effect_from(result, row, macs) for row in range(result.ntuples))
    return [effect for effect in found if effect is not None]


def head_from(result: pq.abc.PGresult, row: int, run_id: str, macs: Macs | None) -> Head | None:
    """Reads the head of a run, which stands behind the effect."""
    raw = result.get_value(row, 1)
    if raw is None:
        return None
    count, digest, event = wire.read_record(raw)
    assert count is not None
    assert digest is not None
    if macs is not None:
        told: Any = None if event is None else wire.read_record(event)
        macs.check_head(run_id, digest.hex(), None if told is None else (told[0].decode(), told[1].hex(), told[2]))
    return Head(wire.read_bigint(count), digest.hex())


def time_from(result: pq.abc.PGresult, row: int) -> datetime:
    """Reads the database's time, which stands behind the head."""
    raw = result.get_value(row, 2)
    assert raw is not None
    return wire.read_timestamptz(raw)


def outlines_from(result: pq.abc.PGresult) -> list[Outline]:
    """Read rows of `list_outlines` and `list_alike`."""
    get: Callable[[int, int], Any] = result.get_value
    return [
        Outline(
            get(row, 0).decode(),
            get(row, 1).decode(),
            get(row, 2).decode(),
            get(row, 3).decode(),
            get(row, 4).decode(),
            wire.read_bigint(get(row, 5)),
            None if get(row, 6) is None else get(row, 6).decode(),
            wire.read_timestamptz(get(row, 7)),
            wire.read_timestamptz(get(row, 8)),
            get(row, 9).hex(),
        )
        for row in range(result.ntuples)
    ]


def events_from(result: pq.abc.PGresult) -> list[Event]:
    """Reads rows of `list_events`."""
    get: Callable[[int, int], Any] = result.get_value
    return [
        Event(
            run_id=get(row, 0).decode(),
            seq=wire.read_bigint(get(row, 1)),
            effect_id=None if get(row, 2) is None else get(row, 2).decode(),
            type=get(row, 3).decode(),
            hash=get(row, 4).hex(),
            body=get(row, 5),
            signature=get(row, 6),
            mac=get(row, 7),
        )
        for row in range(result.ntuples)
    ]


def payloads_from(result: pq.abc.PGresult) -> list[Payload]:
    """Reads rows of `list_payloads`."""
    get: Callable[[int, int], Any] = result.get_value
    return [
        Payload(
            get(row, 0).decode(),
            wire.read_bigint(get(row, 1)),
            get(row, 2).decode(),
            *(get(row, column) for column in (3, 4, 5)),
        )
        for row in range(result.ntuples)
    ]


# What is written. A lease is sent as a duration: the database adds it to its own clock.


def _lease(effect: Effect, now: datetime) -> timedelta | None:
    return None if effect.lease_until is None else effect.lease_until - now


def _event_values(batch: Batch) -> Named:
    """Gives the values of the only event of a batch."""
    event = batch.events[0]
    was, _ = batch.heads[event.run_id]
    return {
        "run_id": event.run_id.encode(),
        "seq": wire.bigint(event.seq),
        "prev": bytes.fromhex(was.hash) if was.length else None,
        "hash": bytes.fromhex(event.hash),
        "type": event.type.encode(),
        "body": event.body,
        "signature": event.signature,
        "mac": event.mac,
    }


def _brakes(batch: Batch) -> Named:
    """Gives what claims rest on beside their effects: the tenant's stop, and runs that limit no calls."""
    return {
        "stop_version": None if batch.stop_version is None else wire.bigint(batch.stop_version),
        "unlimited": wire.words(sorted(batch.unlimited)) if batch.unlimited else None,
    }


def open_values(tenant: str, batch: Batch, now: datetime, clock: bytes | None) -> Named:
    """Gives the parameters of `open_one` for a batch that opens one effect."""
    ((_, effect),) = batch.opened.items()
    args, key = batch.payloads
    lease = _lease(effect, now)
    return _event_values(batch) | {
        **_brakes(batch),
        "tenant": tenant.encode(),
        "scope": effect.scope.encode(),
        "key": key.value,
        "id": effect.id.encode(),
        "tool": effect.tool.encode(),
        "side_effect": effect.side_effect.encode(),
        "on_crash": effect.on_crash.encode(),
        "call_id": None if effect.call_id is None else effect.call_id.encode(),
        "digest": bytes.fromhex(effect.digest),
        "status": effect.status.encode(),
        "attempt": wire.bigint(effect.attempt),
        "version": wire.bigint(effect.version),
        "token": bytes.fromhex(effect.token_hash),
        "now": clock,
        "lease": None if lease is None else wire.interval(lease),
        "created_at": wire.timestamptz(effect.created_at),
        "updated_at": wire.timestamptz(effect.updated_at),
        "turn": None if effect.turn is None else effect.turn.encode(),
        "args_salt": args.salt,
        "args": args.value,
        "key_salt": key.salt,
        "args_mac": args.mac,
        "key_mac": key.mac,
        "effect_mac": batch.mac_of(effect),
    }


def move_values(tenant: str, batch: Batch, now: datetime, clock: bytes | None) -> Named:
    """Gives the parameters of `move_one` for a batch that moves one effect; of its values, the first."""
    ((was, effect),) = batch.moved.values()
    payload = batch.payloads[0]
    lease = _lease(effect, now)
    return _event_values(batch) | {
        **_brakes(batch),
        "tenant": tenant.encode(),
        "scope": effect.scope.encode(),
        "key": bytes.fromhex(effect.key),
        "was_version": wire.bigint(was.version),
        "was_token": bytes.fromhex(was.token_hash),
        "status": effect.status.encode(),
        "attempt": wire.bigint(effect.attempt),
        "version": wire.bigint(effect.version),
        "token": bytes.fromhex(effect.token_hash),
        "now": clock,
        "lease": None if lease is None else wire.interval(lease),
        "detail_seq": None if effect.detail_seq is None else wire.bigint(effect.detail_seq),
        "updated_at": wire.timestamptz(effect.updated_at),
        "turn": None if effect.turn is None else effect.turn.encode(),
        "doubted": None if effect.doubted is None else wire.bigint(effect.doubted),
        "field": payload.field.encode(),
        "salt": payload.salt,
        "value": payload.value,
        "value_mac": payload.mac,
        "effect_mac": batch.mac_of(effect),
    }


_OPENED = attrgetter(
    *("scope", "key", "id", "run_id", "tool", "side_effect", "on_crash", "call_id", "digest", "status", "attempt"),
    *("version", "token_hash", "opened_seq", "detail_seq", "created_at", "updated_at", "turn"),
)
_MOVED = attrgetter(
    *("scope", "key", "status", "attempt", "version", "token_hash", "detail_seq", "updated_at", "turn", "doubted")
)
_EVENT = attrgetter("run_id", "seq", "effect_id", "type", "hash", "body", "signature", "mac")


def _columns(records: list[Any], row: Callable[[Any], tuple[Any, ...]], width: int) -> list[tuple[Any, ...]]:
    return list(zip(*map(row, records), strict=True)) if records else [()] * width


def batch_values(tenant: str, batch: Batch, now: datetime, clock: bytes | None) -> Named:
    """Gives the parameters of `write_batch`: one array per column, rows in the order in which locks are taken."""
    values: Named = {"tenant": tenant.encode(), "now": clock}
    values |= _brakes(batch)
    opened = [batch.opened[ref] for ref in sorted(batch.opened)]
    moved = [batch.moved[ref] for ref in sorted(batch.moved)]
    _put_opened(values, opened, now)
    _put_moved(values, moved, now)
    values["opened_mac"] = wire.byteas(map(batch.mac_of, opened))
    values["moved_mac"] = wire.byteas(batch.mac_of(after) for _, after in moved)
    _put_heads(values, batch)
    run_id, seq, effect_id, kind, digest, body, signature, mac = _columns(batch.events, _EVENT, 8)
    values["event_run_id"] = wire.words(run_id)
    values["event_seq"] = wire.bigints(seq)
    values["event_effect_id"] = wire.texts(effect_id)
    values["event_type"] = wire.words(kind)
    values["event_hash"] = wire.hexes(digest)
    values["event_body"] = wire.byteas(body)
    values["event_signature"] = wire.byteas(signature)
    values["event_mac"] = wire.byteas(mac)
    run_id, seq, field, salt, value, mac = zip(*batch.payloads, strict=True) if batch.payloads else [()] * 6
    values["payload_run_id"] = wire.words(run_id)
    values["payload_seq"] = wire.bigints(seq)
    values["payload_field"] = wire.words(field)
    values["payload_salt"] = wire.byteas(salt)
    values["payload_value"] = wire.byteas(value)
    values["payload_mac"] = wire.byteas(mac)
    return values


def _put_opened(values: Named, opened: list[Effect], now: datetime) -> None:
    columns = _columns(opened, _OPENED, 18)
    values["opened_scope"] = wire.words(columns[0])
    values["opened_key"] = wire.hexes(columns[1])
    values["opened_id"] = wire.texts(columns[2])
    values["opened_run_id"] = wire.words(columns[3])
    values["opened_tool"] = wire.words(columns[4])
    values["opened_side_effect"] = wire.words(columns[5])
    values["opened_on_crash"] = wire.words(columns[6])
    values["opened_call_id"] = wire.texts(columns[7])
    values["opened_digest"] = wire.hexes(columns[8])
    values["opened_status"] = wire.words(columns[9])
    values["opened_attempt"] = wire.bigints(columns[10])
    values["opened_version"] = wire.bigints(columns[11])
    values["opened_token"] = wire.hexes(columns[12])
    values["opened_lease"] = wire.intervals(_lease(effect, now) for effect in opened)
    values["opened_seq"] = wire.bigints(columns[13])
    values["opened_detail_seq"] = wire.bigints(columns[14])
    values["opened_created_at"] = wire.timestamptzs(columns[15])
    values["opened_updated_at"] = wire.timestamptzs(columns[16])
    values["opened_turn"] = wire.texts(columns[17])


def _put_moved(values: Named, moved: list[tuple[Effect, Effect]], now: datetime) -> None:
    columns = _columns([after for _, after in moved], _MOVED, 10)
    values["moved_scope"] = wire.words(columns[0])
    values["moved_key"] = wire.hexes(columns[1])
    values["moved_was_version"] = wire.bigints(was.version for was, _ in moved)
    values["moved_was_token"] = wire.hexes([was.token_hash for was, _ in moved])
    values["moved_status"] = wire.words(columns[2])
    values["moved_attempt"] = wire.bigints(columns[3])
    values["moved_version"] = wire.bigints(columns[4])
    values["moved_token"] = wire.hexes(columns[5])
    values["moved_lease"] = wire.intervals(_lease(after, now) for _, after in moved)
    values["moved_detail_seq"] = wire.bigints(columns[6])
    values["moved_updated_at"] = wire.timestamptzs(columns[7])
    values["moved_turn"] = wire.texts(columns[8])
    values["moved_doubted"] = wire.bigints(columns[9])


def _put_heads(values: Named, batch: Batch) -> None:
    runs = sorted(batch.heads)
    started = [(run, batch.heads[run][1]) for run in runs if batch.heads[run][0].length == 0]
    headed = [(run, *batch.heads[run]) for run in runs if batch.heads[run][0].length > 0]
    values["started_run_id"] = wire.words([run for run, _ in started])
    values["started_count"] = wire.bigints(head.length for _, head in started)
    values["started_hash"] = wire.hexes([head.hash for _, head in started])
    values["headed_run_id"] = wire.words([run for run, _, _ in headed])
    values["headed_was_count"] = wire.bigints(was.length for _, was, _ in headed)
    values["headed_was_hash"] = wire.hexes([was.hash for _, was, _ in headed])
    values["headed_count"] = wire.bigints(head.length for _, _, head in headed)
    values["headed_hash"] = wire.hexes([head.hash for _, _, head in headed])


def place_values(refs: Sequence[Ref], run_ids: Iterable[str | None], clock: bytes | None) -> Named:
    """Gives the parameters of `look`."""
    tenants, scopes, keys = zip(*refs, strict=True) if refs else ((), (), ())
    return {
        "now": clock,
        "tenants": wire.words(tenants),
        "scopes": wire.words(scopes),
        "keys": wire.hexes(keys),
        "run_ids": wire.texts(run_ids),
    }
