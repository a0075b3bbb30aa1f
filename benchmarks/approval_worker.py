"""Runs one side of a contestant's approvals in a process of its own: the one that waits, or the one that decides.

It does what the benchmark asks, one JSON line at a time. Its event loop never stands still, for calls wait in it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from typing import Any, TextIO

from benchmarks.approvable import Approvable, Handle
from benchmarks.registry import approvable


class ApprovalWorker:
    """Holds an open contestant, and the calls that wait in this process."""

    def __init__(self, contestant: Approvable) -> None:
        self._contestant = contestant
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._asked = 0

    async def open(self, *, url: str, decides: bool) -> None:
        """Opens the contestant's store for one side or the other."""
        await (self._contestant.open_to_approve(url) if decides else self._contestant.open_to_wait(url))

    async def ask(self, *, many: int) -> list[Handle]:
        """Makes so many calls, and returns what an approver needs to know of them when all of them wait."""
        handles = []
        for _ in range(many):
            self._asked += 1
            run_id = f"{time.time_ns() // 1_000_000:012x}-{os.getpid():06x}-{self._asked:08x}"
            handle, self._waiting[run_id] = await self._contestant.ask(run_id)
            handles.append(handle)
        gc.collect()
        return handles

    async def approve(self, *, handles: list[Handle], gaps: list[float]) -> list[list[int]]:
        """Approves calls, each after a pause; returns when each approval was sent and when it came back."""
        instants = []
        for handle, gap in zip(handles, gaps, strict=True):
            await asyncio.sleep(gap)
            sent = time.monotonic_ns()
            await self._contestant.approve(handle)
            instants.append([sent, time.monotonic_ns()])
        return instants

    async def finish(self) -> list[int]:
        """Waits for the calls that wait, and returns when the handler of each was entered."""
        await asyncio.gather(*self._waiting.values())
        instants = [self._contestant.started[run_id] for run_id in self._waiting]
        self._waiting.clear()
        return instants

    async def spent(self) -> float:
        """Returns how many seconds of the processor this process has taken so far, in all its threads."""
        return time.process_time()

    async def idle(self, *, seconds: float) -> float:
        """Does nothing for a while, and returns how many seconds of the processor that took, in all its threads."""
        before = time.process_time()
        await asyncio.sleep(seconds)
        return time.process_time() - before

    async def close(self) -> None:
        """Closes the contestant's store; calls that still wait are given up."""
        for waiting in self._waiting.values():
            waiting.cancel()
        await asyncio.gather(*self._waiting.values(), return_exceptions=True)
        await self._contestant.close()


async def serve(worker: ApprovalWorker, answers: TextIO) -> None:
    """Answers each line of standard input until it ends."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        answer = await getattr(worker, asked.pop("do"))(**asked)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Answers go where standard output was; whatever a library prints goes to standard error.
    own_output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(serve(ApprovalWorker(approvable(sys.argv[1])), own_output))
