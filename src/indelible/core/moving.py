"""Moving a ledger, or one tenant of it, to another database: when it may be moved, and what is kept of it. Pure.

A tenant that is moved is stopped at the old place with a reason that says where it is now. That stop is carried along,
and is lifted only where the tenant goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from indelible.core.commands import Command, Expire, Finish, Keep, Open, Record, Relinquish
from indelible.core.effects.effect import Actor, Effect
from indelible.core.effects.stops import STOPS_RUN, Cause, Stop, let_go, stopped_for
from indelible.core.journal.journal import JOURNAL_RUN, Prove, Tree
from indelible.core.journal.merkle import is_consistent
from indelible.core.journal.notes import log_name
from indelible.core.sheets import Sheet, SheetRef, body_of
from indelible.errors import IllegalMove, Misconfigured

ORIGIN_REF = SheetRef("origin", "journal")
"""Locates what a journal was called where its tenant comes from; only a tenant that was moved has it."""

Standing = Literal["free", "carried", "left"]
"""Is how a place stands to a tenant: never seen there, there by this very move already, or once moved from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Is a tenant as one place holds it: its journal, how to prove what that begins with, and its stop."""

    tree: Tree
    prove: Prove
    stop: Stop | None

    def begins_with(self, other: Tree) -> bool:
        """Does the journal here begin with all of that one?"""
        mine = self.tree
        return other.size <= mine.size and is_consistent(
            other.size, other.root, mine.size, mine.root, self.prove(other.size)
        )


def moved_to(address: str) -> str:
    """Gives the reason with which a tenant is stopped that is moved away."""
    return f"moved to {address}"


def is_moved_away(stop: Stop | None) -> bool:
    """Does a stop say that its tenant is somewhere else now?"""
    return stop is not None and stop.cause("moved") is not None


def is_moved_elsewhere(stop: Stop | None, reason: str) -> bool:
    """Does a stop say that its tenant is at another place than the one that the reason names?"""
    return is_moved_away(stop) and not _is_leaving(stop, reason)


def stop_to_leave(last: Stop | None, tenant: str, *, by: Actor, at: datetime, reason: str) -> Stop | None:
    """Gives the stop with which a tenant leaves, also where somebody had stopped it before; None when it has it."""
    moved = None if last is None else last.cause("moved")
    if moved is None:
        return stopped_for(last, Cause("moved", by.id, at, reason))
    if moved.reason != reason:
        raise Misconfigured(f"{tenant} was {moved.reason}; what happened there since is not here: move it from there")
    return None


def stop_on_arrival(last: Stop | None, *, left_with: str, by: Actor, at: datetime, reason: str) -> Stop | None:
    """Gives what a tenant arrives with: what else had stopped it, else effects go on; None when it did not leave so."""
    return let_go(last, {"moved"}, by=by, at=at, reason=reason) if _is_leaving(last, left_with) else None


def check_goes_on_here(stop: Stop | None, tenant: str) -> None:
    """Raises `IllegalMove` when somebody wants to let effects go that go on somewhere else."""
    if stop is not None and is_moved_away(stop):
        raise IllegalMove(
            f"{tenant} was {stop.reason}, and what was done there since is not known here: it could be done twice. Use "
            "it there. If that move never came to its end, do it again; if it never will: indelible go --force"
        )


def adds_to_record(command: Command) -> bool:
    """Does a command add something to a tenant's record that is lost if the tenant goes on elsewhere?

    Claims are refused by the stop. Reports of handlers, what the journal tells of itself and the stop are let through.
    The policy is told in the journal's own run too, with a sheet, and is a person's word.
    """
    if isinstance(command, Open | Finish | Relinquish | Expire | Keep):
        return False
    if not isinstance(command, Record) or command.run_id not in (STOPS_RUN, JOURNAL_RUN):
        return True
    return command.run_id == JOURNAL_RUN and command.sheet is not None


def check_is_kept_here(stop: Stop | None, tenant: str) -> None:
    """Raises `IllegalMove` when something is to be recorded at a place that the tenant has left."""
    if stop is not None and is_moved_away(stop):
        raise IllegalMove(f"{tenant} was {stop.reason}; nothing was recorded here. Do it there")


def check_is_leaving(stop: Stop | None, tenant: str, reason: str) -> None:
    """Raises `IllegalMove` when somebody let the tenant go at the old place: it must not go on in two."""
    if not _is_leaving(stop, reason):
        raise IllegalMove(
            f"somebody let the effects of {tenant} go at the old place while it was moved, so it stays stopped at the "
            "new one; move it again"
        )


def check_is_quiet(working: Sequence[Effect], tenant: str, now: datetime) -> None:
    """Raises `IllegalMove` while a handler may be at work: it would report to the old place."""
    alive = [effect for effect in working if not effect.is_abandoned(now)]
    if alive:
        raise IllegalMove(
            f"{len(alive)} of {tenant} may be at work now, for example {alive[0].id} ({alive[0].tool}); wait until "
            "they are done, or stop their processes and wait for their leases to end, then do it again"
        )


def check_stood_still(before: Tree, now: Tree, waiting: int, tenant: str) -> None:
    """Raises `IllegalMove` when something came in while a tenant was carried: it would be left behind."""
    if now != before or waiting:
        raise IllegalMove(
            f"somebody wrote for {tenant} at the old place while it was moved; nothing was moved. Stop its programs, "
            "then do it again"
        )


def check_holds(rows: int, tenant: str, address: str) -> None:
    """Raises `Misconfigured` when a place has nothing of a tenant: then a name is wrong, or rows are hidden."""
    if rows == 0:
        raise Misconfigured(
            f"{address} holds nothing of the tenant {tenant!r}, or hides it from this user; is the name right? Connect "
            "as one who sees all rows: the owner of the tables with BYPASSRLS, or a superuser"
        )


def check_redaction(here: str | None, there: str | None, tenant: str) -> None:
    """Raises `Misconfigured` where the same secret would get another mark, and so the same call another key."""
    if here is not None and there is not None and here != there:
        raise Misconfigured(
            f"{tenant} was redacted with another key than the ledger there, so a call that was made could be made "
            "again; move it into a database whose ledger has the same redaction key, or none yet"
        )


def standing(source: Held, target: Held | None, reason: str, address: str, tenant: str) -> Standing:
    """Tells how the new place stands to a tenant; raises `Misconfigured` when it holds another one of that name."""
    if target is None:
        return "free"
    if _is_leaving(source.stop, reason) and _has_all_of(target, source, reason):
        return "carried"
    if is_moved_away(target.stop) and source.begins_with(target.tree):
        return "left"
    raise Misconfigured(
        f"{address} holds a tenant {tenant!r} already, with a history of its own; name another database"
    )


def _is_leaving(stop: Stop | None, reason: str) -> bool:
    moved = None if stop is None else stop.cause("moved")
    return moved is not None and moved.reason == reason


def _has_all_of(target: Held, source: Held, reason: str) -> bool:
    """Did the whole tenant arrive, and did it not go on to somewhere else since?"""
    has_gone_on = is_moved_elsewhere(target.stop, reason)
    return source.tree.size > 0 and not has_gone_on and target.begins_with(source.tree)


def origin_sheet(origin: str) -> Sheet:
    """Writes down what a journal was called where its tenant comes from."""
    content = {"origin": origin, "v": 1}
    return Sheet(kind=ORIGIN_REF.kind, id=ORIGIN_REF.id, status="moved", body=body_of(content))


def origin_of(ledger: str, tenant: str, kept: bytes | None) -> str:
    """Names a tenant's journal: after its ledger, or as it was called where the tenant comes from."""
    if kept is None:
        return log_name(ledger, tenant)
    return str(Sheet(kind=ORIGIN_REF.kind, id=ORIGIN_REF.id, status="moved", body=kept).read()["origin"])
