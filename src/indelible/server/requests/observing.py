"""Sees every request from outside: gives it an id, a line in the log, a place in the counts, and a span."""

from __future__ import annotations

import logging
import random
import re
import time
from typing import Any

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indelible.core.remote.admitting import Caller
from indelible.core.remote.questions import QUESTIONS
from indelible.engine.tracing import Span, is_tracing, spanning
from indelible.server.requests.asking import Authenticate
from indelible.server.requests.logs import REQUESTS, TOLD, causes_of
from indelible.server.requests.metrics import Metrics

REQUEST_ID = b"x-request-id"
_ASKED_BY = "indelible.asked_by"
_STORE = "/v1/store/"
_OTHER = "other"
_GONE = 499  # as proxies count those who left before their answer
_QUESTIONS = frozenset(QUESTIONS) | {"apply", "introduce"}
_GOOD_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_CREDENTIAL = re.compile(rb"[A-Za-z0-9_]{1,64}")
_log = logging.getLogger(REQUESTS)


def noting(authenticate: Authenticate) -> Authenticate:
    """Lets the request remember who sent it, as soon as that is known."""

    async def noted(request: Request) -> Caller:
        caller = await authenticate(request)
        request.scope[_ASKED_BY] = caller.tenant
        return caller

    return noted


def _credential_in(scope: Scope) -> str | None:
    """Gives the public half of the token that was accepted; never its secret, and nothing of one that was not."""
    if _ASKED_BY not in scope:
        return None
    parts = dict(scope["headers"]).get(b"authorization", b"").rpartition(b" ")[2].split(b".")
    return parts[2].decode() if len(parts) == 4 and _CREDENTIAL.fullmatch(parts[2]) else None


class Observed:
    """Stands in front of everything else."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._requests = metrics.requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on and tells what became of it; an error that nobody foresaw goes no further than here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        seen = _Seen(dict(scope["headers"]), send)
        self._requests.under_way += 1
        try:
            if is_tracing():
                await self._traced(scope, receive, seen)
            else:
                await self._answered(scope, receive, seen)
        finally:
            self._requests.under_way -= 1
            seconds = time.perf_counter() - began
            self._requests.count(scope["method"], route_of(scope), seen.status or _GONE, seconds)
            _write_line(scope, seen, seconds)

    async def _answered(self, scope: Scope, receive: Receive, seen: _Seen) -> None:
        try:
            await self._app(scope, receive, seen.send)
        except Exception as error:
            seen.error = error
            if not seen.status:
                await _say_nothing_more(seen.send)

    async def _traced(self, scope: Scope, receive: Receive, seen: _Seen) -> None:
        headers = dict(scope["headers"])
        carrier = {name: headers.get(name.encode(), b"").decode("latin-1") for name in ("traceparent", "tracestate")}
        with spanning(scope["method"], "SERVER", carrier) as span:
            await self._answered(scope, receive, seen)
            _tell_span(span, scope, seen)


class _Seen:
    """Is what is seen of one answer on its way out."""

    __slots__ = ("_send", "error", "id", "status", "trace_id")

    def __init__(self, headers: dict[bytes, bytes], send: Send) -> None:
        given = headers.get(REQUEST_ID)
        self.id = given if given is not None and _GOOD_ID.fullmatch(given) else _new_id()
        parent = headers.get(b"traceparent")
        trace = None if parent is None else _TRACE.fullmatch(parent)
        self.trace_id = None if trace is None else trace[1].decode()
        self.status = 0
        self.error: BaseException | None = None
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (REQUEST_ID, self.id)]
        await self._send(message)


def _new_id() -> bytes:
    return b"%032x" % random.getrandbits(128)  # it names a line, and is no secret


def route_of(scope: Scope) -> str:
    """Gives the template of the route that answered, not the path that was asked for."""
    template: str | None = getattr(scope.get("route"), "path", None)
    if template is not None:
        return template
    name = scope.get("path_params", {}).get("name")
    return _STORE + name if "endpoint" in scope and name in _QUESTIONS else _OTHER


def _tell_span(span: Span, scope: Scope, seen: _Seen) -> None:
    route = route_of(scope)
    span.rename(f"{scope['method']} {route}")
    span.tell(
        http__request__method=scope["method"],
        http__route=route,
        http__response__status_code=seen.status,
        url__scheme=scope.get("scheme"),
    )
    if seen.status >= 500:
        span.fail(str(seen.status) if seen.error is None else type(seen.error).__qualname__)
    seen.trace_id = span.trace_id or seen.trace_id


def _write_line(scope: Scope, seen: _Seen, seconds: float) -> None:
    level = logging.ERROR if seen.error is not None or seen.status >= 500 else logging.INFO
    if not _log.isEnabledFor(level):
        return
    facts: dict[str, Any] = {
        "method": scope["method"] if scope["method"].isalpha() else _OTHER,
        "route": route_of(scope),
        "status": seen.status or None,
        "ms": round(seconds * 1000, 2),
        "tenant": scope.get(_ASKED_BY),
        "credential": _credential_in(scope),
        "request_id": seen.id.decode(),
        "trace_id": seen.trace_id,
    }
    if seen.error is not None:
        facts["error"] = causes_of(seen.error)
    _log.log(level, "answered" if seen.status else "left without an answer", extra={TOLD: facts})


async def _say_nothing_more(send: Send) -> None:
    """Answers what went wrong here without saying what: the log does."""
    body = b'{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"the server\'s log says more"}'
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})
