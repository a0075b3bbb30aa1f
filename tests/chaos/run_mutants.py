"""Bugs planted in runs, for the jobs that must find them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from indelible.core import batch, events
from indelible.core.changes import Step
from indelible.core.commands import Answer, Command, Keep
from indelible.core.events import Head, event_hash
from indelible.core.runs import driving
from indelible.core.runs.commands import RunMoved, RunNotMoved, Tell, Told
from indelible.core.runs.run import Driver, Happening, Run
from indelible.core.sheets import Sheet, SheetRef
from indelible.engine.writer import Writer
from indelible.runs.keeping import RunKeeping
from tests.chaos.planting import Mutant, put


def told_one_by_one() -> None:
    """Many events are recorded one after the other, and not all in one transaction."""
    tell = RunKeeping.tell

    def broken(self: RunKeeping, run_id: str, token: str | None, happenings: Sequence[Happening]) -> RunMoved:
        moved = [tell(self, run_id, token, [happening]) for happening in happenings]
        return replace(moved[-1], told=tuple(told for each in moved for told in each.told))

    put(RunKeeping, "tell", broken)


def mark_after_event() -> None:
    """That a side effect is known is noted when its event is there, and not with it."""
    _kept_afterwards("_tell", "mark")


def seat_after_event() -> None:
    """Who drives a run is noted when the event that tells of it is there, and not with it."""
    _kept_afterwards("_take", "driver")


def _kept_afterwards(rule: str, kind: str) -> None:
    """Takes the sheets of one kind out of what a rule changes, and writes them after its event."""
    decide, do = getattr(driving, rule), Writer.do
    owed: dict[SheetRef, Sheet] = {}

    def without(*args: Any) -> Step:
        step = decide(*args)
        changes = []
        for change in step.changes:
            owed.update({sheet.ref: sheet for sheet in change.sheets if sheet.kind == kind})
            changes.append(replace(change, sheets=tuple(sheet for sheet in change.sheets if sheet.kind != kind)))
        return Step(step.answer, tuple(changes))

    def broken(self: Writer, command: Command, *rest: Any) -> Answer:
        owed.clear()  # a store may have a command decided more than once
        answer = do(self, command, *rest)
        for sheet in list(owed.values()):
            do(self, Keep(tenant=command.ref.tenant, stamp=command.stamp, sheet=sheet))
        return answer

    put(driving, rule, without)
    put(Writer, "do", broken)


def saved_before_end() -> None:
    """A run that fails is saved first, and called failed afterwards."""
    end = RunKeeping.end

    def broken(
        self: RunKeeping, run_id: str, token: str | None, status: Any, reason: str, *rest: Any, **by: Any
    ) -> Run:
        if rest and rest[0] is not None:
            self.seal(run_id, token, rest[0])
        return end(self, run_id, token, status, reason, None, **by)

    put(RunKeeping, "end", broken)


def told_before_write() -> None:
    """Whoever records an event is told that it is there, and it is written before the next one or at the end."""
    tell, close = RunKeeping.tell, Writer.close
    owed: dict[int, Callable[[], Any]] = {}

    def broken(self: RunKeeping, run_id: str, token: str | None, happenings: Sequence[Happening]) -> RunMoved:
        pay = owed.pop(threading.get_ident(), None)
        if pay is not None:
            pay()
        owed[threading.get_ident()] = lambda: tell(self, run_id, token, happenings)
        return RunMoved(None, tuple(Told(0, happening.type, "recorded") for happening in happenings))

    def paid(self: Writer) -> None:
        while owed:
            owed.popitem()[1]()
        close(self)

    put(RunKeeping, "tell", broken)
    put(Writer, "close", paid)


def stale_run_head() -> None:
    """A process links what it tells of a run to the event it wrote last itself, whatever others wrote since."""
    write = events.fact_event
    last: dict[str, str] = {}

    def broken(*, run_id: str, head: Head, **rest: Any) -> bytes:
        body = write(run_id=run_id, head=Head(head.length, last.get(run_id, head.hash)), **rest)
        last[run_id] = event_hash(body)
        return body

    put(batch, "fact_event", broken)


def looked_before_taking() -> None:
    """Whether anybody drives a run is looked up when somebody begins to resume it, and not when they take it."""
    resume, why_not = RunKeeping.resume, driving._why_not_take
    seen: dict[str, Driver | None] = {}

    def looking(self: RunKeeping, run_id: str, *rest: Any, **more: Any) -> Any:
        seen[run_id] = self.driver(run_id)
        try:
            return resume(self, run_id, *rest, **more)
        finally:
            del seen[run_id]

    def broken(command: Any, run: Run | None, driver: Driver | None, now: Any, sheets: Any) -> RunNotMoved | None:
        return why_not(command, run, seen.get(command.run_id, driver), now, sheets)

    put(RunKeeping, "resume", looking)
    put(driving, "_why_not_take", broken)


def fence_stands_still() -> None:
    """Whoever takes a run over has the same number as the one before."""
    seat = driving._seat

    def broken(command: Any, before: Driver | None, now: Any) -> Driver:
        taken = seat(command, before, now)
        return taken if before is None else replace(taken, fence=before.fence)

    put(driving, "_seat", broken)


def lost_but_telling() -> None:
    """Whoever lost a run can still tell of it."""
    why_not = driving._why_not

    def broken(command: Any, run: Run | None, driver: Driver | None) -> RunNotMoved | None:
        refusal = why_not(command, run, driver)
        return None if refusal is not None and refusal.code == "lost" and isinstance(command, Tell) else refusal

    put(driving, "_why_not", broken)


RUN_MUTANTS: dict[str, Mutant] = {
    "told-one-by-one": Mutant(told_one_by_one, frozenset({"half told"})),
    "mark-after-event": Mutant(mark_after_event, frozenset({"told twice"})),
    "seat-after-event": Mutant(seat_after_event, frozenset({"fence taken twice"})),
    "saved-before-end": Mutant(saved_before_end, frozenset({"half an ending"})),
    "told-before-write": Mutant(told_before_write, frozenset({"lost event"})),
    "stale-run-head": Mutant(stale_run_head, frozenset({"broken chain"})),
    "looked-before-taking": Mutant(looked_before_taking, frozenset({"two drivers"})),
    "fence-stands-still": Mutant(fence_stands_still, frozenset({"fence taken twice"})),
    "lost-but-telling": Mutant(lost_but_telling, frozenset({"told by a lost driver"})),
}
