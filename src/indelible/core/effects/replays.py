"""How often a recorded outcome was given instead of doing something again, by hour, tool and minute. Pure.

A replay is a read, so nobody waits for its count: servers note what they answered and write it down behind, on sheets
that no event commits to. A server that is killed loses the counts of its last seconds, and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from indelible.core.sheets import Sheet, SheetRef, body_of

MOST_TOOLS = 200
"""Is how many tools are told apart within an hour; those that come later are counted together."""
OTHERS = "(other tools)"
HOUR = timedelta(hours=1)
KEPT_FOR = timedelta(days=90)
"""Is for how long counts are kept."""
Counts = Mapping[tuple[str, datetime], int]
"""Says how often, by the tool and the minute."""


def minute_of(moment: datetime) -> datetime:
    """Gives the minute that a moment lies in."""
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def replays_ref(hour: datetime) -> SheetRef:
    """Locates the counts of an hour."""
    return SheetRef("replays", f"rpl_{hour:%Y%m%dT%H}")


def by_hour(counts: Counts) -> dict[datetime, dict[tuple[str, datetime], int]]:
    """Gives counts by the hour they belong to."""
    hours: defaultdict[datetime, dict[tuple[str, datetime], int]] = defaultdict(dict)
    for (tool, minute), count in counts.items():
        hours[minute.replace(minute=0)][tool, minute] = count
    return hours


def added(sheet: Sheet | None, hour: datetime, more: Counts) -> Sheet:
    """Gives the sheet of an hour with more counted on it."""
    tools: dict[str, dict[int, int]] = {}
    for (tool, minute), count in (*read_replays(sheet, hour).items(), *more.items()):
        name = tool if tool in tools or len(tools) < MOST_TOOLS else OTHERS
        minutes = tools.setdefault(name, {})
        minutes[minute.minute] = minutes.get(minute.minute, 0) + count
    told = [{"minutes": sorted(map(list, minutes.items())), "tool": tool} for tool, minutes in sorted(tools.items())]
    body = body_of({"tools": told})
    if sheet is not None:
        return sheet.after(status="counted", body=body, due_at=hour + KEPT_FOR)
    ref = replays_ref(hour)
    return Sheet(kind=ref.kind, id=ref.id, status="counted", due_at=hour + KEPT_FOR, body=body)


def read_replays(sheet: Sheet | None, hour: datetime) -> dict[tuple[str, datetime], int]:
    """Reads the counts of an hour."""
    if sheet is None or sheet.body is None:
        return {}
    return {
        (each["tool"], hour + timedelta(minutes=minute)): count
        for each in sheet.read()["tools"]
        for minute, count in each["minutes"]
    }


def hours_between(since: datetime, until: datetime) -> Iterable[datetime]:
    """Gives the hours that lie in a period, at least partly."""
    hour = since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    while hour < until:
        yield hour
        hour += HOUR
