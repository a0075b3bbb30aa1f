"""Which ledger belongs into which file or PostgreSQL database, kept beside the keys.

A database that was deleted or emptied, or whose disk is not mounted, looks like one that was never there. The folder of
keys knows better: a new ledger in its place would know nothing of what was done, and would do it again. A ledger that
was given another name in its database would look like one without keys.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from indelible.errors import Misconfigured
from indelible.journal.keys.files import file_name, keys_folder, locked, read_private, write_private

_FOLDER = ".files"  # no ledger's own folder begins with a dot
_KEYS = ("current.pem", "writers.key")


def remember_place(place: str, ledger_name: str, keys: str | Path | None) -> None:
    """Note which ledger a file or a database holds; call it once the ledger has a key."""
    folder = _all_keys(keys)
    for name in _names(place):
        if _noted(name, folder) != ledger_name:
            with locked(folder / _FOLDER):
                write_private(_note(name, folder), f"{ledger_name}\n".encode())


def forget_place(place: str, keys: str | Path | None = None) -> None:
    """Let any ledger be begun or used in a file or a database from now on."""
    for name in _names(place):
        _note(name, _all_keys(keys)).unlink(missing_ok=True)


def expected_in(keys: str | Path | None) -> Callable[[str, str | None], None]:
    """Return what is asked before a ledger is begun or used; `keys` is the folder of all keys.

    It takes the file's path or the database's address, and the name of the ledger in it, None if there is none yet.
    """

    def expect(place: str, ledger_name: str | None) -> None:
        folder = _all_keys(keys)
        noted = {known for name in _names(place) if (known := _noted(name, folder)) not in (None, ledger_name)}
        rings = {str(each): folder / file_name(str(each)) for each in noted}
        known = next((each for each, ring in rings.items() if any((ring / key).exists() for key in _KEYS)), None)
        if known is None:
            return
        there = "holds no ledger" if ledger_name is None else f"holds {ledger_name}"
        where = "" if folder == keys_folder() else f"INDELIBLE_KEYS={shlex.quote(str(folder))} "
        url = shlex.quote(place if _is_address(place) else f"sqlite:///{place}")
        raise Misconfigured(
            f"{place} {there}, but {known} belongs there: its keys are in {folder}. It was deleted, emptied, replaced "
            "or given another name, or its disk is not mounted. Nothing was begun. Put it back, or restore its backup: "
            f"docs/how-to/backup.md. Another ledger there would not know what {known} did, and would do it again. "
            f"To use one all the same: {where}indelible migrate --new-ledger --url {url}"
        )

    return expect


def _all_keys(keys: str | Path | None) -> Path:
    return keys_folder() if keys is None else Path(keys).absolute()


def _is_address(place: str) -> bool:
    return place.startswith("postgresql://")


def _names(place: str) -> tuple[str, ...]:
    """Return the names of a place: as it is addressed, and where a path leads. A link may lead elsewhere one day."""
    if _is_address(place):
        return (place,)
    given = Path(place).absolute()
    return tuple(dict.fromkeys((str(given), str(given.parent.resolve() / given.name))))


def _note(place: str, folder: Path) -> Path:
    return folder / _FOLDER / file_name(place)


def _noted(place: str, folder: Path) -> str | None:
    """Return the name of the ledger that belongs into a place; None if there is none, or if this user cannot look."""
    try:
        content = read_private(_note(place, folder))
    except OSError:
        return None
    return None if content is None else content.decode().strip()
