"""Budgets in policies: which calls are charged to which budget, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any

from indelible.core.policy.conditions import (
    MISSING,
    NAMES,
    Asked,
    CannotTell,
    Case,
    Condition,
    all_met,
    argument_at,
    kind_of,
    number_of,
)
from indelible.core.policy.verdicts import Charge
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Redacted

MOST_WHOLE_DIGITS = 15
MOST_DECIMALS = 9
_LONGEST_ID = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRule:
    """Charges calls to a budget: one each, or the amount that an argument says."""

    name: str
    conditions: tuple[Condition, ...]
    per: tuple[str, ...]
    limit: Decimal
    window: timedelta
    sum: str | None = None

    def charge_for(self, case: Case) -> Charge | None:
        """Gives what a call takes; None when it is none of those, and `CannotTell` when there is no telling."""
        if not all_met(self.conditions, case):
            return None
        amount = Decimal(1) if self.sum is None else _amount(case.asked, self.sum)
        return self.charge_on(case.asked, amount)

    def charge_on(self, asked: Asked, amount: Decimal) -> Charge:
        """Gives what a call takes when it takes so much."""
        return Charge(budget=self.budget_for(asked), limit=self.limit, window=self.window, amount=amount)

    def budget_for(self, asked: Asked) -> str:
        """Names the budget of this call; calls that differ in what it is counted by never share one.

        What is counted and how long is part of the name: a sum is no count, and the slices of a day are none of a week.
        """
        words: dict[str, Any] = {word: NAMES[word](asked) for word in self.per}
        words["seconds"] = self.window // timedelta(seconds=1)
        if self.sum is not None:
            words["sum"] = self.sum
        told = encode(words, root="budget").decode()
        if len(told) > _LONGEST_ID:  # stores keep it in an index
            told = f"{{#{sha256(told.encode()).hexdigest()}}}"
        return f"{self.name} {told}"


def _amount(asked: Asked, path: str) -> Decimal:
    """Return the amount as it is recorded: a budget keeps it, so one that is kept off the record is none."""
    value = argument_at(asked.args if asked.recorded_args is None else asked.recorded_args, path)
    if value is MISSING:
        raise CannotTell(f"args.{path} is missing, and it is what the budget counts")
    if isinstance(value, Redacted):
        raise CannotTell(
            f"args.{path} is redacted, and a budget records what it adds up; take it out of redact=, or count calls "
            "instead of sum"
        )
    amount = number_of(value)
    if amount is None:
        raise CannotTell(f"args.{path} is {kind_of(value)}, and not an amount")
    if amount.is_signed() and amount != 0:
        raise CannotTell(f"args.{path} is negative, and no amount")
    if not is_countable(amount):
        limits = f"{MOST_WHOLE_DIGITS} digits before the point and {MOST_DECIMALS} after it"
        raise CannotTell(f"args.{path} has more than {limits}, so sums of it would not be exact")
    return amount or Decimal(0)


def is_countable(amount: Decimal) -> bool:
    """Can many of these be added up without rounding?"""
    exponent = amount.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -MOST_DECIMALS and amount.adjusted() < MOST_WHOLE_DIGITS


def is_budget(rule: str) -> bool:
    """Is this the name of a budget, and not of a rule? No rule has a brace in its name."""
    return "{" in rule
