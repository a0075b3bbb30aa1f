"""A witness over HTTP: C2SP's tlog-witness on the standard library's server. The rules are the cosigner's.

Requests come from strangers. Each is limited in size, each connection in time, and their number is limited too.
"""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Any

from indelible.core.journal.witnessing import MOST_REQUEST_BYTES, Refusal
from indelible.journal.witnesses.cosigner import Cosigner

_log = logging.getLogger("indelible.witness")
_PLAIN = "text/plain; charset=utf-8"
_MOST_CONNECTIONS = 64


class WitnessServer(ThreadingHTTPServer):
    """Serves a cosigner. A connection that is not done in time is cut, so slow clients keep nobody out for long."""

    daemon_threads = False  # closing waits for answers under way
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], cosigner: Cosigner, patience: float = 10.0) -> None:
        self.cosigner = cosigner
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._patience = patience
        self._ends: dict[socket.socket, float] = {}
        self._ends_lock = Lock()
        self._free = BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Binds without asking a name server what this machine is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def url(self) -> str:
        """Is where it listens."""
        host = f"[{self.server_name}]" if ":" in self.server_name else self.server_name
        return f"http://{host}:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Takes a connection, unless there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self.renew(request)
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()  # no thread came of it
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def renew(self, request: socket.socket) -> None:
        """Gives a connection its time again."""
        with self._ends_lock:
            self._ends[request] = monotonic() + self._patience

    def shutdown_request(self, request: Any) -> None:
        """Ends a connection."""
        with self._ends_lock:
            self._ends.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cuts connections whose time is over."""
        self._cut(monotonic())

    def server_close(self) -> None:
        """Cuts all connections and waits until no thread is left."""
        self.socket.close()
        self._cut(float("inf"))
        super().server_close()

    def _cut(self, now: float) -> None:
        with self._ends_lock:
            for request, end in self._ends.items():
                if end <= now:
                    _hang_up(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs what went wrong with a connection; one that was cut is no error."""
        _log.debug("a connection from %s ended early", client_address[0], exc_info=True)


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):  # gone already
        line.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Speaks HTTP for the cosigner, which holds the rules."""

    server: WitnessServer
    protocol_version = "HTTP/1.1"
    server_version = "indelible-witness"
    sys_version = ""
    error_content_type = _PLAIN
    error_message_format = "%(message)s\n"

    def do_POST(self) -> None:
        """Answers add-checkpoint."""
        body = self._body()
        if body is None:
            return
        if self.path != "/add-checkpoint":
            self._answer(404, _PLAIN, b"heads are posted to /add-checkpoint\n")
            return
        try:
            found = self.server.cosigner.answer(body)
        except Exception:
            _log.exception("a head could not be cosigned")
            found = Refusal(500, "the witness cannot write down what it cosigns; its operator finds why in its log")
        if isinstance(found, Refusal):
            _log.info("%s: %d %s", self.client_address[0], found.status, found.why)
            self._answer(found.status, found.content_type, bytes(found))
        else:
            self._answer(200, _PLAIN, found)

    def do_GET(self) -> None:
        """Shows the head cosigned last of a log, for monitors."""
        # A body that nobody reads would be taken for the next request.
        self.close_connection |= bool({"Content-Length", "Transfer-Encoding"} & set(self.headers))
        name, _, rest = self.path.removeprefix("/").partition("/")
        found = self.server.cosigner.latest(name) if rest == "checkpoint" else None
        if found is None:
            self._answer(404, _PLAIN, b"no head of such a log was cosigned here\n")
        else:
            self._answer(200, _PLAIN, found)

    def _body(self) -> bytes | None:
        """Reads a request's body; None when it was refused already or never came."""
        length = self._length()
        if isinstance(length, Refusal):
            self.close_connection = True  # what was not read would be taken for the next request
            self._answer(length.status, length.content_type, bytes(length))
            return None
        body = self.rfile.read(length)
        self.close_connection |= len(body) < length
        return body if len(body) == length else None

    def _length(self) -> int | Refusal:
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(lengths) != 1:
            return Refusal(411, "say the length of the request, once")
        if not lengths[0].isascii() or not lengths[0].isdigit():
            return Refusal(400, "the length of the request is no number")
        length = int(lengths[0][:20])
        return length if length <= MOST_REQUEST_BYTES else Refusal(413, f"at most {MOST_REQUEST_BYTES} bytes, please")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.server.renew(self.connection)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Leaves a line for each request to those who want it."""
        _log.debug("%s %s", self.client_address[0], format % args)
