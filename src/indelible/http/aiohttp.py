"""The middleware for aiohttp."""

from __future__ import annotations

from functools import wraps
from typing import Any

from indelible.engine.running import current_effect
from indelible.http.leaving import LARGEST_BODY, Leaving, leaving, needs_key, refuse_past

try:
    import aiohttp
    import aiohttp.payload
    from aiohttp.client_middlewares import ClientHandlerType

    if not hasattr(aiohttp.payload.Payload, "as_bytes"):
        raise ImportError(f"aiohttp {aiohttp.__version__} cannot read a body before it is sent")
except ImportError as missing:
    raise ImportError(
        "indelible.http.aiohttp needs aiohttp 3.12.1 or newer: pip install 'aiohttp>=3.12.1'"
    ) from missing

__all__ = ["idempotency"]


async def idempotency(request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
    """Give each request of a handler its idempotency key, and note when its first byte is written.

    A request with a safe method gets no key. Outside a handler nothing is added. List this middleware last, so that
    it sees each request as it is sent.

    Args:
        request: The request.
        handler: The next middleware, or aiohttp itself.

    Returns:
        The response.

    Raises:
        AmbiguousRequest: Another body went to the same method, address and name in this attempt.

    Example:
        session = aiohttp.ClientSession(middlewares=(idempotency,))
    """
    effect, url = current_effect(), str(request.url)
    is_compared = effect is not None and needs_key(effect, request.method, url, request.headers)
    body = await _body_of(request) if is_compared else None
    leaves = leaving(request.method, url, request.headers, lambda: body)
    request.headers.update(leaves.headers)
    _mark_first_byte(request, leaves)
    response = await handler(request)
    leaves.note_answer()
    return response


def _mark_first_byte(request: aiohttp.ClientRequest, leaves: Leaving) -> None:
    """Let the request be marked when it is given its connection; where that cannot be seen, mark it now."""
    send: Any = getattr(request, "send", None)
    if type(request) is not aiohttp.ClientRequest or send is None:
        leaves.mark()
        return

    async def marking(connection: Any) -> Any:
        leaves.mark()
        return await send(connection)

    vars(request)["send"] = marking


async def _body_of(request: aiohttp.ClientRequest) -> bytes | None:
    body = request.body
    if isinstance(body, bytes):
        return body
    is_small = body.size is not None and body.size <= LARGEST_BODY
    return bytes(await body.as_bytes()) if is_small else None  # it may be a bytearray or a memoryview


def _refuse_other_middlewares(kind: Any) -> None:
    """Let sessions with this middleware refuse a request whose own `middlewares=` take its place."""
    request = kind._request

    @wraps(request)
    async def _request(self: aiohttp.ClientSession, *args: Any, **words: Any) -> aiohttp.ClientResponse:
        own = words.get("middlewares")
        if own is not None and idempotency not in own and idempotency in self._middlewares:
            refuse_past(
                "middlewares= of one request replace those of the session",
                "pass middlewares=(…, idempotency), or give them to the session",
            )
        response: aiohttp.ClientResponse = await request(self, *args, **words)
        return response

    kind._request = _request


_refuse_other_middlewares(aiohttp.ClientSession)
