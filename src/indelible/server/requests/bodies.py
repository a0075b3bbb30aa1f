"""Reads what is sent: no more than allowed, and nothing that two readers could read as two things."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from indelible.core.remote.admissible import members_in
from indelible.core.values.canonical import parse_strict
from indelible.errors import BadCall, TooLarge

MEBIBYTE = 1024 * 1024
MOST_BYTES = 24 * MEBIBYTE
"""Is the largest request: a result of 16 MiB, written in base64."""
MOST_FROM_STRANGERS = 64 * 1024
"""Is the largest request of somebody who is not known yet: what a passkey answers has a few thousand bytes."""
MOST_MEMBERS = 200_000
"""Is how many values one request may hold: in memory each of them is far larger than what was sent."""


def limited(receive: Receive, most: int) -> Receive:
    """Gives what receives a request of no more than so many bytes, however it is sent."""
    size = 0

    async def receiving() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            raise HTTPException(413, f"body: at most {most} bytes are allowed")
        return message

    return receiving


async def read_json(request: Request, most: int = MOST_BYTES) -> Any:
    """Reads a request's body, no more of it than allowed; raises `BadCall` when it is no JSON."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise TooLarge(f"body: at most {most} bytes are allowed", limit=most, size=size)
        parts.append(part)
    return parse_json(b"".join(parts))


def parse_json(raw: bytes) -> Any:
    """Gives what JSON says; raises `BadCall` for anything that is not plain, strict JSON."""
    _check_room(raw)
    try:
        return parse_strict(raw)
    except BadCall:
        raise BadCall("body: JSON is expected here, without repeated names") from None


def read_strictly(raw: bytes) -> Any:
    """Gives what JSON says, with the reason when it is refused."""
    _check_room(raw)
    return parse_strict(raw)


def _check_room(raw: bytes) -> None:
    """Counts before anything is read."""
    if len(raw) > MOST_MEMBERS and (count := members_in(raw)) > MOST_MEMBERS:  # a value takes a byte at least
        message = f"body: holds {count} values, and at most {MOST_MEMBERS} are allowed"
        raise TooLarge(message, limit=MOST_MEMBERS, size=count)
