"""How an approval stands, in words: who has to agree, who may, and how long there is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from indelible import Approval
from indelible.cli.show import age, count, timestamp, visible
from indelible.core.approvals.approval import Person, Vote


def quorum(approval: Approval) -> str:
    """Says how many have approved of how many it takes, as in `1 of 2`."""
    needed = sum(need.count for need in approval.question.needs)
    return f"{needed - approval.lacking} of {needed}"


def standing(approval: Approval, now: datetime) -> str:
    """Says how an approval stands; one whose time ran out unnoticed allows nothing, whatever its status says."""
    return "too late" if approval.is_overdue(now) else approval.status


def time_left(approval: Approval, now: datetime) -> str:
    """Says how long there is to decide, or how long ago that was."""
    if approval.expires_at <= now:
        return f"{age(approval.expires_at, now)} ago"
    return f"in {age(now, approval.expires_at)}"


def needs_words(approval: Approval) -> str:
    """Says how many people have to approve, and of which roles."""
    parts = [
        count(need.count, "person") if need.role is None else f"{need.count} of role {visible(need.role)}"
        for need in approval.question.needs
    ]
    signed = ", each with a signature of their own" if approval.question.needs_signature else ""
    return " and ".join(parts) + signed


def deciders(approval: Approval) -> str:
    """Says who may decide; where nobody is named, everybody may but those it was asked for."""
    people = approval.people
    if people is not None:
        return ", ".join(_person(name, person) for name, person in people.items()) or "nobody"
    askers = [approval.requester.id, *([] if approval.principal is None else [approval.principal])]
    return f"anybody but {' and '.join(map(visible, askers))}"


def _person(name: str, person: Person) -> str:
    roles = ", ".join(map(visible, person.roles))
    return f"{visible(name)} ({roles})" if roles else visible(name)


def asker(approval: Approval) -> str:
    """Says who asks, and for whom."""
    who = f"{visible(approval.requester.id)} ({approval.requester.kind})"
    return who if approval.principal is None else f"{who}, for {visible(approval.principal)}"


def vote_words(vote: Vote) -> str:
    """Says who voted what, when, and how we know them."""
    behalf = "" if vote.on_behalf_of is None else f" on behalf of {visible(vote.on_behalf_of)}"
    signed = "" if vote.signature is None else ", signed"
    answer = "approved" if vote.is_approval else "denied"
    answer += " their own edit" if vote.is_by_editor else ""
    return f"{visible(vote.by)}{behalf} {answer}, {timestamp(vote.at)} ({vote.via}{signed})"


def escalation_words(approval: Approval) -> Iterator[str]:
    """Says when more people are, or were, asked."""
    for number, step in enumerate(approval.question.escalations):
        who = ", ".join(_person(name, person) for name, person in step.people.items()) or "the same people"
        was = "asked" if number < approval.escalated else "to be asked"
        yield f"{who}, {was} from {timestamp(approval.asked_at + step.after)}"


def still_needed(approval: Approval) -> str:
    """Says how many approvals are still lacking."""
    return f"{count(approval.lacking, 'more approval')} {'is' if approval.lacking == 1 else 'are'} needed"
