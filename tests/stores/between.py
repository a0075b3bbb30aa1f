"""Stands between a client and a server, and loses what a test wants to be lost."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

from tests.waiting import PATIENCE

Act = Literal["pass", "swallow", "lose"] | tuple[int, Any] | tuple[int, Any, dict[str, str]]
"""Is what becomes of a request: passed on, read and forgotten, carried out with its answer lost, or answered so."""
Answer = tuple[int, bytes, dict[str, str]]


_PASSED_ON = ("Authorization", "Content-Type", "Indelible-Ledger", "Indelible-Protocol")


class Between:
    """Passes requests on, but for those that `acts` says something else about, one after the other."""

    def __init__(self, server: str = "", always: Act = "pass") -> None:
        self._server = urlsplit(server)
        self.always = always
        self.acts: list[Act] = []
        self.requests: list[tuple[str, int]] = []
        """Are the path and the client's port of each."""
        self._http = _Patient(("127.0.0.1", 0), _handling(self._answer))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def _answer(self, path: str, headers: dict[str, str], body: bytes, port: int) -> Answer | None:
        self.requests.append((path, port))
        act = self.acts.pop(0) if self.acts else self.always
        if isinstance(act, tuple):
            body = act[1] if isinstance(act[1], bytes) else json.dumps(act[1]).encode()
            return act[0], body, act[2] if len(act) == 3 else {}
        if act == "swallow":
            return None
        line = http.client.HTTPConnection(self._server.hostname or "", self._server.port, timeout=PATIENCE)
        line.request("POST", path, body, headers)
        response = line.getresponse()
        answer = response.status, response.read(), {}
        line.close()
        return None if act == "lose" else answer

    def stop(self) -> None:
        """Is gone from now on."""
        self._http.shutdown()
        self._http.server_close()
        self._http.hang_up()
        self._thread.join(PATIENCE)


class _Patient(ThreadingHTTPServer):
    block_on_close = False

    def __init__(self, *words: Any) -> None:
        self._lines: list[socket.socket] = []
        super().__init__(*words)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._lines.append(request)
        super().process_request(request, client_address)

    def hang_up(self) -> None:
        """Ends the connections that clients would like to keep."""
        for line in self._lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: clients hang up when they like."""


def _handling(answer: Callable[..., Answer | None]) -> type[BaseHTTPRequestHandler]:
    class Handling(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
            answered = answer(self.path, kept, body, self.client_address[1])
            if answered is None:
                self.close_connection = True
                return
            self.send_response(answered[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answered[1])))
            for name, value in answered[2].items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answered[1])

        def log_message(self, *words: Any) -> None:
            """Keeps quiet."""

    return Handling
