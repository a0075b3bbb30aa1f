"""`indelible tail`: what happens, as it happens."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import click

from indelible.cli.behind import store_behind
from indelible.cli.ending import until_ended
from indelible.cli.filtering import filter_option, said
from indelible.cli.opening import about_ledger, open_to_read, where
from indelible.cli.show import timestamp, visible
from indelible.core.events import Event
from indelible.core.filtering.filters import Query, Since
from indelible.core.journal.journal import Entry
from indelible.engine.finding import Finding, number_of

_LOOK_EVERY = 0.25
_PAGE = 500


@click.command()
@filter_option("events", "'type:tool_call_* status:failed since:10m'")
@click.option("--once", is_flag=True, help="Print what is there already, and leave.")
@about_ledger
def tail(query: Query, once: bool) -> None:
    """Print events of all runs as they happen.

    They are printed as they come into the journal, until Ctrl-C. It begins with what comes next, or at `since:` of the
    filter. With --json, one JSON document a line.

    \b
    indelible tail
    indelible tail --filter 'tool:stripe.* since:1h'
    """
    place = where()
    with open_to_read(place) as ledger:
        is_from_before = once or any(isinstance(term, Since) for term in query.terms)
        size = store_behind(ledger).journal.tree(ledger.tenant).size
        after = Finding.of(ledger).before_since(query, None) if is_from_before else size - 1
        if not place.is_json:
            print(f"Filter: {said({}, query)}.", flush=True)
        with until_ended():
            while True:
                after = _say_new(Finding.of(ledger), query, after, is_json=place.is_json)
                if once:
                    return
                time.sleep(_LOOK_EVERY)  # there is no bell for what comes into the journal


def _say_new(finding: Finding, query: Query, after: int, *, is_json: bool) -> int:
    """Prints what came in after a place and is asked for; gives the last place that was looked at."""
    while page := finding.read_events(None, after, _PAGE):
        for event in page:
            if finding.is_event_asked_for(query, event):
                print(json.dumps(_told(event)) if is_json else _line(event), flush=True)
        after = number_of(page[-1])
    return after


def _told(event: Event | Entry) -> dict[str, Any]:
    body = event.body.decode("utf-8", "backslashreplace")
    return {"index": number_of(event), "run_id": event.run_id, "seq": event.seq, "hash": event.hash, "body": body}


def _line(event: Event | Entry) -> str:
    try:
        told: dict[str, Any] = json.loads(event.body)
        when = timestamp(datetime.fromisoformat(told["at"]))
        who = str(told["actor"]["id"])
    except (ValueError, KeyError, TypeError):
        return f"{number_of(event)}  unreadable: see: indelible verify"
    words = (when, event.run_id, told.get("type", ""), told.get("tool", ""), told.get("status", ""), who)
    return f"{number_of(event):>7}  " + "  ".join(visible(str(word)) for word in words if word)
