"""What a server lists is looked at before anybody goes on by it: what was asked for, in its order, and no more.

Whoever reads page after page begins the next one where the last one ended. A server that lists the same again, or what
nobody asked for, would keep them reading for ever; and verifying reads from servers that nobody trusts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from indelible.core.effects.effect import Effect
from indelible.core.events import Event, Payload
from indelible.core.journal.journal import Entry
from indelible.core.ports import Outline
from indelible.core.sheets import Sheet, SheetFilter
from indelible.errors import Misconfigured


def check_events(events: Sequence[Event], run_id: str, after: int, most: int) -> None:
    """Raises `Misconfigured` unless these are events of the run, numbered above `after`, in order."""
    _check_count(events, most)
    _check(all(event.run_id == run_id for event in events), "events of another run")
    _check_rising([after, *(event.seq for event in events)])


def check_payloads(payloads: Iterable[Payload], run_id: str, seqs: Sequence[int]) -> None:
    """Raises `Misconfigured` unless these belong to events that were asked about."""
    asked = frozenset(seqs)
    _check(all(one.run_id == run_id and one.seq in asked for one in payloads), "values of other events")


def check_effects(found: Sequence[Effect] | Sequence[Outline], before: str | None, most: int) -> None:
    """Raises `Misconfigured` unless these are effects below `before`, the newest first."""
    _check_count(found, most)
    ids = [one.id for one in found]
    _check_rising([*reversed(ids), *([] if before is None else [before])])


def check_sheets(sheets: Sequence[Sheet], selected: SheetFilter) -> None:
    """Raises `Misconfigured` unless these are of the kind, and the next page begins further on than this one."""
    _check_count(sheets, selected.limit)
    _check(all(sheet.kind == selected.kind for sheet in sheets), "sheets of another kind")
    if sheets and selected.before is not None and not selected.is_by_time:
        _check_rising([sheets[-1].id, selected.before])


def check_entries(entries: Sequence[Entry], start: int, most: int) -> None:
    """Raises `Misconfigured` unless these are entries from `start` on, in order."""
    _check_count(entries, most)
    _check_rising([start - 1, *(entry.index for entry in entries)])


def check_ends(ends: Sequence[tuple[str, int, str]], after: str, most: int) -> None:
    """Raises `Misconfigured` unless these are ends of runs that come after this one, in order."""
    _check_count(ends, most)
    _check_rising([after, *(run_id for run_id, _, _ in ends)])


def _check_count(found: Sequence[Any], most: int) -> None:
    _check(len(found) <= most, f"{len(found)} where at most {most} were asked for")


def _check_rising(places: Sequence[Any]) -> None:
    _check(all(one < other for one, other in pairwise(places)), "something that stands elsewhere in their order")


def _check(is_right: bool, what: str) -> None:
    if not is_right:
        raise Misconfigured(f"the server lists {what}; look at the address, and at what stands before the server")
