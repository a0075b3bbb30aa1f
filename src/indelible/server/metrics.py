"""What a server counts, in the text form of Prometheus. No label has more values than this code has names for.

Tenants, tools, runs and people are in no label. What is counted here is of this process; what is looked up in the
ledger is of the tenant whose token asks, or of all of them where everybody on this machine may ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from indelible import __version__
from indelible.aio import AsyncLedger
from indelible.core.approval_sheets import read_approval
from indelible.core.commands import Answer, Claimed, Moved, Replayed, ReplayedFailure
from indelible.core.identity import Ref
from indelible.core.notes import parse_head, parse_note
from indelible.core.ports import Filter, Store
from indelible.core.sheets import SheetFilter

if TYPE_CHECKING:
    from indelible.server.worker import WorkerState

MOST_TENANTS = 100
"""Is how many tenants are looked at for one answer."""
COUNTED_TO = 1000
"""Is how far waiting things of a tenant are counted; this many means at least so many."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Metrics:
    """Counts what one process does."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "indelible_http_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "indelible_http_request_seconds",
            "Time until the answer was sent; long polls and streams take as long as they wait.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.under_way = Gauge("indelible_http_requests_under_way", "Requests not yet answered.", registry=registry)
        self._limited = Counter("indelible_rate_limited", "Requests refused for coming too often.", registry=registry)
        self._store_errors = Counter(
            "indelible_store_errors", "Requests that the store could not answer.", registry=registry
        )
        self._moves = Counter(
            "indelible_effects_moved", "Effects that came to a status.", ["status"], registry=registry
        )
        self._claims = Counter("indelible_claims", "Attempts given to callers.", registry=registry)
        self._replays = Counter("indelible_replays", "Calls answered with a recorded outcome.", registry=registry)
        Gauge("indelible_info", "Which software this is.", ["version"], registry=registry).labels(__version__).set(1)
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request that was answered."""
        place = (method, route, status)
        known = self._known.get(place)
        if known is None:
            named = method if method in _METHODS else "other"
            known = (self._requests.labels(named, route, str(status)), self._seconds.labels(route))
            if method in _METHODS:  # others are the caller's own words, of which there is no end
                self._known[place] = known
        known[0].inc()
        known[1].observe(seconds)
        if status == 429:
            self._limited.inc()
        elif status == 503:
            self._store_errors.inc()

    def hear_from(self, ledger: AsyncLedger) -> None:
        """Counts what comes of the commands of a ledger."""
        ledger._engine.writer.listeners.append(self._hear)
        ledger._engine.writer.unwritten.append(self._hear)

    def _hear(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            match answer:
                case Claimed():
                    self._claims.inc()
                    self._moves.labels("processing").inc()
                case Moved(effect):
                    self._moves.labels(effect.status).inc()
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
        now = store.look([Ref(tenant, "", "")]).now
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
