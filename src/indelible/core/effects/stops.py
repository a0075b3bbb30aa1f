"""The stop: from the moment it is on the record until somebody lets go, no effect of the tenant is entered. Pure.

It is one sheet that every claim is decided on. Stores have it at hand without asking, and guard each claim by its
version; so a stop holds for every process at once, also for one that judged its call before.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple

from indelible.core.effects.effect import Actor
from indelible.core.events import instant
from indelible.core.sheets import Sheet, SheetRef, Sheets, body_of, sheet_at

STOPS_RUN = "indelible:stops"
"""Is the run in which a tenant's effects are stopped and let go."""
STOPPED = "effects_stopped"
LET_GO = "effects_let_go"
STOP_REF = SheetRef("stop", "effects")
_LONGEST_REASON = 2000


Kind = Literal["moved", "lost", "forgery", "person", "gone"]
"""Why effects are stopped. *gone*: what the row said cannot be read, so nobody knows why."""
KINDS_OF_STOPS: tuple[Kind, ...] = ("moved", "lost", "forgery", "person")
"""The kinds that are written, in the order in which causes are told: the first one has to end first."""


class Cause(NamedTuple):
    """Is one reason for which effects are stopped. They go on when no cause is left."""

    kind: Kind
    by: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Says whether a tenant's effects are stopped, since when, by whom and why.

    `below` holds the causes that remain when the one that is told first ends.
    """

    version: int = 1
    is_in_force: bool
    kind: Kind = "person"
    by: str
    at: datetime
    reason: str
    below: tuple[Cause, ...] = ()

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Return why effects are stopped; empty if they are not."""
        return (Cause(self.kind, self.by, self.at, self.reason), *self.below) if self.is_in_force else ()

    def cause(self, kind: Kind) -> Cause | None:
        """Return the cause of this kind."""
        return next((cause for cause in self.causes if cause.kind == kind), None)


def stopped_for(last: Stop | None, *causes: Cause) -> Stop:
    """Return the stop with more causes; each replaces an earlier one of its kind."""
    added = {cause.kind: cause._replace(reason=cause.reason[:_LONGEST_REASON]) for cause in causes}
    return _stop_of(last, ({cause.kind: cause for cause in _known_causes(last)} | added).values())


def stop_by_person(last: Stop | None, *, by: Actor, at: datetime, reason: str) -> Stop | None:
    """Return the stop that a person makes; None if a person stopped effects before."""
    if last is not None and last.cause("person") is not None:
        return None
    return stopped_for(last, Cause("person", by.id, at, reason))


def let_go(last: Stop | None, ended: Container[Kind], *, by: Actor, at: datetime, reason: str) -> Stop:
    """Return what stands once causes of these kinds ended: the other causes, else effects go on."""
    left = [cause for cause in _known_causes(last) if cause.kind not in ended]
    return _stop_of(last, left) if left else _next(last, Stop(is_in_force=False, by=by.id, at=at, reason=reason))


def said_by(stop: Stop, when: datetime, *, by: str, at: datetime) -> Stop:
    """Return a stop of which what a person says now, at `when` by their own clock, is said by this person."""
    if stop.kind == "person" or not stop.is_in_force:
        return replace(stop, by=by, at=at)
    return replace(
        stop, below=tuple(cause._replace(by=by, at=at) if cause.at == when else cause for cause in stop.below)
    )


def _known_causes(last: Stop | None) -> list[Cause]:
    return [] if last is None else [cause for cause in last.causes if cause.kind != "gone"]


def _stop_of(last: Stop | None, causes: Iterable[Cause]) -> Stop:
    first, *below = sorted(causes, key=lambda cause: KINDS_OF_STOPS.index(cause.kind))
    return _next(last, _stop(first, below))


def _stop(first: Cause, below: Iterable[Cause] = (), *, is_in_force: bool = True) -> Stop:
    kind, by, at, reason = first
    return Stop(is_in_force=is_in_force, kind=kind, by=by, at=at, reason=reason, below=tuple(below))


def _next(last: Stop | None, stop: Stop) -> Stop:
    return stop if last is None else replace(stop, version=last.version + 1)


def stop_sheet(stop: Stop) -> Sheet:
    """Writes a stop on its sheet."""
    content = {
        **_written(Cause(stop.kind, stop.by, stop.at, stop.reason)),
        "below": [_written(cause) for cause in stop.below],
        "id": STOP_REF.id,
        "is_in_force": stop.is_in_force,
        "v": 1,
        "version": stop.version,
    }
    status = "stopped" if stop.is_in_force else "let_go"
    return Sheet(kind=STOP_REF.kind, id=STOP_REF.id, version=stop.version, status=status, body=body_of(content))


def _written(cause: Cause) -> dict[str, str]:
    return {"at": instant(cause.at), "by": cause.by, "kind": cause.kind, "reason": cause.reason}


def read_stop(sheet: Sheet) -> Stop:
    """Reads a stop from its sheet; one that was erased or edited by hand is in force, for nobody knows better."""
    if sheet.body is None:
        return replace(_stop(UNKNOWN), version=sheet.version)
    content = sheet.read()
    stop = _stop(_read_cause(content), map(_read_cause, content["below"]), is_in_force=content["is_in_force"])
    return replace(stop, version=sheet.version)


def _read_cause(content: Mapping[str, Any]) -> Cause:
    return Cause(content["kind"], content["by"], datetime.fromisoformat(content["at"]), content["reason"])


def stop_in(sheets: Sheets) -> Stop | None:
    """Gives the stop that is in force, if there is one."""
    sheet = sheet_at(sheets, STOP_REF)
    stop = None if sheet is None else read_stop(sheet)
    return stop if stop is not None and stop.is_in_force else None


def stop_version(sheets: Sheets) -> int:
    """Return the version of the row that a write is decided on, negative if it says stopped; 0 if there is no row.

    After a database was put back, a version comes again and may say the other thing.
    """
    sheet = sheet_at(sheets, STOP_REF)
    if sheet is None:
        return 0
    return -sheet.guard if sheet.status == "stopped" else sheet.guard


_LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
UNKNOWN = Cause("gone", "?", _LONG_AGO, "what was on it is gone")
