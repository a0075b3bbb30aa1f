"""A real server in this process: an application behind a socket on loopback."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from typing import Any
from urllib.parse import unquote

import uvicorn
from fastapi import Request

from indelible.core.remote.admitting import Caller
from indelible.core.scopes import SCOPES
from indelible.journal.keys.files import resolved_keys
from indelible.journal.keys.writers import key_maker
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.running import bound
from indelible.stores import open_store
from tests.waiting import PATIENCE


class Served:
    """Serves an application until it is stopped."""

    def __init__(self, app: Any, *, port: int = 0, **tls: Any) -> None:
        self.app = app
        self._socket = bound("127.0.0.1", port)
        self.url = f"http{'s' * bool(tls)}://127.0.0.1:{self._socket.getsockname()[1]}"
        self._started = threading.Event()
        config = uvicorn.Config(app, log_level="warning", lifespan="on", ws="none", timeout_graceful_shutdown=1, **tls)
        self._server = _Announcing(config, self._started)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._started.wait(PATIENCE)

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def stop(self) -> None:
        """Lets it finish what it does."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()


class _Announcing(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: threading.Event) -> None:
        super().__init__(config)
        self._announced = started
        self._app: Any = config.app

    def install_signal_handlers(self) -> None:
        """Leaves signals to the test."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announced.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if hasattr(self._app, "state"):  # as the server that is run from the command line does
            self._app.state.ledgers.stopping.begin()
        await super().shutdown(sockets)


async def believing(request: Request) -> Caller:
    """Takes the other side's word for everything, as one that is part of us; the token is the tenant."""
    told = unquote(request.headers["authorization"].removeprefix("Bearer "))
    # Not by `ast`: parsing in a second thread upsets the parser of the first, which pytest has at work.
    tenant = told[1:-1] if told.startswith("'") else json.loads(told)
    return Caller(tenant=tenant, scopes=frozenset(SCOPES), actor=None)


def serve_believing(url: str, *, clock: Any = None, wakeups: bool = True, **words: Any) -> Served:
    """Serves the ledgers of a store to clients whose word is taken."""
    store = open_store(url, clock=clock, wakeups=wakeups, begin=key_maker(resolved_keys(words.get("keys"))))
    return Served(create_app(Ledgers(store, **words), believing))
