"""The face of provedex-langchain, over a ledger of ours: its quickstart runs with the import changed.

from indelible.compat.provedex import ProvedexCallbackHandler, ProvedexConfig

handler = ProvedexCallbackHandler(config=ProvedexConfig())
chain.invoke({"q": "hi"}, config={"callbacks": [handler]})

No sidecar is needed: events go into the ledger that `Ledger.open()` opens, or into the one that is given.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from indelible import AsyncLedger, Ledger, connect
from indelible.errors import BadCall, StoreUnavailable
from indelible.integrations.langchain_callbacks import CallbackConfig, LedgerCallbackHandler

__all__ = ["ProvedexCallbackHandler", "ProvedexConfig"]

_SIDECAR = "http://127.0.0.1:8765"
_LOG = logging.getLogger("indelible.compat.provedex")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedexConfig(CallbackConfig):
    """Says for whom events are recorded, by the names of provedex-langchain; those of `CallbackConfig` hold as well.

    `agent_url` may name an Indelible server, with its token as the password: `http://key:TOKEN@127.0.0.1:8787`. An
    address without a token is a sidecar's, and is not asked. `include_callbacks` is taken and unused, as it is there.
    """

    agent_url: str = field(default_factory=lambda: os.environ.get("PROVEDEX_AGENT_URL", _SIDECAR))
    include_callbacks: Sequence[str] | None = None
    queue_size: int = 1000
    request_timeout_seconds: float = 2.0

    def __post_init__(self) -> None:
        # Written out, for a class with slots is made anew, and `super()` would look for the one before.
        CallbackConfig.__post_init__(self)
        if not self.agent_url.startswith(("http://", "https://")):
            raise BadCall(f"agent_url={self.agent_url!r}: begin it with http:// or https://")
        if self.request_timeout_seconds <= 0 or self.shutdown_drain_seconds < 0:
            raise BadCall("request_timeout_seconds is longer than nothing, and shutdown_drain_seconds not negative")


class ProvedexCallbackHandler(LedgerCallbackHandler):
    """Record every model call, tool call and session, as provedex-langchain's handler says it does.

    `dropped_total` and `overflow_total` count as there, but nothing is dropped while there is room on the disk.
    `signed_total` counts what a signed head covers, `recorded_total` what is on the record. While a server that
    `agent_url` names is away, events wait on the disk and `pending` counts them.
    """

    def __init__(self, config: ProvedexConfig | None = None, *, ledger: Ledger | AsyncLedger | None = None) -> None:
        config = config or ProvedexConfig()
        server = _server_in(config) if ledger is None else None
        if server is None:
            super().__init__(ledger, config=config)
            return
        self.config, self._owned, self._server = config, None, server
        try:
            self._connected()
        except StoreUnavailable as away:
            if config.on_sign_failure != "silent":
                _LOG.warning("%s; events wait in %s until it is back", away, config.spool)
        self._record_in(self._connected, server.place)

    def _connected(self) -> Ledger:
        if self._owned is None:
            patience = timedelta(seconds=self.config.request_timeout_seconds)  # type: ignore[attr-defined]
            self._owned = connect(self._server.address, token=self._server.token, patience=patience)
        return self._owned

    def start(self) -> Awaitable[None]:
        """Does nothing, awaited or not: recording began with the handler."""
        return _Done()

    def stop(self) -> Awaitable[None]:  # type: ignore[override]  # there it is awaited, and nothing happens before
        """Delivers what can be delivered in time, and is done when this returns; it may be awaited."""
        super().stop()
        return _Done()


class _Done:
    """Can be awaited, and can be left: what was asked for is done."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class _Server(NamedTuple):
    address: str
    token: str

    @property
    def place(self) -> str:
        """Name the folder of events for this server and tenant, which is known also while the server is away."""
        tenant = self.token.split(".")[1] if self.token.count(".") > 1 else ""
        return f"{urlsplit(self.address).netloc.replace(':', '_')}_{tenant}"


def _server_in(config: ProvedexConfig) -> _Server | None:
    """Return the server that an address with a token names; None for a sidecar's address."""
    parts = urlsplit(config.agent_url)
    if parts.password is None:
        if config.agent_url != _SIDECAR:
            _LOG.warning("agent_url names no token, so it is no server of Indelible's; events go into the own ledger")
        return None
    address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
    return _Server(address, unquote(parts.password))
