"""The command line: `python -m tests.chaos [job …] [--points N] [--seed S] [--store NAME] [--mutant NAME]`."""

from __future__ import annotations

import argparse
import sys
import textwrap

from tests.chaos.jobs import JOBS, Toothless, bite, run_job
from tests.chaos.mutants import MUTANTS
from tests.chaos.procs import ChildDied, ChildHangs, ChildRaised
from tests.chaos.report import Report

STORES = ("sqlite", "postgres")
SHOWN = 8
WIDTH = 300


def main() -> int:
    """Runs the jobs; 0 if every planted bug was found and the library broke no promise."""
    options = _options()
    is_good = True
    for name in options.jobs or JOBS:
        job = JOBS[name]
        for store in [options.store] if options.store else [store for store in STORES if store in job.points]:
            if store not in job.points:
                print(f"{name} has nothing to do on {store}")
                continue
            try:
                if options.mutant is None and not options.no_teeth:
                    for report in bite(job, store, seed=options.seed):
                        print(f"  planted {report.order.mutant}: {_bitten(report)}", flush=True)
                report = run_job(job, store, points=options.points, seed=options.seed, mutant=options.mutant)
            except (Toothless, ChildDied, ChildHangs, ChildRaised) as error:
                print(f"{name} on {store}: {type(error).__name__}: {error}", flush=True)
                is_good = False
                continue
            _show(report)
            is_good = is_good and not report.violations
    return 0 if is_good else 1


def _bitten(report: Report) -> str:
    found = [violation.kind for violation in report.violations if violation.kind in report.order.proof]
    return f"found as {found[0]!r} within {report.points} points" if found else "NOT FOUND"


def _show(report: Report) -> None:
    print(report, flush=True)
    for violation in report.violations[:SHOWN]:
        print(f"  {textwrap.shorten(str(violation), WIDTH, placeholder=' …')}")
    if len(report.violations) > SHOWN:
        print(f"  … and {len(report.violations) - SHOWN} more")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Breaks things and asks the oracle.")
    parser.add_argument("jobs", nargs="*", metavar="job", help=f"some of: {', '.join(JOBS)}; all without")
    parser.add_argument(
        "--points", "--seconds", type=int, help="how many points, images, faults, rounds, keys or seconds"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=STORES)
    parser.add_argument("--mutant", choices=list(MUTANTS), help="run with this planted bug, which should then be found")
    parser.add_argument("--no-teeth", action="store_true", help="do not plant bugs first")
    options = parser.parse_args()
    if unknown := set(options.jobs) - set(JOBS):
        parser.error(f"no such job: {', '.join(sorted(unknown))}; choose from {', '.join(JOBS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
