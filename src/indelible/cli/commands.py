"""The commands that need no module of their own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from indelible.cli.migrating import come_from
from indelible.cli.moving import move_to
from indelible.cli.opening import about_ledger, where
from indelible.cli.options import InOrder

if TYPE_CHECKING:
    from indelible.stores.postgres.roles import GroupRoles


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@click.option("--keep", is_flag=True, help="Leave the demo's ledger behind, to look around in it.")
@click.option("--serve/--no-serve", "is_served", default=None, help="Show the page afterwards; a terminal is asked.")
@click.pass_obj
def demo(given: dict[str, object] | None, is_json: bool, keep: bool, is_served: bool | None) -> int:
    """Kill an agent mid-refund; see nothing happen twice.

    A scripted agent is killed inside its refund handler and before it, and started again. Needs no key, no network and
    no server. Exits with 0 only if every claim held.
    """
    from indelible.cli.demo.page import offer
    from indelible.cli.demo.story import show_demo

    is_json = is_json or bool((given or {}).get("is_json"))
    code = show_demo(is_json=is_json, keep=keep)
    return code if code or is_json or keep else offer(is_served)


@click.command()
@about_ledger
def version() -> int:
    """Print the version of the library."""
    from indelible.cli.version import say_version

    return say_version(is_json=where().is_json)


@click.group(cls=InOrder, invoke_without_command=True)
@click.option(
    "--row-security", "is_secured", is_flag=True, help="PostgreSQL: each connection sees the rows of one tenant only."
)
@click.option(
    "--roles",
    "prefix",
    metavar="PREFIX",
    help="PostgreSQL: name the group roles PREFIX_writer, _eraser and _reader (default: indelible_DATABASE).",
)
@click.option("--no-roles", "is_without_roles", is_flag=True, help="PostgreSQL: make no group roles.")
@click.option(
    "--new-ledger", "is_new_ledger", is_flag=True, help="Begin or use a ledger though another one belongs there."
)
@click.option(
    "--no-writer-keys",
    "is_without_keys",
    is_flag=True,
    help="A new ledger: also believe rows that a program without its keys wrote; see docs/keys.md.",
)
@about_ledger
def migrate(
    is_secured: bool, prefix: str | None, is_without_roles: bool, is_new_ledger: bool, is_without_keys: bool
) -> int:
    """Bring the ledger's schema up to date.

    A ledger that is not there yet is made, with its writer keys: a file in the folder of keys, to be backed up.
    `migrate from` takes over what another ledger recorded, `migrate to` moves this one to another database.

    On PostgreSQL, three group roles are made and get their rights: a writer, who cannot delete or change what is
    recorded, an eraser, and a reader. If this user may not make roles, the SQL for an administrator is printed.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return 0
    from indelible import migrate as apply
    from indelible.cli.opening import check_is_here, forget_expected, holds_ledger, tables_in, without_password
    from indelible.cli.show import say_json, visible
    from indelible.errors import Misconfigured
    from indelible.stores import is_postgres, make_roles, secure_rows, sqlite_path

    place = where()
    check_is_here(place)
    is_new = False
    if not is_postgres(place.address):
        path = sqlite_path(place.address)
        # A process that was killed, or had no place for the keys, may have left a file without any table.
        is_new = path != ":memory:" and (not Path(path).exists() or tables_in(path) == set())
        if not is_new and path != ":memory:" and holds_ledger(path) is False:
            raise Misconfigured(f"{path} is a database, but no Indelible ledger; name another with --url")
    if is_secured and not is_postgres(place.address):
        raise click.UsageError("--row-security is for PostgreSQL; a SQLite file has one reader, who sees all of it")
    if prefix is not None and (is_without_roles or not is_postgres(place.address)):
        raise click.UsageError("--roles is for PostgreSQL, and does not go with --no-roles")
    if is_new_ledger:
        forget_expected(place)
    applied = apply(place.address, writer_keys=not is_without_keys)
    if is_secured:
        secure_rows(place.address)
    roles = None if is_without_roles or not is_postgres(place.address) else make_roles(place.address, prefix)
    address = without_password(place.address)
    key = _writer_keys(place.address)
    if place.is_json:
        told = None if roles is None else {"names": roles.names, "made": roles.made, "sql": roles.sql}
        kept = None if key is None else str(key)
        say_json({"store": address, "is_new": is_new, "applied": applied, "roles": told, "writer_keys": kept})
        return 0
    print(f"{address}: " + (f"applied {', '.join(applied)}" if applied else "up to date"))
    if key is not None and applied and applied[0].startswith("0001_"):  # it was begun just now
        print(f"Its writer keys are in {visible(str(key))}: back that file up.")
        print(f"A process without it is refused. For one on another machine: {place.command('keys export-writer')}")
    if roles is not None:
        _say_roles(roles)
    return 0


def _writer_keys(address: str) -> Path | None:
    """Return the file of a ledger's writer keys; None if it is not here."""
    from indelible.journal.keys.writers import key_file
    from indelible.stores import is_postgres, open_store, sqlite_path

    if not is_postgres(address) and sqlite_path(address) == ":memory:":
        return None
    with closing(open_store(address, wakeups=False, create=False)) as store:
        return key_file(store.ledger_name)


def _say_roles(roles: GroupRoles) -> None:
    if roles.made:
        print(f"Made the roles {', '.join(roles.made)}.")
    if roles.sql:
        print("This user may not make group roles or grant their rights. An administrator can, with this SQL:\n")
        print("\n".join(f"{statement};" for statement in roles.sql))


migrate.add_command(come_from)
migrate.add_command(move_to)
