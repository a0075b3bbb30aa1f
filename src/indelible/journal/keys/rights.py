"""How new each right and budget of a tenant is, as the record says: an older row that is put back gives nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indelible.core.effects.calls import OWN_RUNS
from indelible.core.events import Event
from indelible.core.journal.journal import Waiting
from indelible.core.macs import Known, Macs
from indelible.core.ports import Store
from indelible.core.sheets import SheetFilter
from indelible.core.verifying.unsealed import Told, remembered_in, rights_told, versions_to_keep
from indelible.errors import RecordForged

_MOST_WAITING = 10_000
_PAGE = 500


def newest_told(store: Store, macs: Macs, told: Sequence[Told]) -> Known:
    """Return the newest version of each right and budget of which some values told."""
    seqs: dict[str, list[int]] = {}
    for run_id, seq, _ in told:
        seqs.setdefault(run_id, []).append(seq)
    wanted = set(told)
    found = [
        one
        for run_id in seqs
        for payload in store.payloads(macs.tenant, run_id, seqs[run_id])
        if (run_id, payload.seq, payload.field) in wanted and macs.is_of_payload(payload)
        for one in remembered_in(payload)
    ]
    filters = (SheetFilter(kind=ref.kind, id=ref.id, limit=1) for ref in {one.ref for one in found})
    rows = [sheet for each in filters for sheet in store.sheets(macs.tenant, each)]
    return versions_to_keep(found, rows)


def told_of_waiting(store: Store, macs: Macs) -> list[Told]:
    """Name what was told of rights in events that wait to be sealed."""
    places = store.journal.pending(macs.tenant, _MOST_WAITING)
    events = (
        event
        for run_id, seq, _ in sorted(places)
        if run_id.startswith(OWN_RUNS)
        for event in store.events(macs.tenant, run_id, seq - 1, 1)
    )
    return [one for event in events for one in rights_told(macs, _waiting(event)) or ()]


def told_of_all(store: Store, macs: Macs) -> list[Told]:
    """Name all that was ever told of rights; raises `RecordForged` if something of it is gone or forged."""
    told: list[Told] = []
    for run_id, count, last in store.journal.runs(macs.tenant, OWN_RUNS, _PAGE):
        if not run_id.startswith(OWN_RUNS):
            break
        hash_ = ""
        for number, event in enumerate(_events(store, macs.tenant, run_id, count)):
            found = rights_told(macs, _waiting(event))
            if event.seq != number or found is None:
                raise _forged(run_id)
            told += found
            hash_ = event.hash
        if hash_ != last:
            raise _forged(run_id)
    return told


def _events(store: Store, tenant: str, run_id: str, count: int) -> Iterator[Event]:
    for start in range(0, count, _PAGE):
        yield from store.events(tenant, run_id, start - 1, min(_PAGE, count - start))


def _waiting(event: Event) -> Waiting:
    return Waiting(event.run_id, event.seq, bytes.fromhex(event.hash), event.body, event.mac)


def _forged(run_id: str) -> RecordForged:
    return RecordForged(
        f"events of {run_id}, which tells of rights, are gone or were written by no holder of the ledger's keys, so no "
        "right is believed. See what else was changed: indelible verify"
    )
