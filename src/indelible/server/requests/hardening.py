"""What every request passes: only known hosts, bodies no larger than allowed; and what every answer carries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, MutableMapping, Sequence
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indelible.core.remote.problems import problem_of
from indelible.errors import AskedTooOften, OutcomeUnknown
from indelible.server.requests.bodies import MOST_BYTES, limited
from indelible.server.requests.limits import Gate, Limits

# Nothing of ours is to be framed, guessed at, kept by a cache, or told to other sites; pages bring their own policy.
_HEADERS = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}
_SAID_ONCE = (b"authorization", b"content-type", b"host", b"idempotency-key", b"origin", b"x-csrf-token")
_ALWAYS_ANSWERED = "/livez"
_CUT_OFF = (
    "this server stops, and could not wait for the answer. What was begun goes on the record: ask again with the same "
    "key, token or Idempotency-Key, at another server or at this one after its restart"
)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Hardened:
    """Stands in front of an application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str] = LOOPBACK,
        most_bytes: int = MOST_BYTES,
        limits: Limits | None = None,
    ) -> None:
        """Answers only requests for these hosts: so no page elsewhere can reach us under a name of its own."""
        self._app = app
        self._gate = None if limits is None else Gate(limits)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._is_known(scope):
            await _refuse(send, 421, "Misdirected Request", "this host is not served here: --allowed-host")
            return
        if _says_two_things(scope["headers"]):
            await _refuse(send, 400, "Bad Request", "a header that counts once is there twice")
            return
        ticket = None if self._gate is None else self._gate.ticket(scope)

        is_begun = False

        async def adding(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                _add_headers(message, () if ticket is None else ticket.headers)
            await send(message)

        try:
            if ticket is not None and scope["path"] != _ALWAYS_ANSWERED:
                ticket.count_unless_shown()
            await self._app(scope, limited(receive, self._most_bytes), adding)
        except AskedTooOften as refused:
            await send_problem(adding, problem_of(refused))
        except asyncio.CancelledError:
            # The server stops, and this took longer than it waits. Tools that run go on to their end after this.
            if is_begun:
                raise
            await send_problem(adding, problem_of(OutcomeUnknown(_CUT_OFF)), (b"retry-after", b"1"))
        finally:
            if ticket is not None:
                ticket.give_back()

    def _is_known(self, scope: Scope) -> bool:
        said = next((value for name, value in scope["headers"] if name == b"host"), b"")
        return "*" in self._hosts or _name_of(said.decode("latin-1").lower()) in self._hosts


def _says_two_things(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Could two readers, as a proxy and we, take this for two requests, or for two people's?"""
    names = [name for name, _ in headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        return True
    return len(set(names)) < len(names) and any(names.count(name) > 1 for name in _SAID_ONCE)


def _name_of(host: str) -> str:
    """Gives a host's name without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _add_headers(message: MutableMapping[str, Any], more: Sequence[tuple[bytes, bytes]] = ()) -> None:
    headers = [*message.get("headers", ()), *more]
    if message["status"] == 413:
        headers.append((b"connection", b"close"))  # else all the rest would be read, and thrown away
    there = {name.lower() for name, _ in headers}
    message["headers"] = headers + [(name, value) for name, value in _HEADERS.items() if name not in there]


async def _refuse(send: Send, status: int, title: str, detail: str) -> None:
    """Refuses what is not looked at, and hangs up: what comes behind it may be a part of it."""
    problem = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    await send_problem(send, problem, (b"connection", b"close"))


async def send_problem(send: Send, problem: dict[str, Any], *more: tuple[bytes, bytes]) -> None:
    """Answer with a problem, and with all that every answer carries."""
    body = json.dumps(problem).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode()), *more]
    start = {"type": "http.response.start", "status": problem["status"], "headers": headers}
    _add_headers(start)
    await send(start)
    await send({"type": "http.response.body", "body": body})
