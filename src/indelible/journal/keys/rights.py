"""How new each right and budget of a tenant is, as the record says: an older row that is put back gives nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from indelible.core.effects.calls import OWN_RUNS
from indelible.core.events import Event
from indelible.core.journal.journal import Waiting
from indelible.core.macs import RIGHTS, Known, Macs
from indelible.core.ports import Store
from indelible.core.sheets import SheetFilter, SheetRef
from indelible.core.verifying.unsealed import Told, ToldOf, remembered_in, rights_told, versions_to_keep
from indelible.errors import RecordForged

_READ = "read"
"""Is the kind of what says how many events of a run were read."""
_PAGE = 500
_FEW = 16


def told_in(store: Store, macs: Macs, told: Sequence[Told]) -> list[ToldOf]:
    """Return what some values told of rights and budgets."""
    wanted = set(told)
    seqs: dict[str, set[int]] = {}
    for run_id, seq, _ in told:
        seqs.setdefault(run_id, set()).add(seq)  # an event may tell of several: its values are read once
    return [
        one
        for run_id in seqs
        for payload in store.payloads(macs.tenant, run_id, sorted(seqs[run_id]))
        if (run_id, payload.seq, payload.field) in wanted and macs.is_of_payload(payload)
        for one in remembered_in(payload)
    ]


def newest_told(store: Store, macs: Macs, found: Sequence[ToldOf]) -> Known:
    """Return the newest version of each right of which something was told, and the last reservation of each budget."""
    rights = {one.ref for one in found if one.ref.kind in RIGHTS}
    filters = (SheetFilter(kind=ref.kind, id=ref.id, limit=1) for ref in rights)
    rows = [sheet for each in filters for sheet in store.sheets(macs.tenant, each)]
    return versions_to_keep(found, rows)


class Read(NamedTuple):
    """Is what the ledger's own runs told of rights since they were looked at last, and how far they were read."""

    told: list[ToldOf]
    counts: dict[SheetRef, int]


def read_on(store: Store, macs: Macs, *, is_sealed: bool) -> Read:
    """Read on where the memory of newest versions ends; if `is_sealed`, no further than to events that are sealed.

    Raises:
        RecordForged: Events are gone, or no holder of the ledger's keys wrote them.
    """
    told: list[Told] = []
    counts: dict[SheetRef, int] = {}
    for run_id, count, last in _own_runs(store, macs.tenant):
        ref = SheetRef(_READ, run_id)
        number = macs.newest.version(ref)
        for event in _events(store, macs.tenant, run_id, number):
            if is_sealed and store.journal.index_of(macs.tenant, run_id, event.seq) is None:
                break
            waiting = Waiting(run_id, event.seq, bytes.fromhex(event.hash), event.body, event.mac)
            found = rights_told(macs, waiting)
            if event.seq != number or found is None or (event.seq == count - 1 and event.hash != last):
                raise _forged(run_id)
            told += found
            number += 1
        if number < count and not is_sealed:
            raise _forged(run_id)
        counts[ref] = number
    return Read(told_in(store, macs, told), counts)


def _own_runs(store: Store, tenant: str) -> Iterator[tuple[str, int, str]]:
    after = OWN_RUNS
    while page := store.journal.runs(tenant, after, _FEW):
        for run in page:
            if not run[0].startswith(OWN_RUNS):
                return
            yield run
        after = page[-1][0]


def _events(store: Store, tenant: str, run_id: str, start: int) -> Iterator[Event]:
    """Yield a run's events to its last one: what is kept as its end may have been put back."""
    while page := store.events(tenant, run_id, start - 1, _PAGE):
        yield from page
        start = page[-1].seq + 1


def _forged(run_id: str) -> RecordForged:
    return RecordForged(
        f"events of {run_id}, which tells of rights, are gone or were written by no holder of the ledger's keys, so no "
        "right is believed. See what else was changed: indelible verify"
    )
