"""`indelible conformance`: what frameworks do when processes die and states are resumed, with a ledger and without."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict

import click

from indelible.testing.adapters.cases import CASES, Row, rows_of
from indelible.testing.adapters.rig import ADAPTERS


@click.command()
@click.option("--adapter", "adapters", multiple=True, type=click.Choice(list(ADAPTERS)), help="Which; else all.")
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="Which; else all.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@click.pass_context
def conformance(context: click.Context, adapters: tuple[str, ...], cases: tuple[str, ...], is_json: bool) -> None:
    """Try agent frameworks, with the ledger and without.

    Crash after the deed, resume twice, two workers, changed arguments, one denied of three, no store, decided abroad:
    each case is played with real processes, some of them killed, natively and behind the ledger, with scripted models
    and in folders of its own. A cell says how often the deed was done, or that it was refused. Ends with 1 when one of
    ours reads neither 1 nor refused.

    \b
    indelible conformance --adapter langchain
    indelible conformance --json
    """
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="indelible-keys-") as keys:
        os.environ["INDELIBLE_KEYS"] = keys  # for the processes that play
        for adapter in adapters or ADAPTERS:
            for row in rows_of(adapter, cases or tuple(CASES)):
                rows.append(row)
                if not is_json:
                    _show(row, is_first=len(rows) == 1)
    if is_json:
        click.echo(json.dumps({"rows": [asdict(row) for row in rows]}, indent=2))
    context.exit(0 if all(row.is_kept for row in rows) else 1)


def _show(row: Row, *, is_first: bool) -> None:
    if is_first:
        click.echo(f"{'adapter':14} {'case':20} {'native':25} ledger")
    mark = "" if row.is_kept else "   ✗ this must read 1 or refused"
    click.echo(f"{row.adapter:14} {row.case:20} {row.native:25} {row.ledger}{mark}")
