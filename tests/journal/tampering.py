"""Changes a ledger's database or a bundle's files as somebody with access to them could, one thing at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import psycopg

from indelible.core.sheets import KEPT_ASIDE
from tests.stores.database import open_file

TABLES = {  # with the columns that make a row
    "ledger": ("only_row",),
    "runs": ("tenant", "run_id"),
    "effects": ("tenant", "scope", "key"),
    "sheets": ("tenant", "kind", "id"),
    "events": ("tenant", "run_id", "seq"),
    "payloads": ("tenant", "run_id", "seq", "field"),
    "pending": ("tenant", "run_id", "seq"),
    "trees": ("tenant",),
    "leaves": ("tenant", "leaf"),
    "tiles": ("tenant", "level", "number"),
    "heads": ("tenant", "size"),
}
Row = dict[str, Any]


class Database:
    """Is a ledger's database in the hands of somebody who may write to it; `?` stands for a value in both dialects."""

    def __init__(self, url: str) -> None:
        self._is_sqlite = url.startswith("sqlite")
        if self._is_sqlite:
            self._file = open_file(url)
            self._file.execute("PRAGMA synchronous = OFF")
        else:
            self._server = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        """Hangs up."""
        self._file.close() if self._is_sqlite else self._server.close()

    def _read(self, sql: str) -> list[Row]:
        if self._is_sqlite:
            cursor = self._file.execute(sql)
            # Once the last row was read, the names are gone.
            return [dict(zip([column[0] for column in cursor.get_description()], row, strict=True)) for row in cursor]
        found = self._server.execute(sql.encode())
        return [dict(zip([column.name for column in found.description or ()], row, strict=True)) for row in found]

    def tables(self) -> set[str]:
        """Names the ledger's tables."""
        schema = "sqlite_schema WHERE type = 'table'" if self._is_sqlite else "pg_tables"
        names = {
            row["name"]
            for row in self._read(f"SELECT {'name' if self._is_sqlite else 'tablename AS name'} FROM {schema}")
        }
        return {name.removeprefix("indelible_") for name in names if name.startswith("indelible_")}

    def rows(self, table: str) -> list[Row]:
        """Reads a whole table, in the order of its keys."""
        return self._read(f"SELECT * FROM indelible_{table} ORDER BY {', '.join(TABLES[table])}")

    def replace(self, table: str, rows: list[Row]) -> None:
        """Puts these rows in the place of all there are."""
        columns = rows[0] if rows else {}
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        delete, insert = f"DELETE FROM indelible_{table}", f"INSERT INTO indelible_{table} ({names}) VALUES ({marks})"
        if self._is_sqlite:
            with self._file:
                self._file.execute(delete)
                self._file.executemany(insert, [tuple(row.values()) for row in rows])
            return
        with self._server.transaction(), self._server.cursor() as cursor:
            cursor.execute(delete.encode())
            cursor.executemany(insert.replace("?", "%s").encode(), [tuple(row.values()) for row in rows])

    @contextmanager
    def changed(self, change: Change) -> Iterator[bool]:
        """Makes a change for a while; says whether the database let it happen."""
        before = self.rows(change.table)
        try:
            self.replace(change.table, change.applied([dict(row) for row in before]))
        except (apsw.ConstraintError, psycopg.Error):
            yield False  # the database itself would not have it
            return
        try:
            yield True
        finally:
            self.replace(change.table, before)


@dataclass(frozen=True)
class Change:
    """Is one change to one table: what is done, to which column or to a whole row."""

    table: str
    act: str
    column: str = ""
    place: int = -1
    kind: str = ""
    """Is the kind of the sheet that is changed."""

    def __str__(self) -> str:
        return f"{self.table}{'.' if self.column else ''}{self.column} {self.act} at {self.place}"

    def applied(self, rows: list[Row]) -> list[Row]:
        """Gives the rows after the change."""
        row, column = rows[self.place], self.column
        match self.act:
            case "edit":
                row[column] = edited(column, row[column])
            case "blank":
                row[column] = blank(row[column])
            case "truncate":
                row[column] = shorter(row[column])
            case "swap":
                others = (one for one in rows if self.kind == one.get("kind", ""))
                other = next(one for one in others if one[column] != row[column])
                row[column], other[column] = other[column], row[column]
            case "delete row":
                rows.remove(row)
            case "insert row":
                copy = dict(row)
                for name in TABLES[self.table]:
                    if isinstance(copy[name], int):
                        copy[name] += 1000
                if copy == row:
                    copy[TABLES[self.table][-1]] = edited("", row[TABLES[self.table][-1]])
                if "id" in copy:
                    copy["id"] += "0"
                rows.append(copy)
        return rows


_TELLING = ("kind", "id", "status", "body")  # enough to see of sheets that nothing is compared with
_OTHERS = {
    "status": ("failed", "succeeded"),
    "on_crash": ("retry", "hold"),
    "side_effect": ("read", "write"),
    "type": ("tool_call_late", "tool_call_started"),
    "field": ("result", "args"),
}


def edited(column: str, value: Any) -> Any:
    """Gives another value of the same kind, one that could be true."""
    if column in _OTHERS:
        return next(other for other in _OTHERS[column] if other != value)
    if isinstance(value, bytes | memoryview):
        return bytes([bytes(value)[0] ^ 1]) + bytes(value)[1:]
    if isinstance(value, int):
        return value + 1
    if isinstance(value, datetime):
        return value + timedelta(microseconds=1)
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    return None if value is not None else {"signature": b"s" * 64, "lease_until": None, "body": b"{}"}.get(column, 1)


def blank(value: Any) -> Any:
    """Gives what remains when a value is taken away."""
    if isinstance(value, bytes | memoryview):
        return b""
    if isinstance(value, datetime):
        return datetime(1970, 1, 1, tzinfo=UTC)
    return 0 if isinstance(value, int) else "" if isinstance(value, str) else None


def shorter(value: Any) -> Any:
    """Gives a value without its end."""
    if isinstance(value, bytes | memoryview):
        return bytes(value)[:-1]
    if isinstance(value, datetime):
        return value.replace(microsecond=0)
    return value // 2 if isinstance(value, int) else value[:-1] if isinstance(value, str) else None


def changes(database: Database) -> Iterator[Change]:
    """Lists every change that does something: every column of every table, and whole rows."""
    for table in TABLES:
        rows = database.rows(table)
        assert rows, f"{table} is empty, so nothing in it can be changed"
        for kind in dict.fromkeys(row["kind"] if table == "sheets" else "" for row in rows):
            places = [place for place, row in enumerate(rows) if kind == (row["kind"] if table == "sheets" else "")]
            for act in ("delete row", "insert row"):
                yield Change(table, act, "", places[-1], kind)
            for column in rows[0]:
                yield from _changes_of(table, column, kind, {place: rows[place][column] for place in places})


def _changes_of(table: str, column: str, kind: str, values: dict[int, Any]) -> Iterator[Change]:
    """Lists what can be done to a column; the rows that matter have the values given by their places."""
    place = next((place for place, value in values.items() if value is not None), next(iter(values)))
    if kind not in KEPT_ASIDE or column in _TELLING:
        yield Change(table, "edit", column, place, kind)
    if kind in KEPT_ASIDE:
        return  # these carry no evidence, whatever is done to them
    if values[place] is not None:
        if blank(values[place]) != values[place]:
            yield Change(table, "blank", column, place, kind)
        if shorter(values[place]) != values[place]:
            yield Change(table, "truncate", column, place, kind)
    if any(value != values[place] for value in values.values()):
        yield Change(table, "swap", column, place, kind)
