"""The outside world of a worker: what it did out there, and what it told its caller, on a disk of its own.

Both files are opened O_APPEND | O_DSYNC: one write is one durable line, and no fsync of ours mixes with those of the
store, which other jobs count and break.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

EFFECTS = "effects.log"
ACKS = "acks.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One thing that happened outside: `call` is the caller's own name for it, `key` what the ledger called it."""

    call: str
    key: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """One answer that reached a caller, as bytes."""

    call: str
    result: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Everything the outside world saw, in order."""

    touches: tuple[Touch, ...] = ()
    acks: tuple[Ack, ...] = ()


def result_bytes(value: Any) -> bytes:
    """Writes a value as RFC 8785 does, for the ASCII texts and small integers that workers use."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


class World:
    """Appends one durable line per effect and per acknowledged result."""

    def __init__(self, where: Path) -> None:
        where.mkdir(parents=True, exist_ok=True)
        self.path = where
        self.listeners: list[Callable[[], None]] = []
        """Hear that another line is durable."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_DSYNC | os.O_CLOEXEC
        self._effects = os.open(where / EFFECTS, flags, 0o600)
        self._acks = os.open(where / ACKS, flags, 0o600)

    def touch(self, touch: Touch) -> None:
        """Makes the effect happen."""
        os.write(self._effects, _line({"attempt": touch.attempt, "call": touch.call, "key": touch.key}))
        self._tell()

    def acknowledge(self, call: str, value: Any) -> None:
        """Notes that the caller has this answer."""
        os.write(self._acks, _line({"call": call, "result": result_bytes(value).decode()}))
        self._tell()

    def _tell(self) -> None:
        for hear in self.listeners:
            hear()

    def close(self) -> None:
        """Closes both files."""
        os.close(self._effects)
        os.close(self._acks)

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def observe(where: Path) -> Seen:
    """Reads what the world saw."""
    touches = tuple(read_touch(line) for line in _lines(where / EFFECTS))
    return Seen(touches=touches, acks=tuple(read_ack(line) for line in _lines(where / ACKS)))


def read_touch(line: bytes) -> Touch:
    """Reads one line of the effects file."""
    return Touch(**json.loads(line))


def read_ack(line: bytes) -> Ack:
    """Reads one line of the acks file."""
    fields = json.loads(line)
    return Ack(call=fields["call"], result=fields["result"].encode())


def _line(fields: dict[str, Any]) -> bytes:
    return result_bytes(fields) + b"\n"


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []
