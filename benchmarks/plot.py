"""Draws what was measured: latency of one caller, throughput of many, and how long the callers of one call wait."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl

from benchmarks.figures import Figure
from benchmarks.report import number

mpl.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {
    "indelible": "#1b6ca8",
    "raw": "#9aa5b1",
    "select": "#9aa5b1",
    "agent_ledger": "#d9822b",
    "agent_ledger_tuned": "#f0b775",
    "dbos": "#7a5195",
    "dbos_tuned": "#b79ac8",
    "provedex": "#2f9e6e",
    "off": "#9aa5b1",
    "sealed": "#1b6ca8",
    "signed": "#6aa5d0",
    "awaited": "#6aa5d0",
    "not_awaited": "#9aa5b1",
    "tree": "#1b6ca8",
    "semantics": "#1b6ca8",
    "values": "#6aa5d0",
    "deep": "#6aa5d0",
}
PANELS = (
    (
        "One caller, PostgreSQL",
        ("postgres_1", "postgres_20kb", "postgres_replay"),
        "milliseconds a call, less is better",
    ),
    ("Many callers, PostgreSQL", ("postgres_32", "postgres_64"), "calls a second, more is better"),
    ("SQLite, one caller", ("sqlite_1", "sqlite_replay"), "milliseconds a call, less is better"),
    ("SQLite, many callers", ("sqlite_32",), "calls a second, more is better"),
    (
        "50 identical calls in each process",
        ("waits_1_processes", "waits_2_processes", "waits_4_processes"),
        "p99 wait after the handler's end, ms, less is better",
    ),
    ("Journal on and off, 16 writers", ("audit_postgres", "audit_sqlite"), "calls a second, more is better"),
    ("Signed appends, 64 callers", ("signed_64",), "calls a second, more is better"),
    (
        "Waiting for a signed head, one caller",
        ("awaited_postgres", "awaited_sqlite"),
        "milliseconds a call, less is better",
    ),
    ("Verifying", ("verify",), "events a second of CPU, more is better"),
)


def draw(figures: dict[str, dict[str, Figure]], path: str) -> None:
    """Writes a picture; the name's ending says which kind (.png, .svg, .pdf)."""
    panels = [(title, [name for name in names if figures.get(name)], axis) for title, names, axis in PANELS]
    panels = [panel for panel in panels if panel[1]]
    if not panels:
        return
    sheet, axes = plt.subplots(len(panels), 1, figsize=(9, 3.1 * len(panels)), squeeze=False)
    for (title, names, axis), place in zip(panels, axes[:, 0], strict=True):
        _panel(place, title, axis, {name: figures[name] for name in names})
    sheet.tight_layout()
    sheet.savefig(path, dpi=130)
    plt.close(sheet)


def _panel(place: Any, title: str, axis: str, groups: dict[str, dict[str, Figure]]) -> None:
    ticks, labels, at = [], [], 0.0
    named: set[str] = set()
    for group, found in groups.items():
        start = at
        for who, figure in found.items():
            errors = [[max(0.0, figure.median - figure.low)], [max(0.0, figure.high - figure.median)]]
            family = who if who in COLOURS else next((name for name in COLOURS if who.startswith(name)), who)
            label = who.replace("_", " ") if who not in named else None
            named.add(who)
            place.bar(at, figure.median, 0.9, yerr=errors, capsize=3, color=COLOURS.get(family, "#555555"), label=label)
            place.annotate(number(figure.median), (at, figure.high), ha="center", va="bottom", fontsize=7)
            at += 1
        ticks.append((start + at - 1) / 2)
        labels.append(group.replace("_", " "))
        at += 1
    place.set_title(title, loc="left", fontsize=11)
    place.set_ylabel(axis, fontsize=8)
    if "milliseconds" in axis or "ms" in axis:  # from a select to a slow peer: three orders of magnitude
        place.set_yscale("log")
    place.margins(y=0.18)
    place.set_xticks(ticks, labels)
    place.spines[["top", "right"]].set_visible(False)
    place.legend(fontsize=7, ncols=5, frameon=False)
