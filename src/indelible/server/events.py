"""Events of a run or of the whole tenant: pages, and a live stream that goes on where it was cut off."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.sse import EventSourceResponse

from indelible.core.calls import check_name
from indelible.errors import BadCall, UnknownRun
from indelible.running import in_own_thread
from indelible.server.asking import Asking, asking
from indelible.server.effects import Limit
from indelible.server.feeds import LOOK_AT_JOURNAL_EVERY, LOOK_EVERY, Read, Told, stream
from indelible.server.routing import ANYBODY, answer, resources
from indelible.server.shapes import EventPage, entry_shown, event_shown

LARGEST = 2**53 - 1
events: APIRouter = resources("events")
RunId = Annotated[str | None, Query(description="The run; left away, all events that are in the journal.")]
After = Annotated[
    int, Query(ge=-1, le=LARGEST, description="Only events after this number of the run, or of the journal.")
]


@events.get("/v1/events", response_model=EventPage)
async def list_events(
    run_id: RunId = None, after: After = -1, limit: Limit = 100, asked: Asking = asking(*ANYBODY)
) -> Response:
    """List a run's events in their order, or all of the tenant's in the order of the journal."""
    found = await in_own_thread(await _reader(asked, run_id), after, limit + 1)
    shown = [told for _, told in found[:limit]]
    return answer({"events": shown, "next": found[limit - 1][0] if len(found) > limit else None})


@events.get(
    "/v1/events/stream",
    response_class=Response,
    responses={
        200: {"description": "Server-sent events; each has its number as id.", "content": {"text/event-stream": {}}}
    },
)
async def stream_events(
    request: Request,
    run_id: RunId = None,
    after: After = -1,
    last_event_id: Annotated[str | None, Header(description="The id seen last; goes before `after`.")] = None,
    asked: Asking = asking(*ANYBODY),
) -> Response:
    """Send events as they happen; whoever comes back with `Last-Event-ID` misses none and gets none twice."""
    read = await _reader(asked, run_id)
    ledgers = asked.ledgers
    content = stream(
        read,
        after if last_event_id is None else _number(last_event_id),
        feed=ledgers.feeds.of(asked.ledger),
        look_every=LOOK_AT_JOURNAL_EVERY if run_id is None else LOOK_EVERY,
        stopping=ledgers.stopping,
        check=lambda: request.app.state.authenticate(request),
    )
    return EventSourceResponse(content, headers={"X-Accel-Buffering": "no"})


def _number(last_event_id: str) -> int:
    if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 15:
        raise BadCall("Last-Event-ID: the id of an event of this stream is expected here, which is a number")
    return int(last_event_id)


async def _reader(asked: Asking, run_id: str | None) -> Read:
    """Gives what reads on; raises `UnknownRun` when there is nothing to read."""
    store, tenant = asked.ledger._engine.store, asked.caller.tenant
    if run_id is None:
        return lambda after, limit: [
            (entry.index, entry_shown(entry)) for entry in store.journal.entries(tenant, after + 1, limit)
        ]
    name = run_id
    check_name("run_id", name)
    if not await asked.ledger.events(name, limit=1):
        raise UnknownRun(f"no run of this tenant has the name {name}")

    def read(after: int, limit: int) -> list[Told]:
        return [(event.seq, event_shown(event)) for event in store.events(tenant, name, after, limit)]

    return read
