"""Runs one contestant in a process of its own, and does what the benchmark asks, one JSON line at a time.

A process each, so that no contestant pays for the threads, the memory or the garbage of another.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from benchmarks.calls import Call, args_of, fresh_calls
from benchmarks.contestant import Awaited, Blocking
from benchmarks.loops import Burst, Limit, identical, many_callers, one_caller, wait_until
from benchmarks.registry import contestant

REPLAYED = 100  # settled calls that a replay goes around
LONGEST_DRAIN = 60.0


class Worker:
    """Holds an open contestant."""

    def __init__(self, name: str) -> None:
        self._contestant = contestant(name)
        self._runner = asyncio.Runner()
        self._settled: list[Call] = []

    def open(self, url: str) -> None:
        """Opens the contestant's store."""
        if isinstance(self._contestant, Blocking):
            self._contestant.open(url)
        else:
            self._runner.run(self._contestant.open(url))

    def close(self) -> None:
        """Closes the contestant's store."""
        if isinstance(self._contestant, Blocking):
            self._contestant.close()
        else:
            self._runner.run(self._contestant.close())
        self._runner.close()

    def fresh(self, *, callers: int, size: int, start_ns: int = 0, **limit: Any) -> Burst:
        """Makes calls nobody has made before."""
        self._runner.run(wait_until(start_ns))
        return self._burst(fresh_calls(size), Limit(**limit), callers, replayed=False)

    def replay(self, *, callers: int, size: int, **limit: Any) -> Burst:
        """Makes calls that are settled already; settles them first when that has not happened yet."""
        if not self._settled:
            self._settled = list(itertools.islice(fresh_calls(size), REPLAYED))
            self._burst(iter(self._settled), Limit(calls=REPLAYED), 1, replayed=False)
        return self._burst(itertools.cycle(self._settled), Limit(**limit), callers, replayed=True)

    def identical(self, *, callers: int, run_id: str, work: float, start_ns: int) -> Burst:
        """Makes one slow call from many callers."""
        if isinstance(self._contestant, Blocking):
            raise TypeError("identical calls need a contestant that can be awaited")
        call = Call(run_id=run_id, args=args_of(200, 0), work=work)
        self._runner.run(wait_until(start_ns))
        return self._runner.run(identical(self._contestant.call, call, callers))

    def _burst(self, calls: Iterator[Call], limit: Limit, callers: int, *, replayed: bool) -> Burst:
        held = self._contestant
        if isinstance(held, Awaited):
            return self._runner.run(many_callers(held.replay if replayed else held.call, calls, limit, callers))
        if callers != 1:
            raise TypeError("many callers need a contestant that can be awaited")
        return one_caller(held.replay if replayed else held.call, calls, limit)

    def drain(self) -> float:
        """Returns how many seconds it takes until nothing is left to be sealed; gives up when nobody seals."""
        begun = time.monotonic()
        while not self._contestant.is_sealed():
            if time.monotonic() - begun > LONGEST_DRAIN:
                raise TimeoutError("the journal is not being sealed")
            time.sleep(0.005)
        return time.monotonic() - begun

    def written(self) -> int:
        """Returns how many bytes this process has handed to the kernel for writing."""
        counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(counts["wchar"])


def serve(worker: Worker, answers: TextIO) -> None:
    """Answers each line of standard input until it ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        answer: Burst | float | None = getattr(worker, asked.pop("do"))(**asked)
        answers.write(json.dumps(asdict(answer) if isinstance(answer, Burst) else answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Answers go where standard output was; whatever a library prints goes to standard error.
    own_output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(Worker(sys.argv[1]), own_output)
