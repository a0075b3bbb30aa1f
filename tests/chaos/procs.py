"""Worker processes, forked from a warm server that has imported everything: a start costs milliseconds.

The forking server is Python's own (`multiprocessing`, method "forkserver"). The harness itself may have threads and
open connections; a process forked from it could not be trusted.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import TracebackType
from typing import Any

PATIENCE = 240.0  # a slow machine is no violation, a hang is
_PR_SET_PTRACER = 0x59616D61
_ANYBODY = ctypes.c_ulong(-1)


class ChildDied(Exception):
    """The child ended without an answer; `code` is how, negative for a signal."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"the child ended with {code}")
        self.code = code


class ChildHangs(Exception):
    """The child said nothing for longer than anything here may take."""


class ChildRaised(Exception):
    """The child's function raised; the message is its traceback."""


@functools.cache
def _context() -> ForkServerContext:
    from tests.chaos.subject import PRELOAD

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


class Child:
    """Runs `function(line, *args)` in a process of its own; `line` is the child's end of a two-way pipe."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.line, theirs = _context().Pipe()
        self._process = _context().Process(target=_child_main, args=(theirs, _ours(), function, args), daemon=True)
        self._process.start()
        theirs.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def hear(self, patience: float = PATIENCE) -> Any:
        """Waits for the next thing the child says over its line; raises `ChildHangs` when nothing comes."""
        try:
            if not self.line.poll(patience):
                # Where it hangs is the finding: its threads' stacks go to standard error.
                self.signal(signal.SIGUSR1)
                self._process.join(1)
                self.kill()
                raise ChildHangs(f"child {self.pid} said nothing for {patience} s; its stacks are above")
            return self.line.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(PATIENCE)
            raise ChildDied(self._process.exitcode) from None

    def tell(self, word: Any = None) -> None:
        """Says something to the child."""
        with contextlib.suppress(BrokenPipeError):
            self.line.send(word)

    def result(self, patience: float = PATIENCE) -> Any:
        """Waits for what the function returned; raises `ChildDied` if the child was killed before."""
        is_good, value = self.hear(patience)
        self.join()
        if not is_good:
            raise ChildRaised(value)
        return value

    def join(self) -> int:
        """Waits for the child's end and gives its exit code, negative for a signal."""
        self._process.join(PATIENCE)
        code = self._process.exitcode
        if code is None:
            self.kill()
            raise ChildHangs(f"child {self.pid} does not end")
        self._process.close()
        self.line.close()
        return code

    @property
    def is_over(self) -> bool:
        """Has it ended?"""
        return not self._process.is_alive()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        os.kill(self.pid, number)

    def freeze(self, database: Path) -> None:
        """Stops the child, but not in the middle of a write to a SQLite file, of which there may be none.

        There it would hold the only write lock, and nobody could write before it wakes up: true, and not at issue.
        """
        lock_file = database.with_name(f"{database.name}-lock")
        while True:
            self.signal(signal.SIGSTOP)
            while not self._stands_still():
                os.sched_yield()
            if not lock_file.exists() or _is_free(lock_file):
                return
            self.signal(signal.SIGCONT)

    def _stands_still(self) -> bool:
        """Have all its threads stopped? They do so one by one, and the last ones may take a lock before."""
        try:
            told = [task.read_text() for task in Path(f"/proc/{self.pid}/task").glob("*/stat")]
        except (FileNotFoundError, ProcessLookupError):  # one of them ended just now
            return False
        return all(words.rpartition(")")[2].split()[0] == "T" for words in told)

    def kill(self) -> None:
        """Ends the child at once."""
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Closed already when the result was fetched; otherwise nobody wants it any more.
        with contextlib.suppress(ValueError):
            self.kill()
            self._process.close()
            self.line.close()


def ask(function: Callable[..., Any], *args: Any) -> Any:
    """Runs `function(*args)` in a child and gives its result."""
    with Child(_without_line, function, args) as child:
        return child.result()


def ask_all(function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *, width: int = 4) -> Iterator[Any]:
    """Runs `function(*args)` for each of the arguments, `width` children at a time, and gives results in order."""
    waiting: list[Child] = []
    try:
        for args in arguments:
            waiting.append(Child(_without_line, function, args))
            if len(waiting) == width:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        for child in waiting:
            child.kill()


def let_anybody_trace_me() -> None:
    """Allows a tracer that is no ancestor; without it hardened kernels refuse strace unless it is root."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)


def _without_line(line: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(*args)


def _ours() -> dict[str, str]:
    """Return our own variables as they are now: the server that forks has those of the first test."""
    return {name: value for name, value in os.environ.items() if name.startswith("INDELIBLE_")}


def _child_main(line: Connection, ours: dict[str, str], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.environ.update(ours)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    try:
        value = function(line, *args)
    except BaseException:
        line.send((False, traceback.format_exc()))
    else:
        line.send((True, value))
    line.close()


def _is_free(lock_file: Path) -> bool:
    with lock_file.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
