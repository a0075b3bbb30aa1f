"""The keys that values are encrypted with: one file for each holder, outside the database, and gone when destroyed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indelible.core.privacy.encryption import DATA_KEY_BYTES, DataKey, KeyId
from indelible.errors import KeyUnusable
from indelible.journal.keys.files import locked, make_private_folder, read_private, sync_folder, write_private

_MOST_REMEMBERED = 10_000
_DESTROYED = b"\0" * (2 * DATA_KEY_BYTES + 1)

_Print = tuple[int, int, int, int]
"""Tells a file from another that has its name later, or stands open to others now."""


class DataKeys:
    """Finds, makes and destroys data keys. Without a folder they are in memory, and end with the process."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._in_memory: dict[bytes, DataKey] = {}
        self._remembered: dict[bytes, tuple[_Print, DataKey]] = {}

    def find(self, key_id: KeyId) -> DataKey | None:
        """Gives the key of this name; None when it was destroyed or never was here."""
        key = self.current(key_id.holder)
        return None if key is None or key.id != key_id else key

    def current(self, holder: bytes) -> DataKey | None:
        """Gives a holder's key, None when there is none.

        The file is looked at each time, though not read: another process may have destroyed it, and what would be
        encrypted with a destroyed key nobody could ever read.
        """
        if self._folder is None:
            return self._in_memory.get(holder)
        path = self._path(holder)
        with _explained(path):
            found = _print_of(path)
            known = self._remembered.get(holder)
            if found is None or known is None or known[0] != found:
                self._remembered.pop(holder, None)
                return None if found is None else self._read(holder, path, found)
            return known[1]

    def make(self, holder: bytes) -> DataKey:
        """Gives a holder's key, a new one if there is none; it is durable before anything is encrypted with it."""
        key = self.current(holder)
        if key is not None:
            return key
        if self._folder is None:
            # In one step: another thread may be making it too.
            return self._in_memory.setdefault(holder, DataKey(holder, os.urandom(DATA_KEY_BYTES)))
        path = self._path(holder)
        with _explained(path), locked(self._folder):
            key = self.current(holder)  # another process may have been faster
            if key is None:
                make_private_folder(path.parent)
                write_private(path, os.urandom(DATA_KEY_BYTES).hex().encode() + b"\n")
                key = self.current(holder)
        if key is None:
            raise KeyUnusable(f"{path} was destroyed while it was made; call again")
        return key

    def destroy(self, holder: bytes) -> None:
        """Makes what was encrypted for a holder unreadable, here and in every copy of the database."""
        if self._folder is None:
            self._in_memory.pop(holder, None)
            return
        path = self._path(holder)
        with _explained(path), locked(self._folder):
            self._remembered.pop(holder, None)
            if _print_of(path) is None:
                return
            with path.open("r+b") as file:  # over the old bytes, where the disk allows it
                file.write(_DESTROYED)
                file.flush()
                os.fsync(file.fileno())
            path.unlink()
            sync_folder(path.parent)

    def has(self, holder: bytes) -> bool:
        """Is a holder's key here, and not destroyed?"""
        return self._content_of(holder) is not None

    def copy(self, holder: bytes, to: DataKeys, *, is_replacing: bool = False) -> None:
        """Give another ledger's keys this holder's as well; one that was destroyed stays so.

        Args:
            holder: Whose key it is.
            to: The other ledger's keys.
            is_replacing: Whether another key of the holder there is destroyed. Default: False, and it is refused.
        """
        content = self._content_of(holder)
        if content is None:
            return
        path = to._path(holder)
        if is_replacing and to._content_of(holder) not in (None, content):
            to.destroy(holder)
        assert to._folder is not None
        with _explained(path), locked(to._folder):
            there = read_private(path)
            if there is None:
                make_private_folder(path.parent)
                write_private(path, content)
            elif there != content:
                raise KeyUnusable(
                    f"{path} is another key than {self._path(holder)}: both ledgers encrypt for the same person, each "
                    "with a key of its own, and one ledger cannot have both. Move the first one away if no copy of its "
                    "ledger needs it"
                )

    def _content_of(self, holder: bytes) -> bytes | None:
        content = read_private(self._path(holder))
        return None if content == _DESTROYED else content

    def _path(self, holder: bytes) -> Path:
        assert self._folder is not None
        name = holder.hex()
        return self._folder / name[:2] / f"{name}.key"  # many small folders: there may be very many keys

    def _read(self, holder: bytes, path: Path, found: _Print) -> DataKey | None:
        content = read_private(path)
        if content is None or content == _DESTROYED:
            return None
        try:
            raw = bytes.fromhex(content.decode("ascii").strip())
        except ValueError:
            raw = b""
        if len(raw) != DATA_KEY_BYTES:
            raise KeyUnusable(
                f"{path} is no data key; bring it back from a copy, or remove it to give up what it opens"
            )
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        key = DataKey(holder, raw)
        self._remembered[holder] = (found, key)
        return key


def _print_of(path: Path) -> _Print | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise KeyUnusable(f"the data key {path} cannot be used: {problem.strerror}") from problem
