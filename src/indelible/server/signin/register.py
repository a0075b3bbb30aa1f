"""Whoever a tenant lets in stands on a sheet that changes on the record: found, listed and written in one way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from indelible.core.commands import Outrun, Record
from indelible.core.effects.calls import check_name
from indelible.core.effects.effect import Actor
from indelible.core.events import facts_json
from indelible.core.paging import every_event, every_sheet, read_sheet
from indelible.core.ports import Store
from indelible.core.sheets import Sheet, SheetFilter, SheetRef
from indelible.engine.mint import SystemMint
from indelible.errors import NotPermitted

Entry = TypeVar("Entry")
_PAGE = 1000


class Register(Generic[Entry]):
    """Keeps one kind of entries of one tenant. An entry that was edited in the database is none."""

    kind: str
    run_id: str
    read: Callable[[Sheet], Entry]
    sheet_of: Callable[[Entry], Sheet]

    def __init__(self, store: Store, tenant: str) -> None:
        check_name("tenant", tenant)
        self._store = store
        self._tenant = tenant
        self._mint = SystemMint()

    def find(self, id_: str) -> Entry | None:
        """Finds an entry by its id."""
        found = read_sheet(self._store, self._tenant, SheetRef(self.kind, id_))
        return None if found is None or found.body is None else type(self).read(found)

    def _version(self, id_: str) -> int:
        """Return the version that the next one of an entry follows; 0 if there never was one."""
        found = read_sheet(self._store, self._tenant, SheetRef(self.kind, id_))
        return 0 if found is None else found.version

    def all(self) -> list[Entry]:
        """Lists all entries, the greatest id first; those of new things are the greatest."""
        return [type(self).read(sheet) for sheet in self._sheets() if sheet.body is not None]

    def page(self, before: str | None, limit: int) -> tuple[list[Entry], str | None]:
        """Lists the last entries whose ids come before this one, and says before which the next page is."""
        sheets = self._store.sheets(self._tenant, SheetFilter(kind=self.kind, before=before, limit=limit))
        found = [type(self).read(sheet) for sheet in sheets if sheet.body is not None]
        return found, sheets[-1].id if len(sheets) == limit else None

    def _last_event(self) -> int:
        """Return the number of the run's last event; -1 if there is none."""
        last = max((sheet.seq for sheet in self._sheets() if sheet.seq is not None), default=-1)
        return max((event.seq for event in every_event(self._store, self._tenant, self.run_id, last)), default=last)

    def _sheets(self) -> Iterator[Sheet]:
        return every_sheet(self._store, self._tenant, SheetFilter(kind=self.kind, limit=_PAGE))

    def _tell(
        self, event_type: str, facts: dict[str, str], changed: Entry | None, by: Actor, *, after: int | None = None
    ) -> bool:
        """Write an entry and the event that tells of it; say whether nobody else changed it meanwhile.

        With `after`, the number of the run's last event, say whether nobody changed any entry since.
        """
        command = Record(
            tenant=self._tenant,
            run_id=self.run_id,
            stamp=self._mint.stamp(by),
            event_type=event_type,
            facts=facts_json(facts),
            sheet=None if changed is None else type(self).sheet_of(changed),
            after=after,
        )
        (answer,) = self._store.apply(self._tenant, [command], [None])
        if (
            isinstance(answer, Outrun)
            and after is None
            and command.sheet is not None
            and _is_next(command.sheet, answer.sheet)
        ):
            raise NotPermitted(f"{by.id} lost their access meanwhile, so nothing was changed; sign in again at /signin")
        return not isinstance(answer, Outrun)


def _is_next(sheet: Sheet, found: Sheet | None) -> bool:
    """Would this follow on what is there? Then it was not that which stood against it."""
    return sheet.version == (1 if found is None else found.version + 1)
