"""Workers that die where they are told to: at the N-th line of the library, or at the N-th system call of a kind."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from tests.chaos import strace
from tests.chaos.procs import Child
from tests.chaos.strace import Strace

Result = TypeVar("Result")

# Started by the first step, struck by the last; where the worker died is the generator's value.
Death = Generator[None, None, str | None]

# What a store's process asks of the kernel, and may be killed at.
SYSCALLS = {
    "sqlite": (
        "openat", "read", "pread64", "pwrite64", "write", "writev", "fsync", "fdatasync", "ftruncate", "fallocate",
        "fcntl", "flock", "mmap", "munmap", "unlink", "rename", "close", "futex", "sendto", "epoll_wait",
    ),
    "postgres": (
        "socket", "connect", "sendto", "recvfrom", "write", "writev", "read", "poll", "epoll_wait", "close", "futex",
        "setsockopt", "getsockopt", "openat",
    ),
}  # fmt: skip


def at_line(perform: Callable[..., Any], *args: Any) -> Death:
    """Lets a worker run that kills itself; gives where it died, or None if it lived to the end."""
    with Child(perform, *args) as child:
        yield
        said = child.hear()
        child.join()
    return said if isinstance(said, str) else None


def at_syscall(what: str, number: int, perform: Callable[..., Any], *args: Any) -> Death:
    """Lets a worker run, once it is traced, until it enters the N-th call of this kind."""
    with Child(perform, *args) as child:
        yield
        child.hear()
        with Strace(child.pid, *strace.kill_at(what, number)):
            child.tell()
            yield
            return what if child.join() == -9 else None


def together(many: Iterable[Generator[None, None, Result]]) -> list[Result]:
    """Lets several go on at once, step by step: while one starts, another is being killed."""
    under_way = list(enumerate(many))
    results: dict[int, Result] = {}
    while under_way:
        for place, one in list(under_way):
            try:
                next(one)
            except StopIteration as end:
                results[place] = end.value
                under_way.remove((place, one))
    return [results[place] for place in sorted(results)]
