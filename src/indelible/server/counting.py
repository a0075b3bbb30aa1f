"""Reads what is counted: newest first, without what was recorded where that is enough, and never without end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from indelible.core import stats
from indelible.core.approvals.approval import Approval
from indelible.core.effects.effect import Effect
from indelible.core.effects.replays import hours_between, minute_of, read_replays, replays_ref
from indelible.core.filtering.filters import Query, Resource, Word
from indelible.core.filtering.matching import approval_subject, effect_subject, fits, outline_subject
from indelible.core.policy.budgets import read_budget
from indelible.core.policy.charging import BudgetRule
from indelible.core.policy.policy import policy_of
from indelible.core.policy.verdicts import Charge
from indelible.core.ports import Filter, Outline
from indelible.core.sheets import Sheet, SheetFilter
from indelible.core.stats import By, Figure, Metric
from indelible.engine.approving import approval_on
from indelible.engine.finding import CLOCKS_APART, args_asked_about, id_at
from indelible.errors import IndelibleError
from indelible.journal.exports.excerpt import agents_in
from indelible.server.requests.asking import Asking

MOST_OUTLINES = 100_000
"""Is how many effects are looked at for one answer."""
MOST_WHOLE = 5000
"""Is the same where a filter asks for what they recorded, which then has to be read."""
MOST_APPROVALS = 5000
MOST_IN_DOUBT = 1000
MOST_BUDGETS = 1000
_PAGE = 1000
_FEW = 500
_IN_OUTLINES = frozenset({"tool", "side_effect", "run", "id", "status", "attempt", "approval"})
"""Are the words that need nothing of what an effect recorded."""
FILTERED: dict[Metric, Resource] = {
    "effects": "effects",
    "latency": "effects",
    "approvals": "approvals",
    "decisions": "approvals",
}
"""Says what a figure's filter is about."""


@dataclass(slots=True, kw_only=True)
class Period:
    """Is what is asked about, and how much of it was looked at."""

    since: datetime
    until: datetime
    now: datetime
    query: Query
    by: By | None
    interval: timedelta | None
    looked_at: int = 0
    is_complete: bool = True


