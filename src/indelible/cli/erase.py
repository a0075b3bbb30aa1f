"""`indelible erase`, `prune`, `hold`: forget payloads, and keep what a court may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import click

from indelible import Ledger
from indelible.cli.confirming import confirm, yes_option
from indelible.cli.listing import say_all
from indelible.cli.moments import check_deletes, span_or_moment
from indelible.cli.naming import only
from indelible.cli.opening import about_ledger, open_existing, open_to_read, where
from indelible.cli.options import InOrder, by_option, reason_option
from indelible.cli.progress import progress_bar
from indelible.cli.show import count, say_json, timestamp, visible
from indelible.core.privacy.forgetting import Erasure, Hold

F = TypeVar("F", bound=Callable[..., Any])

NOBODY_FOUND = """\
Nothing is recorded of this subject any more, or under another spelling. Calls of tools without subject= are not found
by a person; look for them with: indelible effects list --filter, and erase them by run."""


def rewrite_option(function: F) -> F:
    """Gives a command --rewrite and --no-rewrite."""
    return click.option(
        "--rewrite/--no-rewrite",
        default=None,
        help="Write the store's files anew, so that no copy stays in their free space; writers wait meanwhile.  "
        "[default: SQLite yes, PostgreSQL no]",
    )(function)


@click.command()
@click.option("--run", "run_id", help="Erase payloads of this run.")
@click.option("--seq", type=click.IntRange(min=0), metavar="N", help="With --run: only of this event.")
@click.option(
    "--field", "fields", multiple=True, help="With --run: only this field, as args or result; may be repeated."
)
@click.option("--subject", help="Erase everything of the calls that are about this person.")
@reason_option(None)
@click.option("--force", is_flag=True, help="With --subject: withdraw calls that wait, to erase them too.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@rewrite_option
@yes_option
@by_option
@about_ledger
def erase(fields: tuple[str, ...], by: str, dry_run: bool, yes: bool, **words: Any) -> int:
    """Erase payloads; the record stays and verifies.

    Payloads are arguments, results, texts and what agents told and saved. What is still needed is kept: by an effect
    that waits, runs or is in doubt, and by a run that can be resumed.
    Exits with 1 if something was kept.
    """
    _check_one_is_named(words)
    place = where()
    with open_existing(place, wakeups=True) as ledger:
        report = ledger.erase(fields=fields or None, by=by, dry_run=True, **words)
        if not dry_run:
            confirm(_what_goes(report), yes=yes)
            with _bar(ledger, report):
                report = ledger.erase(fields=fields or None, by=by, **words)
    return _say(report, is_json=place.is_json, is_person=words["subject"] is not None)


@click.command()
@click.option("--before", required=True, metavar="WHEN", help="What ended by then: 90d for 90 days ago, or 2030-01-31.")
@reason_option("retention")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@rewrite_option
@yes_option
@by_option
@about_ledger
def prune(before: str, reason: str, dry_run: bool, rewrite: bool | None, yes: bool, by: str) -> int:
    """Erase the payloads of what ended long ago.

    These are effects, runs that are completed or canceled, and refused calls; messages about decisions are dropped too.
    What has not ended, and what is on hold, is kept; that is no failure here.
    """
    place, ended = where(), span_or_moment(check_deletes(before, "--before"), "--before")
    with open_existing(place) as ledger:
        report = ledger.prune(ended, by=by, reason=reason, dry_run=True, rewrite=rewrite)
        if not dry_run:
            confirm(_what_goes(report), yes=yes)
            with _bar(ledger, report):
                report = ledger.prune(ended, by=by, reason=reason, rewrite=rewrite)
    _say(report, is_json=place.is_json)
    return 0


def _what_goes(report: Erasure) -> str:
    """Return one sentence that says what an erasure takes away."""
    dropped = "".join(f"; {remark}" for remark in report.remarks)
    return f"This erases {count(report.count, 'payload')} of {count(len(report.erased), 'run')}{dropped}."


@contextmanager
def _bar(ledger: Ledger, planned: Erasure) -> Iterator[None]:
    """Show how many of the planned payloads are gone, at a terminal."""
    with progress_bar("erasing") as show:
        ledger._forgetting.progress = lambda done: show(done, planned.count)
        yield


def _say(report: Erasure, *, is_json: bool, is_person: bool = False) -> int:
    """Says what went and what stayed; gives 1 when something stayed."""
    kept = [{"run_id": each.run_id, "effect_id": each.effect_id, "why": each.why} for each in report.kept]
    if is_json:
        say_json(
            {
                "erased": report.count,
                "runs": dict(report.erased),
                "kept": kept,
                "remarks": list(report.remarks),
                "dry_run": report.is_rehearsal,
            }
        )
        return 1 if kept else 0
    word = "Would erase" if report.is_rehearsal else "Erased"
    print(f"{word} {count(report.count, 'payload')} of {count(len(report.erased), 'run')}.")
    for run_id, number in report.erased.items():
        print(f"  {visible(run_id)}: {number}")
    for each in report.kept:
        print(f"Kept {visible(each.effect_id or f'run {each.run_id}')}: {visible(each.why)}")
    if is_person and not (report.count or report.kept):
        print(NOBODY_FOUND)
    for remark in report.remarks:
        print(f"Note: {remark}.")
    return 1 if kept else 0


@click.group(cls=InOrder)
def hold() -> None:
    """Keep payloads from being erased, as for a lawsuit."""


@hold.command()
@click.option("--run", "run_id", help="Hold this run.")
@click.option("--subject", help="Hold what is about this person.")
@reason_option(None)
@by_option
@about_ledger
def add(by: str, **words: Any) -> None:
    """Place a hold on a run, or on what is about a person."""
    _check_one_is_named(words)
    place = where()
    with open_existing(place) as ledger:
        placed = ledger.hold(by=by, **words)
    lifting = place.command(f"hold remove {placed.id} -m REASON")
    place.say(_hold_json(placed), f"{placed.id} stands. To lift it: {lifting}")


def _check_one_is_named(words: Mapping[str, Any]) -> None:
    if (words["run_id"] is None) == (words["subject"] is None):
        raise click.UsageError("name --run or --subject, one of the two", click.get_current_context())


@hold.command(name="list")
@about_ledger
def list_holds() -> None:
    """List the holds that stand."""
    place = where()
    with open_to_read(place) as ledger:
        found = ledger.holds()
    if place.is_json:
        say_json({"tenant": place.tenant, "holds": [_hold_json(each) for each in found]})
        return
    rows = [(each.id, _what(each), each.by, timestamp(datetime.fromisoformat(each.at))) for each in found]
    say_all("hold", ("id", "on", "by", "since"), rows, place)


@hold.command()
@click.argument("hold_id", metavar="ID")
@reason_option(None)
@by_option
@about_ledger
def remove(hold_id: str, reason: str, by: str) -> None:
    """Lift a hold."""
    place = where()
    with open_existing(place) as ledger:
        name = only([each.id for each in ledger.holds()], hold_id, "hold", "hold list")
        lifted = ledger.lift_hold(name, by=by, reason=reason)
    place.say(_hold_json(lifted), f"{lifted.id} on {visible(_what(lifted))} was lifted, {place.by_whom(by)}.")


def _what(found: Hold) -> str:
    return f"run {found.run_id}" if found.run_id is not None else f"a subject, {(found.subject or '')[:12]}…"


def _hold_json(found: Hold) -> dict[str, Any]:
    return {"id": found.id, "run_id": found.run_id, "subject_mark": found.subject, "by": found.by, "at": found.at}
