"""Reads the heads of requests strictly, and refuses connections when there are too many.

A proxy and a server that read the same bytes differently can be made to see different requests. So what RFC 9112 lets a
server be lenient about is refused: lines that end in a bare LF, and header lines that are folded.
"""

from __future__ import annotations

import re
from typing import Any

import h11
from h11._receivebuffer import ReceiveBuffer
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from indelible.core.remote.problems import problem_of
from indelible.errors import Overloaded
from indelible.server.requests.hardening import send_problem
from indelible.server.requests.lingering import MOST_CONNECTIONS

_END = b"\r\n\r\n"
_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")


class StrictBuffer(ReceiveBuffer):
    """Takes heads apart at CRLF alone."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines of a head that is complete, None while it is not; raise for a head that is malformed."""
        if self._data[:2] == b"\r\n":
            self._extract(2)
            return []
        looked_at = self._multiple_lines_search
        end = self._data.find(_END, looked_at)
        head = self._data if end < 0 else self._data[:end]
        if _BARE.search(head, max(0, looked_at - 1)):
            raise h11.LocalProtocolError("a line of the head ends without CRLF")
        if end < 0:
            self._multiple_lines_search = max(0, len(self._data) - len(_END) + 1)
            return None
        lines = [bytearray(line) for line in self._extract(end + len(_END))[: -len(_END)].split(b"\r\n")]
        if any(line.startswith((b" ", b"\t")) for line in lines):
            raise h11.LocalProtocolError("a line of the head is folded")
        return lines


class StrictProtocol(H11Protocol):
    """Is one connection. When there are too many, it is told so and closed after the first answer."""

    most_connections = MOST_CONNECTIONS

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self.conn._receive_buffer = StrictBuffer()

    def connection_made(self, transport: Any) -> None:
        """Take a connection in, or refuse what it will ask."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            self.app = _overloaded


async def _overloaded(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request before anything of it is looked at."""
    refused = Overloaded("the server has as many connections as it takes; nothing was done, ask again in a second")
    await send_problem(send, problem_of(refused), (b"connection", b"close"), (b"retry-after", b"1"))
