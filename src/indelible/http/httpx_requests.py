"""What httpx and httpx2 have in common: their requests, and the trace of httpcore below them. Imports neither."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Any, ClassVar

from indelible.errors import BadCall
from indelible.http.leaving import LARGEST_BODY, Leaving, leaving

# httpcore tells this of HTTP/1.1 and HTTP/2 alike: there is a connection, and nothing of the request is written yet.
_FIRST_BYTE = "send_request_headers.started"


def leaving_request(request: Any) -> Leaving:
    """Return what to add to a request of httpx or httpx2, and to do before it leaves."""
    return leaving(request.method, str(request.url), request.headers, lambda: _body_of(request))


def _body_of(request: Any) -> bytes | None:
    try:
        content: bytes = request.content
    except RuntimeError:  # RequestNotRead: an upload, or a stream
        length = request.headers.get("Content-Length", "")
        is_small = length.isdecimal() and int(length) <= LARGEST_BODY
        is_upload = request.headers.get("Content-Type", "").startswith("multipart/")
        # A stream of the user's own is only ever read by the client.
        return request.read() if is_upload and is_small and isinstance(request.stream, Iterable) else None
    return content


def copy_of(request: Any, leaves: Leaving, trace: Callable[..., Any] | None) -> Any:
    """Return the request as it is sent.

    The caller's own stays as it is. It may be sent again by another handler, or be redirected to another address.
    """
    copy = type(request)(
        request.method,
        request.url,
        headers=request.headers,
        stream=request.stream,
        extensions=request.extensions if trace is None else {**request.extensions, "trace": trace},
    )
    copy.headers.update(leaves.headers)
    if hasattr(request, "_content"):  # a transport below may look at the content without reading it
        copy.read()
    return copy


def trace_of(request: Any, leaves: Leaving) -> Callable[[str, Any], Any]:
    """Return a trace that marks the first byte, and then tells the caller's own trace."""
    then: Callable[[str, Any], Any] | None = request.extensions.get("trace")

    def trace(event: str, info: Any) -> Any:
        if event.endswith(_FIRST_BYTE):
            leaves.mark()
        return None if then is None else then(event, info)

    return trace


def async_trace_of(request: Any, leaves: Leaving) -> Callable[[str, Any], Awaitable[None]]:
    """Return the same trace for an asynchronous client."""
    then: Callable[[str, Any], Awaitable[None]] | None = request.extensions.get("trace")

    async def trace(event: str, info: Any) -> None:
        if event.endswith(_FIRST_BYTE):
            leaves.mark()
        if then is not None:
            await then(event, info)

    return trace


class Marked:
    """Give each request of a handler its idempotency key, and note when its first byte is written.

    A request with a safe method gets no key. Outside a handler nothing is added.

    Args:
        inner: The transport that sends. Default: the library's own `HTTPTransport()`. With a transport of another
            kind, a request counts as sent as soon as that transport is called.

    Example:
        client = httpx2.Client(transport=IdempotencyTransport())
    """

    own: ClassVar[tuple[Any, Any]]
    """The library's own transport, and the method by which it sends, as it was imported.

    Only that one tells when it writes. A method that takes its place, as a mock does, proves nothing.
    """

    def __init__(self, inner: Any = None) -> None:
        self._inner = self.own[0]() if inner is None else inner

    def handle_request(self, request: Any) -> Any:
        """Send a copy of the request with its key, and return the response.

        Raises:
            AmbiguousRequest: Another body went to the same method, address and name in this attempt.
        """
        leaves = leaving_request(request)
        is_exact = getattr(self._inner.handle_request, "__func__", None) is self.own[1]
        if not is_exact:
            leaves.mark()
        trace = trace_of(request, leaves) if is_exact else None
        response = self._inner.handle_request(copy_of(request, leaves, trace))
        leaves.note_answer()
        return response

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()


class AsyncMarked:
    """Do for asynchronous clients what `Marked` does for blocking ones."""

    own: ClassVar[tuple[Any, Any]]

    def __init__(self, inner: Any = None) -> None:
        self._inner = self.own[0]() if inner is None else inner

    async def handle_async_request(self, request: Any) -> Any:
        """Send a copy of the request with its key, and return the response; see `Marked`."""
        leaves = leaving_request(request)
        is_exact = getattr(self._inner.handle_async_request, "__func__", None) is self.own[1]
        if not is_exact:
            leaves.mark()
        trace = async_trace_of(request, leaves) if is_exact else None
        response = await self._inner.handle_async_request(copy_of(request, leaves, trace))
        leaves.note_answer()
        return response

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()


def refuse_other_mounts(kind: Any, name: str) -> None:
    """Let this class of clients refuse our transport beside a proxy or another transport: they would send past it.

    What the client has made counts, not what it was given: versions differ in the words that lead to a proxy.

    Args:
        kind: The class of clients.
        name: Its transport, for the error.
    """
    init = kind.__init__

    @wraps(init)
    def __init__(self: Any, **words: Any) -> None:
        init(self, **words)
        ways = [self._transport, *(one for one in self._mounts.values() if one is not None)]
        are_ours = [isinstance(one, (Marked, AsyncMarked)) for one in ways]
        if any(are_ours) and not all(are_ours):
            raise BadCall(
                f"{kind.__name__}: proxies and other transports in mounts= lead past Indelible's transport, without a "
                f"key and unseen; pass transport=…(inner={name}(proxy=…)), and wrap each transport in mounts= likewise"
            )

    kind.__init__ = __init__
