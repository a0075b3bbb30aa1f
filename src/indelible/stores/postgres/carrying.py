"""A ledger, or one of its tenants, out of a PostgreSQL database and into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from indelible.errors import Misconfigured, StoreUnavailable
from indelible.stores.carrying import TABLES, Kind, Row
from indelible.stores.named_sql import load_queries
from indelible.stores.postgres.address import Target
from indelible.stores.postgres.driver import psycopg

_SQL = {name: text.encode() for name, text in load_queries(__package__, "carrying.sql").items()}
_TYPES: dict[Kind, str] = {"text": "text", "number": "int8", "bytes": "bytea", "time": "timestamptz"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AT_ONCE = 2000
_READING = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresRows:
    """Reads and writes a database's rows in the transaction of its connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def count(self, tenant: str | None = None) -> int:
        """Counts all rows, or those of one tenant."""
        return int(self.one("count_rows") if tenant is None else self.one("count_rows_of_tenant", {"tenant": tenant}))

    def tenants(self) -> list[str]:
        """Names whoever has a row of any kind."""
        return [tenant for (tenant,) in self._connection.execute(_SQL["list_tenants"])]

    def one(self, name: str, values: Mapping[str, str] | None = None) -> Any:
        """Gives the one value that a statement asks for."""
        (value,) = self._connection.execute(_SQL[name], values).fetchall()[0]
        return value

    def read(self, table: str, tenant: str | None = None) -> Iterator[Row]:
        """Gives a table's rows in order, some at a time."""
        times = [place for place, kind in enumerate(TABLES[table].values()) if kind == "time"]
        with self._connection.cursor(f"indelible_{table}") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(_SQL[f"read_{table}"], None if tenant is None else {"tenant": tenant}, binary=True)
            for row in cursor:
                yield _with(row, times, _micros)

    def write(self, table: str, rows: Iterable[Row]) -> None:
        """Writes a table's rows."""
        kinds = TABLES[table].values()
        times = [place for place, kind in enumerate(kinds) if kind == "time"]
        moments = (_with(row, times, _moment) for row in rows)
        statement = _SQL[f"write_{table}"]
        with self._connection.cursor() as cursor:
            if not statement.partition(b"\n")[2].startswith(b"COPY"):
                cursor.executemany(statement, moments)
                return
            with cursor.copy(statement) as copy:
                copy.set_types([_TYPES[kind] for kind in kinds])
                for row in moments:
                    copy.write_row(row)

    def clear(self, table: str, tenant: str) -> None:
        """Takes away a tenant's rows of a table."""
        self._connection.execute(_SQL[f"clear_{table}"], {"tenant": tenant})


@contextmanager
def carrying_out(url: str) -> Iterator[PostgresRows]:
    """Gives a database's rows as they are now."""
    with _transaction(url) as rows:
        rows._connection.execute(_READING)
        yield rows


@contextmanager
def carrying_in(url: str) -> Iterator[PostgresRows]:
    """Fills an empty ledger; whatever goes wrong, it stays empty."""
    with _transaction(url) as rows:
        rows._connection.execute(_SQL["keep_others_out"])
        if not rows.one("is_empty"):
            raise Misconfigured(f"{Target(url).address} holds a ledger already; name a database that has none")
        yield rows


@contextmanager
def taking_in(url: str) -> Iterator[PostgresRows]:
    """Adds to a ledger, in which others go on writing; whatever goes wrong, it stays as it is."""
    with _transaction(url) as rows:
        yield rows


@contextmanager
def _transaction(url: str) -> Iterator[PostgresRows]:
    target = Target(url)
    try:
        with psycopg.connect(target.conninfo) as connection:  # commits at the end, or undoes everything
            rows = PostgresRows(connection)
            yield rows
    except psycopg.Error as problem:
        said = target.without_password(str(problem)).strip()
        raise StoreUnavailable(f"{target.address}: {said}; nothing was written. See to it, then call again") from None


def check_shown(url: str) -> None:
    """Raises `Misconfigured` when the server hides rows from this user."""
    with _transaction(url) as rows:
        if rows.one("is_hidden"):
            raise Misconfigured(
                f"{Target(url).address} shows this user the rows of one tenant only; connect as one who sees all: the "
                "owner of the tables with BYPASSRLS, or a superuser"
            )


def _with(row: Row, places: list[int], change: Any) -> Row:
    if not places:
        return row
    changed = list(row)
    for place in places:
        if changed[place] is not None:
            changed[place] = change(changed[place])
    return tuple(changed)


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _moment(number: int) -> datetime:
    return _EPOCH + timedelta(microseconds=number)
