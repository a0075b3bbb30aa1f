"""The tables a ledger works with, compared with what its record tells: runs, events, effects, sheets, what waits.

Others may be writing meanwhile. So where a table and the record seem to differ, both are read again before anybody is
accused. One small record is kept for every effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

from indelible.core.effects.calls import Dedupe, ToolCall
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import identify
from indelible.core.events import NO_EVENTS, Event
from indelible.core.journal.chain import Broken, check_chain
from indelible.core.paging import every_run
from indelible.core.ports import Filter, Store
from indelible.core.remote.questions import MOST_LISTED
from indelible.core.values.canonical import decode
from indelible.core.verifying.bodies import EffectBody, FactBody, quoted, read_effect_body, unquoted
from indelible.core.verifying.examination import Examination, Shown
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.payloads import Disclosed
from indelible.errors import BadCall
from indelible.journal.evidence.live_sheets import SheetTable, ToldSheets, Values
from indelible.journal.evidence.told_effects import Told, told_by

_PAGE = 512
_TRIES = 5
_LOWEST = -(2**62)
_NOWHERE = 2**62  # the place of an event that has none yet: after everything that was signed


class Tables:
    """Compares the tables that the ledger works with against what the record tells."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._told: dict[str, Told] = {}
        self._told_sheets = ToldSheets()
        self._sheets = SheetTable(store, tenant, self._told_sheets)
        self.remarks: list[str] = []

    def watch(self, event: EffectBody | FactBody, shown: Shown) -> None:
        """Takes in what an event tells."""
        values = {name: one.value for name, one in shown.items()}
        self._told_sheets.take(event, values)
        if isinstance(event, EffectBody):
            told = self._told.get(event.effect)
            if told is None:
                told = self._told[event.effect] = told_by(event)
            told.move(event, values)

    def compare(self, examination: Examination) -> None:
        """Reads on where the tree ends, then compares every table; raises `Caught` at the first difference."""
        ends = examination.lives.runs
        for run_id in dict.fromkeys((*map(unquoted, ends), *self._other_runs())):
            self._check_rows(run_id, examination)
        self._compare_waiting(examination)
        self._compare_ends(examination)
        self._compare_effects()
        self._compare_sheets(examination)
        self._compare_permissions(examination)
        for run in examination.tally.runs_lacking():
            self._explain_absent(unquoted(run), examination)
        self.remarks += [
            f"{name} is in question since the loss that was declared: a newer one is lost, so it gives nothing until "
            "a person gives or applies it again"
            for name in sorted(self._sheets.in_question)
        ]
        if kinds := self._sheets.uncompared:
            self.remarks.append(
                f"what the ledger keeps of each {' and each '.join(kinds)} beside the record was not compared with it, "
                "for this credential is not shown it; at the database it is"
            )

    def _other_runs(self) -> set[str]:
        """Names runs that only other tables than the tree know of."""
        return {effect.run_id for page in self._effect_pages() for effect in page} | {
            run_id for run_id, _, _ in self._kept_ends()
        }

    # Runs and their events

    def _events(self, run_id: str, after: int = _LOWEST) -> Iterator[Event]:
        is_last = False
        while not is_last and (page := self._store.events(self._tenant, run_id, after, _PAGE)):
            yield from page
            after, is_last = page[-1].seq, len(page) < _PAGE

    def _check_rows(self, run_id: str, examination: Examination) -> None:
        """Checks a run's rows, and takes in those that the tree does not have yet."""
        length, last = examination.lives.runs.get(quoted(run_id), (0, NO_EVENTS.hash, 0))[:2]
        waiting: list[Event] = []
        hashes = {-1: NO_EVENTS.hash}

        def passing() -> Iterator[Event]:
            for event in self._events(run_id):
                if event.seq == length - 1:
                    hashes[event.seq] = event.hash
                elif event.seq >= length:
                    waiting.append(event)
                yield event

        verdict = check_chain(passing(), run_id)
        if isinstance(verdict, Broken):
            raise Caught(verdict.why, run=run_id, seq=verdict.seq)
        if hashes.get(length - 1) != last:
            raise Caught("the run's rows are not the events of the tree", run=run_id, seq=length - 1)
        self._take(waiting, examination)

    def _read_on(self, examination: Examination) -> None:
        """Takes in what was told meanwhile, also in runs that nobody knew of."""
        known = examination.lives.runs
        for run_id in dict.fromkeys((*map(unquoted, known), *(run_id for run_id, _, _ in self._kept_ends()))):
            length = known[quoted(run_id)][0] if quoted(run_id) in known else 0
            self._take(list(self._events(run_id, length - 1)), examination)

    def _take(self, events: list[Event], examination: Examination) -> None:
        """Examines events that wait for the tree, as those in it were."""
        for event in events:
            values = self._store.payloads(self._tenant, event.run_id, [event.seq])
            shown = {one.field: Disclosed(_NOWHERE, one.field, one.salt, one.value) for one in values}
            try:
                examination.take(_NOWHERE, event.body, event.hash, shown, event.signature)
            except Caught as caught:
                flaw = caught.flaw
                what = f"it waits for the tree, and {flaw.what}"
                raise Caught(what, run=event.run_id, seq=event.seq, expected=flaw.expected, found=flaw.found) from None

    def _explain_absent(self, run_id: str, examination: Examination) -> None:
        """Looks once more for events that erased a value, for one may have come after the value was looked for."""
        self._take(list(self._events(run_id, examination.lives.runs[quoted(run_id)][0] - 1)), examination)

    def _compare_waiting(self, examination: Examination) -> None:
        """Compares how many events wait, and which, with the rows that lie beyond the tree."""
        journal, before = self._store.journal, None
        for _ in range(_TRIES):
            now = (journal.tree(self._tenant).size, journal.waiting(self._tenant), journal.tree(self._tenant).size)
            known = sum(end[0] for end in examination.lives.runs.values())
            if now[0] == now[2] and now[0] + now[1] == known:
                return self._compare_pending(now[1])
            if now == before and now[0] == now[2]:
                what = "events lie neither in the tree nor wait for it, or wait without being there"
                raise Caught(what, expected=f"{known} events", found=f"{now[0]} in the tree, {now[1]} waiting")
            before = now
            self._read_on(examination)
        self.remarks.append("the ledger was too busy to compare the events that wait")
        return None

    def _compare_pending(self, count: int) -> None:
        found = self._store.journal.pending(self._tenant, count + _PAGE)
        if MOST_LISTED <= len(found) < count:
            self.remarks.append(
                f"of {count} events that wait for the tree, {len(found)} were looked for among the rest"
            )
        for run_id, seq, hash_ in found:
            if not self._has_event(run_id, seq, hash_):
                raise Caught("what waits for the tree is no event of its run", run=run_id, seq=seq)

    def _kept_ends(self) -> Iterator[tuple[str, int, str]]:
        return every_run(self._store, self._tenant, page=_PAGE)

    def _compare_ends(self, examination: Examination) -> None:
        """Compares what is kept as the ends of runs."""
        # What is known was read before what is kept, so an end that is kept may be further on, but never behind.
        known = {unquoted(run): end[:2] for run, end in examination.lives.runs.items()}
        for run_id, length, hash_ in self._kept_ends():
            expected = known.pop(run_id, (0, ""))
            if (length, hash_) != expected and (
                length <= expected[0] or not self._has_event(run_id, length - 1, hash_)
            ):
                what = "what is kept as the run's end is not its end"
                raise Caught(what, run=run_id, expected=str(expected), found=str((length, hash_)))
        for run_id in known:
            raise Caught("the run's end is not kept any more", run=run_id)

    def _has_event(self, run_id: str, seq: int, hash_: str) -> bool:
        found = self._store.events(self._tenant, run_id, seq - 1, 1)
        return bool(found) and (found[0].seq, found[0].hash) == (seq, hash_)

    # Effects

    def _effect_pages(self) -> Iterator[list[Effect]]:
        before: str | None = None
        while page := self._store.effects(self._tenant, Filter(before=before, limit=_PAGE)):
            yield page
            before = page[-1].id

    def _compare_effects(self) -> None:
        seen = set()
        for page in self._effect_pages():
            opened = self._opened_with(page)
            for effect in page:
                seen.add(effect.id)
                told = self._told.get(effect.id)
                if told is None or told.differs(effect) is not None:
                    self._look_again(effect.id, effect.run_id)
                self._compare_identity(effect, opened.get((effect.run_id, self._opening_of(effect)), {}))
        for effect_id, told in self._told.items():
            found = None if effect_id in seen else self._store.get_effect(self._tenant, effect_id)
            if effect_id not in seen and (found is None or found.id != effect_id):
                raise Caught(f"effect {effect_id} is gone from its table", run=told.run_id, seq=told.opened_seq)

    def _look_again(self, effect_id: str, run_id: str) -> None:
        """Reads an effect and its events again, some times; raises when they differ each time."""
        tries = 0
        while (wrong := self._wrong_row(effect_id, run_id)) is not None and tries < _TRIES:
            tries += 1
        if wrong is not None:
            raise wrong

    def _wrong_row(self, effect_id: str, run_id: str) -> Caught | None:
        effect = self._store.get_effect(self._tenant, effect_id)
        if effect is None or effect.id != effect_id:
            return None  # gone meanwhile: that is found by whoever looks for what is missing
        told = self._told_again(effect_id, run_id)
        if told is None:
            return Caught(f"no event opens effect {effect_id}, though there is a row for it", run=run_id)
        difference = told.differs(effect)
        if difference is None:
            return None
        name, expected, found = difference
        what = f"the row of effect {effect_id} has another {name} than its events"
        return Caught(what, run=run_id, seq=told.opened_seq, expected=expected, found=found)

    def _told_again(self, effect_id: str, run_id: str) -> Told | None:
        told: Told | None = None
        for event in self._events(run_id):
            values = read_effect_body(event.body.decode("utf-8", "replace"))
            if values is not None and EffectBody(*values).effect == effect_id:
                body = EffectBody(*values)
                told = told or told_by(body)
                found = self._store.payloads(self._tenant, run_id, [event.seq]) if body.commits else []
                told.move(body, {payload.field: payload.value for payload in found})
        return told

    def _opening_of(self, effect: Effect) -> int:
        told = self._told.get(effect.id)
        return effect.opened_seq if told is None else told.first_seq

    def _opened_with(self, effects: list[Effect]) -> dict[tuple[str, int], dict[str, bytes]]:
        """Reads what effects were opened with: one read for each run, for each may be a question to a server."""
        seqs: defaultdict[str, list[int]] = defaultdict(list)
        for effect in effects:
            seqs[effect.run_id].append(self._opening_of(effect))
        opened: defaultdict[tuple[str, int], dict[str, bytes]] = defaultdict(dict)
        for run_id, wanted in seqs.items():
            for payload in self._store.payloads(self._tenant, run_id, wanted):
                opened[run_id, payload.seq][payload.field] = payload.value
        return opened

    def _compare_identity(self, effect: Effect, values: Values) -> None:
        """Compares the key with the one that was committed to; and scope and digest where the key tells them."""
        key = values["key"].hex() if "key" in values else effect.key
        wrong = None if key == effect.key else ("key", key, effect.key)
        for scope, identity in _identities(replace(effect, args_json=values.get("args"))):
            if wrong is None and identity.ref.key == effect.key:
                pairs = (("scope", scope, effect.scope), ("digest", identity.digest, effect.digest))
                wrong = next((pair for pair in pairs if pair[1] != pair[2]), None)
        if wrong is not None:
            what = f"the row of effect {effect.id} has another {wrong[0]} than its opening event committed to"
            seq = self._opening_of(effect)
            raise Caught(what, run=effect.run_id, seq=seq, expected=wrong[1], found=wrong[2])

    # Sheets

    def _compare_sheets(self, examination: Examination) -> None:
        """Compares the rows of sheets; what differs is compared again with the record read on, until it stays so."""
        before: dict[str, tuple[tuple[str, int], str]] = {}
        for _ in range(_TRIES):
            wrong = self._sheets.wrong()
            if not wrong:
                return
            for name, (place, why) in wrong.items():
                if before.get(name) == (place, why):
                    run_id, seq = place
                    raise Caught(f"{name}: {why}", run=run_id, seq=seq)
            before = wrong
            self._read_on(examination)
        self.remarks.append("the ledger was too busy to compare its approvals and grants")

    def _compare_permissions(self, examination: Examination) -> None:
        """Raises when a permission does not hold that runs tell of side by side, also with the record read on."""
        suspects = examination.permissions.problems()
        if suspects:
            self._read_on(examination)
        still = examination.permissions.problems()
        for (_, run_id, seq), what in suspects.items():
            if any((run_id, seq) == place[1:] for place in still):
                raise Caught(what, run=run_id, seq=seq)


def _identities(effect: Effect) -> Iterator[tuple[str, Any]]:
    """Gives the identities that a call with these arguments has when all of them make its key, with their scopes."""
    args = None if effect.args_json is None else decode(effect.args_json)
    if not isinstance(args, dict):  # erased, encrypted, or what no call can have: then they make no key
        return
    for scope in dict.fromkeys((effect.scope, effect.run_id)):
        for dedupe in get_args(Dedupe)[: 1 if effect.call_id is None else 2]:
            try:
                words: Any = {"scope": scope, "call_id": effect.call_id, "dedupe": dedupe}
                call = ToolCall(tool=effect.tool, args=args, run_id=effect.run_id, **words)
                yield scope, identify(call, effect.tenant)
            except (BadCall, ValueError):  # a row that no call can have made: others tell
                continue
