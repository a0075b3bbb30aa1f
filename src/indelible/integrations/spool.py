"""A bounded file that keeps what could not be delivered yet, and outlives the process that wrote it.

Each line is the CRC of an item and the item. What a crash has torn off at the end is not read. Beside it, a few bytes
of memory that the kernel keeps say which number was taken last and which was written last: whoever finds the file
knows what is missing.
"""

from __future__ import annotations

import mmap
import os
import struct
import uuid
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from indelible import file_lock

_NUMBER = struct.Struct("<Q")
_BOTH = struct.Struct("<QQ")
_END = ".spool"
_MARK = 9  # eight digits and a space


class SpoolFull(Exception):
    """The spool has no room for this: it is as large as it may become, or the disk is full."""


class Spool:
    """Is the file of one process; it holds a lock on it, by which others know that the process lives."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.id = uuid.uuid4().hex
        self._path = folder / f"{self.id}{_END}"
        self._most = most_bytes
        self._size = 0
        self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_RDWR, 0o600)
        file_lock.take(self._file)
        count = os.open(_count_of(self._path), os.O_CREAT | os.O_RDWR, 0o600)
        os.ftruncate(count, _BOTH.size)
        self._count = mmap.mmap(count, _BOTH.size)
        os.close(count)

    def note_taken(self, number: int) -> None:
        """Says which number was taken last; this outlives the process, without a system call."""
        _NUMBER.pack_into(self._count, 0, number)

    def note_written(self, number: int) -> None:
        """Says up to which number everything was written, here or elsewhere."""
        _NUMBER.pack_into(self._count, _NUMBER.size, number)

    def append(self, items: Sequence[bytes]) -> None:
        """Writes items, on the disk when this returns; raises `SpoolFull` when there is no room for them."""
        lines = b"".join(b"%08x %s\n" % (zlib.crc32(item), item) for item in items)
        if self._file < 0:
            raise SpoolFull(f"{self._path} was closed")
        if self._size + len(lines) > self._most:
            raise SpoolFull(f"{self._path} has {self._size} bytes, and may have {self._most}")
        try:
            self._write(lines)
        except OSError as problem:
            os.ftruncate(self._file, self._size)
            raise SpoolFull(f"{self._path}: {problem}") from problem
        self._size += len(lines)

    def _write(self, lines: bytes) -> None:
        left = memoryview(lines)
        while left:
            left = left[os.write(self._file, left) :]
        os.fdatasync(self._file)

    def clear(self) -> None:
        """Forgets everything: it was delivered."""
        if self._size and self._file >= 0:
            os.ftruncate(self._file, 0)
            self._size = 0

    def close(self, *, is_delivered: bool) -> None:
        """Gives the file up; what was not delivered stays for whoever comes next."""
        if is_delivered:
            _remove(self._path)
        self.abandon()

    def abandon(self) -> None:
        """Lets go of the file as it is; in a process that was forked it is the parent's."""
        self._count.close()
        # Whoever still holds this must not write to a file that gets the same number later.
        file, self._file = self._file, -1
        os.close(file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned:
    """Is the spool of a process that is gone: its items, and which numbers it took and wrote last."""

    id: str
    items: tuple[bytes, ...]
    taken: int
    written: int
    path: Path

    def remove(self) -> None:
        """Removes the file, for everything in it was delivered."""
        _remove(self.path)


def abandoned(folder: Path) -> Iterator[Abandoned]:
    """Gives the spools whose processes are gone; each is held by us alone until the next one is asked for."""
    for path in sorted(folder.glob(f"*{_END}")):
        try:
            file = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            continue  # somebody else has just delivered it
        try:
            if file_lock.take(file) and path.exists():  # else its process lives
                taken, written = _noted(path)
                yield Abandoned(id=path.stem, items=tuple(_whole(path)), taken=taken, written=written, path=path)
        finally:
            os.close(file)


def _whole(path: Path) -> Iterator[bytes]:
    for line in path.read_bytes().split(b"\n")[:-1]:
        mark, item = line[:_MARK], line[_MARK:]
        if mark != b"%08x " % zlib.crc32(item):
            return
        yield item


def _noted(path: Path) -> tuple[int, int]:
    try:
        taken, written = _BOTH.unpack(_count_of(path).read_bytes())
    except (FileNotFoundError, struct.error):
        return 0, 0
    return taken, written


def _count_of(path: Path) -> Path:
    return path.with_suffix(".taken")


def _remove(path: Path) -> None:
    _count_of(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)
