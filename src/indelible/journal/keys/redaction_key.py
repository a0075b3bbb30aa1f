"""The key of a ledger's redaction marks: kept outside its database, and the same in every process that writes to it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from indelible.core.ports import Store
from indelible.core.privacy.redaction import KEY_BYTES, key_check
from indelible.errors import KeyUnusable, NotPermitted
from indelible.forks import after_fork
from indelible.journal.keys.files import file_name, keys_folder, locked, read_private, write_private

VARIABLE = "INDELIBLE_REDACTION_KEY"
_FILE = "redaction.key"


class RedactionKey:
    """Gives the key when it is first needed; makes it only for a ledger that never had one.

    With another key the same secret would get another mark, so calls that are the same would look different and run
    twice. So the ledger keeps a hash of its key, and a process with another one is refused.
    """

    def __init__(self, store: Store, folder: Path | None) -> None:
        self._store = store
        self._ledger_name = store.ledger_name
        self._folder = folder
        self._is_memory = store.address == ":memory:"
        self._key: bytes | None = None
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        """Take a lock that no other thread holds."""
        self._lock = threading.Lock()

    def __call__(self) -> bytes:
        """Gives the key."""
        with self._lock:
            if self._key is None:
                self._key = self._checked()
            return self._key

    @property
    def path(self) -> Path:
        """Is where the key is kept."""
        place = keys_folder() if self._folder is None else self._folder.absolute()
        return place / file_name(self._ledger_name) / _FILE

    def _checked(self) -> bytes:
        key = os.urandom(KEY_BYTES) if self._is_memory else self._found()
        if self._kept_check(key_check(key)) != key_check(key):
            raise KeyUnusable(
                f"{self._ledger_name} was redacted with another key than the one in {self._source()}; copy {_FILE} "
                f"from the machine that made it, or set {VARIABLE}"
            )
        return key

    def _kept_check(self, own: str) -> str:
        kept = self._store.forgetting.redaction_check()
        try:
            return self._store.forgetting.keep_redaction_check(own) if kept is None else kept
        except NotPermitted as refused:
            raise KeyUnusable(
                f"{self._ledger_name} has not been redacted yet, and which key it is redacted with is for an "
                "administrator to say: call something once with a token of the scope admin and this key"
            ) from refused

    def _found(self) -> bytes:
        given = os.environ.get(VARIABLE)
        if given:
            return _read(given, f"${VARIABLE}")
        kept = read_private(self.path)
        return self._made() if kept is None else _read(kept.decode("ascii", "replace"), str(self.path))

    def _made(self) -> bytes:
        if self._store.forgetting.redaction_check() is not None:
            raise KeyUnusable(
                f"{self._ledger_name} is redacted with a key that is not in {self.path}; copy it from the machine that "
                f"made it, or set {VARIABLE}"
            )
        with locked(self.path.parent):
            kept = read_private(self.path)  # another process may have been faster
            if kept is None:
                kept = os.urandom(KEY_BYTES).hex().encode() + b"\n"
                write_private(self.path, kept)
            return _read(kept.decode("ascii", "replace"), str(self.path))

    def _source(self) -> str:
        return f"${VARIABLE}" if os.environ.get(VARIABLE) else str(self.path)


def copy_redaction_key(old: str, new: str) -> None:
    """Gives a ledger the key that another one's marks are made with, where that is a file."""
    source, target = (keys_folder() / file_name(ledger) / _FILE for ledger in (old, new))
    content = read_private(source)
    if content is None:
        return  # it is in the environment, or on another machine
    with locked(target.parent):
        there = read_private(target)
        if there is None:
            write_private(target, content)
        elif there != content:
            raise KeyUnusable(f"{target} is another redaction key than {source}; move it away if nobody uses it")


def _read(text: str, source: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise KeyUnusable(f"{source} is no redaction key: it has to be {2 * KEY_BYTES} hexadecimal digits")
    return key
