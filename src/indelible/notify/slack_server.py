"""A small HTTP server for pressed Slack buttons, on the standard library. It holds no rules.

Requests come from strangers: each is limited in size and time, and their number is limited. Nothing but a POST to one
path is looked at.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import BoundedSemaphore, Timer
from typing import Any

from indelible.errors import IndelibleError
from indelible.notify.slack_interactions import MOST_BODY, SlackInteractions, SlackReply

PATH = "/slack/interactions"
_MOST_CONNECTIONS = 32
_PATIENCE = 5.0
_MOST_SECONDS = 15.0
_log = logging.getLogger("indelible.notify.slack")


class SlackServer(ThreadingHTTPServer):
    """Serves pressed buttons. One request to a connection, and a connection that is slow is cut."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        interactions: SlackInteractions,
        clock: Callable[[], float] = time.time,
        most_seconds: float = _MOST_SECONDS,
    ) -> None:
        self.interactions = interactions
        self.clock = clock
        self._most_seconds = most_seconds
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
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
        return f"http://{host}:{self.server_port}{PATH}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Takes a connection, unless there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()  # no thread came of it
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves a connection to its end, or until its time is over, however slowly it speaks."""
        end = Timer(self._most_seconds, _hang_up, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs what went wrong with a connection; one that was cut is no error."""
        _log.debug("a connection from %s ended early", client_address[0], exc_info=True)


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):  # gone already
        line.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Speaks HTTP for the interactions, which hold the rules."""

    server: SlackServer
    timeout = _PATIENCE
    server_version = "indelible"
    sys_version = ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(message)s\n"

    def do_POST(self) -> None:
        """Hands a request on."""
        self.close_connection = True
        if self.path != PATH:
            self._answer(SlackReply(404, b"buttons are posted elsewhere\n"))
            return
        body = self._body()
        if isinstance(body, SlackReply):
            self._answer(body)
            return
        headers = {name: ", ".join(self.headers.get_all(name, [])) for name in self.headers}
        try:
            reply = self.server.interactions.handle(headers, body, self.server.clock())
        except IndelibleError as problem:
            _log.error("a button could not be seen to: %s", problem)  # no traceback: values are in it
            reply = SlackReply(503, b"not now\n")
        self._answer(reply)

    def _never(self) -> None:
        """Refuses what is no POST: looking at an address decides nothing."""
        self.close_connection = True
        self._answer(SlackReply(405, b"buttons are posted; looking decides nothing\n"))

    do_GET = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _never

    def _body(self) -> bytes | SlackReply:
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(lengths) != 1:
            return SlackReply(411, b"say the length of the request, once\n")
        if not (lengths[0].isascii() and lengths[0].isdigit()):
            return SlackReply(400, b"the length of the request is no number\n")
        length = int(lengths[0][:20])
        if length > MOST_BODY:
            return SlackReply(413, b"too long\n")
        body = self.rfile.read(length)
        return body if len(body) == length else SlackReply(400, b"shorter than it said\n")

    def _answer(self, reply: SlackReply) -> None:
        self.send_response(reply.status)
        if reply.status == 405:
            self.send_header("Allow", "POST")
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Leaves a line for each request to those who want it."""
        _log.debug("%s %s", self.client_address[0], format % args)
