"""Files that nobody else may read: written whole, kept through a crash, and refused when they stand open to others."""

from __future__ import annotations

import os
import shlex
import stat
import string
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from indelible import file_lock
from indelible.errors import KeyUnusable

PATIENCE = 30.0  # seconds to wait for a lock that is normally held for milliseconds
_MOST_BYTES = 65_536
_MOST_LETTERS = 120
_PLAIN = frozenset(string.ascii_lowercase + string.digits + "-_.")


def keys_folder() -> Path:
    """Gives the folder of all keys: $INDELIBLE_KEYS, else .indelible/keys in the user's home."""
    if named := os.environ.get("INDELIBLE_KEYS"):
        return Path(named).absolute()
    try:
        return Path.home() / ".indelible" / "keys"
    except RuntimeError as problem:
        raise KeyUnusable(
            "this user has no home folder to keep keys in; name a folder with INDELIBLE_KEYS"
        ) from problem


def resolved_keys(keys: str | Path | None) -> Path | None:
    """Return the folder of all keys that is meant now, whatever the current folder is later.

    None for a user who has no home folder and names none.
    """
    try:
        return keys_folder() if keys is None else Path(keys).absolute()
    except KeyUnusable:
        return None


def file_name(text: str) -> str:
    """Gives a file name for any text; no two texts share one, not even where capitals do not count."""
    name = "".join(letter if letter in _PLAIN else _escaped(letter) for letter in text)
    if name.startswith("."):
        name = _escaped(".") + name[1:]
    return name if 0 < len(name) <= _MOST_LETTERS else f"{name[:40]}~{sha256(text.encode()).hexdigest()}"


def _escaped(letter: str) -> str:
    return "".join(f"%{byte:02x}" for byte in letter.encode())


def text_of(name: str) -> str | None:
    """Return the text that a file name was given for; None if it was too long to be in the name."""
    return None if "~" in name else unquote(name)


def ring_folder(ledger_name: str, folder: Path | None) -> Path:
    """Return the folder of a ledger's keys; `folder` is where the keys of all ledgers are."""
    place = keys_folder() if folder is None else folder.absolute()
    return place / file_name(ledger_name)


def data_keys_folder(ledger_name: str, folder: Path | None) -> Path:
    """Is where the keys are kept that a ledger's values are encrypted with, beside those that sign."""
    return ring_folder(ledger_name, folder) / "data"


def has_data_keys(ledger_name: str, folder: Path | None) -> bool:
    """Was anything of this ledger encrypted here? Whoever cannot look has no keys."""
    try:
        return data_keys_folder(ledger_name, folder).is_dir()
    except (KeyUnusable, OSError):
        return False


def is_private_folder(folder: Path) -> bool:
    """Is there such a folder? Raises `KeyUnusable` when others can look into it or replace what is in it."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        _check_leads_somewhere(folder)
        return False
    except OSError as problem:
        raise KeyUnusable(f"{folder} cannot be looked into: {problem.strerror}") from problem
    if not stat.S_ISDIR(found.st_mode):
        raise KeyUnusable(f"{folder} is no folder; move it away, or name another folder with INDELIBLE_KEYS")
    _check_private(folder, found, "700")
    _check_above(folder.parent)
    return True


def _check_leads_somewhere(folder: Path) -> None:
    """Raise if a folder is missing because a link to it, or above it, leads to nothing."""
    for place in (folder, *folder.parents):
        if place.is_symlink() and not place.exists():
            raise KeyUnusable(f"{place} leads to {place.readlink()}, which is not there; is its disk mounted?")


def _check_above(folder: Path) -> None:
    """Raise if every user can put another folder in the place of one that is in this folder."""
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise KeyUnusable(
            f"every user can write to {folder} (mode {stat.S_IMODE(mode):04o}) and replace the keys in it; run: "
            f"chmod o-w {shlex.quote(str(folder))}"
        )


def make_private_folder(folder: Path) -> None:
    """Makes a folder, and those above it that are missing, for this user alone; durable when it returns."""
    if is_private_folder(folder):
        return
    try:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        for place in reversed(missing):
            place.mkdir(mode=0o700, exist_ok=True)  # another process may be making it too
            sync_folder(place.parent)
    except OSError as problem:
        message = f"{folder} cannot be made: {problem.strerror}; name another folder with INDELIBLE_KEYS"
        raise KeyUnusable(message) from problem
    is_private_folder(folder)


@contextmanager
def open_private(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read; raises `KeyUnusable` when others can read it."""
    # Not blocking: a pipe under this name must not hang us.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise KeyUnusable(f"{path} is no file; move it away")
        _check_private(path, found, "600")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def read_private(path: Path) -> bytes | None:
    """Gives what a file holds, None when there is none; raises `KeyUnusable` when others can read it."""
    try:
        with open_private(path) as file:
            return file.read(_MOST_BYTES)
    except FileNotFoundError:
        return None


def _check_private(path: Path, found: os.stat_result, mode: str) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise KeyUnusable(
            f"{path} belongs to user {found.st_uid}, who can read and replace it; if that is wrong, run: "
            f"chown {os.geteuid()} {shlex.quote(str(path))}"
        )
    if found.st_mode & 0o077:
        raise KeyUnusable(
            f"{path} is open to other users (mode {stat.S_IMODE(found.st_mode):04o}); run: "
            f"chmod {mode} {shlex.quote(str(path))}"
        )


def write_private(path: Path, content: bytes) -> None:
    """Puts a whole file in place of what was there; a crash leaves the old one or the new one. Hold the lock."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)  # from a crash: whoever wrote it no longer holds the lock
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    move_durably(temporary, path)


def move_durably(old: Path, new: Path) -> None:
    """Renames a file in one step that lasts."""
    old.replace(new)
    sync_folder(new.parent)


def sync_folder(folder: Path) -> None:
    """Makes names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path, patience: float = PATIENCE, why: str = "") -> Iterator[None]:
    """Keeps every other thread and process out of a folder; ends with the process, however that ends.

    `why` is what `KeyUnusable` says if one of them does not end in time.
    """
    make_private_folder(folder)
    path = folder / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as problem:
        raise KeyUnusable(f"{path} cannot be opened: {problem.strerror}; is the folder yours to write?") from problem
    try:
        _wait_for(descriptor, path, patience, why)
        try:
            yield
        finally:
            file_lock.give_back(descriptor)
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: Path, patience: float, why: str) -> None:
    until, pause = time.monotonic() + patience, 0.0005
    while not file_lock.take(descriptor):
        if time.monotonic() > until:
            raise KeyUnusable(
                why
                or f"another process has held {path} for {patience:g} s; see which, and why it hangs: fuser -v "
                f"{shlex.quote(str(path))}"
            )
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
