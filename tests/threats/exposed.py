"""The server as `indelible serve` runs it, in this process: hardened, counting, and with real credentials."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx2
import uvicorn

from indelible import Actor
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.requests.hardening import Hardened
from indelible.server.requests.limits import Limits, counting
from indelible.server.requests.lingering import Lingering
from indelible.server.requests.observing import Observed, noting
from indelible.server.requests.stopping import StoppingServer
from indelible.server.running import bound
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.stores import migrate, open_store
from tests.waiting import PATIENCE

ROOT = Actor("root")
SCOPES: dict[str, tuple[Any, ...]] = {
    "agent": ("agent",),
    "other-agent": ("agent",),
    "ana": ("approver",),
    "auditor": ("auditor",),
    "admin": ("admin",),
}
UNLIMITED = Limits(rate=0, in_flight=0, waiting=0, strangers_rate=0)


class Exposed:
    """Answers for the tenant `acme` until it is closed; `ask` is a request of one of those in `SCOPES`."""

    def __init__(
        self, url: str, *, limits: Limits = UNLIMITED, lingering: Lingering | None = None, **words: Any
    ) -> None:
        migrate(url)
        self.store = open_store(url)
        self.ledgers = Ledgers(open_store(url), **words)
        self.tokens = {
            name: str(Credentials(self.store, "acme").give(name, scopes, by=ROOT)[1]) for name, scopes in SCOPES.items()
        }
        self.app = create_app(self.ledgers, noting(counting(Identity(self.store))))
        self._socket = bound("127.0.0.1", 0)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.hardened = Hardened(self.app, limits=limits)
        config = uvicorn.Config(
            Observed(self.hardened, self.ledgers.metrics),
            log_level="warning",
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        self._started = threading.Event()
        self._server = _Announcing(config, self.ledgers.stopping, lingering, self._started)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._started.wait(PATIENCE)
        self.client = httpx2.Client(base_url=self.url, trust_env=False, timeout=PATIENCE)

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def headers(self, who: str | None) -> dict[str, str]:
        """Gives what a request of theirs carries."""
        return {} if who is None else {"Authorization": f"Bearer {self.tokens[who]}"}

    def ask(self, method: str, path: str, who: str | None = "agent", body: Any = None, **words: Any) -> httpx2.Response:
        """Sends one request."""
        headers = {**self.headers(who), **words.pop("headers", {})}
        if body is not None:
            words["json"] = body
        return self.client.request(method, path, headers=headers, **words)

    def post(self, path: str, body: Any, who: str | None = "agent", **words: Any) -> httpx2.Response:
        """Sends one body."""
        return self.ask("POST", path, who, body, **words)

    def begin(self, who: str = "agent", **words: Any) -> httpx2.Response:
        """Asks to execute a call, in the same run unless `run_id` names another."""
        return self.post("/v1/effects", {"tool": "charge", "args": {"amount": 5}, "run_id": "order-1", **words}, who)

    def close(self) -> None:
        """Lets it finish what it does."""
        self.client.close()
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()
        self.store.close()


class _Announcing(StoppingServer):
    def __init__(self, config: uvicorn.Config, stopping: Any, lingering: Any, started: threading.Event) -> None:
        super().__init__(config, stopping, lingering)
        self._announced = started

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._announced.set()
