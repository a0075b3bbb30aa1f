"""The PostgreSQL schema: brings a database up to date when it is told to, and never by itself."""

from __future__ import annotations

import time

from indelible.core.ports import Begin, Expect
from indelible.errors import SchemaOutdated, StoreUnavailable
from indelible.stores.named_sql import load_migrations
from indelible.stores.postgres import wire
from indelible.stores.postgres.address import Target
from indelible.stores.postgres.connections import Lost, Rejected, Session
from indelible.stores.postgres.statements import SQL
from indelible.stores.postgres.trouble import explained

MIGRATIONS = load_migrations(__package__)
_MOST_SECONDS = 3600.0
# Two migrators made the table of migrations at the same moment.
_LOST_THE_RACE = ("23505", "42P07", "42710")


def migrate(url: str, expect: Expect | None = None, begin: Begin | None = None) -> list[str]:
    """Apply the migrations that are missing, in one transaction, and return their names; safe to race.

    `expect` is asked with the address and the ledger's name before a ledger is begun or changed, and raises if another
    one belongs there. `begin` makes the writer keys of a new ledger before that is committed: no ledger is without its
    keys.
    """
    target = Target(url)
    try:
        session = Session(target)
        try:
            return _migrate(session, target, expect, begin)
        finally:
            session.close()
    except (Lost, Rejected) as problem:
        raise explained(target, problem) from problem


def secure_rows(url: str) -> None:
    """Lets no connection see or write rows of another tenant than the one it says it works for; safe to repeat."""
    target = Target(url)
    try:
        session = Session(target)
        try:
            session.command(SQL["secure_rows"].sql, time.monotonic() + _MOST_SECONDS)
        finally:
            session.close()
    except (Lost, Rejected) as problem:
        raise explained(target, problem) from problem


def _migrate(session: Session, target: Target, expect: Expect | None, begin: Begin | None) -> list[str]:
    until = time.monotonic() + _MOST_SECONDS
    _make_table(session, until)
    session.command(b"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL client_min_messages = warning", until)
    session.command(SQL["lock_migrations"].sql, until)
    done = _applied(session, until)
    _refuse_newer(done, target)
    missing = [migration for migration in MIGRATIONS if migration.number not in done]
    for migration in missing:
        session.command(migration.sql.encode(), until)
        session.run(SQL["note_migration"], [wire.bigint(migration.number), migration.name.encode()], until)
    name = (session.run(SQL["ledger_name"], (), until).get_value(0, 0) or b"").decode()
    if expect is not None:
        expect(target.address, name if done else None)
    if begin is not None and not done:
        begin(name)
        session.run(SQL["begin_macs"], (), until)
    session.command(b"COMMIT", until)
    if session.is_warned:
        raise StoreUnavailable(f"{target.address}: the standbys may not have the migration yet; run the same again")
    return [f"{migration.number:04}_{migration.name}" for migration in missing]


def _make_table(session: Session, until: float) -> None:
    try:
        session.command(SQL["make_migrations_table"].sql, until)
    except Rejected as rejected:
        if rejected.sqlstate not in _LOST_THE_RACE:
            raise


def _applied(session: Session, until: float) -> set[int]:
    found = session.run(SQL["list_migrations"], (), until)
    numbers = [found.get_value(row, 0) for row in range(found.ntuples)]
    return {wire.read_bigint(number) for number in numbers if number is not None}


def check_schema(session: Session, target: Target, until: float) -> None:
    """Raises `SchemaOutdated` unless the database has exactly the migrations that this version knows."""
    has_table = session.run(SQL["has_migrations_table"], (), until).get_value(0, 0) == b"\1"
    done = _applied(session, until) if has_table else set()
    _refuse_newer(done, target)
    missing = [f"{migration.number:04}_{migration.name}" for migration in MIGRATIONS if migration.number not in done]
    if missing:
        raise SchemaOutdated(
            f"{target.address} lacks the migrations {', '.join(missing)}; run: indelible migrate, with the same URL"
        )


def _refuse_newer(done: set[int], target: Target) -> None:
    newer = done - {migration.number for migration in MIGRATIONS}
    if newer:
        raise SchemaOutdated(
            f"{target.address} has migration {max(newer)}, and this version of Indelible knows {len(MIGRATIONS)}; "
            "upgrade Indelible"
        )
