"""The database behind a store, as its owner can get at it: past the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import psycopg

from indelible.stores.sqlite.connections import BUSY_MS


def open_file(place: str | Path) -> apsw.Connection:
    """Opens a ledger's file beside whoever has it open, and waits for its turn as they do."""
    connection = apsw.Connection(str(place).removeprefix("sqlite:///"))
    connection.set_busy_timeout(BUSY_MS)
    return connection


class Database:
    """Runs SQL on either kind of store, with `?` for parameters."""

    def __init__(self, url: str) -> None:
        self.is_sqlite = url.startswith("sqlite")
        self.connection: Any = open_file(url) if self.is_sqlite else psycopg.connect(url, autocommit=True)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def run(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(sql if self.is_sqlite else sql.replace("?", "%s"), values)
        return cursor.fetchall() if self.is_sqlite or cursor.description else []

    def tables(self) -> dict[str, list[str]]:
        """Names the columns of every table."""
        if self.is_sqlite:
            names = self.run("SELECT name FROM sqlite_schema WHERE type = 'table'")
            return {name: [row[1] for row in self.run(f"PRAGMA table_info({name})")] for (name,) in names}
        names = self.run("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        columns = "SELECT column_name FROM information_schema.columns WHERE table_name = ? ORDER BY ordinal_position"
        return {name: [column for (column,) in self.run(columns, (name,))] for (name,) in names}
