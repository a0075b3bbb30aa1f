"""Whoever a tenant lets in stands on a sheet that changes on the record: found, listed and written in one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from indelible.core.commands import Outrun, Record
from indelible.core.effects.calls import check_name
from indelible.core.effects.effect import Actor
from indelible.core.events import facts_json
from indelible.core.ports import Store
from indelible.core.sheets import Sheet, SheetFilter
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
        found = self._store.sheets(self._tenant, SheetFilter(kind=self.kind, id=id_, limit=1))
        return None if not found or found[0].body is None else type(self).read(found[0])

    def _version(self, id_: str) -> int:
        """Return the version that the next one of an entry follows; 0 if there never was one."""
        found = self._store.sheets(self._tenant, SheetFilter(kind=self.kind, id=id_, limit=1))
        return found[0].version if found else 0

    def all(self) -> list[Entry]:
        """Lists all entries, the greatest id first; those of new things are the greatest."""
        found: list[Entry] = []
        before: str | None = None
        while True:
            page, before = self.page(before, _PAGE)
            found += page
            if before is None:
                return found

    def page(self, before: str | None, limit: int) -> tuple[list[Entry], str | None]:
        """Lists the last entries whose ids come before this one, and says before which the next page is."""
        sheets = self._store.sheets(self._tenant, SheetFilter(kind=self.kind, before=before, limit=limit))
        found = [type(self).read(sheet) for sheet in sheets if sheet.body is not None]
        return found, sheets[-1].id if len(sheets) == limit else None

    def _last_event(self) -> int:
        """Return the number of the run's last event; -1 if there is none."""
        last, before = -1, None
        while sheets := self._store.sheets(self._tenant, SheetFilter(kind=self.kind, before=before, limit=_PAGE)):
            last, before = max(last, *(-1 if sheet.seq is None else sheet.seq for sheet in sheets)), sheets[-1].id
        while events := self._store.events(self._tenant, self.run_id, last, _PAGE):
            last = events[-1].seq
        return last

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
