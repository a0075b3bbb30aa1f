"""Examines events before they are signed: nothing is signed that no key holder wrote or no rule allows. Pure.

The macs show who wrote an event. An old row of an effect or of a run that was put back has a valid mac. The event that
a writer then appends does not follow from the newest event of the effect or of the run, and that is how it shows. Of
an old row of a budget or grant, it shows that two events tell of the same reservation or use.

What stands before an event is found by the hashes of its run's chain, for a program without keys can change a column.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from indelible.core.effects.calls import OWN_RUNS
from indelible.core.effects.stops import Stop, read_stop
from indelible.core.events import NO_EVENTS, Event, Payload, commitment, event_hash
from indelible.core.journal.journal import JOURNAL_RUN, Waiting
from indelible.core.macs import (
    ENDED,
    ENDS,
    REMEMBERED,
    RIGHT_EVENTS,
    TAKING,
    Macs,
    is_after_losses,
    is_ended,
)
from indelible.core.policy.budgets import budget_ref, read_charges
from indelible.core.policy.verdicts import Charge
from indelible.core.privacy.forgetting import ERASED, HOLD_LIFTED, HOLD_PLACED
from indelible.core.sheets import Sheet, SheetRef
from indelible.core.values.canonical import decode
from indelible.core.verifying.bodies import (
    EffectBody,
    FactBody,
    commits_of,
    quoted,
    read_effect_body,
    read_fact_body,
    unquoted,
)
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.lives import Life, check_move
from indelible.core.verifying.payloads import erased_by
from indelible.core.verifying.run_lives import check_form, status_of_run
from indelible.core.verifying.run_moves import NOT_STARTED, STATUS_AFTER, UNKNOWN, is_by_hand, is_by_the_ledger
from indelible.core.verifying.trust import JOURNAL_MEMBERS, KeyChain
from indelible.errors import RecordForged

TAKEN, MISSING, READ = "taken", "missing", "read"
"""Name the kinds of what is remembered beside versions of sheets: the newest number that was taken of a budget or
grant, a smaller one that no event told yet (1) or has told since (2), and how many events of a run were read."""
HELD, LET_GO, MOVED = SheetRef(ENDS, "stop"), SheetRef(ENDS, "go"), SheetRef(ENDS, "moved")
"""Name the newest word on the tenant's stop by which effects were stopped, were let go, or said that it moved away."""
HOLDS = SheetRef("holds", "told")
"""Names how many events placed or lifted a hold."""
_FEW, _MANY = 16, 1000
_MOST_KNOWN = 20_000
_MOST_MISSING = 10_000
_HEARTBEAT = "journal_heartbeat"
_NUMBERED = ("budget", "grant")


class Rows(Protocol):
    """Shows rows of a tenant. Nothing of them is believed before it was checked."""

    def events(self, run_id: str, after: int, limit: int) -> Sequence[Event]:
        """List a run's events above a number, in their order."""

    def payloads(self, run_id: str, seqs: Sequence[int]) -> Sequence[Payload]:
        """List what some events of a run commit to."""

    def is_in_tree(self, run_id: str, seq: int, hash_: bytes) -> bool:
        """Return whether the tree is proven to hold this event, before the events that are examined."""


class ToldOf(NamedTuple):
    """Is what an event told of a sheet that is remembered, or of a resource that a call keeps to itself.

    `version` is 0 where the value does not say it. Of budgets and resources it is the number of the reservation. Each
    `number` of a budget, grant or resource is told once; 0 is none.
    """

    ref: SheetRef
    version: int
    run_id: str
    seq: int
    number: int = 0


@dataclass(slots=True)
class _Known:
    """Is what is known of runs and of effects that can still move, as of the newest event of each run."""

    ends: dict[str, tuple[int, str]] = field(default_factory=dict)
    lives: dict[str, Life] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)


