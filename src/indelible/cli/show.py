"""Prints: tables, records, and text that may hold anything."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from indelible.core.values.visible import json_text, visible_json
from indelible.core.values.visible import visible as visible  # every command prints texts by it

if TYPE_CHECKING:
    from indelible import Effect

_PLURALS = {"person": "people", "entry": "entries"}
_WIDEST = 100  # a column
_MOST_ON_A_LINE = 2000
_GOES_ON = "↳ "
_COLOURS = {  # of statuses, as a terminal names them
    "succeeded": "32",
    "failed": "31",
    "denied": "31",
    "canceled": "2",
    "in_doubt": "1;33",
    "requires_approval": "1;36",
    "processing": "34",
    "ready": "36",
    "pending": "1;36",
    "approved": "32",
    "expired": "31",
    "stale": "33",
    "consumed": "2",
    "active": "34",
    "blocked": "1;33",
    "completed": "32",
    "manual_review_required": "1;33",
    "handed_over": "2",
    "due": "36",
    "sending": "34",
    "sent": "32",
    "dead": "31",
}


def pretty_json(recorded: bytes, indent: str = "") -> str:
    """Shows recorded bytes as indented JSON in which nothing hides; still JSON that says the same."""
    try:
        text = json_text(json.loads(recorded))
    except ValueError:  # altered behind the ledger's back
        text = visible(recorded.decode("utf-8", "backslashreplace"))
    return "\n".join(indent + line for line in text.split("\n"))


def one_line_json(recorded: bytes) -> str:
    """Shows recorded bytes on one line, cut when it is very long."""
    text = visible_json(recorded.decode("utf-8", "backslashreplace"))
    return text if len(text) <= _MOST_ON_A_LINE else f"{text[:_MOST_ON_A_LINE]}… ({len(recorded)} bytes)"


def say_json(content: object) -> None:
    """Prints JSON for programs: plain ASCII, so that no terminal is fooled by it."""
    print(json.dumps(content, indent=2))


def age(since: datetime, now: datetime) -> str:
    """Says how long ago something was, in its largest unit."""
    seconds = max(0, int((now - since) / timedelta(seconds=1)))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def count(number: int, noun: str) -> str:
    """Says how many: `1 event`, `2 events`, `2 people`."""
    return f"{number} {noun if number == 1 else _PLURALS.get(noun, f'{noun}s')}"


def timestamp(at: datetime) -> str:
    """Writes a moment in UTC for people."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table; on a terminal with colours, and in as many lines to a row as the terminal needs."""
    listed = [tuple(map(visible, row)) for row in rows]
    widths = [_column_width(column) for column in zip(columns, *listed, strict=True)]
    is_terminal = sys.stdout.isatty()
    lines = _lines_of_columns(widths, shutil.get_terminal_size().columns if is_terminal else None)
    is_coloured = may_colour()
    for number, row in enumerate((tuple(columns), *listed)):
        for indent, line in zip(("", *["    "] * len(lines)), lines, strict=False):
            if indent and not any(row[at] for at in line):
                continue  # nothing of this row stands on this line
            cells = [_cell(row[at], widths[at], is_coloured, is_heading=number == 0) for at in line]
            print((indent + "  ".join(cells)).rstrip())


def may_colour() -> bool:
    """Does somebody look who wants colours? NO_COLOR and a terminal that knows none say no."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _column_width(column: Sequence[str]) -> int:
    """Gives how wide a column is; a value that is very long sticks out, and the others are not spread for it."""
    widths = [text_width(text) for text in column]
    return max(width if width <= _WIDEST else 0 for width in widths) or _WIDEST


def _lines_of_columns(widths: list[int], room: int | None) -> list[list[int]]:
    """Says which columns share a line; where there is room, all of them do."""
    lines: list[list[int]] = [[]]
    used = 0
    for column, width in enumerate(widths):
        if room is not None and lines[-1] and used + 2 + width > room:
            lines.append([])
            used = 4
        used += width + (2 if lines[-1] else 0)
        lines[-1].append(column)
    return lines


def _cell(text: str, width: int, is_coloured: bool, *, is_heading: bool) -> str:
    colour = "1" if is_heading else _COLOURS.get(text)
    gap = " " * max(0, width - text_width(text))
    return f"\x1b[{colour}m{text}\x1b[0m{gap}" if is_coloured and colour else text + gap


def text_width(text: str) -> int:
    """Gives the columns a text takes on a terminal: East Asian letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def wrapped(texts: Iterable[str], columns: int, margin: str = "  ") -> list[str]:
    """Return texts in lines that fit, with nothing cut; a line that goes on is marked where no text can be.

    Args:
        texts: The texts. Without a margin, no text from outside may begin in the first two columns.
        columns: The width.
        margin: What stands before each line. Default: two spaces.
    """
    lines: list[str] = []
    for line in (line for text in texts for line in text.split("\n")):
        is_short = text_width(margin + line) <= columns
        parts = [line] if is_short else parts_of(line, max(8, columns - len(_GOES_ON)))
        lines += [margin + parts[0], *(_GOES_ON + part for part in parts[1:])]
    return lines


def parts_of(line: str, width: int) -> list[str]:
    """Return a line in parts that are no wider than this."""
    parts, part, used = [], "", 0
    for letter in line:
        takes = text_width(letter)
        if used + takes > width:
            parts.append(part)
            part, used = "", 0
        part, used = part + letter, used + takes
    return [*parts, part]


def shortened(text: str, most: int = 60) -> str:
    """Gives the beginning of a text that a list has no room for; whoever wants all of it looks at the one thing."""
    return text if len(text) <= most else text[: most - 1] + "…"


def fields(pairs: Iterable[tuple[str, str | None]]) -> None:
    """Prints names and values under each other; a value that is absent is left out."""
    for line in field_lines(pairs):
        print(line)


def field_lines(pairs: Iterable[tuple[str, str | None]]) -> list[str]:
    """Gives names and values under each other; a value that is absent is left out."""
    listed = [(name, value) for name, value in pairs if value is not None]
    width = max(len(name) for name, _ in listed)
    return [f"  {name.ljust(width)}  {value}" for name, value in listed]


def effect_json(effect: Effect, undone: Effect | None = None) -> dict[str, Any]:
    """Return an effect for programs: arguments and detail as they are recorded, and no claim's secret.

    Args:
        effect: The effect.
        undone: The effect that compensated it, if one did.
    """
    from indelible.core.events import instant, instant_or_none

    compensation = {} if undone is None else {"compensation": {"id": undone.id, "status": undone.status}}
    return {
        "id": effect.id,
        "tenant": effect.tenant,
        "scope": effect.scope,
        "key": effect.key,
        "digest": effect.digest,
        "run_id": effect.run_id,
        "tool": effect.tool,
        "side_effect": effect.side_effect,
        "on_crash": effect.on_crash,
        "call_id": effect.call_id,
        "status": effect.status,
        "attempt": effect.attempt,
        "lease_until": instant_or_none(effect.lease_until),
        "created_at": instant(effect.created_at),
        "updated_at": instant(effect.updated_at),
        "args": recorded_json(effect.args_json),
        effect.detail_field: recorded_json(effect.detail_json),
        **compensation,
    }


def recorded_json(recorded: bytes | None) -> Any:
    """Gives recorded bytes as JSON; None when they were erased or are none."""
    if recorded is None:
        return None
    try:
        return json.loads(recorded)
    except ValueError:
        return {"unreadable": recorded.hex()}
