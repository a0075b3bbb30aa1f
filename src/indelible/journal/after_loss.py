"""What a loss leaves of rights: ends that are told again, and what is in question until a person decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from indelible.core.commands import Record, Stamp
from indelible.core.effects.stops import STOP_REF
from indelible.core.events import commitment, facts_json
from indelible.core.journal.journal import Waiting
from indelible.core.journal.notes import TreeHead
from indelible.core.macs import ENDS, RIGHTS, Macs
from indelible.core.paging import every_sheet, read_sheet
from indelible.core.people.after_loss import AGAIN, RUNS, told_again
from indelible.core.ports import Store
from indelible.core.sheets import Sheet, SheetFilter, SheetRef
from indelible.core.values.canonical import encode
from indelible.core.verifying.unsealed import is_by_holder, rights_told
from indelible.journal.keys.rights import own_events

_PAGE = 500
_WHY = "what ended in the part of the journal that is lost stays ended"


class ToldAgain(NamedTuple):
    """Is a right of which an event told again that it ended, or what of it did."""

    kind: str
    id: str
    event_type: str


class Continued(NamedTuple):
    """Is how a journal went on after a loss.

    Attributes:
        lost: The head that is lost.
        told: The rights whose ends were told again.
        in_question: The rights that give nothing until a person gives or applies them again.
    """

    lost: TreeHead
    told: tuple[ToldAgain, ...]
    in_question: tuple[SheetRef, ...]


def tell_ends_again(store: Store, macs: Macs, lost: TreeHead, stamp: Callable[[], Stamp]) -> None:
    """Tell what ended in the part that is lost: the rights whose rows are older than what is remembered of them."""
    for kind in AGAIN:
        for sheet in list(_older(store, macs, kind)):
            told = _as_told(store, macs, sheet)
            if told is None:
                continue
            again = told_again(told, macs.newest.version(SheetRef(ENDS, sheet.id)))
            command = Record(
                tenant=macs.tenant,
                run_id=again.run_id,
                stamp=stamp(),
                event_type=again.event_type,
                facts=facts_json({"id": sheet.id, "lost": lost.size}),
                committed={"reason": encode(_WHY, root="reason")},
                sheet=again.sheet,
            )
            store.apply(macs.tenant, [command], [None])  # one that a person changed meanwhile is left to them


def _older(store: Store, macs: Macs, kind: str) -> Iterator[Sheet]:
    """Yield the sheets of a kind that are not believed, of those of which something is remembered."""
    found = every_sheet(store, macs.tenant, SheetFilter(kind=kind, limit=_PAGE))
    return (sheet for sheet in found if sheet.body is None and macs.newest.version(sheet.ref))


def _as_told(store: Store, macs: Macs, sheet: Sheet) -> Sheet | None:
    """Return a sheet as the event told it that its row names; None if that event is not one that may tell of it."""
    run_id, seq = sheet.run_id, sheet.seq
    events = [] if run_id is None or seq is None else store.events(macs.tenant, run_id, seq - 1, 1)
    for event in events:
        one = Waiting(event.run_id, event.seq, bytes.fromhex(event.hash), event.body, event.mac)
        expected = rights_told(one).get(sheet.kind) if event.seq == seq and is_by_holder(macs, one) else None
        for shown in store.payloads(macs.tenant, event.run_id, [event.seq]):
            if shown.field == sheet.kind and commitment(shown.salt, sheet.kind, shown.value) == expected:
                told = replace(sheet, body=shown.value)
                return told if told.read()["id"] == sheet.id else None
    return None


def in_question(store: Store, macs: Macs) -> list[SheetRef]:
    """List the rights that something is remembered of and whose rows are older or not there: they give nothing."""
    found: list[SheetRef] = []
    remembered = macs.newest.kept(RIGHTS - {STOP_REF.kind})
    for ref in sorted(remembered):
        sheet = read_sheet(store, macs.tenant, ref)
        if sheet is None or sheet.body is None:
            found.append(ref)
    return found


def told_for(store: Store, tenant: str, lost: TreeHead) -> list[ToldAgain]:
    """List what was told again for a loss, also by a declaration that was cut short."""
    found: list[ToldAgain] = []
    for run_id in RUNS:
        for event in own_events(store, tenant, run_id):
            facts = event.read().get("facts", {})
            if facts.get("lost") == lost.size:
                found += [ToldAgain(kind, facts["id"], event.type) for kind in event.read()["commits"] if kind in AGAIN]
    return found
