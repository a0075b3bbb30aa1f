"""Finds what a filter asks for, a page at a time: work is bounded, and nothing ends in silence.

A store finds by itself what it has columns and indexes for; the rest is looked through here, newest first, so many rows
at a time. When that many were looked at and the page is not full, `next` says where to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from indelible.core.approvals.approval import Approval
from indelible.core.effects.calls import SideEffect
from indelible.core.effects.effect import Effect, Status
from indelible.core.events import Event
from indelible.core.filtering.filters import ARGS, Query
from indelible.core.filtering.matching import (
    approval_subject,
    effect_subject,
    event_subject,
    fits,
    run_subject,
)
from indelible.core.journal.journal import Entry
from indelible.core.ports import Filter, Store
from indelible.core.runs.run import Run, RunStatus
from indelible.core.sheets import Sheet, SheetFilter
from indelible.engine.approving import approval_on
from indelible.journal.exports.excerpt import agents_in
from indelible.runs.keeping import RunKeeping

if TYPE_CHECKING:
    from indelible.engine.desk import Desk

MOST_LOOKED_AT = 5000
"""Is how many rows one page looks at."""
MOST_LOOKED_UP = 500
"""Is the same where each row may need a read of its own, as for the agent of its run."""
MOST_BYTES = 8 * 1024 * 1024
"""Is how much recorded values may come to that one page reads, for somebody has to hold them."""
CLOCKS_APART = timedelta(hours=1)
"""Is by how much the clocks of two machines may differ before a filter by time misses something."""
_FIRST_STEP = 8
_LARGEST_STEP = 1000

Thing = TypeVar("Thing")
Place = TypeVar("Place", str, int)


@dataclass(frozen=True, slots=True)
class Found(Generic[Thing, Place]):
    """Is a page of what was found; `next` is where to go on, and None at the end of everything."""

    things: list[Thing]
    next: Place | None


class Finding:
    """Finds things of one tenant."""

    def __init__(self, store: Store, tenant: str, keeping: RunKeeping, now: datetime | None = None) -> None:
        self._store = store
        self._tenant = tenant
        self._keeping = keeping
        self._now = now or datetime.now(UTC)
        self._agent_of = agents_in(store, tenant)

    @classmethod
    def of(cls, ledger: Desk) -> Finding:
        """Return what finds things of a ledger's tenant."""
        return cls(ledger._engine.store, ledger.tenant, ledger._run_desk().keeping)

    def effects(self, query: Query, selected: Filter) -> Found[Effect, str]:
        """Finds effects, newest first, after `selected.before`; the page ends early when its values are many bytes."""
        narrowed = replace(
            selected,
            status=selected.status or cast("Status | None", query.only("status")),
            tool=selected.tool or query.only("tool"),
            run_id=selected.run_id or query.only("run"),
            side_effect=selected.side_effect or cast("SideEffect | None", query.only("side_effect")),
        )
        since = self._id_since(query, "eff_")
        return look_through(
            lambda before, count: self._store.effects(self._tenant, replace(narrowed, before=before, limit=count)),
            lambda effect: fits(query, effect_subject(effect, self._agent_of), self._now),
            lambda effect: effect.id,
            start=self._until(query, "eff_", selected.before),
            limit=selected.limit,
            is_plain=not query.terms,
            most=MOST_LOOKED_UP if query.needs("agent") else MOST_LOOKED_AT,
            is_over=lambda effect: since is not None and effect.id < since,
            size_of=lambda effect: len(effect.args_json or b"") + len(effect.detail_json or b""),
        )

    def approvals(self, query: Query, selected: SheetFilter, tool: str | None = None) -> Found[Approval, str]:
        """Finds approvals, newest first, after `selected.before`; a page ends early when it took many bytes."""
        narrowed = replace(
            selected, status=selected.status or query.only("status"), topic=selected.topic or query.only("run")
        )
        since = self._id_since(query, "apr_")
        needs_args = query.needs(ARGS) or query.needs_text()
        sizes: dict[str, int] = {}

        def args_of(approval: Approval) -> bytes | None:
            found = args_asked_about(self._store, approval)
            sizes[approval.id] = len(found or b"")
            return found

        def is_asked_for(sheet: Sheet) -> bool:
            approval = approval_on(sheet)
            if approval is None or tool not in (None, approval.tool):
                return False
            return fits(query, approval_subject(approval, self._agent_of, args_of), self._now)

        found = look_through(
            lambda before, count: self._store.sheets(self._tenant, replace(narrowed, before=before, limit=count)),
            is_asked_for,
            lambda sheet: sheet.id,
            start=self._until(query, "apr_", selected.before),
            limit=selected.limit,
            is_plain=not query.terms and tool is None,
            most=MOST_LOOKED_UP if needs_args or query.needs("agent") else MOST_LOOKED_AT,
            is_over=lambda sheet: since is not None and sheet.id < since,
            size_of=lambda sheet: sizes.get(sheet.id, 0),
        )
        return Found([one for one in map(approval_on, found.things) if one is not None], found.next)

    def runs(
        self, query: Query, status: RunStatus | None, agent: str | None, before: str | None, limit: int
    ) -> Found[Run, str]:
        """Find runs that have events, the one begun last first, after the one named `before`."""
        status = status or cast("RunStatus | None", query.only("status"))
        agent = agent or query.only("agent")
        only = query.only("run")
        if only is not None:
            run = self._keeping.known(only)
            is_there = run is not None and status in (None, run.status) and agent in (None, run.agent)
            is_there = is_there and before is None  # a page of one has no next
            return Found([run] if run is not None and is_there and self._is_run_asked_for(query, run) else [], None)
        return look_through(
            lambda place, count: self._keeping.runs(status, agent, place, count),
            lambda run: self._is_run_asked_for(query, run),
            lambda run: run.id,
            start=before,
            limit=limit,
            is_plain=not query.terms,
        )

    def _is_run_asked_for(self, query: Query, run: Run) -> bool:
        return fits(query, run_subject(run), self._now)

    def events(self, query: Query, run_id: str | None, after: int, limit: int) -> Found[Event | Entry, int]:
        """Finds events of a run, or of the whole journal, in their order, after a number."""
        run_id = run_id or query.only("run")

        def read(after: int | None, count: int) -> Sequence[Event | Entry]:
            return self.read_events(run_id, -1 if after is None else after, count)

        return look_through(
            read,
            lambda event: self.is_event_asked_for(query, event),
            number_of,
            start=max(after, self.before_since(query, run_id)),
            limit=limit,
            is_plain=not query.terms,
            most=MOST_LOOKED_UP if query.needs("agent") else MOST_LOOKED_AT,
        )

    def read_events(self, run_id: str | None, after: int, count: int) -> Sequence[Event | Entry]:
        """Reads so many events of a run, or of the journal, after a number."""
        if run_id is None:
            return self._store.journal.entries(self._tenant, after + 1, count)
        return self._store.events(self._tenant, run_id, after, count)

    def is_event_asked_for(self, query: Query, event: Event | Entry) -> bool:
        """Is this what the filter asks for?"""
        subject = event_subject(event.run_id, event.seq, event.hash, event.body, self._agent_of)
        return fits(query, subject, self._now)

    def before_since(self, query: Query, run_id: str | None) -> int:
        """Gives a number of the journal before which nothing lies that the filter asks for, by looking at a few.

        The journal is in the order of sealing, and a clock may be off: so it is the place an hour earlier.
        """
        since = query.since(self._now)
        if since is None or run_id is not None:
            return -1
        low, high = 0, self._store.journal.tree(self._tenant).size
        while low < high:
            middle = (low + high) // 2
            found = self._store.journal.entries(self._tenant, middle, 1)
            moment = event_subject("", 0, "", found[0].body).moment if found else None
            if moment is not None and since - moment > CLOCKS_APART:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _id_since(self, query: Query, prefix: str) -> str | None:
        """Gives the id below which everything is too old; ids begin with the time they were made."""
        since = query.since(self._now)
        return None if since is None else id_at(prefix, since, -CLOCKS_APART)

    def _until(self, query: Query, prefix: str, before: str | None) -> str | None:
        until = query.until(self._now)
        if until is None:
            return before
        newest = id_at(prefix, until, CLOCKS_APART)
        return newest if before is None else min(before, newest)


