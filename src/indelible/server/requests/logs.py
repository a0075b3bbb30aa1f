"""What a server writes to its log: one line for each request and for each trouble, as text or as JSON.

A line holds what we name ourselves: routes, statuses, ids. It never holds what a caller sent: no payload, no query, no
header, no path. Of an exception that nobody foresaw it tells the kinds and the places, for its words may hold anything.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

LogFormat = Literal["text", "json"]
REQUESTS = "indelible.server.requests"
TOLD = "indelible_told"
"""Is the attribute of a log record that holds its facts by name."""


@contextmanager
def log_written(form: LogFormat, level: str) -> Iterator[None]:
    """Sends our log and the web server's to standard error, in one form, as long as the block lasts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    own = logging.getLevelNamesMapping()[level.upper()]
    ours = {logging.getLogger("indelible"): own, logging.getLogger("uvicorn"): max(own, logging.WARNING)}
    before = {logger: (logger.handlers[:], logger.level, logger.propagate) for logger in ours}
    for logger, least in ours.items():
        logger.handlers[:] = [handler]
        logger.setLevel(least)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (handlers, was, propagated) in before.items():
            logger.handlers[:], logger.propagate = handlers, propagated
            logger.setLevel(was)


class JsonLines(logging.Formatter):
    """Writes each record as one object."""

    def format(self, record: logging.LogRecord) -> str:
        """Gives the line."""
        return json.dumps({**_head(record), **_facts(record)}, ensure_ascii=True)


class TextLines(logging.Formatter):
    """Writes each record for people: the time, the level, the message, then its facts."""

    def format(self, record: logging.LogRecord) -> str:
        """Gives the line; what does not print is shown escaped, so that nobody forges a line."""
        head = _head(record)
        facts = " ".join(f"{name}={value}" for name, value in _facts(record).items() if value is not None)
        line = f"{head['time']} {head['level']} {head['logger']}: {head['message']} {facts}".rstrip()
        return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line)


def _head(record: logging.LogRecord) -> dict[str, Any]:
    at = datetime.fromtimestamp(record.created, UTC)
    return {
        "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage().splitlines()[0] if record.exc_info else record.getMessage(),
    }


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    facts: dict[str, Any] = dict(getattr(record, TOLD, {}))
    if record.exc_info and record.exc_info[1] is not None:
        facts["error"] = causes_of(record.exc_info[1])
    return facts


def causes_of(error: BaseException) -> str:
    """Tells an exception and what caused it, each by its kind and the last places it came through, the newest first."""
    told: list[str] = []
    now: BaseException | None = error
    while now is not None and len(told) < 5:
        told.append(f"{type(now).__qualname__} at {_places(now)}")
        now = now.__cause__ or (None if now.__suppress_context__ else now.__context__)
    return " from ".join(told)


def _places(error: BaseException) -> str:
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})")
        trace = trace.tb_next
    return " < ".join(places[:-4:-1]) or "nowhere"
