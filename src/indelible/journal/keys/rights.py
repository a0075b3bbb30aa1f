"""How new each right and budget of a tenant is, as the record says: an older row that is put back gives nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from indelible.core.approvals.grants import APPROVALS_RUN
from indelible.core.effects.calls import OWN_RUNS
from indelible.core.effects.stops import STOPS_RUN
from indelible.core.events import Event
from indelible.core.journal.journal import JOURNAL_RUN, Waiting
from indelible.core.macs import RIGHTS, Known, Macs
from indelible.core.paging import every_event, every_run, read_sheet
from indelible.core.people.credentials import CREDENTIALS_RUN
from indelible.core.people.person import PEOPLE_RUN
from indelible.core.ports import Store
from indelible.core.sheets import SheetRef
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.unsealed import (
    READ,
    ToldOf,
    Values,
    believed_run,
    forged_run,
    rights_told,
    versions_to_keep,
)
from indelible.journal.tenant_rows import TenantRows

_OF_RIGHTS = (JOURNAL_RUN, STOPS_RUN, CREDENTIALS_RUN, PEOPLE_RUN, APPROVALS_RUN)
_PAGE = 500
_FEW = 16


def newest_told(store: Store, macs: Macs, found: Sequence[ToldOf]) -> Known:
    """Return the newest version of each right of which something was told, and the last reservation of each budget."""
    rights = {one.ref for one in found if one.ref.kind in RIGHTS}
    rows = (read_sheet(store, macs.tenant, ref) for ref in rights)
    return versions_to_keep(found, [sheet for sheet in rows if sheet is not None])


def read_on(store: Store, macs: Macs) -> list[ToldOf]:
    """Return what the ledger's own runs told of rights past what is remembered, also in events that wait.

    Raises:
        RecordForged: Events are gone, or no holder of the ledger's keys wrote them or what they tell.
    """
    found: list[ToldOf] = []
    values = Values(macs, TenantRows(store, macs.tenant))
    for run_id, count, last in _own_runs(store, macs.tenant):
        number = macs.newest.version(SheetRef(READ, run_id))
        told: list[tuple[Waiting, dict[str, str]]] = []
        for event in believed_run(macs, run_id, _events(store, macs.tenant, run_id, number), number):
            waiting = Waiting(run_id, event.seq, bytes.fromhex(event.hash), event.body, event.mac)
            if event.seq == count - 1 and event.hash != last:
                raise forged_run(run_id)
            told += [(waiting, commits)] if (commits := rights_told(waiting)) else []
            number = event.seq + 1
        if number < count:
            raise forged_run(run_id)
        try:
            for start in range(0, len(told), _PAGE):
                values.load((run_id, one.seq) for one, _ in told[start : start + _PAGE])
                for one in told[start : start + _PAGE]:
                    found += values.told(*one)
        except Caught:
            raise forged_run(run_id) from None
    return found


def own_events(store: Store, tenant: str, run_id: str) -> Iterator[Event]:
    """Yield all events of a run of the ledger's own; raise `RecordForged` as `believed_run` does."""
    macs = None if store.macs is None else store.macs(tenant)
    return believed_run(macs, run_id, _events(store, tenant, run_id, 0))


def _own_runs(store: Store, tenant: str) -> Iterator[tuple[str, int, str]]:
    """Yield the ledger's own runs with what is kept as their ends, also those that are not listed."""
    listed = {run[0]: run for run in _listed_runs(store, tenant)}
    for run_id in sorted({*listed, *_OF_RIGHTS}):
        yield listed.get(run_id, (run_id, 0, ""))


def _listed_runs(store: Store, tenant: str) -> Iterator[tuple[str, int, str]]:
    return takewhile(lambda run: run[0].startswith(OWN_RUNS), every_run(store, tenant, OWN_RUNS, page=_FEW))


def _events(store: Store, tenant: str, run_id: str, start: int) -> Iterator[Event]:
    """Yield a run's events to its last one: what is kept as its end may have been put back."""
    return every_event(store, tenant, run_id, start - 1, page=_PAGE)
