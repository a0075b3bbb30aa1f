"""How fast a journal is verified, in how much memory, and beside provedex's own verifier.

Everybody verifies files made for it, in a fresh process for each round, in turns. What counts is the processor's time,
for a verifier may use all cores; memory is taken at its highest, for a journal and for the tenth of one.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.crew import ROOT
from benchmarks.figures import figure_of
from benchmarks.scenarios import Pace, Results, excuse, say
from benchmarks.servers import Stores

ROUNDS = 3
SAMPLE = 20_000  # events, where each has a signature to check: the rate does not depend on their number
EVENTS_OF_CALL = 2
UNIT = "events/s of CPU"


class VerifierFailed(Exception):
    """A verifier did not accept what was made for it; the message ends with what it printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one competitor verifies, and how."""

    kind: str
    path: Path
    key: tuple[str, ...] = ()

    def run(self) -> dict[str, Any]:
        """Verifies once, in a process of its own."""
        words = [sys.executable, "-m", "benchmarks.verifier", self.kind, str(self.path), *self.key]
        told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if told.returncode:
            raise VerifierFailed((told.stderr.strip().splitlines() or [f"exit code {told.returncode}"])[-1])
        found: dict[str, Any] = json.loads(told.stdout)
        return found


def measure(stores: Stores, pace: Pace, results: Results) -> None:
    """Makes journals, verifies them in turns, and keeps rates and memory."""
    say(f"verify: a journal of {pace.events:,} events")
    tasks = _our_tasks(stores.directory, pace.events, results) | _their_task(stores.directory, results)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in tasks}
    for _ in range(ROUNDS):
        for name in list(found):
            try:
                found[name].append(tasks[name].run())
            except VerifierFailed as error:
                excuse(f"verify.{name}", error, results)
                del found[name]
    results.figures["verify"] = {
        name: figure_of([one["events"] / one["processor_seconds"] for one in ones], UNIT)
        for name, ones in found.items()
        if not name.endswith("_tenth")
    }
    results.figures["verify_memory"] = {
        name: figure_of([one["peak_mb"] for one in ones], "MB") for name, ones in found.items()
    }


def _our_tasks(directory: Path, events: int, results: Results) -> dict[str, Task]:
    try:
        bundles = importlib.import_module("benchmarks.bundles")  # so that peers can be measured without us
    except (ImportError, AttributeError) as error:
        excuse("verify.indelible", error, results)
        return {}
    paths = {name: directory / f"bundle_{name}" for name in ("whole", "tenth", "disclosed")}
    whole, tenth = ((bundles.make_bundle(paths[name], size),) for name, size in _sizes(events))
    disclosed = (bundles.make_bundle(paths["disclosed"], SAMPLE, is_disclosed=True),)
    live = (_live_ledger(directory / "live"),)
    return {
        "tree": Task(kind="tree", path=paths["whole"], key=whole),
        "semantics": Task(kind="semantics", path=paths["whole"], key=whole),
        "tree_tenth": Task(kind="tree", path=paths["tenth"], key=tenth),
        "semantics_tenth": Task(kind="semantics", path=paths["tenth"], key=tenth),
        "values": Task(kind="semantics", path=paths["disclosed"], key=disclosed),
        "deep": Task(kind="deep", path=paths["disclosed"], key=disclosed),
        "live": Task(kind="live", path=directory / "live" / "ledger.db", key=live),
        "bundle": Task(kind="bundle", path=directory / "live" / "bundle.zip", key=live),
    }


def _live_ledger(folder: Path) -> str:
    """Make a ledger of so many events by calls, ten in each run, and its bundle; return the key to verify both with."""
    from indelible import Ledger, ToolCall

    folder.mkdir()
    with Ledger.open(f"sqlite:///{folder / 'ledger.db'}", keys=folder / "keys") as ledger:
        for number in range(SAMPLE // EVENTS_OF_CALL):
            call = ToolCall(tool="note.write", args={"number": number}, run_id=f"run-{number // 10}")
            ledger.run(call, lambda effect: {"id": effect.key})
        ledger.export(folder / "bundle.zip")
        key: str = ledger._engine.notary.signer().keys(ledger.journal_name)[0].vkey
    return key


def _sizes(events: int) -> tuple[tuple[str, int], ...]:
    return ("whole", events), ("tenth", events // 10)


def _their_task(directory: Path, results: Results) -> dict[str, Task]:
    try:
        peer = importlib.import_module("benchmarks.peers.provedex_peer")
    except ImportError as error:
        excuse("verify.provedex", error, results)
        return {}
    path = directory / "provedex_verified.ndjson"
    peer.write_ledger(path, SAMPLE)
    return {"provedex": Task(kind="provedex", path=path)}
