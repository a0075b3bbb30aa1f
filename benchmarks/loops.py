"""Times calls: one caller after another, many at once, or many that all ask for the same thing."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.calls import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """When a burst ends: after so many calls or so many seconds, whichever comes first."""

    calls: int = 1 << 60
    seconds: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What was measured: how long each call took, and the time from the first start to the last end."""

    nanoseconds: list[int]
    seconds: float


def one_caller(act: Callable[[Call], Any], calls: Iterator[Call], limit: Limit) -> Burst:
    """Calls one after the other."""
    gc.collect()
    taken: list[int] = []
    started = time.perf_counter_ns()
    deadline = started + int(limit.seconds * 1e9)
    ended = started
    while ended < deadline and len(taken) < limit.calls:
        call = next(calls)
        begun = time.perf_counter_ns()
        act(call)
        ended = time.perf_counter_ns()
        taken.append(ended - begun)
    return Burst(nanoseconds=taken, seconds=(ended - started) / 1e9)


async def many_callers(
    act: Callable[[Call], Awaitable[Any]], calls: Iterator[Call], limit: Limit, callers: int
) -> Burst:
    """Calls from many tasks, each of which waits for its answer before it calls again."""
    gc.collect()
    taken: list[int] = []
    left = limit.calls
    started = time.perf_counter_ns()
    deadline = started + int(limit.seconds * 1e9)

    async def caller() -> None:
        nonlocal left
        ended = started
        while ended < deadline and left > 0:
            left -= 1
            call = next(calls)
            begun = time.perf_counter_ns()
            await act(call)
            ended = time.perf_counter_ns()
            taken.append(ended - begun)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(callers):
            tasks.create_task(caller())
    return Burst(nanoseconds=taken, seconds=(time.perf_counter_ns() - started) / 1e9)


async def identical(act: Callable[[Call], Awaitable[Any]], call: Call, callers: int) -> Burst:
    """Makes one call from many tasks; times each from the end of the handler, wherever that ran, to its answer."""
    gc.collect()
    started = time.monotonic_ns()

    async def caller() -> int:
        value = await act(call)
        return time.monotonic_ns() - int(value["ended_ns"])

    waits = await asyncio.gather(*(caller() for _ in range(callers)))
    return Burst(nanoseconds=list(waits), seconds=(time.monotonic_ns() - started) / 1e9)


async def wait_until(instant_ns: int) -> None:
    """Sleeps until an instant of the clock that all processes share, so that they start together."""
    if (left := instant_ns - time.monotonic_ns()) > 0:
        await asyncio.sleep(left / 1e9)
