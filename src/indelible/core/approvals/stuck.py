"""Approvals that no person can give any more: recognised, with the reason and the ways out. Pure.

It decides nothing. The rules about single votes are those by which votes are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from indelible.core.approvals.approval import Approval, Person, Vote, counting_votes, lacking, roles_of, why_not_they
from indelible.core.approvals.revoked import behind_votes, standing_votes
from indelible.core.people.standing import may_permit, place_of, standing_of
from indelible.core.sheets import SheetRef, Sheets


@dataclass(frozen=True, slots=True)
class Stuck:
    """Says why no person can give an approval any more, and what to do instead."""

    why: str
    ways: tuple[str, ...]


def people_named(approval: Approval) -> set[SheetRef]:
    """Locate the people and tokens on whom an approval depends, to be read before `why_stuck` is asked."""
    return {*map(place_of, _everyone(approval).people or ()), *behind_votes(approval.votes)}


def why_stuck(approval: Approval, sheets: Sheets) -> Stuck | None:
    """Return why a pending approval can never get the votes it lacks; None if it can, or is not pending.

    People to whom it is escalated later count, and so do votes that stand. People who may decide nothing do not, nor
    the requester, nor people without a key where votes are signed.
    """
    if approval.status != "pending":
        return None
    asked = _everyone(approval)
    people = asked.people
    if people is None:
        if not asked.question.needs_signature:
            return None  # anyone but the requester may decide
        return Stuck("it needs signed votes, and its rule names no person with a key", _ways(approval, (), sheets))
    asked = replace(asked, votes=standing_votes(asked, sheets))
    unable = dict(_excluded(asked, people, sheets))
    voters = [vote.on_behalf_of or vote.by for vote in counting_votes(asked)]
    able = [name for name in people if name not in unable]
    if lacking(asked.question.needs, [roles_of(people, name) for name in (*voters, *able)]) == 0:
        return None
    needed = " and ".join(
        f"{need.count} of role {need.role}" if need.role else f"{need.count}" for need in asked.question.needs
    )
    left = ", ".join((*voters, *able)) or "none"
    others = "".join(f"; {name} {why}" for name, why in unable.items() if name not in voters)
    revoked = tuple(name for name in unable if not may_permit(name, sheets))
    why = f"it needs the approval of {needed}; of its people, these gave it or still can: {left}{others}"
    return Stuck(why, _ways(approval, revoked, sheets))


def _excluded(asked: Approval, people: Mapping[str, Person], sheets: Sheets) -> Iterator[tuple[str, str]]:
    """Name the people whose vote would not count, each with the reason; one of two look-alikes is among them."""
    question = replace(asked.question, needs_signature=False)
    counted = replace(asked, question=question)
    for name, person in people.items():
        vote = Vote(by=name, via="process", at=asked.asked_at, is_approval=True)
        refusal = why_not_they(counted, vote, "person")
        if not may_permit(name, sheets):
            yield name, _why_out(name, sheets)
        elif refusal is not None:
            yield name, _WHY.get(refusal.code, refusal.code)
        elif asked.question.needs_signature and person.key is None:
            yield name, "has no key to sign with"
        else:
            counted = replace(counted, votes=(*counted.votes, vote))


_WHY = {
    "self_approval": "asked for it",
    "voted_already": "has voted, or has the name of one who has",
    "not_entitled": "has none of the roles",
    "taken_back": "took a signed approval back",
}


def _everyone(approval: Approval) -> Approval:
    """Return the approval as it is when it was escalated to all its people."""
    return replace(approval, escalated=len(approval.question.escalations))


def _why_out(name: str, sheets: Sheets) -> str:
    """Say why nothing counts that a person permits."""
    found = standing_of(name, sheets)
    if found is None or found.is_revoked:
        return "was revoked"
    return f"has only the scope {', '.join(found.scopes)}" if found.scopes else "is not let in by the provider any more"


def _issuer(name: str, sheets: Sheets) -> str | None:
    """Return the provider whose rules keep a person out; None if they were revoked, or are the ledger's own."""
    found = standing_of(name, sheets)
    return None if found is None or found.is_revoked else found.issuer


def _ways(approval: Approval, out: tuple[str, ...], sheets: Sheets) -> tuple[str, ...]:
    convert = {name: "" if _issuer(name, sheets) is None else " --convert" for name in out}
    again = tuple(
        f"let {name} in again: indelible people invite {name} --scope approver{option}"
        for name, option in convert.items()
    )
    return (
        *again,
        "add a person or a role to the policy, apply it, and make the call again: it is asked anew",
        f"withdraw it: indelible effects cancel {approval.effect_id} --reason REASON",
    )
