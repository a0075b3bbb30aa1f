"""Picks the store that an address names; the only module that knows which stores there are."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indelible.core.ports import Begin, Clock, Expect, Store
from indelible.errors import Misconfigured
from indelible.stores.carrying import OF_TENANTS as OF_TENANTS
from indelible.stores.carrying import TABLES as TABLES
from indelible.stores.carrying import Place as Place
from indelible.stores.carrying import Progress, Rows, carry, carry_tenant
from indelible.stores.carrying import sheet_row as sheet_row
from indelible.stores.reach import PATIENCE as PATIENCE
from indelible.stores.reach import Reach as Reach

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from indelible.stores.postgres.roles import GroupRoles


DEFAULT_PATH = ".indelible/ledger.db"


def address_of(url: str | None) -> str:
    """Gives the address to use: the one given, else $INDELIBLE_URL, else a file in the current folder."""
    return url or os.environ.get("INDELIBLE_URL") or f"sqlite:///{DEFAULT_PATH}"


def place_of(url: str) -> str:
    """Return what a database is known by beside the keys: a file's path, or an address without its password."""
    if not is_postgres(url):
        return sqlite_path(url)
    from indelible.stores.postgres.address import Target

    return Target(url).address


def open_store(
    url: str | None = None,
    *,
    clock: Clock | None = None,
    wakeups: bool = True,
    token: str | None = None,
    reach: Reach | None = None,
    expect: Expect | None = None,
    begin: Begin | None = None,
    create: bool = True,
) -> Store:
    """Open the store at an address: `sqlite:///file.db`, `:memory:`, `postgresql://…` or a server's `https://…`.

    `expect` is asked with the path of a SQLite file and the name of the ledger in it, None if there is none yet, before
    that ledger is begun or used; it raises to refuse it. `begin` makes the writer keys of a SQLite ledger that is
    begun. Without `create`, none is begun.
    """
    address = address_of(url)
    if is_remote(address):
        from indelible.stores.remote import RemoteStore

        return RemoteStore(address, token=token or os.environ.get("INDELIBLE_TOKEN"), wakeups=wakeups, reach=reach)
    if is_postgres(address):
        from indelible.stores.postgres import PostgresStore

        return PostgresStore(address, clock=clock, wakeups=wakeups)
    from indelible.stores.sqlite import SqliteStore

    path = sqlite_path(address)
    if not create:
        if not Path(path).is_file():  # no folder is made for it either
            raise _no_ledger(address)
        expect = _existing(address, expect)
    return SqliteStore(path, clock=clock, wakeups=wakeups, expect=expect, begin=begin)


def check_sqlite_file(path: str) -> None:
    """Raise `Misconfigured` where something else than a file of its own lies at a SQLite ledger's place."""
    from indelible.stores.sqlite.connections import check_alone

    check_alone(path)


def _existing(address: str, expect: Expect | None) -> Expect:
    """Return what a store asks that begins no ledger."""

    def checked(path: str, ledger_name: str | None) -> None:
        if expect is not None:
            expect(path, ledger_name)
        if ledger_name is None:
            raise _no_ledger(address)

    return checked


def _no_ledger(address: str) -> Misconfigured:
    return Misconfigured(
        f"there is no ledger at {address}, and none is made here. Name the right one (--url or INDELIBLE_URL), or make "
        f"one first: indelible migrate --url {shlex.quote(address)}"
    )


def migrate(url: str | None = None, expect: Expect | None = None, begin: Begin | None = None) -> list[str]:
    """Bring the schema at an address up to date and return the names of the migrations it applied.

    `expect` and `begin` are those of `open_store`, and are used for a new PostgreSQL ledger as well.
    """
    address = address_of(url)
    if is_postgres(address):
        from indelible.stores import postgres

        apply: Callable[[str, Expect | None, Begin | None], list[str]] = postgres.migrate
        return apply(address, expect, begin)
    from indelible.stores.sqlite import SqliteStore

    # It migrates itself when it is opened.
    store = SqliteStore(sqlite_path(address), expect=expect, begin=begin)
    store.close()
    return store.applied_migrations


