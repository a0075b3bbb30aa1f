"""SQLite connections as the ledger needs them: durable, patient, and never carried across a fork."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path
from traceback import clear_frames
from types import TracebackType

import apsw

from indelible.errors import Misconfigured, RecordForged, StoreError, StoreUnavailable
from indelible.stores.sqlite.bulk import Refused

# Below this, SQLite can lose acknowledged commits in WAL mode when two connections checkpoint.
SAFE_FOR_WAL = (3, 51, 3)
BUSY_MS = 10_000
# A page that many commits touch is copied into the database once per checkpoint, so few checkpoints are cheap.
CHECKPOINT_PAGES = 4000
_LOOK_AGAIN_FOR_MODE = 0.01
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_safe_for_wal(version: str = "") -> bool:
    """Is this SQLite library free of the fault that loses commits in WAL mode?"""
    return tuple(int(part) for part in (version or apsw.sqlite_lib_version()).split(".")) >= SAFE_FOR_WAL


def connect(path: str, *, is_memory: bool) -> apsw.Connection:
    """Open a connection on which a commit is on the disk before it returns."""
    if not is_memory:
        make_file(path)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | (apsw.SQLITE_OPEN_URI if is_memory else 0)
    connection = apsw.Connection(path, flags=flags)
    connection.set_busy_timeout(BUSY_MS)
    if not is_memory:
        # Where memory cannot be shared between processes SQLite stays out of WAL mode, and says so in its answer.
        if not is_safe_for_wal() or _change_mode(connection, "WAL") != "wal":
            _change_mode(connection, "TRUNCATE")  # the mode it would be left in can lose a commit with the power
        connection.execute("PRAGMA synchronous=FULL").fetchall()
        connection.wal_autocheckpoint(CHECKPOINT_PAGES)
    connection.execute("PRAGMA temp_store=MEMORY").fetchall()
    connection.execute("PRAGMA trusted_schema=OFF").fetchall()
    connection.execute("PRAGMA secure_delete=ON").fetchall()  # what is erased is overwritten
    return connection


def make_file(path: str) -> None:
    """Make an empty database for its owner alone, if there is none; SQLite gives its other files the same mode.

    The file is not opened: closing it again would drop the locks of every connection that this process has to it.
    """
    with suppress(FileExistsError):
        try:
            os.mknod(path, stat.S_IFREG | 0o600)
        except PermissionError:  # macOS lets only root do that
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def check_alone(path: str) -> None:
    """Raises unless it is a file that has this one name, in a folder that is its own: there lies its log.

    Under a second name, or where only the file is mounted, another log is used, and what is in the first is not seen.
    """
    try:
        found = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise Misconfigured(f"{path} is a symbolic link that leads in a circle; name a file") from error
    file = Path(path).resolve()
    if stat.S_ISDIR(found.st_mode):
        raise Misconfigured(f"{file} is a folder; name a file in it, such as {file / 'ledger.db'}")
    if not stat.S_ISREG(found.st_mode):
        raise Misconfigured(f"{file} is a pipe, a socket or a device; name a file")
    if found.st_nlink > 1:
        raise Misconfigured(
            f"{file} is a hard link, and under its other name it is another ledger; make a copy instead"
        )
    if str(file) in _mount_points():
        raise Misconfigured(
            f"{file} is mounted as a single file, and its log, {file.name}-wal, would stay behind in the container; "
            "mount its folder instead"
        )


def _mount_points() -> set[str]:
    """Names the places where something is mounted, on a system that tells."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return set()
    return {_ESCAPED.sub(lambda found: chr(int(found[1], 8)), line.split(" ")[4]) for line in lines}


def _change_mode(connection: apsw.Connection, mode: str) -> str:
    """Sets the journal's mode and gives the one it has; while somebody writes that is refused at once, so we wait."""
    ends = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            return str(connection.execute(f"PRAGMA journal_mode={mode}").get)
        except apsw.BusyError:
            if time.monotonic() > ends:
                raise
            time.sleep(_LOOK_AGAIN_FOR_MODE)


class Explained:
    """Turns the library's errors into ours: each names the store and the next step. One serves any number of blocks."""

    __slots__ = ("_address",)

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, apsw.Error):
            raise _in_our_words(self._address, error) from error
        if isinstance(error, OSError):
            raise StoreUnavailable(
                f"{self._address}: {error}; check that the folder exists and is yours to write"
            ) from error
        if isinstance(error, Refused):  # what was decided on is as it was, for nobody else writes meanwhile
            raise Misconfigured(
                f"{self._address}: a trigger of yours on the ledger's tables kept a row away, so nothing was "
                "written. Take it away (indelible doctor names it), then call again"
            ) from None
        if isinstance(error, UnicodeDecodeError):
            clear_frames(at)  # they hold the statement, and the connection would stay at this moment
            raise RecordForged(
                f"{self._address}: a text in a table of the ledger is no UTF-8, and no holder of its keys wrote that. "
                "See what was changed: indelible verify"
            ) from error


def _in_our_words(address: str, error: apsw.Error) -> StoreError:
    match error:
        case apsw.BusyError():
            return StoreUnavailable(
                f"{address} has been locked by another program for {BUSY_MS // 1000} s; close that program's "
                f"transaction and call again ({error})"
            )
        case apsw.FullError():
            return StoreUnavailable(f"{address}: the disk is full; free some room and call again ({error})")
        case apsw.CantOpenError() | apsw.ReadOnlyError() | apsw.PermissionsError():
            return StoreUnavailable(
                f"{address} cannot be written; check that the folder exists and is yours to write ({error})"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return Misconfigured(
                f"{address} is not a sound SQLite database ({error}); restore it from a backup, or name another"
            )
        case _:
            return StoreUnavailable(f"{address}: {error}; nothing was written, call again")


def folder_of(path: str) -> Path:
    """Return the database's folder; make it, and those above it that are missing, for their owner alone."""
    folder = Path(path).parent
    try:
        # Path.mkdir(parents=True) gives the folders above the last one the mode that the umask leaves.
        for missing in [*reversed([place for place in folder.parents if not place.exists()]), folder]:
            missing.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"{folder}: cannot be made ({error}); choose another address") from error
    return folder
