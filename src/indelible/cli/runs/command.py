"""`indelible runs`: look at runs, save, resume, verify, fork, compare, cancel and hand them on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import get_args

import click

from indelible import Ledger
from indelible.cli.approvals.edited_args import read_args
from indelible.cli.behind import reading_of
from indelible.cli.ending import until_ended
from indelible.cli.filtering import filter_option
from indelible.cli.listing import Listed, say_page, say_page_json
from indelible.cli.opening import about_ledger, open_existing, open_to_read, where
from indelible.cli.options import InOrder, by_option, limit_option, reason_option
from indelible.cli.runs.inspecting import inspect_json, sealed_hash_of
from indelible.cli.runs.pages import (
    HEADINGS,
    WIDE,
    checkpointed,
    event_row,
    inspected,
    resumed,
    verified,
)
from indelible.cli.show import age, count, say_json, shortened, visible
from indelible.core.filtering.filters import Query
from indelible.core.runs.following import RunEvent
from indelible.core.runs.resuming import context_content, receipt_content
from indelible.core.runs.run import OVER, UNSTARTED, CheckpointReason, Run, RunStatus
from indelible.engine.finding import Finding, everything
from indelible.errors import BadCall, UnknownRun
from indelible.runs.contents import checkpoint_content, report_content, run_content
from indelible.runs.reading import RunReading

HOW_TO_MAKE_ONE = """\
No runs yet. A run is listed as soon as a call names it. Started by an agent, it has an intent, checkpoints and an end:

    with ledger.start_run("order-123", agent="billing", intent="refund order 123") as run:
        refund(order_id="123", amount=5)
        run.checkpoint({"step": "mail"})"""
_LOOK_EVERY = 0.2


@click.group(cls=InOrder)
def runs() -> None:
    """Look at runs; save, resume, verify and fork them.

    \b
    Examples:
      indelible runs list --status blocked
      indelible runs inspect order-123
      indelible runs resume order-123
      indelible runs timeline order-123
    """


@runs.command(name="list")
@click.option("--status", type=click.Choice(get_args(RunStatus)), help="Only runs in this status.")
@click.option("--agent", help="Only runs of this agent.")
@filter_option("runs", "'status:blocked,failed since:24h refund'")
@click.option("--before", metavar="RUN", help="Only runs before this one: the next page.")
@limit_option
@about_ledger
def list_runs(status: RunStatus | None, agent: str | None, query: Query, before: str | None, limit: int) -> None:
    """List runs, newest first.

    Every run that has events is listed. One that was never started is `open`: its id only groups calls.
    """
    place = where()
    with open_to_read(place) as ledger:
        finding = Finding.of(ledger)
        found = everything(lambda after, count: finding.runs(query, status, agent, after, count), before, limit)
        chosen = {"status": status, "agent": agent, "before": before}
        listed = Listed(noun="run", found=found, chosen=chosen, query=query, address=ledger.address)
        ledger_id = _ledger_id(ledger)
    if place.is_json:
        say_page_json(listed, place, lambda run: run_content(run, ledger_id), "runs")
    else:
        say_page(listed, place, COLUMNS, _row, HOW_TO_MAKE_ONE if listed.is_whole else "")


COLUMNS = ("run", "status", "agent", "intent", "updated")


def _row(run: Run) -> tuple[str, ...]:
    agent, intent = ("unknown", "unknown") if run.status == UNSTARTED else (run.agent, shortened(run.intent))
    return (run.id, run.status, agent, intent, age(run.updated_at, datetime.now(UTC)))


@runs.command()
@click.argument("run_id", metavar="RUN")
@about_ledger
def inspect(run_id: str) -> None:
    """Show one run, and whether it can be resumed."""
    place = where()
    with open_to_read(place) as ledger:
        run = find(ledger, run_id)
        if place.is_json:
            inspect_json(ledger, run)
            return
        story = ledger.run_story(run_id)
        checkpoints = ledger.checkpoints(run_id)
        approvals = ledger.approvals(status="pending", run_id=run_id, limit=1000)
        report = ledger.verify_run(run_id)
    print(inspected(run, story, checkpoints, len(approvals), report))


# Effects and approvals are shown, so whoever types `runs show` means this.
runs.add_command(
    click.Command("show", params=inspect.params, callback=inspect.callback, help=inspect.help, hidden=True)
)


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("-f", "--follow", is_flag=True, help="Go on as events come in, until the run is over.")
@click.option("--after", type=click.IntRange(min=0), metavar="N", default=0, help="Only events after number N.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show at most so many.  [default: all]")
@about_ledger
def events(run_id: str, follow: bool, after: int, limit: int | None) -> None:
    """List a run's events, and follow them as they come.

    They are numbered from 1; `indelible events RUN` lists the record itself, and checks its chain. With --json, one
    JSON document a line.
    """
    place = where()
    if follow and limit is not None:
        raise click.UsageError("--follow goes on until the run is over, and --limit ends before: leave out one of them")

    def say(event: RunEvent) -> None:
        print(json.dumps(receipt_content(event)) if place.is_json else event_row(event), flush=follow)

    with open_to_read(place, wakeups=True) as ledger:
        reading = reading_of(ledger, run_id, after - 1)
        if not place.is_json:
            print(f"Events for run: {visible(run_id)}\n{WIDE}\n{HEADINGS}\n{WIDE}", flush=follow)
        for event in islice(reading, limit):
            say(event)
        if follow:
            _follow(ledger, run_id, reading, say)
        elif limit is not None and not place.is_json and ledger.events(run_id, after=after + limit - 1, limit=1):
            print(f"There are more. Add: --after {after + limit}")


def _follow(ledger: Ledger, run_id: str, reading: RunReading, say: Callable[[RunEvent], None]) -> None:
    """Prints what comes in; a look is one cheap read, and there is no bell for events that move no effect."""
    with until_ended():
        while True:
            run = ledger.get_run(run_id)
            for event in reading:
                say(event)
            if run is not None and run.status in OVER:
                return
            time.sleep(_LOOK_EVERY)


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--reason", type=click.Choice(get_args(CheckpointReason)), default="manual", show_default=True,
              help="What kind of reason it has.")  # fmt: skip
@click.option("--state", metavar="JSON", help="The agent's state to save: a JSON object, or @FILE.")
@click.option("--suggested", metavar="TEXT", help="What to do next, for whoever resumes.")
@click.option("--at", metavar="EVENT", help="An earlier event, by its number or id.  [default: the latest]")
@about_ledger
def checkpoint(run_id: str, reason: CheckpointReason, state: str | None, suggested: str | None, at: str | None) -> None:
    """Seal a run as it is now."""
    place = where()
    with open_existing(place) as ledger:
        find(ledger, run_id)
        saved = None if state is None else read_args(state)
        seq = _seq_of(ledger, run_id, at)
        sealed = ledger.checkpoint(run_id, saved, reason=reason, suggested=suggested, at=seq)
        sealed_hash = sealed_hash_of(ledger, run_id, sealed.seq)
    if place.is_json:
        say_json(checkpoint_content(sealed, sealed_hash))
    else:
        print(checkpointed(sealed, sealed_hash or "-"))


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--from", "checkpoint_id", metavar="CKPT", help="The checkpoint to go on from.  [default: the latest]")
@click.option("--force", is_flag=True, help="Also when somebody has to look at it first; say so only if you did.")
@about_ledger
def resume(run_id: str, checkpoint_id: str | None, force: bool) -> None:
    """Let a run go on, and print with what.

    The run is active afterwards and nobody drives it, so that a program can: ledger.resume_run("RUN").
    """
    place = where()
    with open_existing(place) as ledger:
        active = ledger.resume_run(run_id, checkpoint=checkpoint_id, force=force)
        assert active.context is not None
        context = active.context
        active.release()
    if place.is_json:
        say_json(context_content(context))
    else:
        print(resumed(context))


@runs.command()
@click.argument("run_id", metavar="RUN")
@about_ledger
def verify(run_id: str) -> int:
    """Check a run's chain, values, checkpoints and lineage.

    Exits with 1 when something is not valid.
    """
    place = where()
    with open_to_read(place) as ledger:
        report = ledger.verify_run(run_id)
    if place.is_json:
        say_json(report_content(report))
    else:
        print(verified(report))
        if report.is_valid:
            print("\nThis rests on this database alone. Against a key you pinned: " + place.command("verify --help"))
    return 0 if report.is_valid else 1


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--width", type=click.IntRange(min=40), metavar="N", help="How wide to draw.  [default: the terminal]")
@about_ledger
def timeline(run_id: str, width: int | None) -> None:
    """Draw what waited, what was executed, and when."""
    from indelible.cli.runs.timeline import draw, timeline_content

    place = where()
    with open_to_read(place) as ledger:
        events: list[RunEvent] = []
        story = ledger.run_story(run_id, each=events.append)
    if place.is_json:
        say_json(timeline_content(story, events))
    else:
        print(draw(story, events, width))


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--at", metavar="EVENT", help="The last event to replay, by its number or id.  [default: all]")
@click.option("--name", metavar="RUN", help="The new run's name.")
@click.option("--for-real", is_flag=True, help="Let calls that are not on the record happen.  [default: a dry run]")
@about_ledger
def fork(run_id: str, at: str | None, name: str | None, for_real: bool) -> None:
    """Begin a run that replays another one from the record."""
    place = where()
    with open_existing(place) as ledger:
        forked = ledger.fork_run(run_id, at=_seq_of(ledger, run_id, at), new_id=name, dry_run=not for_real)
        forked.release()
        assert forked.run.fork is not None
        origin = forked.run.fork
    if place.is_json:
        say_json({"runId": forked.id, "forkOf": run_id, "atSeq": origin.at, "isDryRun": origin.is_dry})
        return
    kind = "A dry run: nothing outside is touched." if origin.is_dry else "What is not on the record really happens."
    print(f"Forked {visible(run_id)} at event {origin.at + 1}: {visible(forked.id)}\n{kind}")
    print(f'Go on in a program: ledger.resume_run("{visible(forked.id)}")')


@runs.command()
@click.argument("left", metavar="RUN")
@click.argument("right", metavar="OTHER")
@about_ledger
def diff(left: str, right: str) -> int:
    """Compare the tool calls of two runs.

    Exits with 1 when they differ.
    """
    from indelible.cli.runs.diff_page import diff_content, said

    place = where()
    with open_to_read(place) as ledger:
        found = ledger.diff_runs(left, right)
    if place.is_json:
        say_json(diff_content(left, right, found))
    else:
        print(said(left, right, found))
    return 0 if all(one.kind == "same" for one in found) else 1


@runs.command()
@click.argument("run_id", metavar="RUN")
@reason_option(None)
@by_option
@about_ledger
def cancel(run_id: str, reason: str, by: str) -> None:
    """End a run before its work is done.

    Whoever drives it loses it.
    """
    place = where()
    with open_existing(place) as ledger:
        run = ledger.end_run(find(ledger, run_id).id, "canceled", by=by, reason=reason)
        ledger_id = _ledger_id(ledger)
    place.say(run_content(run, ledger_id), f"Canceled run: {visible(run.id)}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--ledger", "named", metavar="MODULE:NAME", required=True, help="The ledger that knows the run's tools.")
@about_ledger
def compensate(run_id: str, named: str) -> int:
    """Make good what a run's tools did, newest first.

    They do it by what they declare. They are functions of yours, so the ledger is named as a program knows it:
    shop.tools:ledger. Exits with 1 when something is left to do.
    """
    from indelible.cli.runs.compensating import compensate_by, said_content, say_compensated

    place = where()
    found = compensate_by(named, run_id)
    if place.is_json:
        say_json({"runId": run_id, "compensations": [said_content(one) for one in found]})
    else:
        say_compensated(run_id, found, place)
    return 1 if any(one.is_open for one in found) else 0


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file to write.")
@click.option("--to", metavar="LEDGER", help="Hand the run over: the other ledger's key, or the name of its journal.")
@click.option("--valid-days", type=click.IntRange(1, 366), default=7, show_default=True, help="Days to import it in.")
@about_ledger
def packet(run_id: str, out: Path, to: str | None, valid_days: int) -> None:
    """Write a run as a signed packet.

    With --to, the run is handed over: its calls are refused here from then on, and only that ledger can import the
    packet. Without, the packet is a copy for reading. The other ledger's key: indelible keys export-public.
    """
    place = where()
    if out.exists():
        raise BadCall(f"{out} is there already; name another file")
    with open_existing(place) as ledger:
        find(ledger, run_id)
        signed = ledger.export_packet(run_id, out, to=to, valid=timedelta(days=valid_days))
    effects, handed_to = len(signed["packet"]["effects"]), signed["packet"]["handedOverTo"]
    if place.is_json:
        say_json({"runId": run_id, "file": str(out), "effects": effects, "handedOverTo": handed_to})
        return
    print(f"Wrote {visible(str(out))}: {count(effects, 'effect')} that will not be done again elsewhere.")
    print("It holds arguments and results.")
    if handed_to is None:
        print("It is a copy for reading, and the run goes on here. To hand the run over, use --to.")
        return
    print(f"The run is handed over to {visible(handed_to)}: its calls are refused here. Take it over there:")
    print("  indelible runs import FILE --key VKEY")
    print(f"If that ledger never imports it: {place.command(f'runs take-back {visible(run_id)}')}")


@runs.command(name="take-back")
@click.argument("run_id", metavar="RUN")
@reason_option(None)
@click.option(
    "--force", is_flag=True, help="The packet is destroyed, and the other ledger has no such run: you looked."
)
@by_option
@about_ledger
def take_back(run_id: str, reason: str, force: bool, by: str) -> None:
    """Take a run back that was handed over and never imported.

    Without --force it is refused: this ledger cannot know whether the packet was imported.
    """
    place = where()
    with open_existing(place) as ledger:
        run = ledger.take_back_run(find(ledger, run_id).id, by=by, reason=reason, force=force)
        ledger_id = _ledger_id(ledger)
    words = f"Taken back: {visible(run.id)}\nGo on: {place.command(f'runs resume {visible(run.id)}')}"
    place.say(run_content(run, ledger_id), words)


@runs.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--key", metavar="VKEY", help="The key of the ledger it comes from: indelible keys export-public.")
@click.option("--trust", is_flag=True, help="Take it as it is, without a proof of where it comes from.")
@about_ledger
def import_packet(file: Path, key: str | None, trust: bool) -> None:
    """Take a run over from another ledger's packet.

    Nothing of it is done again here.
    """
    place = where()
    with open_existing(place) as ledger:
        run = ledger.import_packet(file, key=key, trust=trust)
        ledger_id = _ledger_id(ledger)
    words = f"Imported run: {visible(run.id)}\nGo on: {place.command(f'runs resume {run.id}')}"
    place.say(run_content(run, ledger_id), words)


def find(ledger: Ledger, run_id: str) -> Run:
    """Return a run that has events; raise what to do when there is none."""
    run = ledger.get_run(run_id)
    if run is None:
        raise UnknownRun(f"no run of tenant {ledger.tenant!r} is named {visible(run_id)!r}; see: indelible runs list")
    return run


def _seq_of(ledger: Ledger, run_id: str, at: str | None) -> int | None:
    """Gives the `seq` of an event that is named by its number in `runs events`, which counts from 1, or by its id."""
    if at is None:
        return None
    found: list[int] = []

    def look(event: RunEvent) -> None:
        if at in (str(event.seq + 1), f"evt_{event.id}"):
            found.append(event.seq)

    story = ledger.run_story(run_id, each=look)
    if not found:
        last = story.head.length
        raise BadCall(f"run {run_id} has no event {at}; its last is {last}, see: indelible runs events {run_id}")
    return found[0]


def _ledger_id(ledger: Ledger) -> str:
    return ledger.journal_name
