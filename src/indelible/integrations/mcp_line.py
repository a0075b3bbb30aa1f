"""The line to an MCP server over HTTP: an answer that breaks costs its own call, and no call is sent twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import anyio
import httpx2

_CONNECT = 30.0
_SESSION = "mcp-session-id"


class SteadyClient(httpx2.AsyncClient):
    """A client whose requests end in an answer, also when the line breaks.

    The MCP library ends its whole session on an error of one request. And it follows a redirect by sending the request
    again, which for a tool call may be the second time: a server or gateway can redirect after the deed.

    If the server has ended the session, a request that is no tool call begins a new one, and is sent again in that.

    Args:
        timeout: How long to wait for the next bytes of an answer; None waits for ever.
    """

    def __init__(self, timeout: timedelta | None) -> None:
        read = None if timeout is None else timeout.total_seconds()
        # An answer that lies about its encoding is one that cannot be read, and nothing worse.
        super().__init__(timeout=httpx2.Timeout(_CONNECT, read=read), headers={"accept-encoding": "identity"})
        self.is_connected = False
        self.server: str | None = None
        """The name that the server said of itself. A new session is begun with no other server."""
        self._begins: httpx2.Request | None = None
        self._session: str | None = None
        self._renewing = anyio.Lock()
        self._moved: dict[httpx2.URL, httpx2.URL] = {}

    async def send(self, request: httpx2.Request, **words: Any) -> httpx2.Response:
        """Send a request. Once connected, return an error for a line that breaks instead of raising."""
        method = _method_of(request)
        is_call = method == "tools/call"
        if method == "initialize" and self._begins is None:
            self._begins = request
        if _SESSION in request.headers and self._session is not None:
            request.headers[_SESSION] = self._session
        if is_call:
            request.url = self._moved.get(request.url, request.url)
        try:
            response = await super().send(request, **words)
        except httpx2.TransportError as broken:
            if not self.is_connected:
                raise
            return _error(request, f"the line to the server broke: {type(broken).__name__}: {broken}")
        if response.status_code == 404 and not is_call and method is not None and await self._renew(request):
            await response.aclose()
            request.headers[_SESSION] = str(self._session)
            response = await super().send(request, **words)
        if response.next_request is not None and is_call:
            await response.aclose()
            return _error(request, f"the server redirects the call to {response.next_request.url}; name that URL")
        if response.next_request is not None and _is_moved(request, response.next_request):
            self._moved[request.url] = response.next_request.url
        response.headers.pop("content-encoding", None)
        response.stream = _ToTheBreak(response.stream)
        return response

    async def _renew(self, request: httpx2.Request) -> bool:
        """Begin a new session in place of the one that a request is of; say whether there is one."""
        ended = request.headers.get(_SESSION)
        async with self._renewing:
            if ended is None or self._begins is None or self._session not in (None, ended):
                return ended is not None and self._begins is not None
            try:
                answer = await super().send(_again(self._begins, self._begins.content))
                session = answer.headers.get(_SESSION)
                if session is None or _server_in(answer.text) != self.server:
                    return False
                begun = _again(request, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
                begun.headers[_SESSION] = session
                await super().send(begun)
            except httpx2.TransportError:
                return False
            self._session = session
            return True


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


def _method_of(request: httpx2.Request) -> str | None:
    """Return the method of the protocol that a request calls; None if it calls none."""
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return None
    return str(message.get("method")) if isinstance(message, dict) and "method" in message else None


def _again(request: httpx2.Request, content: bytes) -> httpx2.Request:
    """Return a new request to the same place, with this message. It waits no longer than a connection may take."""
    headers = {name: value for name, value in request.headers.items() if name != "content-length"}
    waits = {"timeout": httpx2.Timeout(_CONNECT).as_dict()}
    return httpx2.Request(request.method, request.url, headers=headers, content=content, extensions=waits)


def _server_in(answer: str) -> str | None:
    """Return the name that a server says of itself, in an answer of JSON or of one event."""
    for line in answer.splitlines():
        try:
            return str(json.loads(line.removeprefix("data:"))["result"]["serverInfo"]["name"])
        except (ValueError, TypeError, KeyError):
            continue
    return None


def _error(request: httpx2.Request, why: str) -> httpx2.Response:
    """Return an answer that the MCP library reads as an error of this request."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": why}}
    return httpx2.Response(502, json=error, request=request)
