"""When tokens and sessions were last used: written behind the answer, at most once a minute for each."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime

from indelible.core.commands import Keep
from indelible.core.effects.effect import SYSTEM
from indelible.core.paging import read_sheet
from indelible.core.people.challenges import seen_at, seen_sheet
from indelible.core.ports import Store
from indelible.core.sheets import SheetRef
from indelible.engine.mint import SystemMint
from indelible.engine.running import in_own_thread
from indelible.errors import IndelibleError

WRITTEN_EVERY = 60.0
"""Is how many seconds are between two writes about one token or session."""
_MOST_REMEMBERED = 10_000
_log = logging.getLogger("indelible.server")


class Sightings:
    """Notes who was there, and lets nobody wait for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mint = SystemMint()
        self._noted: dict[tuple[str, str], float] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def note(self, tenant: str, id_: str, until: datetime | None = None) -> None:
        """Notes that somebody was seen now; `until` says when nobody asks that any more."""
        place, now = (tenant, id_), time.monotonic()
        noted = self._noted.get(place)
        if noted is not None and now - noted < WRITTEN_EVERY:
            return
        if len(self._noted) >= _MOST_REMEMBERED:
            self._noted.clear()
        self._noted[place] = now
        task = asyncio.ensure_future(self._write(tenant, id_, datetime.now(UTC), until))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, tenant: str, id_: str, at: datetime, until: datetime | None) -> None:
        try:
            await in_own_thread(self._keep, tenant, id_, at, until)
        except IndelibleError as trouble:  # nothing rests on it; the next minute brings another
            _log.warning("when %s was last used could not be written: %s", id_, type(trouble).__name__)

    def _keep(self, tenant: str, id_: str, at: datetime, until: datetime | None) -> None:
        found = read_sheet(self._store, tenant, SheetRef("seen", id_))
        version = 1 if found is None else found.version + 1
        stamp = self._mint.stamp(SYSTEM, 0)
        self._store.apply(tenant, [Keep(tenant=tenant, stamp=stamp, sheet=seen_sheet(id_, version, at, until))], [None])

    async def close(self) -> None:
        """Waits for what is being written."""
        while self._writing:
            await asyncio.gather(*self._writing)


def last_seen(store: Store, tenant: str, id_: str) -> datetime | None:
    """Gives when a token or a session was last used, to the minute; None when it never was."""
    found = read_sheet(store, tenant, SheetRef("seen", id_))
    return None if found is None or found.body is None else seen_at(found)
