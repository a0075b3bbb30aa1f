"""What people do about an approval: look, vote, take it back, change what is asked, and let it lapse."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from indelible.core.approvals.approval import (
    Approval,
    Refusal,
    Vote,
    ask,
    ended,
    escalated,
    is_bound_to,
    unvoted,
    voted,
    why_no_grant,
)
from indelible.core.approvals.deliveries import channels_told, deliveries_of, told_besides, told_by_more
from indelible.core.approvals.edits import is_made_besides, taken_with
from indelible.core.approvals.grants import Delegation, delegation_ref, grant_of, grant_sheet, read_delegation
from indelible.core.approvals.revoked import without_revoked
from indelible.core.approvals.sheets import approval_sheet
from indelible.core.changes import Aside, Change, Step, moved_to
from indelible.core.commands import (
    AboutApproval,
    Amend,
    Attend,
    CastVote,
    Decided,
    Illegal,
    NotCounted,
    ShowTo,
    TakeBack,
)
from indelible.core.effects.claiming import approval_of, said_by
from indelible.core.effects.effect import Actor, Effect, Status
from indelible.core.people.standing import is_token_revoked, may_permit, standing_of
from indelible.core.policy import budgets
from indelible.core.policy.budgets import Exceeded, charges_json, read_charges
from indelible.core.sheets import Sheet, Sheets, sheet_at
from indelible.core.values.canonical import encode


def about_approval(
    command: AboutApproval, effect: Effect, now: datetime, seq: int, sheets: Sheets, beside: Effect | None = None
) -> Step:
    """Decide what a person does about the approval of an effect; `beside` is what stands where an edit moves it."""
    approval = approval_of(effect, sheets)
    if approval is None or (effect.are_args_erased and not isinstance(command, Attend)):
        return Step(Illegal(effect, "was never asked about, or what was asked is erased"))
    if approval.id != command.approval_id:
        return _not(Refusal("replaced", f"was asked anew: {approval.id} is the question now"), approval, effect)
    match command:
        case CastVote():
            return _cast(command, approval, effect, now, seq, sheets)
        case TakeBack():
            return _take_back(command, approval, effect, now, seq, sheets)
        case Amend():
            return _amend(command, approval, effect, now, seq, sheets, beside)
        case ShowTo():
            return Step(Decided(approval, effect), (Change(effect, "approval_viewed", {}),))
        case Attend():
            return _attend(command, approval, effect, now, seq, sheets)
        case _:
            assert_never(command)


def _cast(command: CastVote, approval: Approval, effect: Effect, now: datetime, seq: int, sheets: Sheets) -> Step:
    actor = command.stamp.actor
    delegation = _why_revoked(actor, now, sheets) or _delegation(command, now, sheets)
    if isinstance(delegation, Refusal):
        return _not(delegation, approval, effect)
    vote = Vote(
        by=actor.id,
        via=actor.via,
        at=command.stamp.at,
        is_approval=command.is_approval,
        on_behalf_of=None if delegation is None else delegation.giver,
        signature=command.signature,
        credential=actor.credential,
        delegated_with=None if delegation is None else delegation.credential,
    )
    if any(replace(one, is_by_editor=False) == vote for one in approval.votes):
        return Step(Decided(approval, effect))  # our own write, whose answer got lost on the way
    counted = _why_no_grant(command, approval) or voted(approval, vote, command.digest, actor.kind, now)
    if isinstance(counted, Refusal):
        return _not(counted, approval, effect)
    if (outdated := _why_outdated(command, approval)) is not None:
        return _not(outdated, approval, effect)
    if command.is_approval and (altered := why_altered(approval, effect) or _why_unread(command, effect)) is not None:
        return Step(Illegal(effect, altered))
    if counted.status == "pending":
        change = Change(effect, "approval_voted", {"reason": command.detail_json}, (approval_sheet(counted),))
        return Step(Decided(counted, effect), (change,))
    if counted.status == "denied":
        given_back = budgets.release(read_charges(effect.charges_json), sheets)
        told = deliveries_of(counted, "denied", channels_told(counted, sheets), now)
        return _moved(command, replace(effect, charges_json=None), counted, seq, "denied", [*told, *given_back])
    grants: list[Sheet] = []
    counted = replace(counted, grant=None)  # one that came with a vote that fell away is not this vote's
    if command.grant is not None:
        counted = replace(counted, grant=command.grant_id)
        grants = [grant_sheet(grant_of(command.grant_id, approval, command.grant, command.pinned, vote))]
    told = deliveries_of(counted, "approved", channels_told(counted, sheets), now)
    return _moved(command, effect, counted, seq, "ready", [*told, *grants])


def _why_revoked(actor: Actor, now: datetime, sheets: Sheets) -> Refusal | None:
    """Refuse a person who does not stand, or whose token was revoked, also if they were let in a moment before."""
    if is_token_revoked(actor.credential, sheets):
        return Refusal("revoked", f"is not decided with {actor.credential}: it was revoked; use another token")
    found = standing_of(actor.id, sheets)
    why = None if found is None else found.why_not_decide(actor.id, now)
    return None if why is None else Refusal(why[0], f"is not for {actor.id} to decide: {why[1]}")


def _why_outdated(command: CastVote | TakeBack | Amend, approval: Approval) -> Refusal | None:
    """Refuses an answer to what somebody else has changed or voted on since it was shown."""
    if command.version in (None, approval.version):
        return None
    now_at = f"is at version {approval.version} now, not {command.version}"
    return Refusal("version", f"{now_at}: somebody else voted on it or changed it; look at it again")


def why_altered(approval: Approval, effect: Effect) -> str | None:
    """Says that the arguments are not those the digest is of, for somebody changed the store: nobody may approve them.

    An approval that is over, or whose arguments are erased, has nothing left to compare.
    """
    if not approval.is_open or effect.are_args_erased or effect.approval_id != approval.id:
        return None
    if is_bound_to(approval, effect, schema=approval.schema, policy=approval.policy):
        return None
    return "as it is stored is not what was asked about. Deny it, and find out who changed it: indelible verify"


def _why_unread(command: CastVote, effect: Effect) -> str | None:
    """Refuse to approve arguments that are encrypted, if the process that the vote comes to cannot open them."""
    from indelible.core.privacy.encryption import holder_in

    if command.can_read or holder_in(effect.args_json) is None:
        return None
    return "cannot be approved: its arguments are encrypted, and their data key is not here. Decide it where the key is"


def _why_no_grant(command: CastVote, approval: Approval) -> Refusal | None:
    """Refuses a grant where one person would decide for several, or where nobody signs what is granted."""
    why = None if command.grant is None else why_no_grant(approval.question)
    return None if why is None else Refusal("no_grant", why)


def _delegation(command: CastVote, now: datetime, sheets: Sheets) -> Delegation | Refusal | None:
    """Return the delegation that a vote is cast by, if it is cast by one and that still stands."""
    if command.delegation_id is None:
        return None
    sheet = sheet_at(sheets, delegation_ref(command.delegation_id))
    found = None if sheet is None or sheet.body is None else read_delegation(sheet)
    stands = found is not None and found.covers(command.stamp.actor.id, now) and may_permit(found.giver, sheets)
    if found is None or not stands or is_token_revoked(found.credential, sheets):
        return Refusal("delegation", f"{command.delegation_id} does not let {command.stamp.actor.id} decide this now")
    return found


_ENDS: dict[Status, str] = {"ready": "approval_received", "denied": "approval_denied"}


def _moved(
    command: CastVote, effect: Effect, counted: Approval, seq: int, status: Status, changed: list[Sheet]
) -> Step:
    """Gives the step by which enough people have decided."""
    sheets = (approval_sheet(counted), *changed)
    change = moved_to(command, effect, seq, status, _ENDS[status], sheets, reason=command.detail_json)
    return Step(Decided(counted, change.effect), (change,))


def _take_back(command: TakeBack, approval: Approval, effect: Effect, now: datetime, seq: int, sheets: Sheets) -> Step:
    actor = command.stamp.actor
    if actor.kind != "person":
        return _not(Refusal("not_a_person", f"is decided by people, and {actor.id} is {actor.kind}"), approval, effect)
    reopened = unvoted(approval, actor.id, now)
    if isinstance(reopened, Refusal):
        return _not(reopened, approval, effect)
    if (outdated := _why_outdated(command, approval)) is not None:
        return _not(outdated, approval, effect)
    return _reopened(command, approval, reopened, effect, now, seq, command.detail_json, sheets)


def _reopened(
    command: TakeBack | Attend,
    approval: Approval,
    reopened: Approval,
    effect: Effect,
    now: datetime,
    seq: int,
    reason: bytes,
    sheets: Sheets,
) -> Step:
    """Gives the step by which votes go, and the question stands again."""
    waiting = _waiting(effect, reopened, command, seq, reason)
    # Those who were told that it is approved are told that it is asked again.
    channels = channels_told(reopened, sheets) if approval.status == "approved" else ()
    told = deliveries_of(reopened, f"reopened-{reopened.version}", channels, now)
    change = Change(waiting, "approval_revoked", {"reason": reason}, (approval_sheet(reopened), *told))
    return Step(Decided(reopened, waiting), (change,))


def _amend(
    command: Amend,
    approval: Approval,
    effect: Effect,
    now: datetime,
    seq: int,
    sheets: Sheets,
    beside: Effect | None,
) -> Step:
    """Ask about other arguments: the policy has judged them, and earlier votes were on the old ones.

    What they take of budgets is reserved instead of what the old ones took. If they are those of another call, the edit
    takes that call's place, or is refused when the call was made.
    """
    revoked = _why_revoked(command.stamp.actor, now, sheets)
    refusal = revoked or _why_no_edit(command, approval, now) or _why_outdated(command, approval)
    refusal = refusal or _why_taken(effect, beside)
    if refusal is not None:
        return _not(refusal, approval, effect)
    had = read_charges(effect.charges_json)
    named = {charge.budget for charge in command.verdict.charges}
    # The editor's process need not know the tool, so a resource that the call keeps to itself stays its own.
    kept = [charge for charge in had if charge.is_of_resource and charge.budget not in named]
    charges = (*command.verdict.charges, *kept)
    reserved = budgets.reserve(charges, sheets, now, instead_of=had)
    if isinstance(reserved, Exceeded):
        return _not(_too_dear(reserved), approval, effect)
    charged = charges_json(reserved.charges) if charges else None
    edited = replace(effect, args_json=command.args_json, opened_seq=seq, charges_json=charged)
    asked = ask(
        approval.id,
        edited,
        command.verdict.question or approval.question,
        schema=approval.schema,
        policy=command.verdict.policy,
        requester=approval.requester,
        principal=approval.principal,
        for_run=approval.for_run,
        naming=approval.naming,
        now=now,
        replaces=approval.replaces,
    )
    asked = replace(asked, version=approval.version + 1, editors=(*approval.editors, command.stamp.actor.id))
    waiting = _waiting(edited, asked, command, seq, command.detail_json)
    told = deliveries_of(asked, f"edited-{asked.version}", channels_told(asked, sheets), now)
    committed = {"reason": command.detail_json, "args": command.args_json, **said_by(command.verdict)}
    if command.subject_json is not None:
        committed["subject"] = command.subject_json
    if charged is not None:
        committed["charges"] = charged
    change = Change(waiting, "approval_edited", committed, (approval_sheet(asked), *told, *reserved.sheets))
    return Step(
        Decided(asked, waiting),
        (change, *taken_with(command.takes, effect, approval, command.stamp.at, seq + 1, beside)),
    )


def _why_taken(effect: Effect, beside: Effect | None) -> Refusal | None:
    """Refuse an edit to a call that was made by itself: it would happen twice."""
    if beside is None or not is_made_besides(effect, beside):
        return None
    return Refusal("key_taken", f"would be the call {beside.id}, which is {beside.status}; deny this one instead")


def _too_dear(exceeded: Exceeded) -> Refusal:
    charge, used = exceeded.charge, exceeded.used
    why = f"{used} of {charge.limit} are taken, and these arguments take {charge.amount}"
    return Refusal("budget", f"would be over the budget {charge.budget!r}: {why}")


def _why_no_edit(command: Amend, approval: Approval, now: datetime) -> Refusal | None:
    actor = command.stamp.actor
    if not approval.question.may_edit:
        return Refusal("no_edit", f"may not be edited, by the rule {approval.question.rule!r}; deny it instead")
    if command.verdict.decision == "refuse":
        return Refusal("policy", f"would be refused with these arguments, by the rule {command.verdict.rule!r}")
    # Whoever edits has to be somebody who could decide; the vote itself is not counted.
    vote = Vote(by=actor.id, via=actor.via, at=command.stamp.at, is_approval=False)
    question = replace(approval.question, needs_signature=False)
    asked = replace(approval, question=question, votes=(), status="pending" if approval.is_open else approval.status)
    refusal = voted(asked, vote, command.digest, actor.kind, now)
    return refusal if isinstance(refusal, Refusal) else None


def _attend(command: Attend, approval: Approval, effect: Effect, now: datetime, seq: int, sheets: Sheets) -> Step:
    if approval.is_overdue(now):
        return _expire(command, approval, effect, now, seq, sheets)
    reopened = without_revoked(approval, sheets)
    if reopened is not None and command.stamp.actor.kind == "system":  # nobody else takes another's vote away
        reason = encode("somebody who voted on it was revoked")
        return _reopened(command, approval, reopened, effect, now, seq, reason, sheets)
    if approval.due_at is None or approval.due_at > now:
        more = told_by_more(approval, command.channels, now, sheets)
        return Step(Decided(approval, effect), (Aside(tuple(more)),) if more else ())
    later = escalated(approval, now)
    asking = later.question.notify or told_besides(approval.id, sheets)
    told = [
        message
        for number in range(approval.escalated, later.escalated)
        for message in deliveries_of(
            later, f"escalated-{number + 1}", later.question.escalations[number].notify or asking, now
        )
    ]
    change = Change(effect, "approval_escalated", {}, (approval_sheet(later), *told))
    return Step(Decided(later, effect), (change,))


def _expire(command: Attend, approval: Approval, effect: Effect, now: datetime, seq: int, sheets: Sheets) -> Step:
    """Lets an approval lapse; its effect waits for another, and holds no budget meanwhile."""
    over = ended(approval, "expired")
    reason = b'"its time ran out"'
    given_back = budgets.release(read_charges(effect.charges_json), sheets)
    waiting = replace(_waiting(effect, over, command, seq, reason), lease_until=None, charges_json=None)
    told = deliveries_of(over, "expired", channels_told(over, sheets), now)
    change = Change(waiting, "approval_expired", {"reason": reason}, (approval_sheet(over), *told, *given_back))
    return Step(Decided(over, waiting), (change,))


def _waiting(effect: Effect, approval: Approval, command: TakeBack | Amend | Attend, seq: int, reason: bytes) -> Effect:
    return effect.moved(
        status="requires_approval",
        at=command.stamp.at,
        attempt=effect.attempt,
        token_hash=effect.token_hash,
        lease_until=approval.expires_at,
        detail_seq=seq,
        detail_json=reason,
    )


def _not(refusal: Refusal, approval: Approval, effect: Effect) -> Step:
    return Step(NotCounted(refusal, approval, effect))
