"""Many rows in few steps of SQLite.

Between two steps the driver lets other threads run and then has to wait for its turn again. In a busy process that wait
costs more than the step, so a batch is written with one statement of many rows instead of many statements of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import apsw

# In queries.sql this comment stands before the group of placeholders that may be repeated.
_ROW = re.compile(r"/\* rows \*/ (\([?, ]+\))")
_MOST_ROWS = 32  # the widest row has 21 columns, and this keeps the statements few enough to stay prepared


class Refused(Exception):
    """An effect was, or may have been, another than it was thought to be, or a row was kept away: decide again."""


def execute_rows(connection: apsw.Connection, sql: str, rows: Sequence[Sequence[Any]]) -> int:
    """Executes a statement for every row and gives the number of rows it changed."""
    if len(rows) == 1:  # a caller alone, whom all of this is only slow for
        connection.execute(_for_rows(sql, 1), rows[0])
        return connection.changes()
    changed = 0
    start = 0
    while start < len(rows):
        size = _largest_power_of_two(min(len(rows) - start, _MOST_ROWS))
        values = [value for row in rows[start : start + size] for value in row]
        connection.execute(_for_rows(sql, size), values)
        changed += connection.changes()
        start += size
    return changed


def write_rows(connection: apsw.Connection, sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Write rows; raise `Refused` unless each was written: a trigger of a user's can keep one away."""
    if execute_rows(connection, sql, rows) != len(rows):
        raise Refused


def select_rows(connection: apsw.Connection, sql: str, rows: Sequence[Sequence[Any]]) -> Iterable[Any]:
    """Gives what a query finds for any of the rows."""
    for start in range(0, len(rows), _MOST_ROWS):
        chunk = list(rows[start : start + _MOST_ROWS])
        size = _largest_power_of_two(len(chunk) * 2 - 1)
        chunk += [chunk[-1]] * (size - len(chunk))  # asking twice for the same row finds it once
        yield from connection.execute(_for_rows(sql, size), [value for row in chunk for value in row])


def _largest_power_of_two(number: int) -> int:
    return 1 << (number.bit_length() - 1)


@lru_cache(maxsize=256)
def _for_rows(sql: str, count: int) -> str:
    return _ROW.sub(lambda match: ", ".join([match[1]] * count), sql)
