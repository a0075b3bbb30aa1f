"""Puts a published vector into a ledger's database, as SQL could: events, leaves, tiles, heads, values, and its tables.

The tables that the ledger works with (ends of runs, effects, sheets) are written as the vector's own events tell them.
So a verdict rests on what the vector changes.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from indelible.core.journal.merkle import HASH_BYTES, leaf_hash, root_of
from indelible.core.journal.tiles import unpack_entries
from indelible.core.sheets import Sheet
from indelible.core.verifying.bodies import EffectBody, FactBody, read_effect_body, read_fact_body
from indelible.core.verifying.findings import Caught
from indelible.journal.evidence.live_sheets import ToldSheet, ToldSheets, _as_kept
from indelible.journal.evidence.told_effects import Told, told_by
from indelible.testing.record.vectors import Vector
from tests.journal.tampering import Database, Row
from tests.journal.vector_books import line_of

TENANT = "default"
LEDGER = "ledger-test"
_LARGEST = 2**63 - 1
_NO_HEAD = "a head that is no text, or whose size is none: a column holds text and a size"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Files = Mapping[str, bytes]
Values = dict[int, dict[str, tuple[bytes, bytes]]]


class CannotHold(Exception):
    """No database holds this: its message is the class of such vectors."""


def rows_of(vector: Vector, base: Files, is_sqlite: bool) -> dict[str, list[Row]]:
    """Return the rows that make a database hold a vector; `base` is the same journal, untouched."""
    if "manifest.json" not in base or "bundle" not in vector.expected:
        raise CannotHold("a .zip or NDJSON: a database has no files")
    if vector.name.startswith(("manifest", "files")):
        raise CannotHold("a manifest, a file more or a file less: a database has no files")
    if json.loads(base["manifest.json"])["kind"] != "journal" or not any(map(_is_entries, vector.files)):
        raise CannotHold("a part of a journal: a database holds all of it")
    if json.loads(vector.files["manifest.json"])["withheld"]:
        raise CannotHold("values that are withheld: a database has them")
    bodies = _bodies(vector.files)
    if vector.expected["bundle"] == "verified" and b'"log":"ledger-test/default"' not in bodies[0]:
        raise CannotHold("a journal of another tenant: it is asked for by that tenant")
    values = _values(vector.files, len(bodies))
    return _Loading(vector.files, bodies, _bodies(base), values, is_sqlite).rows()


def _is_entries(name: str) -> bool:
    return name.startswith("tile/entries/")


def _bodies(files: Files) -> list[bytes]:
    try:
        return unpack_entries(next(files[name] for name in files if _is_entries(name)))
    except ValueError:
        raise CannotHold("entries that are no list: a database has a row for each") from None


def _values(files: Files, count: int) -> Values:
    found: Values = {}
    with suppress(ValueError, LookupError, TypeError):
        for line in files["payloads.ndjson"].splitlines():
            one = json.loads(line)
            salt, value = bytes.fromhex(one["salt"]), b64decode(one["value"])
            found.setdefault(one["index"], {})[one["field"]] = (salt, value)
        again = [
            line_of({"field": field, "index": index, "salt": salt.hex(), "value": b64encode(value).decode()})
            for index, fields in sorted(found.items())
            for field, (salt, value) in sorted(fields.items())
        ]
        if b"".join(again) == files["payloads.ndjson"] and all(0 <= index < count for index in found):
            return found
    raise CannotHold("lines of values that are malformed, doubled, out of order or of no entry: a database has rows")


class _Loading:
    def __init__(self, files: Files, bodies: list[bytes], base: list[bytes], values: Values, is_sqlite: bool) -> None:
        self.files, self.bodies, self.values, self.is_sqlite = files, bodies, values, is_sqlite
        self.hashes = [leaf_hash(body) for body in bodies]
        self.places = [self._place(body, base[min(i, len(base) - 1)]) for i, body in enumerate(bodies)]
        if len(set(self.places)) < len(self.places):
            raise CannotHold("two events of a run with one number: the database's key refuses the second")

    def _place(self, body: bytes, base: bytes) -> tuple[str, int]:
        for one in (body, base):
            with suppress(ValueError, LookupError, TypeError, RecursionError):
                content = json.loads(one)
                run, seq = content["run"], content["seq"]
                if type(run) is str and "\0" not in run and type(seq) is int and abs(seq) <= _LARGEST:
                    return run, seq
        raise AssertionError("a base is readable")

    def rows(self) -> dict[str, list[Row]]:
        told = [self._read(body) for body in self.bodies]
        return {
            "events": [self._event(index) for index in range(len(self.bodies))],
            "leaves": self._leaves(),
            "tiles": self._tiles(),
            "trees": [{"tenant": TENANT, "size": len(self.bodies), "root": root_of(self.hashes)}],
            "heads": self._heads(),
            "payloads": [
                {"tenant": TENANT, **self._at(index), "field": field, "salt": salt, "value": value}
                for index, fields in self.values.items()
                for field, (salt, value) in fields.items()
            ],
            "runs": self._runs(),
            "effects": self._effects(told),
            "sheets": self._sheets(told),
        }

    def _at(self, index: int) -> Row:
        run, seq = self.places[index]
        return {"run_id": run, "seq": seq}

    def _time(self, at: datetime | None) -> Any:
        return at if at is None or not self.is_sqlite else (at - _EPOCH) // timedelta(microseconds=1)

    def _event(self, index: int) -> Row:
        body, effect, type_ = self.bodies[index], None, ""
        with suppress(ValueError, AttributeError, RecursionError):
            content = json.loads(body)
            effect, type_ = content.get("effect"), str(content.get("type"))
        return {
            "tenant": TENANT,
            **self._at(index),
            "effect_id": effect if isinstance(effect, str) else None,
            "type": type_,
            "hash": self.hashes[index],
            "body": body,
            "signature": None,
        }

    def _leaves(self) -> list[Row]:
        tile = next((content for name, content in self.files.items() if name.startswith("tile/0/")), b"")
        kept = [tile[at : at + HASH_BYTES] for at in range(0, len(tile), HASH_BYTES)]
        return [
            {"tenant": TENANT, "leaf": index, **self._at(index), "hash": kept[index] if index < len(kept) else own}
            for index, own in enumerate(self.hashes)
        ]

    def _tiles(self) -> list[Row]:
        found = []
        for name, content in self.files.items():
            if name.startswith("tile/") and not name.startswith("tile/entries/"):
                level, number = name.split("/")[1:3]
                place = {"level": int(level), "number": int(number.partition(".")[0])}
                found.append({"tenant": TENANT, **place, "hashes": content})
        return found

    def _heads(self) -> list[Row]:
        notes = {name: content for name, content in self.files.items() if name == "checkpoint" or name[:6] == "heads/"}
        found: dict[int, Row] = {}
        for name, content in notes.items():
            try:
                note = content.decode()
                size = int(name[6:]) if name != "checkpoint" else self._size_in(note)
            except ValueError:
                raise CannotHold(
                    "a head that is no text, or whose size is none: a column holds text and a size"
                ) from None
            if "\0" in note or size in found or size > _LARGEST:
                raise CannotHold(_NO_HEAD)
            found[size] = {"tenant": TENANT, "size": size, "note": note, "at": self._time(_EPOCH)}
        return list(found.values())

    def _size_in(self, note: str) -> int:
        lines = note.split("\n")
        return int(lines[1]) if len(lines) > 1 and lines[1].isdecimal() else len(self.bodies)

    def _runs(self) -> list[Row]:
        ends = {run: (seq + 1, hash_) for (run, seq), hash_ in zip(self.places, self.hashes, strict=True)}
        begun = {"begun_at": self._time(_EPOCH)}
        return [{"tenant": TENANT, "run_id": r, "count": n, "head": head, **begun} for r, (n, head) in ends.items()]

    def _read(self, body: bytes) -> EffectBody | FactBody | None:
        with suppress(UnicodeDecodeError):
            values = read_effect_body(body.decode())
            return read_fact_body(body.decode()) if values is None else EffectBody(*values)
        return None

    def _shown(self, index: int) -> dict[str, bytes]:
        return {field: value for field, (_, value) in self.values.get(index, {}).items()}

    def _effects(self, told: list[EffectBody | FactBody | None]) -> list[Row]:
        found: dict[str, Told] = {}
        keys: dict[str, bytes] = {}
        for index, event in enumerate(told):
            if isinstance(event, EffectBody):
                keys.setdefault(event.effect, self._shown(index).get("key", sha256(event.effect.encode()).digest()))
                with suppress(Caught):  # what is on a sheet that is none is told by no row
                    found.setdefault(event.effect, told_by(event)).move(event, self._shown(index))
        return [self._effect(effect, one, keys[effect]) for effect, one in found.items() if one.status]

    def _effect(self, effect: str, told: Told, key: bytes) -> Row:
        return {
            "tenant": TENANT,
            "scope": effect,
            "key": key,
            "id": effect,
            "run_id": told.run_id,
            "tool": told.tool,
            "side_effect": told.side_effect,
            "on_crash": told.on_crash,
            "call_id": None,
            "digest": bytes(32),
            "status": told.status,
            "attempt": told.attempt,
            "version": told.version,
            "token_hash": bytes(32),
            "lease_until": None,
            "opened_seq": told.opened_seq,
            "detail_seq": told.detail_seq,
            "created_at": self._time(datetime.fromisoformat(told.created_at)),
            "updated_at": self._time(datetime.fromisoformat(told.updated_at)),
            "approval_id": told.permission_id,
            "charges": told.charges[0] if told.charges else None,
            "turn": None,
            "doubted": told.doubted,
        }

    def _sheets(self, told: list[EffectBody | FactBody | None]) -> list[Row]:
        sheets = ToldSheets()
        for index, event in enumerate(told):
            if event is not None:
                with suppress(ValueError, LookupError, AssertionError, TypeError):
                    sheets.take(event, self._shown(index))
        kept: dict[tuple[str, str], Row] = {}
        asked = [("approval", one) for one_effect in sheets.questions.values() for one in one_effect]
        others = [
            (kind, one) for kinds in (sheets.named, sheets.clear) for kind in kinds for one in kinds[kind].values()
        ]
        for kind, one in (*asked, *others):
            with suppress(ValueError, LookupError, AssertionError, TypeError, ArithmeticError):
                row = self._sheet(kind, one)
                kept[kind, row["id"]] = row
        return list(kept.values())

    def _sheet(self, kind: str, told: ToldSheet) -> Row:
        value = self._shown(self.places.index(told.place))[kind]
        run, seq = told.place
        named = {"id": told.id or "", "version": told.version, "run_id": run, "seq": seq}
        sheet = _as_kept(kind, Sheet(kind=kind, status=told.status, body=value, **named))
        return {
            "tenant": TENANT,
            "kind": kind,
            "id": sheet.id,
            "version": sheet.version,
            "status": sheet.status,
            "topic": sheet.topic,
            "due_at": self._time(sheet.due_at),
            "run_id": run,
            "seq": seq,
            "body": None,
            "created_at": self._time(sheet.created_at),
        }


class LoadedDatabase:
    """Is a ledger's database that holds one vector after the other."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._is_sqlite = url.startswith("sqlite")
        self._now: dict[str, list[Row]] = {}
        self._database.replace("ledger", [{**self._database.rows("ledger")[0], "name": LEDGER}])

    def load(self, vector: Vector, base: Files) -> None:
        """Put a vector in the place of what is there; raise `CannotHold` if no database can."""
        rows = rows_of(vector, base, self._is_sqlite)
        for table, wanted in rows.items():
            if self._now.get(table) != wanted:
                self._database.replace(table, wanted)
                self._now[table] = wanted

    def close(self) -> None:
        """Hang up."""
        self._database.close()
