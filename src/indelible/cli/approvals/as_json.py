"""Approvals, grants and delegations for programs."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from indelible import Approval
from indelible.core.approvals.approval import Person, Vote
from indelible.core.approvals.grants import Delegation, Grant
from indelible.core.events import instant
from indelible.core.values.canonical import encode
from indelible.core.values.differences import MISSING, Difference


def approval_json(approval: Approval) -> dict[str, Any]:
    """Gives an approval for programs."""
    question = approval.question
    return {
        "id": approval.id,
        "status": approval.status,
        "digest": approval.digest,
        "effect": approval.effect_id,
        "run": approval.run_id,
        "tool": approval.tool,
        "side_effect": approval.side_effect,
        "schema": approval.schema,
        "policy": approval.policy,
        "rule": question.rule,
        "requester": {"id": approval.requester.id, "kind": approval.requester.kind, "via": approval.requester.via},
        "principal": approval.principal,
        "asked_at": instant(approval.asked_at),
        "expires_at": instant(approval.expires_at),
        "needs": [{"count": need.count, "role": need.role} for need in question.needs],
        "lacking": approval.lacking,
        "people": None if approval.people is None else people_json(approval.people),
        "needs_signature": question.needs_signature,
        "may_edit": question.may_edit,
        "escalated": approval.escalated,
        "notify": list(question.notify),
        "votes": [_vote_json(vote) for vote in approval.votes],
        "replaces": approval.replaces,
        "edited_by": approval.edited_by,
        "grant": approval.grant,
        "attempt": approval.attempt,
    }


def people_json(people: Mapping[str, Person]) -> dict[str, Any]:
    """Gives who may decide, with their roles and keys."""
    return {name: {"roles": list(person.roles), "key": _base64(person.key)} for name, person in people.items()}


def _vote_json(vote: Vote) -> dict[str, Any]:
    return {
        "by": vote.by,
        "via": vote.via,
        "at": instant(vote.at),
        "is_approval": vote.is_approval,
        "on_behalf_of": vote.on_behalf_of,
        "signature": _base64(vote.signature),
    }


def differences_json(found: Iterable[Difference] | None) -> list[dict[str, Any]] | None:
    """Gives fields that differ; a side where the field is not there has no word for it."""
    if found is None:
        return None
    return [{"path": one.path, **_side("before", one.before), **_side("after", one.after)} for one in found]


def _side(name: str, value: Any) -> dict[str, Any]:
    return {} if value is MISSING else {name: json.loads(encode(value))}


def grant_json(grant: Grant) -> dict[str, Any]:
    """Gives a standing grant for programs."""
    return {
        "id": grant.id,
        "tool": grant.tool,
        "pin": None if grant.pin is None else list(grant.pin),
        "uses_left": grant.uses_left,
        "until": instant(grant.until),
        "given_by": grant.given_by,
        "approval": grant.approval_id,
        "policy": grant.policy,
        "rule": grant.rule,
        "schema": grant.schema,
        "is_ended": grant.is_ended,
    }


def delegation_json(delegation: Delegation) -> dict[str, Any]:
    """Gives a delegation for programs."""
    return {
        "id": delegation.id,
        "giver": delegation.giver,
        "to": delegation.to,
        "until": instant(delegation.until),
        "is_ended": delegation.is_ended,
    }


def _base64(raw: bytes | None) -> str | None:
    return None if raw is None else b64encode(raw).decode("ascii")
