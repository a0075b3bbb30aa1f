"""Finds what ended long ago: effects, runs, refused calls; and what no record holds: messages sent, old replies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from indelible.core.approvals.deliveries import read_delivery
from indelible.core.approvals.sheets import approval_ref
from indelible.core.events import Event
from indelible.core.paging import event_of, every_sheet, read_sheet
from indelible.core.ports import Store
from indelible.core.privacy.forgetting import (
    OUT_OF_HAND,
    Kept,
    Prunable,
    Selection,
    goes_with_run,
    is_message_over,
    why_held,
)
from indelible.core.runs.run import OVER, read_run
from indelible.core.sheets import Sheet, SheetFilter
from indelible.core.verifying.moves import ADOPTED
from indelible.journal.erasures.erasable import Erasable

# So many effects are looked up before their runs are read: each run is then read once for all of them.
_EFFECTS_AT_ONCE = 100_000
_PAGE = 1000
_KEPT_UNTIL = {
    "answered": ("counted",),
    "replays": ("counted",),
    "reply": ("answered", "begun"),
    "challenge": ("open", "spent"),
    "seen": ("seen",),
}
"""Names what a server keeps until a moment, with its statuses."""

_One = TypeVar("_One", Prunable, Event)
Chosen = dict[str, Selection]
"""Says of each run what may go of it."""


class LongEnded:
    """Finds for one tenant what ended before a moment, and lets the rules choose what may go of it."""

    def __init__(self, store: Store, tenant: str, erasable: Erasable) -> None:
        self._store = store
        self._tenant = tenant
        self._erasable = erasable

    def selections(self, before: datetime) -> Iterator[Chosen]:
        """Gives what may go, piece by piece; what is on hold is kept."""
        yield from self._of_effects(before)
        yield from self._of_runs(before)
        yield from self._of_refusals(before)

    def _kept(self, run_id: str) -> Selection | None:
        """Gives that nothing of a run may go, if it is on hold."""
        hold = self._erasable.hold_on(run_id)
        return None if hold is None else Selection((), (Kept(run_id, None, why_held(hold)),))

    # Effects

    def _of_effects(self, before: datetime) -> Iterator[Chosen]:
        after = ""
        while found := self._store.forgetting.prunable(self._tenant, before, after, _EFFECTS_AT_ONCE):
            after = found[-1].effect_id
            for run_id, effects in _by_run(found).items():
                kept = self._kept(run_id)
                if kept is not None:
                    yield {run_id: kept}
                else:
                    yield self._erasable.with_grants({run_id: self._select_effects(run_id, effects)})

    def _select_effects(self, run_id: str, effects: list[Prunable]) -> Selection:
        ids = {effect.effect_id for effect in effects}
        # From the first event of the run on: what opened an effect is not what has its arguments, once it was edited.
        events = [event for event in self._erasable.events(run_id) if event.effect_id in ids]
        adopted = self._erasable.effects({event.effect_id for event in events if event.type == ADOPTED})
        selection = self._erasable.select(run_id, events, self._erasable.whys(run_id, ids, adopted))
        # A state that a call brought by using a grant stays until the grant goes, with the call it was given with.
        uses = {event.seq for event in events if event.type == "tool_call_started"}
        left = [(seq, name) for seq, name in selection.erased if name != "grant" or seq not in uses]
        return replace(selection, erased=tuple(left))

    # Runs

    def _of_runs(self, before: datetime) -> Iterator[Chosen]:
        for status in sorted(OVER):
            for sheet in self._sheets("run", status):
                if sheet.body is not None and read_run(sheet).updated_at < before:
                    yield {sheet.id: self._kept(sheet.id) or self._select_run(sheet)}

    def _select_run(self, sheet: Sheet) -> Selection:
        """Chooses all that is told of a run; by its newest state it is found, so that goes last, also after a crash."""
        facts = [event for event in self._erasable.events(sheet.id) if event.effect_id is None]
        type_of = {event.seq: event.type for event in facts}
        selection = self._erasable.select(sheet.id, facts, {})
        told = [(seq, name) for seq, name in selection.erased if goes_with_run(type_of[seq], name)]
        newest = [one for one in told if one == (sheet.seq, "run")]
        return Selection((*(one for one in told if one not in newest), *newest), ())

    def _sheets(self, kind: str, status: str) -> Iterator[Sheet]:
        return every_sheet(self._store, self._tenant, SheetFilter(kind=kind, status=status, after="", limit=_PAGE))

    # Calls that never were effects

    def _of_refusals(self, before: datetime) -> Iterator[Chosen]:
        after = ("", -1)
        while found := self._store.forgetting.refusals(self._tenant, after, _PAGE):
            after = (found[-1].run_id, found[-1].seq)
            for run_id, events in _by_run(event for event in found if _is_old_refusal(event, before)).items():
                yield {run_id: self._kept(run_id) or self._erasable.select(run_id, events, {})}

    # What is on no record

    def aside(self, before: datetime) -> list[Sheet]:
        """Lists what is kept aside and needed no more: messages, a server's replies, and challenges and the like."""
        return [*self._messages(before), *self._overdue(before)]

    def _overdue(self, before: datetime) -> Iterator[Sheet]:
        """Gives what a server had to keep until a moment before this one."""
        for kind, statuses in _KEPT_UNTIL.items():
            for status in statuses:
                for sheet in self._sheets(kind, status):
                    if sheet.due_at is not None and sheet.due_at < before:
                        yield sheet

    def _messages(self, before: datetime) -> list[Sheet]:
        """Lists messages that went out, or were given up, about what was decided before a moment."""
        is_over: dict[str, bool] = {}
        found = []
        for status in OUT_OF_HAND:
            for sheet in self._sheets("delivery", status):
                approval_id = read_delivery(sheet).approval_id
                if approval_id not in is_over:
                    is_over[approval_id] = self._was_decided(approval_id, before)
                if is_over[approval_id]:
                    found.append(sheet)
        noted = [sheet for sheet in self._sheets("told", "told") if self._was_decided(sheet.id, before)]
        return [*found, *noted]

    def _was_decided(self, approval_id: str, before: datetime) -> bool:
        found = read_sheet(self._store, self._tenant, approval_ref(approval_id))
        if found is None or not is_message_over(found.status):
            return False
        told = event_of(self._store, self._tenant, found)
        return told is not None and told.at < before


def _is_old_refusal(event: Event, before: datetime) -> bool:
    """Tells this of a call that the ledger refused, long ago? People tell of their own under the same name."""
    return "decision" in event.read()["facts"] and event.at < before


def _by_run(found: Iterable[_One]) -> dict[str, list[_One]]:
    runs: dict[str, list[_One]] = {}
    for one in found:
        runs.setdefault(one.run_id, []).append(one)
    return runs
