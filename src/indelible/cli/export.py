"""`indelible export` and `indelible receipt`: the record, to hand to somebody who trusts nobody here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from indelible import Ledger
from indelible.cli.behind import store_behind
from indelible.cli.moments import moment_before
from indelible.cli.opening import Where, about_ledger, open_to_read, where
from indelible.cli.progress import progress_bar
from indelible.cli.show import count, say_json, visible
from indelible.core.filtering.filters import Query
from indelible.core.filtering.reading import parse
from indelible.errors import KeyUnusable
from indelible.journal.exports.exporting import Exported, Form, save_receipt
from indelible.journal.exports.exporting import export as write
from indelible.journal.exports.selecting import PAYLOAD_FIELDS, Between, Disclosure, During, OfRun, Selection, Whole
from indelible.journal.sealing import receipt_of

if TYPE_CHECKING:
    from indelible.core.journal.receipts import Receipt

FORMS = get_args(Form)


@click.command()
@click.argument("form", type=click.Choice(FORMS), metavar="FORM")
@click.option("--out", "out", type=click.Path(path_type=Path), required=True, help="Where to; bundles: folder or .zip.")
@click.option("--run", "run_id", metavar="RUN", help="Only the events of this run.")
@click.option("--since", metavar="WHEN", help="Only from then on: 30d for 30 days ago, or 2030-01-31.")
@click.option("--until", metavar="WHEN", help="Only before then, written the same way.")
@click.option("--from", "first", type=click.IntRange(min=0), metavar="INDEX", help="Only from this entry on.")
@click.option("--to", "last", type=click.IntRange(min=0), metavar="INDEX", help="Only up to this entry, included.")
@click.option("--without-payloads", is_flag=True, help="Disclose no arguments, results or other values.")
@click.option("--withhold", multiple=True, type=click.Choice(PAYLOAD_FIELDS), metavar="FIELD", help="Not this value.")
@click.option("--filter", "filters", multiple=True, metavar="FILTER", help="Only events that fit, as in: "
              "'type:tool_call_* actor:ana'; not in proving forms.")  # fmt: skip
@click.option("--no-seal", is_flag=True, help="Export what is signed already; needs no key.")
@click.option("--force", is_flag=True, help="Replace what is at PATH.")
@about_ledger
def export(
    form: Form,
    out: Path,
    run_id: str | None,
    since: str | None,
    until: str | None,
    first: int | None,
    last: int | None,
    without_payloads: bool,
    withhold: tuple[str, ...],
    filters: tuple[str, ...],
    no_seal: bool,
    force: bool,
) -> None:
    """Write the journal, or a part of it, to a file.

    \b
    bundle   everything needed to verify offline, with a verifier inside
    html     one page for people, which checks itself in the browser
    ndjson   events as they were hashed, one to a line; the whole journal verifies like a bundle
    csv      a table, safe to open in a spreadsheet; proves nothing
    parquet  the same for data tools; needs: pip install 'indelible[export]'

    Whatever is not sealed yet is sealed first. Values may be secret: the file is for your eyes only (mode 0600) until
    you say otherwise.
    """
    place = where()
    selection = _selection(run_id, since, until, first, last)
    disclosure = Disclosure(frozenset(withhold), without_payloads)
    query = _query(filters)
    with open_to_read(place) as ledger:
        if not no_seal:
            _seal(ledger)
        with progress_bar("exporting") as progress:
            done = write(
                store_behind(ledger),
                place.tenant,
                out,
                form=form,
                selection=selection,
                disclosure=disclosure,
                query=query,
                force=force,
                progress=progress,
            )
    _say_exported(done, place)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("seq", type=click.IntRange(min=0), metavar="SEQ")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--no-seal", is_flag=True, help="Use the newest head that is signed already; needs no key.")
@click.option("--force", is_flag=True, help="Replace what is at PATH.")
@about_ledger
def receipt(run_id: str, seq: int, out: Path, no_seal: bool, force: bool) -> None:
    """Write the proof that one event is in the journal.

    SEQ is the event's number in its run, as `indelible events RUN` lists it. The file holds the event, the way to the
    signed tree head, and that head (C2SP tlog-proof): it verifies offline and discloses nothing else.
    """
    place = where()
    with open_to_read(place) as ledger:
        if not no_seal:
            _seal(ledger)
        made = receipt_of(store_behind(ledger), place.tenant, run_id, seq)
    save_receipt(made, out, force=force)
    _say_receipt(made, out, place)


def _selection(
    run_id: str | None, since: str | None, until: str | None, first: int | None, last: int | None
) -> Selection:
    ways = [run_id is not None, since is not None or until is not None, first is not None or last is not None]
    if sum(ways) > 1:
        raise click.UsageError("choose one: --run, or --since and --until, or --from and --to")
    if run_id is not None:
        return OfRun(run_id)
    if ways[1]:
        begin = None if since is None else moment_before(since, "--since")
        return During(begin, None if until is None else moment_before(until, "--until"))
    return Between(first or 0, last) if ways[2] else Whole()


def _query(filters: tuple[str, ...]) -> Query:
    """Reads filters, all of which have to hold; those written as type=TYPE are alternatives, as they always were."""
    types = [text.removeprefix("type=") for text in filters if text.startswith("type=")]
    texts = [text for text in filters if not text.startswith("type=")]
    return parse(" ".join([*texts, *([f"type:{','.join(types)}"] if types else [])]), "events")


def _seal(ledger: Ledger) -> None:
    try:
        ledger.seal()
    except KeyUnusable as problem:
        raise KeyUnusable(f"{problem}; or export what is signed already with --no-seal") from problem


def _say_exported(done: Exported, place: Where) -> None:
    if place.is_json:
        counts = ("events", "payloads", "withheld", "erased_since", "not_covered")
        names = ("form", "kind", "origin", "size", "first", "last", *counts)
        say_json({"path": str(done.path), **{name: getattr(done, name) for name in names}})
        return
    path = visible(str(done.path))
    values = f"{count(done.payloads, 'value')}" + (f", {done.withheld} withheld" if done.withheld else "")
    print(f"{path}: {count(done.events, 'event')}, {values}, under the signed head of size {done.size}.")
    if done.erased_since:
        print(f"Withheld because it was erased after that head was signed: {count(done.erased_since, 'value')}.")
    if done.not_covered:
        print(f"Not in it: {count(done.not_covered, 'newer event')} of this run that no signed head covers yet.")
    if done.form == "bundle":
        print(f"Verify it with: indelible verify {path} --key PUBLIC_KEY   (get the key: indelible keys export-public)")
    elif done.form == "html":
        print("Open it in a browser, and paste the public key (indelible keys export-public) to verify it there.")


def _say_receipt(made: Receipt, out: Path, place: Where) -> None:
    head = made.tree_head()
    if place.is_json:
        say_json({"path": str(out), "index": made.index, "origin": head.origin, "size": head.size})
    else:
        print(
            f"{visible(str(out))}: entry {made.index} of {visible(head.origin)}, under the signed head of {head.size}."
        )
