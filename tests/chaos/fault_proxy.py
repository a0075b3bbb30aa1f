"""A proxy between a client and PostgreSQL that understands the conversation and spoils it on purpose, by a seed.

Faults strike exchanges: all that a client sends up to a Query or Sync, and the answer up to ReadyForQuery. A statement
outside of a transaction block is a transaction of its own; its Sync commits it.
"""

from __future__ import annotations

import random
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from tests.chaos import wire
from tests.chaos.wire import Cut, Exchange, Gatherer, Message, Status, Stream

Kind = Literal[
    "refused",  # the connection is closed as soon as it is made
    "cut before",  # the server never hears of the statement
    "cut during",  # the server hears of it, we do not wait what comes of it
    "cut after",  # the server has done and committed it, the client never learns
    "serialization",  # 40001, rolled back
    "deadlock",  # 40P01, rolled back
    "stall before",  # the statement is late
    "stall after",  # its answer is late
    "warned",  # committed, but with the warning that no replica has it
    "warned and lost",  # the same, and then a failover lost it
]
KINDS: tuple[Kind, ...] = (
    "refused", "cut before", "cut during", "cut after", "serialization", "deadlock", "stall before", "stall after",
    "warned", "warned and lost",
)  # fmt: skip
SQLSTATES = {"serialization": "40001", "deadlock": "40P01"}
NOT_REPLICATED = wire.warning("01000", "canceling wait for synchronous replication due to user request")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Says which exchanges suffer: each with probability `rate`, from `kinds`, drawn from the seed and its number."""

    seed: int = 1
    rate: float = 0.2
    kinds: tuple[Kind, ...] = KINDS
    stall: float = 0.02
    spares: Callable[[Exchange], bool] = lambda exchange: exchange.is_control and not exchange.is_commit

    def decide(self, number: int, exchange: Exchange) -> Kind | None:
        """Draws the fate of one exchange."""
        rng = random.Random(f"{self.seed}/{number}")
        if self.spares(exchange) or rng.random() >= self.rate:
            return None
        possible = [kind for kind in self.kinds if _is_possible(kind, exchange)]
        return rng.choice(possible) if possible else None

    def refuses(self, number: int) -> bool:
        """Draws whether a new connection is refused; a tenth as often, for each costs the client much."""
        return "refused" in self.kinds and random.Random(f"{self.seed}/connection/{number}").random() < self.rate / 10


def _is_possible(kind: Kind, exchange: Exchange) -> bool:
    if kind == "refused":
        return False
    if kind in SQLSTATES:
        return exchange.status != "E"
    if kind == "warned":
        return exchange.is_commit or exchange.is_own_transaction
    if kind == "warned and lost":
        return exchange.is_commit or (exchange.is_own_transaction and exchange.is_write)
    return True


# How the answer to one exchange is passed on: given each message of it, what the client gets instead.
Treatment = Callable[[Message], bytes]


class FaultProxy:
    """Listens on a port of its own and forwards to a server, faults and all."""

    def __init__(self, server_url: str, plan: Plan) -> None:
        self._server_url = server_url
        self.plan = plan
        self.faults: Counter[Kind] = Counter()
        self.exchanges = 0
        self._lock = threading.Lock()
        self._links: set[Link] = set()
        self._connections = count()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        """Is the server's address, with the proxy's port in it."""
        parts = urlsplit(self._server_url)
        login = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{login}@127.0.0.1:{self._listener.getsockname()[1]}"))

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_closed.set()
        # Closing alone would not wake whoever waits in accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for link in list(self._links):
            link.cut()
        for link in list(self._links):
            link.join()

    def next_fate(self, exchange: Exchange) -> Kind | None:
        """Draws the fate of the next exchange and counts it."""
        with self._lock:
            kind = self.plan.decide(self.exchanges, exchange)
            self.exchanges += 1
            if kind is not None:
                self.faults[kind] += 1
            return kind

    def pause(self) -> None:
        """Lets the stall pass, or the proxy's end come."""
        self._is_closed.wait(self.plan.stall)

    def forget(self, link: Link) -> None:
        """Drops a connection that is over."""
        with self._lock:
            self._links.discard(link)

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
            try:
                parts = urlsplit(self._server_url)
                server = socket.create_connection((parts.hostname, parts.port))
            except OSError:
                client.close()
                continue
            link = Link(self, client, server)
            with self._lock:
                self._links.add(link)
            link.start()


