"""Finds in a PostgreSQL database what may be erased, and clears away what erasing leaves behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from indelible.core.events import Event
from indelible.core.privacy.forgetting import Prunable
from indelible.core.sheets import Sheet
from indelible.stores.postgres import rows, wire
from indelible.stores.postgres.connections import Line, Lost, Rejected, Session
from indelible.stores.postgres.driver import pq
from indelible.stores.postgres.statements import SQL
from indelible.stores.postgres.trouble import Patience, patiently

# Clearing a large table away takes as long as reading it.
_CLEARING_SECONDS = 3600.0
_ELSEWHERE = (
    "the server's own archives, replicas and backups may hold what was erased for as long as they are kept; erase it "
    "there too, or let them expire"
)


_FREE_SPACE = (
    "no query finds it any more; its bytes may stay in free space of the tables' files until they are written over. "
    "Erase with rewrite when everybody can wait, which is VACUUM FULL"
)
_STILL_SEEN = (
    "a transaction on this server, perhaps in another database, has been open since before the erasure, so its bytes "
    "may still be in the tables' files; end it (see pg_stat_activity), then erase with rewrite again"
)
_LOOK_AGAIN = 0.05
_CLEARING = ("clear_payloads", "clear_effects", "clear_sheets")
_REWRITING = ("rewrite_payloads", "rewrite_effects", "rewrite_sheets")


class PostgresForgetting:
    """Serves all tenants of one database."""

    def __init__(self, line: Line, check_open: Callable[[], None], seconds: float) -> None:
        self._line = line
        self._check_open = check_open
        self._seconds = seconds

    def of_subject(self, tenant: str, subject_json: bytes) -> list[tuple[str, int]]:
        """Finds the events that opened effects about a subject."""
        found = self._run("find_subject", {"tenant": tenant.encode(), "subject": subject_json})
        get: Callable[[int, int], Any] = found.get_value
        return [(get(row, 0).decode(), wire.read_bigint(get(row, 1))) for row in range(found.ntuples)]

    def prunable(self, tenant: str, before: datetime, after: str, limit: int) -> list[Prunable]:
        """Lists effects that ended before a moment and still have something to erase."""
        values = {
            "tenant": tenant.encode(),
            "before": wire.timestamptz(before),
            "after": after.encode(),
            "limit": wire.bigint(limit),
        }
        found = self._run("list_prunable", values)
        get: Callable[[int, int], Any] = found.get_value
        return [
            Prunable(get(row, 0).decode(), get(row, 1).decode(), wire.read_bigint(get(row, 2)))
            for row in range(found.ntuples)
        ]

    def refusals(self, tenant: str, after: tuple[str, int], limit: int) -> list[Event]:
        """Lists events that tell of refused calls and still have something to erase."""
        values = {
            "tenant": tenant.encode(),
            "run_id": after[0].encode(),
            "seq": wire.bigint(after[1]),
            "limit": wire.bigint(limit),
        }
        return rows.events_from(self._run("list_refusals", values))

    def drop(self, tenant: str, sheets: Sequence[Sheet]) -> int:
        """Drops sheets that are as they were read."""
        assert not any(sheet.is_recorded for sheet in sheets), "what is on the record is erased, not dropped"
        values = {
            "tenant": tenant.encode(),
            "kinds": wire.texts(sheet.kind for sheet in sheets),
            "ids": wire.texts(sheet.id for sheet in sheets),
            "versions": wire.bigints(sheet.version for sheet in sheets),
        }
        found = self._run("drop_sheets", values)
        return wire.read_bigint(found.get_value(0, 0) or b"")

    def holds(self, tenant: str) -> list[Event]:
        """Lists the events that placed and lifted holds."""
        return rows.events_from(self._run("list_holds", {"tenant": tenant.encode()}))

    def redaction_check(self) -> str | None:
        """Gives what is kept of the redaction key."""
        found = self._run("redaction_check", {})
        return (found.get_value(0, 0) or b"").decode() if found.ntuples else None

    def keep_redaction_check(self, check: str) -> str:
        """Keeps it, if none is kept yet."""
        self._run("keep_redaction_check", {"check": check.encode()})
        kept = self.redaction_check()
        if kept is None:
            self._run("refuse", {})
        assert kept is not None, "it was refused where there is none"
        return kept

    def clear_away(self, rewrite: bool | None) -> list[str]:
        """Vacuums the tables that held what was erased; says what this user or the server did not allow.

        After that nobody finds it by a query. Its bytes stay in the free space of a page until something is written
        over them, unless the tables are rewritten; while that goes on, nobody else can use them.
        """
        self._check_open()
        with self._line.lock:
            until = Patience(max(self._seconds, _CLEARING_SECONDS), self._line.target).until
            try:
                session = self._line.session(until)
                is_done = True
                is_alone = not rewrite or self._outlasts_others(session, until)
                for name in _REWRITING if rewrite else _CLEARING:
                    session.run(SQL[name], (), until)
                    # Whoever may not vacuum a table gets a warning, not an error.
                    is_done = is_done and not session.is_warned
            except (Lost, Rejected):
                self._line.drop()
                is_done = is_alone = False
        if is_done and not is_alone:
            return [_STILL_SEEN, _ELSEWHERE]
        if is_done:
            return [_ELSEWHERE] if rewrite else [_FREE_SPACE, _ELSEWHERE]
        return [
            "this user may not VACUUM indelible_payloads, _effects and _sheets, or the server refused: deleted rows "
            "stay in its files until it clears them away by itself; let the tables' owner run VACUUM",
            _ELSEWHERE,
        ]

    def _outlasts_others(self, session: Session, until: float) -> bool:
        """Waits until every transaction that runs now has ended, for the server rewrites what one of them may see."""
        ends = time.monotonic() + self._seconds
        _, newest = _running(session, until)
        while _running(session, until)[0] < newest:
            if time.monotonic() > ends:
                return False
            time.sleep(_LOOK_AGAIN)
        return True

    def _run(self, name: str, values: Mapping[str, bytes | None]) -> pq.abc.PGresult:
        """Carries out a statement that may be repeated."""
        self._check_open()
        statement = SQL[name]
        return patiently(
            self._line, self._seconds, lambda session, until: session.run(statement, statement.ordered(values), until)
        )


def _running(session: Session, until: float) -> tuple[int, int]:
    found = session.run(SQL["running_transactions"], (), until)
    get: Callable[[int, int], Any] = found.get_value
    return wire.read_bigint(get(0, 0)), wire.read_bigint(get(0, 1))
