"""Stops all effects of a tenant, and lets them go: one write that holds for every process at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from indelible.core.commands import Outrun
from indelible.core.effects.effect import Actor
from indelible.core.effects.stopping import telling
from indelible.core.effects.stops import STOP_REF, STOPS_RUN, Stop, read_stop, stop_after
from indelible.core.journal.set_back import check_is_not_set_back
from indelible.core.moving import check_goes_on_here, stop_on_arrival, stop_to_leave
from indelible.core.sheets import Sheet, SheetFilter
from indelible.engine.engine import Engine
from indelible.errors import BadCall

_TRIES = 10
_PAGE = 1000


class Stops:
    """Knows whether a tenant's effects are stopped, and changes it on the record."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self._engine = engine
        self._tenant = tenant

    def in_force(self) -> Stop | None:
        """Gives the stop that is in force; None when effects may be entered."""
        last = self._last()
        return last if last is not None and last.is_in_force else None

    def stop(self, by: Actor, reason: str) -> Stop:
        """Stops all effects; whoever is second finds them stopped."""
        if not reason:
            raise BadCall("say why: whoever is stopped is told, for example reason='wrong prices since 9:00'")

        def after(last: Stop | None, at: datetime) -> Stop | None:
            if last is not None and last.is_in_force:
                return None
            return stop_after(last, is_in_force=True, by=by, at=at, reason=reason)

        stopped = self._change(by, after)
        assert stopped is not None, "what was not stopped was stopped now"
        return stopped

    def go(self, by: Actor, reason: str, *, is_forced: bool = False) -> Stop | None:
        """Lets them go; None when nothing was ever stopped. By force also what moved away or was set back."""

        def after(last: Stop | None, at: datetime) -> Stop | None:
            if not is_forced:
                check_goes_on_here(last, self._tenant)
                check_is_not_set_back(last)
            if last is None or not last.is_in_force:
                return None
            return stop_after(last, is_in_force=False, by=by, at=at, reason=reason)

        return self._change(by, after)

    # While a tenant is moved to another database

    def leave(self, by: Actor, reason: str) -> bool:
        """Stops all effects with what says where the tenant is now, also where somebody else had stopped them.

        Says whether that was written now: it may be there from an earlier try, or by somebody who is at it too.
        """
        written: list[Stop] = []

        def after(last: Stop | None, at: datetime) -> Stop | None:
            stop = stop_to_leave(last, self._tenant, by=by, at=at, reason=reason)
            written[:] = [] if stop is None else [stop]
            return stop

        self._change(by, after)
        return bool(written)

    def arrive(self, by: Actor, left_with: str, reason: str) -> None:
        """Ends what `leave` began for this reason: a stop from before holds again, and else effects may go on."""
        earlier = self._before_last()

        def after(last: Stop | None, at: datetime) -> Stop | None:
            return stop_on_arrival(last, earlier, left_with=left_with, by=by, at=at, reason=reason)

        self._change(by, after)

    def _before_last(self) -> Stop | None:
        """Gives the state before the newest one, as the record tells it; one that was erased is in force."""
        newest = self._last()
        page = self._engine.store.events(self._tenant, STOPS_RUN, -1, _PAGE)
        told = list(page)
        while len(page) == _PAGE:
            page = self._engine.store.events(self._tenant, STOPS_RUN, page[-1].seq, _PAGE)
            told += page
        if newest is None or len(told) < 2:
            return None
        shown = self._engine.store.payloads(self._tenant, STOPS_RUN, [told[-2].seq])
        body = next((one.value for one in shown if one.field == STOP_REF.kind), None)
        return read_stop(Sheet(kind=STOP_REF.kind, id=STOP_REF.id, version=newest.version - 1, status="", body=body))

    # On the record

    def _last(self) -> Stop | None:
        found = self._engine.store.sheets(self._tenant, SheetFilter(kind=STOP_REF.kind, id=STOP_REF.id, limit=1))
        return read_stop(found[0]) if found else None

    def _change(self, by: Actor, after: Callable[[Stop | None, datetime], Stop | None]) -> Stop | None:
        """Writes what comes after what stands, and gives what stands then; nothing may have to be changed."""
        if by.kind == "agent":
            raise BadCall(f"{by.id} is an agent; a person stops effects and lets them go")
        for _ in range(_TRIES):
            last = self._last()
            stamp = self._engine.mint.stamp(by)
            changed = after(last, stamp.at)
            if changed is None:
                return last
            if not isinstance(self._engine.write_alone(telling(changed, self._tenant, stamp)), Outrun):
                return changed
        raise BadCall("others stop effects and let them go all the time; agree with them, then do it again")
