"""Indelible with its journal switched off: the same library, whose events never wait to be taken into a tree.

There is no such switch, for nobody should have one. So this process cuts the waiting row out of the statements of the
stores before it opens one, and refuses to measure anything when that does not work. Everything else stays: effects,
heads of runs, events with their hashes and commitments, payloads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import apsw

from benchmarks.ours import IndelibleMany
from indelible.stores.postgres.statements import SQL as POSTGRES
from indelible.stores.sqlite import pen
from indelible.stores.sqlite.bulk import execute_rows

WRITERS = ("open_one", "move_one", "write_batch")
WAITING_ROW = re.compile(rb"\), awaiting AS \(\s+INSERT INTO indelible_pending .*?\n(?=\), committed AS)", re.DOTALL)


def switch_off() -> None:
    """Lets this process write events that no journal will ever take in."""
    for name in WRITERS:
        cut, found = WAITING_ROW.subn(b"", POSTGRES[name].sql)
        if found != 1 or b"indelible_pending" in cut:
            raise AssertionError(f"{name} writes its waiting row in another way: mend benchmarks/unaudited.py")
        POSTGRES[name] = POSTGRES[name]._replace(sql=cut)
    waiting_rows = pen.SQL["insert_pending"]

    def execute_other_rows(connection: apsw.Connection, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        return 0 if sql is waiting_rows else execute_rows(connection, sql, rows)

    pen.execute_rows = execute_other_rows  # type: ignore[attr-defined]


class ManyUnaudited(IndelibleMany):
    """Many callers; nothing is sealed, and nothing waits to be."""

    options: ClassVar[dict[str, Any]] = {"seal": False}

    async def open(self, url: str) -> None:
        switch_off()
        await super().open(url)

    def is_sealed(self) -> bool:
        """Has nothing to seal; checks that this is so."""
        kept, tenant = self._ledger._engine.store.journal, self._ledger.tenant
        if kept.waiting(tenant) or kept.tree(tenant).size:
            raise AssertionError("the journal is not off, so this would measure something else")
        return True
