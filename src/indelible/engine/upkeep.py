"""What has to be seen to while agents work: journals are sealed, abandoned effects called in doubt, old things cleared.

`indelible worker` and the server go these rounds by the same code. Any number of processes may go them at once: each
step is decided by the store, so two who do the same do it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Literal, NamedTuple

from indelible.core.commands import Expire
from indelible.core.effects.effect import SYSTEM
from indelible.core.ports import time_in
from indelible.core.sheets import SheetFilter
from indelible.engine.desk import Desk
from indelible.errors import IndelibleError
from indelible.journal.erasures.erasing import Eraser
from indelible.journal.sealing import Sealer, is_elsewhere
from indelible.journal.sealing_thread import BEAT_EVERY

GRACE = timedelta(minutes=1)
"""Is how long after its lease a worker may still report before its effect is called in doubt by us."""
CLEARED_WHEN_DUE = ("answered", "replays", "reply")
"""Names the kinds of sheets, kept aside, that nobody needs any more once they are due."""
_LONGEST_IDLE = 1.0
_LOOK_FOR_MOVES_EVERY = 30.0
LOOK_FOR_TENANTS_EVERY = 2.0
_PAGE = 1000

Duty = Literal["look for tenants", "seal", "reconcile", "clear", "prune"]
_EVERY: dict[Duty, float] = {"reconcile": 10.0, "clear": 600.0, "prune": 86_400.0}


class Trouble(NamedTuple):
    """Is where something does not work: a tenant, none for all of them, and what was to be done."""

    tenant: str
    duty: Duty


Tell = Callable[[Trouble, IndelibleError | None], None]
"""Is told once of a problem, again when it changes, and with None when it is over."""


class Upkeep:
    """Goes round some tenants again and again, when it is told to; never two rounds at once."""

    def __init__(
        self,
        ledger: Desk,
        tenants: Callable[[], Iterable[str]],
        *,
        tell: Tell,
        retain: timedelta | None = None,
    ) -> None:
        """Erases payloads of what ended longer ago than `retain`, once a day, if that is given."""
        self._engine = ledger._engine
        self._list_tenants = tenants
        self._tell = tell
        self._retain = retain
        self._looked_at = float("-inf")
        self._rounds: dict[str, _Round] = {}
        self.problems: dict[Trouble, IndelibleError] = {}

    @property
    def tenants(self) -> list[str]:
        """Lists the tenants that are known so far, but for those that were moved to another database."""
        return [tenant for tenant, found in self._rounds.items() if not found.is_elsewhere]

    @property
    def sizes(self) -> dict[str, int]:
        """Says how many events of each tenant are under a signed head."""
        return {tenant: found.size for tenant, found in self._rounds.items() if found.size is not None}

    def lag(self, now: float) -> float:
        """Gives for how many seconds some event has been seen that is under no signed head."""
        return max((now - found.behind_since for found in self._rounds.values() if found.behind_since), default=0.0)

    def go(self, now: float) -> None:
        """Goes round once; what does not work for one tenant holds up no other. `now` is of the monotonic clock."""
        if now - self._looked_at >= LOOK_FOR_TENANTS_EVERY:
            self._try(Trouble("", "look for tenants"), self._look)
            self._looked_at = now
        for tenant, found in list(self._rounds.items()):
            if now - found.placed_at >= _LOOK_FOR_MOVES_EVERY:
                self._try(Trouble(tenant, "look for tenants"), partial(self._place, tenant, found, now))
            if found.is_elsewhere:
                continue
            if now >= found.look_at:
                self._try(Trouble(tenant, "seal"), partial(self._seal, tenant, found, now))
            for duty, do in self._seldom(tenant):
                if now - found.done_at.get(duty, float("-inf")) >= _EVERY[duty]:
                    found.done_at[duty] = now
                    self._try(Trouble(tenant, duty), do)

    def _seldom(self, tenant: str) -> Iterable[tuple[Duty, Callable[[], None]]]:
        yield "reconcile", partial(self._reconcile, tenant)
        yield "clear", partial(self._clear, tenant)
        if self._retain is not None:
            yield "prune", partial(self._prune, tenant, self._retain)

    def _try(self, trouble: Trouble, do: Callable[[], None]) -> None:
        """Does one thing; a problem is told once, until it changes or goes away."""
        try:
            do()
        except IndelibleError as problem:
            before = self.problems.get(trouble)
            self.problems[trouble] = problem
            if before is None or str(before) != str(problem):
                self._tell(trouble, problem)
        else:
            if self.problems.pop(trouble, None) is not None:
                self._tell(trouble, None)

    def _look(self) -> None:
        for tenant in self._list_tenants():
            if tenant not in self._rounds:
                self._rounds[tenant] = _Round()

    def _place(self, tenant: str, found: _Round, now: float) -> None:
        """Looks whether a tenant is here: what one that was moved left behind is not to grow."""
        found.is_elsewhere = is_elsewhere(self._engine.recorded, tenant)
        found.placed_at = now
        if found.is_elsewhere:
            found.behind_since = 0.0

    def _seal(self, tenant: str, found: _Round, now: float) -> None:
        """Seals a journal that has something new, and lets an idle one show now and then that it is alive."""
        if found.sealer is None:
            found.sealer = self._engine.notary.sealer(tenant)
            found.sealed_at = now
        sealer = found.sealer
        if sealer.has_news():
            found.behind_since = found.behind_since or now
            sealer.seal()
            found.behind_since, found.pause = 0.0, 0.0
        elif now - found.sealed_at >= BEAT_EVERY.total_seconds() and sealer.size():
            sealer.heartbeat()
        else:
            # Agents without the keys cannot compare, so the stop after a restore must not wait for their first call.
            compare = self._engine.recorded.compare
            if compare is not None:
                compare(tenant)
            # Whoever has had nothing new for a while is looked at less often: each look is a question to the store.
            found.pause = min(found.pause * 2 or 0.05, _LONGEST_IDLE)
            found.look_at = now + found.pause
            if found.size is None:
                found.size = sealer.size()
            return
        found.size = sealer.size()
        found.sealed_at = found.look_at = now

    def _reconcile(self, tenant: str) -> None:
        """Calls effects in doubt whose worker has not reported long after its lease; probes are the programs' own."""
        store = self._engine.store
        latest = time_in(store, tenant) - GRACE
        for effect in store.abandoned(tenant, _PAGE):
            if effect.status == "processing" and effect.on_crash != "retry" and effect.is_abandoned(latest):
                self._engine.write_alone(Expire(ref=effect.ref, stamp=self._engine.mint.stamp(SYSTEM)))

    def _clear(self, tenant: str) -> None:
        """Drops what is kept aside and needed no more."""
        store = self._engine.recorded
        now = time_in(store, tenant)
        for kind in CLEARED_WHEN_DUE:
            while due := store.sheets(tenant, SheetFilter(kind=kind, due_by=now, limit=_PAGE)):
                if not store.forgetting.drop(tenant, due):
                    break

    def _prune(self, tenant: str, retain: timedelta) -> None:
        """Erases the payloads of what ended longer ago than they are to be kept, as `indelible prune` does."""
        engine = self._engine
        before = time_in(engine.store, tenant) - retain
        eraser = Eraser(engine.store, tenant, engine.write_alone, engine.mint, str)
        eraser.prune(before, by=SYSTEM, reason="retention")


class _Round:
    """Is what is known of one tenant from round to round."""

    __slots__ = (
        *("behind_since", "done_at", "is_elsewhere", "look_at", "pause", "placed_at", "sealed_at", "sealer", "size"),
    )

    def __init__(self) -> None:
        self.sealer: Sealer | None = None
        self.sealed_at = 0.0
        self.look_at = float("-inf")
        self.pause = 0.0
        self.behind_since = 0.0
        self.size: int | None = None
        self.done_at: dict[Duty, float] = {}
        self.placed_at = float("-inf")
        self.is_elsewhere = False
