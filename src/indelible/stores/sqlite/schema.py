"""The SQLite schema: brings a file up to date when it is opened."""

from __future__ import annotations

import uuid
from datetime import datetime

import apsw

from indelible.core.ports import Begin
from indelible.errors import SchemaOutdated
from indelible.stores.named_sql import load_migrations, load_queries
from indelible.stores.sqlite.rows import micros

MIGRATIONS = load_migrations(__package__)
_MIGRATIONS_TABLE = """
CREATE TABLE IF NOT EXISTS indelible_migrations (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL
) STRICT
"""
_PRESIZE_BYTES = 4 * 1024 * 1024


def is_current(connection: apsw.Connection) -> bool:
    """Has this file every migration? Raises when it has more than we know."""
    return _applied(connection) == len(MIGRATIONS)


def is_new(connection: apsw.Connection) -> bool:
    """Say whether the file has no ledger yet."""
    return _applied(connection) == 0


def migrate(connection: apsw.Connection, now: datetime, *, is_memory: bool, begin: Begin | None = None) -> list[str]:
    """Apply what is missing, in one transaction, and return its names; a file from a newer version is left alone.

    `begin` makes the writer keys of a new ledger before that is committed: no ledger is without its keys.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_MIGRATIONS_TABLE)
        done = _applied(connection)
        for migration in MIGRATIONS[done:]:
            connection.execute(migration.sql)
            row = (migration.number, migration.name, micros(now))
            connection.execute("INSERT INTO indelible_migrations VALUES (?, ?, ?)", row)
        if done == 0:
            queries, name = load_queries(__package__), f"ledger-{uuid.uuid4().hex[:12]}"
            connection.execute(queries["name_ledger"], (name, micros(now)))
            if begin is not None:
                begin(name)
                connection.execute(queries["begin_macs"])
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if done == 0 and not is_memory:
        _presize(connection)
    return [f"{migration.number:04}_{migration.name}" for migration in MIGRATIONS[done:]]


def _applied(connection: apsw.Connection) -> int:
    """Counts the migrations the file has; raises when it has more than we know."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'indelible_migrations'").fetchone() is None:
        return 0
    found = connection.execute("SELECT count(*) FROM indelible_migrations").fetchone()
    assert found is not None
    if found[0] > len(MIGRATIONS):
        raise SchemaOutdated(
            f"the ledger's schema has {found[0]} migrations, this version of Indelible knows {len(MIGRATIONS)}; "
            "upgrade Indelible"
        )
    return int(found[0])


def _presize(connection: apsw.Connection) -> None:
    """Grows a new file and its WAL once, so that the first commits need not: a sync of a growing file costs more."""
    connection.execute("CREATE TABLE IF NOT EXISTS indelible_presize (filler BLOB)")
    connection.execute("INSERT INTO indelible_presize VALUES (zeroblob(?))", (_PRESIZE_BYTES,))
    connection.execute("DROP TABLE indelible_presize")
    connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
