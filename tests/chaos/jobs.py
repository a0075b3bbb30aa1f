"""All jobs, and how one is run: first its teeth, then the real thing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.chaos import (
    approval_kills,
    approval_races,
    beside,
    budget_races,
    disk_faults,
    http_faults,
    journal_kills,
    kill_points,
    outages,
    power_loss,
    races,
    resumer_races,
    run_kills,
    run_writers,
    wire_faults,
    zombies,
)
from tests.chaos.benches import memory_disk, open_bench
from tests.chaos.report import Job, Order, Report

JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        kill_points.LINES,
        kill_points.SYSTEM_CALLS,
        power_loss.JOB,
        disk_faults.JOB,
        wire_faults.JOB,
        http_faults.JOB,
        zombies.JOB,
        races.JOB,
        outages.JOB,
        journal_kills.JOB,
        approval_races.JOB,
        approval_kills.JOB,
        budget_races.JOB,
        run_kills.JOB,
        resumer_races.JOB,
        run_writers.JOB,
        beside.JOB,
    )
}


class Toothless(Exception):
    """A job did not find a planted bug, so its silence about the library means nothing."""


def run_job(job: Job, store: str, *, points: int | None = None, seed: int = 1, mutant: str | None = None) -> Report:
    """Runs one job on one store, in a directory in memory that is gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="chaos-", dir=memory_disk()) as where,
        open_bench(store, Path(where) / "bench", writer_keys=mutant is None) as bench,
    ):
        wanted = job.points[store] if points is None else points
        return job.run(Order(bench=bench, where=Path(where), points=wanted, seed=seed, mutant=mutant))


def bite(job: Job, store: str, *, seed: int = 1) -> Iterator[Report]:
    """Plants each bug the job must find; raises `Toothless` when one is missed.

    The rows carry no macs: with them a worker refuses what a bug wrote, and the job's own judge has nothing to find.
    """
    few = min(job.bites, job.points[store])
    with (
        tempfile.TemporaryDirectory(prefix="chaos-", dir=memory_disk()) as where,
        open_bench(store, Path(where) / "bench", writer_keys=False) as bench,
    ):
        order = Order(bench=bench, where=Path(where), points=few, seed=seed)
        for mutant in job.teeth[store]:
            report = job.run(replace(order, mutant=mutant))
            yield report
            if not report.is_done:
                raise Toothless(f"{job.name} on {store} did not find the planted bug {mutant}")
