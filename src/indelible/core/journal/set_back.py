"""A ledger that was set back does not know what was done since: it runs nothing until somebody has looked. Pure.

A restored backup, a copy that was used meanwhile, a standby that took over without the last commits: each would make
calls again that were made. Who signs the journal remembers how far it was, and is the one who can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from indelible.core.effects.effect import SYSTEM, Actor
from indelible.core.effects.stops import Stop, stands_again, stop_after
from indelible.core.moving import is_moved_away
from indelible.errors import IllegalMove

_SET_BACK = "set back: "
_LONGEST = 500


def stop_of_set_back(last: Stop | None, signed: int, at: datetime) -> Stop | None:
    """Return the stop of a ledger that lacks what was signed; None if it says so already, or the tenant was moved.

    It takes the place of a person's stop, which would hide the loss and could be ended with `go`. That one holds again
    once the loss was declared: see `go_after_loss`.
    """
    if is_set_back(last) or is_moved_away(last):
        return None
    reason = (
        f"{_SET_BACK}{signed} entries were signed, and this database does not have all of them, so what was done since "
        "it was copied could be done again. Restore a newer backup, or, to go on from here: indelible journal continue"
    )
    return stop_after(last, is_in_force=True, by=SYSTEM, at=at, reason=reason)


def stop_of_forgery(last: Stop | None, named: Sequence[str], at: datetime) -> Stop | None:
    """Return the stop of a ledger in which a program without its keys wrote; None if the stop that stands says so.

    It takes the place of a person's stop, and of an older row that was put back: what was found is told once, and
    would be forgotten with `go`. A ledger that was set back is examined again when its loss is declared.
    """
    named = [one[:_LONGEST] for one in named]
    is_said = last is not None and last.by == SYSTEM.id and all(one in last.reason for one in named)
    if is_set_back(last) or is_moved_away(last) or (last is not None and last.is_in_force and is_said):
        return None
    reason = (
        f"changed without the keys: {'; '.join(named)}. See what else was changed: indelible verify; take out what no "
        "key holder wrote, or restore a backup; then: indelible go"
    )
    return stop_after(last, is_in_force=True, by=SYSTEM, at=at, reason=reason)


def is_set_back(stop: Stop | None) -> bool:
    """Does a stop say that the ledger was set back?"""
    return stop is not None and stop.is_in_force and stop.by == SYSTEM.id and stop.reason.startswith(_SET_BACK)


def is_about_loss(stop: Stop | None, signed: int) -> bool:
    """Does a stop say that the ledger lacks some of this many entries? No clock says which loss it was."""
    return stop is not None and is_set_back(stop) and stop.reason.startswith(f"{_SET_BACK}{signed} ")


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


def go_after_loss(last: Stop | None, before: Stop | None, at: datetime) -> Stop | None:
    """Return what stands once the loss was declared: the stop that a person had made before, else effects go on.

    Args:
        last: The newest word on the tenant's stop.
        before: The word before that.
        at: The moment.
    """
    if last is None or not is_set_back(last):
        return None
    earlier = before if _holds_again(before) else None
    over = stop_after(last, is_in_force=False, by=SYSTEM, at=at, reason="what was lost was declared lost")
    return stands_again(last, earlier) or over


def stop_of_lost_part(before: Stop | None, at: datetime) -> Stop:
    """Return the word before a loss where effects were stopped in the part that is lost, and not let go there."""
    if before is not None and _holds_again(before):
        return before
    reason = (
        "effects were stopped when the database was set back, and who stopped them and why is lost. If that is "
        "over: indelible go"
    )
    return stop_after(before, is_in_force=True, by=SYSTEM, at=at, reason=reason)


def _holds_again(before: Stop | None) -> bool:
    is_persons = not is_set_back(before) and not is_moved_away(before)
    return before is not None and before.is_in_force and is_persons


def stop_on_going(last: Stop | None, earlier: Stop | None, *, by: Actor, at: datetime, reason: str) -> Stop | None:
    """Return what stands once a person lets effects go: none, or the stop whose place the last one took.

    Args:
        last: The newest word on the tenant's stop.
        earlier: The newest word before it that a person said.
        by: Who lets them go.
        at: The moment.
        reason: Why.
    """
    if last is None or not last.is_in_force:
        return None
    over = stop_after(last, is_in_force=False, by=by, at=at, reason=reason)
    return stands_again(last, earlier if took_a_place(last) else None) or over


def took_a_place(stop: Stop | None) -> bool:
    """Is a stop in force that the ledger made by itself, or a move? It may have taken the place of a person's."""
    return stop is not None and stop.is_in_force and (stop.by == SYSTEM.id or is_moved_away(stop))
