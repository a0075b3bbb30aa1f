"""Secrets: named by where they are kept, read when they are needed, and never shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from indelible.errors import BadCall, KeyUnusable
from indelible.journal.keys.files import read_private

_HOW = "name it as env:NAME or file:PATH"


class Secret:
    """Holds a secret, or knows where it is kept. Printing it shows the place alone.

    What is kept elsewhere is read each time, so that it can be replaced while the process runs.
    """

    __slots__ = ("_value", "place")

    def __init__(self, value: str) -> None:
        """Holds a secret that the program got from elsewhere."""
        self._value: str | None = value
        self.place = "given"

    @classmethod
    def at(cls, place: str, folder: Path | None = None) -> Secret:
        """Gives the secret at `env:NAME` or `file:PATH`; a relative path is taken from `folder`."""
        how, _, where = place.partition(":")
        if how not in ("env", "file") or not where:
            raise BadCall(f"a secret is never written down here: {_HOW}")  # what was given may be the secret itself
        if how == "file":
            where = str((folder or Path()) / where)
        secret = cls("")
        secret._value = None
        secret.place = f"{how}:{where}"
        return secret

    def reveal(self) -> str:
        """Gives the secret; raises `KeyUnusable` when it is not there, empty, or open to other users."""
        found = self._value
        if found is None:
            how, _, where = self.place.partition(":")
            found = os.environ.get(where) if how == "env" else _in_file(Path(where))
        if not found or not found.isascii() or not found.isprintable():
            problem = "is not set" if not found else "holds characters that no secret of this kind has"
            raise KeyUnusable(f"the secret at {self.place} {problem}")
        return found

    def __repr__(self) -> str:
        return f"Secret({self.place})"


Kept = Secret | str
"""Is a secret, or the place where it is kept."""


def secret_of(kept: Kept, folder: Path | None = None) -> Secret:
    """Gives the secret that a setting names."""
    if isinstance(kept, Secret):
        return kept
    if not isinstance(kept, str):
        raise BadCall(f"a secret is named, not written down: {_HOW}")
    return Secret.at(kept, folder)


def secrets_of(kept: Kept | Sequence[Kept], folder: Path | None = None) -> tuple[Secret, ...]:
    """Gives the secrets that a setting names: one, or some of which the older are on their way out."""
    if isinstance(kept, Secret | str):
        kept = [kept]
    return tuple(secret_of(one, folder) for one in kept)


def _in_file(path: Path) -> str | None:
    try:
        found = read_private(path)
    except OSError as problem:
        raise KeyUnusable(f"{path} cannot be read: {problem.strerror}") from problem
    return None if found is None else found.decode("utf-8", "replace").strip()
