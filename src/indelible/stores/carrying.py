"""What is carried when a ledger or a tenant moves to another store: every row, in an order that both stores keep."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from indelible.core.sheets import Sheet
from indelible.errors import StoreError

Kind = Literal["text", "number", "bytes", "time"]
Row = tuple[Any, ...]
Progress = Callable[[int, int | None], None]
"""Is told how many rows are done, and of how many."""

# A time is carried as microseconds since 1970. `only_row`, which keeps a table at one row, and `awaited`, which tells a
# writer whom to wake, belong to the store itself.
TABLES: Mapping[str, Mapping[str, Kind]] = {
    "ledger": {"name": "text", "created_at": "time", "has_macs": "number"},
    "redaction": {"key_check": "text"},
    "runs": {"tenant": "text", "run_id": "text", "count": "number", "head": "bytes", "begun_at": "time"},
    "effects": {
        "tenant": "text",
        "scope": "text",
        "key": "bytes",
        "id": "text",
        "run_id": "text",
        "tool": "text",
        "side_effect": "text",
        "on_crash": "text",
        "call_id": "text",
        "digest": "bytes",
        "status": "text",
        "attempt": "number",
        "version": "number",
        "token_hash": "bytes",
        "lease_until": "time",
        "opened_seq": "number",
        "detail_seq": "number",
        "created_at": "time",
        "updated_at": "time",
        "approval_id": "text",
        "charges": "bytes",
        "turn": "text",
        "doubted": "number",
        "mac": "bytes",
    },
    "events": {
        "tenant": "text",
        "run_id": "text",
        "seq": "number",
        "effect_id": "text",
        "type": "text",
        "hash": "bytes",
        "body": "bytes",
        "signature": "bytes",
        "mac": "bytes",
    },
    "payloads": {
        "tenant": "text",
        "run_id": "text",
        "seq": "number",
        "field": "text",
        "salt": "bytes",
        "value": "bytes",
        "mac": "bytes",
    },
    "pending": {"tenant": "text", "run_id": "text", "seq": "number", "hash": "bytes"},
    "trees": {"tenant": "text", "size": "number", "root": "bytes"},
    "leaves": {"tenant": "text", "leaf": "number", "run_id": "text", "seq": "number", "hash": "bytes"},
    "tiles": {"tenant": "text", "level": "number", "number": "number", "hashes": "bytes"},
    "heads": {"tenant": "text", "size": "number", "note": "text", "at": "time"},
    "sheets": {
        "tenant": "text",
        "kind": "text",
        "id": "text",
        "version": "number",
        "status": "text",
        "topic": "text",
        "due_at": "time",
        "run_id": "text",
        "seq": "number",
        "body": "bytes",
        "created_at": "time",
        "mac": "bytes",
    },
}


OF_TENANTS = tuple(table for table, columns in TABLES.items() if "tenant" in columns)
"""Are the tables whose every row belongs to a tenant; the others tell of the ledger itself."""


class Rows(Protocol):
    """Gives a database's rows as they were at one moment, however many write meanwhile."""

    def count(self, tenant: str | None = None) -> int:
        """Counts all rows, or those of one tenant."""

    def tenants(self) -> list[str]:
        """Names whoever has a row of any kind."""

    def read(self, table: str, tenant: str | None = None) -> Iterator[Row]:
        """Gives the rows of a table, ordered by what identifies them; those of one tenant, where they have one."""


class Place(Rows, Protocol):
    """Is where rows arrive, in a transaction that nobody sees before it is committed."""

    def write(self, table: str, rows: Iterable[Row]) -> None:
        """Writes the rows of a table."""

    def clear(self, table: str, tenant: str) -> None:
        """Takes away a tenant's rows of a table."""


def carry(source: Rows, target: Place, progress: Progress) -> dict[str, int]:
    """Writes every row of one ledger into another, reads all of it again, and gives the number of each table's rows."""
    parts: list[tuple[str, str | None]] = [(table, None) for table in TABLES if table not in OF_TENANTS]
    parts += [(table, tenant) for tenant in source.tenants() for table in OF_TENANTS]
    return _carried(source, target, parts, source.count(), progress)


def carry_tenant(source: Rows, target: Place, tenant: str, progress: Progress) -> dict[str, int]:
    """Writes every row of one tenant into another ledger, reads them again, and gives the number of each table's."""
    return _carried(source, target, [(table, tenant) for table in OF_TENANTS], source.count(tenant), progress)


def sheet_row(tenant: str, sheet: Sheet) -> Row:
    """Gives the row of a sheet that no event commits to."""
    kept = {"tenant": tenant, "kind": sheet.kind, "id": sheet.id, "version": sheet.version, "status": sheet.status}
    kept |= {"topic": sheet.topic, "body": sheet.body}
    return tuple(kept.get(column) for column in TABLES["sheets"])


def _carried(
    source: Rows, target: Place, parts: Sequence[tuple[str, str | None]], count: int, progress: Progress
) -> dict[str, int]:
    told = _Told(progress, count * 2)
    sent = {part: _Digest(told) for part in parts}
    for part, digest in sent.items():
        target.write(part[0], digest.over(source.read(*part)))
    for part, digest in sent.items():
        arrived = _Digest(told)
        for _ in arrived.over(target.read(*part)):
            pass
        if arrived.value != digest.value:
            raise StoreError(f"indelible_{part[0]} did not arrive as it was sent; nothing was written")
    rows = Counter[str]()
    for (table, _), digest in sent.items():
        rows[table] += digest.rows
    if rows.total() != count:
        raise StoreError(f"of {count} rows {rows.total()} were found when they were read; nothing was written")
    return dict(rows)


class _Told:
    """Tells how far it is, not more often than somebody can see."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def one_more(self) -> None:
        self._done += 1
        if self._done % 1000 == 0 or self._done == self._total:
            self._progress(self._done, self._total)


class _Digest:
    """Reads rows as they pass by."""

    def __init__(self, told: _Told) -> None:
        self.rows = 0
        self._told = told
        self._hash = hashlib.sha256()

    def over(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            self.rows += 1
            self._hash.update(repr(row).encode("utf-8", "surrogatepass"))
            self._told.one_more()
            yield row

    @property
    def value(self) -> bytes:
        return self._hash.digest()
