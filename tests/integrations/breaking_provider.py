"""A payment provider as a process of its own: it does the deed, counts it, and then breaks its answer as it is asked.

It writes bytes, for no library would send such answers. It prints its two ports: one for HTTP, also as a proxy, and one
for TLS. `GET /books` returns how often each order was carried out, and the keys that came with its requests.
"""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import struct
import sys
import threading
from collections import Counter, defaultdict
from http import HTTPStatus
from http.client import parse_headers
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAID = b'{"id": "ch_1", "paid": true}'
HTML = b"<html><title>Please sign in</title></html>"
AS_JSON, AS_HTML = "Content-Type: application/json", "Content-Type: text/html; charset=utf-8"


def _http(status: str, body: bytes = b"", *headers: str, length: int | str | None = None) -> bytes:
    said = f"Content-Length: {len(body) if length is None else length}"
    return "\r\n".join([f"HTTP/1.1 {status}", said, "Connection: close", *headers, "", ""]).encode() + body


def _chunked(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n" + body


_STATUSES = (400, 401, 403, 404, 408, 409, 412, 422, 425, 429, 500, 502, 503, 504)
SENT: dict[str, bytes] = {
    "ok": _http("200 OK", PAID, AS_JSON),
    "no_answer": b"",
    "reset": b"",
    "reset_in_body": _http("200 OK", PAID[:9], AS_JSON, length=len(PAID)),
    "cut_status": b"HTTP/1.1 20",
    "cut_headers": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "cut_body": _http("200 OK", PAID[:9], AS_JSON, length=len(PAID)),
    "short_length": _http("200 OK", PAID, AS_JSON, length=9),
    "cut_chunk": _chunked(b'1c\r\n{"id"'),
    "no_last_chunk": _chunked(b"9\r\n" + PAID[:9] + b"\r\n"),
    "bad_chunk": _chunked(b"many\r\n" + PAID),
    "cut_gzip": _http("200 OK", gzip.compress(PAID * 9)[:-20], AS_JSON, "Content-Encoding: gzip"),
    "no_gzip": _http("200 OK", PAID, AS_JSON, "Content-Encoding: gzip"),
    "only_continue": b"HTTP/1.1 100 Continue\r\n\r\n",
    "no_http": b"paid\r\n\r\n",
    "html": _http("200 OK", HTML, AS_HTML),
    "empty": _http("200 OK", b"", AS_JSON),
    "accepted": _http("202 Accepted"),
    "no_content": _http("204 No Content"),
    "garbage": _http("200 OK", PAID[:9], AS_JSON),
    "no_utf8": _http("200 OK", b'{"id": "\xff\xfe', AS_JSON),
    "moved": _http("302 Found", b"", "Location: /login"),
    "see_other": _http("303 See Other", b"", "Location: /login"),
    "moved_away": _http("307 Temporary Redirect", b"", "Location: http://127.0.0.1:9/"),
    **{str(status): _http(f"{status} {HTTPStatus(status).phrase}", HTML, AS_HTML) for status in _STATUSES},
    "stall": b"",
    "tls_garbage": b"",
    "tls_cut": _http("200 OK", PAID[:9], AS_JSON, length=len(PAID)),
    "proxy_502": _http("502 Bad Gateway", HTML, AS_HTML),
    "proxy_cut": b"HTTP/1.1 200 OK\r\nVia: 1.1 pro",
}
"""What is sent after the deed, by way. The connection is closed then."""
WAYS = tuple(way for way in SENT if way != "ok")
DONE = frozenset({"empty", "no_content"})
"""The ways in which a tool at an address may say that it is done, where a result is not asked for."""


class Books:
    """Counts what was done: once for each key, as providers do; without a key, each time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deeds: Counter[str] = Counter()
        self._keys: dict[str, list[str | None]] = defaultdict(list)

    def take(self, order: str, key: str | None) -> None:
        with self._lock:
            self._deeds[order] += key is None or key not in self._keys[order]
            self._keys[order].append(key)

    def told(self) -> dict[str, Any]:
        with self._lock:
            return {order: {"deeds": self._deeds[order], "keys": keys} for order, keys in self._keys.items()}


def answer(connection: socket.socket, books: Books) -> None:
    """Read one request, do what it asks for, and break the answer."""
    stream = connection.makefile("rb")
    target = stream.readline().decode().split()[1]
    headers = parse_headers(stream)
    path = urlsplit(target)
    if path.path == "/books":
        connection.sendall(_http("200 OK", json.dumps(books.told()).encode(), AS_JSON))
        return
    body = _body(stream, headers)
    if path.path == "/login":  # where a redirect leads, and some clients post there
        connection.sendall(SENT["html"])
        return
    query = parse_qs(path.query)
    way = path.path.rpartition("/")[2]
    order = query["order"][0] if "order" in query else json.loads(body)["order"]
    books.take(order, headers["Idempotency-Key"])
    connection.sendall(SENT[way])
    if way.startswith("reset"):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif way == "stall":
        stream.read()  # until the client has gone
    elif way == "tls_garbage":
        raw = socket.socket(fileno=connection.detach())  # below TLS
        raw.sendall(b"\x17\x03\x03\x00\x05paid!")
        raw.close()


def _body(stream: Any, headers: Any) -> bytes:
    if headers.get("Transfer-Encoding") != "chunked":
        return bytes(stream.read(int(headers.get("Content-Length", 0))))
    chunks = []
    while size := int(stream.readline(), 16):
        chunks.append(stream.read(size))
        stream.readline()
    stream.readline()
    return b"".join(chunks)


def listen(books: Books, context: ssl.SSLContext | None) -> int:
    """Answer on a port, each connection in a thread of its own; return the port."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)

    def one(connection: socket.socket) -> None:
        try:
            whole = connection if context is None else context.wrap_socket(connection, server_side=True)
            try:
                answer(whole, books)
            finally:
                whole.close()
        except (OSError, ValueError):
            connection.close()  # a client that hangs up is no error here

    def accept() -> None:
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return int(listening.getsockname()[1])


if __name__ == "__main__":
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(sys.argv[1])
    shared = Books()
    print(listen(shared, None), listen(shared, tls), flush=True)
    sys.stdin.read()  # until the test has gone
