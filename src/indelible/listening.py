"""A small HTTP server for strangers, on the standard library: few connections at once, little time, short requests.

It holds no rules. Witnesses and pressed Slack buttons are served by it, each with a `Listener` and a `Speaker`.
"""

from __future__ import annotations

import logging
import socket
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socketserver import TCPServer
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Any

PLAIN = "text/plain; charset=utf-8"
MOST_CONNECTIONS = 64


def is_loopback(host: str) -> bool:
    """Does this host name or address mean this machine and no other?"""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Listener(ThreadingHTTPServer):
    """Takes connections. One that is not done in time is cut, so slow clients keep nobody out for long."""

    daemon_threads = False  # closing waits for answers under way
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], speaker: type[Speaker], patience: float, log: logging.Logger) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.log = log
        self._patience = patience
        self._ends: dict[socket.socket, float] = {}
        self._ends_lock = Lock()
        self._free = BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, speaker)

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
        self.log.debug("a connection from %s ended early", client_address[0], exc_info=sys.exc_info())


class Unread(Exception):
    """Says why a request's body was not read, and with which status that is answered."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Speaker(BaseHTTPRequestHandler):
    """Speaks HTTP on one connection."""

    server: Listener
    server_version = "indelible"
    sys_version = ""
    error_content_type = PLAIN
    error_message_format = "%(message)s\n"
    most_bytes: int

    def body(self) -> bytes:
        """Reads a request's body; raises `Unread` for one that is too long, or whose end nobody can be sure of."""
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(lengths) != 1:
            raise self._unread(411, "say the length of the request, once")
        if not (lengths[0].isascii() and lengths[0].isdigit()):
            raise self._unread(400, "the length of the request is no number")
        length = int(lengths[0][:20])
        if length > self.most_bytes:
            raise self._unread(413, f"at most {self.most_bytes} bytes, please")
        body = self.rfile.read(length)
        if len(body) < length:
            raise self._unread(400, "shorter than it said")
        return body

    def _unread(self, status: int, why: str) -> Unread:
        self.close_connection = True  # what was not read would be taken for the next request
        return Unread(status, why)

    def answer(self, status: int, content_type: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Sends an answer, and gives the connection its time again."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.server.renew(self.connection)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Leaves a line for each request to those who want it."""
        self.server.log.debug("%s %s", self.client_address[0], format % args)


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):  # gone already
        line.shutdown(socket.SHUT_RDWR)
