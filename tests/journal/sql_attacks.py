"""Generates attacks by a program that can write to a ledger's database and has none of its keys.

An attack changes rows in memory; whatever can be computed again without a key is computed again: commitments, hashes,
links, the tree and its root. What cannot be made is a mac, a signature of a right, or a signed head.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from indelible.core.events import commitment, event_hash
from indelible.core.journal.tiles import grow
from tests.journal.attacked_world import FORGED_SESSION, FORGED_TOKEN, OPEN_POLICY, Dump, World, copied
from tests.journal.tampering import TABLES, Row, blank, edited

TENANT = "default"
SALT = bytes(32)
_RIGHT_MAC = 88  # a mac, a signature, and how many uses a grant has


class Attack(NamedTuple):
    """Is one attack; `where` names the column or kind of row that it is about."""

    name: str
    kind: str
    where: str
    change: Callable[[Dump], None]
    tenant: str = TENANT


def attacks(world: World) -> list[Attack]:
    """List every attack on a world, in an order that is the same each time."""
    makers = (_edits, _relinked, _deletes, _forgeries, _set_back, _taken_in, _swaps, _cuts, _copies, _without_macs)
    return list({attack.name: attack for make in makers for attack in make(world)}.values())


# What can be computed again


def relink(dump: Dump, tenant: str = TENANT) -> None:
    """Compute all that follows from bodies and values of a tenant: commitments, hashes, links, heads, tree."""
    hashes: dict[tuple[str, int], bytes] = {}
    values = {(row["run_id"], row["seq"], row["field"]): row for row in dump["payloads"] if row["tenant"] == tenant}
    prev: dict[str, bytes] = {}
    for row in sorted(_of(dump, "events", tenant), key=lambda row: (row["run_id"], row["seq"])):
        body = json.loads(bytes(row["body"]))
        body["prev"] = prev.get(row["run_id"], bytes(32)).hex()
        for name in body.get("commits", {}):
            if (kept := values.get((row["run_id"], row["seq"], name))) is not None:
                body["commits"][name] = commitment(bytes(kept["salt"]), name, bytes(kept["value"]))
        row["body"] = canonical(body)
        row["hash"] = prev[row["run_id"]] = bytes.fromhex(event_hash(row["body"]))
        hashes[row["run_id"], row["seq"]] = row["hash"]
    for row in _of(dump, "runs", tenant):
        numbers = [seq for run_id, seq in hashes if run_id == row["run_id"]]
        if numbers:
            row["count"], row["head"] = max(numbers) + 1, hashes[row["run_id"], max(numbers)]
    for table in ("pending", "leaves"):
        dump[table] = [row for row in dump[table] if row["tenant"] != tenant or (row["run_id"], row["seq"]) in hashes]
        for row in _of(dump, table, tenant):
            row["hash"] = hashes[row["run_id"], row["seq"]]
    regrow(dump, tenant)


def regrow(dump: Dump, tenant: str = TENANT) -> None:
    """Compute the tree over a tenant's leaves again, with dense numbers."""
    leaves = sorted(_of(dump, "leaves", tenant), key=lambda row: row["leaf"])
    for number, row in enumerate(leaves):
        row["leaf"] = number
    grown = grow(0, [bytes(row["hash"]) for row in leaves], lambda level, number: b"")
    for row in _of(dump, "trees", tenant):
        row["size"], row["root"] = grown.size, grown.root
    dump["tiles"] = [row for row in dump["tiles"] if row["tenant"] != tenant]
    dump["tiles"] += [
        {"tenant": tenant, "level": level, "number": number, "hashes": hashes}
        for (level, number), hashes in grown.tiles.items()
    ]


def take_in(dump: Dump, tenant: str = TENANT) -> None:
    """Take all that waits into the tree, so that no seal sees it wait."""
    waiting = sorted(_of(dump, "pending", tenant), key=lambda row: (row["run_id"], row["seq"]))
    size = len(_of(dump, "leaves", tenant))
    dump["leaves"] += [
        {"tenant": tenant, "leaf": size + number, **{name: row[name] for name in ("run_id", "seq", "hash")}}
        for number, row in enumerate(waiting)
    ]
    dump["pending"] = [row for row in dump["pending"] if row["tenant"] != tenant]
    regrow(dump, tenant)