class Unsealed:
    """Looks at events page by page, in the order of the tree, and collects what is wrong with them and what they tell.

    Call `accept` after a page that was taken into the tree: the next one is held against it.
    """

    def __init__(self, macs: Macs, rows: Rows) -> None:
        self._macs = macs
        self._rows = rows
        self._values = Values(macs, rows)
        self.problems: dict[str, str] = {}
        """Says for each run of the last page that must not be sealed what is wrong, and where."""
        self.flaws: dict[str, str] = {}
        """Says for each run of the last page, if it is signed, which value is not as it was."""
        self.told: list[ToldOf] = []
        """Holds what the last page told of rights, budgets and resources."""
        self.leaves: list[bytes] = []
        """Holds the hashes of the events of the last page that nothing is wrong with, in their order."""
        self.counts: dict[SheetRef, int] = {}
        """Says how many events of each of the ledger's own runs there are after the last page."""
        self.holds = 0
        """Counts the events of the last page that placed or lifted a hold."""
        self.losses = 0
        """Is how many losses were declared before the events that come now: put in again, older ones give rights."""
        self._known = _Known()
        self._page = _Known()

    def __call__(self, waiting: Sequence[Waiting], *, is_signed: bool = False) -> set[str]:
        """Examine events, each run's in their order; return the runs that must not be sealed.

        If events are signed already, a value that is not as it was takes none of them back: `flaws` says so.
        """
        named: set[str] = set()
        self.told, self.leaves, self.counts, self.holds, self.problems, self.flaws = [], [], {}, 0, {}, {}
        self._page = _Known()
        read = [_read(one) for one in waiting]
        runs: defaultdict[str, list[_Read]] = defaultdict(list)
        for one in read:
            runs[one.row.run_id].append(one)
        self._values.load((one.row.run_id, one.row.seq) for one in read if _told_by(one))
        for one in read:
            run_id = one.row.run_id
            if run_id in named:
                continue
            try:
                self._examine(one, runs[run_id])
                self._take_values(one, is_signed=is_signed)
            except Caught as caught:
                self.problems[run_id] = _placed(one.row, caught)
                named.add(run_id)
            else:
                self.leaves.append(one.row.hash)
        return named

    def accept(self) -> None:
        """Take in that the events of the last page are in the tree."""
        page, known = self._page, self._known
        if len(known.ends) + len(known.lives) > _MOST_KNOWN:
            self._known = page
            return
        known.ends |= page.ends
        known.statuses |= page.statuses
        for id_, life in page.lives.items():
            if life[4] in _OVER:
                known.lives.pop(id_, None)
            else:
                known.lives[id_] = life

    def _examine(self, one: _Read, run: list[_Read]) -> None:
        row, event, fact = one
        if row.body is None or event_hash(row.body) != row.hash.hex():
            raise Caught("it is gone, or is not what was noted when it was written")
        said = event or fact
        if said is None:
            raise Caught("it is no event of version 1")
        self._check_writer(row, said)
        self._check_follows(one, said, run)
        if event is not None:
            self._check_effect(event)
        if fact is not None:
            self._check_fact(row, fact)
        self._page.ends[row.run_id] = (row.seq + 1, row.hash.hex())
        if row.run_id.startswith(OWN_RUNS):
            self.counts[SheetRef(READ, row.run_id)] = row.seq + 1

    def _take_values(self, one: _Read, *, is_signed: bool) -> None:
        try:
            self.told += self._values.told(one.row, _told_by(one))
        except Caught as caught:
            if not is_signed:
                raise
            self.flaws[one.row.run_id] = _placed(one.row, caught)

    def _check_writer(self, one: Waiting, said: EffectBody | FactBody) -> None:
        if (unquoted(said.run), int(said.seq)) != (one.run_id, one.seq):
            raise Caught("it belongs to another place")
        if self._macs.origin is not None and said.log != quoted(self._macs.origin):
            raise Caught("it belongs to another journal")
        if not self._macs.is_of_event(said.type, one.hash.hex(), one.mac):
            raise Caught("it was not written by a holder of the ledger's keys")
        if not is_after_losses(said.type, one.mac, self.losses):
            raise Caught("it was written before a loss was declared, so it is of the part that is lost")

    def _check_follows(self, one: _Read, said: EffectBody | FactBody, run: list[_Read]) -> None:
        """Raise unless an event follows the one before it in its run, which is in the tree or before it in the page."""
        run_id, seq, prev = one.row.run_id, one.row.seq, said.prev
        is_first = run_id not in self._page.ends
        end = self._known.ends.get(run_id, NO_EVENTS) if is_first else self._page.ends[run_id]
        is_known = not is_first or run_id in self._known.ends or seq == 0
        is_next = (seq, prev) == end if is_known else self._rows.is_in_tree(run_id, seq - 1, bytes.fromhex(prev))
        if not is_next:
            raise Caught("it does not follow the event before it in its run, or that one is not in the tree")
        if is_first:
            self._look_back(run_id, seq, prev, run)

    def _look_back(self, run_id: str, seq: int, prev: str, run: list[_Read]) -> None:
        """Find how the run stood before a number, and those of its effects that go on from there."""
        opened: set[str] = set()
        wanted: set[str] = set()
        for _, event, _ in run:
            if event is not None and event.effect not in opened:
                (opened if "key" in commits_of(event.commits) else wanted).add(event.effect)
                opened.add(event.effect)
        page, known = self._page, self._known
        wanted -= known.lives.keys()
        if run_id in known.statuses:
            page.statuses[run_id] = known.statuses[run_id]
        is_asked = any(fact is not None and _is_about_run(fact) for _, _, fact in run) and run_id not in page.statuses
        for text in self._bodies_before(run_id, seq, prev) if wanted or is_asked else ():
            event, fact = _read_text(text, wanted, is_asked=is_asked)
            if event is not None and event.effect in wanted:
                page.lives[event.effect] = _after(event)
                wanted.discard(event.effect)
            if fact is not None and is_asked and _is_about_run(fact):
                page.statuses[run_id] = STATUS_AFTER.get(fact.type, UNKNOWN)
                is_asked = False
            if not wanted and not is_asked:
                break
        if is_asked or seq == 0:
            page.statuses[run_id] = NOT_STARTED

    def _bodies_before(self, run_id: str, end: int, prev: str) -> Iterator[str]:
        """Yield what a run's events say, from the one before a number back to the first; `prev` is that one's hash."""
        size = _FEW
        while end:
            start = max(0, end - size)
            events = self._rows.events(run_id, start - 1, end - start)
            if [event.seq for event in events] != list(range(start, end)):
                raise Caught(f"an event of its run from {start} to {end - 1} is gone")
            for event in reversed(events):
                if event_hash(event.body) != prev:
                    raise Caught(f"event {event.seq} of its run was changed")
                text = event.body.decode()
                yield text
                prev = _prev_in(text)
            end, size = start, min(size * 4, _MANY)

    def _check_effect(self, event: EffectBody) -> None:
        names = tuple(commits_of(event.commits))
        new = (event.run, event.tool, event.side_effect, event.on_crash, "", 0, 0)
        life = self._page.lives.get(event.effect) or self._known.lives.get(event.effect) or new
        check_move(life, event.type, event.status, int(event.attempt), names)
        self._page.lives[event.effect] = _after(event)

    def _check_fact(self, one: Waiting, fact: FactBody) -> None:
        if _is_about_run(fact):
            check_form(fact)
            self._page.statuses[one.run_id] = status_of_run(self._page.statuses[one.run_id], fact)
        if one.run_id == JOURNAL_RUN and fact.type in JOURNAL_MEMBERS and fact.type != _HEARTBEAT:
            self._check_keys(one, fact)
        self.holds += fact.type in (HOLD_PLACED, HOLD_LIFTED)

    def _check_keys(self, one: Waiting, fact: FactBody) -> None:
        """Raise unless a verifier can follow what an event says of the journal's keys."""
        chain = KeyChain(unquoted(fact.log))
        texts = self._bodies_before(one.run_id, one.seq, fact.prev)
        before = [earlier for text in texts if (earlier := read_fact_body(text)) is not None]
        for told in (*reversed(before), fact):
            chain.learn(told.seq, told.type, told.facts)


