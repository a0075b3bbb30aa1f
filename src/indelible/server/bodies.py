"""Reads what is sent: no more than allowed, and nothing that two readers could read as two things."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request

from indelible.errors import BadCall, TooLarge

MEBIBYTE = 1024 * 1024
MOST_BYTES = 24 * MEBIBYTE
"""Is the largest request: a result of 16 MiB, written in base64."""


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
    try:
        return json.loads(raw, parse_constant=_refuse, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        raise BadCall("body: JSON is expected here, without repeated names") from None


def _refuse(word: str) -> None:
    raise ValueError(word)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is repeated")
    return found
