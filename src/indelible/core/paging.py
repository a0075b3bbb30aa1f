"""Reading from a store: one sheet by its place, the event that tells of it, and whole lists page by page. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from indelible.core.events import Event
from indelible.core.ports import Store
from indelible.core.sheets import Sheet, SheetFilter, SheetRef


def read_sheet(store: Store, tenant: str, ref: SheetRef) -> Sheet | None:
    """Return the sheet at a place, or None if there is none."""
    found = store.sheets(tenant, SheetFilter(kind=ref.kind, id=ref.id, limit=1))
    return found[0] if found else None


def event_of(store: Store, tenant: str, sheet: Sheet) -> Event | None:
    """Return the event that tells of a sheet's newest state, or None if its row names none."""
    if sheet.run_id is None or sheet.seq is None:
        return None
    return next(iter(store.events(tenant, sheet.run_id, sheet.seq - 1, 1)), None)


def every_event(store: Store, tenant: str, run_id: str, after: int = -1, *, page: int = 1000) -> Iterator[Event]:
    """Yield a run's events numbered above `after`, in order."""
    while found := store.events(tenant, run_id, after, page):
        yield from found
        after = found[-1].seq


def every_sheet(store: Store, tenant: str, selected: SheetFilter) -> Iterator[Sheet]:
    """Yield the sheets that fit, newest first or, with `after`, oldest first; `limit` is how many are read at once."""
    while found := store.sheets(tenant, selected):
        yield from found
        last = found[-1].id
        selected = replace(selected, before=last) if selected.after is None else replace(selected, after=last)


def every_run(store: Store, tenant: str, after: str = "", *, page: int = 1000) -> Iterator[tuple[str, int, str]]:
    """Yield the id, the length and the last hash of every run whose id comes after `after`, in the order of ids."""
    while found := store.journal.runs(tenant, after, page):
        yield from found
        after = found[-1][0]
