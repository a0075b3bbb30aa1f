"""Says at the end of a run what it left out, what the commit drew, and which words run all of it."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.commit import COMMIT

REPO = Path(__file__).parents[1]
DRAWN = {
    "INDELIBLE_SQL_ATTACKS": "all",
    "INDELIBLE_BREAKING": "all",
}
"""The variables that try all of what the commit draws a part of."""
IN_PART = {
    "INDELIBLE_CHANGES": "all",
    "INDELIBLE_EDITS": "all",
    "INDELIBLE_INJECTIONS": "all",
    "INDELIBLE_MUTANTS": "all",
    "INDELIBLE_DURABILITY_KILLS": "all",
    "INDELIBLE_FUZZ": "1000000",
    "INDELIBLE_SERVER_KILLS": "50",
    "INDELIBLE_BESIDE_ROUNDS": "1000",
}
"""The variables that try all, or many, of what is else tried in part, the same part each time."""
_NAMED = re.compile(r"environ(?:\.get\(|\[)\"(INDELIBLE_[A-Z_]+)\"|\"(INDELIBLE_[A-Z_]+)\" in os\.environ")


@dataclass
class LeftOut:
    """Counts the tests that a run left out, by their kind, and knows the files whose tests it ran."""

    tests: Counter[str] = field(default_factory=Counter)
    files: set[str] = field(default_factory=set)

    def to_words(self) -> dict[str, Any]:
        """Return it as a worker tells it to the process that reports."""
        return {"tests": dict(self.tests), "files": sorted(self.files)}

    @classmethod
    def from_words(cls, words: dict[str, Any]) -> LeftOut:
        """Read what a worker told."""
        return cls(Counter(words["tests"]), set(words["files"]))

    def lines(self) -> list[str]:
        """Return what is to be said of it; nothing if the run left nothing out."""
        said = [f"{count:,} {kind}; all: ./run test whole" for kind, count in sorted(self.tests.items())]
        by = variables_of(self.files)
        commit = COMMIT[:8] or "(none)"
        for variable, files in by.items():
            if variable not in os.environ:
                part = f"drawn by commit {commit}" if variable in DRAWN else "tried in part"
                said.append(f"{part}: {', '.join(files)}; all: {variable}={(DRAWN | IN_PART)[variable]}")
        return said


def variables_in(file: Path) -> set[str]:
    """Return the variables of ours that a file of tests reads."""
    return {one or other for one, other in _NAMED.findall(file.read_text(encoding="utf-8"))}


def variables_of(files: Iterable[str]) -> dict[str, list[str]]:
    """Return the variables that would make these files try more, each with its files."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(files):
        for variable in variables_in(REPO / file) & (DRAWN | IN_PART).keys():
            found[variable].append(file)
    return {variable: found[variable] for variable in (*DRAWN, *IN_PART) if variable in found}
