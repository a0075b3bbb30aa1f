"""An excerpt: the entries of a journal that an export holds, under one signed head, with what it discloses of them.

Reads in pages, so that memory stays flat however long the journal is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Literal

from indelible.core.events import Payload, instant
from indelible.core.filtering.filters import Query
from indelible.core.filtering.matching import AgentOf, event_subject, fits
from indelible.core.journal.journal import JOURNAL_RUN, Entry
from indelible.core.journal.notes import Note, TreeHead, parse_head, parse_note
from indelible.core.paging import read_sheet
from indelible.core.ports import Store
from indelible.core.runs.run import read_run, run_ref
from indelible.core.values.canonical import decode
from indelible.errors import BadCall, JournalError
from indelible.journal.exports.erased_since import ErasedSince
from indelible.journal.exports.selecting import Between, Disclosure, During, OfRun, Selection, Whole
from indelible.journal.sealing import with_rotations

PAGE = 512

Kind = Literal["journal", "run", "period"]
Progress = Callable[[int, int | None], None]
"""Is told how many events were read, and of how many; None where nobody knows yet."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Is an entry with the payloads that the export discloses, ordered by field, and how many it withholds.

    `erased_since` counts those withheld that were erased after the head: no event under it says so.
    """

    entry: Entry
    payloads: list[Payload]
    withheld: int
    erased_since: int = 0


@dataclass(slots=True)
class Tally:
    """Counts what was read so far."""

    events: int = 0
    payloads: int = 0
    withheld: int = 0
    erased_since: int = 0
    first: int | None = None
    last: int | None = None
    not_covered: int = 0
    """Counts events of the run that no signed head covers yet: they are not in the export."""

    def add(self, shown: Shown) -> None:
        """Counts one more event."""
        self.events += 1
        self.payloads += len(shown.payloads)
        self.withheld += shown.withheld
        self.erased_since += shown.erased_since
        self.first = shown.entry.index if self.first is None else self.first
        self.last = shown.entry.index


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Is a part of a tenant's journal under one signed head; `tally` counts while it is read."""

    store: Store
    tenant: str
    selection: Selection
    disclosure: Disclosure
    note: Note
    head: TreeHead
    query: Query | None = None
    """Leaves out events that it does not ask for, in exports that prove nothing; None keeps all."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    """Is the moment from which a filter counts how long ago something was."""
    progress: Progress | None = None
    tally: Tally = field(default_factory=Tally)

    @property
    def kind(self) -> Kind:
        """Is what the excerpt holds: everything, a run, or a stretch of the journal."""
        match self.selection:
            case Whole():
                return "journal"
            case OfRun():
                return "run"
            case _:
                return "period"

    @property
    def run_id(self) -> str | None:
        """Is the run it is about, if it is about one."""
        return self.selection.run_id if isinstance(self.selection, OfRun) else None

    def read(self) -> Iterator[Shown]:
        """Gives its entries in the order of the journal, with the payloads that may be shown."""
        pages, total = self._pages()
        is_kept = None if self.query is None else self._asked_for(self.query)
        erased_since = ErasedSince(self.store, self.tenant, self.head.size)
        looked_at = 0
        for page in pages:
            kept = page if is_kept is None else [entry for entry in page if is_kept(entry)]
            for shown in self._with_payloads(kept, erased_since):
                self.tally.add(shown)
                yield shown
            looked_at += len(page)
            if self.progress is not None:
                self.progress(looked_at, total)
        if not self.tally.events:
            raise BadCall(self._why_empty())

    def _asked_for(self, query: Query) -> Callable[[Entry], bool]:
        agent_of = agents_in(self.store, self.tenant)

        def is_asked_for(entry: Entry) -> bool:
            return fits(query, event_subject(entry.run_id, entry.seq, entry.hash, entry.body, agent_of), self.now)

        return is_asked_for

    def _why_empty(self) -> str:
        if isinstance(self.selection, OfRun) and self.query is None:
            return f"tenant {self.tenant!r} has no run {self.selection.run_id!r}; see: indelible effects list"
        return "there is nothing to export: no event was selected; see: indelible effects list"

    def _pages(self) -> tuple[Iterator[list[Entry]], int | None]:
        """Gives the selected entries in pages, and how many they are."""
        if isinstance(self.selection, OfRun):
            return self._pages_of_run(self.selection.run_id), None
        first, last = self._places(self.selection)
        return self._pages_between(first, last), last - first + 1

    def _places(self, selection: Whole | Between | During) -> tuple[int, int]:
        """Gives the first and the last selected place."""
        newest = self.head.size - 1
        match selection:
            case Whole():
                return 0, newest
            case Between(first, last):
                end = newest if last is None else last
                if not 0 <= first <= end <= newest:
                    raise BadCall(f"entries {first} to {end} are not there: the signed head covers 0 to {newest}")
                return first, end
            case During(since, until):
                return self._places_during(since, until)

    def _pages_between(self, first: int, last: int) -> Iterator[list[Entry]]:
        for start in range(first, last + 1, PAGE):
            count = min(PAGE, last + 1 - start)
            page = self.store.journal.entries(self.tenant, start, count)
            for place, entry in enumerate(page, start):
                if entry.index != place:
                    raise _gone(place)
            if len(page) < count:
                raise _gone(start + len(page))
            yield page

    def _pages_of_run(self, run_id: str) -> Iterator[list[Entry]]:
        """Gives a run's entries; a run keeps its order in the tree, so the first one not covered ends it."""
        after = -1
        while events := self.store.events(self.tenant, run_id, after, PAGE):
            page: list[Entry] = []
            for event in events:
                index = self.store.journal.index_of(self.tenant, run_id, event.seq)
                if index is None or index >= self.head.size:
                    self.tally.not_covered += 1
                    continue
                page.append(
                    Entry(
                        index=index,
                        run_id=run_id,
                        seq=event.seq,
                        hash=event.hash,
                        body=event.body,
                        signature=event.signature,
                    )
                )
            yield page
            after = events[-1].seq

    def _places_during(self, since: datetime | None, until: datetime | None) -> tuple[int, int]:
        """Finds the first and last place whose event's own time lies in the period."""
        low = "" if since is None else instant(since)
        high = "\x7f" if until is None else instant(until)
        first = last = None
        for page in self._pages_between(0, self.head.size - 1):
            for entry in page:
                # What the journal tells about itself is written when it is sealed, so it says nothing about a period.
                if entry.run_id != JOURNAL_RUN and low <= _time_of(entry) < high:
                    first, last = entry.index if first is None else first, entry.index
        if first is None or last is None:
            raise BadCall("no event of this journal lies in that time; see: indelible export csv --out all.csv")
        return first, last

    def _with_payloads(self, page: list[Entry], erased_since: ErasedSince) -> Iterator[Shown]:
        seqs: defaultdict[str, list[int]] = defaultdict(list)
        for entry in page:
            seqs[entry.run_id].append(entry.seq)
        found: defaultdict[tuple[str, int], list[Payload]] = defaultdict(list)
        for run_id, numbers in seqs.items():
            for payload in self.store.payloads(self.tenant, run_id, numbers):
                found[run_id, payload.seq].append(payload)
        absent = {
            (entry.run_id, entry.seq, name)
            for entry in page
            for name in _committed(entry.body) - {payload.field for payload in found[entry.run_id, entry.seq]}
        }
        gone = Counter((run_id, seq) for run_id, seq, _ in absent & erased_since.look()) if absent else Counter()
        for entry in page:
            stored = sorted(found[entry.run_id, entry.seq], key=lambda payload: payload.field)
            allowed, erased = self.disclosure.allowed(stored), gone[entry.run_id, entry.seq]
            yield Shown(entry, allowed, len(stored) - len(allowed) + erased, erased)


