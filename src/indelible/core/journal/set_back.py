"""A ledger that was set back does not know what was done since: it runs nothing until somebody has looked. Pure.

A restored backup, a copy that was used meanwhile, a standby that took over without the last commits: each would make
calls again that were made. Who signs the journal remembers how far it was, and is the one who can tell.
"""

from __future__ import annotations

from datetime import datetime

from indelible.core.effects.effect import SYSTEM
from indelible.core.effects.stops import Stop, stop_after
from indelible.core.moving import is_moved_away
from indelible.errors import IllegalMove

_SET_BACK = "set back: "


def stop_of_set_back(last: Stop | None, signed: int, at: datetime) -> Stop | None:
    """Gives the stop of a ledger that lacks what was signed; None where all is stopped already, whoever did it."""
    if last is not None and last.is_in_force:
        return None
    reason = (
        f"{_SET_BACK}{signed} entries were signed, and this database does not have all of them, so what was done since "
        "it was copied could be done again. Restore a newer backup, or, to go on from here: indelible journal continue"
    )
    return stop_after(last, is_in_force=True, by=SYSTEM, at=at, reason=reason)


def is_set_back(stop: Stop | None) -> bool:
    """Does a stop say that the ledger was set back?"""
    return stop is not None and stop.is_in_force and stop.by == SYSTEM.id and stop.reason.startswith(_SET_BACK)


def check_is_not_set_back(stop: Stop | None) -> None:
    """Raises `IllegalMove` when somebody wants to let effects go before what is lost was declared lost."""
    if stop is not None and is_set_back(stop):
        raise IllegalMove(f"{stop.reason}. By force, without declaring it: indelible go --force")


def way_out(stop: Stop) -> str | None:
    """Return the command of `indelible` that ends a stop; None for a tenant that was moved, and goes on elsewhere."""
    if is_moved_away(stop):
        return None
    return "journal continue" if is_set_back(stop) else "go"


def go_after_loss(last: Stop | None, at: datetime) -> Stop | None:
    """Gives what stands once the loss was declared: effects go on, unless somebody else had stopped them."""
    if last is None or not is_set_back(last):
        return None
    return stop_after(last, is_in_force=False, by=SYSTEM, at=at, reason="what was lost was declared lost")
