"""Which ledger belongs into which file, kept beside the keys.

A database that was deleted or emptied, or whose disk is not mounted, looks like one that was never there. The folder of
keys knows better: a new ledger in its place would know nothing of what was done, and would do it again.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from indelible.errors import Misconfigured
from indelible.journal.keys.files import file_name, keys_folder, locked, read_private, write_private

_FOLDER = ".files"  # no ledger's own folder begins with a dot


def remember_place(path: str, ledger_name: str, keys: str | Path | None) -> None:
    """Note which ledger a file holds; call it once the ledger has a key."""
    folder = _all_keys(keys)
    for name in _names(path):
        if _noted(name, folder) != ledger_name:
            with locked(folder / _FOLDER):
                write_private(_note(name, folder), f"{ledger_name}\n".encode())


def forget_place(path: str, keys: str | Path | None = None) -> None:
    """Let any ledger be begun or used in a file from now on."""
    for name in _names(path):
        _note(name, _all_keys(keys)).unlink(missing_ok=True)


def expected_in(keys: str | Path | None) -> Callable[[str, str | None], None]:
    """Return what a store asks before it begins or uses the ledger in a file; `keys` is the folder of all keys.

    It takes the file's path and the name of the ledger in it, None if there is none yet.
    """

    def expect(path: str, ledger_name: str | None) -> None:
        folder = _all_keys(keys)
        noted = {known for name in _names(path) if (known := _noted(name, folder)) not in (None, ledger_name)}
        known = next((each for each in noted if (folder / file_name(str(each)) / "current.pem").exists()), None)
        if known is None:
            return
        there = "holds no ledger" if ledger_name is None else f"holds {ledger_name}"
        where = "" if folder == keys_folder() else f"INDELIBLE_KEYS={shlex.quote(str(folder))} "
        raise Misconfigured(
            f"{path} {there}, but {known} belongs there: its keys are in {folder}. Its file was deleted, emptied or "
            "replaced, or its disk is not mounted. Nothing was begun. Put the file back, or restore its backup: "
            f"docs/how-to/backup.md. Another ledger there would not know what {known} did, and would do it again. "
            f"To use one all the same: {where}indelible migrate --new-ledger --url {shlex.quote(f'sqlite:///{path}')}"
        )

    return expect


def _all_keys(keys: str | Path | None) -> Path:
    return keys_folder() if keys is None else Path(keys).absolute()


def _names(path: str) -> tuple[str, ...]:
    """Return the names of a file: as it is addressed, and where that leads. A link may lead elsewhere one day."""
    given = Path(path).absolute()
    return tuple(dict.fromkeys((str(given), str(given.parent.resolve() / given.name))))


def _note(path: str, folder: Path) -> Path:
    return folder / _FOLDER / file_name(path)


def _noted(path: str, folder: Path) -> str | None:
    """Return the name of the ledger that belongs into a file; None if there is none, or if this user cannot look."""
    try:
        content = read_private(_note(path, folder))
    except OSError:
        return None
    return None if content is None else content.decode().strip()
