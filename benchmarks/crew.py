"""Starts workers, asks them, and ends them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.loops import Burst

ROOT = Path(__file__).resolve().parent.parent


class WorkerFailed(Exception):
    """A contestant could not be started or gave up; the message ends with what it printed."""


class Process:
    """One contestant in its own process."""

    def __init__(
        self, name: str, url: str, *, wrapped_by: tuple[str, ...] = (), module: str = "worker", **opening: Any
    ) -> None:
        self.name = name
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*wrapped_by, sys.executable, "-m", f"benchmarks.{module}", name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self.ask("open", url=url, **opening)
        self.answer()

    @property
    def pid(self) -> int:
        """The process id of the contestant, or of the program that wraps it."""
        return self._process.pid

    def ask(self, do: str, **details: Any) -> None:
        """Sends a request; `answer` waits for what comes of it."""
        if self._process.stdin is None:
            raise WorkerFailed(self.name)
        try:
            self._process.stdin.write(json.dumps({"do": do} | details) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(self._last_words()) from None

    def answer(self) -> Any:
        """Waits for what comes of the last request."""
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise WorkerFailed(self._last_words())
        return json.loads(line)

    def burst(self) -> Burst:
        """Waits for what the last request measured."""
        return Burst(**self.answer())

    def measure(self, do: str, **details: Any) -> Burst:
        """Asks for a measurement and waits for it."""
        self.ask(do, **details)
        return self.burst()

    def drain(self) -> float:
        """Waits until the contestant has nothing left to do, and returns how many seconds that took."""
        self.ask("drain")
        return float(self.answer())

    def close(self) -> None:
        """Closes the contestant's store and ends the process."""
        try:
            if self._process.poll() is None:
                self.ask("close")
                self.answer()
        except WorkerFailed:
            pass
        finally:
            if self._process.stdin:
                self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout:
                self._process.stdout.close()
            self._complaints.close()

    def _last_words(self) -> str:
        self._process.wait(10)
        self._complaints.seek(0)
        said = self._complaints.read().strip().splitlines()
        return f"{self.name}: " + (said[-1] if said else f"exit code {self._process.returncode}")


class Crew:
    """Keeps workers for reuse, and ends them all at once."""

    def __init__(self) -> None:
        self._hired: dict[tuple[str, str, int], Process] = {}

    def worker(self, name: str, url: str, number: int = 0) -> Process:
        """Returns the worker for a contestant on a store, starting it if need be."""
        place = (name, url, number)
        if place not in self._hired:
            self._hired[place] = Process(name, url)
        return self._hired[place]

    def close(self) -> None:
        """Ends every worker."""
        while self._hired:
            self._hired.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
