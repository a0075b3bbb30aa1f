"""The transports for httpx."""

from __future__ import annotations

import re

from indelible.http.httpx_requests import AsyncMarked, Marked, refuse_other_mounts

try:
    import httpx
except ImportError as missing:
    raise ImportError("indelible.http.httpx needs httpx: pip install httpx") from missing

# The first one whose connections tell when they write.
if tuple(map(int, re.findall("[0-9]+", httpx.__version__)[:2])) < (0, 23):
    raise ImportError(f"indelible.http.httpx needs httpx 0.23 or newer, not {httpx.__version__}: pip install -U httpx")

__all__ = ["AsyncIdempotencyTransport", "IdempotencyTransport"]


class IdempotencyTransport(Marked, httpx.BaseTransport):
    __doc__ = Marked.__doc__
    own = (httpx.HTTPTransport, httpx.HTTPTransport.handle_request)


class AsyncIdempotencyTransport(AsyncMarked, httpx.AsyncBaseTransport):
    __doc__ = AsyncMarked.__doc__
    own = (httpx.AsyncHTTPTransport, httpx.AsyncHTTPTransport.handle_async_request)


refuse_other_mounts(httpx.Client, "HTTPTransport")
refuse_other_mounts(httpx.AsyncClient, "AsyncHTTPTransport")
