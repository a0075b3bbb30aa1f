"""A client that says anything to a server, and callers as credentials make them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from fastapi import Request

from indelible.core.effects.effect import Actor
from indelible.core.remote.admitting import Caller
from indelible.core.remote.wire import to_wire
from indelible.core.scopes import SCOPES
from indelible.errors import NotAuthenticated
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.stores import open_store
from tests.server.serving import Served
from tests.waiting import PATIENCE


async def named(request: Request) -> Caller:
    """Knows callers by tokens such as `agent@tenant`: untrusted, with one scope, for one tenant."""
    token = unquote(request.headers.get("authorization", "").removeprefix("Bearer "))
    scope, _, tenant = token.partition("@")
    if scope not in SCOPES or not tenant:
        raise NotAuthenticated("no such credential")
    actor = Actor(f"{scope}-1", "agent" if scope == "agent" else "person", "api_key")
    return Caller(tenant=tenant, scopes=frozenset({scope}), actor=actor)


def serve_named(url: str, **words: Any) -> Served:
    """Serves the ledgers of a store to such callers."""
    return Served(create_app(Ledgers(open_store(url), **words), named))


class Anything:
    """Posts whatever it is given, over one connection."""

    def __init__(self, url: str, token: str | None) -> None:
        self._place = urlsplit(url)
        self._headers = {} if token is None else {"Authorization": f"Bearer {quote(token)}"}
        self._connection = http.client.HTTPConnection(self._place.hostname or "", self._place.port, timeout=PATIENCE)

    def send(self, path: str, raw: bytes | str, method: str = "POST") -> tuple[int, Mapping[str, str], Any]:
        """Gives the status, the headers and what JSON said."""
        self._connection.request(method, path, raw, {**self._headers, "Content-Type": "application/json"})
        response = self._connection.getresponse()
        content = response.read()
        if response.status >= 500:
            self._connection.close()  # the server hangs up after what it did not expect
        is_json = "json" in response.headers.get("Content-Type", "")
        return response.status, response.headers, json.loads(content) if is_json else {"detail": content.decode()}

    def ask(self, name: str, **words: Any) -> tuple[int, Any]:
        """Asks a question of the store; words are written as they are on the wire."""
        status, _, content = self.send(f"/v1/store/{name}", json.dumps({k: to_wire(v) for k, v in words.items()}))
        return status, content

    def apply(self, *commands: Any) -> tuple[int, Any]:
        """Gives commands."""
        return self.ask("apply", commands=list(commands))

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()
