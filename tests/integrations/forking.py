"""A process that has loaded frameworks and forks one process for each act: real ones, which can be killed anywhere.

Frameworks take seconds to load, and a matrix of kills takes dozens of processes.

    python -m tests.integrations.forking MODULE     # acts come as lines of JSON, and so does how they ended
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]


class Forks:
    """Plays acts, each in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def play(self, act: str, kill_at: int | None = None, **words: Any) -> bool:
        """Plays an act, which counts its lines and is killed at one where that is said; says whether it came to an end.

        One that raises fails the test.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"act": act, "kill_at": kill_at, "words": words}) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        assert status in (0, -signal.SIGKILL), f"{act} ended with {status}; what it said stands above"
        return status == 0


@contextmanager
def forking(module: str) -> Iterator[Forks]:
    """Gives a process that has loaded a module, and ends it."""
    command = [sys.executable, "-m", "tests.integrations.forking", module]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield Forks(process)  # leaving closes its input, by which it ends


class KilledAtLine:
    """Counts the lines of some files that a process comes to, and kills it at the one with this number; 0 is none."""

    def __init__(self, files: frozenset[str], at: int) -> None:
        self._files = files
        self._at = at
        self.count = 0

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        """Looks into functions of these files alone."""
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self._at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._line


def _forked(module: Any, asked: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        os.dup2(2, 1)  # what an act prints is not how it ended
        tracer = KilledAtLine(module.FILES, asked["kill_at"] or 0)
        if asked["kill_at"] is not None:
            sys.settrace(tracer)
        getattr(module, asked["act"])(tracer, **asked["words"])
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def main(name: str) -> None:
    """Plays the acts that come in."""
    module = import_module(name)
    for line in sys.stdin:
        sys.stdout.write(f"{_forked(module, json.loads(line))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
