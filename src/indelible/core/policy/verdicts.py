"""What a policy says about a call: allow, ask or refuse, by which rule of which policy, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from indelible.core.approvals.approval import Question
from indelible.core.values.canonical import encode
from indelible.errors import BadCall

Decision = Literal["allow", "ask", "refuse"]
MOST_DIGITS = 100
TOOL_RULE = "the tool asks"
REPEAT_RULE = "looks like a repeat"
OPEN_APPROVALS = "open approvals"
"""Is the budget of questions: each takes one of it until what was asked about has ended."""
ONE_AT_A_TIME = "one at a time: "
"""Begins the budget of a resource on which one call may be open: it has one, until that call has ended."""
STRICTEST: tuple[Decision, ...] = ("refuse", "ask", "allow")


def is_countable(amount: Decimal) -> bool:
    """Can sums of such amounts be told exactly?"""
    return not amount.is_finite() or (
        len(amount.as_tuple().digits) <= MOST_DIGITS and abs(amount.adjusted()) <= MOST_DIGITS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Is what a call takes from a budget: `limit` is how much there is in any `window`.

    `number` counts the reservations of the budget from 1. It is told once, by the event that reserves.
    """

    budget: str
    limit: Decimal
    window: timedelta
    amount: Decimal
    number: int | None = None

    @property
    def is_of_resource(self) -> bool:
        """Say whether it keeps a resource for one open call at a time."""
        return self.budget.startswith(ONE_AT_A_TIME) and self.window < timedelta(seconds=1)

    @property
    def resource(self) -> str:
        """Return the name of the resource it keeps."""
        return self.budget.removeprefix(ONE_AT_A_TIME)

    @property
    def is_of_questions(self) -> bool:
        """Does it limit how many questions are open? A budget of what is done or spent counts for a second or more."""
        return self.budget.startswith(f"{OPEN_APPROVALS} ") and self.window < timedelta(seconds=1)

    def __post_init__(self) -> None:
        if not self.amount.is_finite() or self.amount < 0:  # a negative one would make room for others
            raise BadCall(f"budget {self.budget!r}: a call takes nothing or more, not {self.amount}")
        if not is_countable(self.amount) or not is_countable(self.limit):
            raise BadCall(f"budget {self.budget!r}: amounts have {MOST_DIGITS} digits at most")
        if not self.limit.is_finite() or self.window <= timedelta(0):
            raise BadCall(f"budget {self.budget!r}: a limit is a number, in a stretch of time longer than nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Is a policy's answer. `policy` is the version it was given by: a hash of all its rules, or "" without a policy.

    `why` is for people. A question comes with `ask`; charges hold unless it refuses.
    """

    decision: Decision
    rule: str = ""
    policy: str = ""
    why: str = ""
    question: Question | None = None
    charges: tuple[Charge, ...] = ()

    def __post_init__(self) -> None:
        if self.decision not in STRICTEST or (self.decision == "ask") != (self.question is not None):
            raise BadCall(
                f"rule {self.rule!r} says {self.decision!r}: a verdict is allow, refuse, or ask with a question"
            )


ALLOWED_TOOLS_RULE = "allowed tools of the run"
UNREAD_LIMITS = Verdict(
    decision="refuse",
    rule=ALLOWED_TOOLS_RULE,
    why="what the run may do was erased, or is not what was recorded; start another run",
)
"""Is the refusal of every call of a run that had limits which nobody can read."""
ALLOWED = Verdict(decision="allow")


def verdict_json(verdict: Verdict) -> bytes:
    """Gives the bytes by which a verdict is recorded."""
    content = {"decision": verdict.decision, "policy": verdict.policy, "rule": verdict.rule, "why": verdict.why}
    return encode(content, root="verdict")


def asked_as_repeat(verdict: Verdict, terms: Question | None = None) -> Verdict:
    """Gives the verdict on a call that looks like one before: somebody is asked, unless it is refused anyway."""
    return asked_besides(verdict, REPEAT_RULE, terms)


def asked_by_tool(verdict: Verdict, terms: Question | None = None) -> Verdict:
    """Gives the verdict on a call whose tool wants somebody to be asked; what the policy says besides stays."""
    return asked_besides(verdict, TOOL_RULE, terms)


def asked_besides(verdict: Verdict, rule: str, terms: Question | None) -> Verdict:
    """Asks where no rule of the policy does, on the policy's own terms if there are any: whom it names, they decide."""
    if verdict.decision != "allow":
        return verdict
    question = Question(rule=rule) if terms is None else replace(terms, rule=rule)
    return replace(verdict, decision="ask", rule=rule, question=question)


def keeping(resource: str) -> Charge:
    """Return what a call takes that keeps a resource to itself while it is open."""
    one = Decimal(1)
    return Charge(budget=f"{ONE_AT_A_TIME}{resource}", limit=one, window=timedelta(microseconds=1), amount=one)


def capped(verdict: Verdict, caps: tuple[Charge, ...]) -> Verdict:
    """Gives the verdict with what a question takes of how many may be open; one that asks nobody takes nothing."""
    named = {charge.budget for charge in verdict.charges}
    new = tuple(cap for cap in caps if cap.budget not in named)
    return verdict if verdict.question is None or not new else replace(verdict, charges=(*verdict.charges, *new))


def is_of_the_call(verdict: Verdict) -> bool:
    """Does somebody have to be asked because the call itself wants that, and not because of any rule?"""
    return verdict.decision == "ask" and not verdict.policy and verdict.rule in (TOOL_RULE, REPEAT_RULE)
