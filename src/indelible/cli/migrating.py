"""`indelible migrate from`: takes over what another ledger recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from indelible.cli.opening import Where, about_ledger, where
from indelible.cli.options import InOrder
from indelible.cli.progress import progress_bar
from indelible.cli.show import count, say_json, visible

if TYPE_CHECKING:
    from indelible.ledger import Ledger
    from indelible.migrating.taking import Taking

_MOST_NAMED = 20


@click.group("from", cls=InOrder)
def come_from() -> None:
    """Take over what another ledger recorded.

    What is there is only read. Taking it over twice changes nothing, so whoever was stopped starts again. Exits with 1
    when something was left out, or is not as it was written there, and names it.
    """


@come_from.command("agent-ledger")
@click.argument("source", metavar="URL")
@click.option("--table", default="effects", show_default=True, help="Its table, or schema.table.")
@about_ledger
def from_agent_ledger(source: str, table: str) -> int:
    """Take over agent-ledger's table in PostgreSQL.

    What succeeded, failed or was denied stays so, and is replayed to calls with key_scheme="agent-ledger". What was
    under way is in doubt, and what waited for a person waits for one here.
    """
    from indelible.migrating.agent_ledger import reading, take_over

    place = where()
    with _opened(place) as ledger, reading(source, table) as found, progress_bar("taking over") as progress:
        taking = take_over(ledger, found, progress=progress)
    return _say(taking, place)


@come_from.command("provedex")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE")
@click.option("--key", "keys", multiple=True, metavar="HEX", help="The operator's public key; again, if it changed.")
@click.option("--run", "run_id", metavar="RUN", help="The run to make of it.  [default: one named by its first hash]")
@about_ledger
def from_provedex(path: Path, keys: tuple[str, ...], run_id: str | None) -> int:
    """Verify provedex's ledger.ndjson and take it over.

    A line that was changed, moved, added or taken out is named, and then nothing is taken over; nor is it when an event
    is signed by another key than those given.
    """
    from indelible.migrating.provedex import take_over

    place = where()
    with _opened(place) as ledger, progress_bar("taking over") as progress:
        taking, name = take_over(ledger, path, keys=keys, run_id=run_id, progress=progress)
    return _say(taking, place, run_id=name)


@come_from.command("zehrava")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE")
@about_ledger
def from_zehrava(path: Path) -> int:
    """Take over the runs in zehrava-gate's gate.db.

    Each comes whole: events, artifacts, checkpoints. Runs that were not over can be resumed here.
    """
    from indelible.migrating.zehrava import reading, take_over

    place = where()
    with _opened(place) as ledger, reading(path) as found, progress_bar("taking over") as progress:
        taking = take_over(ledger, found, progress=progress)
    return _say(taking, place)


def _opened(place: Where) -> Ledger:
    """Opens the ledger that takes it over; a SQLite file that is not there is made."""
    from indelible.cli.opening import open_here
    from indelible.ledger import Ledger
    from indelible.stores import is_postgres, is_remote, sqlite_path

    address = place.address
    is_file = not is_postgres(address) and not is_remote(address)
    if is_file and sqlite_path(address) != ":memory:" and not Path(sqlite_path(address)).exists():
        return Ledger.open(address, tenant=place.tenant, wakeups=False)
    return open_here(place)


def _say(taking: Taking, place: Where, run_id: str | None = None) -> int:
    code = 0 if taking.is_sound else 1
    if place.is_json:
        left_out = [{"name": name, "why": why} for name, why in taking.left_out]
        content = {"became": dict(taking.became), "left_out": left_out, "run_id": run_id}
        checked = {"verified": taking.verified, "not_verified": taking.not_verified}
        say_json({**content, **checked, "not_as_written": taking.not_as_written})
        return code
    if run_id is not None:
        print(f"run {visible(run_id)}")
    for name, number in sorted(taking.became.items()):
        print(f"{number:>8}  {name}")
    for heading, lines in (("Verified", taking.verified), ("Not verified", taking.not_verified)):
        for line in lines:
            print(f"{heading}: {visible(line)}")
    _name_all("Not as written there", "is here as it was found", taking.not_as_written)
    _name_all("Left out", "stays where it was", [f"{name}: {why}" for name, why in taking.left_out])
    return code


def _name_all(heading: str, what_became: str, found: Sequence[str]) -> None:
    if found:
        print(f"{heading}: {count(len(found), 'thing')}; each {what_became}.")
    for line in found[:_MOST_NAMED]:
        print(f"  {visible(line)}")
    if len(found) > _MOST_NAMED:
        print(f"  and {len(found) - _MOST_NAMED} more: --json lists all")
