"""Where an export goes: written under a passing name and renamed when complete, for nobody's eyes but the owner's.

A killed export leaves no half file under the final name.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from indelible.errors import BadCall

BUNDLE_FORMAT = "indelible/bundle/v1"
_OLDEST_TIME = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever a bundle is made
_OWNER_ONLY = 0o600


class Files(Protocol):
    """Takes the files of a bundle, in a folder or in a zip."""

    def put(self, name: str, content: bytes) -> None:
        """Adds a file."""

    def stream(self, name: str) -> IO[bytes]:
        """Adds a file that is written bit by bit, beside others."""


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Opens a file that appears under its name only when the block ends well."""
    _check_free(path, force=force)
    passing = _passing_name(path)
    opened = _open_first(passing, path)
    try:
        with opened as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _rename(passing, path, force=force)
    finally:
        passing.unlink(missing_ok=True)


@contextmanager
def new_bundle(path: Path, *, force: bool) -> Iterator[Files]:
    """Opens a bundle: one zip when the name ends so, else a folder."""
    if path.suffix.lower() == ".zip":
        with new_file(path, force=force) as file, ExitStack() as spools:
            files = _Zip(file, path, spools)
            yield files
            files.finish()
        return
    _check_free(path, force=force)
    passing = _passing_name(path)
    _make_first(passing, path)
    try:
        with ExitStack() as streams:
            yield _Folder(passing, streams)
        _put_in_place(passing, path)
    finally:
        shutil.rmtree(passing, ignore_errors=True)


class _Folder:
    def __init__(self, root: Path, streams: ExitStack) -> None:
        self._root = root
        self._streams = streams

    def put(self, name: str, content: bytes) -> None:
        with self._open(name) as file:
            file.write(content)

    def stream(self, name: str) -> IO[bytes]:
        return self._streams.enter_context(self._open(name))

    def _open(self, name: str) -> IO[bytes]:
        path = self._root / name
        with suppress(FileNotFoundError):
            return _open_new(path)
        for folder in reversed(path.parents):  # `parents=True` would make those in between for everybody
            if folder.is_relative_to(self._root):
                folder.mkdir(mode=0o700, exist_ok=True)
        return _open_new(path)


class _Zip:
    """Writes a zip; a zip takes one file at a time, so streams wait beside it until the end."""

    def __init__(self, file: IO[bytes], path: Path, spools: ExitStack) -> None:
        self._path = path
        self._spools = spools
        self._waiting: dict[str, IO[bytes]] = {}
        self._zip = spools.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6))

    def put(self, name: str, content: bytes) -> None:
        self._zip.writestr(_zip_entry(name), content)

    def stream(self, name: str) -> IO[bytes]:
        passing = _passing_name(self._path)
        spool = self._spools.enter_context(_open_new(passing, "x+b"))
        passing.unlink()  # it lives as long as it is open, and no longer if we are killed
        self._waiting[name] = spool
        return spool

    def finish(self) -> None:
        """Takes in the streams, in the order of their names."""
        for name, spool in sorted(self._waiting.items()):
            spool.seek(0)
            with self._zip.open(_zip_entry(name), "w", force_zip64=True) as entry:
                shutil.copyfileobj(spool, entry, 1 << 20)


def _zip_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _OLDEST_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, wherever it is made
    entry.external_attr = (0o100000 | _OWNER_ONLY) << 16
    return entry


def _open_new(path: Path, mode: str = "xb") -> IO[bytes]:
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, _OWNER_ONLY))


def _open_first(passing: Path, path: Path) -> IO[bytes]:
    try:
        return _open_new(passing)
    except OSError as problem:
        raise BadCall(f"{path} cannot be written: {problem.strerror}; name another place") from problem


def _make_first(passing: Path, path: Path) -> None:
    try:
        passing.mkdir(mode=0o700)
    except OSError as problem:
        raise BadCall(f"{path} cannot be written: {problem.strerror}; name another place") from problem


def _passing_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def _check_free(path: Path, *, force: bool) -> None:
    """Raises `BadCall` unless the export may have this name."""
    if not path.parent.is_dir():
        raise BadCall(f"there is no folder {path.parent}; make it first")
    if not path.exists() and not path.is_symlink():
        return
    if not force:
        raise BadCall(f"{path} is there already; name another, or replace it with --force")
    if path.is_dir() and not _is_bundle(path):
        raise BadCall(f"{path} is a folder with other things in it, and is never replaced; name another")


def _is_bundle(path: Path) -> bool:
    """Is this folder an earlier bundle, so that it may be replaced?"""
    try:
        return bool(json.loads((path / "manifest.json").read_bytes())["format"] == BUNDLE_FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _rename(passing: Path, path: Path, *, force: bool) -> None:
    """Gives a finished file its name; without `force`, not even one that appeared meanwhile is replaced."""
    if force:
        if path.is_dir():
            raise BadCall(f"{path} is a folder; name a file")
        passing.replace(path)
        return
    try:
        os.link(passing, path)
    except FileExistsError as problem:
        raise BadCall(f"{path} is there already; name another, or replace it with --force") from problem
    except OSError:  # a file system without links
        passing.rename(path)


def _put_in_place(passing: Path, path: Path) -> None:
    """Gives a finished folder its name; the bundle that had it goes only after that."""
    if not path.exists():
        passing.rename(path)
        return
    old = _passing_name(path)
    path.rename(old)
    passing.rename(path)
    shutil.rmtree(old) if old.is_dir() else old.unlink()
