"""Reads SQL from files: statements by name, migrations by number."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class Migration(NamedTuple):
    """Is one numbered step of a schema; numbers and names are equal in every store."""

    number: int
    name: str
    sql: str


def load_queries(package: str, file: str = "queries.sql") -> dict[str, str]:
    """Gives the statements of a file of a package by the names in their `-- name:` headings."""
    parts = _HEADING.split((files(package) / file).read_text(encoding="utf-8"))
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def load_migrations(package: str) -> list[Migration]:
    """Gives a package's `migrations/NNNN_name.sql` files in their order."""
    found = []
    for file in (files(package) / "migrations").iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        if file.name.endswith(".sql"):
            found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return sorted(found)
