"""`indelible migrate from`: takes over what another ledger recorded, and says what could be verified of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from indelible.cli.opening import Where, about_ledger, where
from indelible.cli.show import count, say_json, visible

if TYPE_CHECKING:
    from indelible.ledger import Ledger
    from indelible.migrating.taking import Progress, Taking

_MOST_NAMED = 20


@click.group("from")
def come_from() -> None:
    """Take over what another ledger recorded.

    What is there is only read. Taking it over twice changes nothing, so whoever was stopped starts again. Exits with 1
    when something was left out, and names it.
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
    with _opened(place) as ledger, reading(source, table) as found, _progress() as progress:
        taking = take_over(ledger, found, progress=progress)
    return _say(taking, place)


@come_from.command("provedex")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE")
@click.option("--key", metavar="HEX", help="The operator's public key: only events signed by it are taken over.")
@click.option("--run", "run_id", metavar="RUN", help="The run to make of it.  [default: one named by its first hash]")
@about_ledger
def from_provedex(path: Path, key: str | None, run_id: str | None) -> int:
    """Verify provedex's ledger.ndjson and take it over.

    A line that was changed, moved, added or taken out is named, and then nothing is taken over.
    """
    from indelible.migrating.provedex import take_over

    place = where()
    with _opened(place) as ledger, _progress() as progress:
        taking, name = take_over(ledger, path, key=key, run_id=run_id, progress=progress)
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
    with _opened(place) as ledger, reading(path) as found, _progress() as progress:
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


@contextmanager
def _progress() -> Iterator[Progress]:
    """Shows how far it is, to somebody who sits at a terminal."""
    from indelible.migrating.taking import untold

    if not sys.stderr.isatty():
        yield untold
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("taking over", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _say(taking: Taking, place: Where, run_id: str | None = None) -> int:
    code = 0 if taking.is_whole else 1
    if place.is_json:
        left_out = [{"name": name, "why": why} for name, why in taking.left_out]
        content = {"became": dict(taking.became), "left_out": left_out, "run_id": run_id}
        say_json({**content, "verified": taking.verified, "not_verified": taking.not_verified})
        return code
    if run_id is not None:
        print(f"run {visible(run_id)}")
    for name, number in sorted(taking.became.items()):
        print(f"{number:>8}  {name}")
    for heading, lines in (("Verified", taking.verified), ("Not verified", taking.not_verified)):
        for line in lines:
            print(f"{heading}: {visible(line)}")
    if taking.left_out:
        print(f"Left out: {count(len(taking.left_out), 'thing')}, which stay where they were.")
        for name, why in taking.left_out[:_MOST_NAMED]:
            print(f"  {visible(name)}: {visible(why)}")
        if len(taking.left_out) > _MOST_NAMED:
            print(f"  and {len(taking.left_out) - _MOST_NAMED} more: --json lists all")
    return code