def canonical(body: object) -> bytes:
    """Write JSON as the record does."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _of(dump: Dump, table: str, tenant: str = TENANT) -> list[Row]:
    return [row for row in dump[table] if row["tenant"] == tenant]


def _key(table: str, row: Row) -> tuple[Any, ...]:
    return tuple(bytes(row[name]) if isinstance(row[name], memoryview) else row[name] for name in TABLES[table])


def _find(dump: Dump, table: str, key: tuple[Any, ...]) -> Row:
    return next(row for row in dump[table] if _key(table, row) == key)


def _label(table: str, row: Row) -> str:
    names = {"sheets": ("kind", "status"), "effects": ("status",), "events": ("type",), "payloads": ("field",)}
    return " ".join(str(row[name]) for name in names.get(table, ()))


def _chosen(world: World, table: str, tenant: str = TENANT) -> Iterator[Row]:
    """Give one row of each label; the newest, which are not sealed, and the oldest, which are."""
    rows = world.states["final"][table] if table == "ledger" else _of(world.states["final"], table, tenant)
    for order in (rows, list(reversed(rows))) if table in ("effects", "sheets") else (rows,):
        seen: set[str] = set()
        for row in order:
            if _label(table, row) not in seen:
                seen.add(_label(table, row))
                yield row


def _unique(found: Iterable[Attack]) -> Iterator[Attack]:
    seen: set[str] = set()
    for one in found:
        if one.name not in seen:
            seen.add(one.name)
            yield one


# Edits

_STATUSES = {
    "effects": ("ready", "succeeded", "in_doubt", "approved", "processing", "canceled"),
    "approval": ("pending", "approved", "consumed"),
    "credential": ("active",),
    "person": ("active", "invited"),
    "stop": ("let_go", "stopped"),
    "run": ("active", "completed"),
    "grant": ("active",),
}
_MATTER = {
    "effects": (
        *("key", "scope", "id", "run_id", "tool", "side_effect", "on_crash", "digest", "attempt", "version"),
        *("token_hash", "lease_until", "opened_seq", "detail_seq", "approval_id", "charges", "doubted", "mac"),
    ),
    "sheets": ("id", "version", "topic", "due_at", "run_id", "seq", "body", "mac"),
    "events": ("type", "hash", "body", "effect_id", "mac"),
    "payloads": ("value", "salt", "mac"),
    "runs": ("count", "head"),
    "pending": ("hash", "seq"),
    "trees": ("size", "root"),
    "leaves": ("hash", "run_id", "seq"),
    "tiles": ("hashes",),
    "heads": ("size", "note"),
    "ledger": ("name", "has_macs"),
}


def _edits(world: World) -> Iterator[Attack]:
    return _unique(_each_edit(world))


def _each_edit(world: World) -> Iterator[Attack]:
    for table, columns in _MATTER.items():
        for row in _chosen(world, table):
            where = row["kind"] if table == "sheets" else ""
            for column in columns if table != "effects" else _rotated(columns, row):
                if where == "delivery" and column != "body":
                    continue
                for word, make in (("edit", lambda v, column=column: edited(column, v)), ("blank", blank)):
                    if word == "blank" and table not in ("effects", "ledger") and column != "mac":
                        continue
                    value = make(row[column])
                    if column == "mac" and word == "blank":
                        value = None
                    if value == row[column]:
                        continue
                    name = f"{word} {table}.{column} of {_label(table, row) or 'the first'}"
                    is_aside = column == "body" and row.get("run_id") is not None
                    about = "sheets.body" if is_aside else where or f"{table}.{column}"
                    yield Attack(name, "edit", about, _setter(table, row, **{column: value}))
            statuses = _STATUSES.get(table if table == "effects" else where, ())
            for status in statuses:
                if status != row["status"]:
                    name = f"edit {table}.status of {_label(table, row)} to {status}"
                    yield Attack(name, "edit", where or f"{table}.status", _setter(table, row, status=status))
    stop = next(row for row in _of(world.states["final"], "sheets", "held") if row["kind"] == "stop")
    for word, columns_ in (
        ("status", {"status": "let_go"}),
        ("version", {"version": 2}),
        ("event", {"seq": 1, "status": "let_go", "version": 2}),
    ):
        yield Attack(f"edit stop in force: {word}", "edit", "stop", _setter("sheets", stop, **columns_), "held")


def _rotated(columns: tuple[str, ...], row: Row) -> tuple[str, ...]:
    """Give what always matters, and for rows that are as they should be everything else as well."""
    return (
        columns
        if row["status"] in ("succeeded", "in_doubt")
        else ("attempt", "version", "digest", "approval_id", "mac")
    )


def _setter(table: str, row: Row, **columns: Any) -> Callable[[Dump], None]:
    key = _key(table, row)

    def change(dump: Dump) -> None:
        _find(dump, table, key).update(columns)

    return change


def _relinked(world: World) -> Iterator[Attack]:
    """Change values and bodies, and compute everything again."""
    final = world.states["final"]
    for has_tree in (True, False):
        for row in _unique_fields(_of(final, "payloads")):
            yield Attack(
                f"change {row['field']} of {row['run_id']} and compute again, {'with' if has_tree else 'no'} heads",
                "recompute",
                "payloads.value",
                _recomputing("payloads", row, _other_value, cuts_heads=not has_tree),
            )
    for row in _chosen(world, "events"):
        for member, value in (("status", "succeeded"), ("attempt", 7), ("at", "2026-01-01T00:00:00.000000Z")):
            if json.loads(bytes(row["body"])).get(member, value) != value:
                yield Attack(
                    f"change {member} in the body of {row['type']} and compute again",
                    "recompute",
                    "events.body",
                    _recomputing(
                        "events", row, lambda one, m=member, v=value: _with_member(one, m, v), cuts_heads=True
                    ),
                )


def _unique_fields(rows: list[Row]) -> list[Row]:
    return list({row["field"]: row for row in rows}.values())


def _other_value(row: Row) -> None:
    value = bytes(row["value"])
    for old, new in ((b'"is_revoked":true', b'"is_revoked":false'), (b"false", b"true"), (b"1", b"2"), (b'"', b'"x')):
        if old in value:
            row["value"] = value.replace(old, new, 1)
            return
    row["value"] = b'"evil"'


def _with_member(row: Row, member: str, value: object) -> None:
    row["body"] = canonical({**json.loads(bytes(row["body"])), member: value})


def _recomputing(
    table: str, row: Row, change_row: Callable[[Row], None], *, cuts_heads: bool
) -> Callable[[Dump], None]:
    key = _key(table, row)

    def change(dump: Dump) -> None:
        change_row(_find(dump, table, key))
        relink(dump)
        if cuts_heads:
            dump["heads"] = [one for one in dump["heads"] if one["tenant"] != TENANT]

    return change


# Deletes


def _deletes(world: World) -> Iterator[Attack]:
    for table in TABLES:
        for row in _chosen(world, table):
            where = row["kind"] if table == "sheets" else table
            name = f"delete a row of {table} {_label(table, row)}"
            yield Attack(name.strip(), "delete", where, _deleter([(table, _key(table, row))]))
    for row in _of(world.states["final"], "effects"):
        mine = [
            ("sheets", _key("sheets", one))
            for one in _of(world.states["final"], "sheets")
            if one["kind"] == "approval" and one["id"] == row["approval_id"]
        ]
        if mine:
            keys = [("effects", _key("effects", row)), *mine]
            yield Attack(f"delete an effect {row['status']} with its approval", "delete", "effects", _deleter(keys))
    for kind in ("limit", "policy", "budget", "stop", "credential", "person", "grant", "driver"):
        yield Attack(f"delete all of kind {kind}", "delete", kind, _without("sheets", kind))
    stop = next(row for row in _of(world.states["final"], "sheets", "held") if row["kind"] == "stop")
    yield Attack("delete the stop in force", "delete", "stop", _deleter([("sheets", _key("sheets", stop))]), "held")


def _deleter(keys: list[tuple[str, tuple[Any, ...]]]) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        for table, key in keys:
            dump[table].remove(_find(dump, table, key))

    return change


def _without(table: str, kind: str) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        dump[table] = [row for row in dump[table] if row["tenant"] != TENANT or row["kind"] != kind]

    return change


# Forgeries


def _forgeries(world: World) -> Iterator[Attack]:
    forged = _forged_sheets(world)
    for kind, (run_id, event_type, sheet, body, tenant) in forged.items():
        for mac in ("no mac", "a mac at random", "the mac of another row"):
            for place in ("waiting", "in the tree"):
                for shape in ("with its event", "row only"):
                    if shape == "row only" and place == "in the tree":
                        continue
                    yield Attack(
                        f"forge a {kind}, {shape}, {place}, {mac}",
                        "insert",
                        str(sheet["kind"]),
                        _forger(kind, run_id, event_type, sheet, body, tenant, mac, place, shape),
                        tenant,
                    )
    for status, field in (("succeeded", "result"), ("failed", "error")):
        for mac in ("no mac", "a mac at random", "the mac of another row"):
            yield Attack(f"forge an effect {status}, {mac}", "insert", "effects", _effect_forger(status, field, mac))


def _forged_sheets(world: World) -> dict[str, tuple[str, str, Row, Any, str]]:
    """Say of each right what row would give it, and what its event would commit to."""
    final = world.states["final"]
    now = datetime.now(UTC)
    at, later = (
        moment.isoformat(timespec="microseconds").replace("+00:00", "Z") for moment in (now, now + timedelta(days=9))
    )

    def body_of(kind: str, tenant: str = TENANT, **where: Any) -> tuple[Row, Any]:
        row = next(
            one
            for one in _of(final, "sheets", tenant)
            if one["kind"] == kind and all(one[name] == value for name, value in where.items())
        )
        for one in final["payloads"]:
            place = (one["tenant"], one["run_id"], one["seq"], one["field"])
            if place == (tenant, row["run_id"], row["seq"], kind):
                return dict(row), json.loads(bytes(one["value"]))
        return dict(row), json.loads(bytes(row["body"]))

    token, token_body = body_of("credential", id=world.tokens["boss"].credential_id)
    person, person_body = body_of("person", id=world.sessions["ana"].person_id)
    revoked, revoked_body = body_of("credential", id=world.tokens["gone"].credential_id)
    leaver, leaver_body = body_of("person", id=world.sessions["bob"].person_id)
    grant, grant_body = body_of("grant", status="active")
    question, question_body = body_of("approval", status="pending")
    _, used_body = body_of("approval", status="approved")
    policy, policy_body = body_of("policy")
    stop, stop_body = body_of("stop", "held")
    run, run_body = body_of("run", id="lead-1")
    checkpoint, checkpoint_body = body_of("checkpoint")
    budget, budget_body = body_of("budget")
    delegation, delegation_body = body_of("delegation", status="ended")
    vote = used_body["votes"]
    return {
        "token": (
            "indelible:credentials",
            "credential_given",
            {**token, "id": FORGED_TOKEN.credential_id, "version": 1, "status": "active"},
            {
                **token_body,
                "id": FORGED_TOKEN.credential_id,
                "hash": FORGED_TOKEN.hash,
                "scopes": ["admin"],
                "version": 1,
            },
            TENANT,
        ),
        "token again": (
            "indelible:credentials",
            "credential_given",
            {**revoked, "version": revoked["version"] + 1, "status": "active"},
            {**revoked_body, "is_revoked": False, "version": revoked["version"] + 1},
            TENANT,
        ),
        "person": (
            "indelible:people",
            "person_signed_in",
            {**person, "id": FORGED_SESSION.person_id, "version": 1, "status": "active"},
            {
                **person_body,
                "id": FORGED_SESSION.person_id,
                "name": "mallory",
                "scopes": ["admin"],
                "version": 1,
                "sessions": [
                    {**session, "id": FORGED_SESSION.name, "hash": FORGED_SESSION.hash}
                    for session in person_body["sessions"]
                ],
            },
            TENANT,
        ),
        "person again": (
            "indelible:people",
            "person_signed_in",
            {**leaver, "version": leaver["version"] + 1, "status": "active"},
            {
                **leaver_body,
                "version": leaver["version"] + 1,
                "is_revoked": False,
                "scopes": ["admin"],
                "sessions": [
                    {**one, "id": world.sessions["bob"].name, "hash": world.sessions["bob"].hash}
                    for one in person_body["sessions"]
                ],
            },
            TENANT,
        ),
        "grant": (
            "indelible:approvals",
            "grant_ended",
            {**grant, "version": grant["version"] + 1},
            {**grant_body, "uses_left": 99, "version": grant["version"] + 1},
            TENANT,
        ),
        "vote": (
            str(question["run_id"]),
            "approval_received",
            {**question, "version": question["version"] + 1, "status": "approved"},
            {**question_body, "status": "approved", "votes": vote, "version": question["version"] + 1},
            TENANT,
        ),
        "policy": (
            "indelible:policy",
            "policy_applied",
            {**policy, "version": policy["version"] + 1},
            {**policy_body, "version": policy["version"] + 1, "policy": OPEN_POLICY, "document": OPEN_POLICY},
            TENANT,
        ),
        "stop let go": (
            "indelible:stops",
            "effects_let_go",
            {**stop, "version": stop["version"] + 1, "status": "let_go"},
            {**stop_body, "is_in_force": False, "version": stop["version"] + 1, "at": at},
            "held",
        ),
        "run": (
            "lead-1",
            "run_resumed",
            {**run, "version": run["version"] + 1},
            {**run_body, "allowed_tools": None, "version": run["version"] + 1},
            TENANT,
        ),
        "checkpoint": (
            "lead-2",
            "checkpoint_sealed",
            {**checkpoint, "id": "ckp_01a1ec5438fa21ceb152719cffff", "topic": "lead-2"},
            {**checkpoint_body, "run": "lead-2", "created_at": at},
            TENANT,
        ),
        "budget": ("", "", {**budget, "version": budget["version"] + 1}, {**budget_body, "spent": []}, TENANT),
        "delegation": (
            "indelible:approvals",
            "delegation_given",
            {**delegation, "version": delegation["version"] + 1, "status": "active"},
            {**delegation_body, "is_ended": False, "until": later, "version": delegation["version"] + 1},
            TENANT,
        ),
    }


def _mac(dump: Dump, word: str, table: str, kind: str | None = None) -> bytes | None:
    if word == "no mac":
        return None
    if word == "a mac at random":
        return (sha256(kind.encode() if kind else b"x").digest() * 3)[: _RIGHT_MAC if table == "sheets" else 16]
    found = [bytes(row["mac"]) for row in _of(dump, table) if row["mac"] and row.get("kind") in (kind, None)]
    return found[-1] if found else None


def _forger(
    kind: str, run_id: str, event_type: str, sheet: Row, body: Any, tenant: str, mac: str, place: str, shape: str
) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        row = {**sheet, "mac": _mac(dump, mac, "sheets", sheet["kind"])}
        dump["sheets"] = [one for one in dump["sheets"] if _key("sheets", one) != _key("sheets", row)] + [row]
        if not run_id:
            row["body"] = canonical(body)
            return
        if shape == "row only":
            return
        seq = _append(dump, tenant, run_id, event_type, mac, place)
        row["run_id"], row["seq"] = run_id, seq
        value = {"tenant": tenant, "run_id": run_id, "seq": seq, "field": sheet["kind"], "salt": SALT}
        dump["payloads"].append({**value, "value": canonical(body), "mac": _mac(dump, mac, "payloads")})
        event = _find(dump, "events", (tenant, run_id, seq))
        said = json.loads(bytes(event["body"]))
        said["commits"] = {sheet["kind"]: ""}
        if "facts" in said:
            said["facts"] = {**said["facts"], "id": sheet["id"]}
        event["body"] = canonical(said)
        relink(dump, tenant)

    return change


def _append(dump: Dump, tenant: str, run_id: str, event_type: str, mac: str, place: str) -> int:
    """Add an event like one that is there to the end of a run."""
    like = [row for row in _of(dump, "events", tenant) if row["type"] == event_type] or _of(dump, "events", tenant)
    mine = [row["seq"] for row in _of(dump, "events", tenant) if row["run_id"] == run_id]
    seq = max(mine) + 1 if mine else 0
    body = {**json.loads(bytes(like[-1]["body"])), "run": run_id, "seq": seq, "type": event_type}
    event = {**like[-1], "run_id": run_id, "seq": seq, "type": event_type, "body": canonical(body)}
    dump["events"].append({**event, "mac": _mac(dump, mac, "events")})
    if not mine:
        dump["runs"].append({**_of(dump, "runs", tenant)[0], "run_id": run_id, "count": 1, "head": bytes(32)})
    if place == "waiting":
        dump["pending"].append({"tenant": tenant, "run_id": run_id, "seq": seq, "hash": bytes(32)})
    else:
        leaf = max(row["leaf"] for row in _of(dump, "leaves", tenant)) + 1
        dump["leaves"].append({"tenant": tenant, "leaf": leaf, "run_id": run_id, "seq": seq, "hash": bytes(32)})
    return seq


def _effect_forger(status: str, field: str, mac: str) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        row = next(one for one in _of(dump, "effects") if one["status"] == "in_doubt")
        seq = _append(dump, TENANT, row["run_id"], "tool_call_finished", mac, "waiting")
        event = _find(dump, "events", (TENANT, row["run_id"], seq))
        event["effect_id"] = row["id"]
        said = json.loads(bytes(event["body"]))
        event["body"] = canonical({**said, "effect": row["id"], "status": status, "commits": {field: ""}})
        value = {
            "tenant": TENANT,
            "run_id": row["run_id"],
            "seq": seq,
            "field": field,
            "salt": SALT,
            "value": b'"evil"',
        }
        dump["payloads"].append({**value, "mac": _mac(dump, mac, "payloads")})
        row |= {"status": status, "detail_seq": seq, "version": row["version"] + 1, "mac": _mac(dump, mac, "effects")}
        relink(dump)

    return change


# Set back


def _set_back(world: World) -> Iterator[Attack]:
    return _unique(_each_set_back(world))


def _each_set_back(world: World) -> Iterator[Attack]:
    final = world.states["final"]
    for state, dump in world.states.items():
        if state == "final":
            continue
        for table in ("sheets", "effects", "runs"):
            now = {_key(table, row): row for row in final[table]}
            for row in dump[table]:
                after = now.get(_key(table, row))
                if after is None or after == row or row.get("kind") == "delivery":
                    continue
                what = f"{table} {_label(table, after)} {'' if table == 'effects' else _key(table, row)[-1]}"
                was = f"v{row['version']} {row['status']}" if "version" in row else f"{row['count']} events"
                where = row.get("kind", table)
                name = f"set back {what} {_key(table, row)[1] if table == 'effects' else ''} to {was}"
                yield Attack(name, "set back", where, _setter(table, after, **row), row["tenant"])
                if row.get("run_id") and row["tenant"] == TENANT and table != "runs":
                    yield Attack(f"{name} with its run", "set back", where, _run_set_back(table, row, dump), TENANT)
        for tables in (("sheets",), ("effects",), ("sheets", "effects"), ("sheets", "effects", "runs"), tuple(TABLES)):
            words = "the whole database" if len(tables) > 3 else " and ".join(tables)
            tenant = "held" if state.startswith("held") else TENANT
            yield Attack(f"set back {words} to '{state}'", "set back", words, _tables_set_back(tables, dump), tenant)
        if state.startswith("sealed"):
            yield Attack(
                f"set back the whole tenant to '{state}'", "set back", "the whole tenant", _tenant_set_back(dump)
            )


def _taken_in(world: World) -> Iterator[Attack]:
    """Take what waits into the tree, where no seal examined it, and put old rows back."""
    for attack in _set_back(world):
        if attack.tenant == TENANT:
            yield Attack(f"{attack.name}, the rest taken in", "taken in", attack.where, _both(attack.change, take_in))


def _run_set_back(table: str, row: Row, old: Dump) -> Callable[[Dump], None]:
    """Put a row back with all of its run: events, values, head and what waits."""
    key, run_id = _key(table, row), row["run_id"]

    def change(dump: Dump) -> None:
        _find(dump, table, key).update(row)
        for name in ("runs", "events", "payloads", "pending"):
            dump[name] = [one for one in dump[name] if (one["tenant"], one["run_id"]) != (TENANT, run_id)]
            dump[name] += [dict(one) for one in old[name] if (one["tenant"], one["run_id"]) == (TENANT, run_id)]
        there = {(one["run_id"], one["seq"]) for one in _of(dump, "events")}
        leaves = {(one["run_id"], one["seq"]) for one in _of(dump, "leaves")}
        dump["pending"] = [one for one in dump["pending"] if (one["run_id"], one["seq"]) not in leaves]
        if not leaves <= there:
            dump["leaves"] = [
                one for one in dump["leaves"] if one["tenant"] != TENANT or (one["run_id"], one["seq"]) in there
            ]
            regrow(dump)

    return change


def _tables_set_back(tables: tuple[str, ...], old: Dump) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        dump.update(copied({table: old[table] for table in tables}))

    return change


def _tenant_set_back(old: Dump) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        for table in TABLES:
            if table != "ledger":
                others = [row for row in dump[table] if row["tenant"] != TENANT]
                dump[table] = others + [dict(row) for row in _of(old, table)]

    return change


# Swaps


def _swaps(world: World) -> Iterator[Attack]:
    rows = list(_chosen(world, "effects"))
    first = next(row for row in rows if row["status"] == "in_doubt")
    for other in rows:
        if other["id"] == first["id"]:
            continue
        for columns in (("status",), ("detail_seq",), ("digest", "opened_seq"), ("approval_id",), ("mac",), ("key",)):
            if any(first[name] != other[name] for name in columns):
                name = f"swap {' and '.join(columns)} of in_doubt {first['tool']} with {other['status']} {other['id']}"
                yield Attack(
                    name.split(" eff_")[0], "swap", f"effects.{columns[0]}", _swapper("effects", first, other, columns)
                )
        keep = {"tenant", "scope", "key"}
        columns = tuple(name for name in first if name not in keep)
        yield Attack(
            f"swap everything of in_doubt with {other['status']}",
            "swap",
            "effects",
            _swapper("effects", first, other, columns),
        )
    sheets = _of(world.states["final"], "sheets")
    for kind in ("approval", "credential", "person", "grant", "checkpoint", "delegation"):
        mine = [row for row in sheets if row["kind"] == kind]
        one = mine[0]
        for other in [row for row in mine if row["status"] != one["status"]][:1] or mine[1:2]:
            for columns in (("status", "version", "run_id", "seq", "mac"), ("run_id", "seq"), ("mac",)):
                name = f"swap {'+'.join(columns)} of {kind} {one['status']} with {other['status']}"
                yield Attack(name, "swap", kind, _swapper("sheets", one, other, columns))
    values = _of(world.states["final"], "payloads")
    for field in ("result", "args", "credential", "approval", "state"):
        one, other = [row for row in values if row["field"] == field][:2]
        yield Attack(
            f"swap values of {field} with salts and macs",
            "swap",
            "payloads.value",
            _swapper("payloads", one, other, ("value", "salt", "mac")),
        )


def _swapper(table: str, one: Row, other: Row, columns: tuple[str, ...]) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        left, right = _find(dump, table, _key(table, one)), _find(dump, table, _key(table, other))
        for name in columns:
            left[name], right[name] = right[name], left[name]

    return change


# Cuts


def _cuts(world: World) -> Iterator[Attack]:
    sizes = sorted(row["size"] for row in _of(world.states["final"], "heads"))
    for count in range(1, len(sizes) + 1):
        yield Attack(f"cut the {count} newest heads", "cut", "heads", _cut_heads(sizes[-count]))
        yield Attack(
            f"cut the {count} newest heads and their leaves", "cut", "leaves", _cut_leaves(sizes, count, False)
        )
        yield Attack(f"cut the {count} newest heads and their events", "cut", "events", _cut_leaves(sizes, count, True))
    yield Attack("cut all that waits", "cut", "pending", _cut_waiting(False))
    yield Attack("cut all that waits with its events", "cut", "events", _cut_waiting(True))
    for run_id in ("indelible:credentials", "indelible:people", "indelible:stops", "order-7", "order-2", "lead-2"):
        for count in (1, 2):
            yield Attack(f"cut the last {count} events of {run_id}", "cut", "events", _cut_run(run_id, count))


def _cut_heads(size: int) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        dump["heads"] = [row for row in dump["heads"] if row["tenant"] != TENANT or row["size"] < size]

    return change


def _cut_leaves(sizes: list[int], count: int, has_events: bool) -> Callable[[Dump], None]:
    left = 0 if count == len(sizes) else sizes[-count - 1]

    def change(dump: Dump) -> None:
        _cut_heads(sizes[-count])(dump)
        gone = [row for row in _of(dump, "leaves") if row["leaf"] >= left]
        dump["leaves"] = [row for row in dump["leaves"] if row["tenant"] != TENANT or row["leaf"] < left]
        if has_events:
            _drop_events(dump, {(row["run_id"], row["seq"]) for row in gone})
            relink(dump)
            return
        known = ("tenant", "run_id", "seq", "hash")
        dump["pending"] = [{name: row[name] for name in known} for row in gone] + dump["pending"]
        regrow(dump)

    return change


def _cut_waiting(has_events: bool) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        gone = {(row["run_id"], row["seq"]) for row in _of(dump, "pending")}
        dump["pending"] = [row for row in dump["pending"] if row["tenant"] != TENANT]
        if has_events:
            _drop_events(dump, gone)
            relink(dump)

    return change


def _cut_run(run_id: str, count: int) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        last = max(row["seq"] for row in _of(dump, "events") if row["run_id"] == run_id)
        _drop_events(dump, {(run_id, seq) for seq in range(last - count + 1, last + 1)})
        relink(dump)

    return change


def _drop_events(dump: Dump, gone: set[tuple[str, int]]) -> None:
    for table in ("events", "payloads", "pending"):
        dump[table] = [row for row in dump[table] if row["tenant"] != TENANT or (row["run_id"], row["seq"]) not in gone]


# Copies


def _copies(world: World) -> Iterator[Attack]:
    sources = (("tenant", world.states["final"], "other"), ("ledger", world.twin, TENANT))
    for word, source, tenant in sources:
        for table in ("effects", "sheets", "payloads", "events"):
            mine = {_key(table, row) for row in _of(world.states["final"], table)}
            seen: set[str] = set()
            for row in _of(source, table, tenant):
                copy = {**row, "tenant": TENANT}
                label = f"{_label(table, row)} {'new' if _key(table, copy) not in mine else 'in its place'}"
                if label in seen or row.get("kind") == "delivery":
                    continue
                seen.add(label)
                yield Attack(
                    f"copy {table} {label} from another {word}", "copy", row.get("kind", table), _copier(table, [copy])
                )
        for run_id in (
            "order-1",
            "order-2",
            "indelible:credentials",
            "indelible:people",
            "indelible:approvals",
            "lead-1",
        ):
            yield Attack(f"copy run {run_id} from another {word}", "copy", "runs", _run_copier(source, tenant, run_id))
        yield Attack(f"copy everything from another {word}", "copy", "runs", _all_copier(source, tenant))


def _copier(table: str, rows: list[Row]) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        keys = {_key(table, row) for row in rows}
        dump[table] = [row for row in dump[table] if _key(table, row) not in keys] + [dict(row) for row in rows]

    return change


def _run_copier(source: Dump, tenant: str, run_id: str) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        for table in ("runs", "events", "payloads", "pending", "effects", "sheets"):
            rows = [{**row, "tenant": TENANT} for row in _of(source, table, tenant) if row["run_id"] == run_id]
            dump[table] = [row for row in dump[table] if (row["tenant"], row["run_id"]) != (TENANT, run_id)]
            _copier(table, rows)(dump)
        waiting = {(row["run_id"], row["seq"]) for row in _of(dump, "pending")}
        sealed = {(row["run_id"], row["seq"]) for row in _of(dump, "leaves")}
        for row in _of(dump, "events"):
            place = (row["run_id"], row["seq"])
            if row["run_id"] == run_id and place not in waiting | sealed:
                dump["pending"].append({"tenant": TENANT, "run_id": run_id, "seq": row["seq"], "hash": row["hash"]})
        relink(dump)

    return change


def _all_copier(source: Dump, tenant: str) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        for table in TABLES:
            if table != "ledger":
                others = [row for row in dump[table] if row["tenant"] != TENANT]
                dump[table] = others + [{**row, "tenant": TENANT} for row in _of(source, table, tenant)]

    return change


# Macs


def _without_macs(world: World) -> Iterator[Attack]:
    """Let the ledger look as if its rows carried no macs, and forge then."""

    def bare(dump: Dump) -> None:
        for row in dump["ledger"]:
            row["has_macs"] = type(row["has_macs"])(0)
        for table in ("events", "payloads", "effects", "sheets"):
            for row in dump[table]:
                row["mac"] = None

    yield Attack("null every mac and say that there are none", "macs", "macs", bare)
    for table in ("events", "payloads", "effects", "sheets"):
        yield Attack(f"null the macs of {table}", "macs", "macs", _null_macs(table))
    for one in (attack for make in (_forgeries, _set_back, _edits) for attack in make(world)):
        is_plain = one.kind != "insert" or "waiting, no mac" in one.name
        is_right = one.where in (
            "credential",
            "person",
            "grant",
            "policy",
            "approval",
            "stop",
            "effects.status",
            "budget",
        )
        if is_plain and is_right and ("v1" in one.name or one.kind != "set back") and ".mac" not in one.name:
            yield one._replace(name=f"without macs: {one.name}", kind="macs", change=_both(one.change, bare))


def _null_macs(table: str) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        for row in dump[table]:
            row["mac"] = None

    return change


def _both(first: Callable[[Dump], None], second: Callable[[Dump], None]) -> Callable[[Dump], None]:
    def change(dump: Dump) -> None:
        first(dump)
        second(dump)

    return change
