"""A ledger, or one of its tenants, out of a SQLite file and into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

import apsw

from indelible.errors import Misconfigured
from indelible.stores.carrying import Row
from indelible.stores.named_sql import load_queries
from indelible.stores.sqlite.connections import Explained, connect
from indelible.stores.sqlite.write_lock import WriteLock

_SQL = load_queries(__package__, "carrying.sql")


class SqliteRows:
    """Reads and writes a file's rows in the transaction of its connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def count(self, tenant: str | None = None) -> int:
        """Counts all rows, or those of one tenant."""
        if tenant is None:
            number = self._connection.execute(_SQL["count_rows"]).get
        else:
            number = self._connection.execute(_SQL["count_rows_of_tenant"], {"tenant": tenant}).get
        assert isinstance(number, int)
        return number

    def tenants(self) -> list[str]:
        """Names whoever has a row of any kind."""
        return [str(tenant) for (tenant,) in self._connection.execute(_SQL["list_tenants"])]

    def read(self, table: str, tenant: str | None = None) -> Iterator[Row]:
        """Gives a table's rows in order."""
        yield from self._connection.execute(_SQL[f"read_{table}"], None if tenant is None else {"tenant": tenant})

    def write(self, table: str, rows: Iterable[Row]) -> None:
        """Writes a table's rows."""
        self._connection.executemany(_SQL[f"write_{table}"], rows)

    def clear(self, table: str, tenant: str) -> None:
        """Takes away a tenant's rows of a table."""
        self._connection.execute(_SQL[f"clear_{table}"], {"tenant": tenant})


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
def taking_in(path: str) -> Iterator[SqliteRows]:
    """Adds to a ledger; whatever goes wrong, it stays as it is. Whoever else writes to the file waits meanwhile."""
    with (
        closing(WriteLock(f"{path}-lock", f"sqlite:///{path}")) as turn,
        turn,
        _transaction(path, "BEGIN IMMEDIATE") as rows,
    ):
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
