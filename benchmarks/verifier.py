"""Verifies one thing in a process of its own and tells what that took: `python -m benchmarks.verifier KIND PATH [KEY]`.

A process each, for memory is measured at its highest. The processor's time is that of the call alone, with all threads
and child processes; starting Python and importing are not in it.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indelible.core.verifying.findings import Report

OPTIONS: dict[str, dict[str, bool]] = {
    "live": {},
    "bundle": {},
    "tree": {"semantics": False},
    "semantics": {},
    "deep": {"deep": True},
}


def _ours(kind: str, path: str, key: str) -> Callable[[], int]:
    def check() -> int:
        report = report_of(kind, path, key)
        if report.verdict != "verified":
            raise AssertionError(f"{report.verdict}: {report.why}")
        if kind == "deep" and report.counts.signatures < report.counts.events - 2:
            raise AssertionError(f"only {report.counts.signatures} of {report.counts.events} signatures were checked")
        return report.counts.events

    return check


def report_of(kind: str, path: str, key: str) -> Report:
    """Returns the report that is timed; of `live` and `bundle` it is the one that the command gives by default."""
    from indelible.journal.evidence.verification import verify

    return _live(path, key) if kind == "live" else verify(path, [key], **OPTIONS[kind])  # type: ignore[arg-type]


def _live(path: str, key: str) -> Report:
    """Verifies a ledger as the command does where the key is at hand."""
    from indelible import Ledger
    from indelible.journal.evidence.live import LiveEvidence
    from indelible.journal.evidence.verification import verify

    with Ledger.open(f"sqlite:///{path}", keys=Path(path).parent / "keys", seal=False, wakeups=False) as ledger:
        notary = ledger._engine.notary
        return verify(LiveEvidence(ledger._engine.recorded, ledger.tenant, notary.seal_with_own_key), [key])


def _theirs(path: str) -> Callable[[], int]:
    import provedex

    def check() -> int:
        report = provedex.verify_file(path)
        if not report.ok:
            raise AssertionError(report.reason)
        return int(report.event_count)

    return check


def measured(check: Callable[[], int]) -> dict[str, Any]:
    """Returns what a verification took: events, seconds of the processor, seconds, and the highest memory in MB."""
    begun, used = time.perf_counter(), _processor_seconds()
    events = check()
    used, taken = _processor_seconds() - used, time.perf_counter() - begun
    return {"events": events, "processor_seconds": used, "seconds": taken, "peak_mb": _peak_mb()}


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _peak_mb() -> float:
    """Returns the peak of this process; getrusage would also count what the process was before it became Python."""
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(found[1]) / 1000
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


if __name__ == "__main__":
    kind, path, *key = sys.argv[1:]
    print(json.dumps(measured(_theirs(path) if kind == "provedex" else _ours(kind, path, *key))))
