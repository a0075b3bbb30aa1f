"""Durable signed appends, in batches, beside provedex's `Session.record`: in turns, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.crew import ROOT
from benchmarks.figures import figure_of
from benchmarks.scenarios import Pace, Results, excuse, say
from benchmarks.servers import Stores

ROUNDS = 7
KINDS = ("indelible", "provedex")


def measure(stores: Stores, pace: Pace, results: Results) -> None:
    """Lets both append so many events, in turns, and keeps their rates."""
    events = max(4096, pace.events // 50)
    say(f"appends: {events:,} signed events, durable")
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(ROUNDS):
        for kind in list(rates):
            try:
                rates[kind].append(_append(kind, stores.directory / f"appends_{kind}_{number}", events))
            except subprocess.CalledProcessError as error:
                excuse(f"appends.{kind}", error, results)
                del rates[kind]
    results.figures["appends"] = {kind: figure_of(found, "events/s") for kind, found in rates.items()}


def _append(kind: str, path: Path, events: int) -> float:
    words = [sys.executable, "-m", "benchmarks.appender", kind, str(path), str(events)]
    told = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    rate: float = json.loads(told.stdout)["events_per_s"]
    return rate
