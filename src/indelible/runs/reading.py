"""Reads the events of a run as people see them, a page at a time, however long the run is."""

from __future__ import annotations

from collections.abc import Iterator

from indelible.core.ports import Store
from indelible.core.runs.following import RunEvent, RunStory, by_event

_PAGE = 250


class RunReading:
    """Gives events from where a story is; iterated again, it gives what came in since.

    Of what it read it keeps a page, and whether the record holds so far: an event that does not fit ends the trust in
    all that come after it, on every later page.
    """

    def __init__(self, store: Store, tenant: str, story: RunStory) -> None:
        self._store = store
        self._tenant = tenant
        self._story = story

    def __iter__(self) -> Iterator[RunEvent]:
        while page := self._page(_PAGE):
            yield from page

    def first(self, count: int) -> list[RunEvent]:
        """Gives the next few, or as many as there are."""
        found: list[RunEvent] = []
        while page := self._page(min(count - len(found), _PAGE)):
            found += page
        return found

    def _page(self, most: int) -> list[RunEvent]:
        run_id = self._story.run_id
        page = self._store.events(self._tenant, run_id, self._story.head.length - 1, most) if most else []
        found = by_event(self._store.payloads(self._tenant, run_id, [event.seq for event in page])) if page else {}
        told = [self._story.follow(event, found.get(event.seq, {})) for event in page]
        self._story = self._story.going_on()
        return told
