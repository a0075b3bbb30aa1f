"""Keeps the log of an open database in place, whatever this process does with the database's file besides.

SQLite holds POSIX locks. When a process closes any descriptor of a file, the kernel drops all its POSIX locks on that
file: after `shutil.copy`, say, or after another SQLite library closed it. Another program that closes the database then
takes itself for the last one, and deletes the log (`-wal`) under us. So this module holds the same shared locks once
more, as locks of an open file description, which only closing that description drops (Linux).

Two SQLite libraries in one process do not keep each other out: neither sees the other's POSIX locks. Python's `sqlite3`
is refused on a file that is open as a ledger here, before it opens it.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from io import FileIO

import apsw

from indelible.errors import Misconfigured

try:
    import fcntl
except ImportError:  # Windows: locks there belong to the handle, and a file that is open cannot be deleted
    fcntl = None  # type: ignore[assignment]

Place = tuple[int, int]
"""Tells one file from another that has its name: device and inode."""

# From SQLite's os_unix.c: the bytes that every reader of a database locks, and every user of its -shm.
_SHARED = (0x40000002, 510)
_IN_USE = (128, 1)
_CAN_LOCK = hasattr(fcntl, "F_OFD_SETLK")
# From wal.c: in the log's index, whether it was begun, the size of a page, and how many frames the log has; in the log,
# its own header and that of each frame.
_INDEX = struct.Struct("=12xB1xHI")
_LOG_HEADER, _FRAME_HEADER = 32, 24


def place_of(path: str | os.PathLike[str]) -> Place | None:
    """Return the place of a file; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  around every write, so it is the quick one
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


class OwnedFile(FileIO):
    """Is a descriptor that is closed at most once, also by a forked child, and without a word."""

    def __del__(self) -> None:
        self.close()


def open_beside(path: str, flags: int = os.O_RDWR | os.O_CREAT) -> OwnedFile:
    """Open a file beside a database, for its owner alone; raises `OSError` if a link or no file has its name."""
    asked = flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    mode = "r+" if flags & os.O_RDWR else "r"
    file = OwnedFile(path, mode, opener=lambda name, _: os.open(name, asked, 0o600))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise OSError(errno.EINVAL, "it is no file", path)
    return file


class Guard:
    """Holds the shared locks of one database for all stores of this process that have it open."""

    def __init__(self, path: str, place: Place) -> None:
        self._path = path
        self._place = place
        self._files: list[OwnedFile] = []
        self._users = 0

    @classmethod
    def of(cls, path: str) -> Guard:
        """Return the guard of a database that is about to be opened, with one user more.

        Raises:
            Misconfigured: Another SQLite library has the file open in this process.
        """
        with _CHANGING:
            found = os.stat(path)  # noqa: PTH116
            place = (found.st_dev, found.st_ino)
            if place not in _GUARDS:
                _refuse_if_open(path, place)
                _GUARDS[place] = cls(path, place)
            _GUARDS[place]._users += 1
            _watch_other_library()
            return _GUARDS[place]

    def lock(self) -> None:
        """Hold the locks from now on; call it once the database is in WAL mode, in which a reader has its -shm open."""
        with _CHANGING:
            if _CAN_LOCK and not self._files:
                # Appended before it is locked: closing one of them would drop SQLite's own locks.
                for name, held in ((self._path, _SHARED), (f"{self._path}-shm", _IN_USE)):
                    self._files.append(open_beside(name, os.O_RDONLY))
                    _lock(self._files[-1], fcntl.F_RDLCK, held)

    def has_whole_log(self, log: str) -> bool:
        """Say whether the log is as long as its index says; where the guard holds no index, it is taken for whole.

        The size is read first: a checkpoint that may truncate the log tells so in the index before it does.
        """
        if len(self._files) < 2:
            return True
        try:
            size = os.stat(log).st_size  # noqa: PTH116  around every write, so it is the quick one
            found = os.pread(self._files[1].fileno(), _INDEX.size, 0)
        except OSError:  # a disk that fails fails SQLite too, which says so
            return True
        if len(found) < _INDEX.size:
            return True
        is_begun, page, frames = _INDEX.unpack(found)
        page = 65536 if page == 1 else page
        return not is_begun or not frames or size >= _LOG_HEADER + frames * (_FRAME_HEADER + page)

    def release(self, close: Callable[[], None]) -> None:
        """Close a store's connections by calling `close`; with the last store, give the locks back first.

        SQLite removes the log with its last connection only if there is no lock left. The guard's own files are closed
        after that, and not at all while the program has a connection of its own: they would take its locks with them.
        """
        with _CHANGING:
            self._users -= 1
            if self._users:
                close()
                return
            for file, held in zip(self._files, (_SHARED, _IN_USE), strict=False):
                _lock(file, fcntl.F_UNLCK, held)
            try:
                close()
            finally:
                del _GUARDS[self._place]
                if _apsw_has(self._place):
                    _LEFT_OPEN.extend(self._files)
                else:
                    self.leave()

    def leave(self) -> None:
        """Close the files; done by a forked child, it leaves the locks to its parent."""
        for file in self._files:
            file.close()


def _lock(file: OwnedFile, kind: int, held: tuple[int, int]) -> None:
    """Set or give back a lock; where the file system has none of this kind, SQLite's own must do."""
    with suppress(OSError):
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("@hhqqi", kind, os.SEEK_SET, *held, 0))


def _apsw_has(place: Place) -> bool:
    """Say whether the library that the ledger uses has this file open."""
    for connection in apsw.connections():
        with suppress(apsw.Error):
            if connection.filename and place_of(connection.filename) == place:
                return True
    return False


def _refuse_if_open(path: str, place: Place) -> None:
    """Raise if this process has the database open for writing, and not by the library that the ledger uses."""
    if not os.path.isdir("/proc/self/fd") or _apsw_has(place):  # noqa: PTH112
        return
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):  # the listing's own descriptor is gone by now
            found = os.fstat(int(name))
            if (found.st_dev, found.st_ino) == place and fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_ACCMODE:
                raise _two_libraries(path)


def _two_libraries(path: object) -> Misconfigured:
    return Misconfigured(
        f"{path} is open as a ledger and by another SQLite library (Python's sqlite3?) in one process. They do not see "
        "each other's locks and would destroy what the other writes, so this was refused and nothing was opened. Use "
        "apsw.Connection, effect.transaction(), another process, or a file of its own for your tables"
    )


def _refuse_other_library(event: str, arguments: tuple[object, ...]) -> None:
    """Hear what Python does (PEP 578); refuse its sqlite3 where a ledger is open."""
    if event == "sqlite3.connect" and _GUARDS and place_of(_named(arguments[0])) in _GUARDS:
        raise _two_libraries(_named(arguments[0]))


def _named(database: object) -> str:
    """Return the path that a name for sqlite3.connect means."""
    name = os.fsdecode(database) if isinstance(database, str | bytes | os.PathLike) else ""
    if not name.startswith("file:"):
        return name
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(name).path)


def _watch_other_library() -> None:
    global _is_watching
    if not _is_watching:
        sys.addaudithook(_refuse_other_library)  # which cannot be taken away again, so there is one for all
        _is_watching = True


def _leave_to_parent() -> None:
    """Begin without guards in a forked child, which has no locks; its stores make their own."""
    global _CHANGING
    _CHANGING = threading.Lock()
    for guard in _GUARDS.values():
        guard.leave()
    _GUARDS.clear()


_CHANGING = threading.Lock()
_GUARDS: dict[Place, Guard] = {}
_LEFT_OPEN: list[OwnedFile] = []
_is_watching = False

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
