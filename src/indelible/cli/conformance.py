"""`indelible conformance`: what frameworks do when processes die, and what verifiers say of the record's vectors."""

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
from indelible.testing.record.judging import by_command, judged, our_own


@click.command()
@click.option("--adapter", "adapters", multiple=True, type=click.Choice(list(ADAPTERS)), help="Which; else all.")
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="Which; else all.")
@click.option("--store", metavar="URL", help="A PostgreSQL database to play on; else SQLite.")
@click.option("--record", "is_record", is_flag=True, help="Let a verifier judge the record's vectors instead.")
@click.option("--verifier", metavar="COMMAND", help="With --record: a verifier of another maker (default: ours).")
@click.option("--no-votes", is_flag=True, help="With --record: leave out vectors whose verdict rests on votes.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@click.pass_context
def conformance(
    context: click.Context,
    adapters: tuple[str, ...],
    cases: tuple[str, ...],
    store: str | None,
    is_record: bool,
    verifier: str | None,
    no_votes: bool,
    is_json: bool,
) -> None:
    """Try agent frameworks, with the ledger and without; or, with --record, a verifier of the record.

    Crash after the deed, resume twice, two workers, changed arguments, one denied of three, no store, decided abroad:
    each case is played with real processes, some of them killed, natively and behind the ledger, with scripted models
    and in folders of its own. A cell says how often the deed was done, or that it was refused. Ends with 1 when one of
    ours reads neither 1 nor refused. Frameworks that are not installed are named, and left out. Each case has a SQLite
    file of its own or, with --store, a database of its own beside the one that is named; its user has to be allowed to
    create databases.

    With --record, every published vector is laid out as a folder, a .zip and NDJSON, and COMMAND --key KEY … [--after
    FILE …] PATH has to end with its verdict: 0 verified, 1 tampered, 2 cannot tell. Ends with 1 when one differs.

    \b
    indelible conformance --adapter langchain
    indelible conformance --record --verifier 'python verify.py'
    indelible conformance --store postgresql://localhost/postgres
    indelible conformance --json
    """
    if is_record:
        context.exit(_judge_record(verifier, with_votes=not no_votes, is_json=is_json))
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


def _judge_record(verifier: str | None, *, with_votes: bool, is_json: bool) -> int:
    """Let a verifier judge the vectors; return the exit code."""
    found = list(judged(our_own if verifier is None else by_command(verifier), with_votes=with_votes))
    wrong = [one for one in found if not one.is_right]
    if is_json:
        click.echo(json.dumps({"judged": len(found), "wrong": [asdict(one) for one in wrong]}, indent=2))
    else:
        for one in wrong:
            click.echo(f"{one.form:8} {one.name}: {one.found}, and it is {one.expected}")
        click.echo(f"{len(found)} judged, {len(wrong)} wrong")
    return 1 if wrong or not found else 0


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
