"""The statements of `queries.sql`, with their named parameters turned into PostgreSQL's numbered ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from indelible.stores.named_sql import load_queries

_PARAMETER = re.compile(r"%\((\w+)\)s")

# These are sent so often that the server keeps their plans.
_KEPT = frozenset({"open_one", "move_one", "write_batch", "look", "heartbeat", "say_changed"})


class Statement(NamedTuple):
    """Is one statement: its text, and the names of its parameters in the order of their numbers."""

    name: bytes
    sql: bytes
    parameters: tuple[str, ...]
    formats: list[int]
    is_kept: bool

    def ordered(self, values: Mapping[str, bytes | None]) -> list[bytes | None]:
        """Puts named values in the order in which they are sent."""
        return [values[name] for name in self.parameters]


def _compile(name: str, sql: str) -> Statement:
    numbers: dict[str, int] = {}
    numbered = _PARAMETER.sub(lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", sql)
    # Each prepared statement is known to the server by a name of its own, that of this version of its text.
    return Statement(
        name=f"indelible_{name}".encode(),
        sql=numbered.encode(),
        parameters=tuple(numbers),
        formats=[1] * len(numbers),
        is_kept=name in _KEPT,
    )


def _load() -> dict[str, Statement]:
    texts = load_queries(__package__)
    effect = texts.pop("effect").partition("\n")[2]  # without its line of purpose
    return {name: _compile(name, text.replace("{effect}", effect)) for name, text in texts.items()}


SQL = _load()
