"""The journal's tree in a SQLite file: grown under the ledger's write lock, read beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, TypeVar

import apsw

from indelible.core.journal.journal import Entry, Examine, Places, Tree, Waiting
from indelible.core.journal.merkle import EMPTY_ROOT
from indelible.core.journal.notes import TreeHead
from indelible.core.journal.tiles import grow
from indelible.stores.sqlite import rows
from indelible.stores.sqlite.bulk import Refused, write_rows
from indelible.stores.sqlite.statements import SQL

Result = TypeVar("Result")
Use = Callable[[], AbstractContextManager[apsw.Connection]]


class SqliteJournal:
    """Keeps the trees of all tenants of one file; `writing` and `reading` lend the store's connections."""

    most_at_once = 512

    def __init__(self, writing: Use, reading: Use) -> None:
        self._writing = writing
        self._reading = reading

    def integrate(self, tenant: str, most: int, examine: Examine | None = None) -> Tree | None:
        """Takes waiting events into the tree; the write lock makes racing integrators come one after the other."""
        with self._writing() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                grown = _integrate(connection, tenant, most, examine)
                connection.execute("ROLLBACK" if grown is None else "COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return grown

    def tree(self, tenant: str) -> Tree:
        """Reads the tree."""
        with self._reading() as connection:
            return tree_of(connection, tenant)

    def tile(self, tenant: str, level: int, number: int) -> bytes:
        """Reads a tile."""
        with self._reading() as connection:
            return _tile(connection, tenant, level, number)

    def entries(self, tenant: str, start: int, count: int) -> list[Entry]:
        """Lists entries."""
        with self._reading() as connection:
            found: Any = connection.execute(SQL["list_entries"], (tenant, start, start + count)).fetchall()
        return [
            Entry(index=index, run_id=run_id, seq=seq, hash=hash_.hex(), body=body, signature=signature, mac=mac)
            for index, run_id, seq, hash_, body, signature, mac in found
        ]

    def index_of(self, tenant: str, run_id: str, seq: int) -> int | None:
        """Finds an event's place."""
        with self._reading() as connection:
            return _index_of(connection, tenant, run_id, seq)

    def keep_head(self, tenant: str, head: TreeHead, note: str, at: datetime) -> None:
        """Keeps a signed head."""
        with self._writing() as connection:
            connection.execute(SQL["put_head"], (tenant, head.size, note, rows.micros(at)))
            if not connection.changes() and tree_of(connection, tenant).size >= head.size:
                raise Refused

    def heads(self, tenant: str, limit: int, up_to: int | None = None) -> list[str]:
        """Lists signed heads."""
        values = {"tenant": tenant, "up_to": up_to, "limit": limit}
        with self._reading() as connection:
            found: Any = connection.execute(SQL["list_heads"], values).fetchall()
        return [str(note) for (note,) in found]

    def waiting(self, tenant: str) -> int:
        """Counts events that wait."""
        with self._reading() as connection:
            return int(connection.execute(SQL["count_pending"], (tenant,)).get)

    def pending(self, tenant: str, limit: int) -> list[tuple[str, int, str]]:
        """Lists events that wait."""
        return self._ends("list_pending", (tenant, limit))

    def runs(self, tenant: str, after: str, limit: int) -> list[tuple[str, int, str]]:
        """Lists the ends of runs."""
        return self._ends("list_runs", (tenant, after, limit))

    def _ends(self, query: str, values: tuple[str | int, ...]) -> list[tuple[str, int, str]]:
        with self._reading() as connection:
            found: Any = connection.execute(SQL[query], values).fetchall()
        return [(run_id, number, hash_.hex()) for run_id, number, hash_ in found]

    def tenants(self) -> list[str]:
        """Lists tenants."""
        with self._reading() as connection:
            found: Any = connection.execute(SQL["list_tenants"]).fetchall()
        return [str(tenant) for (tenant,) in found]


def _integrate(connection: apsw.Connection, tenant: str, most: int, examine: Examine | None) -> Tree | None:
    tree = tree_of(connection, tenant)

    def index_of(run_id: str, seq: int) -> int | None:
        return _index_of(connection, tenant, run_id, seq)

    def tile(level: int, number: int) -> bytes:
        return _tile(connection, tenant, level, number)

    places = Places(tree, index_of, tile)
    barred: set[str] = set()
    while True:
        words: dict[str, Any] = {"tenant": tenant, "most": most, "barred": json.dumps(sorted(barred))}
        waiting: Any = connection.execute(SQL["take_pending"], words).fetchall()
        if not waiting:
            return None
        named = set() if examine is None else examine([Waiting(*row[1:]) for row in waiting], places)
        if not named:
            break
        barred |= named
    growth = grow(tree.size, [row[3] for row in waiting], tile)
    leaves = [(tenant, tree.size + place, *row[1:4]) for place, row in enumerate(waiting)]
    write_rows(connection, SQL["insert_leaves"], leaves)
    for (level, number), hashes in growth.tiles.items():
        write_rows(connection, SQL["put_tile"], [(tenant, level, number, hashes)])
    write_rows(connection, SQL["put_tree"], [(tenant, growth.size, growth.root)])
    connection.execute(SQL["drop_pending"], {"tenant": tenant, "last": waiting[-1][0], "barred": words["barred"]})
    if connection.changes() != len(waiting):
        raise Refused
    return Tree(growth.size, growth.root)


def tree_of(connection: apsw.Connection, tenant: str) -> Tree:
    """Read a tenant's tree."""
    found: Any = connection.execute(SQL["tree"], (tenant,)).fetchone()
    return Tree(0, EMPTY_ROOT) if found is None else Tree(int(found[0]), found[1])


def _index_of(connection: apsw.Connection, tenant: str, run_id: str, seq: int) -> int | None:
    found: Any = connection.execute(SQL["leaf_of"], (tenant, run_id, seq)).fetchone()
    return None if found is None else int(found[0])


def _tile(connection: apsw.Connection, tenant: str, level: int, number: int) -> bytes:
    found: Any = connection.execute(SQL["tile"], (tenant, level, number)).fetchone()
    if found is None:
        raise LookupError(f"there is no tile {number} of level {level}")
    return bytes(found[0])
