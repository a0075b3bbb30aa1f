"""A whole ledger out of a SQLite file, and into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import apsw

from indelible.errors import Misconfigured
from indelible.stores.carrying import Row
from indelible.stores.named_sql import load_queries
from indelible.stores.sqlite.connections import Explained, connect

_SQL = load_queries(__package__, "carrying.sql")


class SqliteRows:
    """Reads and writes a file's rows in the transaction of its connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def count(self) -> int:
        """Counts all rows."""
        number = self._connection.execute(_SQL["count_rows"]).get
        assert isinstance(number, int)
        return number

    def read(self, table: str) -> Iterator[Row]:
        """Gives a table's rows in order."""
        yield from self._connection.execute(_SQL[f"read_{table}"])

    def write(self, table: str, rows: Iterable[Row]) -> None:
        """Writes a table's rows."""
        self._connection.executemany(_SQL[f"write_{table}"], rows)


@contextmanager
def carrying_out(path: str) -> Iterator[SqliteRows]:
    """Gives a file's rows as they are now."""
    with _transaction(path, "BEGIN") as rows:
        yield rows


@contextmanager
def carrying_in(path: str) -> Iterator[SqliteRows]:
    """Fills an empty ledger; whatever goes wrong, it stays empty."""
    with _transaction(path, "BEGIN IMMEDIATE") as rows:
        if not rows._connection.execute(_SQL["is_empty"]).get:
            raise Misconfigured(f"sqlite:///{path} holds a ledger already; name a file that is not there yet")
        yield rows


@contextmanager
def _transaction(path: str, begin: str) -> Iterator[SqliteRows]:
    with Explained(f"sqlite:///{path}"):
        connection = connect(path, is_memory=False)
        try:
            connection.execute(begin)
            yield SqliteRows(connection)
            connection.execute("COMMIT")
        finally:
            connection.close()  # what is not committed is undone
