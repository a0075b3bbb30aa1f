"""Events as CSV (RFC 4180), safe to open in a spreadsheet."""

from __future__ import annotations

import csv
from io import TextIOWrapper
from typing import IO

from indelible.journal.exports.excerpt import Excerpt
from indelible.journal.exports.flat import COLUMNS, NUMBERS, Row, row_of

# What makes a spreadsheet take a cell for a formula, also in full-width letters; and the apostrophe itself, so that
# taking one away from every text that begins with one gives the text back.
_TAKEN_FOR_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")


def write_csv(excerpt: Excerpt, out: IO[bytes]) -> None:
    """Writes one line per event."""
    text = TextIOWrapper(out, encoding="utf-8", errors="backslashreplace", newline="", write_through=True)
    try:
        lines = csv.writer(text)
        lines.writerow(COLUMNS)
        for shown in excerpt.read():
            lines.writerow(_cells(row_of(shown)))
    finally:
        text.detach()  # the file stays the caller's to close


def _cells(row: Row) -> list[int | str | None]:
    return [row[name] if name in NUMBERS else harmless(row[name]) for name in COLUMNS]


def harmless(value: int | str | None) -> int | str | None:
    """Puts an apostrophe before a text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_TAKEN_FOR_FORMULA) else value