def agents_in(store: Store, tenant: str) -> AgentOf:
    """Gives what names the agents of a tenant's runs, each looked up once."""

    @cache
    def agent_of(run_id: str) -> str | None:
        found = read_sheet(store, tenant, run_ref(run_id))
        if found is None or found.body is None or not isinstance(decode(found.body), dict):  # encrypted
            return None
        return read_run(found).agent

    return agent_of


def newest_head(store: Store, tenant: str) -> tuple[Note, TreeHead]:
    """Gives the newest signed head, with the rotations that lead to its key; raises `JournalError` if there is none."""
    notes = store.journal.heads(tenant, 1)
    if not notes:
        raise JournalError(f"no tree head of tenant {tenant!r} was signed yet; run: indelible journal seal")
    note = with_rotations(store, tenant, parse_note(notes[0]))
    return note, parse_head(note.text)


def _gone(place: int) -> JournalError:
    return JournalError(
        f"entry {place} of the journal is gone from the database, though a signed head covers it: restore a backup "
        "that has it; the events of a run can still be exported with --run"
    )


def _time_of(entry: Entry) -> str:
    """Gives an event's own time; quotes inside texts are escaped, so these letters stand in a body only once."""
    return _text_after(entry.body, b'},"at":"')


def _committed(body: bytes) -> set[str]:
    """Gives the fields that an event commits to; as above, these letters stand in a body only once."""
    return set(body.partition(b'"commits":{')[2].partition(b"}")[0].decode("utf-8", "replace").split('"')[1::4])


def _text_after(body: bytes, mark: bytes) -> str:
    _, found, rest = body.partition(mark)
    return rest.partition(b'"')[0].decode("utf-8", "replace") if found else ""
