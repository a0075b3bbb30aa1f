"""How a stop, and its end, comes on the record. Pure."""

from __future__ import annotations

from indelible.core.commands import Record, Stamp
from indelible.core.effects.stops import LET_GO, STOPPED, STOPS_RUN, Stop, stop_sheet
from indelible.core.events import facts_json
from indelible.core.values.canonical import encode


def telling(stop: Stop, tenant: str, stamp: Stamp) -> Record:
    """Gives the command that puts a stop, or its end, on the record."""
    return Record(
        tenant=tenant,
        run_id=STOPS_RUN,
        stamp=stamp,
        event_type=STOPPED if stop.is_in_force else LET_GO,
        facts=facts_json({}),
        committed={"reason": encode(stop.reason, root="reason")},
        sheet=stop_sheet(stop),
    )
