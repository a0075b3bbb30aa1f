"""The line to an MCP server over HTTP: an answer that breaks costs its own call, and no call is sent twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2

_CONNECT = 30.0


class SteadyClient(httpx2.AsyncClient):
    """A client whose requests end in an answer, also when the line breaks.

    The MCP library ends its whole session on an error of one request. And it follows a redirect by sending the request
    again, which for a tool call may be the second time: a server or gateway can redirect after the deed.

    Args:
        timeout: How long to wait for the next bytes of an answer; None waits for ever.
    """

    def __init__(self, timeout: timedelta | None) -> None:
        read = None if timeout is None else timeout.total_seconds()
        # An answer that lies about its encoding is one that cannot be read, and nothing worse.
        super().__init__(timeout=httpx2.Timeout(_CONNECT, read=read), headers={"accept-encoding": "identity"})
        self.is_connected = False
        self._moved: dict[httpx2.URL, httpx2.URL] = {}

    async def send(self, request: httpx2.Request, **words: Any) -> httpx2.Response:
        """Send a request. Once connected, return an error for a line that breaks instead of raising."""
        is_call = _is_tool_call(request)
        if is_call:
            request.url = self._moved.get(request.url, request.url)
        try:
            response = await super().send(request, **words)
        except httpx2.TransportError as broken:
            if not self.is_connected:
                raise
            return _error(request, f"the line to the server broke: {type(broken).__name__}: {broken}")
        if response.next_request is not None and is_call:
            await response.aclose()
            return _error(request, f"the server redirects the call to {response.next_request.url}; name that URL")
        if response.next_request is not None and _is_moved(request, response.next_request):
            self._moved[request.url] = response.next_request.url
        response.headers.pop("content-encoding", None)
        response.stream = _ToTheBreak(response.stream)
        return response


class _ToTheBreak(httpx2.AsyncByteStream):
    """The bytes of an answer as far as they come: what is cut is not whole, and is told as such."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._stream:
                yield part
        except httpx2.TransportError:
            return

    async def aclose(self) -> None:
        await self._stream.aclose()


def _is_moved(request: httpx2.Request, followed: httpx2.Request) -> bool:
    """Say whether the same request is to be sent to another path of the same server."""
    here, there = request.url, followed.url
    is_same_server = (here.scheme, here.host, here.port) == (there.scheme, there.host, there.port)
    return is_same_server and request.method == followed.method


def _is_tool_call(request: httpx2.Request) -> bool:
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return False
    return isinstance(message, dict) and message.get("method") == "tools/call"


def _error(request: httpx2.Request, why: str) -> httpx2.Response:
    """Return an answer that the MCP library reads as an error of this request."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": why}}
    return httpx2.Response(502, json=error, request=request)
