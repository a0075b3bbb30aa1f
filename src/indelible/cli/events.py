"""`indelible events`: a run's record, checked while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

import click

from indelible import Event, Ledger
from indelible.cli.filtering import filter_option, said, with_query
from indelible.cli.opening import about_ledger, open_to_read, where
from indelible.cli.show import count, say_json, table, timestamp, visible
from indelible.core.events import NO_EVENTS, Head
from indelible.core.filtering.filters import Query
from indelible.core.journal.chain import Broken, Intact, check_chain
from indelible.engine.finding import Finding
from indelible.errors import BadCall

PAGE = 1000


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--after", type=click.IntRange(min=0), metavar="N", help="Only events after number N.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", default=1000, show_default=True, help="Show at most so many."
)
@filter_option("events", "'type:tool_call_* actor:ana since:1h'")
@about_ledger
def events(run_id: str, after: int | None, limit: int, query: Query) -> int:
    """List a run's events and check that nobody changed them.

    Exits with 1 and names the first bad event if the chain is broken. A cut-off end and a record that was rewritten as
    a whole cannot be seen in a run alone. All events are checked, also those that a filter leaves out.
    """
    place = where()
    with open_to_read(place) as ledger:
        start = NO_EVENTS if after is None else _head_at(ledger, run_id, after)
        found = list(islice(read_run(ledger, run_id, start.length - 1), limit + 1))
        address = ledger.address
        finding = Finding.of(ledger)
        checked = found[:limit]
        shown = [event for event in checked if finding.is_event_asked_for(query, event)] if query.terms else checked
    if not found and after is None:
        raise BadCall(f"tenant {place.tenant!r} has no run {visible(run_id)} in {address}; see: indelible effects list")
    following = checked[-1].seq if len(found) > limit else None
    verdict = check_chain(checked, run_id, after=start)
    if place.is_json:
        _say_json(run_id, shown, verdict, following is not None, query)
    else:
        _say(shown, verdict, following, start)
        if query.terms:
            print(f"Shown: {len(shown)} of {count(len(checked), 'event')}. Filter: {said({}, query)}.")
    return 1 if isinstance(verdict, Broken) else 0


def read_run(ledger: Ledger, run_id: str, after: int = -1) -> Iterator[Event]:
    """Gives a run's events in their order, however many there are."""
    while page := ledger.events(run_id, after=after, limit=PAGE):
        yield from page
        after = page[-1].seq


def _head_at(ledger: Ledger, run_id: str, seq: int) -> Head:
    """Gives the chain's state after an event, to go on from there."""
    found = ledger.events(run_id, after=seq - 1, limit=1)
    if not found or found[0].seq != seq:
        raise BadCall(f"run {visible(run_id)} has no event {seq}; see: indelible events {visible(run_id)}")
    return Head(seq + 1, found[0].hash)


def _say(shown: list[Event], verdict: Intact | Broken, following: int | None, start: Head) -> None:
    if shown:
        names = ("seq", "time", "type", "effect", "attempt", "status", "actor", "hash")
        table(names, [row(event) for event in shown])
        print()
    match verdict:
        case Broken(checked, seq, why):
            print(f"CHAIN BROKEN at seq {seq}: {why}. {count(checked, 'event')} before it {_are(checked)} intact.")
            print("Keep this file as it is, and compare it with a backup.")
        case Intact(checked, head) if start == NO_EVENTS:
            print(f"chain intact: {count(checked, 'event')}, head {head.hash}")
        case Intact(checked, head):
            print(f"chain intact: {count(checked, 'event')} after seq {start.length - 1}, head {head.hash}")
    if following is not None:
        print(f"There are more, not checked yet. Add: --after {following}")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def row(event: Event) -> tuple[str, ...]:
    """Gives a table row from the record itself; from the columns beside it where the record cannot be read."""
    try:
        content: dict[str, Any] = event.read()
        actor = f"{content['actor']['id']} ({content['actor']['kind']})"
        time = timestamp(datetime.fromisoformat(content["at"]))
        rest = (str(content.get("attempt", "")), str(content.get("status", "")), actor)
    except (ValueError, KeyError, TypeError, AssertionError):
        time, rest = "unreadable", ("?", "?", "?")
    return (str(event.seq), time, event.type, event.effect_id or "", *rest, event.hash[:12])


def _say_json(run_id: str, shown: list[Event], verdict: Intact | Broken, has_more: bool, query: Query) -> None:
    chain: dict[str, Any]
    if isinstance(verdict, Broken):
        chain = {"intact": False, "checked": verdict.checked, "first_bad_seq": verdict.seq, "why": verdict.why}
    else:
        chain = {"intact": True, "checked": verdict.checked, "head": verdict.head.hash}
    told = {"run_id": run_id, "chain": chain, "has_more": has_more, "events": [event_json(e) for e in shown]}
    say_json({**told, "filter": with_query({}, query)} if query.terms else told)


def event_json(event: Event) -> dict[str, Any]:
    """Gives the record's exact text beside its hash, so that a program can check it too."""
    body = event.body.decode("utf-8", "backslashreplace")
    return {"seq": event.seq, "type": event.type, "effect_id": event.effect_id, "hash": event.hash, "body": body}
