"""Wakes waiting processes when another one has written: a byte in a file beside the database, seen by inotify.

The database's own WAL file would not do: it is written before the commit is visible, so a reader woken by it may look
too early and then sleep. The wake file is touched after the commit.
"""

from __future__ import annotations

import ctypes
import os
import sys

_IN_MODIFY = 0x2


class FileAlarm:
    """Becomes readable when the wake file is written."""

    def __init__(self, path: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(path), _IN_MODIFY) < 0:
            raise OSError(ctypes.get_errno(), "inotify is not to be had")

    def fileno(self) -> int:
        """Is readable after a change."""
        return self._fd

    def drain(self) -> set[str] | None:
        """Takes what came in; it does not say which effects changed."""
        try:
            while os.read(self._fd, 65536):
                pass
        except BlockingIOError:
            return None
        return None

    def close(self) -> None:
        """Stops watching."""
        os.close(self._fd)


def open_alarm(path: str) -> FileAlarm | None:
    """Gives an alarm for the wake file, or None where the system has none; waiting callers then look at times."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return FileAlarm(path)
    except OSError:
        return None
