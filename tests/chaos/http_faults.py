"""Clients behind a server, with everything that goes wrong on the way to it: each call at most once, no answer lost."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import quote

from indelible.core.effects.calls import DEFAULT_TENANT
from tests.chaos import mutants, procs
from tests.chaos.http_proxy import HttpFaultProxy, Plan
from tests.chaos.report import Job, Order, Report
from tests.chaos.subject import Call, Terms
from tests.chaos.wire_faults import persist, unresolved
from tests.chaos.worker import Work, judge

# The client gives up soon, so that what it says when it does is tried as well.
TERMS = Terms(lease=1.0, wait=20.0, patience=0.4)
WORKERS = 4
CALLS = 20


def break_requests(order: Order) -> Report:
    """Goes on until as many faults as ordered have struck."""
    report = Report("http-faults", order)
    url = order.bench.lay_out(order.where / f"{order.label}-http")
    with _served(url, order.mutant) as server, HttpFaultProxy(server, Plan(seed=order.seed, rate=0.5)) as proxy:
        number = 0
        while report.points < order.points and not report.is_done:
            _one_round(order, report, proxy.url, url, number)
            report.points = sum(proxy.faults.values())
            number += 1
        report.notes["requests"] = proxy.requests
        report.notes |= {str(kind): struck for kind, struck in sorted(proxy.faults.items())}
    return report.finish()


@contextlib.contextmanager
def _served(url: str, mutant: str | None) -> Iterator[str]:
    with procs.Child(serve, url, mutant) as child:
        heard = child.hear()
        if not isinstance(heard, str):
            raise procs.ChildRaised(heard[1])
        yield heard
        child.tell()
        child.result()


def serve(line: Connection, url: str, mutant: str | None) -> None:
    """Serves a store until told to stop."""
    from tests.server.serving import serve_believing

    mutants.plant(mutant)
    served = serve_believing(url, seal=False)
    line.send(served.url)
    line.recv()
    served.stop()


def _one_round(order: Order, report: Report, server: str, url: str, number: int) -> None:
    where = order.where / f"{order.label}-http-{number}"
    works = [_work(order, server, where, number, worker) for worker in range(WORKERS)]
    for answers in procs.ask_all(call_from_afar, ((work,) for work in works), width=WORKERS):
        report.note("calls", len(answers))
        report.note("in doubt", sum(answer.kind == "in_doubt" for answer in answers))
        report.add(unresolved(answers), at=f"round {number}")
    # All workers share one world; the judge looks at the database itself.
    everything = replace(works[0], url=url, calls=works[0].calls + works[1].calls)
    report.add(procs.ask(judge, everything, True), at=f"round {number}")
    shutil.rmtree(where)


def call_from_afar(work: Work) -> list[object]:
    """Makes each call until the server has answered."""
    os.environ["INDELIBLE_TOKEN"] = quote(json.dumps(DEFAULT_TENANT))
    return list(persist(work))


def _work(order: Order, server: str, where: Path, number: int, worker: int) -> Work:
    team = worker % 2  # two teams; the workers of a team make the same calls
    prefix = f"{order.label}-http-{number}-{team}"
    calls = tuple(Call(name=f"{prefix}/{each}", run_id=f"{prefix}-{each % 8}") for each in range(CALLS))
    return Work(url=server, world=where / "world", calls=calls, terms=TERMS, mutant=order.mutant)


JOB = Job(
    name="http-faults",
    run=break_requests,
    points={"sqlite": 2_000, "postgres": 2_000},
    teeth={"sqlite": ("lost-answer-assumed", "naive-retry"), "postgres": ("lost-answer-assumed", "naive-retry")},
)
