"""Runs the benchmarks: `python -m benchmarks [--quick] [--json] [--only NAME] [--plot FILE]`."""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks import appending, approving, audit, counters, footprint, report, rows, runs, serving, verifying, waits
from benchmarks.crew import Crew
from benchmarks.goals import Costs, judge, scenario_of
from benchmarks.scenarios import FULL, QUICK, SCENARIOS, Pace, Results, race, say
from benchmarks.servers import Stores

EXTRAS = (
    *(trial.name for trial in audit.TRIALS),
    "appends",
    "verify",
    "waits",
    "approving",
    "runs",
    "serving",
    "rows",
    "counters",
    "footprint",
)
NAMES = (*(scenario.name for scenario in SCENARIOS), *EXTRAS)


def main(words: list[str]) -> int:
    """Measures, prints, draws. The exit code says that it ran; whether goals are met is for the reader to see."""
    asked = _parser().parse_args(words)
    chosen = _chosen(asked.only)
    if not chosen:
        say(f"no scenario or goal is called {' or '.join(asked.only)}; scenarios are: {', '.join(NAMES)}")
        return 2
    pace = QUICK if asked.quick else FULL
    load = os.getloadavg()[0]
    results = Results()
    with Stores() as stores:
        costs = _measure(chosen, stores, pace, results)
        about = report.machine(stores, load)
    ratios = judge(results.figures, costs)
    if asked.json:
        print(report.as_json(about, pace, results, ratios, costs))
    else:
        print(report.as_table(about, results, ratios, costs))
    if asked.plot:
        from benchmarks import plot  # drawing needs a library that measuring does not

        plot.draw(results.figures, asked.plot)
    say("done")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measures Indelible against raw limits and peers.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: at most seven minutes")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="one scenario or goal; may be repeated"
    )
    parser.add_argument("--plot", metavar="FILE", help="also draw a picture (.png or .svg)")
    return parser


def _chosen(only: list[str]) -> set[str]:
    if not only:
        return set(NAMES)
    return {name for word in only if (name := scenario_of(word) or word) in NAMES}


def _measure(chosen: set[str], stores: Stores, pace: Pace, results: Results) -> Costs:
    costs: Costs = {}
    for store in ("postgres", "sqlite", "wakeups"):
        with Crew() as crew:  # let go of after each store, so that few processes idle beside the one that is measured
            for scenario in SCENARIOS:
                if scenario.name.startswith(store) and scenario.name in chosen:
                    race(scenario, stores, crew, pace, results)
    audit.measure(chosen, stores, pace, results)
    if "appends" in chosen:
        appending.measure(stores, pace, results)
    if "verify" in chosen:
        verifying.measure(stores, pace, results)
    if "waits" in chosen:
        with Crew() as crew:
            waits.measure(stores, crew, pace, results)
    if "approving" in chosen:
        approving.measure(stores, pace, results)
    if "runs" in chosen:
        runs.measure(stores, pace, results)
    if "serving" in chosen:
        serving.measure(stores, pace, results)
    if "counters" in chosen:
        costs = counters.measure(stores, pace.counted_calls, results)
    if "rows" in chosen:
        with Crew() as crew:
            rows.measure(stores, crew, pace, results)
    if "footprint" in chosen:
        footprint.measure(pace, results)
    return costs


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
