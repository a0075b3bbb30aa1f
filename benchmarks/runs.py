"""Runs: what an event costs in a short and in a long one, and how reading a run grows with its length.

Everything is measured in a fresh process, in turns: the short run, then the long one. Time per event, so one pass over
a run gives the same for both. The raw rows are what a record by hand leaves in the store, written without us.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

from benchmarks.crew import ROOT
from benchmarks.figures import figure_of
from benchmarks.scenarios import QUICK, Pace, Results, excuse, say
from benchmarks.servers import Stores

STORES = ("postgres", "sqlite")
SHORT, LONG = 1_000, 100_000
READINGS = ("inspect", "resume", "verify")
# A resume of the short run waits for the disk about as long as it reads, and that differs from one time to the next.
ROUNDS, SHORT_READS = 5, 20
WRITERS, WRITTEN = 16, 1_000
RECORDINGS = ("record", "raw", "record_100", "raw_100")


class MeterFailed(Exception):
    """A process that measures ended in an error; the message ends with what it printed."""


def measure(stores: Stores, pace: Pace, results: Results) -> None:
    """Measures on both stores, and keeps figures of each."""
    for store in STORES:
        try:
            say(f"runs: one of {SHORT:,} and one of {LONG:,} events, {store}")
            url = stores.address(store, "indelible_runs")
            for number in (SHORT, LONG):
                _meter("fill", url, _name(number), number)
            _measure_appends(url, store, pace, results)
            _measure_readings(url, store, pace, results)
            _measure_recording(stores, store, pace, results)
            _measure_writers(stores.address(store, "indelible_writers"), store, results)
        except MeterFailed as error:
            excuse(f"runs.{store}", error, results)


def _measure_appends(url: str, store: str, pace: Pace, results: Results) -> None:
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(pace.rounds):
        for number in (SHORT, LONG):
            found[str(number)].append(_meter("append", url, _name(number), 100 if pace is QUICK else 300)["ms"])
    results.figures[f"run_append_{store}"] = {name: figure_of(ones, "ms/event") for name, ones in found.items()}


def _measure_readings(url: str, store: str, pace: Pace, results: Results) -> None:
    """A short run is read many times in each round, so that its figure rests on as much as that of the long one."""
    for reading in READINGS:
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for _ in range(3 if pace is QUICK else ROUNDS):
            found[str(SHORT)].append(_meter(reading, url, _name(SHORT), SHORT_READS))
            found[str(LONG)].append(_meter(reading, url, _name(LONG), 1))
        grown = [
            (long["peak_mb"] - short["peak_mb"]) * 1e6 / (LONG - SHORT)
            for short, long in zip(found[str(SHORT)], found[str(LONG)], strict=True)
        ]
        results.figures[f"run_{reading}_growth_{store}"] = {"indelible": figure_of(grown, "bytes/event")}
        for what, unit, name in (
            ("us", "µs/event", f"run_{reading}_{store}"),
            ("cpu_us", "µs/event of CPU", f"run_{reading}_processor_{store}"),
            ("peak_mb", "MB", f"run_{reading}_memory_{store}"),
        ):
            results.figures[name] = {size: figure_of([one[what] for one in ones], unit) for size, ones in found.items()}


def _measure_recording(stores: Stores, store: str, pace: Pace, results: Results) -> None:
    """Ours on a ledger of its own, the raw rows in a database of theirs."""
    urls = {name: stores.address(store, f"{_family(name)}_run_events") for name in RECORDINGS}
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(pace.rounds):
        for name in RECORDINGS:
            events = (20 if name.endswith("_100") else 1) * (200 if pace is QUICK else 500)
            found[name].append(_meter(name, urls[name], f"{name}-{number}", events)["events_per_s"])
    results.figures[f"run_record_{store}"] = {name: figure_of(ones, "events/s") for name, ones in found.items()}


def _measure_writers(url: str, store: str, results: Results) -> None:
    """Lets processes write to one run at once, one event at a time, then counts: dense, and none lost."""
    words = [sys.executable, "-m", "benchmarks.run_meter", "write", url, "shared", str(WRITTEN)]
    begun = time.perf_counter()
    writers = [subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL) for _ in range(WRITERS)]
    codes = [writer.wait() for writer in writers]
    taken = time.perf_counter() - begun
    counted = _meter("count", url, "shared", WRITERS * WRITTEN)
    if any(codes) or counted["events"] != WRITERS * WRITTEN:
        raise MeterFailed(f"{WRITERS} writers of {WRITTEN} events left {counted['events']}, exit codes {codes}")
    results.figures[f"run_writers_{store}"] = {"indelible": figure_of([counted["events"] / taken], "events/s")}


def _family(name: str) -> str:
    return "raw" if name.startswith("raw") else "indelible"


def _name(events: int) -> str:
    return f"run-of-{events}"


def _meter(do: str, url: str, run_id: str, number: int) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.run_meter", do, url, run_id, str(number)]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode:
        said = [line for line in told.stderr.splitlines() if "Error" in line]
        raise MeterFailed((said or [f"exit code {told.returncode}"])[-1])
    found: dict[str, Any] = json.loads(told.stdout)
    return found
