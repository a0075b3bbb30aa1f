"""The transports for httpx2."""

from __future__ import annotations

from indelible.http.httpx_requests import AsyncMarked, Marked, refuse_other_mounts

try:
    import httpx2
except ImportError as missing:
    raise ImportError("indelible.http needs httpx2: pip install 'indelible[http]'") from missing

__all__ = ["AsyncIdempotencyTransport", "IdempotencyTransport"]


class IdempotencyTransport(Marked, httpx2.BaseTransport):
    __doc__ = Marked.__doc__
    own = (httpx2.HTTPTransport, httpx2.HTTPTransport.handle_request)


class AsyncIdempotencyTransport(AsyncMarked, httpx2.AsyncBaseTransport):
    __doc__ = AsyncMarked.__doc__
    own = (httpx2.AsyncHTTPTransport, httpx2.AsyncHTTPTransport.handle_async_request)


refuse_other_mounts(httpx2.Client, "HTTPTransport")
refuse_other_mounts(httpx2.AsyncClient, "AsyncHTTPTransport")
