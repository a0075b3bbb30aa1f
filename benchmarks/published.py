"""Writes the speed tables of README.md and docs/comparison.md from one measurement, which is committed beside them.

./run bench --json > docs/benchmarks.json     # on a quiet machine
python -m benchmarks.published                # writes the tables; --check says whether they are fresh
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import number

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "docs" / "benchmarks.json"
PAGES = (ROOT / "README.md", ROOT / "docs" / "comparison.md")
BEGIN = "<!-- measured: python -m benchmarks.published -->"
END = "<!-- end of measured -->"


@dataclass(frozen=True, slots=True)
class Line:
    """Is one line of the table: whose figures of which scenario stand in which column, and how to read them."""

    what: str
    scenario: str
    unit: str
    ours: str
    peers: tuple[tuple[str, str], ...]
    limit: str | None = None


AGENT_LEDGER, DBOS, PROVEDEX = "agent-ledger", "DBOS", "provedex"
BOTH = ((AGENT_LEDGER, "agent_ledger"), (DBOS, "dbos"))
LINES = (
    Line("a call, PostgreSQL", "postgres_1", "ms", "indelible", BOTH, "raw"),
    Line(
        "the same with 20 KB of arguments",
        "postgres_20kb",
        "ms",
        "indelible",
        BOTH,
    ),
    Line(
        "a replay, PostgreSQL",
        "postgres_replay",
        "ms",
        "indelible",
        BOTH,
        "select",
    ),
    Line(
        "64 callers, PostgreSQL",
        "postgres_64",
        "calls/s",
        "indelible",
        BOTH,
        "raw_lane",
    ),
    Line("a call, SQLite", "sqlite_1", "ms", "indelible", ((DBOS, "dbos"),), "raw"),
    Line("a replay, SQLite", "sqlite_replay", "ms", "indelible", ((DBOS, "dbos"),), "select"),
    Line(
        "50 callers wait for one result, worst of a hundred",
        "waits_1_processes",
        "ms",
        "indelible_postgres",
        ((AGENT_LEDGER, "agent_ledger"),),
    ),
    Line(
        "approved in one process, begun in another",
        "approve_to_start",
        "ms",
        "indelible_postgres",
        BOTH,
        "raw",
    ),
    Line("signed events appended", "appends", "a second", "indelible", ((PROVEDEX, "provedex"),)),
    Line(
        "events of a bundle (.zip, all values) verified by `indelible verify`, by processor time",
        "verify",
        "a second",
        "bundle",
        ((PROVEDEX, "provedex"),),
    ),
    Line(
        "events of a live SQLite ledger, its tables included, verified by `indelible verify`, by processor time",
        "verify",
        "a second",
        "live",
        (),
    ),
)
COLUMNS = (AGENT_LEDGER, DBOS, PROVEDEX)


def table(measured: dict[str, Any]) -> str:
    """Makes the table; a cell that was not measured has a dash."""
    rows = [
        ("medians", "**Indelible**", *COLUMNS, "the least that a ledger could do"),
        ("---",) * (3 + len(COLUMNS)),
        *(_row(line, measured["figures"].get(line.scenario, {})) for line in LINES),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(line: Line, found: dict[str, dict[str, float]]) -> tuple[str, ...]:
    def said(who: str | None) -> str:
        return f"{number(found[who]['median'])} {line.unit}" if who in found else "–"

    peers = dict(line.peers)
    return line.what, f"**{said(line.ours)}**", *(said(peers.get(column)) for column in COLUMNS), said(line.limit)


def section(measured: dict[str, Any]) -> str:
    """Makes what stands between the marks: the table, on what it was measured, and how to measure it again."""
    machine = measured["machine"]
    peers = ", ".join(f"{name} {machine['packages'][name]}" for name in ("agent-ledger", "dbos", "provedex"))
    return f"""{BEGIN}
{table(measured)}

Measured by `./run bench`, with fsync on, everybody in turns, on {machine["cores"]} cores ({machine["system"]}, \
{machine["filesystem"]}), Python {machine["python"]}, PostgreSQL {machine["postgres"]["server_version"]}, \
SQLite {machine["sqlite"]}; {peers}. Seconds are this machine's; ratios travel.{measured.get("note", "")}
{END}"""


def placed(page: str, measured: dict[str, Any]) -> str:
    """Gives a page with the section in its place."""
    found = re.subn(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: section(measured), page, flags=re.DOTALL)
    if found[1] != 1:
        raise ValueError(f"the page needs one place between {BEGIN} and {END}")
    return found[0]


def main(words: list[str]) -> int:
    """Writes the pages, or says which of them are not fresh."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    stale = []
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        fresh = placed(page, measured)
        if fresh != page:
            stale.append(path.name)
            if "--check" not in words:
                path.write_text(fresh, encoding="utf-8")
    if "--check" in words and stale:
        sys.stderr.write(f"{' and '.join(stale)}: not what was measured; run: python -m benchmarks.published\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
