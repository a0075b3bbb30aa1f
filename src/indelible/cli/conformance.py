"""`indelible conformance`: what frameworks do when processes die and states are resumed, with a ledger and without."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

import click

from indelible.testing.adapters.cases import CASES, Row, rows_of
from indelible.testing.adapters.place import kind_of
from indelible.testing.adapters.rig import ADAPTERS


@click.command()
@click.option("--adapter", "adapters", multiple=True, type=click.Choice(list(ADAPTERS)), help="Which; else all.")
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="Which; else all.")
@click.option("--store", metavar="URL", help="A PostgreSQL database to play on; else SQLite.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@click.pass_context
def conformance(
    context: click.Context, adapters: tuple[str, ...], cases: tuple[str, ...], store: str | None, is_json: bool
) -> None:
    """Try agent frameworks, with the ledger and without.

    Crash after the deed, resume twice, two workers, changed arguments, one denied of three, no store, decided abroad:
    each case is played with real processes, some of them killed, natively and behind the ledger, with scripted models
    and in folders of its own. A cell says how often the deed was done, or that it was refused. Ends with 1 when one of
    ours reads neither 1 nor refused. Frameworks that are not installed are named, and left out. Each case has a SQLite
    file of its own or, with --store, a database of its own beside the one that is named; its user has to be allowed to
    create databases.

    \b
    indelible conformance --adapter langchain
    indelible conformance --store postgresql://localhost/postgres
    indelible conformance --json
    """
    kind_of(store)  # what cannot be played on is refused before anything is loaded
    missing = {name: known.install for name, known in ADAPTERS.items() if not known.is_installed}
    for adapter in adapters:
        if adapter in missing:
            raise click.UsageError(f"{adapter} is not installed here; run: pip install {missing[adapter]}")
    chosen = adapters or [name for name in ADAPTERS if name not in missing]
    with _own_keys():
        rows = list(_played(chosen, cases or tuple(CASES), store, is_told=not is_json))
    if is_json:
        told = {"rows": [asdict(row) for row in rows]} | ({} if adapters else {"not_installed": missing})
        click.echo(json.dumps(told, indent=2))
    elif not adapters:
        for adapter, install in missing.items():
            click.echo(f"{adapter:14} not installed here: pip install {install}")
    context.exit(0 if rows and all(row.is_kept for row in rows) else 1)


def _played(adapters: Iterable[str], cases: Sequence[str], store: str | None, *, is_told: bool) -> Iterator[Row]:
    if is_told:
        click.echo(f"{'adapter':14} {'case':20} {'native':25} ledger, on {kind_of(store)}")
    for adapter in adapters:
        for row in rows_of(adapter, cases, store):
            if is_told:
                _show(row)
            yield row


@contextmanager
def _own_keys() -> Iterator[None]:
    """Gives the processes that play keys of their own."""
    before = os.environ.get("INDELIBLE_KEYS")
    with tempfile.TemporaryDirectory(prefix="indelible-keys-") as keys:
        os.environ["INDELIBLE_KEYS"] = keys
        yield
    os.environ.pop("INDELIBLE_KEYS")
    if before is not None:
        os.environ["INDELIBLE_KEYS"] = before


def _show(row: Row) -> None:
    mark = "" if row.is_kept else "   ✗ this must read 1 or refused"
    click.echo(f"{row.adapter:14} {row.case:20} {row.native:25} {row.ledger}{mark}")
