"""The lives of runs as a journal tells them: begun, driven by one after the other, saved, and over when over. Pure.

What is kept of a run: how it stands, the number of its newest driver, a hash of what of it never changes, and, while it
may still be resumed, a number for each checkpoint. Nothing is kept of runs that were never started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from indelible.core.events import instant
from indelible.core.runs.run import OVER
from indelible.core.verifying.bodies import FactBody, unquoted
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.run_moves import (
    HANDED,
    INTERRUPTED,
    MAY_BE_TOLD,
    NOT_STARTED,
    RESUMED,
    SEALED,
    STARTED,
    UNKNOWN,
    form_of,
    is_by_hand,
    is_by_the_ledger,
    status_after,
)
from indelible.core.verifying.sheet_bodies import checkpoint_in, fits, never_changing, run_in

_SHEETS = frozenset({"run", "checkpoint"})


@dataclass(slots=True)
class _Course:
    """Is what is known of a run."""

    status: str
    gaps: int
    fence: int = 0
    lost_at: int | None = None
    """Is the event that told that its driver was lost; the next one tells who took it."""
    is_seen_whole: bool = False
    """Was every event since its start shown? Only then it is known which checkpoints it has."""
    checkpoints: set[int] | None = None
    never_changing: int | None = None


class RunLives:
    """Follows what is told of runs, each in its order, and raises `Caught` at the first that the rules do not allow.

    `is_whole` says that every event of every run that is shown at all is shown.
    """

    def __init__(self, *, is_whole: bool) -> None:
        self._is_whole = is_whole
        self._courses: dict[str, _Course] = {}

    def take(self, fact: FactBody, shown: Mapping[str, bytes], gaps: int) -> None:
        """Takes in an event about no effect; `gaps` counts where its run was not shown, up to here."""
        is_move = is_by_the_ledger(fact.type, fact.facts)
        if not is_move and not is_by_hand(fact.type, fact.facts):
            if not _SHEETS.isdisjoint(fact.commits):
                raise Caught(f"{fact.type} tells of no run, and commits to one or to a checkpoint")
            return
        check_form(fact)
        course = self._course(fact, gaps)
        if course.lost_at is not None and (fact.type, fact.seq) != (RESUMED, course.lost_at + 1):
            raise Caught("the run lost its driver, and the next event does not tell who took it over")
        course.lost_at = None
        after = status_of_run(course.status, fact)
        if is_move:
            self._move(course, fact, shown, after)

    def _course(self, fact: FactBody, gaps: int) -> _Course:
        """Gives what is known of a run before this event; a run that was never started is not kept."""
        course = self._courses.get(fact.run)
        if course is None:
            course = _Course(NOT_STARTED if self._is_whole or fact.seq == 0 else UNKNOWN, gaps)
            if not self._is_whole or fact.type == STARTED:
                self._courses[fact.run] = course
        elif course.gaps != gaps:
            course.status, course.gaps, course.lost_at = UNKNOWN, gaps, None
            course.is_seen_whole, course.checkpoints = False, None
        return course

    def _move(self, course: _Course, fact: FactBody, shown: Mapping[str, bytes], after: str) -> None:
        kind = fact.type
        if "fence" in fact.facts:
            _check_fence(course, fact)
        if kind == SEALED:
            _check_sealed(course, fact, shown)
        elif kind == RESUMED:
            _check_resumed(course, fact)
        elif kind == STARTED:
            course.is_seen_whole = True
        course.status = after
        if "run" in shown:
            _check_run(course, fact, shown["run"])
        if after in OVER:
            course.checkpoints = None


def status_of_run(before: str, fact: FactBody) -> str:
    """Return how a run stands after what is told of it; raise `Caught` if the rules do not allow it."""
    if not is_by_the_ledger(fact.type, fact.facts):
        if before not in MAY_BE_TOLD:
            raise Caught(f"something is told of a run that is {before}: nothing can be added to it")
        return before
    after = status_after(before, fact.type)
    if after is None:
        raise Caught(f"no {fact.type} follows in a run that is {before or 'not started'}")
    return after


def check_form(fact: FactBody) -> None:
    """Raise unless what is told of a run says in clear, and commits to, what belongs there."""
    form = form_of(fact.type, fact.facts)
    if not fits(fact.facts, form.facts):
        raise Caught(f"{fact.type} says {', '.join(form.facts) or 'nothing'} in clear, each in its own way")
    names = tuple(sorted(fact.commits))
    if names not in form.commits:
        raise Caught(f"{fact.type} does not commit to ({', '.join(names)})")
    if fact.facts.get("status") == "skipped" and "side_effect_key" not in names:
        raise Caught(f"{fact.type} was skipped, and names no side effect that was told before")


def _check_fence(course: _Course, fact: FactBody) -> None:
    """Raises unless each driver has a higher number than all before, and the one that was lost is the newest."""
    fence = fact.facts["fence"]
    if fact.type == INTERRUPTED:
        if course.fence not in (0, fence):
            raise Caught("it tells of another driver than the newest", expected=str(course.fence), found=str(fence))
        course.lost_at = fact.seq
    elif fence <= course.fence:
        what = "its driver's number is not higher than those before"
        raise Caught(what, expected=f"more than {course.fence}", found=str(fence))
    course.fence = fence


def _check_sealed(course: _Course, fact: FactBody, shown: Mapping[str, bytes]) -> None:
    """Raises unless a checkpoint is of an earlier event of its own run, and is what its event says of it."""
    at, name = fact.facts["at"], fact.facts["checkpoint"]
    if not 0 <= at < fact.seq:
        raise Caught("its checkpoint is of no earlier event", expected=f"less than {fact.seq}", found=str(at))
    if course.is_seen_whole:
        course.checkpoints = course.checkpoints or set()
        if hash(name) in course.checkpoints:
            raise Caught(f"{name} was sealed before")
        course.checkpoints.add(hash(name))
    if "checkpoint" not in shown:
        return
    found = checkpoint_in(shown["checkpoint"])
    expected = {
        "run_id": unquoted(fact.run),
        "at": at,
        "reason": fact.facts["reason"],
        "has_state": "state" in fact.commits,
        "created_at": fact.at,
    }
    for name, value in expected.items():
        one = instant(found.created_at) if name == "created_at" else getattr(found, name)
        if one != value:
            raise Caught(f"its checkpoint has another {name} than it", expected=str(value), found=str(one))


def _check_resumed(course: _Course, fact: FactBody) -> None:
    """Raises unless a run goes on from a checkpoint of its own."""
    name = fact.facts["checkpoint"]
    if name is not None and course.is_seen_whole and hash(name) not in (course.checkpoints or ()):
        raise Caught(f"{name} is no checkpoint of this run")


def _check_run(course: _Course, fact: FactBody, value: bytes) -> None:
    """Raises unless a run is what its event says, and what it was, but for how it stands."""
    found = run_in(value)
    expected = {"status": course.status, "updated_at": fact.at}
    if fact.type == STARTED:
        expected |= {"created_at": fact.at, "parent": fact.facts["parent"], "parent_event": fact.facts["parent_event"]}
    if fact.type == HANDED:
        told = fact.facts["to"], fact.facts["until"]
        if found.handover is None or told != (found.handover.to, instant(found.handover.until)):
            raise Caught("its run was handed over to another ledger than it tells")
    for name, wanted in expected.items():
        one = getattr(found, name)
        one = instant(one) if name in ("created_at", "updated_at") else one
        if one != wanted:
            raise Caught(f"its run has another {name} than it tells", expected=str(wanted), found=str(one))
    number = hash(never_changing(found))
    if course.never_changing not in (None, number):
        raise Caught("its run is another one than before: only how a run stands changes")
    course.never_changing = number
