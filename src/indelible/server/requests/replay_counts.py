"""Notes replays as this server answers them: how often, and to whom; and writes it down behind the answers."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from indelible.aio import AsyncLedger
from indelible.core.commands import Keep, Open, Outrun
from indelible.core.effects.answered import Answered, answered_also, answered_ref
from indelible.core.effects.effect import SYSTEM, Effect
from indelible.core.effects.replays import added, by_hour, minute_of, replays_ref
from indelible.core.sheets import Sheet, SheetFilter, SheetRef
from indelible.engine.engine import Engine
from indelible.errors import StoreError

WRITTEN_AFTER = 5.0
"""Is how many seconds a note may wait to be written down; a server that is killed loses so much of them."""
_MOST_TRIES = 10
_MOST_EFFECTS = 1000
"""Is of how many effects callers are remembered until they are written down; of others only the count is."""
_log = logging.getLogger("indelible.server")


@dataclass(slots=True)
class _Noted:
    """Is what was noted for one tenant and not yet written down."""

    engine: Engine
    counts: Counter[tuple[str, datetime]] = field(default_factory=Counter)
    callers: defaultdict[str, list[Answered]] = field(default_factory=lambda: defaultdict(list))


class ReplayCounts:
    """Keeps the notes of all tenants until they are written down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, _Noted] = {}
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def hear_from(self, ledger: AsyncLedger) -> None:
        """Notes whom a ledger gives recorded answers."""
        ledger._engine.writer.replayed.append(partial(self._hear, ledger.tenant, ledger._engine))

    def _hear(self, tenant: str, engine: Engine, asked: Open, effect: Effect) -> None:
        now, actor = datetime.now(UTC), asked.stamp.actor
        caller = Answered(actor=actor.id, kind=actor.kind, run_id=asked.run_id, count=1, last_at=now)
        with self._lock:
            noted = self._waiting.setdefault(tenant, _Noted(engine))
            noted.counts[effect.tool, minute_of(now)] += 1
            if effect.id in noted.callers or len(noted.callers) < _MOST_EFFECTS:
                noted.callers[effect.id].append(caller)
            if self._timer is None and not self._is_closed:
                self._timer = threading.Timer(WRITTEN_AFTER, self.write)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """Writes down what was noted so far."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
        for tenant, noted in waiting.items():
            try:
                for hour, more in by_hour(noted.counts).items():
                    _change(noted.engine, tenant, replays_ref(hour), partial(added, hour=hour, more=more))
                for effect_id, callers in noted.callers.items():
                    ref = answered_ref(effect_id)
                    _change(noted.engine, tenant, ref, partial(answered_also, effect_id=effect_id, more=callers))
            except StoreError as problem:  # they are for people who look: nobody waits for them
                _log.warning("notes of replays were not written down: %s", problem)

    def close(self) -> None:
        """Writes down what is left."""
        self._is_closed = True
        self.write()


def _change(engine: Engine, tenant: str, ref: SheetRef, changed: Callable[[Sheet | None], Sheet]) -> None:
    """Writes a sheet on which other servers write as well."""
    selected = SheetFilter(kind=ref.kind, id=ref.id, limit=1)
    for _ in range(_MOST_TRIES):
        found = engine.store.sheets(tenant, selected)
        keep = Keep(tenant=tenant, stamp=engine.mint.stamp(SYSTEM, 0), sheet=changed(found[0] if found else None))
        if not isinstance(engine.write_alone(keep), Outrun):
            return
