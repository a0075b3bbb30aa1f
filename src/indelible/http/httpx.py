"""The transports for httpx."""

from __future__ import annotations

from indelible.http.httpx_requests import async_trace_of, copy_of, leaving_request, trace_of

try:
    import httpx
except ImportError as missing:
    raise ImportError("indelible.http.httpx needs httpx: pip install httpx") from missing

__all__ = ["AsyncIdempotencyTransport", "IdempotencyTransport"]

# Only these tell when they write. A transport that takes their place, as a mock does, proves nothing.
_OWN = httpx.HTTPTransport.handle_request
_OWN_ASYNC = httpx.AsyncHTTPTransport.handle_async_request


class IdempotencyTransport(httpx.BaseTransport):
    """Give each request of a handler its idempotency key, and note when its first byte is written.

    A request with a safe method gets no key. Outside a handler nothing is added.

    Args:
        inner: The transport that sends. Default: `httpx.HTTPTransport()`. With a transport of another kind, a request
            counts as sent as soon as that transport is called.

    Example:
        client = httpx.Client(transport=IdempotencyTransport())
    """

    def __init__(self, inner: httpx.BaseTransport | None = None) -> None:
        self._inner = httpx.HTTPTransport() if inner is None else inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a copy of the request with its key.

        Args:
            request: The request.

        Returns:
            The response.

        Raises:
            AmbiguousRequest: Another body went to the same method, address and name in this attempt.
        """
        leaves = leaving_request(request)
        is_exact = getattr(self._inner.handle_request, "__func__", None) is _OWN
        if not is_exact:
            leaves.mark()
        trace = trace_of(request, leaves) if is_exact else None
        response = self._inner.handle_request(copy_of(request, leaves, trace))
        leaves.note_answer()
        return response

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()


class AsyncIdempotencyTransport(httpx.AsyncBaseTransport):
    """Do for asynchronous clients what `IdempotencyTransport` does for blocking ones.

    Args:
        inner: The transport that sends. Default: `httpx.AsyncHTTPTransport()`.

    Example:
        client = httpx.AsyncClient(transport=AsyncIdempotencyTransport())
    """

    def __init__(self, inner: httpx.AsyncBaseTransport | None = None) -> None:
        self._inner = httpx.AsyncHTTPTransport() if inner is None else inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a copy of the request with its key.

        Args:
            request: The request.

        Returns:
            The response.

        Raises:
            AmbiguousRequest: Another body went to the same method, address and name in this attempt.
        """
        leaves = leaving_request(request)
        is_exact = getattr(self._inner.handle_async_request, "__func__", None) is _OWN_ASYNC
        if not is_exact:
            leaves.mark()
        trace = async_trace_of(request, leaves) if is_exact else None
        response = await self._inner.handle_async_request(copy_of(request, leaves, trace))
        leaves.note_answer()
        return response

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()
