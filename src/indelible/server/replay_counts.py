"""Counts replays as this server answers them, and writes the counts down behind the answers."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from indelible.aio import AsyncLedger
from indelible.core.commands import Answer, Keep, Outrun, Replayed, ReplayedFailure
from indelible.core.effects import SYSTEM
from indelible.core.replays import Counts, added, by_hour, minute_of, replays_ref
from indelible.core.sheets import SheetFilter
from indelible.engine import Engine
from indelible.errors import StoreError

WRITTEN_AFTER = 5.0
"""Is how many seconds a count may wait to be written down; a server that is killed loses so much of them."""
_MOST_TRIES = 10
_log = logging.getLogger("indelible.server")


class ReplayCounts:
    """Keeps the counts of all tenants until they are written down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[Engine, Counter[tuple[str, datetime]]]] = {}
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def hear_from(self, ledger: AsyncLedger) -> None:
        """Counts what comes of the commands of a ledger."""
        hear = partial(self._hear, ledger.tenant, ledger._engine)
        ledger._engine.writer.listeners.append(hear)
        ledger._engine.writer.unwritten.append(hear)

    def _hear(self, tenant: str, engine: Engine, answers: Sequence[Answer]) -> None:
        replayed = [one.effect.tool for one in answers if isinstance(one, Replayed | ReplayedFailure)]
        if not replayed:  # on the way of every write, so it is said first
            return
        minute = minute_of(datetime.now(UTC))
        with self._lock:
            _, counts = self._waiting.setdefault(tenant, (engine, Counter()))
            counts.update((tool, minute) for tool in replayed)
            if self._timer is None and not self._is_closed:
                self._timer = threading.Timer(WRITTEN_AFTER, self.write)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """Writes down what was counted so far."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
        for tenant, (engine, counts) in waiting.items():
            try:
                for hour, more in by_hour(counts).items():
                    _add(engine, tenant, hour, more)
            except StoreError as problem:  # they are for charts alone: nobody waits for them
                _log.warning("counts of replays were not written down: %s", problem)

    def close(self) -> None:
        """Writes down what is left."""
        self._is_closed = True
        self.write()


def _add(engine: Engine, tenant: str, hour: datetime, more: Counts) -> None:
    """Adds to the counts of an hour, to which other servers add as well."""
    selected = SheetFilter(kind="replays", id=replays_ref(hour).id, limit=1)
    for _ in range(_MOST_TRIES):
        found = engine.store.sheets(tenant, selected)
        sheet = added(found[0] if found else None, hour, more)
        if not isinstance(
            engine.write_alone(Keep(tenant=tenant, stamp=engine.mint.stamp(SYSTEM, 0), sheet=sheet)), Outrun
        ):
            return