class Values:
    """Finds what events told in values that they commit to, and raises `Caught` if one is not there as it was."""

    def __init__(self, macs: Macs, rows: Rows) -> None:
        self._macs = macs
        self._rows = rows
        self._found: dict[tuple[str, int, str], Payload] = {}
        self._erased: dict[str, set[tuple[int, str]]] = {}

    def load(self, places: Iterable[tuple[str, int]]) -> None:
        """Ask for the values of some events, and forget those before."""
        seqs: dict[str, list[int]] = {}
        for run_id, seq in places:
            seqs.setdefault(run_id, []).append(seq)
        shown = (one for run_id in seqs for one in self._rows.payloads(run_id, seqs[run_id]))
        self._found = {(one.run_id, one.seq, one.field): one for one in shown}
        self._erased = {}

    def told(self, one: Waiting, commits: Mapping[str, str]) -> list[ToldOf]:
        """Return what an event told in these values of rights, budgets and resources."""
        found: list[ToldOf] = []
        for name, expected in commits.items():
            payload = self._found.get((one.run_id, one.seq, name))
            if payload is None:
                if (one.seq, name) not in self._erased_in(one.run_id, one.seq):
                    raise Caught(f"its {name} is gone, and no event says that it was erased")
                continue
            is_own = self._macs.is_of_payload(payload)
            if not is_own or commitment(payload.salt, name, payload.value) != expected:
                raise Caught(f"its {name} is not what a holder of the ledger's keys wrote")
            found += remembered_in(payload)
            if name in ("person", "stop"):
                found += ends_in(payload, _type_of(one))
        return found

    def _erased_in(self, run_id: str, after: int) -> set[tuple[int, str]]:
        """Return which values a run says were erased, in events past the first one that is asked about."""
        if run_id not in self._erased:
            erased = self._erased[run_id] = set()
            while page := self._rows.events(run_id, after, _MANY):
                after = page[-1].seq
                for event in page:
                    fact = read_fact_body(event.body.decode("utf-8", "replace")) if event.type == ERASED else None
                    one = Waiting(run_id, event.seq, bytes.fromhex(event.hash), event.body, event.mac)
                    if fact is not None and fact.type == ERASED and is_by_holder(self._macs, one):
                        erased |= erased_by(fact.facts)
        return self._erased[run_id]


