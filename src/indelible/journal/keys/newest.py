"""The newest version of each right and budget, in memory and in a file beside the keys.

The file grows: a process reads only what was added since it last looked. The first line says how often the file was
emptied of all but rights and how often it was written anew. Each other line lists sheets as [kind, id, version].
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from indelible.core.macs import OUTLASTING
from indelible.core.sheets import SheetRef
from indelible.errors import KeyUnusable, SignerRefused
from indelible.forks import after_fork
from indelible.journal.keys.files import locked, open_private, write_private

_Versions = dict[str, dict[SheetRef, int]]
_FEWEST_ROWS = 1000
"""A file with fewer rows is not worth writing anew."""


class NewestVersions:
    """Remembers the newest version of each sheet; safe to use from many threads.

    Args:
        path: The file. Without one, versions are remembered in memory alone.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: _Versions = {}
        self._kept: _Versions = {}
        self._emptied = self._written = 0
        self._rows = 0
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        """Take a lock that no other thread holds, and read the file from its start: a fork may cut a reader off."""
        self._reading = threading.RLock()
        self._inode = self._end = 0  # where the lines end that were read
        self._mark: tuple[int, int, int] | None = None

    def version(self, ref: SheetRef) -> int:
        """Return the newest version that was seen here or sealed anywhere; 0 if none was."""
        self._read_on()
        return max(_of(self._seen, ref), _of(self._kept, ref))

    def versions(self, kind: str) -> dict[SheetRef, int]:
        """Return the newest version of each sheet of a kind, as `version` does; later notes change nothing in it."""
        self._read_on()
        newest = self._kept.get(kind, {}).copy()
        for ref, version in self._seen.get(kind, {}).copy().items():
            newest[ref] = max(version, newest.get(ref, 0))
        return newest

    def kept(self, kinds: Iterable[str]) -> dict[SheetRef, int]:
        """Return what was kept of some kinds, as of one moment, without what was only noted here."""
        with self._reading:
            self._read_on()
            return {ref: version for kind in kinds for ref, version in self._kept.get(kind, {}).items()}

    def note(self, ref: SheetRef, version: int) -> None:
        """Note a version that was seen."""
        _note(self._seen, ref, version)

    def keep(self, versions: Mapping[SheetRef, int]) -> None:
        """Keep versions that were sealed; durable when it returns."""
        if self._path is None:
            with self._reading:
                for ref, version in versions.items():
                    _note(self._kept, ref, version)
            return
        with self._writing(self._path):
            self._read_on()
            newer = [(ref, version) for ref, version in versions.items() if version > _of(self._kept, ref)]
            if not newer:
                return
            sheets = sum(map(len, self._kept.values()))
            if self._end and self._rows < max(_FEWEST_ROWS, 2 * sheets):
                self._append(newer)
            else:
                rows = [each for of_kind in self._kept.values() for each in of_kind.items()]
                self._write(self._emptied, self._written + 1, [*rows, *newer])
            self._read_on()

    def reset(self) -> None:
        """Forget all but rights and ends: the ledger goes on from an older state, as a person said."""
        self.forget()
        if self._path is None:
            return
        with self._writing(self._path):
            self._read_on()
            rows = [each for of_kind in _outlasting(self._kept).values() for each in of_kind.items()]
            self._write(self._emptied + 1, self._written + 1, rows)

    def forget(self) -> None:
        """Forget what was noted here of anything but rights and ends, and what is kept in memory alone."""
        with self._reading:
            self._seen = _outlasting(self._seen)
            if self._path is None:
                self._kept = _outlasting(self._kept)

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        """Keep other threads and processes from the file; raises `SignerRefused` if it cannot be written."""
        try:
            with locked(path.parent), self._reading:  # in this order, so that a reader waits for no other process
                yield
        except OSError as problem:
            raise SignerRefused(
                f"the newest versions of rights cannot be kept in {path} ({problem}), so nothing is signed; mend that"
            ) from problem

    def _append(self, rows: Iterable[tuple[SheetRef, int]]) -> None:
        assert self._path is not None
        with os.fdopen(os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW), "r+b") as file:
            file.truncate(self._end)  # half a line may follow, from a crash
            file.seek(self._end)
            file.write(_line(rows))
            file.flush()
            os.fsync(file.fileno())

    def _write(self, emptied: int, written: int, rows: Iterable[tuple[SheetRef, int]]) -> None:
        assert self._path is not None
        write_private(self._path, json.dumps([emptied, written]).encode() + b"\n" + _line(rows))

    def _read_on(self) -> None:
        """Take in what was added to the file."""
        if self._path is None:
            return
        with self._reading:
            self._take_in(self._path)

    def _take_in(self, path: Path) -> None:
        try:
            found = os.stat(path)  # noqa: PTH116 - asked for every right that is read
        except FileNotFoundError:
            return
        if (found.st_ino, found.st_size, found.st_mtime_ns) == self._mark:
            return
        try:
            self._read(path)
        except (ValueError, TypeError, OSError) as problem:
            raise KeyUnusable(f"{path} cannot be read ({problem}); put it back from your backup") from problem

    def _read(self, path: Path) -> None:
        with open_private(path) as file:
            found = os.fstat(file.fileno())
            first = file.readline()
            emptied, written = json.loads(first)
            is_same = (found.st_ino, emptied, written) == (self._inode, self._emptied, self._written)
            is_known = is_same and self._end <= found.st_size
            start = max(self._end, len(first)) if is_known else len(first)
            file.seek(start)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]  # the last line may be half written
        rows = [
            (SheetRef(kind, id_), version) for line in whole.splitlines() for kind, id_, version in json.loads(line)
        ]
        if emptied > self._emptied:
            self._seen, self._kept = _outlasting(self._seen), _outlasting(self._kept)
        if not is_known:  # it was written anew, or an older copy was put back: kept is what it says, the rest was seen
            for of_kind in self._kept.values():
                for ref, version in of_kind.items():
                    _note(self._seen, ref, version)
            self._kept = {}
        for ref, version in rows:
            _note(self._kept, ref, version)
        self._rows = len(rows) + (self._rows if is_known else 0)
        self._inode, self._emptied, self._written, self._end = found.st_ino, emptied, written, start + len(whole)
        self._mark = (found.st_ino, found.st_size, found.st_mtime_ns) if whole == added else None


def _of(versions: _Versions, ref: SheetRef) -> int:
    of_kind = versions.get(ref.kind)
    return 0 if of_kind is None else of_kind.get(ref, 0)


def _outlasting(versions: _Versions) -> _Versions:
    """Return what is remembered also where a loss was declared."""
    return {kind: dict(of_kind) for kind, of_kind in versions.items() if kind in OUTLASTING}


def _note(versions: _Versions, ref: SheetRef, version: int) -> None:
    if version > _of(versions, ref):
        versions.setdefault(ref.kind, {})[ref] = version


def _line(rows: Iterable[tuple[SheetRef, int]]) -> bytes:
    return json.dumps([[ref.kind, ref.id, version] for ref, version in rows]).encode() + b"\n"
