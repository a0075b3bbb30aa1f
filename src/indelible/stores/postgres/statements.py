"""The statements of `queries.sql`, with their named parameters turned into PostgreSQL's numbered ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from indelible.stores.named_sql import load_queries

_PARAMETER = re.compile(r"%\((\w+)\)s")

# These are sent so often that the server keeps their plans.
_KEPT = frozenset(
    {"open_one", "move_one", "write_batch", "look", "heartbeat", "say_changed"}
    | {"write_batch_with_sheets", "move_one_with_sheets", "look_with_sheets"}
)
# A line that begins so belongs only to the statement that also reads or writes sheets.
_ABOUT_SHEETS = re.compile(r"^( *)--\+ (.*\n?)", re.MULTILINE)


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


def _compile(name: str, sql: str, *, is_kept: bool = False) -> Statement:
    numbers: dict[str, int] = {}
    numbered = _PARAMETER.sub(lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", sql)
    # Each prepared statement is known to the server by a name of its own, that of this version of its text.
    return Statement(
        name=f"indelible_{name}".encode(),
        sql=numbered.encode(),
        parameters=tuple(numbers),
        formats=[1] * len(numbers),
        is_kept=is_kept or name in _KEPT,
    )


def _load() -> dict[str, str]:
    """Gives every text by its name, with the fragments that it names put in."""
    texts = load_queries(__package__)
    fragments = {
        name: texts.pop(name).partition("\n")[2]
        for name in ("effect", "head", "sheet", "is_going", "stands", "kept_away")
    }  # without line of purpose
    texts |= {
        f"{name}_with_sheets": _ABOUT_SHEETS.sub(r"\1\2", text)
        for name, text in texts.items()
        if _ABOUT_SHEETS.search(text)
    }
    texts = {name: _ABOUT_SHEETS.sub("", text) for name, text in texts.items()}
    for fragment, sql in fragments.items():
        texts = {name: text.replace(f"{{{fragment}}}", sql) for name, text in texts.items()}
    return texts


_TEXTS = _load()
SQL = {name: _compile(name, text) for name, text in _TEXTS.items()}


@lru_cache
def listing_any_runs(way: str) -> Statement:
    """Return the statement that lists runs by one way, whether or not they were started."""
    sql = _TEXTS["list_any_runs"].replace("{way}", way)
    return _compile(f"list_any_runs_{crc32(sql.encode()):08x}", sql, is_kept=True)


@lru_cache
def listing_sheets(way: str, order: str) -> Statement:
    """Gives the statement that lists sheets by one way, in one order.

    There are few of them, and to plan one takes longer than to carry it out: their plans are kept as well.
    """
    sql = _TEXTS["list_sheets"].replace("{way}", way).replace("{order}", order)
    return _compile(f"list_sheets_{crc32(sql.encode()):08x}", sql, is_kept=True)