def is_by_holder(macs: Macs, one: Waiting) -> bool:
    """Return whether a key holder wrote an event, for the place where it stands."""
    _, effect, fact = _read(one)
    event = effect or fact
    if one.body is None or event is None or event_hash(one.body) != one.hash.hex():
        return False
    is_here = (unquoted(event.run), int(event.seq)) == (one.run_id, one.seq)
    return is_here and macs.is_of_event(event.type, one.hash.hex(), one.mac)


def believed_run(macs: Macs | None, run_id: str, events: Iterable[Event], start: int = 0) -> Iterator[Event]:
    """Yield the events of a run of the ledger's own, from a number to its last: what decides something is read so.

    Raises:
        RecordForged: Events do not follow each other, or no holder of the ledger's keys wrote them. After a restore the
            newest ones are gone, and that shows elsewhere: what was signed is not here.
    """
    number, prev = start, NO_EVENTS.hash if start == 0 else None
    for event in events:
        text = event.body.decode("utf-8", "replace")
        one = Waiting(run_id, event.seq, bytes.fromhex(event.hash), event.body, event.mac)
        is_next = event.seq == number and prev in (None, _prev_in(text)) and event_hash(event.body) == event.hash
        if not is_next or (macs is not None and not is_by_holder(macs, one)):
            raise forged_run(run_id)
        number, prev = number + 1, event.hash
        yield event


def forged_run(run_id: str) -> RecordForged:
    """Return what says that a run of the ledger's own is not as key holders wrote it."""
    return RecordForged(
        f"events of {run_id}, which tells of rights, are gone or were written by no holder of the ledger's keys, so no "
        "right is believed. See what else was changed: indelible verify"
    )


