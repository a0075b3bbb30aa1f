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
# Of a .zip (APPNOTE 6.3): what stands before a file's content, and how long the other parts are.
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_EXTRA_FIELD = struct.Struct("<2H")
_PLAIN_FIELDS = {0x0001, 0x000A, 0x5455, 0x5855, 0x7855, 0x7875}
"""Names the fields of a large .zip, and those in which programs note times and owners."""
_HAS_DESCRIPTOR, _IS_UTF_8, _IN_EXTRA = 1 << 3, 1 << 11, 0xFFFF_FFFF
_MOST_DESCRIPTOR_BYTES, _CENTRAL_HEADER_BYTES = 24, 46
_END_BYTES = (22, 22 + 56 + 20)
"""Is how long the end is, without and with the records of a large .zip; no comment follows."""
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
    """Is the same set of files in one .zip: one archive, and nothing beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (*_DAMAGED, OSError) as problem:
            raise CannotTell(f"{path} cannot be read as a .zip ({problem}); get the bundle again") from problem

    def names(self) -> set[str]:
        """Lists the files; what could be read as another file is refused. Folders without content say nothing."""
        with self._path.open("rb") as file:
            _zipped(lambda: _check_one_archive(self._zip, file), self._path.name)
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


def _check_one_archive(archive: zipfile.ZipFile, file: IO[bytes]) -> None:
    """Raise `Caught` unless files follow each other from the first byte on, and their list ends the file.

    Else another program could find other files in it: behind, before or between those that are listed.
    """
    place = 0
    for entry in sorted(archive.infolist(), key=lambda one: one.header_offset):
        if not 0 <= entry.header_offset - place <= (_MOST_DESCRIPTOR_BYTES if place else 0):
            raise Caught("the .zip holds something that it does not list", expected=str(place))
        file.seek(entry.header_offset)
        header = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        name, extra = file.read(header[-2]), file.read(header[-1])
        if name != _name_in_list(entry) or not _is_plain(extra) or not _is_plain(entry.extra):
            raise Caught(f"{entry.filename!r} can be read under another name")
        place = entry.header_offset + _LOCAL_HEADER.size + header[-2] + header[-1] + entry.compress_size
        sizes = zip(header[7:9], (entry.compress_size, entry.file_size), strict=True)
        if not header[2] & _HAS_DESCRIPTOR and any(told not in (size, _IN_EXTRA) for told, size in sizes):
            raise Caught(f"{entry.filename!r} has another length beside its content than in the list of the .zip")
    file.seek(0, 2)
    listed = archive.start_dir + sum(
        _CENTRAL_HEADER_BYTES + len(_name_in_list(entry)) + len(entry.extra) + len(entry.comment)
        for entry in archive.infolist()
    )
    if not 0 <= archive.start_dir - place <= _MOST_DESCRIPTOR_BYTES or file.tell() - listed not in _END_BYTES:
        raise Caught("the .zip holds something that it does not list", expected=str(place))


def _name_in_list(entry: zipfile.ZipInfo) -> bytes:
    return entry.orig_filename.encode("utf-8" if entry.flag_bits & _IS_UTF_8 else "cp437")


def _is_plain(extra: bytes) -> bool:
    """Return whether no extra field says anything of a file but its lengths, times and owner; some give it a name."""
    while extra:
        if len(extra) < _EXTRA_FIELD.size:
            return False
        id_, length = _EXTRA_FIELD.unpack_from(extra)
        if id_ not in _PLAIN_FIELDS or len(extra) < _EXTRA_FIELD.size + length:
            return False
        extra = extra[_EXTRA_FIELD.size + length :]
    return True


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
