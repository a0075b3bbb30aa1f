"""Files that came from strangers: in a folder or a .zip. Read with limits; nothing is followed, unpacked or run."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Protocol, TypeVar

from indelible.core.verifying.findings import CannotTell, Caught

Result = TypeVar("Result")
_MOST_LINE_BYTES = 256 * 1024 * 1024
# What the library raises at a .zip that is none: RuntimeError for one that is locked, ValueError for names in no UTF-8.
_DAMAGED = (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, OverflowError, struct.error, zlib.error)


class Files(Protocol):
    """Is a set of named files."""

    def names(self) -> set[str] | None:
        """Gives all names, or None when nobody can list them."""

    def read(self, name: str, most: int) -> bytes:
        """Gives a file; raises `Caught` when it is not there or larger than it can be."""

    def lines(self, name: str) -> Iterator[bytes]:
        """Gives the lines of a file as they are."""

    def close(self) -> None: ...


class Folder:
    """Is a folder of files; links are never followed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> set[str]:
        """Lists every file below the folder."""
        found = set()
        for path in self._path.rglob("*"):
            name = path.relative_to(self._path).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise Caught(f"{name} is no plain file")
            if path.is_file():
                found.add(name)
        return found

    def read(self, name: str, most: int) -> bytes:
        """Reads one file."""
        with self._open(name) as file:
            return _limited(file, name, most)

    def lines(self, name: str) -> Iterator[bytes]:
        """Reads one file by lines."""
        with self._open(name) as file:
            yield from file

    def _open(self, name: str) -> IO[bytes]:
        try:
            return (self._path / name).open("rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Caught(f"{name} is missing") from None

    def close(self) -> None:
        """Has nothing to give back."""


class Zip:
    """Is the same set of files in one .zip."""

    def __init__(self, path: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (*_DAMAGED, OSError) as problem:
            raise CannotTell(f"{path} cannot be read as a .zip ({problem}); get the bundle again") from problem

    def names(self) -> set[str]:
        """Lists the files; what could be read as another file is refused. Folders without content say nothing."""
        entries = [entry for entry in self._zip.infolist() if entry.file_size or not entry.filename.endswith("/")]
        names = [entry.filename for entry in entries]
        for entry in entries:
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise Caught(f"{entry.filename!r} is packed in a way that no bundle is")
        for name, count in Counter(names).items():
            if count > 1 or "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
                raise Caught(f"{name!r} stands twice in the .zip or is no name of a file")
        return set(names)

    def read(self, name: str, most: int) -> bytes:
        """Reads one entry."""
        with self._open(name) as file:
            return _zipped(lambda: _limited(file, name, most), name)

    def lines(self, name: str) -> Iterator[bytes]:
        """Reads one entry by lines."""
        with self._open(name) as file:
            while line := _zipped(lambda: file.readline(_MOST_LINE_BYTES), name):
                yield line

    def _open(self, name: str) -> IO[bytes]:
        try:
            return _zipped(lambda: self._zip.open(name), name)
        except KeyError:
            raise Caught(f"{name} is missing") from None

    def close(self) -> None:
        """Closes the file."""
        self._zip.close()


def _zipped(act: Callable[[], Result], name: str) -> Result:
    try:
        return act()
    except _DAMAGED as problem:
        raise Caught(f"{name}: the .zip is damaged ({problem})") from problem


def _limited(file: IO[bytes], name: str, most: int) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise Caught(f"{name} is larger than it can be", expected=f"at most {most} bytes", found="more")
    return content
