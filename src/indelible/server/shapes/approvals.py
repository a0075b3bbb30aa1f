"""What is sent and what is answered about approvals, grants and delegations."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from indelible.core.approvals.approval import ApprovalStatus
from indelible.core.approvals.shown import approval_shown as approval_shown  # the command line shows the same
from indelible.core.approvals.shown import delegation_shown as delegation_shown
from indelible.core.approvals.shown import differences_shown as differences_shown
from indelible.core.approvals.shown import grant_shown as grant_shown
from indelible.core.approvals.shown import needs_shown as needs_shown
from indelible.core.effects.effect import Status
from indelible.core.values.canonical import encode
from indelible.engine.approving import ApprovalView
from indelible.server.shapes.effects import (
    EffectShown,
    Moment,
    Name,
    Sent,
    effect_shown,
)

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="The digest that was shown.")]
Why = Annotated[str, Field(min_length=1, max_length=10_000)]

# What is sent


class GrantTold(Sent):
    """Allows `count` more calls until `until` that agree in the arguments that `pin` names; null pins all of them."""

    count: Annotated[int, Field(ge=1, le=1_000_000)]
    until: Moment
    pin: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None


class DecisionTold(Sent):
    """Answers a question. An approval names the digest that was seen. A denial needs a reason, and no digest."""

    decision: Literal["approve", "deny"]
    digest: Digest | None = None
    reason: Why | None = None
    grant: GrantTold | None = None
    signature: Annotated[str, Field(max_length=200, description="Ed25519 over what was shown, in base64.")] | None = (
        None
    )


class EditTold(Sent):
    """Changes the arguments that are asked about: nobody has voted on these yet."""

    args: dict[str, Any]
    digest: Digest
    reason: Why = "edited"


class RevocationTold(Sent):
    """Takes one's own approval back."""

    reason: Why = "taken back"


class DelegationTold(Sent):
    """Lets somebody else decide what the caller may decide, until a moment."""

    to: Name
    until: Moment
    reason: Why = "delegated"


# What is answered


class ActorShown(BaseModel):
    """Says who did something, and how we know."""

    id: str
    kind: str
    via: str


class NeedShown(BaseModel):
    """Says how many have to approve, and of which role."""

    count: int
    role: str | None


class VoteShown(BaseModel):
    """Is one person's answer."""

    by: str
    via: str
    at: str
    is_approval: bool
    on_behalf_of: str | None
    signature: str | None
    credential: Annotated[str | None, Field(description="The API key that it was cast with.")]
    is_by_editor: Annotated[bool, Field(description="The same person edited the arguments and approved them.")]


class StuckShown(BaseModel):
    """Says why no person can give an approval any more, and the ways out."""

    why: str
    ways: list[str]


class ApprovalShown(BaseModel):
    """Is a question about one exact call, and how it stands."""

    id: str
    status: ApprovalStatus
    version: int
    digest: str
    effect_id: str
    run_id: str
    for_run: Annotated[str, Field(description="The run that asked, and the only one that may use the approval.")]
    tool: str
    side_effect: str
    schema_hash: Annotated[str, Field(alias="schema")]
    policy: str
    rule: str
    requester: ActorShown
    principal: str | None
    asked_at: str
    expires_at: str
    needs: list[NeedShown]
    lacking: int
    people: dict[str, list[str]] | None
    needs_signature: bool
    may_edit: bool
    is_sole_approver: Annotated[bool, Field(description="May the one eligible person confirm their own edit?")]
    votes: list[VoteShown]
    escalated: int
    replaces: str | None
    edited_by: str | None
    editors: Annotated[list[str], Field(description="Everybody who edited the arguments; they cannot approve them.")]
    grant: str | None
    attempt: int | None
    stuck: StuckShown | None = Field(
        description="Why no person can give it any more. Looked up when approvals are listed or one is shown."
    )


class DifferenceShown(BaseModel):
    """Is a field that differs; a side where it is not there has no member."""

    path: str
    before: Any = None
    after: Any = None


class ElsewhereShown(BaseModel):
    """Is a call of the last day with the same tool and arguments, in another run or under another key."""

    effect_id: str
    run_id: str
    status: Status
    at: Annotated[str, Field(description="When it was opened.")]


class ApprovalListed(ApprovalShown):
    """Is a question in a list."""

    elsewhere: Annotated[list[ElsewhereShown], Field(description="The same call elsewhere; only while it is pending.")]


class ApprovalAnswer(BaseModel):
    """Holds a question and the effect it is about."""

    approval: ApprovalShown
    effect: EffectShown


class CloselyShown(BaseModel):
    """Is a place in the arguments that a person should read twice."""

    path: str
    why: str


class ApprovalViewShown(ApprovalAnswer):
    """Is everything to see before deciding: the exact arguments, what changed, and what is unusual.

    `args` is in the recorded form, and an edit is sent in it: a decimal is `{"$decimal": "1.1"}`. `args_json`
    is the text whose bytes the digest is of: whoever hashes it need not believe what else is said here.
    """

    args: Any
    args_json: str
    look_closely: Annotated[list[CloselyShown], Field(description="Where a text may deceive the eye, and why.")]
    changed: list[DifferenceShown] | None
    unusual: list[DifferenceShown] | None
    previous: Annotated[str | None, Field(description="The question before, about this tool in this run.")]
    since_previous: list[DifferenceShown] | None
    elsewhere: list[ElsewhereShown]


class ApprovalOnly(BaseModel):
    """Holds a question."""

    approval: ApprovalShown


class ApprovalPage(BaseModel):
    """Lists approvals, newest first; pass `next` as `before` for the next page."""

    approvals: list[ApprovalListed]
    next: str | None


class GrantShown(BaseModel):
    """Allows calls without asking, as long as uses are left."""

    id: str
    tool: str
    pin: list[str] | None
    uses_left: int
    until: str
    given_by: str
    approval_id: str
    policy: str
    rule: str
    schema_hash: Annotated[str, Field(alias="schema")]
    is_ended: bool


class GrantAnswer(BaseModel):
    """Holds a grant."""

    grant: GrantShown


class GrantList(BaseModel):
    """Lists grants that have uses left."""

    grants: list[GrantShown]


class DelegationShown(BaseModel):
    """Lets somebody decide what somebody else may decide."""

    id: str
    giver: str
    to: str
    until: str
    is_ended: bool


class DelegationAnswer(BaseModel):
    """Holds a delegation."""

    delegation: DelegationShown


class DelegationList(BaseModel):
    """Lists delegations that have not been ended."""

    delegations: list[DelegationShown]


def view_shown(view: ApprovalView) -> dict[str, Any]:
    """Gives everything to see before deciding."""
    args_json = encode(view.args)
    return {
        "approval": approval_shown(view.approval, view.stuck),
        "effect": effect_shown(view.effect),
        "args": json.loads(args_json),
        "args_json": args_json.decode(),
        "look_closely": view.shown.as_json()["look_closely"],
        "changed": differences_shown(view.changed),
        "unusual": differences_shown(view.unusual),
        "previous": None if view.previous is None else view.previous.id,
        "since_previous": differences_shown(view.since_previous),
        "elsewhere": [one.shown() for one in view.elsewhere],
    }
