"""Transports that give each request of a handler its idempotency key, and note when its first byte is written.

| client | import |
|---|---|
| httpx2 | `from indelible.http import IdempotencyTransport, AsyncIdempotencyTransport` |
| httpx | `from indelible.http.httpx import IdempotencyTransport, AsyncIdempotencyTransport` |
| requests | `from indelible.http.requests import IdempotencyAdapter` |
| aiohttp | `from indelible.http.aiohttp import idempotency` |

Each module needs its own client only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indelible.http.httpx2 import AsyncIdempotencyTransport, IdempotencyTransport

__all__ = ["AsyncIdempotencyTransport", "IdempotencyTransport"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from indelible.http import httpx2

    return getattr(httpx2, name)
