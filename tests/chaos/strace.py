"""strace, attached to a running worker: counts its system calls, kills or fails it at the N-th, records its writes."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from types import TracebackType

from tests.chaos.procs import Child, let_anybody_trace_me

# A call begins on a line of its own; "<... x resumed>" lines continue one.
_BEGINS = re.compile(rb"^(\d+) +(\w+)\(")


class Strace:
    """Holds strace attached to a process and all its threads, present and future."""

    def __init__(self, pid: int, *options: str, log: Path | None = None) -> None:
        command = ["strace", "-f", "-p", str(pid), "-o", str(log or "/dev/null"), *options]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self._process.stderr is not None
        said = self._process.stderr.readline()
        if b"attached" not in said:
            self._process.wait()
            self._process.stderr.close()
            raise OSError(f"strace cannot attach: {said.decode().strip()}")

    def join(self) -> None:
        """Waits until the traced process has ended and the log is whole."""
        self._process.communicate()

    def __enter__(self) -> Strace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self._process.kill()
        self.join()


@functools.cache
def is_available() -> bool:
    """Is strace here, and may it attach to our workers?"""
    if shutil.which("strace") is None:
        return False
    with Child(_wait_to_be_traced) as child:
        child.hear()
        try:
            with Strace(child.pid, "-e", "trace=none"):
                child.tell()
                child.result()
        except OSError:
            return False
    return True


def only(*syscalls: str) -> tuple[str, str]:
    """Traces nothing but these calls; a name unknown on this machine is passed over."""
    return "-e", "trace=" + ",".join(f"?{name}" for name in syscalls)


def kill_at(syscall: str, number: int) -> tuple[str, ...]:
    """Kills the process as it enters the N-th call of this kind (counted per thread)."""
    return (*only(syscall), "-e", f"inject={syscall}:signal=KILL:when={number}")


def fail_at(syscall: str, error: str, number: int, *, for_good: bool) -> tuple[str, str]:
    """Lets the N-th call of this kind fail without being made, and all later ones too if for good."""
    return "-e", f"inject={syscall}:error={error}:when={number}{'+' if for_good else ''}"


def count(log: Path) -> Counter[str]:
    """Counts how often each call was made, by the thread that made most of them: what `when=` is compared with."""
    per_thread: Counter[tuple[bytes, str]] = Counter()
    for line in log.read_bytes().splitlines():
        if begins := _BEGINS.match(line):
            per_thread[begins[1], begins[2].decode()] += 1
    most: Counter[str] = Counter()
    for (_, name), made in per_thread.items():
        most[name] = max(most[name], made)
    return most


def _wait_to_be_traced(line: object) -> None:
    let_anybody_trace_me()
    line.send("ready")  # type: ignore[attr-defined]
    line.recv()  # type: ignore[attr-defined]
