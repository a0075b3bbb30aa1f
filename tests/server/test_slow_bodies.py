"""Who is revoked while the body of their request is on its way changes and reads nothing by it."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from indelible.core.remote.questions import QUESTIONS
from indelible.server.describing.description import operations
from indelible.server.signin.credentials import Credentials
from tests.server.bodies import BODIES
from tests.server.places import ROOT, Place
from tests.waiting import PATIENCE, eventually

SCOPES: dict[str, tuple[Any, ...]] = {"person": ("admin", "approver", "auditor"), "agent": ("agent",)}


class Slow:
    """A request of which the head is sent, and nothing of the body."""

    def __init__(self, place: Place, token: str, method: str, path: str, body: Any, **headers: str) -> None:
        self._raw = json.dumps(body).encode()
        self._port = int(place.served.url.rpartition(":")[2])
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE)
        said = {
            "Host": f"127.0.0.1:{self._port}",
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Content-Length": str(len(self._raw)),
            "Connection": "close",
            **headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        self._socket.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode())

    def finish(self) -> int:
        """Send the body; return the status."""
        with self._socket:
            self._socket.sendall(self._raw)
            return int(self._socket.makefile("rb").readline().split()[1])


@pytest.fixture
def place(each_place: Place) -> Place:
    return each_place


def asked_by(place: Place, who: str) -> list[tuple[str, str, Any]]:
    """List the requests with a body that somebody with these scopes may send."""
    found = []
    for method, path, told in operations(place.described.openapi):
        body, allowed = BODIES.get(f"{method} {path}"), told.get("x-scopes", ())
        if body is not None and not {*SCOPES[who]}.isdisjoint(allowed):
            found.append((method, path.replace("{", "").replace("}", ""), body))
    assert len(found) > 10
    return found


@pytest.mark.parametrize("who", SCOPES)
def test_a_revoked_token_does_nothing_by_a_request_that_was_begun_before(place: Place, who: str) -> None:
    credentials = Credentials(place.store, "acme")
    credential, token = credentials.give(f"leaver-{who}", SCOPES[who], by=ROOT)
    begun = {
        f"{method} {path} {key}": Slow(place, str(token), method, path, body, **key)
        for method, path, body in asked_by(place, who)
        for key in ({}, {"Idempotency-Key": "k-1"})
    }
    for name in ("apply", *QUESTIONS):
        begun[name] = Slow(place, str(token), "POST", f"/v1/store/{name}", {})
    leaves = {"Authorization": f"Bearer {token}"}
    assert place.client.get("/v1/me", headers=leaves).status_code == 200
    credentials.revoke(credential.id, by=ROOT)
    eventually(lambda: place.client.get("/v1/me", headers=leaves).status_code == 401)
    let_in = {name: status for name, one in begun.items() if (status := one.finish()) != 401}
    assert not let_in