def carry_over(source: str, target: str, progress: Progress) -> dict[str, int]:
    """Writes a whole ledger, as it is at one moment, into an empty one; gives the number of each table's rows.

    All of it is one transaction there, and is read again before that is committed.
    """
    if is_postgres(target):
        from indelible.stores.postgres.carrying import carrying_in as into_postgres

        filling: AbstractContextManager[Place] = into_postgres(target)
    else:
        from indelible.stores.sqlite.carrying import carrying_in as into_sqlite

        filling = into_sqlite(sqlite_path(target))
    with rows_at(source) as rows, filling as place:
        return carry(rows, place, progress)


def carry_tenant_over(
    source: str,
    target: str,
    tenant: str,
    progress: Progress,
    *,
    before_writing: Callable[[Place], None],
    before_commit: Callable[[Place], None],
) -> dict[str, int]:
    """Writes one tenant, as it is at one moment, into another ledger; gives the number of each table's rows.

    All of it is one transaction there, also what the two callers do in it, and is read again before that is committed.
    """
    if is_postgres(target):
        from indelible.stores.postgres.carrying import taking_in as into_postgres

        adding: AbstractContextManager[Place] = into_postgres(target)
    else:
        from indelible.stores.sqlite.carrying import taking_in as into_sqlite

        adding = into_sqlite(sqlite_path(target))
    with rows_at(source) as rows, adding as place:
        before_writing(place)
        carried = carry_tenant(rows, place, tenant, progress)
        before_commit(place)
        return carried


def rows_at(address: str) -> AbstractContextManager[Rows]:
    """Gives the rows of a database as they are now."""
    if is_postgres(address):
        from indelible.stores.postgres.carrying import carrying_out as from_postgres

        return from_postgres(address)
    from indelible.stores.sqlite.carrying import carrying_out as from_sqlite

    return from_sqlite(sqlite_path(address))


def check_shown(address: str) -> None:
    """Raises `Misconfigured` when a PostgreSQL server hides rows of other tenants from whoever asks."""
    if is_postgres(address):
        from indelible.stores.postgres import carrying

        carrying.check_shown(address)


def secure_rows(url: str) -> None:
    """Has a PostgreSQL server show each connection the rows of one tenant only."""
    from indelible.stores import postgres

    postgres.secure_rows(url)


def make_roles(url: str, prefix: str | None = None) -> GroupRoles:
    """Make the group roles writer, eraser and reader of a PostgreSQL ledger and grant them their rights.

    Args:
        url: The address, of a user who owns the tables.
        prefix: What their names begin with. Default: `indelible_` and the database, and its schema if not `public`.
    """
    from indelible.stores import postgres

    made: GroupRoles = postgres.make_roles(url, prefix)
    return made


def newest_migration(address: str) -> str:
    """Names the newest migration that this version needs in a store of this kind."""
    from indelible.stores.named_sql import load_migrations

    kind = "postgres" if is_postgres(address) else "sqlite"
    newest = load_migrations(f"{__name__}.{kind}")[-1]
    return f"{newest.number:04}_{newest.name}"


def durability(url: str) -> dict[str, Any]:
    """Tells what a PostgreSQL server's commits survive, and the grade of that."""
    from indelible.stores import postgres

    report: dict[str, Any] = postgres.durability(url)
    return report


def is_postgres(address: str) -> bool:
    """Does this address name a PostgreSQL server?"""
    return address.startswith(("postgresql://", "postgres://"))


def is_remote(address: str) -> bool:
    """Does this address name a server?"""
    return address.startswith(("https://", "http://"))


def sqlite_path(address: str) -> str:
    """Gives the file that a SQLite address names."""
    if address in (":memory:", "sqlite://", "sqlite:///:memory:"):
        return ":memory:"
    if address.startswith("sqlite:///"):
        return address.removeprefix("sqlite:///")
    if "://" in address:
        raise Misconfigured(
            f"{address.partition('://')[0]}:// is no store; use sqlite:///file.db, :memory:, postgresql://… or https://…"
        )
    return address
