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
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from indelible import AsyncLedger, Ledger, connect
from indelible.errors import BadCall
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
    """Records every model call, tool call and session, as provedex-langchain's handler says it does.

    `signed_total`, `dropped_total` and `overflow_total` count as there, but nothing is dropped while there is room on
    the disk.
    """

    def __init__(self, config: ProvedexConfig | None = None, *, ledger: Ledger | AsyncLedger | None = None) -> None:
        config = config or ProvedexConfig()
        own = _server(config) if ledger is None else None
        super().__init__(ledger or own, config=config)
        if own is not None:
            self._owned = own

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


def _server(config: ProvedexConfig) -> Ledger | None:
    """Connects to the server that an address with a token names; None for a sidecar's address."""
    parts = urlsplit(config.agent_url)
    if parts.password is None:
        if config.agent_url != _SIDECAR:
            _LOG.warning("agent_url names no token, so it is no server of Indelible's; events go into the own ledger")
        return None
    address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
    patience = timedelta(seconds=config.request_timeout_seconds)
    return connect(address, token=unquote(parts.password), patience=patience)
