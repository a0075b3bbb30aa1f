"""Stops all effects of a tenant, and lets them go: one write that holds for every process at once."""

from __future__ import annotations

from indelible.core.commands import Outrun, Record
from indelible.core.effects.effect import Actor
from indelible.core.effects.stops import LET_GO, STOP_REF, STOPPED, STOPS_RUN, Stop, read_stop, stop_after, stop_sheet
from indelible.core.events import facts_json
from indelible.core.sheets import SheetFilter
from indelible.core.values.canonical import encode
from indelible.engine.engine import Engine
from indelible.errors import BadCall

_TRIES = 10


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
        return self._change(by, reason, is_in_force=True)

    def go(self, by: Actor, reason: str) -> Stop | None:
        """Lets them go; None when nothing was ever stopped."""
        return None if self._last() is None else self._change(by, reason, is_in_force=False)

    def _last(self) -> Stop | None:
        found = self._engine.store.sheets(self._tenant, SheetFilter(kind=STOP_REF.kind, id=STOP_REF.id, limit=1))
        return read_stop(found[0]) if found else None

    def _change(self, by: Actor, reason: str, *, is_in_force: bool) -> Stop:
        if by.kind == "agent":
            raise BadCall(f"{by.id} is an agent; a person stops effects and lets them go")
        for _ in range(_TRIES):
            last = self._last()
            if last is not None and last.is_in_force == is_in_force:
                return last
            stamp = self._engine.mint.stamp(by)
            changed = stop_after(last, is_in_force=is_in_force, by=by, at=stamp.at, reason=reason)
            command = Record(
                tenant=self._tenant,
                run_id=STOPS_RUN,
                stamp=stamp,
                event_type=STOPPED if is_in_force else LET_GO,
                facts=facts_json({}),
                committed={"reason": encode(reason, root="reason")},
                sheet=stop_sheet(changed),
            )
            if not isinstance(self._engine.write_alone(command), Outrun):
                return changed
        raise BadCall("others stop effects and let them go all the time; agree with them, then do it again")
