"""Why a policy says what it says: looks at every rule in turn, as judging does, and tells what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from indelible.core.effects.calls import is_own_record
from indelible.core.policy.charging import BudgetRule
from indelible.core.policy.conditions import CannotTell, Case, Condition
from indelible.core.policy.policy import Asked, Policy, why_raised
from indelible.core.policy.rules import PythonRule, Rule
from indelible.core.policy.verdicts import Verdict

LookOutcome = Literal["decides", "passes", "raises", "not reached", "charges", "refuses"]


@dataclass(frozen=True, slots=True)
class Look:
    """Is what came of looking at one rule, budget or safeguard."""

    kind: Literal["safeguard", "rule", "default", "budget"]
    name: str
    outcome: LookOutcome
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Is a verdict with the looks that led to it, in their order."""

    verdict: Verdict
    case: Case
    looks: tuple[Look, ...]


def explain(policy: Policy, asked: Asked) -> Explanation:
    """Judges a call and tells how each rule, default, safeguard and budget of the policy took part."""
    cases = policy.cases_of(asked)
    judged = () if is_own_record(asked.tool, asked.side_effect) else cases
    looks = tuple(look for case in judged for look in _looks(policy, case))
    return Explanation(policy.judge(asked), cases[-1], looks)


def _looks(policy: Policy, case: Case) -> Iterator[Look]:
    barred = policy.barrier(case)
    if barred is not None:
        yield Look("safeguard", barred.rule, "refuses", barred.why)
    is_open = barred is None
    decided: Verdict | None = None
    decider: Rule | None = None
    for each in policy.rules:
        if not is_open:
            yield Look("rule", each.name, "not reached", "it was decided before")
            continue
        look, said = _look_at(policy, each, case)
        yield look
        if look.outcome != "passes":
            is_open, decided, decider = False, said, each
    if is_open:
        decided = policy.default_for(case)
        yield Look("default", decided.rule, "decides", decided.decision)
    if decided is not None and decided.decision != "refuse":
        floored = policy.floored(case, decided, decider)
        if floored is not decided:
            yield Look("safeguard", floored.rule, "refuses" if floored.decision == "refuse" else "decides", floored.why)
        if floored.decision != "refuse":
            yield from (_look_at_budget(budget, case) for budget in policy.parts.budgets)


def _look_at(policy: Policy, rule: Rule, case: Case) -> tuple[Look, Verdict | None]:
    try:
        said = rule.verdict_on(case, policy.parts.asks)
    except Exception as error:
        return Look("rule", rule.name, "raises", why_raised(error)), None
    if said is not None:
        return Look("rule", rule.name, "decides", _because(rule, said)), said
    why = "it does not apply" if isinstance(rule, PythonRule) else f"not so: {_unmet(rule.conditions, case)}"
    return Look("rule", rule.name, "passes", why), None


def _because(rule: Rule, said: Verdict) -> str:
    if isinstance(rule, PythonRule):
        return f"{said.decision}, says the function"
    conditions = "; ".join(map(str, rule.conditions)) or "it is about every call"
    return f"{said.decision}: {conditions}"


def _unmet(conditions: Iterable[Condition], case: Case) -> str:
    """Names what is not so, and not what cannot be told."""
    found = []
    for condition in conditions:
        try:
            is_met = condition.is_met(case)
        except CannotTell:
            continue
        if not is_met:
            found.append(str(condition))
    return "; ".join(found)


def _look_at_budget(budget: BudgetRule, case: Case) -> Look:
    try:
        charge = budget.charge_for(case)
    except Exception as error:
        return Look("budget", budget.name, "refuses", why_raised(error))
    if charge is None:
        return Look("budget", budget.name, "passes", f"not so: {_unmet(budget.conditions, case)}")
    why = f"takes {charge.amount} of {charge.limit} within {charge.window}, from {charge.budget}"
    return Look("budget", budget.name, "charges", why)
