"""Stands between a client and PostgreSQL and counts what passes: statements that completed, and round trips."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

COMMAND_COMPLETE = ord("C")
PORTAL_SUSPENDED = ord("s")


@dataclass(slots=True)
class _Stream:
    """Walks the messages of a server's answers, which arrive in arbitrary pieces."""

    header: bytearray = field(default_factory=bytearray)
    to_skip: int = 0

    def statements(self, piece: bytes) -> int:
        """Returns how many statements completed in the next piece."""
        found = 0
        at = 0
        while at < len(piece):
            if self.to_skip:
                step = min(self.to_skip, len(piece) - at)
                self.to_skip -= step
                at += step
                continue
            needed = 5 - len(self.header)
            self.header += piece[at : at + needed]
            at += needed
            if len(self.header) == 5:
                found += self.header[0] in (COMMAND_COMPLETE, PORTAL_SUSPENDED)
                self.to_skip = int.from_bytes(self.header[1:5], "big") - 4
                self.header.clear()
        return found


@dataclass(slots=True)
class _Link:
    """One client's connection: both sockets, and whose turn it was last."""

    client: socket.socket
    server: socket.socket
    answers: _Stream = field(default_factory=_Stream)
    client_spoke_last: bool = False


class CountingProxy:
    """Passes bytes on unchanged. Clients must ask neither for TLS nor for GSS, so that every message can be read."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="counting-proxy", daemon=True)
        self.statements = 0
        self.round_trips = 0

    @property
    def port(self) -> int:
        """Where clients connect."""
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wake.send(b"!")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        self._wake.close()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    return
                if key.fileobj is self._listener:
                    self._welcome()
                elif isinstance(key.fileobj, socket.socket):
                    self._pass_on(key.fileobj, key.data)

    def _welcome(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", self._server_port))
        link = _Link(client, server)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(end, selectors.EVENT_READ, link)

    def _pass_on(self, source: socket.socket, link: _Link) -> None:
        try:
            piece = source.recv(65536)
            if piece:
                self._count(source, link, piece)
                (link.server if source is link.client else link.client).sendall(piece)
                return
        except OSError:
            pass
        for end in (link.client, link.server):
            with contextlib.suppress(KeyError, ValueError):  # already let go of: both ends may close at once
                self._selector.unregister(end)
            end.close()

    def _count(self, source: socket.socket, link: _Link, piece: bytes) -> None:
        if source is link.client:
            link.client_spoke_last = True
            return
        self.statements += link.answers.statements(piece)
        if link.client_spoke_last:  # the first answer after a request ends one round trip
            self.round_trips += 1
            link.client_spoke_last = False
