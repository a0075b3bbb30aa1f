"""Verdicts and policies in words, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from indelible.cli.show import fields, table, visible
from indelible.core.approvals.approval import Question
from indelible.core.policy.explaining import Explanation
from indelible.core.policy.verdicts import Verdict


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Gives an explanation for programs."""
    case = explanation.case
    return {
        "verdict": verdict_json(explanation.verdict),
        "side_effect": case.asked.side_effect,
        "unknown_tool": case.is_unknown_tool,
        "unknown_fields": list(case.unknown_fields),
        "looks": [
            {"kind": look.kind, "name": look.name, "outcome": look.outcome, "why": look.why}
            for look in explanation.looks
        ],
    }


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """Gives a verdict for programs."""
    question = verdict.question
    return {
        "decision": verdict.decision,
        "rule": verdict.rule,
        "why": verdict.why,
        "policy": verdict.policy,
        "question": None if question is None else _question_json(question),
        "charges": [
            {
                "budget": charge.budget,
                "amount": str(charge.amount),
                "limit": str(charge.limit),
                "window_seconds": int(charge.window.total_seconds()),
            }
            for charge in verdict.charges
        ],
    }


def _question_json(question: Question) -> dict[str, Any]:
    return {
        "needs": [{"count": need.count, "role": need.role} for need in question.needs],
        "people": None if question.people is None else sorted(question.people),
        "signed": question.needs_signature,
        "editable": question.may_edit,
        "sole_approver": question.is_sole_approver,
        "expires_seconds": int(question.expires.total_seconds()),
        "escalate": [
            {"after_seconds": int(step.after.total_seconds()), "to": sorted(step.people), "notify": list(step.notify)}
            for step in question.escalations
        ],
        "notify": list(question.notify),
    }


def say_explanation(explanation: Explanation) -> None:
    """Prints an explanation for people: what came of each rule, then the verdict."""
    verdict, case = explanation.verdict, explanation.case
    table(("kind", "name", "outcome", "why"), [(x.kind, x.name, x.outcome, x.why) for x in explanation.looks])
    print()
    question = verdict.question
    fields(
        [
            ("verdict", verdict.decision),
            ("rule", visible(verdict.rule)),
            ("why", visible(verdict.why) if verdict.why else None),
            ("side effect", case.asked.side_effect),
            ("unknown tool", "yes" if case.is_unknown_tool else None),
            ("unknown fields", visible(", ".join(case.unknown_fields)) if case.unknown_fields else None),
            ("needs", None if question is None else _needs_words(question)),
            ("who may", None if question is None else _who_words(question)),
            ("lapses after", None if question is None else str(question.expires)),
            ("told", visible(", ".join(question.notify)) if question is not None and question.notify else None),
            *(("takes", visible(f"{x.amount} of {x.limit} from {x.budget}")) for x in verdict.charges),
            ("policy", verdict.policy),
        ]
    )


def _needs_words(question: Question) -> str:
    needs = [f"{need.count}{'' if need.role is None else f' of role {visible(need.role)}'}" for need in question.needs]
    return " and ".join(needs) + (", signed" if question.needs_signature else "")


def _who_words(question: Question) -> str:
    if question.people is None:
        return "anybody but the requester"
    return ", ".join(map(visible, question.people)) or "nobody"


def exact_json(value: Any, indent: str = "") -> str:
    """Writes content as JSON in plain ASCII, with every digit that its numbers have."""
    inner = indent + "  "
    if isinstance(value, Mapping) and value:
        members = [f"{inner}{json.dumps(name)}: {exact_json(part, inner)}" for name, part in value.items()]
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(inner + exact_json(part, inner) for part in value) + f"\n{indent}]"
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)
