"""Who may write to the file now: one thread of one process, in a fair order, and nobody waits without end.

Between processes the lock is a file's (`flock`). The kernel queues those who wait for it and wakes them in turn, which
keeps the slowest caller of many processes close to the others; looking again and again instead doubles what the slowest
one takes. But a wait in the kernel has no time limit. So a thread waits there, and whoever needs the lock waits for the
thread, as long as it wants to. The thread has a handle of its own: what it may get too late, it gives back.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType

from indelible import file_lock
from indelible.errors import StoreUnavailable
from indelible.stores.sqlite.guard import OwnedFile, open_beside

try:
    import fcntl
except ImportError:  # Windows; `file_lock.require` says what to do
    fcntl = None  # type: ignore[assignment]

PATIENCE = 10.0


_ROOM = 6
"""How many functions deep giving the lock back goes, at most."""


def _need_room(frames: int) -> None:
    """Raise `RecursionError` unless the stack has room for so many functions more: what is taken is given back too."""
    if frames:
        _need_room(frames - 1)


class WriteLock:
    """Lets one writer in at a time: threads by a lock, processes by a file."""

    def __init__(self, path: str | None, address: str) -> None:
        self._threads = threading.Lock()
        self._address = address
        self._path = path
        self._file: OwnedFile | None = None
        self._queue: _Queue | None = None
        self._is_queued = False
        _LOCKS.add(self)
        if path is not None:
            file_lock.require()
            self._file = open_beside(path)
            self._queue = _Queue(path)

    def __enter__(self) -> None:
        _need_room(_ROOM)
        ends = time.monotonic() + PATIENCE
        if not self._threads.acquire(timeout=PATIENCE):
            raise self._too_long()
        try:
            self._is_queued = False
            if self._file is None or _is_taken_at_once(self._file):
                return
            assert self._queue is not None
            self._is_queued = True
            if not self._queue.wait(ends - time.monotonic()):
                raise self._too_long()
        except BaseException:
            self._let_go()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._let_go()

    def _let_go(self) -> None:
        """Gives back whatever is held; giving back what is not held does nothing."""
        if self._is_queued:
            assert self._queue is not None
            self._queue.give_back()
        elif self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._threads.release()

    @property
    def threads(self) -> threading.Lock:
        """Keeps only the other threads of this process out, for what other processes need not wait for."""
        return self._threads

    def _too_long(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._address} has been locked for {PATIENCE:g} s by {self._holder()}; let it end, then call again"
        )

    def _holder(self) -> str:
        """Name the process that has the lock, where the system tells; and what to do if it was stopped."""
        pid = None if self._path is None else holder_of(self._path)
        if pid is None:
            return "a handler inside effect.transaction(), or by a process that was stopped"
        if pid == os.getpid():
            return f"this process ({pid}), perhaps by a handler inside effect.transaction()"
        if is_stopped(pid):
            return f"process {pid}, which was stopped (SIGSTOP) and goes on with: kill -CONT {pid}"
        return f"process {pid}, perhaps by a handler inside effect.transaction()"

    def close(self) -> None:
        """Gives the lock's files back."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._queue is not None:
            self._queue.close()

    def forget(self) -> None:
        """Closes what a forked child inherited: open there, a lock of its parent's could outlive the parent."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._queue is not None:
            self._queue.forget()


class _Turn:
    """Is one caller's place in the queue."""

    __slots__ = ("arrived", "is_wanted")

    def __init__(self) -> None:
        self.arrived = threading.Lock()
        self.arrived.acquire()
        self.is_wanted = True


class _Queue:
    """Waits in the kernel's queue for one caller at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: OwnedFile | None = None
        self._turns: SimpleQueue[_Turn | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def wait(self, seconds: float) -> bool:
        """Waits until the lock is ours, as long as that; says whether it is."""
        if self._thread is None:
            if self._file is None:
                self._file = open_beside(self._path)
            thread = threading.Thread(target=self._stand, name="indelible-write-lock", daemon=True)
            thread.start()  # which the system may refuse; then the next one who waits tries again
            self._thread = thread
        turn = _Turn()
        try:
            self._turns.put(turn)
            if turn.arrived.acquire(timeout=max(seconds, 0)):
                return True
        except BaseException:
            turn.is_wanted = False
            raise
        turn.is_wanted = False
        return False

    def give_back(self) -> None:
        """Lets the next one in."""
        if self._file is not None:  # else it could not even be opened
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _stand(self) -> None:
        file = self._file
        assert file is not None
        while (turn := self._turns.get()) is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
            turn.arrived.release()
            # A caller that gives up says so before it gives the lock back, so one of us two does it in any case.
            if not turn.is_wanted:
                fcntl.flock(file, fcntl.LOCK_UN)
        file.close()

    def close(self) -> None:
        """Lets the thread go, when it has stopped waiting."""
        if self._thread is not None:
            self._turns.put(None)
        else:
            self.forget()

    def forget(self) -> None:
        """Closes the handle in a forked child, which has no thread."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _is_taken_at_once(file: OwnedFile) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder_of(path: str) -> int | None:
    """Return the process that has a file locked; None if there is none, or if the system does not tell (not Linux)."""
    try:
        inode = os.stat(path).st_ino  # noqa: PTH116
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, _, _, pid, place, *_ = line.split()  # of a process that waits, the kind is "->"
            if kind == "FLOCK" and int(place.rpartition(":")[2]) == inode and int(pid) > 0:
                return int(pid)
    except (OSError, ValueError):
        return None
    return None


def is_stopped(pid: int) -> bool:
    """Say whether a process was stopped by a signal."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    except OSError:
        return False


_LOCKS: weakref.WeakSet[WriteLock] = weakref.WeakSet()


def _forget_inherited() -> None:
    for lock in _LOCKS:
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_inherited)
