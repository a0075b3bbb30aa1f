"""Finds the place of a planted bug by its meaning, and changes one file of a copy of the source."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

from tests.mutants.planted import Bug

REPO = Path(__file__).parents[2]
PACKAGE = Path("src/indelible")
ANYWHERE = "<anywhere>"
"""Stands for the whole file, where a snippet is in no function or its function is of no importance."""
_LEFT_OUT = (".git", ".venv*", ".tools", ".lock*", "node_modules", "dist", "site", ".cache", ".hypothesis", ".*_cache")
_QUERY = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class NotPlanted(Exception):
    """A snippet is not there exactly once, so its bug has to be planted anew."""


def copy_of_everything(to: Path) -> Path:
    """Return a copy of this checkout, without what its tools made."""
    shutil.copytree(REPO, to, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
    return to


def changed(bug: Bug, tree: Path) -> str:
    """Return the text of the bug's file with the bug in it.

    Args:
        bug: The bug.
        tree: The checkout, or a copy of it.

    Raises:
        NotPlanted: The function, or the snippet in it, is not there exactly once.
    """
    text = (tree / PACKAGE / bug.file).read_text(encoding="utf-8")
    start, end = _place(bug, text)
    inside = text[start:end]
    if inside.count(bug.old) != 1:
        found = inside.count(bug.old)
        raise NotPlanted(f"{bug.name}: {bug.file}, {bug.where}: the snippet is there {found} times: {bug.old!r}")
    return text[:start] + inside.replace(bug.old, bug.new) + text[end:]


def _place(bug: Bug, text: str) -> tuple[int, int]:
    """Return where the bug's function or query begins and ends in its file."""
    if bug.where == ANYWHERE:
        return 0, len(text)
    places = _queries(text) if bug.file.endswith(".sql") else _functions(text)
    found = [place for name, place in places if name == bug.where]
    if len(found) != 1:
        raise NotPlanted(f"{bug.name}: {bug.file} has {len(found)} of {bug.where}")
    return found[0]


def _queries(text: str) -> list[tuple[str, tuple[int, int]]]:
    headings = list(_QUERY.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    return [(heading[1], (heading.start(), end)) for heading, end in zip(headings, ends, strict=True)]


def _functions(text: str) -> list[tuple[str, tuple[int, int]]]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[tuple[str, tuple[int, int]]] = []

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    assert child.end_lineno is not None
                    found.append((name, (starts[child.lineno - 1], starts[child.end_lineno])))
                walk(child, f"{name}.")
            else:
                walk(child, prefix)

    walk(ast.parse(text), "")
    return found
