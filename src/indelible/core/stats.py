"""Counts over what happened: how many in which stretch of time, and how long things took. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

from indelible.core.approvals.approval import Approval
from indelible.core.effects.effect import SETTLED
from indelible.core.policy.budgets import Budget
from indelible.core.policy.verdicts import Charge
from indelible.core.ports import Outline

Metric = Literal["effects", "latency", "replays", "approvals", "decisions", "in_doubt", "budgets"]
By = Literal["status", "tool", "side_effect", "person", "decision"]
GROUPS: dict[Metric, tuple[By, ...]] = {
    "effects": ("status", "tool", "side_effect"),
    "latency": ("tool", "side_effect"),
    "replays": ("tool",),
    "approvals": ("status", "tool"),
    "decisions": ("person", "tool", "decision"),
    "in_doubt": ("tool",),
    "budgets": (),
}
"""Says by what each figure is counted, the usual one first."""
MOST_STRETCHES = 1500
"""Is how many stretches of time one answer tells of."""
_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Is one number, or some: of a group, in the stretch of time that begins at `at`, or of all of it."""

    at: datetime | None = None
    group: str | None = None
    count: int | None = None
    p50_s: float | None = None
    p95_s: float | None = None
    oldest_id: str | None = None
    oldest_at: datetime | None = None
    used: Decimal | None = None
    limit: Decimal | None = None


def stretch_of(moment: datetime, interval: timedelta | None) -> datetime | None:
    """Gives when the stretch of time begins that a moment lies in; they begin alike wherever one starts to count."""
    return None if interval is None else moment - (moment - _START) % interval


Place = tuple[datetime | None, str]


def _in_order(places: Iterable[Place]) -> list[Place]:
    return sorted(places, key=lambda place: (place[0] or _START, place[1]))


def summed(counts: Mapping[Place, int]) -> list[Figure]:
    """Gives counts by stretch and group, in their order."""
    return [Figure(at=place[0], group=place[1], count=counts[place]) for place in _in_order(counts)]


def timed(lasted: Iterable[tuple[Place, timedelta]]) -> list[Figure]:
    """Tells for each stretch and group how many there were, and how long half and nineteen of twenty took at most."""
    seconds: defaultdict[Place, list[float]] = defaultdict(list)
    for place, duration in lasted:
        seconds[place].append(max(0.0, duration.total_seconds()))
    return [
        Figure(at=place[0], group=place[1], count=len(found), p50_s=quantile(found, 50), p95_s=quantile(found, 95))
        for place in _in_order(seconds)
        for found in [sorted(seconds[place])]
    ]


def quantile(ordered: Sequence[float], percent: int) -> float:
    """Gives the smallest of these values that so many percent of them do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def effects_counted(outlines: Iterable[Outline], by: By, interval: timedelta | None) -> list[Figure]:
    """Counts effects by when they were opened."""
    return summed(Counter((stretch_of(one.created_at, interval), str(getattr(one, by))) for one in outlines))


def latency(outlines: Iterable[Outline], by: By, interval: timedelta | None) -> list[Figure]:
    """Tells how long calls took from being opened to their outcome.

    Only those count that nobody was asked about and that took one attempt: else it would be the time that people and
    retries took.
    """
    return timed(
        ((stretch_of(one.created_at, interval), str(getattr(one, by))), one.updated_at - one.created_at)
        for one in outlines
        if one.status in SETTLED and one.attempt == 1 and one.approval_id is None
    )


def approvals_counted(approvals: Iterable[Approval], by: By, interval: timedelta | None) -> list[Figure]:
    """Counts approvals by when they were asked for, and names the oldest of each."""
    found: defaultdict[Place, list[Approval]] = defaultdict(list)
    for one in approvals:
        found[stretch_of(one.asked_at, interval), str(getattr(one, by))].append(one)
    figures = []
    for place in _in_order(found):
        oldest = min(found[place], key=lambda one: one.asked_at)
        at, group, count = *place, len(found[place])
        figures.append(Figure(at=at, group=group, count=count, oldest_id=oldest.id, oldest_at=oldest.asked_at))
    return figures


def decisions(approvals: Iterable[Approval], by: By, since: datetime, interval: timedelta | None) -> list[Figure]:
    """Tells who decided how often, and how long after it was asked."""
    return timed(
        ((stretch_of(vote.at, interval), _voter(one, vote.by, vote.is_approval, by)), vote.at - one.asked_at)
        for one in approvals
        for vote in one.votes
        if vote.at >= since
    )


def _voter(approval: Approval, person: str, is_approval: bool, by: By) -> str:
    if by == "decision":
        return "approve" if is_approval else "deny"
    return person if by == "person" else approval.tool


def doubts(outlines: Iterable[Outline]) -> list[Figure]:
    """Counts what is in doubt by its tool, and names the oldest of each."""
    found: defaultdict[str, list[Outline]] = defaultdict(list)
    for one in outlines:
        found[one.tool].append(one)
    figures = []
    for tool in sorted(found):
        oldest = min(found[tool], key=lambda one: one.updated_at)
        figures.append(Figure(group=tool, count=len(found[tool]), oldest_id=oldest.id, oldest_at=oldest.updated_at))
    return figures


def budget_figure(name: str, budget: Budget, charge: Charge | None, now: datetime) -> Figure:
    """Tells how much of a budget is used, and of how much where the policy in force still names it."""
    if charge is None:
        return Figure(group=name, used=sum(budget.spent.values(), budget.reserved))
    return Figure(group=name, used=budget.used(charge, now), limit=charge.limit)
