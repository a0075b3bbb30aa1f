"""When the server is away, busy or refuses: how long to go on trying, and what to tell the caller in the end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from indelible.errors import BadCall, IndelibleError, Misconfigured, OutcomeUnknown, SchemaOutdated, StoreUnavailable
from indelible.stores.postgres.address import Target
from indelible.stores.postgres.connections import Line, Lost, Rejected, Session

Result = TypeVar("Result")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5
# Whoever comes while the server is known to be away gets this much instead of the full time.
_SECONDS_WHILE_AWAY = 0.5

# Serialisation failure, deadlock; a lock, memory or a connection that may be free again soon; a server that starts or
# stops; a statement that was cancelled; a prepared statement that a pooler sent elsewhere.
_WORTH_ANOTHER_TRY = ("40001", "40P01", "55P03", "57", "53000", "53200", "53300", "25006", "26000", "42P05")
# A value that its column cannot hold, or names that are too long for an index.
_ABOUT_THE_VALUE = ("22", "54000")
# What the server will not do, however often it is asked: not supported, not authorised, no such database or table, a
# limit in its configuration, a program limit.
_FOR_GOOD = ("0A", "0L", "0P", "28", "3D", "3F", "42", "53400", "54")
_DISK_FULL = "53100"
KEPT_AWAY = "2201E"
"""Is the code of a statement whose rows a trigger kept away: see `kept_away` in queries.sql."""
_NOT_SUPPORTED = "0A000"
_CHECKS_PLANS = "RevalidateCachedQuery"


class Patience:
    """Is the time one call has, and how much of it one statement may take."""

    __slots__ = ("_ends", "_pause", "_seconds")

    def __init__(self, seconds: float, target: Target) -> None:
        self._seconds = min(seconds, _SECONDS_WHILE_AWAY) if target.is_away else seconds
        self._ends = time.monotonic() + self._seconds
        self._pause = _FIRST_PAUSE

    @property
    def is_over(self) -> bool:
        """Is the time up?"""
        return time.monotonic() >= self._ends

    @property
    def until(self) -> float:
        """Is when the next statement has to be answered: half the time is kept to find out what became of it."""
        return time.monotonic() + self._seconds / 2

    def pause(self) -> None:
        """Waits a moment, longer each time, and never the same for two who got in each other's way."""
        time.sleep(min(self._pause * random.uniform(0.5, 1.0), max(0.0, self._ends - time.monotonic())))  # noqa: S311
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def is_worth_another_try(problem: Lost | Rejected) -> bool:
    """May the same succeed in a moment?"""
    if isinstance(problem, Lost):
        return not problem.is_final
    return problem.sqlstate.startswith(_WORTH_ANOTHER_TRY) or _is_old_plan(problem)


def _is_old_plan(problem: Rejected) -> bool:
    """Is a prepared statement older than the schema? That has the same code as what the server cannot do at all."""
    return problem.sqlstate == _NOT_SUPPORTED and problem.raised_in == _CHECKS_PLANS


def is_away(problem: Lost | Rejected) -> bool:
    """Is nobody there? Who took the question and answers late is there, and needs more time and not less."""
    return isinstance(problem, Lost) and not problem.may_have_run and not problem.is_final


def needs_new_connection(problem: Lost | Rejected) -> bool:
    """Is this connection of no more use?"""
    return isinstance(problem, Lost) or problem.sqlstate == "25006" or _is_old_plan(problem)  # now a standby


def patiently(line: Line, seconds: float, work: Callable[[Session, float], Result]) -> Result:
    """Carries out what may be repeated, and repeats it while the server is away or busy."""
    with line.lock:
        return patiently_in_turn(line, seconds, work)


def patiently_in_turn(line: Line, seconds: float, work: Callable[[Session, float], Result]) -> Result:
    """Does what `patiently` does, for whoever holds the line's lock."""
    patience = Patience(seconds, line.target)
    while True:
        try:
            found = work(line.session(patience.until), patience.until)
        except (Lost, Rejected) as problem:
            line.drop()
            if patience.is_over or not is_worth_another_try(problem):
                line.target.is_away = is_away(problem)
                raise explained(line.target, problem) from problem
            patience.pause()
        except BaseException:
            line.drop()  # in the middle of a transaction it would hold its locks
            raise
        else:
            line.target.is_away = False
            return found


def explained(target: Target, problem: Lost | Rejected, *, is_outcome_unknown: bool = False) -> IndelibleError:
    """Gives what the caller is told: the store, what happened, the next step."""
    if is_outcome_unknown:
        return OutcomeUnknown(
            f"{target.address}: a commit was sent, and whether it took place could not be learnt ({problem}); look at "
            "the effect when the server answers again, or make the same call again, which is safe"
        )
    if isinstance(problem, Lost) and problem.is_final:
        return Misconfigured(
            f"{target.address} does not let us in ({problem}); nothing was written. Mend the address, the password or "
            "the server, then call again"
        )
    if isinstance(problem, Lost):
        return StoreUnavailable(
            f"{target.address} cannot be reached ({problem}); nothing was written. See to the server, then call again"
        )
    if problem.sqlstate in ("42P01", "42703", "3F000"):
        return SchemaOutdated(
            f"{target.address} does not have the tables of this version ({problem}); run: indelible migrate, with the "
            "same URL"
        )
    if problem.sqlstate == "42501":
        return Misconfigured(
            f"{target.address}: the user lacks a right ({problem}); nothing was written. Connect as a member of the "
            "group role that has it, writer or eraser (`indelible migrate` makes them and grants their rights)"
        )
    if problem.sqlstate == KEPT_AWAY:
        return Misconfigured(
            f"{target.address}: a trigger of yours on the ledger's tables kept a row away, so nothing was "
            "written. Take it away (indelible doctor names it), then call again"
        )
    if problem.sqlstate.startswith(_ABOUT_THE_VALUE):
        return BadCall(f"{target.address} cannot keep this value ({problem}); nothing was written")
    if problem.sqlstate.startswith(_FOR_GOOD) and not is_worth_another_try(problem):
        return Misconfigured(
            f"{target.address} refuses this, now and later ({problem}); nothing was written. Change on the server what "
            "it names, then call again"
        )
    if problem.sqlstate == _DISK_FULL:
        return StoreUnavailable(
            f"{target.address}: the server's disk is full ({problem}); nothing was written. Free some room, then call "
            "again"
        )
    return StoreUnavailable(f"{target.address}: {problem}; nothing was written. See to it, then call again")
