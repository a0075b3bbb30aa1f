"""Who does the work that one process is enough for: a lease among those who could. Pure.

It saves work and nothing else. Whatever is done under it is safe when two do it at once, for a holder that was held up
may go on for a while after its time. A lease is a sheet that is kept aside, in a tenant of its own that has no events.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from indelible.core.events import instant
from indelible.core.sheets import Sheet, SheetFilter, body_of

LEASES_TENANT = "indelible:leases"
"""Is where leases are kept: they are about a whole ledger, and no tenant's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLease:
    """Is the right of one process to do some work until a moment; `lag_s` is how far behind it says that it is."""

    name: str
    version: int = 1
    holder: str
    until: datetime
    lag_s: int = 0
    problems: int = 0

    def is_held(self, now: datetime) -> bool:
        """Does somebody have it?"""
        return bool(self.holder) and now < self.until


def wanted_lease(
    found: WorkLease | None,
    name: str,
    holder: str,
    now: datetime,
    length: timedelta,
    *,
    lag_s: int = 0,
    problems: int = 0,
) -> WorkLease | None:
    """Gives the lease as it is when we take it or go on with it; None while it is somebody else's."""
    if found is not None and found.holder != holder and found.is_held(now):
        return None
    version = 1 if found is None else found.version + 1
    return WorkLease(name=name, version=version, holder=holder, until=now + length, lag_s=lag_s, problems=problems)


def given_back(lease: WorkLease, now: datetime) -> WorkLease:
    """Gives the lease as it is when its holder needs it no more: the next one need not wait."""
    return WorkLease(name=lease.name, version=lease.version + 1, holder="", until=now)


def lease_filter(name: str) -> SheetFilter:
    """Selects the sheet of a lease."""
    return SheetFilter(kind="lease", id=name, limit=1)


def lease_sheet(lease: WorkLease) -> Sheet:
    """Writes a lease on its sheet."""
    content = {
        "holder": lease.holder,
        "lag_s": lease.lag_s,
        "problems": lease.problems,
        "until": instant(lease.until),
    }
    return Sheet(
        kind="lease",
        id=lease.name,
        version=lease.version,
        status="held" if lease.holder else "free",
        body=body_of(content),
    )


def read_lease(sheet: Sheet) -> WorkLease:
    """Reads a lease from its sheet."""
    content = sheet.read()
    return WorkLease(
        name=sheet.id,
        version=sheet.version,
        holder=content["holder"],
        until=datetime.fromisoformat(content["until"]),
        lag_s=content["lag_s"],
        problems=content["problems"],
    )
