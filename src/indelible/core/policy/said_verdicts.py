"""What another process says of its own call: it may be stricter with itself than the policy is, and with nobody else.

A budget is shared, and what is charged to it under another window or with another amount changes it for all. So what a
caller charges by its own rules is counted in budgets that only its own charges reach.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from indelible.core.approvals.approval import Question
from indelible.core.effects.calls import check_name
from indelible.core.effects.effect import Actor
from indelible.core.policy.verdicts import Verdict, keeping
from indelible.errors import BadCall, TooLarge

LONGEST = timedelta(days=366)
"""Is the longest time that a question may stand, or that a budget may count."""
MOST_NAMED = 100
"""Is how many people, channels, steps or budgets one verdict may name."""
_LONGEST_WORDS = 2000
_LONGEST_BUDGET = 200


def charging_themselves(verdict: Verdict, actor: Actor) -> Verdict:
    """Gives the verdict with everything charged to budgets of this caller's own."""
    charges = (
        charge if charge == keeping(charge.resource) else replace(charge, budget=f"of {actor.id}: {charge.budget}")
        for charge in verdict.charges
    )
    return replace(verdict, charges=tuple(charges)) if verdict.charges else verdict


def check_verdict(verdict: Verdict) -> None:
    """Raises `BadCall` for one that cannot be recorded, counted or asked."""
    for name, words in (("rule", verdict.rule), ("policy", verdict.policy), ("why", verdict.why)):
        _check_words(f"verdict.{name}", words)
    _check_count("verdict.charges", len(verdict.charges))
    for charge in verdict.charges:
        check_name("verdict.charges", charge.budget)
        if len(charge.budget) > _LONGEST_BUDGET:
            raise BadCall(f"verdict.charges: a budget's name has at most {_LONGEST_BUDGET} characters")
        _check_length("verdict.charges", charge.window)
    if verdict.question is not None:
        _check_question(verdict.question)


def _check_question(question: Question) -> None:
    _check_words("verdict.question", question.rule)
    _check_length("verdict.question", question.expires)
    _check_count("verdict.question", len(question.escalations))
    steps = [(question.people or {}, question.notify), *((step.people, step.notify) for step in question.escalations)]
    for people, channels in steps:
        _check_count("verdict.question", len(people) + len(channels))
        for name in (*people, *channels, *(role for person in people.values() for role in person.roles)):
            check_name("verdict.question", name)
    for step in question.escalations:
        _check_length("verdict.question", step.after)
    for need in question.needs:
        if need.role is not None:
            check_name("verdict.question", need.role)


def _check_words(name: str, words: str) -> None:
    if len(words) > _LONGEST_WORDS or "\0" in words:
        raise BadCall(f"{name}: at most {_LONGEST_WORDS} characters, and none of them NUL")


def _check_length(name: str, duration: timedelta) -> None:
    if duration > LONGEST:
        raise BadCall(f"{name}: nothing lasts longer than {LONGEST.days} days here")


def _check_count(name: str, count: int) -> None:
    if count > MOST_NAMED:
        raise TooLarge(f"{name}: at most {MOST_NAMED} can be named", limit=MOST_NAMED, size=count)
