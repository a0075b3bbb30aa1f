"""Moments and spans that somebody types: until when, since when, how long."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_SPAN = re.compile(r"([0-9]{1,6})(min|[smhdw])")


def moment_ahead(text: str, option: str = "--until") -> datetime:
    """Reads an end: a span from now, such as 8h or 7d, or a moment in UTC unless it names a zone."""
    now = datetime.now(UTC)
    given = span_or_moment(text, option)
    at = now + given if isinstance(given, timedelta) else given
    if at <= now:
        raise _wrong(option, text, f"that is past (it is {now:%Y-%m-%d %H:%M} UTC); give a moment to come")
    return at


def moment_before(text: str, option: str) -> datetime:
    """Reads a beginning: how long ago, such as 12h or 30d, or a moment in UTC unless it names a zone."""
    given = span_or_moment(text, option)
    return datetime.now(UTC) - given if isinstance(given, timedelta) else given


def check_deletes(text: str, option: str) -> str:
    """Return an age for deleting; raise a `UsageError` for one such as 1m, which may mean a minute or a month."""
    found = _SPAN.fullmatch(text.strip())
    if found is not None and found[2] == "m":
        number = int(found[1])
        days, minutes = f"{number * 30}d", f"{number}min"
        raise _wrong(option, text, f"m may mean months or minutes; write {days} for days, or {minutes} for minutes")
    return text


def span(text: str, option: str) -> timedelta:
    """Reads how long something lasts, such as 8h or 90d."""
    found = _SPAN.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise _wrong(option, text, "give a span such as 30m, 8h, 7d or 2w")
    return int(found[1]) * UNITS[found[2]]


def span_or_moment(text: str, option: str) -> datetime | timedelta:
    """Reads a span, such as 90d, or a moment in UTC unless it names a zone; both within what a calendar has."""
    found = _SPAN.fullmatch(text.strip())
    try:
        if found:
            return _within_calendars(int(found[1]) * UNITS[found[2]])
        at = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        steps = "give a span such as 30m, 8h, 7d or 2w, or a moment such as 2030-01-31 or 2030-01-31T18:00"
        raise _wrong(option, text, steps) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _within_calendars(lasts: timedelta) -> timedelta:
    """Gives a span if there is a moment so far ahead and so long ago; raises `OverflowError` otherwise."""
    now = datetime.now(UTC)
    _ = now + lasts, now - lasts
    return lasts


def _wrong(option: str, text: str, why: str) -> click.UsageError:
    return click.UsageError(f"{option} {text}: {why}", click.get_current_context(silent=True))
