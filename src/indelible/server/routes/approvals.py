"""Approvals for people and programs: look at what is asked, answer it, and give permissions ahead."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Path, Query, Response

from indelible.core.approvals.approval import Approval, ApprovalStatus
from indelible.core.approvals.grants import GrantTerms
from indelible.core.events import instant
from indelible.core.filtering.reading import parse
from indelible.core.remote.shown import plainly
from indelible.core.sheets import SheetFilter
from indelible.core.values.canonical import decode_json
from indelible.engine.running import in_own_thread
from indelible.errors import BadCall, UnknownApproval, VoteRefused
from indelible.server.requests import sequence
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.filters import Q, finding_of
from indelible.server.requests.preconditions import etag, outdated, seen_version
from indelible.server.requests.routing import answer, resources
from indelible.server.routes.effects import Before, Limit, check_names
from indelible.server.shapes.approvals import (
    ApprovalOnly,
    ApprovalPage,
    ApprovalViewShown,
    DecisionTold,
    DelegationAnswer,
    DelegationList,
    DelegationTold,
    EditTold,
    GrantAnswer,
    GrantList,
    RevocationTold,
    approval_shown,
    delegation_shown,
    grant_shown,
    view_shown,
)
from indelible.server.shapes.effects import Reason

approvals: APIRouter = resources("approvals")
Id = Annotated[str, Path(description="An approval's id, as in apr_0123.")]
IfMatch = Annotated[str | None, Header(description="The ETag seen last: 412 when it is no longer that.")]


@approvals.get("/v1/approvals", response_model=ApprovalPage)
async def list_approvals(
    status: Annotated[ApprovalStatus | None, Query()] = None,
    tool: Annotated[str | None, Query()] = None,
    run_id: Annotated[str | None, Query()] = None,
    q: Q = "",
    before: Before = None,
    limit: Limit = 100,
    asked: Asking = asking("read"),
) -> Response:
    """List approvals, newest first."""
    check_names(tool=tool, run_id=run_id, before=before)
    selected = SheetFilter(kind="approval", status=status, topic=run_id, before=before, limit=limit)
    query = parse(q, "approvals")
    found = await in_own_thread(finding_of(asked).approvals, query, selected, tool)
    pending = [approval for approval in found.things if approval.status == "pending"]
    alike = await in_own_thread(asked.ledger._approving.elsewhere, pending)
    stuck = await in_own_thread(asked.ledger._approving.stuck, pending)
    listed = [
        {
            **approval_shown(approval, stuck.get(approval.id)),
            "elsewhere": [one.shown() for one in alike.get(approval.id, ())],
        }
        for approval in found.things
    ]
    return answer({"approvals": listed, "next": found.next})


@approvals.get("/v1/approvals/{approval_id}", response_model=ApprovalViewShown)
async def show_approval(approval_id: Id, asked: Asking = asking("read")) -> Response:
    """Show everything there is to see before deciding. Looking decides nothing and leaves no trace."""
    view = await asked.ledger.view_approval(await find_approval(asked, approval_id))
    return answer(view_shown(view), 200, {"ETag": etag(view.approval.version)})


@approvals.post("/v1/approvals/{approval_id}/views", response_model=ApprovalViewShown)
async def view_approval(approval_id: Id, asked: Asking = asking("decide")) -> Response:
    """Show it, and put on the record that the caller was shown it."""
    view = await asked.ledger.view_approval(await find_approval(asked, approval_id), by=asked.actor)
    headers = await sequence.of_newest(asked, view.effect, view.approval.args_seq)
    return answer(view_shown(view), 200, {"ETag": etag(view.approval.version), **headers})


@approvals.post("/v1/approvals/{approval_id}/decisions", response_model=ApprovalOnly, status_code=201)
async def decide(
    approval_id: Id, body: DecisionTold, if_match: IfMatch = None, asked: Asking = asking("decide")
) -> Response:
    """Approve, naming the digest that was shown, or deny with a reason; with `grant`, allow more such calls as well.

    A denial needs no digest, because nothing runs on it. One that names another digest than is asked about is refused.
    """
    approval = await find_approval(asked, approval_id)
    # Of one that is over, it is told by whom it was decided, which says more than that it is another version.
    seen = seen_version(if_match, approval.version, approval.id) if approval.status == "pending" else None
    with saying_who():
        decided = await _voted(asked, approval, body, seen)
    return await _shown(asked, decided, 201)


async def _voted(asked: Asking, approval: Approval, body: DecisionTold, seen: int | None) -> Approval:
    signature = _signature(body.signature)
    if body.decision == "approve":
        if body.digest is None:
            raise BadCall(f"digest: name what you were shown; look at it: GET /v1/approvals/{approval.id}")
        return await asked.ledger.approve(
            approval,
            digest=body.digest,
            by=asked.actor,
            reason=body.reason or "approved",
            signature=signature,
            grant=_terms(body),
            version=seen,
        )
    if body.reason is None or body.grant is not None:
        raise BadCall("a denial needs a reason, and grants nothing")
    return await asked.ledger.deny(
        approval, by=asked.actor, reason=body.reason, digest=body.digest, signature=signature, version=seen
    )


def _terms(body: DecisionTold) -> GrantTerms | None:
    told = body.grant
    if told is None:
        return None
    return GrantTerms(count=told.count, until=told.until, pin=None if told.pin is None else tuple(told.pin))


def _signature(told: str | None) -> bytes | None:
    try:
        return None if told is None else b64decode(told, validate=True)
    except ValueError:
        raise BadCall("signature: base64 is expected here") from None


@contextmanager
def saying_who() -> Iterator[None]:
    """Lets a refusal also say who has decided before."""
    try:
        yield
    except VoteRefused as refused:
        raise _with_who(refused) from None


def _with_who(refused: VoteRefused) -> VoteRefused | HTTPException:
    approval = refused.approval
    if refused.code == "version":  # somebody else came in between
        return outdated(str(refused))
    if approval.status == "pending" or not approval.votes:
        return refused
    said = [
        f"{vote.by} {'approved' if vote.is_approval else 'denied'} at {instant(vote.at)}" for vote in approval.votes
    ]
    return VoteRefused(f"{refused}; {', '.join(said)}", code=refused.code, approval=approval, effect=refused.effect)


@approvals.post("/v1/approvals/{approval_id}/edit", response_model=ApprovalOnly)
async def edit(approval_id: Id, body: EditTold, if_match: IfMatch = None, asked: Asking = asking("decide")) -> Response:
    """Change the arguments that are asked about: a new digest, judged anew, and nobody has voted on it yet.

    They are written in the recorded form, as `args` of the approval shows them: a decimal is `{"$decimal": "1.1"}`.
    """
    approval = await find_approval(asked, approval_id)
    seen = seen_version(if_match, approval.version, approval.id)
    args = decode_json(body.args)  # as they are shown: an object that looks like a tag is none of the caller's
    if not isinstance(args, dict):
        raise BadCall("args: give all arguments as one JSON object, as GET shows them")
    await in_own_thread(asked.ledgers.gateway.check_edit, approval.tool, plainly(args))
    with saying_who():
        edited = await asked.ledger.edit_approval(
            approval, args, digest=body.digest, by=asked.actor, reason=body.reason, version=seen
        )
    return await _shown(asked, edited)


@approvals.post("/v1/approvals/{approval_id}/revoke", response_model=ApprovalOnly)
async def revoke(
    approval_id: Id, body: RevocationTold, if_match: IfMatch = None, asked: Asking = asking("decide")
) -> Response:
    """Take one's own approval back, as long as nothing runs on it."""
    approval = await find_approval(asked, approval_id)
    seen = seen_version(if_match, approval.version, approval.id)
    with saying_who():
        taken_back = await asked.ledger.revoke_approval(approval, by=asked.actor, reason=body.reason, version=seen)
    return await _shown(asked, taken_back)


