"""Many processes, many tasks each, all after the same keys: each handler is entered once, all callers hear the same."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection

from tests.chaos import mutants, procs
from tests.chaos.oracle import Violation
from tests.chaos.procs import Child
from tests.chaos.report import Job, Order, Report
from tests.chaos.subject import Answer, Call, Session, Terms
from tests.chaos.worker import Work, judge
from tests.chaos.world import World, result_bytes

PROCESSES = 8
TASKS = 64
# A slow machine is no violation, a hang is.
PATIENCE = 240.0
# Nobody crashes here, so no lease may run out, however busy the machine is.
TERMS = Terms(lease=120.0, wait=120.0)


def race(order: Order) -> Report:
    """Lets every process call every key once, in an order of its own; points are keys."""
    report = Report("races", order)
    where = order.where / f"{order.label}-race"
    prefix = f"{order.label}-race"
    # Handlers take a while, so that rivals meet while one is at work and not only before or after.
    calls = tuple(
        Call(name=f"{prefix}/{key}", run_id=f"{prefix}-{key % 50}", takes=0.005) for key in range(order.points)
    )
    url = order.bench.lay_out(where)
    work = Work(url=url, world=where / "world", calls=calls, terms=TERMS, mutant=order.mutant)
    children = [Child(_run_tasks, replace(work, calls=_shuffled(calls, number))) for number in range(PROCESSES)]
    for child in children:
        child.hear()
    for child in children:
        child.tell("start")
    answers = [answer for child in children for answer in child.result(PATIENCE)]
    report.points = len(calls)
    report.note("calls", len(answers))
    report.add(_unequal(answers))
    report.add(procs.ask(judge, work))
    return report.finish()


def _shuffled(calls: tuple[Call, ...], seed: int) -> tuple[Call, ...]:
    """Neighbours stay near each other, so that processes meet at the same keys at the same time."""
    rng = random.Random(seed)
    return tuple(sorted(calls, key=lambda call: int(call.name.rpartition("/")[2]) + rng.uniform(0, 20)))


def _run_tasks(line: Connection, work: Work) -> list[Answer]:
    mutants.plant(work.mutant)
    with World(work.world) as world:
        session = Session(work.url, world, work.terms, is_async=True)
        try:
            line.send("ready")
            line.recv()
            return asyncio.run(_share_out(session, work))
        finally:
            session.close()


async def _share_out(session: Session, work: Work) -> list[Answer]:
    """Lets tasks take the next call until none is left."""
    waiting, answers = iter(work.calls), []

    async def take() -> None:
        for call in waiting:
            answers.append(await session.call_async(call))  # noqa: PERF401  # each as soon as it is there

    await asyncio.gather(*(take() for _ in range(TASKS)))
    return answers


def _unequal(answers: list[Answer]) -> Iterator[Violation]:
    heard: dict[str, set[bytes]] = defaultdict(set)
    for answer in answers:
        if answer.kind != "value":
            yield Violation("wrong answer", answer.call, f"{answer.kind}: {answer.words}")
        heard[answer.call].add(result_bytes(answer.value))
    for call, values in heard.items():
        if len(values) > 1:
            yield Violation("changed result", call, f"{len(values)} different answers")


TEETH = ("check-then-act", "stale-head")
JOB = Job(name="races", run=race, points={"sqlite": 1000, "postgres": 1000}, teeth={"sqlite": TEETH, "postgres": TEETH})
