"""The journal's tree in a PostgreSQL database: grown under the lock of its own row, on a connection of its own.

No call waits for it: writers only append to the table of waiting events, and never touch a tree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from indelible.core.journal.journal import Entry, Examine, Tree
from indelible.core.journal.merkle import EMPTY_ROOT
from indelible.core.journal.notes import TreeHead
from indelible.errors import StoreUnavailable
from indelible.stores.postgres import wire
from indelible.stores.postgres.connections import Line, Lost, Rejected
from indelible.stores.postgres.driver import pq
from indelible.stores.postgres.integration import Integration, index_from, place_of, tile_from, tree_from
from indelible.stores.postgres.statements import SQL
from indelible.stores.postgres.trouble import Patience, patiently

# So many rows are taken before they are cleared away, and that may take this part of the time.
_CLEAR_AFTER = 20_000
_CLEAR_AT_MOST = 0.1


class PostgresJournal:
    """Keeps the trees of all tenants of one database."""

    # Writers do not wait for an integration here, so one that takes nearly everything is best.
    most_at_once = 16_384

    def __init__(self, line: Line, check_open: Callable[[], None], seconds: float) -> None:
        self._line = line
        self._check_open = check_open
        self._seconds = seconds
        self._taken = 0
        self._clear_from = 0.0

    def integrate(self, tenant: str, most: int, examine: Examine | None = None) -> Tree | None:
        """Takes waiting events into the tree; the lock of the tree's row makes racing integrators come in turn."""
        if not self._run("has_pending", {"tenant": tenant.encode()}).ntuples:
            return None
        integration = Integration(tenant, most, examine)
        try:
            grown = patiently(self._line, self._seconds, integration.carry_out)
        except StoreUnavailable as problem:
            raise integration.explained(problem) from problem
        self._taken += integration.count
        if self._taken >= _CLEAR_AFTER and time.monotonic() >= self._clear_from:
            self._clear_away()
        return grown

    def _clear_away(self) -> None:
        """Clears the rows away that were taken, for the server's own cleaner comes once a minute: far too late here.

        That is only about speed, so trouble is passed over. Where it is slow, because old transactions keep the rows
        from being cleared, it is done less often; and not at all by a user who may not.
        """
        began = time.monotonic()
        with self._line.lock:
            until = Patience(self._seconds, self._line.target).until
            try:
                session = self._line.session(until)
                session.run(SQL["clear_pending"], (), until)
                is_allowed = not session.is_warned
            except (Lost, Rejected, StoreUnavailable):  # the last when the store was closed meanwhile
                self._line.drop()
                is_allowed = True
        ended = time.monotonic()
        self._taken = 0
        self._clear_from = ended + (ended - began) / _CLEAR_AT_MOST if is_allowed else float("inf")

    def tree(self, tenant: str) -> Tree:
        """Reads the tree."""
        return tree_from(self._run("tree", {"tenant": tenant.encode()})) or Tree(0, EMPTY_ROOT)

    def tile(self, tenant: str, level: int, number: int) -> bytes:
        """Reads a tile."""
        place = {"tenant": tenant.encode(), "level": wire.bigint(level), "number": wire.bigint(number)}
        return tile_from(self._run("tile", place), level, number)

    def entries(self, tenant: str, start: int, count: int) -> list[Entry]:
        """Lists entries."""
        part = {"tenant": tenant.encode(), "start": wire.bigint(start), "end": wire.bigint(start + count)}
        found = self._run("list_entries", part)
        get: Callable[[int, int], Any] = found.get_value
        return [
            Entry(
                index=wire.read_bigint(get(row, 0)),
                run_id=get(row, 1).decode(),
                seq=wire.read_bigint(get(row, 2)),
                hash=get(row, 3).hex(),
                body=get(row, 4),
                signature=get(row, 5),
                mac=get(row, 6),
            )
            for row in range(found.ntuples)
        ]

    def index_of(self, tenant: str, run_id: str, seq: int) -> int | None:
        """Finds an event's place."""
        return index_from(self._run("leaf_of", place_of(tenant, run_id, seq)))

    def keep_head(self, tenant: str, head: TreeHead, note: str, at: datetime) -> None:
        """Keeps a signed head."""
        values = {
            "tenant": tenant.encode(),
            "size": wire.bigint(head.size),
            "note": note.encode(),
            "at": wire.timestamptz(at),
        }
        self._run("put_head", values)

    def heads(self, tenant: str, limit: int, up_to: int | None = None) -> list[str]:
        """Lists signed heads."""
        values = {
            "tenant": tenant.encode(),
            "up_to": None if up_to is None else wire.bigint(up_to),
            "limit": wire.bigint(limit),
        }
        return _texts(self._run("list_heads", values))

    def waiting(self, tenant: str) -> int:
        """Counts events that wait."""
        return wire.read_bigint(self._value("count_pending", {"tenant": tenant.encode()}) or b"")

    def pending(self, tenant: str, limit: int) -> list[tuple[str, int, str]]:
        """Lists events that wait."""
        return self._ends("list_pending", {"tenant": tenant.encode(), "limit": wire.bigint(limit)})

    def runs(self, tenant: str, after: str, limit: int) -> list[tuple[str, int, str]]:
        """Lists the ends of runs."""
        part = {"tenant": tenant.encode(), "after": after.encode(), "limit": wire.bigint(limit)}
        return self._ends("list_runs", part)

    def _ends(self, query: str, values: Mapping[str, bytes | None]) -> list[tuple[str, int, str]]:
        found = self._run(query, values)
        get: Callable[[int, int], Any] = found.get_value
        return [
            (get(row, 0).decode(), wire.read_bigint(get(row, 1)), get(row, 2).hex()) for row in range(found.ntuples)
        ]

    def tenants(self) -> list[str]:
        """Lists tenants."""
        return _texts(self._run("list_tenants", {}))

    def _value(self, name: str, values: Mapping[str, bytes | None]) -> bytes | None:
        found = self._run(name, values)
        return found.get_value(0, 0) if found.ntuples else None

    def _run(self, name: str, values: Mapping[str, bytes | None]) -> pq.abc.PGresult:
        """Carries out a statement that may be repeated."""
        self._check_open()
        statement = SQL[name]
        ordered = statement.ordered(values)
        return patiently(self._line, self._seconds, lambda session, until: session.run(statement, ordered, until))

    def close(self) -> None:
        """Closes the connection."""
        self._line.close()


def _texts(found: pq.abc.PGresult) -> list[str]:
    return [(found.get_value(row, 0) or b"").decode() for row in range(found.ntuples)]
