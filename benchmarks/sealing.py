"""`indelible worker` beside a contestant: the process that seals the journal in a deployment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.crew import ROOT


class SealingProcess:
    """Seals one ledger, and stands still while others are measured."""

    def __init__(self, url: str) -> None:
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        words = [sys.executable, "-m", "indelible.cli", "worker", "--url", url]
        self._process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=self._complaints)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Lets it work meanwhile; raises when it has ended."""
        if self._process.poll() is not None:
            self._complaints.seek(0)
            said = self._complaints.read().strip().splitlines()
            raise ChildProcessError(f"indelible worker ended: {said[-1] if said else self._process.returncode}")
        self._tell(signal.SIGCONT)
        try:
            yield
        finally:
            self._tell(signal.SIGSTOP)

    def close(self) -> None:
        """Ends it, after a seal that is under way."""
        self._tell(signal.SIGCONT)
        self._tell(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._complaints.close()

    def _tell(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)
