"""Finds in a SQLite file what may be erased, and clears away what erasing leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import apsw

from indelible.core.events import Event
from indelible.core.privacy.forgetting import Prunable
from indelible.core.sheets import Sheet
from indelible.stores.sqlite import rows
from indelible.stores.sqlite.bulk import Refused
from indelible.stores.sqlite.statements import SQL

_COPIES = (
    "the file was not rewritten: where pages were split, copies of what was erased may stay in it; erase with rewrite "
    "when writers can wait"
)
_LOG = (
    "somebody was reading the ledger, so its write-ahead log still holds what was erased; close the other programs: "
    "the last one to close empties the log"
)

Use = Callable[[], AbstractContextManager[apsw.Connection]]


class SqliteForgetting:
    """Serves all tenants of one file; `writing` and `reading` lend the store's connections."""

    def __init__(self, writing: Use, reading: Use) -> None:
        self._writing = writing
        self._reading = reading

    def of_subject(self, tenant: str, subject_json: bytes) -> list[tuple[str, int]]:
        """Finds the events that opened effects about a subject."""
        with self._reading() as connection:
            found: Any = connection.execute(SQL["find_subject"], (tenant, subject_json)).fetchall()
        return [(run_id, seq) for run_id, seq in found]

    def prunable(self, tenant: str, before: datetime, after: str, limit: int) -> list[Prunable]:
        """Lists effects that ended before a moment and still have something to erase."""
        values = {"tenant": tenant, "before": rows.micros(before), "after": after, "limit": limit}
        with self._reading() as connection:
            found: Any = connection.execute(SQL["list_prunable"], values).fetchall()
        return [Prunable(*row) for row in found]

    def refusals(self, tenant: str, after: tuple[str, int], limit: int) -> list[Event]:
        """Lists events that tell of refused calls and still have something to erase."""
        values = {"tenant": tenant, "run_id": after[0], "seq": after[1], "limit": limit}
        with self._reading() as connection:
            return [rows.event_from(row) for row in connection.execute(SQL["list_refusals"], values)]

    def drop(self, tenant: str, sheets: Sequence[Sheet]) -> int:
        """Drops sheets that are as they were read."""
        dropped = 0
        with self._writing() as connection, connection:
            for sheet in sheets:
                assert not sheet.is_recorded, "what is on the record is erased, not dropped"
                connection.execute(SQL["drop_sheet"], (tenant, sheet.kind, sheet.id, sheet.version))
                dropped += connection.changes()
        return dropped

    def holds(self, tenant: str) -> list[Event]:
        """Lists the events that placed and lifted holds."""
        with self._reading() as connection:
            return [rows.event_from(row) for row in connection.execute(SQL["list_holds"], (tenant,))]

    def redaction_check(self) -> str | None:
        """Gives what is kept of the redaction key."""
        with self._reading() as connection:
            found: Any = connection.execute(SQL["redaction_check"]).fetchone()
        return None if found is None else str(found[0])

    def keep_redaction_check(self, check: str) -> str:
        """Keeps it, if none is kept yet."""
        with self._writing() as connection:
            connection.execute(SQL["keep_redaction_check"], (check,))
            kept = connection.execute(SQL["redaction_check"]).get
            if kept is None:
                raise Refused
            return str(kept)

    def clear_away(self, rewrite: bool | None) -> list[str]:
        """Rebuilds the file unless told not to, and empties its log.

        Overwriting on deletion is not enough: when a full page is split, SQLite leaves copies of rows in the space
        that became free, and nothing ever overwrites them.
        """
        with self._writing() as connection:
            if rewrite is not False:
                _rebuild(connection)
            found: Any = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        remarks = [_COPIES] if rewrite is False else []
        return [*remarks, _LOG] if found is not None and found[0] else remarks


def _rebuild(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA temp_store=FILE").fetchall()  # the rebuilt file need not fit into memory
    try:
        connection.execute("VACUUM")
    finally:
        connection.execute("PRAGMA temp_store=MEMORY").fetchall()
