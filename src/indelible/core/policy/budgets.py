"""Budgets: how much may be done or spent in any stretch of time, counted in the transaction that claims.

A call reserves its amount before it may run, also while it waits for a person or is in doubt; a success spends it and a
failure gives it back. What was spent is kept in slices of the window. A slice counts until all of it has left the
window, so the limit holds for every stretch of that length, wherever it begins.

Reservations are numbered. If an old row is put back, the next reservation repeats a number, and that is how it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact
from functools import reduce
from typing import Any, NamedTuple

from indelible.core.policy.verdicts import Charge
from indelible.core.sheets import Sheet, SheetRef, Sheets, body_of, sheet_at
from indelible.core.values.canonical import decode, encode

SLICES = 60
KEPT = SLICES + 2
"""Is how many slices are kept that have left the window: as many as one can hold. They count again if the clock was
wrong, and is set back."""
_START = datetime(1970, 1, 1, tzinfo=UTC)
# Amounts have 100 digits on each side of the point at most, so sums of them are exact; if one were not, it raises.
_EXACT = Context(prec=1000, traps=[Inexact])
_TICK = timedelta(microseconds=1)


def exact_sum(one: Decimal, other: Decimal) -> Decimal:
    """Adds without rounding, whatever precision the caller's thread was set to."""
    return _EXACT.add(one, other)


@dataclass(frozen=True, slots=True)
class Budget:
    """Is how a budget stands: what is reserved, and what was spent, by when the slice of time ends it was spent in.

    `taken` counts the reservations that were ever made.

    Ends are counted in microseconds since 1970, so that they mean the same when a policy gives the budget another
    window.
    """

    reserved: Decimal
    spent: Mapping[int, Decimal]
    taken: int = 0

    def used(self, charge: Charge, now: datetime) -> Decimal:
        """Gives how much of the window that ends now is gone."""
        return reduce(exact_sum, self._within(charge, now).values(), self.reserved)

    def _within(self, charge: Charge, now: datetime) -> dict[int, Decimal]:
        oldest = _oldest(charge, now)
        return {end: amount for end, amount in self.spent.items() if end > oldest}

    def reserve(self, amount: Decimal) -> Budget:
        """Return the budget with more reserved."""
        return replace(self, reserved=exact_sum(self.reserved, amount), taken=self.taken + 1)

    def release(self, amount: Decimal) -> Budget:
        """Return the budget with less reserved, but never with less than nothing."""
        return replace(self, reserved=max(exact_sum(self.reserved, amount.copy_negate()), Decimal(0)))

    def spend(self, charge: Charge, now: datetime) -> Budget:
        """Return the budget when what was reserved is spent.

        Of what has left the window, the newest is kept: the clock may be wrong. A clock that jumps ahead and is set
        back takes nothing away that was spent.
        """
        oldest = _oldest(charge, now)
        left = sorted(end for end in self.spent if end <= oldest)
        spent = {end: self.spent[end] for end in self.spent.keys() - left[:-KEPT]}
        end = slice_end(now, charge.window)
        spent[end] = exact_sum(spent.get(end, Decimal(0)), charge.amount)
        return replace(self.release(charge.amount), spent=spent)


@dataclass(frozen=True, slots=True)
class Exceeded:
    """Says which budget is too small for a call, and how much of it is taken."""

    charge: Charge
    used: Decimal


class Reserved(NamedTuple):
    """Is what a call reserved: its charges, each with its number, and the sheets of their budgets."""

    charges: tuple[Charge, ...]
    sheets: list[Sheet]


def _oldest(charge: Charge, now: datetime) -> int:
    """Return when the window began that ends now, in microseconds since 1970."""
    return (now - charge.window - _START) // _TICK


