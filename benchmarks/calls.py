"""Makes the tool calls that every contestant gets: the same sizes, time-ordered run ids, nothing shared by accident."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TOOL = "stripe.charge"
RESULT: dict[str, Any] = {"id": "ch_3PqX9w2eZvKYlo2C", "status": "succeeded", "amount": 1000}

_MEMO = "two tickets, row seven, paid by the travel desk "


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call; `work` is how long its handler takes, in seconds."""

    run_id: str
    args: dict[str, Any]
    work: float = 0.0


def args_of(size: int, number: int) -> dict[str, Any]:
    """Returns arguments whose JSON is about `size` bytes: a payment with a note, or an order of many lines."""
    args: dict[str, Any] = {"amount": 1000, "currency": "usd", "customer": "cus_9s6XKzkNRiz8i3", "number": number}
    if size <= 1000:
        room = max(0, size - 100)
        return args | {"memo": (_MEMO * (room // len(_MEMO) + 1))[:room]}
    return args | {"lines": [_line(index) for index in range(size // 100)]}


def _line(index: int) -> dict[str, Any]:
    return {
        "sku": f"sku-{index:05d}",
        "name": _MEMO[:23],
        "quantity": index % 7,
        "price": 1999,
        "tags": ["travel", "desk"],
    }


def fresh_calls(size: int) -> Iterator[Call]:
    """Yields calls nobody has made before, each with a run of its own; run ids sort by the time they were made."""
    origin = f"{time.time_ns() // 1_000_000:012x}-{os.getpid():06x}"
    for number in itertools.count():
        yield Call(run_id=f"{origin}-{number:08x}", args=args_of(size, number))


def finished_at() -> dict[str, Any]:
    """Returns the value of a slow handler: the instant it ended, on the clock that all processes of a machine share."""
    return RESULT | {"ended_ns": time.monotonic_ns()}
