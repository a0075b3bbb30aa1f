"""What an approval has to be after an event, given what it was before: asked, voted on, edited, used, ended. Pure.

The rules are the core's own; this asks them again with what the event tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from indelible.core.approvals.approval import (
    Approval,
    ApprovalStatus,
    Refusal,
    Vote,
    consumed,
    digest_with,
    ended,
    handed_back,
    unvoted,
    voted,
)
from indelible.core.effects.effect import Actor
from indelible.core.verifying.bodies import EffectBody, actor_of, commits_of, unquoted
from indelible.core.verifying.findings import Caught

STATUS_AFTER: dict[str, ApprovalStatus] = {
    "approval_requested": "pending",
    "approval_voted": "pending",
    "approval_escalated": "pending",
    "approval_revoked": "pending",
    "approval_edited": "pending",
    "approval_received": "approved",
    "approval_denied": "denied",
    "approval_expired": "expired",
    "approval_stale": "stale",
    "tool_call_started": "consumed",
    "tool_call_released": "approved",
    "tool_call_canceled": "canceled",
}
_VOTES = frozenset({"approval_voted", "approval_received", "approval_denied"})
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Is an event about an effect, as far as it matters for a permission; `names` is what it commits to."""

    tenant: str
    run_id: str
    seq: int
    type: str
    at: datetime
    actor: Actor
    effect_id: str
    tool: str
    side_effect: str
    attempt: int
    names: frozenset[str]


def telling_of(text: str, body: EffectBody) -> Telling:
    """Gives what an event tells; raises `Caught` when its time is none."""
    who, kind, via = actor_of(text)
    try:
        at = datetime.fromisoformat(body.at)
        actor = Actor(who, kind, via)  # type: ignore[arg-type]  # the grammar knows no others
    except ValueError as problem:
        raise Caught(f"its time or its actor is none: {problem}") from problem
    return Telling(
        tenant=unquote(unquoted(body.log).partition("/")[2]),  # what `log_name` made of it
        run_id=unquoted(body.run),
        seq=int(body.seq),
        type=body.type,
        at=at,
        actor=actor,
        effect_id=body.effect,
        tool=body.tool,
        side_effect=body.side_effect,
        attempt=int(body.attempt),
        names=frozenset(commits_of(body.commits)),
    )


def check_about(telling: Telling, found: Approval, key: str | None) -> None:
    """Raises unless an approval is about the effect whose event commits to it, and stands as the event says."""
    expected: dict[str, Any] = {
        "effect_id": telling.effect_id,
        "run_id": telling.run_id,
        "tool": telling.tool,
        "side_effect": telling.side_effect,
        "status": STATUS_AFTER[telling.type],
    }
    for name, value in expected.items():
        if getattr(found, name) != value:
            raise Caught(f"its approval has another {name} than it", expected=value, found=str(getattr(found, name)))
    if found.ref.tenant != telling.tenant:
        raise Caught("its approval is of another tenant", expected=telling.tenant, found=found.ref.tenant)
    if key is not None and found.ref.key != key:
        raise Caught("its approval has another key than its effect", expected=key, found=found.ref.key)
    if telling.type == "approval_received" and found.grant is None and "grant" in telling.names:
        raise Caught("its approval names no grant, and one comes with it")


def check_votes(found: Approval) -> None:
    """Raises unless enough people have approved what counts as approved."""
    lacking = found.lacking if found.status in ("approved", "consumed") else 0
    if lacking:
        raise Caught(f"{found.id} counts as {found.status}, and {lacking} of the needed approvals are lacking")


def check_asked(telling: Telling, found: Approval, replaced: str | None, editors: tuple[str, ...]) -> None:
    """Raises unless this is a question that nobody has answered yet, in the place of the one that was asked before.

    It is about the caller's arguments, or about those that the editors of the question before made of them.
    """
    fresh = replace(
        found,
        version=1,
        votes=(),
        escalated=0,
        editors=editors if found.editors and replaced is not None else (),
        grant=None,
        attempt=None,
        taken_back=(),
        requester=telling.actor,
        expires_at=found.asked_at + found.question.expires,
        replaces=replaced,
    )
    _check_same(fresh, found, "a question that was just asked has")
    if found.id == found.replaces:
        raise Caught(f"{found.id} replaces itself")


def check_args(found: Approval, args_json: bytes | None, args_seq: int | None) -> None:
    """Raises unless an approval binds these arguments, where they are shown; and names the event that has them."""
    if args_seq is not None and found.args_seq != args_seq:
        raise Caught("its approval is about other arguments", expected=f"event {args_seq}", found=str(found.args_seq))
    if args_json is None:
        return
    digest = digest_with(found, args_json)
    if digest != found.digest:
        raise Caught("its approval has another digest than what was asked", expected=digest, found=found.digest)


