"""Approvals, grants and delegations as programs see them: the server and the command line show the same."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from indelible.core.approvals.approval import Approval, Question, Vote
from indelible.core.approvals.grants import Delegation, Grant
from indelible.core.approvals.sheets import actor_content
from indelible.core.approvals.stuck import Stuck
from indelible.core.events import instant
from indelible.core.values.canonical import encode
from indelible.core.values.differences import MISSING, Difference
from indelible.core.values.tags import base64_or_none


def approval_shown(approval: Approval, stuck: Stuck | None = None) -> dict[str, Any]:
    """Return an approval for programs; `stuck` says that no person can give it any more, where that was looked up."""
    question, requester = approval.question, approval.requester
    return {
        "id": approval.id,
        "status": approval.status,
        "version": approval.version,
        "digest": approval.digest,
        "effect_id": approval.effect_id,
        "run_id": approval.run_id,
        "for_run": approval.for_run,
        "tool": approval.tool,
        "side_effect": approval.side_effect,
        "schema": approval.schema,
        "policy": approval.policy,
        "rule": question.rule,
        "requester": actor_content(requester),
        "principal": approval.principal,
        "asked_at": instant(approval.asked_at),
        "expires_at": instant(approval.expires_at),
        "needs": needs_shown(question),
        "lacking": approval.lacking,
        "people": None if approval.people is None else {name: list(one.roles) for name, one in approval.people.items()},
        "needs_signature": question.needs_signature,
        "may_edit": question.may_edit,
        "is_sole_approver": question.is_sole_approver,
        "votes": [_vote(vote) for vote in approval.votes],
        "escalated": approval.escalated,
        "replaces": approval.replaces,
        "edited_by": approval.edited_by,
        "editors": list(approval.editors),
        "grant": approval.grant,
        "attempt": approval.attempt,
        "stuck": None if stuck is None else {"why": stuck.why, "ways": list(stuck.ways)},
    }


def needs_shown(question: Question) -> list[dict[str, Any]]:
    """Gives how many have to approve, and of which roles."""
    return [{"count": need.count, "role": need.role} for need in question.needs]


def _vote(vote: Vote) -> dict[str, Any]:
    return {
        "by": vote.by,
        "via": vote.via,
        "at": instant(vote.at),
        "is_approval": vote.is_approval,
        "on_behalf_of": vote.on_behalf_of,
        "signature": base64_or_none(vote.signature),
        "credential": vote.credential,
        "is_by_editor": vote.is_by_editor,
    }


def differences_shown(found: Iterable[Difference] | None) -> list[dict[str, Any]] | None:
    """Gives fields that differ, each side only where it is there; None where nothing was compared."""
    if found is None:
        return None
    return [{"path": one.path, **_side("before", one.before), **_side("after", one.after)} for one in found]


def _side(name: str, value: Any) -> dict[str, Any]:
    # As it is recorded: a number too long for some readers is a text there, and nobody sees another one.
    return {} if value is MISSING else {name: json.loads(encode(value))}


def grant_shown(grant: Grant) -> dict[str, Any]:
    """Gives a standing grant."""
    return {
        "id": grant.id,
        "tool": grant.tool,
        "pin": None if grant.pin is None else list(grant.pin),
        "uses_left": grant.uses_left,
        "until": instant(grant.until),
        "given_by": grant.given_by,
        "approval_id": grant.approval_id,
        "policy": grant.policy,
        "rule": grant.rule,
        "schema": grant.schema,
        "is_ended": grant.is_ended,
    }


def delegation_shown(delegation: Delegation) -> dict[str, Any]:
    """Gives a delegation."""
    return {
        "id": delegation.id,
        "giver": delegation.giver,
        "to": delegation.to,
        "until": instant(delegation.until),
        "is_ended": delegation.is_ended,
    }
