"""LangChain's callbacks: what one costs whoever calls the model, and how many of a burst are on the record afterwards.

Each contestant runs in a process of its own, in turns. provedex sends to a sink that answers after a millisecond, as in
its own measurement; ours writes to a SQLite ledger; `floor` is a handler that does nothing, so what it adds is
LangChain's own. `python -m benchmarks.callbacks` measures this alone, where LangChain and provedex-langchain are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.crew import ROOT
from benchmarks.figures import figure_of
from benchmarks.scenarios import FULL, QUICK, Pace, Results, excuse, say

CONTESTANTS = ("floor", "provedex", "fast", "strict")
PAIRS, INVOCATIONS, BURST = 1_000, 2_000, 10_000
UNITS = {
    "producer": "µs p50",
    "producer_p99": "µs p99",
    "ainvoke": "µs/callback",
    "ainvoke_cpu": "µs of processor time/callback",
    "burst": "lost of 10,000",
}
# Of these the ratio is taken round by round, for both are measured under the same load then, and the median of those.
COMPARED = ("producer", "ainvoke", "ainvoke_cpu")


class MeterFailed(Exception):
    """A process that measures ended in an error; the message ends with what it printed."""


def measure(pace: Pace, results: Results) -> None:
    """Measures every contestant, and keeps figures of each."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with _sink() as sink:
        for number in range(pace.rounds):
            for contestant in CONTESTANTS:
                if f"callbacks.{contestant}" in results.absent:
                    continue
                say(f"callbacks: {contestant}, round {number + 1} of {pace.rounds}")
                try:
                    for what, value in _metered(contestant, sink, is_burst=number == 0).items():
                        found[what][contestant].append(value)
                except MeterFailed as error:
                    excuse(f"callbacks.{contestant}", error, results)
    for what, unit in UNITS.items():
        figures = {name: figure_of(values, unit) for name, values in found[what].items()}
        if figures:
            results.figures[f"callbacks_{what}"] = figures
        if what in COMPARED and {"fast", "provedex"} <= set(figures):
            pairs = zip(found[what]["fast"], found[what]["provedex"], strict=True)
            results.figures[f"callbacks_{what}_ratio"] = {"fast": figure_of([a / b for a, b in pairs], "of provedex's")}


def _metered(contestant: str, sink: str, *, is_burst: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "benchmarks.callback_meter", contestant, sink, folder]
        told = subprocess.run(
            [*words, *map(str, (PAIRS, INVOCATIONS, BURST if is_burst else 0))],
            cwd=ROOT,
            env={**os.environ, "INDELIBLE_KEYS": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    if told.returncode:
        said = [line for line in told.stderr.splitlines() if "Error" in line]
        raise MeterFailed((said or [f"exit code {told.returncode}"])[-1])
    found: dict[str, float] = json.loads(told.stdout)
    return found


@contextmanager
def _sink() -> Iterator[str]:
    """Gives the address of a sink in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.callback_sink"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main(words: list[str]) -> int:
    """Measures, and prints of each figure the median, the lowest and the highest round."""
    results = Results()
    measure(QUICK if "--quick" in words else FULL, results)
    told: dict[str, Any] = {
        name: {who: [round(value, 3) for value in (one.median, one.low, one.high)] for who, one in figures.items()}
        for name, figures in results.figures.items()
    }
    print(json.dumps({"figures": told, "absent": results.absent}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
