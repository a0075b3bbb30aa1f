"""An exclusive lock on an open file. It ends with the process, however that ends."""

from __future__ import annotations

from indelible.errors import Misconfigured

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def require() -> None:
    """Raise `Misconfigured` if this system has no such locks."""
    if fcntl is None:
        raise Misconfigured(
            "files on this system have no locks that Indelible can rely on. On Windows, run it in WSL, or use a "
            'server: Ledger.open("https://…", token=…)'
        )


def take(file: int) -> bool:
    """Take the lock if it is free; return whether it is ours. Raise `Misconfigured` if this system has none."""
    require()
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def give_back(file: int) -> None:
    """Give the lock back. Closing the file is not enough if a forked child has a copy of its descriptor."""
    fcntl.flock(file, fcntl.LOCK_UN)
