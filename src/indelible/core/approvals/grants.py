"""Standing grants and delegations: permissions given ahead, for a while, and never for more than was named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from indelible.core.approvals.approval import (
    Approval,
    Question,
    Vote,
    folded,
    is_entitled,
    looks_like,
    may_grant,
    same_person,
    why_not_they,
)
from indelible.core.effects.identity import hashed, reach
from indelible.core.events import instant
from indelible.core.sheets import Sheet, SheetRef, body_of
from indelible.core.values.canonical import decode, encode
from indelible.errors import BadCall

APPROVALS_RUN = "indelible:approvals"
"""Is the run in which delegations, and the ends of grants, are told."""
GRANT_TAG = b"indelible/grant/v1\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantTerms:
    """Says what somebody grants with an approval: `count` more calls until `until` that agree in the pinned arguments.

    `pin` names arguments by dotted paths; None pins all of them.
    """

    count: int
    until: datetime
    pin: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1:
            raise BadCall(f"a grant is for one call or more, not for {self.count}")
        if self.pin is not None and not self.pin:
            raise BadCall("a grant that pins nothing would allow everything; name arguments, or leave pin away for all")
        if self.until.tzinfo is None:
            raise BadCall("a grant's end needs a time zone: datetime(…, tzinfo=UTC)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Allows calls of a tool without asking, as long as uses are left and what it pins and binds is the same.

    `told_by` is where its state is told, by run and number of the event, and `before` where the state before it is: so
    whoever has to forget what it pins finds all of them.
    """

    id: str
    version: int = 1
    tool: str
    pin: tuple[str, ...] | None
    pinned: str
    schema: str
    policy: str
    rule: str
    uses_left: int
    until: datetime
    given_by: str
    approval_id: str
    credential: str | None = None
    """The id of the token that it was given with, if one was."""
    on_behalf_of: str | None = None
    """The person who delegated the decision to `given_by`, if one did."""
    delegated_with: str | None = None
    """The id of the token that it was delegated with, if one was."""
    is_ended: bool = False
    before: tuple[str, int] | None = None
    told_by: tuple[str, int] | None = field(default=None, compare=False)

    def why_not(
        self,
        *,
        tool: str,
        pinned: str,
        schema: str,
        policy: str,
        question: Question,
        now: datetime,
        asked_by: Sequence[str] = (),
    ) -> str | None:
        """Says why it does not cover a call, or None when it does.

        It answers the rule that asked, and no other, and only what its giver could answer alone.
        `asked_by` names who asks and for whom: what they may not approve, they may not have granted either.
        """
        if any(looks_like(giver, name) for giver in self.givers for name in asked_by):
            return "it was given by who asks"
        if self.is_over or self.until <= now:
            return "it has ended"
        if tool != self.tool or pinned != self.pinned:
            return "its arguments are pinned to others"
        if (schema, policy) != (self.schema, self.policy):
            return "the tool or the policy has changed"
        if question.rule != self.rule:
            return "another rule asks"
        is_enough = may_grant(question, self.on_behalf_of or self.given_by)
        return None if is_enough else "who gave it may not answer this question alone"

    @property
    def givers(self) -> tuple[str, ...]:
        """The people it rests on: who gave it, and on whose behalf."""
        return tuple(name for name in (self.given_by, self.on_behalf_of) if name is not None)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The ids of the tokens that it rests on."""
        return tuple(token for token in (self.credential, self.delegated_with) if token is not None)

    @property
    def is_over(self) -> bool:
        """Was it withdrawn, or used up?"""
        return self.is_ended or self.uses_left < 1

    def used(self) -> Grant:
        """Gives the grant with one use less."""
        return replace(self._later(), uses_left=self.uses_left - 1)

    def withdrawn(self) -> Grant:
        """Gives the grant as it ends."""
        return replace(self._later(), is_ended=True)

    def _later(self) -> Grant:
        return replace(self, version=self.version + 1, before=self.told_by, told_by=None)


def pinned_digest(tenant: str, tool: str, pin: Sequence[str] | None, args_json: bytes) -> str:
    """Gives the digest of the arguments that a grant pins; a call agrees with the grant if its digest is the same."""
    if pin is None:
        return hashed(GRANT_TAG, tenant, tool, args_json)
    args: Any = decode(args_json)
    return hashed(GRANT_TAG, tenant, tool, encode({path: reach(args, path, tool) for path in pin}, root="pin"))


def grant_of(grant_id: str, approval: Approval, terms: GrantTerms, pinned: str, vote: Vote) -> Grant:
    """Return the grant that comes with a vote: for what was approved, under the same policy and schema."""
    return Grant(
        id=grant_id,
        tool=approval.tool,
        pin=terms.pin,
        pinned=pinned,
        schema=approval.schema,
        policy=approval.policy,
        rule=approval.question.rule,
        uses_left=terms.count,
        until=terms.until,
        given_by=vote.by,
        approval_id=approval.id,
        credential=vote.credential,
        on_behalf_of=vote.on_behalf_of,
        delegated_with=vote.delegated_with,
    )


def grant_ref(grant_id: str) -> SheetRef:
    """Locates a grant."""
    return SheetRef("grant", grant_id)


def grant_sheet(grant: Grant) -> Sheet:
    """Writes a grant on its sheet."""
    content = {
        "approval": grant.approval_id,
        "before": None if grant.before is None else list(grant.before),
        "credential": grant.credential,
        "delegated_with": grant.delegated_with,
        "given_by": grant.given_by,
        "id": grant.id,
        "is_ended": grant.is_ended,
        "on_behalf_of": grant.on_behalf_of,
        "pin": None if grant.pin is None else list(grant.pin),
        "pinned": grant.pinned,
        "policy": grant.policy,
        "rule": grant.rule,
        "schema": grant.schema,
        "tool": grant.tool,
        "until": instant(grant.until),
        "uses_left": grant.uses_left,
        "v": 1,
        "version": grant.version,
    }
    return Sheet(
        kind="grant",
        id=grant.id,
        version=grant.version,
        status="ended" if grant.is_over else "active",
        topic=grant.tool,
        body=body_of(content),
    )


def read_grant(sheet: Sheet) -> Grant:
    """Reads a grant from its sheet."""
    content = sheet.read()
    return Grant(
        id=sheet.id,
        version=sheet.version,
        tool=content["tool"],
        pin=None if content["pin"] is None else tuple(content["pin"]),
        pinned=content["pinned"],
        schema=content["schema"],
        policy=content["policy"],
        rule=content["rule"],
        uses_left=content["uses_left"],
        until=datetime.fromisoformat(content["until"]),
        given_by=content["given_by"],
        approval_id=content["approval"],
        credential=content["credential"],
        on_behalf_of=content["on_behalf_of"],
        delegated_with=content["delegated_with"],
        is_ended=content["is_ended"],
        before=None if content["before"] is None else (content["before"][0], content["before"][1]),
        told_by=None if sheet.run_id is None or sheet.seq is None else (sheet.run_id, sheet.seq),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """Lets `to` decide what `giver` may decide, until a moment; one person still has one vote."""

    id: str
    version: int = 1
    giver: str
    to: str
    until: datetime
    credential: str | None = None
    """The id of the token that it was given with, if one was."""
    is_ended: bool = False

    def __post_init__(self) -> None:
        if same_person(self.giver, self.to):
            raise BadCall(f"{self.giver} cannot delegate to themselves")
        if self.until.tzinfo is None:
            raise BadCall("a delegation's end needs a time zone: datetime(…, tzinfo=UTC)")

    def covers(self, name: str, now: datetime) -> bool:
        """May this person use it now?"""
        return not self.is_ended and now < self.until and same_person(name, self.to)


def delegation_ref(delegation_id: str) -> SheetRef:
    """Locates a delegation."""
    return SheetRef("delegation", delegation_id)


def delegation_sheet(delegation: Delegation) -> Sheet:
    """Writes a delegation on its sheet."""
    content: Mapping[str, Any] = {
        "credential": delegation.credential,
        "giver": delegation.giver,
        "id": delegation.id,
        "is_ended": delegation.is_ended,
        "to": delegation.to,
        "until": instant(delegation.until),
        "v": 1,
        "version": delegation.version,
    }
    return Sheet(
        kind="delegation",
        id=delegation.id,
        version=delegation.version,
        status="ended" if delegation.is_ended else "active",
        topic=folded(delegation.to),
        body=body_of(content),
    )


def read_delegation(sheet: Sheet) -> Delegation:
    """Reads a delegation from its sheet."""
    content = sheet.read()
    return Delegation(
        id=sheet.id,
        version=sheet.version,
        giver=content["giver"],
        to=content["to"],
        until=datetime.fromisoformat(content["until"]),
        credential=content["credential"],
        is_ended=content["is_ended"],
    )


def delegation_for(
    approval: Approval, name: str, delegations: Sequence[Delegation], now: datetime, *, is_approval: bool = True
) -> str | None:
    """Choose the delegation that a person needs to decide an approval; None if they may themselves, or never.

    An approval goes to a place that lacks one: the person's own if they have one, else that of a giver. Otherwise, a
    delegation whose giver may still vote comes first.
    """
    if approval.people is None:
        return None
    asked = replace(approval, question=replace(approval.question, needs_signature=False))

    def vote_for(giver: str | None) -> Vote:
        return Vote(by=name, via="process", at=now, is_approval=True, on_behalf_of=giver)

    def fills(giver: str | None) -> bool:
        return replace(asked, votes=(*asked.votes, vote_for(giver))).lacking < asked.lacking

    def is_in_vain(one: Delegation) -> bool:
        refusal = why_not_they(approval, vote_for(one.giver), "person")
        return refusal is not None and refusal.code in ("voted_already", "self_approval")

    may_themselves = is_entitled(approval, name)
    if may_themselves and (not is_approval or fills(None)):
        return None
    fitting = [one for one in delegations if one.covers(name, now) and is_entitled(approval, one.giver)]
    filling = next((one.id for one in fitting if fills(one.giver)), None)
    if may_themselves or filling is not None:
        return filling
    return next((one.id for one in sorted(fitting, key=is_in_vain)), None)
