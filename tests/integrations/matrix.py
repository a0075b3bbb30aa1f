"""`python -m tests.integrations.matrix`: writes docs/integrations/matrix.md from what was measured.

The measurements lie beside the page, one file for each framework and store, as the command gives them:

    indelible conformance --adapter langchain --json > docs/integrations/matrix/langchain.json
    indelible conformance --adapter langchain --json --store postgresql://… > …/langchain-postgres.json

`./run python -m tests.postgres COMMAND…` lends a command a server: its address is in $INDELIBLE_TEST_POSTGRES.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from indelible.testing.adapters.cases import CASES, Row
from indelible.testing.adapters.place import StoreKind

DOCS = Path(__file__).parents[2] / "docs" / "integrations"
PAGE = DOCS / "matrix.md"
MEASURED = DOCS / "matrix"
STORES: dict[StoreKind, str] = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
# What every framework has to read behind the ledger, on either store.
OURS = dict.fromkeys(CASES, "1") | {"tampered_state": "refused", "store_down": "refused"}

# Adapter: how people call it, and what it does on its own, in the order in which the page has them.
FRAMEWORKS = {
    "langchain": ("LangChain, LangGraph", "human-in-the-loop middleware, SQLite checkpoints"),
    "openai-agents": ("OpenAI Agents", "`needs_approval`, a saved `RunState`"),
    "pydantic-ai": ("Pydantic AI", "`requires_approval`, saved messages"),
    "mcp": ("MCP", "a host that asks its user and keeps its calls in a file"),
    "functions": ("a loop of your own", "calls kept in a file, a question before each"),
    "strands": ("Strands", "`HumanInTheLoop`, a session in files"),
    "adk": ("Google ADK", "`require_confirmation`, a session in SQLite"),
    "claude": ("Claude Agent SDK", "a hook that defers, Claude Code's saved session"),
    "crewai": ("CrewAI", "a flow waits for feedback before its crew; after a crash it cannot be resumed"),
}
_TITLES = {
    "crash_after_effect": "crash",
    "resume_twice": "resumed three times",
    "two_workers": "two workers",
    "tampered_state": "changed arguments",
    "one_denied": "one of three denied",
    "store_down": "no store",
    "decided_elsewhere": "decided elsewhere",
}
_HEAD = """\
# What happens when it dies: the matrix

Each framework plays the same cases twice: as it is, with its own approvals and its own saved state, and behind the
ledger. Real processes play them, some are killed, and what was done outside is counted. Models are scripted. A cell
says how often the deed was done **natively → behind the ledger**; the ledger's side has to read 1, or refused. Every
cell was played with the ledger on SQLite and on PostgreSQL; where the two differ, or one was not played, it says so.

"""
_FOOT = """
After a crash ours reads 1 and is in doubt: nobody but the provider knows whether the deed was done, so it waits for a
probe or a person, and is not done again. A dash means that there is no such thing on that side: without a ledger there
is no ledger's store that could be gone. Native figures are no blame: these frameworks promise to go on from a saved
state, and that is what they do.

Measure it yourself; the command ends with 1 if one of ours reads anything else:

```console
$ indelible conformance --adapter langchain
$ indelible conformance --adapter langchain --store postgresql://localhost/postgres
```

With `--store` each case has a database of its own on that server, which is dropped at the end. "No store" means there
that the database is dropped under the ledger's connections; with SQLite, that its file is overwritten.

On each change, the tests play the ledger's side of LangChain, OpenAI Agents, Pydantic AI, MCP and plain functions on
SQLite, their crash on PostgreSQL as well, and their native crash, and compare all that with this page.
`INDELIBLE_MATRIX=full` plays every case on both stores, and so does `./run frameworks` with the heavy ones.
"""


def measured() -> list[Row]:
    """Gives what was measured, in the order of the page."""
    rows = [Row(**row) for file in MEASURED.glob("*.json") for row in json.loads(file.read_text())["rows"]]
    cases = list(CASES)
    return sorted(rows, key=lambda row: (list(FRAMEWORKS).index(row.adapter), cases.index(row.case)))


def published(adapter: str, store: StoreKind) -> dict[str, Row]:
    """Gives what the page says of one framework on one store, by case."""
    return {row.case: row for row in measured() if (row.adapter, row.store) == (adapter, store)}


def plays(*, on_postgres: Iterable[str]) -> list[tuple[str, StoreKind]]:
    """Gives the cases that are to be played and on which store: all on SQLite, and these on PostgreSQL too."""
    return [*((case, "sqlite") for case in CASES), *((case, "postgres") for case in on_postgres)]


def page_of(rows: Iterable[Row]) -> str:
    """Gives the page."""
    known = {(row.adapter, row.case, row.store): row for row in rows}
    adapters = dict.fromkeys(adapter for adapter, _, _ in known)
    cases = [f"- **{_TITLES[name]}**: {_said(case.__doc__)}" for name, case in CASES.items()]
    table = [_line("framework", "on its own", *(_TITLES[case] for case in CASES)), _line(*["---"] * (len(CASES) + 2))]
    for adapter in adapters:
        cells = [_cell({store: known.get((adapter, case, store)) for store in STORES}) for case in CASES]
        table.append(_line(*FRAMEWORKS[adapter], *cells))
    return _HEAD + "\n".join(cases) + "\n\n" + "\n".join(table) + "\n" + _FOOT


def _said(text: str | None) -> str:
    first, _, _ = (text or "").partition(".\n")
    return f"{' '.join(first.rstrip('.').split()).lower()}."


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(by_store: dict[StoreKind, Row | None]) -> str:
    """Says what was measured: once where both stores gave the same, else for each store by its name."""
    said = {store: "not measured" if row is None else f"{row.native} → {row.ledger}" for store, row in by_store.items()}
    if len(set(said.values())) == 1:
        return said["sqlite"]
    return "; ".join(f"{STORES[store]}: {cell}" for store, cell in said.items())


if __name__ == "__main__":
    PAGE.write_text(page_of(measured()), encoding="utf-8")
