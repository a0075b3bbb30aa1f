"""What is sent and what is answered about the policy."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from indelible.core.approvals.approval import Question
from indelible.core.effects.calls import UNNAMED_RUN
from indelible.core.policy.verdicts import Verdict
from indelible.server.shapes.approvals import NeedShown, Why, needs_shown
from indelible.server.shapes.effects import CallTold, Name, Sent


class PolicyTold(Sent):
    """Is a policy to be put in force, and why."""

    content: dict[str, Any]
    reason: Why = "applied"


class EvaluationTold(CallTold):
    """Is a call to be judged, by nobody's word but for the sake of seeing; `agent` is who would make it."""

    run_id: Name = UNNAMED_RUN
    """The run in which the call would be made."""
    agent: Name = "agent"
    principal: Name | None = None


class PolicyShown(BaseModel):
    """Is the policy in force, or null when there is none."""

    version: str | None
    content: dict[str, Any] | None


class PolicyApplied(BaseModel):
    """Names the policy that is in force now."""

    version: str


class QuestionShown(BaseModel):
    """Says who would be asked."""

    rule: str
    needs: list[NeedShown]
    people: dict[str, list[str]] | None
    needs_signature: bool
    may_edit: bool
    is_sole_approver: bool
    expires_s: float


class ChargeShown(BaseModel):
    """Is what a call would take from a budget; amounts are texts, for they are exact."""

    budget: str
    amount: str
    limit: str
    window_s: float


class VerdictShown(BaseModel):
    """Is what the policy says of a call."""

    decision: Literal["allow", "ask", "refuse"]
    rule: str
    policy: str
    why: str
    question: QuestionShown | None
    charges: list[ChargeShown]


def verdict_shown(verdict: Verdict) -> dict[str, Any]:
    """Gives what the policy says of a call."""
    question = verdict.question
    return {
        "decision": verdict.decision,
        "rule": verdict.rule,
        "policy": verdict.policy,
        "why": verdict.why,
        "question": None if question is None else _question(question),
        "charges": [
            {
                "budget": one.budget,
                "amount": str(one.amount),
                "limit": str(one.limit),
                "window_s": one.window.total_seconds(),
            }
            for one in verdict.charges
        ],
    }


def _question(question: Question) -> dict[str, Any]:
    people = question.people
    return {
        "rule": question.rule,
        "needs": needs_shown(question),
        "people": None if people is None else {name: list(one.roles) for name, one in people.items()},
        "needs_signature": question.needs_signature,
        "may_edit": question.may_edit,
        "is_sole_approver": question.is_sole_approver,
        "expires_s": question.expires.total_seconds(),
    }
