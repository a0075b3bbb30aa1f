"""Erases payloads and keeps legal holds: reads what is there, asks the rules, writes what may go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from indelible.core.commands import Answer, Cancel, Command, Record
from indelible.core.effects.effect import Actor, Effect
from indelible.core.effects.requests import Mint
from indelible.core.events import Event
from indelible.core.ports import Store
from indelible.core.privacy.forgetting import (
    ERASED,
    HOLD_LIFTED,
    HOLD_PLACED,
    HOLDS_RUN,
    Basis,
    Erasure,
    Hold,
    Kept,
    Selection,
    erased_facts,
    hold_facts,
    is_cancelable,
    mark_in,
    portions,
    why_held,
)
from indelible.core.sheets import SheetFilter
from indelible.core.values.canonical import encode
from indelible.errors import BadCall, OnHold
from indelible.journal.erasures.erasable import Erasable, refused
from indelible.journal.erasures.long_ended import LongEnded


class Eraser:
    """Erases for one tenant, or only says what would go (`is_rehearsal`).

    `say` gives a text as it may be recorded; `rewrite`: see `ForgettingStore.clear_away`; `progress` is told how many
    payloads are gone.
    """

    def __init__(
        self,
        store: Store,
        tenant: str,
        write: Callable[[Command], Answer],
        mint: Mint,
        say: Callable[[str], str],
        rewrite: bool | None = None,
        is_rehearsal: bool = False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> None:
        self._progress = progress
        self._done = 0
        self._rewrite = rewrite
        self._is_rehearsal = is_rehearsal
        self._store = store
        self._tenant = tenant
        self._write = write
        self._mint = mint
        self._say = say
        self._erasable = Erasable(store, tenant)

    def erase_run(
        self, run_id: str, *, seq: int | None, fields: Sequence[str] | None, by: Actor, reason: str
    ) -> Erasure:
        """Erases a run's payloads, those of one event, or some fields of it."""
        found = self._erasable
        events = list(found.events(run_id)) if seq is None else self._store.events(self._tenant, run_id, seq - 1, 1)
        if not events or (seq is not None and events[0].seq != seq):
            what = f"run {run_id!r}" if seq is None else f"event {seq} of run {run_id!r}"
            raise BadCall(f"tenant {self._tenant!r} has no {what}; see: indelible effects list")
        _check_fields(events, fields)
        self._check_hold(run_id, None)
        effects = found.effects({event.effect_id for event in events})
        selection = found.select(run_id, events, found.whys(run_id, set(effects), effects), fields)
        if seq is not None or fields is not None:
            selection = found.with_made_of_args(run_id, selection, events)
        return self._carry_out({run_id: selection}, "request", by, reason)

    def erase_subject(self, subject_json: bytes, *, by: Actor, reason: str, force: bool) -> Erasure:
        """Erases everything of the effects that are about a subject; `force` withdraws those that wait."""
        runs: dict[str, list[int]] = {}
        for run_id, seq in self._store.forgetting.of_subject(self._tenant, subject_json):
            runs.setdefault(run_id, []).append(seq)
        self._check_hold(None, mark_in(subject_json))
        for run_id in runs:
            self._check_hold(run_id, None)
        chosen, turns = {}, {}
        for run_id, opened in runs.items():
            chosen[run_id] = self._select_opened(run_id, opened, by, reason, force)
            turns[run_id] = self._erasable.told_around(run_id, chosen[run_id])
        return self._carry_out(chosen, "subject", by, reason, turns)

    def _select_opened(self, run_id: str, opened: list[int], by: Actor, reason: str, force: bool) -> Selection:
        """Choose what may go of the effects that these events are about, and of calls that never were one."""
        found = self._erasable
        openings = found.events_at(run_id, opened)
        refused = {event.seq for event in openings if event.effect_id is None}
        ids = {event.effect_id for event in openings if event.effect_id is not None}
        # Whom edited arguments are about may be told only when the call is made, after the arguments.
        start = min((*opened, *(effect.opened_seq for effect in found.effects(ids).values()))) - 1
        following = list(found.events(run_id, start))
        ids |= found.places_of(ids, following)
        effects = found.effects(ids)
        if force:
            effects = self._withdrawn(effects, by, reason)
            following = list(found.events(run_id, start))
        events = [event for event in following if event.effect_id in ids or event.seq in refused]
        return found.select(run_id, events, found.whys(run_id, ids, effects))

    def _withdrawn(self, effects: Mapping[str, Effect], by: Actor, reason: str) -> dict[str, Effect]:
        """Cancels what has not been entered, and gives all as they are then; what moves on meanwhile says so."""
        waiting = [effect for effect in effects.values() if is_cancelable(effect)]
        if self._is_rehearsal:
            return {**effects, **{effect.id: replace(effect, status="canceled") for effect in waiting}}
        for effect in waiting:
            why = encode(self._say(reason))
            self._write(Cancel(ref=effect.ref, stamp=self._mint.stamp(by), detail_json=why))
        return self._erasable.effects(effects)

    def prune(self, before: datetime, *, by: Actor, reason: str) -> Erasure:
        """Erases the payloads of what ended before a moment, and drops what is on no record; holds are respected."""
        counts: dict[str, int] = {}
        kept: list[Kept] = []
        ended = LongEnded(self._store, self._tenant, self._erasable)
        for chosen in ended.selections(before):
            for run_id, selection in chosen.items():
                kept += selection.kept
                counts[run_id] = counts.get(run_id, 0) + len(selection.erased)
                if not self._is_rehearsal:
                    self._erase(run_id, selection, "retention", by, reason)
        aside = ended.aside(before)
        dropped = len(aside)
        if aside and not self._is_rehearsal:
            dropped = self._store.forgetting.drop(self._tenant, aside)
        erased = {run_id: count for run_id, count in counts.items() if count}
        remarks = () if self._is_rehearsal else self._clear_away(bool(erased or dropped))
        if dropped:
            verb = "would be" if self._is_rehearsal else "were"
            remarks = (f"messages and a server's replies that nobody needs {verb} dropped too: {dropped}", *remarks)
        return Erasure(erased, tuple(dict.fromkeys(kept)), remarks, self._is_rehearsal)

    # Holds

    def holds(self) -> list[Hold]:
        """Lists the holds that stand."""
        return self._erasable.holds()

    def place_hold(self, run_id: str | None, subject_json: bytes | None, *, by: Actor, reason: str) -> Hold:
        """Keeps a run's or a subject's payloads from being erased."""
        hold_id = f"hold_{self._mint.token()[:16]}"
        place = HOLDS_RUN if run_id is None else run_id
        self._record(place, HOLD_PLACED, hold_facts(hold_id, subject_json), by, reason)
        return next(hold for hold in self.holds() if hold.id == hold_id)

    def lift_hold(self, hold_id: str, *, by: Actor, reason: str) -> Hold:
        """Ends a hold."""
        hold = next((hold for hold in self.holds() if hold.id == hold_id), None)
        if hold is None:
            raise BadCall(f"there is no hold {hold_id!r}; see: indelible hold list")
        self._record(hold.run_id or HOLDS_RUN, HOLD_LIFTED, hold_facts(hold_id, None), by, reason)
        return hold

    def _check_hold(self, run_id: str | None, subject: str | None) -> None:
        for hold in self.holds():
            if (run_id is not None and hold.run_id == run_id) or (subject is not None and hold.subject == subject):
                what = "this subject" if run_id is None else f"run {run_id!r}"
                raise OnHold(f"{what} cannot be erased: {why_held(hold)}")

    # Writing

    def _carry_out(
        self,
        selected: Mapping[str, Selection],
        basis: Basis,
        by: Actor,
        reason: str,
        turns: Mapping[str, Selection] | None = None,
    ) -> Erasure:
        """Erases what may go; raises when nothing may although there is something.

        Turns of models go first: after a crash, what is left of a subject still leads to their runs.
        """
        chosen, turns = self._erasable.with_grants(selected), turns or {}
        kept = tuple(kept for each in (chosen, turns) for selection in each.values() for kept in selection.kept)
        counts: dict[str, int] = {}
        for each in (chosen, turns):
            for run_id, selection in each.items():
                counts[run_id] = counts.get(run_id, 0) + len(selection.erased)
        erased = {run_id: count for run_id, count in counts.items() if count}
        remarks = _remarks_on(turns, self._is_rehearsal)
        if self._is_rehearsal:
            return Erasure(erased, kept, remarks, True)
        if kept and not erased:
            raise refused(kept[0])
        for each in (turns, chosen):
            for run_id, selection in each.items():
                self._erase(run_id, selection, basis, by, reason)
        return Erasure(erased, kept, (*remarks, *self._clear_away(bool(erased))))

    def _clear_away(self, has_erased: bool) -> tuple[str, ...]:
        """Clears away after an erasure; also without one when told to, for an earlier one may have been cut off."""
        return tuple(self._store.forgetting.clear_away(self._rewrite)) if has_erased or self._rewrite else ()

    def _erase(self, run_id: str, selection: Selection, basis: Basis, by: Actor, reason: str) -> None:
        if any(name == "side_effect_key" for _, name in selection.erased):
            self._drop_marks(run_id)
        for portion in portions(selection.erased):
            self._record(run_id, ERASED, erased_facts(basis, portion), by, reason, tuple(portion))
            self._done += len(portion)
            self._progress(self._done)

    def _drop_marks(self, run_id: str) -> None:
        """Drops the notes of side effects of a run that is over: each is a hash of a key, and nobody asks for it."""
        if self._erasable.run_status(run_id) is None:
            return  # it was never started, so it never ends
        while marks := self._store.sheets(self._tenant, SheetFilter(kind="mark", topic=run_id)):
            self._store.forgetting.drop(self._tenant, marks)

    def _record(
        self,
        run_id: str,
        event_type: str,
        facts: bytes,
        by: Actor,
        reason: str,
        erased: tuple[tuple[int, str], ...] = (),
    ) -> None:
        self._write(
            Record(
                tenant=self._tenant,
                run_id=run_id,
                stamp=self._mint.stamp(by),
                event_type=event_type,
                facts=facts,
                committed={"reason": encode(self._say(reason), root="reason")},
                erased=erased,
            )
        )


def _remarks_on(turns: Mapping[str, Selection], is_rehearsal: bool) -> tuple[str, ...]:
    count, runs = sum(len(turn.erased) for turn in turns.values()), sum(bool(turn.erased) for turn in turns.values())
    verb = "would go" if is_rehearsal else "went"
    return (f"{count} payloads of model turns in {runs} runs about this subject {verb} too",) if count else ()


def _check_fields(events: Iterable[Event], fields: Sequence[str] | None) -> None:
    """Raises `BadCall` for a field that none of these events ever had: a slip of the pen must not look like success."""
    known = {name for event in events for name in event.read()["commits"]}
    for name in fields or ():
        if name not in known:
            raise BadCall(f"there is no field {name!r} here; there is: {', '.join(sorted(known)) or 'none'}")
