"""What of a ledger's payloads may be erased: reads what is there, and lets the rules choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from indelible.core.approvals.edits import stands_for
from indelible.core.approvals.grants import grant_ref
from indelible.core.effects.effect import Effect
from indelible.core.events import Event
from indelible.core.paging import every_event, read_sheet
from indelible.core.ports import Store
from indelible.core.privacy.forgetting import (
    ERASED,
    POLICY_STAYS,
    TOLD_IN_RUN,
    Hold,
    Kept,
    Payloads,
    Selection,
    goes_with_args,
    holds_in,
    is_needed_to_resume,
    is_policy,
    mark_in,
    select,
    tells_of_model,
    why_held,
    why_needed,
    why_resumable,
    why_unknown,
)
from indelible.core.runs.run import run_ref
from indelible.core.values.canonical import decode
from indelible.core.verifying.moves import ADOPTED
from indelible.core.verifying.unsealed import believed_holds
from indelible.errors import IllegalMove, OnHold

_PAYLOADS_AT_ONCE = 200
_Place = tuple[str, int]
"""Is where a state of a grant is told: run and number of the event."""


def refused(kept: Kept) -> OnHold | IllegalMove:
    """Gives the error for whoever wants to erase what is kept."""
    error = OnHold if kept.why.startswith("hold ") else IllegalMove
    return error(f"{kept.effect_id or kept.run_id} cannot be erased: {kept.why}")


class Erasable:
    """Chooses for one tenant what may go, and says why the rest stays."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    def events(self, run_id: str, after: int = -1) -> Iterator[Event]:
        """Lists a run's events above a number."""
        return every_event(self._store, self._tenant, run_id, after)

    def events_at(self, run_id: str, seqs: Sequence[int]) -> list[Event]:
        """Lists the events of a run with these numbers."""
        wanted = set(seqs)
        return [event for event in self.events(run_id, min(wanted) - 1) if event.seq in wanted]

    def effects(self, ids: Iterable[str | None]) -> dict[str, Effect]:
        """Gives the effects with these ids."""
        found = (self._store.get_effect(self._tenant, effect_id) for effect_id in ids if effect_id is not None)
        return {effect.id: effect for effect in found if effect is not None}

    def _payloads(self, run_id: str, seqs: Sequence[int]) -> Iterator[tuple[int, str, bytes]]:
        for start in range(0, len(seqs), _PAYLOADS_AT_ONCE):
            for payload in self._store.payloads(self._tenant, run_id, seqs[start : start + _PAYLOADS_AT_ONCE]):
                yield payload.seq, payload.field, payload.value

    # Why not

    def holds(self) -> list[Hold]:
        """Lists the holds that stand.

        Raises:
            RecordForged: The record lacks an event that placed or lifted one.
        """
        events = self._store.forgetting.holds(self._tenant)
        return holds_in(events if self._store.macs is None else believed_holds(self._store.macs(self._tenant), events))

    def hold_on(self, run_id: str) -> Hold | None:
        """Gives the hold on a run, if there is one."""
        return next((hold for hold in self.holds() if hold.run_id == run_id), None)

    def whys(self, run_id: str, ids: Set[str | None], effects: Mapping[str, Effect]) -> dict[str, str]:
        """Return why effects keep their payloads: they need them, or those of `ids` are about a subject on hold.

        A place that an edit took tells no subject of its own: it keeps its payloads as long as what it stands for.
        """
        places = {effect.id: real for effect in effects.values() if (real := stands_for(effect)) is not None}
        effects = {**self.effects(set(places.values()) - effects.keys()), **effects}
        ids = {*ids, *(real for place, real in places.items() if place in ids)}
        whys = {effect.id: why for effect in effects.values() if (why := why_needed(effect)) is not None}
        held = {hold.subject: hold for hold in self.holds() if hold.subject is not None}
        if held and ids:
            # Whom an effect is about is told by the event that opened it, and again where its arguments changed.
            effect_at = {event.seq: event.effect_id for event in self.events(run_id) if event.effect_id in ids}
            for seq, name, value in self._payloads(run_id, list(effect_at)):
                effect_id = effect_at[seq]
                if name == "subject" and mark_in(value) in held and effect_id is not None:
                    whys[effect_id] = why_held(held[mark_in(value)])
        return {**whys, **{place: whys[real] for place, real in places.items() if real in whys}}

    def places_of(self, ids: Set[str], events: Sequence[Event]) -> set[str]:
        """Return the places among these events that edits of the effects `ids` took."""
        adopted = self.effects({event.effect_id for event in events if event.type == ADOPTED})
        return {effect.id for effect in adopted.values() if stands_for(effect) in ids}

    def check_may_go(self, run_id: str, erased: Payloads) -> None:
        """Raises `OnHold` or `IllegalMove` when one of these payloads has to stay."""
        hold = self.hold_on(run_id)
        if hold is not None:
            raise OnHold(f"run {run_id!r} cannot be erased: {why_held(hold)}")
        events = self.events_at(run_id, [seq for seq, _ in erased])
        effects = self.effects({event.effect_id for event in events})
        whys = self.whys(run_id, set(effects), effects)
        chosen = self.select(run_id, events, whys, sorted({name for _, name in erased}))
        if chosen.kept and not set(erased) <= set(chosen.erased):
            raise refused(chosen.kept[0])

    # What

    def select(
        self, run_id: str, events: Sequence[Event], whys: Mapping[str, str], fields: Sequence[str] | None = None
    ) -> Selection:
        """Chooses among the payloads of these events that are there."""
        effect_of = {event.seq: event.effect_id for event in events}
        type_of = {event.seq: event.type for event in events}
        present: list[tuple[int, str]] = []
        marks: dict[int, str] = {}
        for seq, name, value in self._payloads(run_id, list(effect_of)):
            if fields is None or name in fields:
                present.append((seq, name))
            if name == "subject" and effect_of[seq] is None:
                marks[seq] = mark_in(value)
        policies = [(seq, name) for seq, name in present if is_policy(type_of[seq], name)]
        told = [(seq, name) for seq, name in present if effect_of[seq] is None]
        needed, why_run = self._needed_to_resume(run_id, told, is_named=fields is not None)
        held, why_facts = self._held(marks)
        staying = {*policies, *needed, *(one for one in told if one[0] in held)}
        chosen = select(run_id, [one for one in present if one not in staying], effect_of, whys)
        reasons = [POLICY_STAYS] if policies else []
        kept = [Kept(run_id, None, why) for why in (*reasons, *why_run, *why_facts)]
        return replace(chosen, kept=(*chosen.kept, *kept))

    def told_around(self, run_id: str, chosen: Selection) -> Selection:
        """Choose what models were asked and said in a run that is about a subject, and say what else is there.

        It is about everybody whom the run is about: while one of them is on hold, it stays.
        """
        events = list(self.events(run_id))
        effects = self.effects({event.effect_id for event in events})
        tools = {effect.id: effect.tool for effect in effects.values()}
        gone = {seq for seq, _ in chosen.erased}
        of_models = [event for event in events if tells_of_model(event, tools.get(event.effect_id or ""))]
        turns = self.select(run_id, of_models, self.whys(run_id, set(), effects))
        held = self._held_in(run_id) if turns.erased else None
        if held is not None:
            turns = Selection((), (Kept(run_id, None, why_held(held)),))
        known = gone | {event.seq for event in of_models} | {seq for _, seq in self._of_subjects(run_id, events)}
        rest = [event.seq for event in events if event.seq not in known and event.type != ERASED]
        values = sum(name in TOLD_IN_RUN for _, name, _ in self._payloads(run_id, rest))
        kept = (Kept(run_id, None, why_unknown(run_id, values)),) if values else ()
        return replace(turns, kept=(*turns.kept, *kept))

    def _of_subjects(self, run_id: str, events: Sequence[Event]) -> list[tuple[str, int]]:
        """List the events of effects that are about some subject, each with that subject's mark."""
        opened = {event.seq: event.effect_id for event in events}
        marks = {
            opened[seq]: mark_in(value)
            for seq, name, value in self._payloads(run_id, list(opened))
            if name == "subject"
        }
        return [(marks[event.effect_id], event.seq) for event in events if event.effect_id in marks]

    def _held_in(self, run_id: str) -> Hold | None:
        """Return a hold on somebody whom this run is about, if there is one."""
        marks = {mark for mark, _ in self._of_subjects(run_id, list(self.events(run_id)))}
        return next((hold for hold in self.holds() if hold.subject in marks), None)

    def run_status(self, run_id: str) -> str | None:
        """Says how a run stands; None when it was never started."""
        found = read_sheet(self._store, self._tenant, run_ref(run_id))
        return None if found is None else found.status

    def _needed_to_resume(self, run_id: str, told: Payloads, *, is_named: bool) -> tuple[Payloads, list[str]]:
        """Gives what stays of what is told of a run, and why."""
        needed = [(seq, name) for seq, name in told if is_needed_to_resume(name, is_named=is_named)]
        status = self.run_status(run_id) if needed else None
        why = None if status is None else why_resumable(run_id, status)
        return ([], []) if why is None else (needed, [why])

    def _held(self, marks: Mapping[int, str]) -> tuple[set[int], list[str]]:
        """Gives which calls that were refused are about somebody on hold, and why they stay."""
        holds = {hold.subject: hold for hold in self.holds()} if marks else {}
        held = {seq for seq, mark in marks.items() if mark in holds}
        return held, [why_held(holds[mark]) for mark in dict.fromkeys(marks[seq] for seq in sorted(held))]

    def with_made_of_args(self, run_id: str, selection: Selection, events: Sequence[Event]) -> Selection:
        """Adds to arguments that go what is made of them, wherever in the run that is told."""
        effect_of = {event.seq: event.effect_id for event in events}
        ids = {effect_of[seq] for seq, name in selection.erased if name == "args"} - {None}
        if not ids:
            return selection
        type_of = {event.seq: event.type for event in self.events(run_id) if event.effect_id in ids}
        found = self._payloads(run_id, list(type_of))
        more = {(seq, name) for seq, name, _ in found if goes_with_args(type_of[seq], name)}
        return replace(selection, erased=tuple(sorted({*selection.erased, *more})))

    def with_grants(self, chosen: Mapping[str, Selection]) -> dict[str, Selection]:
        """Adds to each state of a grant that goes all its other states, for they pin the same arguments.

        Other runs come first, and that of the newest state last of them: so after a crash the rest is still found.
        """
        more: dict[str, list[tuple[int, str]]] = {}
        for run_id, selection in chosen.items():
            told = [seq for seq, name in selection.erased if name == "grant"]
            for grant_id in sorted(_grants_told_at(self._store, self._tenant, run_id, told)) if told else ():
                for other, seq in _states_of_grant(self._store, self._tenant, grant_id):
                    more[other] = [*more.pop(other, ()), (seq, "grant")]
        others = {run_id: self._unless_held(run_id, more[run_id]) for run_id in more if run_id not in chosen}
        mine = {
            run_id: replace(selection, erased=tuple(sorted({*selection.erased, *more.get(run_id, ())})))
            for run_id, selection in chosen.items()
        }
        return {**others, **mine}

    def _unless_held(self, run_id: str, states: Sequence[tuple[int, str]]) -> Selection:
        """Lets states of grants go that other runs tell, unless these, or whom they are about, are on hold."""
        hold = self.hold_on(run_id)
        if hold is not None:
            return Selection((), (Kept(run_id, None, why_held(hold)),))
        effect_of = {event.seq: event.effect_id for event in self.events_at(run_id, [seq for seq, _ in states])}
        return select(run_id, states, effect_of, self.whys(run_id, set(effect_of.values()), {}))


# The states of a grant: each pins the same arguments, so they go together.


def _grants_told_at(store: Store, tenant: str, run_id: str, seqs: Iterable[int]) -> set[str]:
    """Names the grants of which these events tell a state that is not erased."""
    return {_on(payload.value)["id"] for payload in store.payloads(tenant, run_id, seqs) if payload.field == "grant"}


def _states_of_grant(store: Store, tenant: str, grant_id: str) -> list[_Place]:
    """Lists where the states of a grant are told, the oldest first; each but the first names the one before it."""
    sheet = read_sheet(store, tenant, grant_ref(grant_id))
    places: list[_Place] = []
    body = None if sheet is None else sheet.body
    if sheet is not None and body is not None and sheet.run_id is not None and sheet.seq is not None:
        places.append((sheet.run_id, sheet.seq))
    while body is not None and (before := _on(body)["before"]) is not None:
        places.append((before[0], before[1]))
        found = store.payloads(tenant, before[0], [before[1]])
        body = next((payload.value for payload in found if payload.field == "grant"), None)
    return places[::-1]


def _on(body: bytes) -> dict[str, Any]:
    content = decode(body)
    assert isinstance(content, dict)
    return content