def believed_holds(macs: Macs, events: Iterable[Event]) -> list[Event]:
    """Return the events that placed or lifted holds; raise `RecordForged` if there are fewer than were examined."""
    found = [
        event
        for event in events
        if is_by_holder(macs, Waiting(event.run_id, event.seq, bytes.fromhex(event.hash), event.body, event.mac))
        and event.read()["type"] in (HOLD_PLACED, HOLD_LIFTED)
    ]
    if len(found) < macs.newest.version(HOLDS):
        raise RecordForged(
            "events that placed or lifted a hold are gone or were changed, so nobody can tell what is on hold and "
            "nothing is erased. See what was changed: indelible verify"
        )
    return found


def rights_told(one: Waiting) -> dict[str, str]:
    """Return the commitments to rights in an event of a run of the ledger's own."""
    return _told_by(_read(one))


def _told_by(one: _Read) -> dict[str, str]:
    """Return an event's commitments to values that tell of rights, budgets and grants."""
    if one.event is not None:
        return {name: hash_ for name, hash_ in commits_of(one.event.commits).items() if name in ("charges", "grant")}
    if one.fact is None or one.fact.type not in RIGHT_EVENTS:
        return {}
    return {name: hash_ for name, hash_ in one.fact.commits.items() if name in REMEMBERED}


def remembered_in(payload: Payload) -> list[ToldOf]:
    """Name the sheets whose newest version is remembered, of those that an event committed to."""
    kind, place = payload.field, (payload.run_id, payload.seq)
    if kind != "charges" and kind not in REMEMBERED:
        return []
    try:
        if kind == "charges":
            taken = [(charge, charge.number) for charge in read_charges(payload.value)]
            return [ToldOf(_reserved_ref(one), number, *place, number) for one, number in taken if number is not None]
        content: Any = decode(payload.value)
        number = content.get("version")
        number = number if isinstance(number, int) else 0
        version = ENDED if is_ended(kind, content) else number
        return [ToldOf(SheetRef(kind, content.get("id", "current")), version, *place, number)]
    except (ValueError, LookupError, TypeError, AttributeError):  # it is encrypted
        return []


def ends_in(payload: Payload, event_type: str) -> list[ToldOf]:
    """Return what a value says of an end that outlasts a loss: of what a person had, or of the tenant's stop.

    A stop for a loss is none: it ends when the loss is declared.
    """
    if payload.field == "person" and event_type not in TAKING:
        return []
    try:
        content: Any = decode(payload.value)
        id_, version = content["id"], content["version"]
        if payload.field == "stop":
            stop = read_stop(Sheet(kind="stop", id=id_, version=version, status="", body=payload.value))
            return [ToldOf(ref, version, payload.run_id, payload.seq) for ref in _ends_of(stop)]
    except (ValueError, LookupError, TypeError):  # another version of Indelible wrote it
        return []
    return [ToldOf(SheetRef(ENDS, id_), version, payload.run_id, payload.seq)]


def _ends_of(stop: Stop) -> list[SheetRef]:
    kinds = {cause.kind for cause in stop.causes}
    if kinds == {"lost"}:
        return []
    return ([HELD] if stop.is_in_force else [LET_GO]) + ([MOVED] if "moved" in kinds else [])


def _reserved_ref(charge: Charge) -> SheetRef:
    return SheetRef("resource", charge.resource) if charge.is_of_resource else budget_ref(charge.budget)


