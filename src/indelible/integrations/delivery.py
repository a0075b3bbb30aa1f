"""Puts entries on the record of a ledger: sessions as runs, each entry once, and what is missing as an event."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

from indelible import IndelibleError, Ledger
from indelible.errors import BadCall, RunOver, RunRefused, StoreError
from indelible.integrations.spool import Abandoned

GROUP = 256
NAMESPACE = "callback"
"""Begins the type of each event: one callback has one name, whichever handler, server or file it came by."""
ENDED = "session_ended"
_LOG = logging.getLogger("indelible.integrations")


class Entry(NamedTuple):
    """Is something to be delivered: who took it, as which number, for which session, what it says, and all as JSON."""

    source: str
    number: int
    session: str
    kind: str
    content: Mapping[str, Any]
    line: bytes

    @property
    def place(self) -> tuple[str, int]:
        """Tells it from every other entry."""
        return self.source, self.number


class Delivery:
    """Record entries in the runs that their sessions are.

    `open_ledger` is called for the first entry, and again for the next one while it raises.
    """

    def __init__(self, open_ledger: Callable[[], Ledger], runtime: str, agent: str) -> None:
        self._open_ledger = open_ledger
        self._runtime = runtime
        self._agent = agent
        self._begun: set[str] = set()
        self._counting = threading.Lock()
        self._unsigned: deque[tuple[str, int, int]] = deque()
        self._signed = 0

    @cached_property
    def _ledger(self) -> Ledger:
        return self._open_ledger()

    def record(self, session: str, group: Sequence[Entry]) -> None:
        """Records entries of one session, all of them or none; only the last of them may end it."""
        if session not in self._begun:
            self._begin(session)
        events = [self._event(entry) for entry in group]
        try:
            told = self._ledger.record_all(session, events)
        except RunOver:  # something that came in after its session had ended
            self.record(f"{session}.late", group)
            return
        except BadCall as problem:
            if len(group) > 1:
                for entry in group:
                    self.record(session, [entry])
                return
            told = (self._ledger.record(session, events[0]["event_type"], _bare(group[0], problem)),)
        self._unsigned.append((session, told[-1].seq, len(group)))
        if group[-1].kind == ENDED:
            self._end(session, group[-1].content)

    def _event(self, entry: Entry) -> dict[str, Any]:
        return {"event_type": f"{NAMESPACE}.{entry.kind}", "payload": entry.content}

    def _begin(self, session: str) -> None:
        try:
            run = self._ledger.start_run(session, agent=self._agent, runtime=self._runtime)
        except RunRefused:
            pass  # it was begun before, here or elsewhere
        else:
            run.release()
        self._begun.add(session)

    def _end(self, session: str, content: Mapping[str, Any]) -> None:
        status: Literal["completed", "failed"] = "failed" if content.get("is_failure") else "completed"
        try:
            self._ledger.end_run(session, status, by=self._agent, reason=str(content.get("reason", "")))
        except RunRefused as refused:
            _LOG.info("session %s is over already: %s", session, refused)
        self._begun.discard(session)

    def count_signed(self) -> int:
        """Return how many of the recorded entries a signed head covers; what was known last, if nothing answers."""
        with self._counting:
            while self._unsigned and self._is_signed(*self._unsigned[0][:2]):
                self._signed += self._unsigned.popleft()[2]
            return self._signed

    def _is_signed(self, run_id: str, seq: int) -> bool:
        try:
            (event,) = self._ledger.events(run_id, after=seq - 1, limit=1)
            self._ledger.receipt(event)
        except Exception:  # no head covers it yet, or the ledger is away or closed: then it is not known to be
            return False
        return True

    def note_recorded(self, run_id: str, seq: int) -> None:
        """Hear that an entry is on the record whose delivery was not answered: it is to be signed like the others."""
        self._unsigned.append((run_id, seq, 1))

    def on_record(self, entries: Iterable[Entry]) -> dict[tuple[str, int], tuple[str, int]]:
        """Return where the record has entries already, by place: an answer that did not come may have been a yes."""
        known: dict[tuple[str, int], tuple[str, int]] = {}
        for session in {entry.session for entry in entries}:
            known |= self._known(session)
        return known

    def _known(self, session: str) -> dict[tuple[str, int], tuple[str, int]]:
        """Return where the record has entries of a session: the run, and the event's number in it."""
        known: dict[tuple[str, int], tuple[str, int]] = {}

        def note(run_id: str, event: Any) -> None:
            source = event.payload.get("source") if isinstance(event.payload, Mapping) else None
            if isinstance(source, Mapping) and "number" in source:
                known[source["id"], source["number"]] = (run_id, event.seq)

        for name in (session, f"{session}.late"):
            try:
                self._ledger.run_story(name, each=partial(note, name))
            except IndelibleError as unknown:
                if isinstance(unknown, StoreError):
                    raise
        return known

    def adopt(self, left: Abandoned) -> tuple[int, int]:
        """Delivers what a process that is gone left behind, and gives how many that were and how many are missing."""
        entries = [_entry_of(line) for line in left.items]
        known = self.on_record(entries)
        new = [entry for entry in entries if entry.place not in known]
        delivered = len(new)
        while new:
            group = next_group(new)
            self.record(group[0].session, group)
            del new[: len(group)]
        last = max([left.written, *(entry.number for entry in entries)])
        missing = max(0, left.taken - last)
        if missing:
            self.tell_gap(left.id, last + 1, left.taken, missing, "the process ended before they were written")
        return delivered, missing

    def tell_gap(self, source: str, first: int, last: int, missing: int, why: str) -> None:
        """Records that events are missing, and which."""
        payload = {"source": source, "first": first, "last": last, "missing": missing, "why": why}
        self._ledger.record(f"{self._agent}.gaps", f"{NAMESPACE}.gap", payload)


def next_group(entries: Iterable[Entry]) -> list[Entry]:
    """Gives the first entries that can be recorded together: of one session, up to where it ends."""
    group: list[Entry] = []
    for entry in itertools.islice(entries, GROUP):
        if group and (entry.session != group[0].session or group[-1].kind == ENDED):
            break
        group.append(entry)
    return group


def _entry_of(line: bytes) -> Entry:
    content = json.loads(line)
    kind, source = content.pop("kind"), content["source"]
    return Entry(source["id"], source["number"], content["session"], kind, content, line)


def _bare(entry: Entry, problem: Exception) -> dict[str, Any]:
    """Gives what can be recorded of an event that cannot be recorded whole: its hash, and why."""
    left_out = hashlib.sha256(entry.line).hexdigest()
    return {"source": entry.content["source"], "left_out": left_out, "why": str(problem)[:500]}
