"""Passes the ledger's key on: an httpx2 transport that marks what a handler sends with `Idempotency-Key`."""

from __future__ import annotations

from indelible.engine.running import current_effect

try:
    import httpx2
except ImportError as missing:
    raise ImportError("indelible.http needs httpx2: pip install 'indelible[http]'") from missing

_HEADER = "Idempotency-Key"
# Requests that change nothing need no key.
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class IdempotencyTransport(httpx2.BaseTransport):
    """Adds the running effect's key to requests that may change something; outside a handler it adds nothing.

    The same request sent once more has the same key. Another one of the same handler has something behind the key, so
    that two different requests never share one. A key that the request already has is left alone.
    """

    def __init__(self, inner: httpx2.BaseTransport | None = None) -> None:
        self._inner = inner or httpx2.HTTPTransport()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends the request, marked."""
        _mark(request)
        return self._inner.handle_request(request)

    def close(self) -> None:
        """Closes the transport below."""
        self._inner.close()


class AsyncIdempotencyTransport(httpx2.AsyncBaseTransport):
    """Does the same for asynchronous clients."""

    def __init__(self, inner: httpx2.AsyncBaseTransport | None = None) -> None:
        self._inner = inner or httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends the request, marked."""
        _mark(request)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Closes the transport below."""
        await self._inner.aclose()


def _mark(request: httpx2.Request) -> None:
    effect = current_effect()
    if effect is not None and request.method.upper() not in _SAFE and _HEADER not in request.headers:
        request.headers[_HEADER] = effect.request_key(_content_of(request))


def _content_of(request: httpx2.Request) -> bytes | None:
    """Gives what tells one request from another; None when its body is a stream, which can be read but once."""
    try:
        return b"\0".join((request.method.upper().encode(), str(request.url).encode(), request.content))
    except httpx2.RequestNotRead:
        return None
