"""`indelible migrate to`: moves a ledger, or one tenant of it, to another database."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from indelible.cli.opening import (
    about_ledger,
    check_is_here,
    check_is_ledger,
    named_tenant,
    where,
    without_password,
)
from indelible.cli.options import by_option
from indelible.cli.progress import progress_bar
from indelible.cli.show import count, say_json, visible

if TYPE_CHECKING:
    from indelible.migrating.moving import Move


@click.command("to")
@click.argument("target", metavar="URL")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say what would be moved, and whether it may be.")
@by_option
@about_ledger
def move_to(target: str, is_dry_run: bool, by: str) -> int:
    """Move this ledger, or with --tenant one tenant, to another database.

    Effects are stopped here, on the record, then every row is carried over in one transaction and compared; journals
    keep their names, and what replayed replays. The new place goes on, the old one stays stopped and says where it is
    now. Stop your programs first, and start them with the new address. Whoever was interrupted does it again.

    A whole ledger goes to a database that has none. A tenant goes to a ledger that has others, whose keys sign its
    journal from then on; other tenants notice nothing.

    \b
    indelible migrate to postgresql://ledger@db.example/agents
    indelible migrate to postgresql://ledger@db-2.example/agents --tenant acme
    """
    from indelible.migrating.moving import move, move_tenant

    place, tenant = where(), named_tenant()
    check_is_here(place)
    check_is_ledger(place.address)
    with progress_bar("moving") as progress:
        if tenant is None:
            moved = move(place.address, target, by=by, progress=progress, is_dry_run=is_dry_run)
        else:
            moved = move_tenant(place.address, target, tenant, by=by, progress=progress, is_dry_run=is_dry_run)
    if place.is_json:
        trees = [{"tenant": name, "size": tree.size, "root": tree.root.hex()} for name, tree in moved.journals.items()]
        told = {"from": moved.source, "to": without_password(moved.target), "tenant": tenant, "is_dry_run": is_dry_run}
        say_json({**told, "found": moved.found, "rows": dict(moved.rows), "journals": trees})
    elif is_dry_run:
        _say_plan(moved, tenant)
    else:
        _say_moved(moved, target, tenant)
    return 0


def _say_plan(moved: Move, tenant: str | None) -> None:
    what = moved.source if tenant is None else f"{visible(tenant)} of {moved.source}"
    print(f"Would move {what} to {without_password(moved.target)}: {count(moved.found, 'row')}. Nothing was changed.")
    _say_journals(moved)


def _say_moved(moved: Move, target: str, tenant: str | None) -> None:
    rows, address = sum(moved.rows.values()), shlex.quote(without_password(target))
    came = f"{count(rows, 'row')}, each compared" if rows else "every row had been carried before; now it is finished"
    what = moved.source if tenant is None else f"{visible(tenant)} of {moved.source}"
    print(f"{what} is now {'' if tenant is None else 'at '}{moved.target}: {came}")
    _say_journals(moved)
    whose = "" if tenant is None else f" --tenant {shlex.quote(tenant)}"
    print(f"Use it: export INDELIBLE_URL={address}")
    print(f"Verify: indelible verify --url {address}{whose}")


def _say_journals(moved: Move) -> None:
    for name, tree in moved.journals.items():
        print(f"  journal of {visible(name)}: size {tree.size}, root {tree.root.hex()[:16]}")
