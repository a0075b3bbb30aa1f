"""What a server counts, in the text form of Prometheus. No label has more values than this code has names for.

Tenants, tools, runs and people are in no label. What is counted here is of this process; what is looked up in the
ledger is of the tenant whose token asks, or of all of them where everybody on this machine may ask.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from indelible import __version__
from indelible.aio import AsyncLedger
from indelible.core.approvals.sheets import read_approval
from indelible.core.commands import Answer, Claimed, Moved, Replayed, ReplayedFailure
from indelible.core.effects.effect import Status
from indelible.core.journal.notes import parse_head, parse_note
from indelible.core.ports import Filter, Store, time_in
from indelible.core.sheets import SheetFilter

if TYPE_CHECKING:
    from indelible.server.worker import WorkerState

MOST_TENANTS = 100
"""Is how many tenants are looked at for one answer."""
COUNTED_TO = 1000
"""Is how far waiting things of a tenant are counted; this many means at least so many."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Requests(Collector):
    """Counts requests in the loop's own thread, so without a lock: this is on the way of every one of them."""

    def __init__(self) -> None:
        self.under_way = 0
        self._counts: dict[tuple[str, str, int], int] = {}
        self._times: dict[str, list[float]] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts one that was answered."""
        place = (method if method in _METHODS else "other", route, status)
        self._counts[place] = self._counts.get(place, 0) + 1
        times = self._times.get(route)
        if times is None:
            times = self._times[route] = [0.0] * (len(_SECONDS) + 2)
        times[bisect_left(_SECONDS, seconds)] += 1
        times[-1] += seconds

    def collect(self) -> Iterator[Metric]:
        """Gives what was counted, for Prometheus."""
        told = CounterMetricFamily(
            "indelible_http_requests", "Requests answered.", labels=["method", "route", "status"]
        )
        limited = store_errors = 0
        for (method, route, status), count in tuple(self._counts.items()):
            told.add_metric([method, route, str(status)], count)
            limited += count if status == 429 else 0
            store_errors += count if status == 503 and route != "/readyz" else 0
        yield told
        yield self._histogram()
        yield GaugeMetricFamily("indelible_http_requests_under_way", "Requests not yet answered.", self.under_way)
        yield CounterMetricFamily("indelible_rate_limited", "Requests refused for coming too often.", limited)
        yield CounterMetricFamily("indelible_store_errors", "Requests that the store could not answer.", store_errors)

    def _histogram(self) -> HistogramMetricFamily:
        says = "Time until the answer was sent; long polls and streams take as long as they wait."
        told = HistogramMetricFamily("indelible_http_request_seconds", says, labels=["route"])
        bounds = [*map(str, _SECONDS), "+Inf"]
        for route, times in tuple(self._times.items()):
            *counts, total = tuple(times)
            told.add_metric([route], list(zip(bounds, accumulate(counts), strict=True)), total)
        return told


class Metrics:
    """Counts what one process does."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry(auto_describe=True)
        self.requests = Requests()
        registry.register(self.requests)
        self._moves = Counter(
            "indelible_effects_moved", "Effects that came to a status.", ["status"], registry=registry
        )
        self._claims = Counter("indelible_claims", "Attempts given to callers.", registry=registry)
        self._replays = Counter("indelible_replays", "Calls answered with a recorded outcome.", registry=registry)
        self._status = {status: self._moves.labels(status) for status in get_args(Status)}
        Gauge("indelible_info", "Which software this is.", ["version"], registry=registry).labels(__version__).set(1)

    def hear_from(self, ledger: AsyncLedger) -> None:
        """Counts what comes of the commands of a ledger."""
        ledger._engine.writer.listeners.append(self._hear)
        ledger._engine.writer.unwritten.append(self._hear)

    def _hear(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            match answer:
                case Claimed():
                    self._claims.inc()
                    self._status["processing"].inc()
                case Moved(effect):
                    self._status[effect.status].inc()
                case Replayed() | ReplayedFailure():
                    self._replays.inc()
                case _:
                    pass

    def text(self, *figures: CollectorRegistry) -> bytes:
        """Gives everything in Prometheus' text form."""
        return b"".join(generate_latest(registry) for registry in (self._registry, *figures))


@dataclass(slots=True)
class _Sums:
    pending: int = 0
    in_doubt: int = 0
    size: int = 0
    unsealed: int = 0
    dead: int = 0
    age: float = 0.0


def ledger_figures(store: Store, tenants: Sequence[str]) -> CollectorRegistry:
    """Looks up what waits in the ledgers of some tenants, in a bounded number of short questions."""
    sums = _Sums()
    for tenant in tenants[:MOST_TENANTS]:
        _add(sums, store, tenant)
    registry = CollectorRegistry(auto_describe=True)

    def tell(name: str, says: str, value: float) -> None:
        Gauge(f"indelible_{name}", says, registry=registry).set(value)

    tell("approvals_pending", f"Questions that wait for a person, to {COUNTED_TO} of a tenant.", sums.pending)
    tell("approvals_oldest_seconds", "For how long the oldest of them has waited.", sums.age)
    tell("effects_in_doubt", f"Effects that may have happened, to {COUNTED_TO} of a tenant.", sums.in_doubt)
    tell("journal_entries", "Events in the journal.", sums.size)
    tell("journal_unsealed", "Events under no signed head.", sums.unsealed)
    tell("deliveries_dead", f"Messages that could not be sent, to {COUNTED_TO} of a tenant.", sums.dead)
    return registry


def _add(sums: _Sums, store: Store, tenant: str) -> None:
    asked = SheetFilter(kind="approval", status="pending", after="", limit=COUNTED_TO)
    pending = store.sheets(tenant, asked)
    sums.pending += len(pending)
    oldest = next((read_approval(sheet) for sheet in pending if sheet.body is not None), None)
    if oldest is not None:
        now = time_in(store, tenant)
        sums.age = max(sums.age, (now - oldest.asked_at).total_seconds())
    sums.in_doubt += len(store.effects(tenant, Filter(status="in_doubt", limit=COUNTED_TO)))
    sums.dead += len(store.sheets(tenant, SheetFilter(kind="delivery", status="dead", limit=COUNTED_TO)))
    tree, heads = store.journal.tree(tenant), store.journal.heads(tenant, 1)
    signed = parse_head(parse_note(heads[0]).text).size if heads else 0
    sums.size += tree.size
    sums.unsealed += store.journal.waiting(tenant) + max(0, tree.size - signed)


def worker_figures(state: WorkerState | None) -> CollectorRegistry:
    """Tells how the background work goes."""
    registry = CollectorRegistry(auto_describe=True)

    def tell(name: str, says: str, value: float) -> None:
        Gauge(f"indelible_worker_{name}", says, registry=registry).set(value)

    tell("leading", "Does this server go the rounds?", float(state is not None and state.role == "leading"))
    tell("present", "Does any server go the rounds, as far as this one knows?", float(bool(state and state.is_done)))
    tell("lag_seconds", "For how long something has waited for the rounds.", 0.0 if state is None else state.lag_s)
    tell("problems", "Things that the rounds cannot do at the moment.", 0.0 if state is None else state.problems)
    return registry
