"""A payment provider on a local port: it keeps books, and misbehaves as real ones and their gateways do."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.waiting import PATIENCE

# After the deed, the answer is lost or says something else.
AFTER_THE_DEED = ("swallow", "reset", "stall", "error", "gateway", "garbage")


@dataclass
class Provider:
    """What came in, what was charged, and how to misbehave.

    `script` says how the next charges are answered, one word each; then `always` does. Words are those of
    `AFTER_THE_DEED`, "declined" (nothing is charged), "slow" (answered when `may_answer` is set) and "ok".
    """

    url: str = ""
    dedupes: bool = True
    """Does it answer a key that it knows without charging again?"""
    always: str = "ok"
    script: list[str] = field(default_factory=list)
    requests: list[tuple[str, str, str | None, bytes]] = field(default_factory=list)
    """Method, path, key and body of everything that came in."""
    charges: list[bytes] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)
    _known: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def keys(self) -> list[str | None]:
        """The keys of what came in, in order."""
        return [key for _, _, key, _ in self.requests]

    def forget(self) -> None:
        """Let its window end: it knows no key any more."""
        self._known.clear()

    def take(self, method: str, path: str, key: str | None, body: bytes) -> str:
        """Book a request, and return how to answer it."""
        with self._lock:
            self.requests.append((method, path, key, body))
            if method == "GET" or path.endswith("/token"):
                return "ok"
            word = self.script.pop(0) if self.script else self.always
            is_new = not (self.dedupes and key is not None and key in self._known)
            if is_new and word != "declined":
                self.charges.append(body)
                self._known |= {key} if key is not None else set()
            return word

    def stall(self) -> None:
        """Say nothing until the test is over."""
        self._is_over.wait(PATIENCE)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    provider: Provider

    def shutdown_request(self, request: Any) -> None:
        """Close without a FIN where the connection is to be reset."""
        lingers = request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) != struct.pack("ii", 0, 0)
        (request.close if lingers else lambda: super(_Server, self).shutdown_request(request))()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        provider = self.server.provider
        body = self._read()
        word = provider.take(self.command, self.path, self.headers.get("Idempotency-Key"), body)
        answers: dict[str, Callable[[], None]] = {
            "ok": lambda: self._say(
                200, {"id": "ch_1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
            ),
            "swallow": lambda: None,
            "reset": lambda: self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)),
            "stall": provider.stall,
            "error": lambda: self._say(500, {"error": "something went wrong"}),
            "gateway": lambda: self._say(404, "<html>no such route</html>", "text/html"),
            "garbage": lambda: self._say(200, '{"id": "ch_1', "application/json"),
            "declined": lambda: self._say(402, {"error": {"code": "card_declined"}}),
        }
        if word == "slow":
            provider.may_answer.wait(PATIENCE)
        answers["ok" if word == "slow" else word]()
        self.close_connection = self.close_connection or word in ("swallow", "reset", "stall")

    do_GET = do_PUT = do_DELETE = do_POST

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _say(self, status: int, content: Any, kind: str = "application/json") -> None:
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, *_: Any) -> None:
        """Nothing is written."""


@contextmanager
def providing(**words: Any) -> Iterator[Provider]:
    """Run a provider beside the test."""
    server = _Server(("127.0.0.1", 0), _Handler)
    provider = server.provider = Provider(url=f"http://127.0.0.1:{server.server_address[1]}", **words)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider._is_over.set()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)
