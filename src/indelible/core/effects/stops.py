"""The stop: from the moment it is on the record until somebody lets go, no effect of the tenant is entered. Pure.

It is one sheet that every claim is decided on. Stores have it at hand without asking, and guard each claim by its
version; so a stop holds for every process at once, also for one that judged its call before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from indelible.core.effects.effect import Actor
from indelible.core.events import instant
from indelible.core.sheets import Sheet, SheetRef, Sheets, body_of, sheet_at

STOPS_RUN = "indelible:stops"
"""Is the run in which a tenant's effects are stopped and let go."""
STOPPED = "effects_stopped"
LET_GO = "effects_let_go"
STOP_REF = SheetRef("stop", "effects")
_LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Says whether a tenant's effects are stopped, since when, by whom and why."""

    version: int = 1
    is_in_force: bool
    by: str
    at: datetime
    reason: str

    def after(self, *, is_in_force: bool, by: str, at: datetime, reason: str) -> Stop:
        """Gives what stands after somebody stopped them, or let them go."""
        return replace(self, version=self.version + 1, is_in_force=is_in_force, by=by, at=at, reason=reason)


def stands_again(last: Stop, earlier: Stop | None) -> Stop | None:
    """Return the stop whose place the last one took, in the words of who made it; None if there was none."""
    if earlier is None or not earlier.is_in_force:
        return None
    return last.after(is_in_force=True, by=earlier.by, at=earlier.at, reason=earlier.reason)


def stop_after(before: Stop | None, *, is_in_force: bool, by: Actor, at: datetime, reason: str) -> Stop:
    """Gives the next state of a tenant's stop."""
    words = {"is_in_force": is_in_force, "by": by.id, "at": at, "reason": reason[:_LONGEST_REASON]}
    return Stop(**words) if before is None else before.after(**words)  # type: ignore[arg-type]


def stop_sheet(stop: Stop) -> Sheet:
    """Writes a stop on its sheet."""
    content = {
        "at": instant(stop.at),
        "by": stop.by,
        "id": STOP_REF.id,
        "is_in_force": stop.is_in_force,
        "reason": stop.reason,
        "v": 1,
        "version": stop.version,
    }
    status = "stopped" if stop.is_in_force else "let_go"
    return Sheet(kind=STOP_REF.kind, id=STOP_REF.id, version=stop.version, status=status, body=body_of(content))


def read_stop(sheet: Sheet) -> Stop:
    """Reads a stop from its sheet; one that was erased or edited by hand is in force, for nobody knows better."""
    if sheet.body is None:
        return Stop(version=sheet.version, is_in_force=True, by="?", at=_LONG_AGO, reason="what was on it is gone")
    content = sheet.read()
    return Stop(
        version=sheet.version,
        is_in_force=content["is_in_force"],
        by=content["by"],
        at=datetime.fromisoformat(content["at"]),
        reason=content["reason"],
    )


def stop_in(sheets: Sheets) -> Stop | None:
    """Gives the stop that is in force, if there is one."""
    sheet = sheet_at(sheets, STOP_REF)
    stop = None if sheet is None else read_stop(sheet)
    return stop if stop is not None and stop.is_in_force else None


def stop_version(sheets: Sheets) -> int:
    """Return the version that a claim is decided on, negative if its row says stopped; 0 if there never was a stop.

    After a database was put back, a version comes again and may say the other thing.
    """
    sheet = sheet_at(sheets, STOP_REF)
    if sheet is None:
        return 0
    return -sheet.version if sheet.status == "stopped" else sheet.version


_LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