def args_asked_about(store: Store, approval: Approval) -> bytes | None:
    """Return the arguments an approval is about, while they are those of its effect."""
    effect = store.look([approval.ref]).effects[0]
    return effect.args_json if effect is not None and effect.opened_seq == approval.args_seq else None


def number_of(event: Event | Entry) -> int:
    """Gives an event's number in its run, or that of its place in the journal."""
    return event.index if isinstance(event, Entry) else event.seq


def id_at(prefix: str, moment: datetime, later: timedelta = timedelta(0)) -> str:
    """Gives the smallest id that is made so much later than a moment; there may be no such moment in the calendar."""
    millis = int((moment.timestamp() + later.total_seconds()) * 1000)
    return f"{prefix}{min(max(millis, 0), 0xFFFFFFFFFFFF):012x}"


def look_through(
    read: Callable[[Any, int], Sequence[Thing]],
    is_asked_for: Callable[[Thing], bool],
    place_of: Callable[[Thing], Place],
    *,
    start: Place | None,
    limit: int,
    is_plain: bool,
    most: int = MOST_LOOKED_AT,
    is_over: Callable[[Thing], bool] = lambda thing: False,
    size_of: Callable[[Thing], int] = lambda thing: 0,
) -> Found[Thing, Place]:
    """Reads on from a place until a page is full, everything was seen, or enough was looked at.

    A page is full when one more was seen than it holds: so `next` is None only where nothing is left. Reads begin small
    and grow, and where everything is asked for (`is_plain`) no more is read than the page takes.
    """
    found: list[Thing] = []
    place, looked_at, size, step = start, 0, 0, _FIRST_STEP
    while looked_at < most and size < MOST_BYTES:
        wanted = min(step, limit + 1 - len(found)) if is_plain else min(step, most - looked_at)
        page = read(place, wanted)
        for thing in page:
            if is_over(thing):
                return Found(found, None)
            if is_asked_for(thing):
                if len(found) == limit:
                    return Found(found, place)
                found.append(thing)
            place = place_of(thing)
            size += size_of(thing)
        if len(page) < wanted:
            return Found(found, None)
        looked_at += len(page)
        step = min(step * (4 if size < MOST_BYTES // 16 else 1), _LARGEST_STEP)
    return Found(found, place)


def everything(page: Callable[[Any, int], Found[Thing, Place]], start: Place | None, limit: int) -> Found[Thing, Place]:
    """Looks on, page by page, until so many are found or everything was seen; a page gets a place and how many."""
    found: list[Thing] = []
    place = start
    while True:
        more = page(place, limit - len(found))
        found += more.things
        place = more.next
        if place is None or len(found) == limit:
            return Found(found, place)
