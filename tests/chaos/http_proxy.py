"""A proxy between a client and a server that understands HTTP and spoils requests on purpose, by a seed."""

from __future__ import annotations

import random
import socket
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import BinaryIO, Literal
from urllib.parse import urlsplit

Kind = Literal[
    "refused",  # the connection is closed as soon as it is made
    "cut before",  # the server never hears of the request
    "cut during",  # the server hears of it, we do not wait what comes of it
    "cut after",  # the server has done it, the client never learns
    "cut inside",  # the connection ends in the middle of the answer
    "truncated",  # the answer ends in its middle, as if that were all of it
    "stall before",  # the request is late
    "stall after",  # its answer is late
    "too late",  # its answer is so late that the client does not wait for it
    "502 before", "503 before", "504 before",  # the proxy says so, and the server never hears of it
    "502 after", "503 after", "504 after",  # the proxy says so, and the server has done it
    "429",  # the proxy lets nobody through just now, and says for how long
    "another type",  # the server has done it, and the client gets a page in HTML
    "redirect",  # the client is sent elsewhere
]  # fmt: skip
KINDS: tuple[Kind, ...] = (
    "refused", "cut before", "cut during", "cut after", "cut inside", "truncated", "stall before", "stall after",
    "too late", "502 before", "503 before", "504 before", "502 after", "503 after", "504 after", "429",
    "another type", "redirect",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Says which requests suffer: each with probability `rate`, from `kinds`, drawn from the seed and its number.

    `late` is longer than the client waits for an answer.
    """

    seed: int = 1
    rate: float = 0.3
    kinds: tuple[Kind, ...] = KINDS
    stall: float = 0.02
    late: float = 0.6

    def decide(self, number: int) -> Kind | None:
        """Draws the fate of one request."""
        rng = random.Random(f"{self.seed}/{number}")
        possible = [kind for kind in self.kinds if kind != "refused"]
        return rng.choice(possible) if possible and rng.random() < self.rate else None

    def refuses(self, number: int) -> bool:
        """Draws whether a new connection is refused."""
        return "refused" in self.kinds and random.Random(f"{self.seed}/connection/{number}").random() < self.rate / 10


class Cut(Exception):
    """Ends a connection."""


class HttpFaultProxy:
    """Listens on a port of its own and forwards to a server, faults and all."""

    def __init__(self, server_url: str, plan: Plan) -> None:
        parts = urlsplit(server_url)
        self.server = (parts.hostname or "", parts.port or 0)
        self.plan = plan
        self.faults: Counter[Kind] = Counter()
        self.requests = 0
        self._lock = threading.Lock()
        self._connections = count()
        self._links: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._is_closed = threading.Event()
        self._threads: list[threading.Thread] = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> HttpFaultProxy:
        self._threads[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_closed.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        with self._lock:
            for link in self._links:
                with suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def pause(self, seconds: float) -> None:
        """Lets time pass, or the proxy's end come."""
        self._is_closed.wait(seconds)

    def next_fate(self) -> Kind | None:
        """Draws the fate of the next request and counts it."""
        with self._lock:
            kind = self.plan.decide(self.requests)
            self.requests += 1
            if kind is not None:
                self.faults[kind] += 1
            return kind

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.plan.refuses(next(self._connections)):
                with self._lock:
                    self.faults["refused"] += 1
                client.close()
                continue
            thread = threading.Thread(target=self._link, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _link(self, client: socket.socket) -> None:
        """Forwards the requests of one connection, until one end is gone."""
        try:
            server = socket.create_connection(self.server)
        except OSError:
            client.close()
            return
        with self._lock:
            self._links |= {client, server}
        try:
            with client, server, client.makefile("rb") as questions, server.makefile("rb") as answers:
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while True:
                    _meet_fate(self, read_message(questions), client, server, answers)
        except (Cut, OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._links -= {client, server}


def read_message(stream: BinaryIO) -> bytes:
    """Reads a request or an answer whole, as it came; both say how long they are."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline()
        if not line:
            raise Cut
        head += line
    length = next(
        (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    body = stream.read(length)
    if len(body) < length:
        raise Cut
    return head + body


def _meet_fate(
    proxy: HttpFaultProxy, request: bytes, client: socket.socket, server: socket.socket, answers: BinaryIO
) -> None:
    kind = proxy.next_fate()
    if kind in _MADE_UP:
        client.sendall(_MADE_UP[kind])
        return
    if kind == "cut before":
        raise Cut
    if kind == "stall before":
        proxy.pause(proxy.plan.stall)
    server.sendall(request)
    if kind == "cut during":
        raise Cut
    answer = read_message(answers)
    match kind:
        case "cut after":
            raise Cut
        case "cut inside":
            client.sendall(answer[: len(answer) - max(1, len(_body(answer)) // 2)])
            raise Cut
        case "truncated":
            half = _body(answer)[: len(_body(answer)) // 2]
            client.sendall(_answer("200 OK", half, "application/json"))
        case "stall after":
            proxy.pause(proxy.plan.stall)
            client.sendall(answer)
        case "too late":
            proxy.pause(proxy.plan.late)
            client.sendall(answer)
        case "502 after" | "503 after" | "504 after":
            client.sendall(_answer(f"{kind[:3]} Trouble", b"<html>upstream"))
        case "another type":
            client.sendall(_answer("200 OK", b"<html>please sign in"))
        case _:
            client.sendall(answer)


def _body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def _answer(status: str, body: bytes, kind: str = "text/html", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


_MADE_UP: dict[Kind | None, bytes] = {
    "502 before": _answer("502 Bad Gateway", b"<html>"),
    "503 before": _answer("503 Service Unavailable", b"<html>"),
    "504 before": _answer("504 Gateway Timeout", b"<html>"),
    "429": _answer("429 Too Many Requests", b"slower", "text/plain", "Retry-After: 0\r\n"),
    "redirect": _answer("302 Found", b"", more="Location: https://elsewhere.example/\r\n"),
}