class Counting:
    """Counts for one caller's tenant; it blocks."""

    def __init__(self, asked: Asking, period: Period) -> None:
        self._asked = asked
        self._store = asked.ledger._engine.store
        self._tenant = asked.caller.tenant
        self._period = period
        self._agent_of = agents_in(self._store, self._tenant)

    def figures(self, metric: Metric) -> list[Figure]:
        """Gives the figures of a metric."""
        count: dict[Metric, Callable[[], list[Figure]]] = {
            "effects": lambda: stats.effects_counted(self._effects(), self._by, self._period.interval),
            "latency": lambda: stats.latency(self._effects(), self._by, self._period.interval),
            "replays": self._replays,
            "approvals": lambda: stats.approvals_counted(self._approvals(), self._by, self._period.interval),
            "decisions": self._decisions,
            "in_doubt": self._in_doubt,
            "budgets": self._budgets,
        }
        return count[metric]()

    @property
    def _by(self) -> By:
        assert self._period.by is not None, "this is counted by something"
        return self._period.by

    def _is_in_time(self, moment: datetime) -> bool:
        return self._period.since <= moment <= self._period.until

    # Effects

    def _effects(self) -> Iterator[Outline]:
        """Gives the effects of the period that are asked for."""
        query = self._period.query
        names = {term.name for term in query.terms if isinstance(term, Word)}
        if names <= _IN_OUTLINES and not query.needs_text():
            for outline in self._outlines():
                # Without a word, time is all there is to look at; there may be very many, so that pays.
                if self._is_in_time(outline.created_at) and (
                    not names or fits(query, outline_subject(outline), self._period.now)
                ):
                    yield outline
            return
        for effect in self._whole():
            subject = effect_subject(effect, self._agent_of)
            if self._is_in_time(effect.created_at) and fits(query, subject, self._period.now):
                yield _outline(effect)

    def _outlines(self) -> Iterator[Outline]:
        since, place = self._bounds("eff_")
        while page := self._store.outlines(self._tenant, since, place, _PAGE):
            yield from page
            place = page[-1].id
            if self._is_last(page, _PAGE) or self._is_enough(len(page), MOST_OUTLINES):
                return

    def _whole(self) -> Iterator[Effect]:
        since, place = self._bounds("eff_")
        only = self._period.query.only
        while page := self._store.effects(
            self._tenant, Filter(tool=only("tool"), run_id=only("run"), before=place, limit=_FEW)
        ):
            for effect in page:
                if effect.id < since:
                    return
                yield effect
            place = page[-1].id
            if self._is_last(page, _FEW) or self._is_enough(len(page), MOST_WHOLE):
                return

    def _bounds(self, prefix: str) -> tuple[str, str]:
        """Gives the ids between which everything of the period lies, also when two clocks differ a little."""
        period = self._period
        return id_at(prefix, period.since, -CLOCKS_APART), id_at(prefix, period.until, CLOCKS_APART)

    def _is_last(self, page: Sequence[object], full: int) -> bool:
        if len(page) < full:
            self._period.looked_at += len(page)
            return True
        return False

    def _is_enough(self, more: int, most: int) -> bool:
        self._period.looked_at += more
        if self._period.looked_at >= most:
            self._period.is_complete = False
        return not self._period.is_complete

    def _in_doubt(self) -> list[Figure]:
        found = [_outline(effect) for effect in self._store.abandoned(self._tenant, MOST_IN_DOUBT)]
        self._is_enough(len(found), MOST_IN_DOUBT)  # what is there is told, however old it is
        return stats.doubts(found)

    # Replays

    def _replays(self) -> list[Figure]:
        """Gives what servers counted; the counts of the last seconds are written down first."""
        self._asked.ledgers.replays.write()
        period = self._period
        places: dict[stats.Place, int] = {}
        wanted = {replays_ref(hour).id: hour for hour in hours_between(period.since, period.until)}
        for sheet in self._sheets("replays", "rpl_", most=len(wanted) + 1):
            if sheet.id not in wanted:
                continue
            for (tool, minute), count in read_replays(sheet, wanted[sheet.id]).items():
                if minute_of(period.since) <= minute <= period.until:
                    place = (stats.stretch_of(minute, period.interval), tool)
                    places[place] = places.get(place, 0) + count
        return stats.summed(places)

    # Approvals

    def _decisions(self) -> list[Figure]:
        return stats.decisions(self._approvals(), self._by, self._period.since, self._period.interval)

    def _approvals(self) -> Iterator[Approval]:
        """Gives the approvals of the period that are asked for, and those from before that still wait."""
        for sheet in self._sheets("approval", self._bounds("apr_")[0], most=MOST_APPROVALS):
            approval = approval_on(sheet)
            if approval is not None and self._is_in_time(approval.asked_at) and self._is_asked_for(approval):
                yield approval
        pending = self._store.sheets(
            self._tenant, SheetFilter(kind="approval", status="pending", after="", limit=MOST_APPROVALS)
        )
        for approval in map(approval_on, pending):
            if approval is not None and approval.asked_at < self._period.since and self._is_asked_for(approval):
                yield approval

    def _is_asked_for(self, approval: Approval) -> bool:
        subject = approval_subject(approval, self._agent_of, partial(args_asked_about, self._store))
        return fits(self._period.query, subject, self._period.now)

    def _sheets(self, kind: str, first: str, most: int) -> Iterator[Sheet]:
        place: str | None = None
        while page := self._store.sheets(self._tenant, SheetFilter(kind=kind, before=place, limit=_FEW)):
            for sheet in page:
                if sheet.id < first:
                    return
                yield sheet
            place = page[-1].id
            if self._is_last(page, _FEW) or self._is_enough(len(page), most):
                return

    # Budgets

    def _budgets(self) -> list[Figure]:
        found = self._store.sheets(self._tenant, SheetFilter(kind="budget", limit=MOST_BUDGETS))
        self._is_enough(len(found), MOST_BUDGETS)
        rules = self._rules()
        now = self._period.now
        return [
            stats.budget_figure(sheet.id, read_budget(sheet), _charge(sheet.id, rules), now)
            for sheet in sorted(found, key=lambda sheet: sheet.id)
            if sheet.body is not None
        ]

    def _rules(self) -> tuple[BudgetRule, ...]:
        kept = self._asked.ledger._approving.policy()
        if kept is None:
            return ()
        try:
            parts = policy_of(kept[0]).parts
        except IndelibleError:  # a policy of a newer version than this server
            return ()
        return (*parts.budgets, *parts.caps)


def _outline(effect: Effect) -> Outline:
    return Outline._make(getattr(effect, name) for name in Outline._fields)


def _charge(name: str, rules: tuple[BudgetRule, ...]) -> Charge | None:
    """Gives the limit of a budget by its rule's name, which stands before what it is counted by."""
    rule = next((rule for rule in rules if name.startswith(f"{rule.name} {{")), None)
    return None if rule is None else Charge(budget=name, limit=rule.limit, window=rule.window, amount=Decimal(0))
