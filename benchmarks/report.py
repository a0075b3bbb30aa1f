"""Prints what was measured: a table for people, JSON for programs."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import apsw

from benchmarks.goals import Costs
from benchmarks.scenarios import Pace, Results
from benchmarks.servers import Stores

MET = {True: "yes", False: "NO", None: "informs"}
PACKAGES = ("agent-ledger", "dbos", "provedex", "cryptography", "psycopg", "psycopg-binary", "apsw")


def machine(stores: Stores, load: float) -> dict[str, Any]:
    """Returns what a reader needs to know to judge the figures; nothing that tells whose machine it is."""
    return {
        "cores": os.cpu_count(),
        "load_at_start": round(load, 2),
        "system": f"{platform.system()} {platform.machine()}",
        "filesystem": _filesystem(stores),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "postgres": stores.settings,
        "packages": {name: _version(name) for name in PACKAGES},
    }


def as_json(about: dict[str, Any], pace: Pace, results: Results, ratios: dict[str, Any], costs: Costs) -> str:
    """Returns everything as one JSON document."""
    figures = {name: {who: asdict(figure) for who, figure in found.items()} for name, found in results.figures.items()}
    document = {
        "machine": about,
        "pace": asdict(pace),
        "ratios": ratios,
        "counters": costs,
        "figures": figures,
        "absent": results.absent,
    }
    return json.dumps(document, indent=2)


def as_table(about: dict[str, Any], results: Results, ratios: dict[str, Any], costs: Costs) -> str:
    """Returns everything as plain tables."""
    parts = [_about(about)]
    parts += [_scenario(name, found) for name, found in results.figures.items() if found]
    parts += [_costs(name, found) for name, found in costs.items() if found]
    if results.absent:
        parts.append("Did not take part\n" + "\n".join(f"  {who}: {why}" for who, why in results.absent.items()))
    if ratios:
        parts.append(_goals(ratios))
    return "\n\n".join(parts)


def _about(about: dict[str, Any]) -> str:
    server = about["postgres"].get("server_version", "not used")
    return (
        f"{about['cores']} cores (load {about['load_at_start']} at start), {about['system']}, {about['filesystem']}, "
        f"Python {about['python']}, PostgreSQL {server} (fsync on, synchronous_commit on), SQLite {about['sqlite']}"
    )


def _scenario(name: str, found: dict[str, Any]) -> str:
    rows = [
        (
            who,
            number(figure.median),
            f"{number(figure.low)} – {number(figure.high)}",
            number(figure.p99_ms),
            figure.unit,
        )
        for who, figure in found.items()
    ]
    return _table(name, ("", "median", "lowest – highest round", "p99 ms", "unit"), rows)


def _costs(name: str, found: dict[str, dict[str, Any]]) -> str:
    kinds = [kind for kind in next(iter(found.values())) if any(cost[kind] is not None for cost in found.values())]
    rows = [(who, *(number(cost[kind]) for kind in kinds)) for who, cost in found.items()]
    return _table(f"{name}: cost per call", ("", *(kind.replace("_", " ") for kind in kinds)), rows)


def _goals(ratios: dict[str, Any]) -> str:
    rows = []
    for name, goal in ratios.items():
        sign = "≤" if goal["better"] == "lower" else "≥"
        aim = "" if goal["aim"] is None else f"{sign} {number(goal['aim'])}"
        tuned = number(goal.get("value_against_tuned_peer"))
        rows.append(
            (
                name,
                number(goal["value"]),
                "" if goal["target"] is None else f"{sign} {number(goal['target'])}",
                aim,
                tuned,
                MET[goal["met"]],
            )
        )
    return _table("Goals", ("", "value", "target", "aim", "against tuned peer", "met"), rows)


def number(value: float | None) -> str:
    """Returns three significant digits, or a dash."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    drawn = [
        "  "
        + "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return "\n".join([title, *drawn])


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _filesystem(stores: Stores) -> str:
    if shutil.which("findmnt") is None:
        return "unknown filesystem"
    asked = ["findmnt", "--noheadings", "--output", "FSTYPE", "--target", str(stores.directory)]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown filesystem"
