"""Moments that somebody types: until when something holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SPAN = re.compile(r"([0-9]{1,6})([mhdw])")


def moment_ahead(text: str, option: str = "--until") -> datetime:
    """Reads an end: a span from now, such as 8h or 7d, or a moment in UTC unless it names a zone."""
    now = datetime.now(UTC)
    span = _SPAN.fullmatch(text.strip())
    try:
        at = now + int(span[1]) * UNITS[span[2]] if span else datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise _wrong(
            option, text, "give a span such as 30m, 8h, 7d or 2w, or a moment such as 2030-01-31T18:00"
        ) from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    if at <= now:
        raise _wrong(option, text, f"that is past (it is {now:%Y-%m-%d %H:%M} UTC); give a moment to come")
    return at


def span(text: str, option: str) -> timedelta:
    """Reads how long something lasts, such as 8h or 90d."""
    found = _SPAN.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise _wrong(option, text, "give a span such as 30m, 8h, 7d or 2w")
    return int(found[1]) * UNITS[found[2]]


def _wrong(option: str, text: str, why: str) -> click.UsageError:
    return click.UsageError(f"{option} {text}: {why}", click.get_current_context(silent=True))
