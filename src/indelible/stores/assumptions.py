"""What a store may decide on without having looked, and what it has to read first. The same for every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from indelible.core.approvals.revoked import people_behind
from indelible.core.batch import Batch
from indelible.core.commands import Command, Record
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.effects.stops import STOPPED
from indelible.core.journal.journal import WRITER_REGISTERED
from indelible.core.sheets import NO_SHEETS, SheetFilter, SheetRef, Sheets
from indelible.core.steps import needed_sheets
from indelible.errors import Misconfigured

# No move leads on from these, so what was once seen stays true.
FINAL = frozenset({"succeeded", "denied", "canceled"})

Effects = Mapping[Ref, Effect | None]


def named(name: str | None, address: str) -> str:
    """Return the name of the ledger that a database holds; raise `Misconfigured` if its row was deleted."""
    if name is None:
        raise Misconfigured(
            f"{address} has the tables of a ledger, and the row that names it was deleted; restore a backup: "
            "docs/how-to/backup.md"
        )
    return name


def sheets_for(commands: Sequence[Command], effects: Effects, seen: Sheets = NO_SHEETS) -> list[SheetRef]:
    """Names the sheets that commands about these effects are decided on, in the order in which they are locked.

    What an earlier command of the same batch brings is not among them: whoever decides has it at hand. On whom a
    permission rests shows when it is `seen`, so whoever has read what is named here asks once more.
    """
    needed: set[SheetRef] = set()
    for command in commands:
        needed.update(needed_sheets(command, effects.get(command.ref)))
    if not needed:
        return []
    while behind := people_behind({ref: seen.get(ref) for ref in needed}) - needed:
        needed |= behind
    return sorted(needed)


def is_guarded(batch: Batch, assumed: Effects) -> bool:
    """Will the write of this batch fail if any of its answers rests on a state that has changed?"""
    opened, moved = batch.opened, batch.moved
    return len(opened) + len(moved) == len(assumed) or all(
        ref in opened or ref in moved or (state is not None and state.status in FINAL) or not ref.key
        for ref, state in assumed.items()
    )


def is_stop(commands: Sequence[Command]) -> bool:
    """Do these commands only stop effects? That may be written before the record was compared with what was signed."""
    told = (STOPPED, WRITER_REGISTERED)
    return all(isinstance(command, Record) and command.event_type in told for command in commands)


def way_to(selected: SheetFilter) -> str:
    """Names what leads to the sheets of a filter by the shortest way; stores have an index for each."""
    if selected.id is not None:
        return "id"
    if selected.due_by is not None:
        return "channel" if selected.kind == "delivery" and selected.topic is not None else "due"
    if selected.is_by_time:
        by = "_by_topic" if selected.topic is not None else "" if selected.status is None else "_by_status"
        return f"newest{by}"
    if selected.topic is not None:
        return "topic"
    return "kind" if selected.status is None else "status"


def order_of(selected: SheetFilter) -> str:
    """Gives the order in which a filter wants its sheets."""
    if selected.due_by is not None:
        return "s.due_at, s.id"
    if selected.is_by_time:
        return "s.created_at DESC, s.id DESC"
    return "s.id DESC" if selected.after is None else "s.id"
