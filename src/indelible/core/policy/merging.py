"""Several verdicts on one call become one: the strictest decides, and nobody's condition is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from indelible.core.approvals.approval import Escalation, Need, Person, Question, find_person
from indelible.core.effects.identity import hashed
from indelible.core.policy.verdicts import ALLOWED, STRICTEST, Charge, Verdict
from indelible.errors import BadCall

VERSIONS_TAG = b"indelible/policies/v1\0"


def strictest(verdicts: Sequence[Verdict]) -> Verdict:
    """Gives the strictest verdict: refuse over ask over allow. Without any policy, nothing stands against a call.

    Questions become one that all of them would be content with, and charges of all hold. The version stands for all
    policies, also those that allow: an approval is for what all of them say.
    """
    if not verdicts:
        return ALLOWED
    if len(verdicts) == 1:
        return verdicts[0]
    decision = min((verdict.decision for verdict in verdicts), key=STRICTEST.index)
    deciding = [verdict for verdict in verdicts if verdict.decision == decision]
    told = Verdict(
        decision="refuse",
        rule=_joined(verdict.rule for verdict in deciding),
        policy=_version(verdict.policy for verdict in verdicts),
        why=_joined(verdict.why for verdict in deciding),
    )
    if decision == "refuse":
        return told
    try:
        question = _question([verdict.question for verdict in deciding if verdict.question is not None])
    except BadCall as problem:  # together they ask for more than one question can
        return replace(told, why=str(problem))
    charges = charged_once(charge for verdict in verdicts for charge in verdict.charges)
    return replace(told, decision=decision, question=question, charges=charges)


def _joined(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(word for word in words if word))


def _version(versions: Iterable[str]) -> str:
    known = sorted({version for version in versions if version})
    if len(known) < 2:
        return known[0] if known else ""
    return hashed(VERSIONS_TAG, *known)


def charged_once(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Charges each budget once: what two policies name alike is one budget, and the smaller limit holds."""
    found: dict[tuple[str, object], Charge] = {}
    for charge in charges:
        other = found.get((charge.budget, charge.window))
        if other is not None:
            amount, limit = max(charge.amount, other.amount), min(charge.limit, other.limit)
            charge = replace(charge, amount=amount, limit=limit)
        found[charge.budget, charge.window] = charge
    return tuple(found.values())


def _question(questions: Sequence[Question]) -> Question | None:
    return reduce(_both, questions) if questions else None


def _both(one: Question, other: Question) -> Question:
    """Gives a question whose answer satisfies both: only people that both name may decide."""
    return Question(
        rule=_joined((one.rule, other.rule)),
        needs=_needs(one.needs, other.needs),
        people=_people(one.people, other.people),
        needs_signature=one.needs_signature or other.needs_signature,
        may_edit=one.may_edit and other.may_edit,
        is_sole_approver=one.is_sole_approver and other.is_sole_approver,
        expires=min(one.expires, other.expires),
        escalations=tuple(sorted((*_steps(one, other), *_steps(other, one)), key=lambda step: step.after)),
        notify=tuple(dict.fromkeys((*one.notify, *other.notify))),
    )


def _needs(one: Sequence[Need], other: Sequence[Need]) -> tuple[Need, ...]:
    """Gives the larger of both numbers for each role: whoever agrees for one question agrees for the other too."""
    counts: dict[str | None, int] = {}
    for needs in (one, other):
        own: dict[str | None, int] = {}
        for need in needs:
            own[need.role] = own.get(need.role, 0) + need.count
        counts |= {role: max(count, counts.get(role, 0)) for role, count in own.items()}
    return tuple(Need(count, role) for role, count in counts.items())


def _people(one: Mapping[str, Person] | None, other: Mapping[str, Person] | None) -> Mapping[str, Person] | None:
    """Gives the people that both name, with the roles that both give them and the key, if they do not disagree."""
    if one is None or other is None:
        return other if one is None else one
    found = {}
    for name, person in one.items():
        same = find_person(other, name)
        if same is not None:
            roles = tuple(role for role in person.roles if role in same.roles)
            is_one_key = None in (person.key, same.key) or person.key == same.key
            found[name] = Person(roles, (person.key or same.key) if is_one_key else None)
    return found


def _steps(own: Question, other: Question) -> list[Escalation]:
    """Gives the steps of one question; whom the other does not name may not decide after an escalation either."""
    return [replace(step, people=_people(step.people, other.people) or {}) for step in own.escalations]
