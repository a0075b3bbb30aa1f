"""Events of a run or of the whole tenant: pages, and a live stream that goes on where it was cut off."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.sse import EventSourceResponse

from indelible.core.effects.calls import check_name
from indelible.core.events import Event
from indelible.core.filtering.filters import Query as Asked
from indelible.core.filtering.reading import parse
from indelible.core.journal.journal import Entry
from indelible.engine.finding import number_of
from indelible.engine.running import in_own_thread
from indelible.errors import BadCall, UnknownRun
from indelible.server.feeds import LOOK_AT_JOURNAL_EVERY, LOOK_EVERY, Read, Told, stream
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.filters import Q, finding_of
from indelible.server.requests.routing import answer, resources
from indelible.server.routes.effects import Limit
from indelible.server.shapes.effects import EventPage, entry_shown, event_shown

LARGEST = 2**53 - 1
events: APIRouter = resources("events")
RunId = Annotated[str | None, Query(description="The run; left away, all events that are in the journal.")]
After = Annotated[
    int, Query(ge=-1, le=LARGEST, description="Only events after this number of the run, or of the journal.")
]


@events.get("/v1/events", response_model=EventPage)
async def list_events(
    run_id: RunId = None, q: Q = "", after: After = -1, limit: Limit = 100, asked: Asking = asking("read")
) -> Response:
    """List a run's events in their order, or all of the tenant's in the order of the journal."""
    query = parse(q, "events")
    await _check_run(asked, run_id)
    found = await in_own_thread(finding_of(asked).events, query, run_id, after, limit)
    return answer({"events": [_shown(event) for event in found.things], "next": found.next})


@events.get(
    "/v1/events/stream",
    response_class=Response,
    responses={
        200: {"description": "Server-sent events; each has its number as id.", "content": {"text/event-stream": {}}}
    },
)
async def stream_events(
    run_id: RunId = None,
    q: Q = "",
    after: After = -1,
    last_event_id: Annotated[str | None, Header(description="The id seen last; goes before `after`.")] = None,
    asked: Asking = asking("read"),
) -> Response:
    """Send events as they happen; whoever comes back with `Last-Event-ID` misses none and gets none twice."""
    query = parse(q, "events")
    await _check_run(asked, run_id)
    run_id = run_id or query.only("run")  # as the list does, so that both count alike
    begin = after if last_event_id is None else _number(last_event_id)
    begin = max(begin, await in_own_thread(finding_of(asked).before_since, query, run_id))
    ledgers = asked.ledgers

    content = stream(
        _reader(asked, run_id, query),
        begin,
        feed=ledgers.feeds.of(asked.ledger),
        look_every=LOOK_AT_JOURNAL_EVERY if run_id is None else LOOK_EVERY,
        stopping=ledgers.stopping,
        check=asked.check_still_let_in,
    )
    return EventSourceResponse(content, headers={"X-Accel-Buffering": "no"})


def _number(last_event_id: str) -> int:
    if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 15:
        raise BadCall("Last-Event-ID: the id of an event of this stream is expected here, which is a number")
    return int(last_event_id)


async def _check_run(asked: Asking, run_id: str | None) -> None:
    """Raises `UnknownRun` when there is nothing to read."""
    if run_id is None:
        return
    check_name("run_id", run_id)
    if not await asked.ledger.events(run_id, limit=1):
        raise UnknownRun(f"no run of this tenant has the name {run_id}")


def _reader(asked: Asking, run_id: str | None, query: Asked) -> Read:
    """Gives what reads on; of events that the filter does not ask for, it gives the number alone."""

    def read(after: int, limit: int) -> list[Told]:
        finding = finding_of(asked)  # anew each time, for a filter may say how long ago
        found = finding.read_events(run_id, after, limit)
        return [
            (number_of(event), _shown(event) if finding.is_event_asked_for(query, event) else None) for event in found
        ]

    return read


def _shown(event: Event | Entry) -> dict[str, Any]:
    return entry_shown(event) if isinstance(event, Entry) else event_shown(event)