class Numbers:
    """Knows which numbers of budgets and grants events told, so that one that is told twice shows.

    Runs are taken into the tree side by side, so a smaller number may come after a larger one. Of resources it knows
    only what it was told itself, for there are too many to remember.

    Args:
        taken: The newest number of each, by kind and id.
        missing: Names each smaller number that no event told yet.
    """

    def __init__(self, taken: Mapping[str, int], missing: Iterable[str]) -> None:
        self._taken = dict(taken)
        self._missing = set(missing)
        self._of_resources: set[str] = set()
        self.changed: dict[SheetRef, int] = {}
        """Is what is to be remembered of it; whoever remembered it empties this."""

    def take(self, told: Iterable[ToldOf]) -> dict[str, str]:
        """Take in what events told; say for each run what is wrong if another event told the same number."""
        problems = {}
        for one in told:
            if one.number and not self._is_new(f"{one.ref.kind} {one.ref.id}", one):
                problems[one.run_id] = (
                    f"event {one.seq} of run {one.run_id}: another event took {_what(one)} {one.number} of "
                    f"{one.ref.kind} {one.ref.id} too, so an older row of it was put back"
                )
        return problems

    def _is_new(self, name: str, one: ToldOf) -> bool:
        place = f"{name} {one.number}"
        if one.ref.kind == "resource":
            if len(self._of_resources) > _MOST_KNOWN:
                self._of_resources.clear()
            is_new = place not in self._of_resources
            self._of_resources.add(place)
            return is_new
        if one.ref.kind not in _NUMBERED:
            return True
        newest = self._taken.get(name, 0)
        if one.number > newest:
            for number in range(max(newest + 1, one.number - _MOST_MISSING), one.number):
                self._missing.add(f"{name} {number}")
                self.changed[SheetRef(MISSING, f"{name} {number}")] = 1
            self._taken[name] = self.changed[SheetRef(TAKEN, name)] = one.number
            return True
        is_new = place in self._missing
        self._missing.discard(place)
        if is_new:
            self.changed[SheetRef(MISSING, place)] = 2
        return is_new


def _what(one: ToldOf) -> str:
    return "version" if one.ref.kind == "grant" else "reservation"


def versions_to_keep(told: Sequence[ToldOf], found: Sequence[Sheet]) -> dict[SheetRef, int]:
    """Return the newest version of each sheet that was told of, also where its row is an older one that was put back.

    A row that is not believed has no body. Its version counts for nothing. Resources are too many to remember.
    """
    rows = {sheet.ref: sheet for sheet in found if sheet.body is not None}
    kept = {ref: sheet.version for ref, sheet in rows.items()}
    for one in told:
        if one.ref.kind not in REMEMBERED | {ENDS}:
            continue
        kept[one.ref] = max(kept.get(one.ref, 0), one.version, 1)  # at least one: its row may be gone
    for ref, row in rows.items():  # where the value does not say it, each later event of the row's run is one more
        places = {(one.run_id, one.seq) for one in told if one.ref == ref}
        later = [seq for run_id, seq in places if row.seq is not None and run_id == row.run_id and seq > row.seq]
        kept[ref] = max(kept[ref], row.version + len(later))
    return kept


class _Read(NamedTuple):
    """Is an event that waits, and what it says of an effect or of something else; both are None if it is no event."""

    row: Waiting
    event: EffectBody | None
    fact: FactBody | None


_PREV = '"prev":"'
_OVER = ("succeeded", "denied", "canceled")


def _read(one: Waiting) -> _Read:
    text = "" if one.body is None else one.body.decode("utf-8", "replace")
    values = read_effect_body(text)
    return _Read(one, None, read_fact_body(text)) if values is None else _Read(one, EffectBody(*values), None)


def _type_of(one: Waiting) -> str:
    fact = _read(one).fact
    return "" if fact is None else fact.type


def _read_text(text: str, wanted: set[str], *, is_asked: bool) -> tuple[EffectBody | None, FactBody | None]:
    """Read an event if it may be about one of the wanted effects, or about its run."""
    if '"facts":{' in text:
        return None, read_fact_body(text) if is_asked else None
    start = text.rfind(_EFFECT) + len(_EFFECT)
    values = read_effect_body(text) if text[start : text.find('"', start)] in wanted else None
    return (None if values is None else EffectBody(*values)), None


_EFFECT = '"effect":"'


def _prev_in(text: str) -> str:
    return text[text.rfind(_PREV) + len(_PREV) :][:64]


def _placed(one: Waiting, caught: Caught) -> str:
    return f"event {one.seq} of run {one.run_id}: {caught.flaw.what}"


def _is_about_run(fact: FactBody) -> bool:
    return is_by_the_ledger(fact.type, fact.facts) or is_by_hand(fact.type, fact.facts)


def _after(event: EffectBody) -> Life:
    return (event.run, event.tool, event.side_effect, event.on_crash, event.status, int(event.attempt), 0)
