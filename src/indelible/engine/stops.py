"""Stops all effects of a tenant, and lets them go: one write that holds for every process at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from indelible.core.commands import Outrun
from indelible.core.effects.effect import Actor
from indelible.core.effects.stopping import telling
from indelible.core.effects.stops import Stop, stop_by_person
from indelible.core.journal.set_back import check_is_not_set_back, stop_on_going
from indelible.core.moving import check_goes_on_here, stop_on_arrival, stop_to_leave
from indelible.engine.engine import Engine
from indelible.errors import BadCall
from indelible.journal.sealing import stop_of

_TRIES = 10


class Stops:
    """Knows whether a tenant's effects are stopped, and changes it on the record."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self._engine = engine
        self._tenant = tenant

    def in_force(self) -> Stop | None:
        """Gives the stop that is in force; None when effects may be entered."""
        last = stop_of(self._engine.store, self._tenant)
        return last if last is not None and last.is_in_force else None

    def stop(self, by: Actor, reason: str) -> Stop:
        """Stop all effects. If a person stopped them before, return that stop."""
        if not reason:
            raise BadCall("say why: whoever is stopped is told, for example reason='wrong prices since 9:00'")

        def after(last: Stop | None, at: datetime) -> Stop | None:
            return stop_by_person(last, by=by, at=at, reason=reason)

        stopped = self._change(by, after)
        assert stopped is not None, "what was not stopped was stopped now"
        return stopped

    def go(self, by: Actor, reason: str, *, is_forced: bool = False) -> Stop | None:
        """Let effects go; return None when nothing was ever stopped. By force also what moved away or was set back.

        A person's stop ends last: while the ledger has causes of its own, those end and the person's stop stays.
        What was signed is compared first: a database that was set back may hold the stop that it was copied with.
        """
        compare = self._engine.recorded.compare
        if not is_forced and compare is not None:
            compare(self._tenant)

        def after(last: Stop | None, at: datetime) -> Stop | None:
            if not is_forced:
                check_goes_on_here(last, self._tenant)
                check_is_not_set_back(last)
            return stop_on_going(last, by=by, at=at, reason=reason)

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
        """Ends what `leave` began for this reason: what else had stopped effects holds, and else they go on."""

        def after(last: Stop | None, at: datetime) -> Stop | None:
            return stop_on_arrival(last, left_with=left_with, by=by, at=at, reason=reason)

        self._change(by, after)

    # On the record

    def _change(self, by: Actor, after: Callable[[Stop | None, datetime], Stop | None]) -> Stop | None:
        """Writes what comes after what stands, and gives what stands then; nothing may have to be changed."""
        if by.kind == "agent":
            raise BadCall(f"{by.id} is an agent; a person stops effects and lets them go")
        for _ in range(_TRIES):
            last = stop_of(self._engine.store, self._tenant)
            stamp = self._engine.mint.stamp(by)
            changed = after(last, stamp.at)
            if changed is None:
                return last
            if not isinstance(self._engine.write_alone(telling(changed, self._tenant, stamp)), Outrun):
                return changed
        raise BadCall("others stop effects and let them go all the time; agree with them, then do it again")
