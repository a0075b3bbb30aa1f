"""What runs in a worker process: open the store, make the calls, touch the world, acknowledge.

By hand: `python -m tests.chaos.worker URL WORLD NAME [NAME …]`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

from tests.chaos import mutants
from tests.chaos.linekill import LineKill
from tests.chaos.oracle import StoreDump, Violation, examine
from tests.chaos.procs import let_anybody_trace_me
from tests.chaos.subject import Answer, Call, Session, Terms, dump
from tests.chaos.world import World, observe

Manner = Literal["serial", "threads", "tasks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Everything a worker needs to know."""

    url: str
    world: Path
    calls: tuple[Call, ...] = ()
    manner: Manner = "serial"
    terms: Terms = field(default_factory=Terms)
    mutant: str | None = None

    @property
    def runs(self) -> frozenset[str]:
        """Are the runs its calls belong to."""
        return frozenset(call.run_id for call in self.calls)


def perform(
    work: Work, when_open: Callable[[], None] = lambda: None, before_open: Callable[[], None] = lambda: None
) -> list[Answer]:
    """Opens the store, makes all calls, closes the store."""
    mutants.plant(work.mutant)
    with World(work.world) as world:
        before_open()
        session = open_session(work, world)
        try:
            when_open()
            return call_all(session, work)
        finally:
            session.close()


def open_session(work: Work, world: World) -> Session:
    """Opens the store, with the shell that the manner of calling needs."""
    return Session(work.url, world, work.terms, is_async=work.manner == "tasks")


def call_all(session: Session, work: Work) -> list[Answer]:
    """Makes the calls one after the other, each in a thread, or each in a task."""
    if work.manner == "tasks":
        return asyncio.run(_together(session, work))
    if work.manner == "threads":
        start = threading.Barrier(len(work.calls))
        with ThreadPoolExecutor(len(work.calls)) as threads:
            return list(threads.map(lambda call: (start.wait(), session.call(call))[1], work.calls))
    return [session.call(call) for call in work.calls]


async def _together(session: Session, work: Work) -> list[Answer]:
    return list(await asyncio.gather(*(session.call_async(call) for call in work.calls)))


def perform_gated(line: Connection, work: Work, *, is_traced_from_open: bool) -> list[Answer]:
    """Performs once the harness says go: before the store is opened, or between opening and the first call."""
    let_anybody_trace_me()

    def wait_for_go() -> None:
        line.send("ready")
        line.recv()

    return perform(work, before_open=wait_for_go) if is_traced_from_open else perform(work, wait_for_go)


def perform_until_line(line: Connection, work: Work, number: int | None, *, is_traced_from_open: bool) -> list[str]:
    """Performs and kills itself at the given line of the library; without a number it gives the lines it went through.

    The tracer is there before the store is opened, so that threads started by opening are traced too.
    """
    kill = LineKill(number, last_words=line.send)
    with kill:
        perform(work, kill.arm, kill.arm if is_traced_from_open else lambda: None)
    return kill.lines


def recover(work: Work) -> tuple[list[Answer], list[Violation]]:
    """Repeats the same calls as a clean worker after a crash, then lets the oracle judge."""
    answers = perform(work)
    return answers, judge(work)


def judge(work: Work, leases_may_live: bool = False) -> list[Violation]:
    """Lets the oracle compare the world with the store."""
    return examine(observe(work.world), read_store(work), leases_may_live=leases_may_live)


def read_store(work: Work) -> StoreDump:
    """Reads what the store has about the calls of this work."""
    return dump(work.url, work.runs)


def main() -> None:
    """Makes the named calls in one run and prints the answers."""
    url, world, *names = sys.argv[1:]
    calls = tuple(Call(name=name, run_id="by-hand") for name in names)
    for answer in perform(Work(url=url, world=Path(world), calls=calls)):
        print(answer)


if __name__ == "__main__":
    main()
