"""One store, and a ledger for each tenant that asks for one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from indelible.aio import AsyncLedger
from indelible.core.ports import Store
from indelible.engine.authenticating import authenticate_rows
from indelible.engine.comparing import Comparison, tenants_of
from indelible.engine.running import in_own_thread
from indelible.errors import KeyUnusable
from indelible.server.claims import RecentClaims
from indelible.server.export_jobs import ExportJobs
from indelible.server.feeds import Feeds
from indelible.server.gateway import Gateway
from indelible.server.requests.metrics import Metrics
from indelible.server.requests.replay_counts import ReplayCounts
from indelible.server.requests.stopping import Stopping

if TYPE_CHECKING:
    from indelible.server.webhook_file import TakenFrom
    from indelible.server.worker import Worker

log = logging.getLogger("indelible.server")


class Ledgers:
    """Opens a tenant's ledger when it is first needed, and closes them all together with their store."""

    def __init__(
        self,
        store: Store,
        *,
        gateway: Gateway | None = None,
        webhooks: Mapping[str, TakenFrom] | None = None,
        **words: Any,
    ) -> None:
        """Opens each with the same words as `AsyncLedger.open`; the gateway runs the server's own tools."""
        authenticate_rows(store, words.get("keys"))
        self.store = store
        self.webhooks = dict(webhooks or {})
        """Are the providers whose signed messages are taken, by name."""
        self.gateway = gateway or Gateway()
        self.claims = RecentClaims()
        self.feeds = Feeds()
        self.stopping = Stopping()
        self.stopping.on_begin.append(self._end_waits)
        self.metrics = Metrics()
        self.replays = ReplayCounts()
        self.exports = ExportJobs()
        self.on_open: list[Callable[[AsyncLedger], None]] = [
            self.metrics.hear_from,
            self.replays.hear_from,
            self.gateway.hand_tools_to,
        ]
        """Is called with each ledger when it is opened."""
        self.finishing: list[Callable[[], Awaitable[None]]] = []
        """Lets what is under way come to its end, before anything is closed."""
        self.worker: Worker | None = None
        """Goes the rounds in this server, if anybody does."""
        self._words = words
        self._lock = threading.Lock()
        self._by_tenant: dict[str, AsyncLedger] = {}

    @property
    def tenants(self) -> tuple[str, ...]:
        """Names the tenants whose ledgers are open here."""
        return tuple(self._by_tenant)

    def of(self, tenant: str) -> AsyncLedger:
        """Gives the ledger of a tenant."""
        ledger = self._by_tenant.get(tenant)
        if ledger is None:
            with self._lock:
                ledger = self._by_tenant.get(tenant)
                if ledger is None:
                    ledger = AsyncLedger.open(store=self.store, tenant=tenant, **self._words)
                    ledger._run = None  # a client names its run; what the server was started with names none
                    for hear in self.on_open:
                        hear(ledger)
                    self._by_tenant[tenant] = ledger
        return ledger

    def compare(self) -> None:
        """Compare the record of every tenant with what was signed, and stop the effects of those that lack a part.

        A tenant of whom it cannot be told is compared again before each of its writes, which are refused until then.
        """
        if self.store.compare is None:
            return
        try:
            tenants = tenants_of(self.store)
        except KeyUnusable as problem:
            log.warning("%s", problem)
            tenants = set(self.store.journal.tenants())
        for tenant in tenants:
            self._compare(tenant)

    def compared(self) -> Literal["ok", "set back", "unknown"]:
        """Return how the tenants' records stand to what was signed; those that did not fit are compared again."""
        comparison = self.store.compare
        if not isinstance(comparison, Comparison):
            return "ok"
        for tenant in sorted(comparison.set_back | comparison.unknown):
            self._compare(tenant)
        return "set back" if comparison.set_back else "unknown" if comparison.unknown else "ok"

    def _compare(self, tenant: str) -> None:
        assert self.store.compare is not None
        try:
            self.store.compare(tenant)
        except KeyUnusable as problem:
            log.warning("tenant %s: %s", tenant, problem)

    def _end_waits(self) -> None:
        for ledger in tuple(self._by_tenant.values()):
            ledger._engine.end_waits()

    async def close(self) -> None:
        """Write and seal what was recorded so far in each of them, and close the store."""
        for finish in self.finishing:
            await finish()
        await self.gateway.close()
        await in_own_thread(self.exports.close)
        await in_own_thread(self.replays.close)
        if self.worker is not None:
            await in_own_thread(self.worker.close)
        while self._by_tenant:
            _, ledger = self._by_tenant.popitem()
            await ledger.close()
        self.store.close()