def check_step(telling: Telling, before: Approval, found: Approval) -> None:
    """Raises unless an approval follows from the state before it by what the event tells."""
    match telling.type:
        case _ if telling.type in _VOTES:
            expected = _voted(telling, before, found)
        case "approval_revoked":
            expected = _unvoted(telling, before, found)
        case "approval_edited":
            expected = _edited(telling, before, found)
        case "approval_escalated":
            steps = range(before.escalated, len(before.question.escalations) + 1)
            escalated = found.escalated if found.escalated in steps else before.escalated
            expected = replace(before, version=before.version + 1, escalated=escalated)
        case "tool_call_started":
            expected = consumed(before, telling.attempt)
        case "tool_call_released":
            expected = handed_back(before, telling.attempt) or before
        case _:
            expected = ended(before, STATUS_AFTER[telling.type])
    _check_same(expected, found, "by what this event tells it has")


def _unvoted(telling: Telling, before: Approval, found: Approval) -> Approval:
    """Gives an approval without the actor's own vote; the ledger itself takes those of people who were revoked."""
    if telling.actor.kind != "system":
        return _counted(unvoted(before, telling.actor.id, before.asked_at), before)
    votes = tuple(vote for vote in before.votes if vote in found.votes)
    if votes == before.votes:
        raise Caught(f"{before.id} lost no vote by this")
    return replace(before, version=before.version + 1, status="pending", votes=votes)


def _voted(telling: Telling, before: Approval, found: Approval) -> Approval:
    vote = _newest_vote(telling, found, len(before.votes))
    counted = count_vote(before, vote, telling.actor.kind)
    if counted.status != "approved":
        return counted
    # What was granted together with it is on a sheet of its own. Where nothing was, older ledgers left the name of a
    # grant whose approval had fallen away.
    is_new = "grant" in telling.names or found.grant is None
    return replace(counted, grant=found.grant) if is_new else counted


def _newest_vote(telling: Telling, found: Approval, earlier: int) -> Vote:
    """Gives the vote that an event tells of; raises unless it is there, and its actor's."""
    if len(found.votes) <= earlier:
        raise Caught("no vote came to its approval by this vote")
    vote = found.votes[-1]
    if (vote.by, vote.via, vote.at) != (telling.actor.id, telling.actor.via, telling.at):
        raise Caught("its vote is not by whom it says, or not of then", expected=telling.actor.id, found=vote.by)
    if vote.credential is not None and vote.via != "api_key":
        raise Caught("its vote names a token, and was cast without one", found=vote.credential)
    if vote.delegated_with is not None and vote.on_behalf_of is None:
        raise Caught("its vote names a token that delegated it, and was not delegated", found=vote.delegated_with)
    return vote


def count_vote(before: Approval, vote: Vote, kind: str) -> Approval:
    """Count a vote by the rules, its signature included; raise `Caught` if it does not count."""
    return _counted(voted(before, vote, before.digest, kind, vote.at), before)


def recount(telling: Telling, found: Approval) -> None:
    """Counts all votes of an approval whose state before is not shown; raises `Caught` at one that does not count."""
    newest = _newest_vote(telling, found, 0) if telling.type in _VOTES else None
    counted = replace(found, status="pending", votes=())
    for vote in found.votes:
        kind = telling.actor.kind if vote is newest else "person"
        counted = replace(count_vote(counted, vote, kind), status="pending")


def _counted(counted: Approval | Refusal, before: Approval) -> Approval:
    if isinstance(counted, Refusal):
        raise Caught(f"{before.id} {counted.why}")
    return counted


def _edited(telling: Telling, before: Approval, found: Approval) -> Approval:
    """Gives the question as it is after an edit by somebody who could decide it; nobody has voted on it yet."""
    if not before.question.may_edit:
        raise Caught(f"{before.id} may not be edited, by the rule {before.question.rule!r}")
    actor = telling.actor
    vote = Vote(by=actor.id, via=actor.via, at=telling.at, is_approval=False)
    asked = replace(before, status="pending", votes=(), question=replace(before.question, needs_signature=False))
    _counted(voted(asked, vote, before.digest, actor.kind, before.asked_at), before)
    return replace(
        before,
        version=before.version + 1,
        status="pending",
        digest=found.digest,
        policy=found.policy,
        question=found.question,
        asked_at=found.asked_at,
        expires_at=found.asked_at + found.question.expires,
        votes=(),
        escalated=0,
        editors=(*before.editors, actor.id),
        grant=None,
        args_seq=telling.seq,
        taken_back=(),
    )


def _check_same(expected: Approval, found: Approval, what: str) -> None:
    for name in Approval.__slots__:
        one, other = getattr(expected, name), getattr(found, name)
        if one != other:
            raise Caught(
                f"its approval {found.id} is not what the rules make of it: {what} another {name}",
                expected=str(one)[:_LONGEST_SHOWN],
                found=str(other)[:_LONGEST_SHOWN],
            )
