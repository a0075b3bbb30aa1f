"""PostgreSQL's messages, as far as a proxy must understand them."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

_LENGTH = struct.Struct("!I")
CANCEL, SSL, GSS = 80877102, 80877103, 80877104

Status = Literal["I", "T", "E"]
_CONTROL = re.compile(
    r"\s*(begin|start\s+transaction|commit|end|rollback|abort|savepoint|release|discard|set|listen)\b", re.I
)
_COMMIT = re.compile(r"\s*(commit|end)\b", re.I)
_WRITE = re.compile(r"(?:\s|--.*\n)*(insert|update|delete|merge|with)\b", re.I)


class Message(NamedTuple):
    """One message: its kind, one byte, and what follows the length."""

    kind: bytes
    body: bytes

    def encode(self) -> bytes:
        """Gives the bytes for the wire."""
        return self.kind + _LENGTH.pack(len(self.body) + 4) + self.body


class Cut(Exception):
    """The other side is gone."""


class Stream:
    """Reads messages from a socket and writes them to it."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._file = sock.makefile("rb")

    def startup(self) -> tuple[int, bytes]:
        """Reads a message without kind: its code and its bytes as they came."""
        raw = self._exactly(4)
        body = self._exactly(_LENGTH.unpack(raw)[0] - 4)
        return int(_LENGTH.unpack(body[:4])[0]), raw + body

    def message(self) -> Message:
        """Reads the next message."""
        kind = self._exactly(1)
        return Message(kind, self._exactly(_LENGTH.unpack(self._exactly(4))[0] - 4))

    def send(self, data: bytes) -> None:
        """Writes all of it."""
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Cut from error

    def close(self) -> None:
        """Cuts the connection, for whoever waits on it too."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _exactly(self, count: int) -> bytes:
        try:
            data = self._file.read(count)
        except (OSError, ValueError) as error:
            raise Cut from error
        if len(data) < count:
            raise Cut
        return data


@dataclass(slots=True)
class Exchange:
    """What a client sends up to and including the message that asks for an answer: a Query, or a Sync."""

    messages: list[Message] = field(default_factory=list)
    sql: str = ""
    status: Status = "I"

    @property
    def is_control(self) -> bool:
        """Does it steer transactions or the session instead of working?"""
        return bool(_CONTROL.match(self.sql)) or not self.sql

    @property
    def is_commit(self) -> bool:
        """Does it end a transaction for good?"""
        return self.status == "T" and bool(_COMMIT.match(self.sql))

    @property
    def is_own_transaction(self) -> bool:
        """Is it work outside of any transaction block, committed by its own end?"""
        return self.status == "I" and not self.is_control and self.executes

    @property
    def executes(self) -> bool:
        """Does it carry a statement out, and not only prepare one?"""
        return any(message.kind in b"QE" for message in self.messages)

    @property
    def is_write(self) -> bool:
        """Does it change rows?"""
        return bool(_WRITE.match(self.sql)) and self.executes

    def encode(self) -> bytes:
        """Gives the bytes for the wire."""
        return b"".join(message.encode() for message in self.messages)


class Gatherer:
    """Puts a client's messages together into exchanges."""

    def __init__(self) -> None:
        self._exchange = Exchange()
        self._prepared: dict[bytes, str] = {}

    def add(self, message: Message) -> Exchange | None:
        """Takes a message and gives the exchange if that completes it."""
        self._exchange.messages.append(message)
        if message.kind == b"Q":
            self._exchange.sql = _text(message.body)
        elif message.kind == b"P":
            name, sql, _ = message.body.split(b"\0", 2)
            self._prepared[name] = self._exchange.sql = sql.decode(errors="replace")
        elif message.kind == b"B":
            _, name, _ = message.body.split(b"\0", 2)
            self._exchange.sql = self._prepared.get(name, self._exchange.sql)
        # F is the old function call. Copy data, Flush and Terminate are no questions: they pass by themselves.
        if message.kind in b"QSF":
            done, self._exchange = self._exchange, Exchange()
            return done
        return None

    def leftovers(self) -> Exchange:
        """Gives what was gathered without a question."""
        done, self._exchange = self._exchange, Exchange()
        return done


def query(sql: str) -> Message:
    """Makes a simple query."""
    return Message(b"Q", sql.encode() + b"\0")


def ready(status: Status) -> Message:
    """Makes the message that ends an answer and tells the transaction's status."""
    return Message(b"Z", status.encode())


def error(sqlstate: str, text: str) -> Message:
    """Makes an error."""
    return Message(b"E", _fields("ERROR", sqlstate, text))


def warning(sqlstate: str, text: str) -> Message:
    """Makes a warning."""
    return Message(b"N", _fields("WARNING", sqlstate, text))


def _fields(severity: str, sqlstate: str, text: str) -> bytes:
    parts = {"S": severity, "V": severity, "C": sqlstate, "M": text}
    return b"".join(f"{name}{value}".encode() + b"\0" for name, value in parts.items()) + b"\0"


def _text(body: bytes) -> str:
    return body.split(b"\0", 1)[0].decode(errors="replace")
