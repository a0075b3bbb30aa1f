"""Boils bursts down to figures: a median over rounds, its spread, and the slowest calls."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.loops import Burst

Unit = Literal["ms", "p99 ms", "calls/s"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One contestant's result: the median of its rounds, and the lowest and highest round."""

    median: float
    low: float
    high: float
    unit: str
    p99_ms: float | None = None


def percentile(values: Sequence[float], percent: float) -> float:
    """Returns the smallest value that is no smaller than `percent` of all."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def figure(rounds: Sequence[Burst], unit: Unit) -> Figure:
    """Boils the rounds of one contestant down."""
    values = [_value(burst, unit) for burst in rounds]
    slowest = statistics.median(_value(burst, "p99 ms") for burst in rounds)
    return figure_of(values, unit, p99_ms=slowest)


def figure_of(values: Sequence[float], unit: str, *, p99_ms: float | None = None) -> Figure:
    """Boils plain numbers down."""
    return Figure(median=statistics.median(values), low=min(values), high=max(values), unit=unit, p99_ms=p99_ms)


def together(bursts: Sequence[Burst]) -> Burst:
    """Returns what several processes measured at the same time as one burst."""
    return Burst(
        nanoseconds=[taken for burst in bursts for taken in burst.nanoseconds],
        seconds=max(burst.seconds for burst in bursts),
    )


def _value(burst: Burst, unit: Unit) -> float:
    match unit:
        case "ms":
            return statistics.median(burst.nanoseconds) / 1e6
        case "p99 ms":
            return percentile(burst.nanoseconds, 99) / 1e6
        case "calls/s":
            return len(burst.nanoseconds) / burst.seconds
