"""The transports for httpx."""

from __future__ import annotations

from indelible.http.httpx_requests import AsyncMarked, Marked, refuse_other_mounts

try:
    import httpx
except ImportError as missing:
    raise ImportError("indelible.http.httpx needs httpx: pip install httpx") from missing

__all__ = ["AsyncIdempotencyTransport", "IdempotencyTransport"]


class IdempotencyTransport(Marked, httpx.BaseTransport):
    __doc__ = Marked.__doc__
    own = (httpx.HTTPTransport, httpx.HTTPTransport.handle_request)


class AsyncIdempotencyTransport(AsyncMarked, httpx.AsyncBaseTransport):
    __doc__ = AsyncMarked.__doc__
    own = (httpx.AsyncHTTPTransport, httpx.AsyncHTTPTransport.handle_async_request)


refuse_other_mounts(httpx.Client, "HTTPTransport")
refuse_other_mounts(httpx.AsyncClient, "AsyncHTTPTransport")