async def find_approval(asked: Asking, approval_id: str) -> Approval:
    found = await asked.ledger.get_approval(approval_id)
    if found is None or found.id != approval_id:
        raise UnknownApproval(f"no approval of this tenant has the id {approval_id}; see: GET /v1/approvals")
    return found


async def _shown(asked: Asking, approval: Approval, status: int = 200) -> Response:
    headers = {"ETag": etag(approval.version), **await sequence.of_sheet(asked, "approval", approval.id)}
    stuck = await in_own_thread(asked.ledger._approving.stuck, [approval])
    return answer({"approval": approval_shown(approval, stuck.get(approval.id))}, status, headers)


# Permissions given ahead


@approvals.get("/v1/grants", response_model=GrantList)
async def list_grants(tool: Annotated[str | None, Query()] = None, asked: Asking = asking("read_rules")) -> Response:
    """List standing grants that have uses left."""
    check_names(tool=tool)
    return answer({"grants": [grant_shown(grant) for grant in await asked.ledger.grants(tool=tool)]})


@approvals.post("/v1/grants/{grant_id}/end", response_model=GrantAnswer)
async def end_grant(grant_id: str, body: Reason, asked: Asking = asking("permit")) -> Response:
    """Withdraw a standing grant."""
    check_names(grant_id=grant_id)
    over = await asked.ledger.end_grant(grant_id, by=asked.actor, reason=body.reason)
    return answer({"grant": grant_shown(over)}, 200, await sequence.of_sheet(asked, "grant", over.id))


@approvals.get("/v1/delegations", response_model=DelegationList)
async def list_delegations(asked: Asking = asking("read_rules")) -> Response:
    """List the delegations that have not been ended."""
    found = await asked.ledger.delegations()
    return answer({"delegations": [delegation_shown(delegation) for delegation in found]})


@approvals.post("/v1/delegations", response_model=DelegationAnswer, status_code=201)
async def delegate(body: DelegationTold, asked: Asking = asking("permit")) -> Response:
    """Let somebody else decide what the caller may decide, until a moment."""
    given = await asked.ledger.delegate(body.to, until=body.until, by=asked.actor, reason=body.reason)
    headers = await sequence.of_sheet(asked, "delegation", given.id)
    return answer({"delegation": delegation_shown(given)}, 201, headers)


@approvals.post("/v1/delegations/{delegation_id}/end", response_model=DelegationAnswer)
async def end_delegation(delegation_id: str, body: Reason, asked: Asking = asking("permit")) -> Response:
    """End a delegation before its time."""
    check_names(delegation_id=delegation_id)
    over = await asked.ledger.end_delegation(delegation_id, by=asked.actor, reason=body.reason)
    return answer({"delegation": delegation_shown(over)}, 200, await sequence.of_sheet(asked, "delegation", over.id))
