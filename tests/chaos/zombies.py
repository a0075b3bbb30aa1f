"""A worker stopped inside its handler past its lease, another that comes by meanwhile, and the first waking up.

For a call that may not be repeated the second sees it in doubt and does not enter; the first one's late result then
resolves the doubt. For a repeatable one the second enters; the first one's late result is refused, and kept as an
event.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection

from tests.chaos import mutants, procs
from tests.chaos.benches import DATABASE
from tests.chaos.oracle import Violation, examine
from tests.chaos.procs import Child
from tests.chaos.report import Job, Order, Report
from tests.chaos.subject import LATE_EVENT, Answer, Call, Session, Terms
from tests.chaos.worker import Work, perform, read_store
from tests.chaos.world import World, observe

TERMS = Terms(lease=0.2, wait=20.0)
# So many workers are stopped at a time: they only sleep, and one lease is waited for by all.
WIDTH = 20


@dataclass(frozen=True, slots=True)
class Round:
    """What the two workers of one call were told."""

    work: Work
    second: Answer
    first: Answer

    @property
    def call(self) -> Call:
        """Is the call both made."""
        return self.work.calls[0]


def wake_the_dead(order: Order) -> Report:
    """Does as many rounds as ordered, every second one with a repeatable call."""
    report = Report("zombies", order)
    for start in range(0, order.points, WIDTH):
        works = [_work(order, number) for number in range(start, min(start + WIDTH, order.points))]
        rounds = _stop_and_continue(works)
        for violations in procs.ask_all(_judge_round, ((each,) for each in rounds)):
            report.points += 1
            report.add(violations)
        for work in works:
            shutil.rmtree(work.world.parent)
        if report.is_done:
            break
    return report.finish()


def _stop_and_continue(works: list[Work]) -> list[Round]:
    with ExitStack() as stack:
        zombies = [stack.enter_context(Child(_call_and_linger, work)) for work in works]
        for zombie in zombies:
            assert zombie.hear() == "in the handler"
        for zombie, work in zip(zombies, works, strict=True):
            zombie.freeze(work.world.parent / DATABASE)
        # They wait for the lease to run out, or for the result of a zombie, which will not come.
        seconds = [answers[0] for answers in procs.ask_all(perform, ((work,) for work in works), width=WIDTH)]
        for zombie in zombies:
            zombie.signal(signal.SIGCONT)
            zombie.tell("go on")
        firsts = [zombie.result() for zombie in zombies]
    return [Round(*each) for each in zip(works, seconds, firsts, strict=True)]


def _call_and_linger(line: Connection, work: Work) -> Answer:
    def inside() -> None:
        line.send("in the handler")
        line.recv()

    mutants.plant(work.mutant)
    with World(work.world) as world:
        session = Session(work.url, world, work.terms)
        try:
            return session.call(work.calls[0], inside)
        finally:
            session.close()


def _judge_round(each: Round) -> list[Violation]:
    return list(_findings(each))


def _findings(each: Round) -> Iterator[Violation]:
    call, store = each.call, read_store(each.work)
    wanted = "value" if call.is_repeatable else "in_doubt"
    if each.second.kind != wanted:
        yield Violation("wrong answer", call.name, f"the second worker heard {each.second.kind}, not {wanted}")
    if each.first.kind != ("lease_lost" if call.is_repeatable else "value"):
        yield Violation("wrong answer", call.name, f"the late worker heard {each.first.kind}: {each.first.words}")
    types = [json.loads(event.body)["type"] for event in store.events[call.run_id]]
    if types[-1] != (LATE_EVENT if call.is_repeatable else "tool_call_finished"):
        yield Violation("late result not kept", call.name, f"events {types}")
    if [effect.status for effect in store.effects] != ["succeeded"]:
        yield Violation("wrong answer", call.name, f"the store has {[effect.status for effect in store.effects]}")
    yield from examine(observe(each.work.world), store)


def _work(order: Order, number: int) -> Work:
    name = f"{order.label}-zombie-{number}"
    where = order.where / name
    call = Call(name=name, run_id=name, is_repeatable=number % 2 == 1)
    return Work(url=order.bench.lay_out(where), world=where / "world", calls=(call,), terms=TERMS, mutant=order.mutant)


TEETH = ("no-fence", "late-result-dropped", "retry-in-doubt")
JOB = Job(
    name="zombies",
    run=wake_the_dead,
    points={"sqlite": 500, "postgres": 500},
    teeth={"sqlite": TEETH, "postgres": TEETH},
)
