"""Figures for charts: what happened in a period, how long it took, and what waits."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from indelible.core.events import instant, instant_or_none
from indelible.core.filtering.filters import UNITS, Since, at
from indelible.core.filtering.reading import parse
from indelible.core.stats import GROUPS, MOST_STRETCHES, By, Figure, Metric
from indelible.engine.running import in_own_thread
from indelible.errors import BadCall
from indelible.server.counting import FILTERED, Counting, Period
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.filters import Q
from indelible.server.requests.routing import resources

LONGEST = timedelta(days=90)
_INTERVAL = re.compile(r"([1-9][0-9]{0,5})([smhdw])", re.ASCII)

stats: APIRouter = resources("stats")


class FigureShown(BaseModel):
    """Is one figure; what does not belong to its metric is null. Amounts are texts, so that nothing is rounded."""

    at: str | None
    group: str | None
    count: int | None
    p50_s: float | None
    p95_s: float | None
    oldest_id: str | None
    oldest_at: str | None
    used: str | None
    limit: str | None


class StatsShown(BaseModel):
    """Are the figures of a period. Where there was too much to look at, only the newest count: `is_complete` tells."""

    metric: Metric
    by: By | None
    interval: str | None
    since: str
    until: str
    looked_at: int
    is_complete: bool
    figures: list[FigureShown]


@stats.get("/v1/stats")
async def show_stats(
    metric: Metric = "effects",
    by: By | None = None,
    interval: Annotated[str | None, Query(description="The length of a stretch of time, as in 1m, 1h or 1d.")] = None,
    since: Annotated[str, Query(description="How long ago it begins, or when, as in a filter.")] = "24h",
    q: Q = "",
    asked: Asking = asking("read_rules"),
) -> StatsShown:
    """Counts effects by status over time, how long they took, replays, approvals, decisions, doubts and budgets."""
    period = _period(metric, by, interval, since, q)
    found = await in_own_thread(Counting(asked, period).figures, metric)
    return StatsShown(
        metric=metric,
        by=period.by,
        interval=interval,
        since=instant(period.since),
        until=instant(period.until),
        looked_at=period.looked_at,
        is_complete=period.is_complete,
        figures=[_shown(figure) for figure in found],
    )


def _period(metric: Metric, by: By | None, interval: str | None, since: str, q: str) -> Period:
    allowed = GROUPS[metric]
    if by is not None and by not in allowed:
        raise BadCall(f"by={by}: {metric} is counted by {' or '.join(allowed) or 'nothing else'}")
    if q.strip() and metric not in FILTERED:
        raise BadCall(f"q: {metric} takes no filter; leave it away")
    query = parse(q, FILTERED.get(metric, "effects"))
    now = datetime.now(UTC)
    begin = _moment(since, now)
    return Period(
        since=max(begin, query.since(now) or begin),
        until=min(now, query.until(now) or now),
        now=now,
        query=query,
        by=by or (allowed[0] if allowed else None),
        interval=None if interval is None else _interval(interval, now - begin),
    )


def _moment(since: str, now: datetime) -> datetime:
    terms = parse(f"since:{since}", "effects").terms
    if len(terms) != 1 or not isinstance(terms[0], Since):
        raise BadCall("since: write how long ago, as in 90s, 30m, 24h or 7d, or a moment as in 2030-01-31T12:00Z")
    begin = at(terms[0].moment, now)
    if now - begin > LONGEST:
        raise BadCall(f"since: at most {LONGEST.days} days ago; ask for less at once")
    return begin


def _interval(text: str, length: timedelta) -> timedelta:
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise BadCall("interval: write a length as in 1m, 5m, 1h or 1d")
    interval = int(found[1]) * UNITS[found[2]]
    if length / interval > MOST_STRETCHES:
        raise BadCall(f"interval: more than {MOST_STRETCHES} of them in that time; make it longer, or ask for less")
    return interval


def _shown(figure: Figure) -> FigureShown:
    return FigureShown(
        at=instant_or_none(figure.at),
        group=figure.group,
        count=figure.count,
        p50_s=figure.p50_s,
        p95_s=figure.p95_s,
        oldest_id=figure.oldest_id,
        oldest_at=instant_or_none(figure.oldest_at),
        used=None if figure.used is None else f"{figure.used:f}",
        limit=None if figure.limit is None else f"{figure.limit:f}",
    )
