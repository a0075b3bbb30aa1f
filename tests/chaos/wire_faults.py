"""Workers behind the fault proxy: cut wires, ambiguous commits, conflicts, stalls, replicas that were not waited for.

Each call has two rivals in two processes. A caller that hears of trouble with the store calls again, as the error tells
it to, until it has an answer.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from indelible.errors import StoreError
from tests.chaos import mutants, procs
from tests.chaos.benches import PostgresBench
from tests.chaos.fault_proxy import FaultProxy, Plan
from tests.chaos.oracle import Violation
from tests.chaos.report import Job, Order, Report
from tests.chaos.subject import STORE_TROUBLE, Answer, Call, Session, Terms
from tests.chaos.worker import Work, judge
from tests.chaos.world import World

TERMS = Terms(lease=1.0, wait=20.0)
WORKERS = 4
CALLS = 40
# Far more than any call needs: at the end of these the call is stuck, not unlucky.
TRIES = 200


def break_wires(order: Order) -> Report:
    """Goes on until as many faults as ordered have struck."""
    report = Report("wire-faults", order)
    assert isinstance(order.bench, PostgresBench)
    with FaultProxy(order.bench.tcp_url, Plan(seed=order.seed)) as proxy:
        number = 0
        while report.points < order.points and not report.is_done:
            _one_round(order, report, proxy, number)
            report.points = sum(proxy.faults.values())
            number += 1
        report.notes |= {str(kind): struck for kind, struck in sorted(proxy.faults.items())}
    return report.finish()


def _one_round(order: Order, report: Report, proxy: FaultProxy, number: int) -> None:
    where = order.where / f"{order.label}-wire-{number}"
    assert isinstance(order.bench, PostgresBench)
    works = [_work(order, proxy, where, number, worker) for worker in range(WORKERS)]
    for answers in procs.ask_all(persist, ((work,) for work in works), width=WORKERS):
        report.note("calls", len(answers))
        report.note("in doubt", sum(answer.kind == "in_doubt" for answer in answers))
        report.add(unresolved(answers), at=f"round {number}")
    # All workers share one world; the judge looks around the proxy.
    everything = replace(works[0], url=order.bench.url, calls=works[0].calls + works[1].calls)
    report.add(procs.ask(judge, everything, True), at=f"round {number}")
    shutil.rmtree(where)


def _work(order: Order, proxy: FaultProxy, where: Path, number: int, worker: int) -> Work:
    team = worker % 2  # two teams; the workers of a team make the same calls
    prefix = f"{order.label}-wire-{number}-{team}"
    calls = tuple(Call(name=f"{prefix}/{each}", run_id=f"{prefix}-{each % 8}") for each in range(CALLS))
    return Work(url=proxy.url, world=where / "world", calls=calls, terms=TERMS, mutant=order.mutant)


def persist(work: Work) -> list[Answer]:
    """Makes each call until the store has answered."""
    mutants.plant(work.mutant)
    with World(work.world) as world:
        session = _open(work, world)
        try:
            return [_until_answered(session, call) for call in work.calls]
        finally:
            session.close()


def _open(work: Work, world: World) -> Session:
    for _ in range(TRIES):
        with contextlib.suppress(StoreError):
            return Session(work.url, world, work.terms)
    return Session(work.url, world, work.terms)


def _until_answered(session: Session, call: Call) -> Answer:
    answer = session.call(call)
    for _ in range(TRIES):
        if answer.kind not in STORE_TROUBLE | {"running", "lease_lost", "unusable"}:
            break
        answer = session.call(call)
    return answer


def unresolved(answers: list[Answer]) -> Iterator[Violation]:
    """Lists calls of which the store never said what became of them."""
    for answer in answers:
        if answer.kind not in ("value", "in_doubt"):
            yield Violation("wrong answer", answer.call, f"after {TRIES} tries {answer.kind}: {answer.words}")


JOB = Job(
    name="wire-faults",
    run=break_wires,
    points={"postgres": 10_000},
    teeth={"postgres": ("naive-retry", "warning-ignored")},
)
