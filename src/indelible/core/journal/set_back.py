"""A ledger that was set back does not know what was done since: it runs nothing until somebody has looked. Pure.

A restored backup, a copy that was used meanwhile, a standby that took over without the last commits: each would make
calls again that were made. Who signs the journal remembers how far it was, and is the one who can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from indelible.core.effects.effect import SYSTEM, Actor
from indelible.core.effects.stops import Cause, Stop, let_go, stopped_for
from indelible.core.moving import is_moved_away
from indelible.errors import IllegalMove

_SET_BACK = "set back: "
_LONGEST = 500
_THEN_GO = "If that is over: indelible go"
_MOVED = "moved to another database (which one, says only the part that is lost here)"


def stop_of_set_back(last: Stop | None, signed: int, at: datetime, *, was_moved: bool = False) -> Stop | None:
    """Return the stop of a ledger that lacks what was signed; None if it says so already, or the tenant was moved.

    Args:
        last: The newest word on the tenant's stop.
        signed: How many entries were signed.
        at: The moment.
        was_moved: Whether the tenant was moved away in the part that is lost.
    """
    if is_set_back(last) or is_moved_away(last):
        return None
    reason = (
        f"{_SET_BACK}{signed} entries were signed, and this database does not have all of them, so what was done since "
        "it was copied could be done again. Restore a newer backup, or, to go on from here: indelible journal continue"
    )
    causes = [Cause("lost", SYSTEM.id, at, reason)]
    if was_moved:
        causes.append(Cause("moved", SYSTEM.id, at, _MOVED))
    return stopped_for(last, *causes)


def stop_of_forgery(last: Stop | None, named: Sequence[str], at: datetime) -> Stop | None:
    """Return the stop of a ledger in which a program without its keys wrote; None if the stop that stands says so.

    A ledger that was set back is examined again when its loss is declared.
    """
    named = [one[:_LONGEST] for one in named]
    said = None if last is None else last.cause("forgery")
    if is_set_back(last) or is_moved_away(last) or (said is not None and all(one in said.reason for one in named)):
        return None
    reason = (
        f"changed without the keys: {'; '.join(named)}. See what else was changed: indelible verify; take out what no "
        "key holder wrote, or restore a backup; then: indelible go"
    )
    return stopped_for(last, Cause("forgery", SYSTEM.id, at, reason))


def is_set_back(stop: Stop | None) -> bool:
    """Does a stop say that the ledger was set back?"""
    return stop is not None and stop.cause("lost") is not None


def is_about_loss(stop: Stop | None, signed: int) -> bool:
    """Does a stop say that the ledger lacks some of this many entries? No clock says which loss it was."""
    cause = None if stop is None else stop.cause("lost")
    return cause is not None and cause.reason.startswith(f"{_SET_BACK}{signed} ")


def check_is_not_set_back(stop: Stop | None) -> None:
    """Raises `IllegalMove` when somebody wants to let effects go before what is lost was declared lost."""
    if stop is not None and is_set_back(stop):
        raise IllegalMove(f"{stop.reason}. If doctor says that nothing is lost any more: indelible go --force")


def way_out(stop: Stop, *, is_lost: bool | None = None) -> str | None:
    """Return the command of `indelible` that ends a stop; None for a tenant that was moved, and goes on elsewhere.

    Args:
        stop: The stop that is in force.
        is_lost: Whether the database lacks what was signed. Default: as the stop says.
    """
    if is_moved_away(stop):
        return None
    if is_set_back(stop):
        return "go --force" if is_lost is False else "journal continue"
    return "journal continue" if is_lost else "go"


def go_after_loss(last: Stop | None, at: datetime, *, was_held: bool) -> Stop | None:
    """Return what stands once the loss was declared: what else had stopped effects, else they go on.

    Args:
        last: The newest word on the tenant's stop.
        at: The moment.
        was_held: Whether effects were stopped in the part that is lost, and not let go there.
    """
    if last is None or not is_set_back(last):
        return None
    if was_held and last.cause("person") is None:
        why = "effects were stopped when the database was set back, and who stopped them and why is lost"
        last = replace(last, below=(*last.below, Cause("person", SYSTEM.id, at, f"{why}. {_THEN_GO}")))
    return let_go(last, {"lost"}, by=SYSTEM, at=at, reason="what was lost was declared lost")


def stop_on_going(last: Stop | None, *, by: Actor, at: datetime, reason: str) -> Stop | None:
    """Return what stands once a person lets effects go; None if nothing is stopped.

    A person's stop is ended last, by itself: whoever ends what the ledger found need not know of it.
    """
    if last is None or not last.is_in_force:
        return None
    ended = {cause.kind for cause in last.causes} - {"person"} or {"person"}
    return let_go(last, ended, by=by, at=at, reason=reason)
