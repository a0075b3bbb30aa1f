"""Approvals on their sheets, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from indelible.core.approvals.approval import Approval, Escalation, Need, Person, Question, Vote
from indelible.core.effects.effect import Actor
from indelible.core.effects.identity import Ref, read_naming
from indelible.core.events import instant
from indelible.core.sheets import Sheet, SheetRef, body_of
from indelible.core.values.tags import base64_or_none, from_base64


def approval_ref(approval_id: str) -> SheetRef:
    """Locates an approval."""
    return SheetRef("approval", approval_id)


def approval_sheet(approval: Approval) -> Sheet:
    """Writes an approval on its sheet."""
    question = approval.question
    content = {
        "args_seq": approval.args_seq,
        "asked_at": instant(approval.asked_at),
        "attempt": approval.attempt,
        "digest": approval.digest,
        "editors": list(approval.editors),
        "effect": approval.effect_id,
        "escalated": approval.escalated,
        "expires_at": instant(approval.expires_at),
        "for_run": approval.for_run,
        "grant": approval.grant,
        "id": approval.id,
        "naming": approval.naming.content(),
        "place": list(approval.ref),
        "policy": approval.policy,
        "principal": approval.principal,
        "question": _question_content(question),
        "replaces": approval.replaces,
        "requester": actor_content(approval.requester),
        "run": approval.run_id,
        "schema": approval.schema,
        "side_effect": approval.side_effect,
        "status": approval.status,
        "taken_back": list(approval.taken_back),
        "tool": approval.tool,
        "v": 1,
        "version": approval.version,
        "votes": [_vote_content(vote) for vote in approval.votes],
    }
    return Sheet(
        kind="approval",
        id=approval.id,
        version=approval.version,
        status=approval.status,
        topic=approval.run_id,
        due_at=approval.due_at,
        body=body_of(content),
    )


def read_approval(sheet: Sheet) -> Approval:
    """Reads an approval from its sheet."""
    content = sheet.read()
    tenant, scope, key = content["place"]
    requester = content["requester"]
    return Approval(
        id=sheet.id,
        version=sheet.version,
        status=content["status"],
        effect_id=content["effect"],
        ref=Ref(tenant, scope, key),
        run_id=content["run"],
        for_run=content["for_run"],
        tool=content["tool"],
        side_effect=content["side_effect"],
        digest=content["digest"],
        schema=content["schema"],
        policy=content["policy"],
        question=_read_question(content["question"]),
        requester=Actor(requester["id"], requester["kind"], requester["via"]),
        principal=content["principal"],
        asked_at=datetime.fromisoformat(content["asked_at"]),
        expires_at=datetime.fromisoformat(content["expires_at"]),
        votes=tuple(_read_vote(vote) for vote in content["votes"]),
        escalated=content["escalated"],
        replaces=content["replaces"],
        editors=tuple(content["editors"]),
        grant=content["grant"],
        args_seq=content["args_seq"],
        attempt=content["attempt"],
        naming=read_naming(content["naming"]),
        taken_back=tuple(content["taken_back"]),
    )


def actor_content(actor: Actor) -> dict[str, str]:
    """Return who did something, and how we know."""
    return {"id": actor.id, "kind": actor.kind, "via": actor.via}


def _question_content(question: Question) -> dict[str, Any]:
    return {
        "escalations": [
            {"after": _micros(step.after), "notify": list(step.notify), "people": _people_content(step.people)}
            for step in question.escalations
        ],
        "expires": _micros(question.expires),
        "is_sole_approver": question.is_sole_approver,
        "may_edit": question.may_edit,
        "needs": [{"count": need.count, "role": need.role} for need in question.needs],
        "needs_signature": question.needs_signature,
        "notify": list(question.notify),
        "people": None if question.people is None else _people_content(question.people),
        "rule": question.rule,
    }


def _read_question(content: Mapping[str, Any]) -> Question:
    people = content["people"]
    return Question(
        rule=content["rule"],
        needs=tuple(Need(need["count"], need["role"]) for need in content["needs"]),
        people=None if people is None else _read_people(people),
        needs_signature=content["needs_signature"],
        may_edit=content["may_edit"],
        is_sole_approver=content["is_sole_approver"],
        expires=timedelta(microseconds=content["expires"]),
        escalations=tuple(
            Escalation(timedelta(microseconds=step["after"]), _read_people(step["people"]), tuple(step["notify"]))
            for step in content["escalations"]
        ),
        notify=tuple(content["notify"]),
    )


def _people_content(people: Mapping[str, Person]) -> list[dict[str, Any]]:
    """Lists people by their names: a name may begin with any character, and a member of an object may not."""
    return [
        {"key": base64_or_none(person.key), "name": name, "roles": list(person.roles)}
        for name, person in sorted(people.items())
    ]


def _read_people(people: Iterable[Mapping[str, Any]]) -> dict[str, Person]:
    return {person["name"]: Person(tuple(person["roles"]), from_base64(person["key"])) for person in people}


def _vote_content(vote: Vote) -> dict[str, Any]:
    return {
        "at": instant(vote.at),
        "by": vote.by,
        "credential": vote.credential,
        "delegated_with": vote.delegated_with,
        "is_approval": vote.is_approval,
        "is_by_editor": vote.is_by_editor,
        "on_behalf_of": vote.on_behalf_of,
        "signature": base64_or_none(vote.signature),
        "via": vote.via,
    }


def _read_vote(content: Mapping[str, Any]) -> Vote:
    return Vote(
        by=content["by"],
        via=content["via"],
        at=datetime.fromisoformat(content["at"]),
        is_approval=content["is_approval"],
        on_behalf_of=content["on_behalf_of"],
        signature=from_base64(content["signature"]),
        credential=content["credential"],
        delegated_with=content["delegated_with"],
        is_by_editor=content["is_by_editor"],
    )


def _micros(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