def slice_end(now: datetime, window: timedelta) -> int:
    """Gives when the slice of the window ends that a moment lies in, in microseconds since 1970."""
    number = (now - _START) * SLICES // window
    return -(-(number + 1) * (window // _TICK) // SLICES)


def reserve(
    charges: Iterable[Charge], sheets: Sheets, now: datetime, instead_of: Iterable[Charge] = ()
) -> Reserved | Exceeded:
    """Reserves what a call takes from each of its budgets, or says which one does not have it.

    `instead_of` is what it reserved before, and gives back in the same move.
    """
    numbered = []
    charges, instead_of = tuple(charges), tuple(instead_of)
    standing = _read((*instead_of, *charges), sheets)
    for charge in instead_of:
        standing[charge.budget] = standing[charge.budget].release(charge.amount)
    for charge in charges:
        used = standing[charge.budget].used(charge, now)
        if exact_sum(used, charge.amount) > charge.limit:
            return Exceeded(charge, used)
        standing[charge.budget] = standing[charge.budget].reserve(charge.amount)
        numbered.append(replace(charge, number=standing[charge.budget].taken))
    return Reserved(tuple(numbered), _written(standing, sheets))


def release(charges: Iterable[Charge], sheets: Sheets) -> list[Sheet]:
    """Gives back what a call reserved."""
    charges = tuple(charges)
    standing = _read(charges, sheets)
    for charge in charges:
        standing[charge.budget] = standing[charge.budget].release(charge.amount)
    return _written(standing, sheets)


def spend(charges: Iterable[Charge], sheets: Sheets, now: datetime) -> list[Sheet]:
    """Spends what a call reserved."""
    charges = tuple(charges)
    standing = _read(charges, sheets)
    for charge in charges:
        budget = standing[charge.budget]
        is_kept = charge.is_of_resource  # free again as soon as its call has ended
        standing[charge.budget] = budget.release(charge.amount) if is_kept else budget.spend(charge, now)
    return _written(standing, sheets)


def budget_ref(name: str) -> SheetRef:
    """Locates a budget."""
    return SheetRef("budget", name)


def read_budget(sheet: Sheet | None) -> Budget:
    """Reads how a budget stands from its sheet; without one, nothing was ever taken."""
    if sheet is None:
        return Budget(Decimal(0), {})
    content = sheet.read()
    spent = {end: Decimal(amount) for end, amount in content["spent"]}
    return Budget(Decimal(content["reserved"]), spent, content.get("taken", 0))


def _read(charges: Iterable[Charge], sheets: Sheets) -> dict[str, Budget]:
    return {charge.budget: read_budget(sheet_at(sheets, budget_ref(charge.budget))) for charge in charges}


def _written(standing: Mapping[str, Budget], sheets: Sheets) -> list[Sheet]:
    """Writes each budget on its sheet, one change later."""
    return [_sheet_after(sheet_at(sheets, budget_ref(name)), name, budget) for name, budget in standing.items()]


def _sheet_after(before: Sheet | None, name: str, budget: Budget) -> Sheet:
    spent = [[end, str(amount)] for end, amount in sorted(budget.spent.items())]
    body = body_of({"reserved": str(budget.reserved), "spent": spent, "taken": budget.taken})
    if before is None:
        return Sheet(kind="budget", id=name, status="open", topic=name, body=body)
    return before.after(status="open", body=body)


# What an effect remembers of what it took


def charges_json(charges: Iterable[Charge]) -> bytes:
    """Gives the bytes by which an effect remembers what it reserved."""
    return encode([_items_of(charge) for charge in charges], root="charges")


def _items_of(charge: Charge) -> list[str | int]:
    number = [] if charge.number is None else [charge.number]
    return [charge.budget, str(charge.amount), str(charge.limit), charge.window // _TICK, *number]


def read_charges(recorded: bytes | None) -> tuple[Charge, ...]:
    """Reads what an effect reserved and neither spent nor gave back."""
    if recorded is None:
        return ()
    content: Any = decode(recorded)
    return tuple(
        Charge(
            budget=name,
            amount=Decimal(amount),
            limit=Decimal(limit),
            window=window * _TICK,
            number=number[0] if number else None,
        )
        for name, amount, limit, window, *number in content
    )
