"""The judge of budgets: what was spent outside, what is reserved inside, and whether both stay within the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from indelible.core.policy.budgets import read_budget, read_charges
from indelible.core.sheets import SheetFilter
from tests.chaos.approval_reading import not_verified, reservations
from tests.chaos.approval_subject import Limit, Office, Place, Rules
from tests.chaos.oracle import Violation

LIMITS = (
    Limit(budget="rate", most=6, window=0.6),
    Limit(budget="spend", most=30, window=0.9, counts="amounts"),
)
SPENT = "spent.log"
MANY = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """One thing that was spent: when, by which call, and how much."""

    at: float
    call: str
    amount: int


def judge(place: Place) -> tuple[list[Violation], int]:
    """Compares what was spent with the budgets, and with the ledger; gives the number of times too."""
    spent = sorted(read_spent(place.world), key=lambda each: each.at)
    violations = [found for limit in LIMITS for found in exceeded(limit, spent)]
    for call, count in Counter(each.call for each in spent).items():
        if count > 1:
            violations.append(Violation("duplicate effect", call, f"spent {count} times"))
    with Office(place, Rules(limits=LIMITS)) as office:
        violations += _leaks(office)
        violations += _unaccounted(office, {each.call for each in spent})
    return [*violations, *not_verified(place)], len(spent)


def read_spent(where: Path) -> list[Spent]:
    """Reads what was spent."""
    file = where / SPENT
    lines = file.read_text().splitlines() if file.exists() else []
    return [Spent(at=float(at), call=call, amount=int(amount)) for at, call, amount in map(str.split, lines)]


def exceeded(limit: Limit, spent: Sequence[Spent]) -> Iterator[Violation]:
    """Slides the budget's stretch over what was spent, in order of time, and gives where it holds too much."""
    first, total = 0, 0
    for each in spent:
        total += _weight(limit, each)
        while spent[first].at < each.at - limit.window:
            total -= _weight(limit, spent[first])
            first += 1
        if total > limit.most:
            detail = f"{total} of {limit.most} in the {limit.window} s before {each.at}"
            yield Violation("over budget", limit.budget, detail)


def _weight(limit: Limit, spent: Spent) -> int:
    return 1 if limit.counts == "calls" else spent.amount


def unbalanced(office: Office) -> list[Violation]:
    """Compares, at one moment, what budgets hold reserved with what effects hold of them."""
    held: Counter[str] = Counter()
    charges, sheets = reservations(office.place.url, office.place.tenant)
    for charge in (charge for recorded in charges for charge in read_charges(recorded)):
        held[charge.budget] += int(charge.amount)
    reserved = {sheet.id: int(read_budget(sheet).reserved) for sheet in sheets}
    found = [
        Violation("leaked reservation", name, f"{reserved.get(name, 0)} are reserved, and effects hold {held[name]}")
        for name in {*held, *reserved}
        if held[name] != reserved.get(name, 0)
    ]
    return found + [
        Violation("over budget", limit.budget, f"{held[limit.budget]} of {limit.most} are held at one moment")
        for limit in LIMITS
        if held[limit.budget] > limit.most
    ]


def _leaks(office: Office) -> Iterator[Violation]:
    sheets = office.ledger._engine.store.sheets(office.place.tenant, SheetFilter(kind="budget"))
    if {sheet.id for sheet in sheets} != {limit.budget for limit in LIMITS}:
        yield Violation("leaked reservation", "budgets", f"there are {[sheet.id for sheet in sheets]}")
    for sheet in sheets:
        reserved = read_budget(sheet).reserved
        if reserved != 0:
            yield Violation("leaked reservation", sheet.id, f"{reserved} when all has ended")
    for effect in office.ledger.effects(limit=MANY):
        if effect.charges_json is not None:
            yield Violation("leaked reservation", effect.args["call"], f"it is {effect.status} and holds its share")


def _unaccounted(office: Office, spent: set[str]) -> Iterator[Violation]:
    statuses = {effect.args["call"]: effect.status for effect in office.ledger.effects(limit=MANY)}
    for call in spent:
        if statuses.get(call) != "succeeded":
            yield Violation("forgotten effect", call, f"it was spent, the store says {statuses.get(call)}")
    for call, status in statuses.items():
        if status == "succeeded" and call not in spent:
            yield Violation("success without effect", call, "recorded, but it never happened")