class Link:
    """One connection through the proxy: a thread for each direction."""

    def __init__(self, proxy: FaultProxy, client: socket.socket, server: socket.socket) -> None:
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._proxy = proxy
        self._client, self._server = Stream(client), Stream(server)
        self._treatments: deque[Treatment] = deque()
        self._status: Status = "I"
        self._upward = threading.Thread(target=self._guard, args=(self._forward_questions,), daemon=True)
        self._downward = threading.Thread(target=self._guard, args=(self._forward_answers,), daemon=True)

    def start(self) -> None:
        """Begins to forward."""
        self._upward.start()

    def cut(self) -> None:
        """Closes both sides."""
        self._client.close()
        self._server.close()

    def join(self) -> None:
        """Waits until both directions are over."""
        self._upward.join()
        if self._downward.ident is not None:
            self._downward.join()

    def _guard(self, forward: Callable[[], None]) -> None:
        try:
            forward()
        except Cut:
            pass
        finally:
            self.cut()
            self._proxy.forget(self)

    def _forward_questions(self) -> None:
        if not self._greet():
            return
        # The answer to the greeting, up to the first ReadyForQuery, passes as it is.
        self._treatments.append(Message.encode)
        self._downward.start()
        gatherer = Gatherer()
        while True:
            message = self._client.message()
            if message.kind == b"p":  # a password, while the greeting is under way
                self._server.send(message.encode())
                continue
            exchange = gatherer.add(message)
            if exchange is not None:
                self._meet_fate(exchange)
            elif message.kind in b"HXdcf":
                self._server.send(gatherer.leftovers().encode())

    def _greet(self) -> bool:
        """Passes the startup message; encryption is declined, so that we can read along."""
        while True:
            code, raw = self._client.startup()
            if code in (wire.SSL, wire.GSS):
                self._client.send(b"N")
                continue
            self._server.send(raw)
            return code != wire.CANCEL

    def _meet_fate(self, exchange: Exchange) -> None:
        is_alone = not self._treatments
        exchange.status = self._status
        # With several questions on their way (pipelining) a made-up answer would overtake real ones.
        kind = self._proxy.next_fate(exchange) if is_alone else None
        match kind:
            case None:
                self._pass(exchange, Message.encode)
            case "cut before" | "refused":
                raise Cut
            case "cut during":
                self._server.send(exchange.encode())
                raise Cut
            case "cut after":
                self._pass(exchange, _swallow_then_cut)
            case "serialization" | "deadlock":
                self._refuse(exchange, SQLSTATES[kind])
            case "stall before":
                self._proxy.pause()
                self._pass(exchange, Message.encode)
            case "stall after":
                self._pass(exchange, self._stall_then_pass)
            case "warned":
                self._pass(exchange, _warn)
            case "warned and lost":
                self._lose(exchange)

    def _pass(self, exchange: Exchange, treatment: Treatment) -> None:
        self._treatments.append(treatment)
        self._server.send(exchange.encode())

    def _refuse(self, exchange: Exchange, sqlstate: str) -> None:
        """Answers with an error that rolled everything back, and sees to it that it is so."""
        failure = wire.error(sqlstate, "injected: the transaction was rolled back; try again")
        if exchange.is_commit:
            self._treatments.append(_instead(failure.encode() + wire.ready("I").encode()))
            self._server.send(wire.query("ROLLBACK").encode())
        elif exchange.status == "T":
            # The server itself raises it, so that its transaction is as broken as the client believes.
            raising = f"DO $$BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '{sqlstate}'; END$$"
            self._treatments.append(Message.encode)
            self._server.send(wire.query(raising).encode())
        else:
            self._client.send(failure.encode() + wire.ready("I").encode())

    def _lose(self, exchange: Exchange) -> None:
        """Lets the statement work and its commit seem to succeed with a warning, but undoes it: a failover lost it."""
        if exchange.is_commit:
            committed = Message(b"C", b"COMMIT\0").encode()
            self._treatments.append(_instead(NOT_REPLICATED.encode() + committed + wire.ready("I").encode()))
            self._server.send(wire.query("ROLLBACK").encode())
            return
        self._treatments += [_swallow, _hold_back_ready, _instead(NOT_REPLICATED.encode() + wire.ready("I").encode())]
        self._server.send(wire.query("BEGIN").encode() + exchange.encode() + wire.query("ROLLBACK").encode())

    def _stall_then_pass(self, message: Message) -> bytes:
        if message.kind == b"Z":
            self._proxy.pause()
        return message.encode()

    def _forward_answers(self) -> None:
        while True:
            message = self._server.message()
            # Notifications and parameter changes come when they like; they belong to no answer.
            if message.kind in b"AS" or not self._treatments:
                self._client.send(message.encode())
                continue
            treatment = self._treatments[0]
            data = treatment(message)
            if message.kind == b"Z":
                # Before the client can ask anew: the next question must find the new status and nobody waiting.
                self._status = message.body.decode()  # type: ignore[assignment]
                self._treatments.popleft()
            if data:
                self._client.send(data)


def _swallow(message: Message) -> bytes:
    return b""


def _swallow_then_cut(message: Message) -> bytes:
    if message.kind == b"Z":
        raise Cut
    return b""


def _hold_back_ready(message: Message) -> bytes:
    return b"" if message.kind == b"Z" else message.encode()


def _instead(answer: bytes) -> Treatment:
    """Gives this answer in place of the server's."""
    return lambda message: answer if message.kind == b"Z" else b""


def _warn(message: Message) -> bytes:
    """Puts the warning where the server would: after the work, before ReadyForQuery."""
    return NOT_REPLICATED.encode() + message.encode() if message.kind == b"Z" else message.encode()
