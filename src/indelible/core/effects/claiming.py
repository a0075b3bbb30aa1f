"""Who may enter a handler now: opens effects, takes attempts, and asks or refuses where that is called for.

Every way into a handler leads through `opened` or `claim`. Both look at the verdict that came with the command, at the
budgets it charges, and at what people said about this effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from indelible.core.approvals.approval import (
    Approval,
    Question,
    Vote,
    ask,
    consumed,
    drifted,
    ended,
    is_bound_to,
    looks_like,
    names_in,
)
from indelible.core.approvals.deliveries import channels_told, deliveries_of
from indelible.core.approvals.edits import is_made_besides, taken_with
from indelible.core.approvals.grants import grant_ref, grant_sheet, read_grant
from indelible.core.approvals.revoked import standing_votes
from indelible.core.approvals.sheets import approval_ref, approval_sheet, read_approval
from indelible.core.changes import Change, Fact, Step
from indelible.core.commands import (
    ApprovalEnded,
    ArgsErased,
    AwaitingApproval,
    Claimed,
    EditRead,
    EditUnread,
    KeyTaken,
    Open,
    OverBudget,
    RefusedByPolicy,
)
from indelible.core.effects.calls import OnCrash
from indelible.core.effects.effect import GRANT_MARK, Claim, Effect, asked_by, doubted_next, hash_of
from indelible.core.effects.identity import digest_of, without
from indelible.core.effects.turns import first_turn
from indelible.core.events import facts_json
from indelible.core.people.standing import is_token_revoked, may_permit
from indelible.core.policy import budgets
from indelible.core.policy.budgets import Exceeded, charges_json, read_charges
from indelible.core.policy.verdicts import Verdict, verdict_json
from indelible.core.sheets import Sheet, Sheets, sheet_at
from indelible.core.values.canonical import decode, encode

_FASTEST_CLOCK = timedelta(minutes=1)
_ASKED_BEFORE = Question(rule="it was asked before")


def opened(command: Open, now: datetime, seq: int, sheets: Sheets) -> Step:
    """Makes the effect; its first state already says whether it may run, so no crash can skip the question."""
    verdict = command.verdict
    if verdict.decision == "refuse":
        return _refused(command, None)
    reserved = budgets.reserve(verdict.charges, sheets, now)
    if isinstance(reserved, Exceeded):
        return _over_budget(command, None, reserved)
    grant = _use_of_grant(command, now, sheets)
    asks = verdict.question is not None and not grant
    holder = command.stamp.actor.holder
    effect = Effect(
        tenant=command.ref.tenant,
        scope=command.ref.scope,
        key=command.ref.key,
        id=command.effect_id,
        run_id=command.run_id,
        tool=command.tool,
        side_effect=command.side_effect,
        on_crash=_on_crash(command, now),
        call_id=command.call_id,
        digest=command.digest,
        status="requires_approval" if asks else "processing",
        attempt=0 if asks else 1,
        version=1,
        token_hash=asked_by(holder) if asks else hash_of(command.token, holder),
        lease_until=None if asks else now + command.lease,
        opened_seq=seq,
        detail_seq=None,
        created_at=command.stamp.at,
        updated_at=command.stamp.at,
        args_json=command.args_json,
        detail_json=None,
        permission_id=_mark_of(grant),
        charges_json=charges_json(reserved.charges) if reserved.charges else None,
        turn=first_turn(command.turn),
    )
    committed = {"args": command.args_json, "key": bytes.fromhex(command.ref.key)}
    committed |= _about(command.subject_json) | said_by(verdict)
    if effect.charges_json is not None:
        committed["charges"] = effect.charges_json
    if asks:
        assert verdict.question is not None
        return _asking(command, effect, verdict.question, now, committed, reserved.sheets)
    change = Change(effect, "tool_call_started", committed, (*grant, *reserved.sheets))
    return Step(Claimed(Claim(effect, command.token, holder=holder)), (change,))


def _on_crash(command: Open, now: datetime) -> OnCrash:
    """Return what happens in doubt. A caller whose clock is fast gets no window: its time would stretch it."""
    is_fast = command.stamp.at > now + _FASTEST_CLOCK
    return "hold" if command.on_crash == "resend" and is_fast else command.on_crash


def claim(command: Open, effect: Effect, now: datetime, seq: int, sheets: Sheets, beside: Effect | None = None) -> Step:
    """Takes the next attempt of an effect if that is allowed, else says who has to be asked or what stands against it.

    An approval that was used holds for the attempts after a crash, of tools that may be repeated, one after the other:
    each of them takes it over from the one before. Once somebody was
    asked, somebody has to answer, also if the policy would let the call pass by now. The verdict is about the arguments
    of this call: an effect with others, by an edit, runs on an approval of those or not at all. Before it does, its
    caller reads them as the tool will, and judges them.

    `beside` is what stands at the place of the call that an edit is by that reading.
    """
    step = _claim(command, effect, now, seq, sheets)
    if command.edit is None or command.edit.takes is None or not isinstance(step.answer, AwaitingApproval):
        return step
    if is_made_besides(effect, beside):
        assert beside is not None
        return Step(KeyTaken(beside))
    asked = step.answer
    changed = seq + len(step.changes)
    taken = taken_with(command.edit.takes, asked.effect, asked.approval, command.stamp.at, changed, beside)
    return replace(step, changes=(*step.changes, *taken))


def _claim(command: Open, effect: Effect, now: datetime, seq: int, sheets: Sheets) -> Step:
    if effect.are_args_erased:
        return Step(ArgsErased(effect))
    if command.edit is not None and not _is_edit_read(command.edit, effect):
        return Step(EditUnread(effect))
    if command.edit is None and _is_hidden(command, effect):
        return Step(EditUnread(effect))
    if command.verdict.decision == "refuse":
        return _refused(command, effect)
    approval = approval_of(effect, sheets)
    if approval is not None and approval.is_open:
        return _claim_approved(command, effect, approval, now, seq, sheets)
    is_waiting = effect.status == "requires_approval"
    if is_waiting and approval is not None and approval.id == command.awaited_approval:
        return Step(ApprovalEnded(approval, effect))
    if approval is not None and _is_covered(command, effect, approval, sheets):
        if _is_unread(command, effect):
            return Step(EditUnread(effect))
        return _attempt(command, effect, now, sheets, (approval_sheet(consumed(approval, effect.attempt + 1)),))
    if _has_same_args(command, effect, approval) and not _is_read_otherwise(command):
        grant = _use_of_grant(command, now, sheets)
        # What was used, or is gone from its place, allows nothing more: a retry after doubt takes a permission anew.
        was_asked = is_waiting or effect.permission_id is not None
        if grant or (command.verdict.question is None and not was_asked):
            return _attempt(command, effect, now, sheets, grant)
    question = command.verdict.question or (_ASKED_BEFORE if approval is None else approval.question)
    return _ask(command, effect, question, now, seq, sheets, approval, ())


def _claim_approved(command: Open, effect: Effect, approval: Approval, now: datetime, seq: int, sheets: Sheets) -> Step:
    """Uses an approval, if it is of exactly what would run and has been given in time."""
    end = _ending(command, effect, approval, now, sheets)
    if end is None:
        if _is_unread(command, effect):
            return Step(EditUnread(effect))
        if effect.status != "ready" or approval.status != "approved" or approval.for_run != command.run_id:
            return Step(AwaitingApproval(approval, effect))  # the run that asked uses it, and no other
        return _attempt(command, effect, now, sheets, (approval_sheet(consumed(approval, effect.attempt + 1)),))
    ending = _ended(command, effect, approval, end, now, seq, sheets)
    is_same_call = command.edit is not None  # it is asked about as the tool reads it, and the caller waits for that
    if approval.id == command.awaited_approval and not is_same_call:
        return Step(ApprovalEnded(ended(approval, end), ending.effect), (ending,))
    if end == "stale" and command.awaited_approval is not None and not is_same_call:
        # Somebody else asks about something else by now. Whoever waited is told so: were they to ask anew, those two
        # would make each other's questions stale in turns, as fast as they can.
        return Step(ApprovalEnded(approval, effect))
    question = command.verdict.question or approval.question
    freed = {**sheets, **{sheet.ref: sheet for sheet in ending.sheets}}
    step = _ask(command, ending.effect, question, now, seq + 1, freed, approval, (ending,))
    if isinstance(step.answer, OverBudget):  # then nothing is asked in its place, and it stays as it is
        return _over_budget(command, effect, step.answer.exceeded)
    return step


def _ending(
    command: Open, effect: Effect, approval: Approval, now: datetime, sheets: Sheets
) -> Literal["expired", "stale"] | None:
    """Says how an open approval ends unused, if it does: too late, or no longer about what would run."""
    if approval.is_overdue(now):
        return "expired"
    is_other = is_other_content(command, effect) and not _is_edited_to(command, effect, approval)
    is_other = is_other or has_other_injected(command, effect) or _is_read_otherwise(command)
    if is_other or not _is_bound(command, effect, approval):
        return "stale"
    # A run that waited with the one that asked goes on waiting for it; one that comes later asks by itself.
    is_of_another = approval.for_run != command.run_id and approval.id != command.awaited_approval
    if is_of_another and approval.status == "approved":
        return "stale"
    return "stale" if approval.status == "approved" and _lacks_votes(command, effect, approval, sheets) else None


def _is_covered(command: Open, effect: Effect, approval: Approval, sheets: Sheets) -> bool:
    """Does the approval that the last attempt ran on hold for the next one too, after a crash?"""
    is_its_own = approval.status == "consumed" and approval.attempt == effect.attempt
    is_its_own = is_its_own and approval.for_run == command.run_id
    has_crashed = effect.status in ("processing", "in_doubt") and not has_other_injected(command, effect)
    is_bound = is_its_own and has_crashed and _is_bound(command, effect, approval)
    is_bound = is_bound and not _is_read_otherwise(command)
    return is_bound and not _lacks_votes(command, effect, approval, sheets)


def _is_edit_read(edit: EditRead, effect: Effect) -> bool:
    """Say whether the caller read the effect as it is now; if not, its verdict is about other arguments."""
    return edit.version == effect.version and (not edit.is_exact or edit.args_json == effect.args_json)


def _is_unread(command: Open, effect: Effect) -> bool:
    """Would other arguments run than the caller has read and judged? Encrypted ones always look like others."""
    return command.edit is None and effect.args_json != command.args_json


def _is_read_otherwise(command: Open) -> bool:
    """Say whether the caller's tool would run with other arguments than a person approved."""
    return command.edit is not None and not command.edit.is_exact


def _is_bound(command: Open, effect: Effect, approval: Approval) -> bool:
    return is_bound_to(approval, effect, schema=command.schema, policy=command.verdict.policy)


def _lacks_votes(command: Open, effect: Effect, approval: Approval, sheets: Sheets) -> bool:
    """Are there too few votes for what the policy asks now, or asked of an edit? A status alone allows nothing.

    Votes of people who were revoked since do not count, and neither do those of the person in whose name this call is
    made: another agent may have asked, and no person approves their own call.
    """
    is_judged = command.edit is not None or _has_same_args(command, effect, approval)
    question = command.verdict.question if is_judged else None
    votes = _votes_for(command, approval, sheets)
    return replace(approval, question=question or approval.question, votes=votes).lacking > 0


def _votes_for(command: Open, approval: Approval, sheets: Sheets) -> tuple[Vote, ...]:
    """Return the votes that still stand and are not by the caller or the person the caller acts for."""
    callers = _callers(command)
    return tuple(
        vote
        for vote in standing_votes(approval, sheets)
        if not any(looks_like(name, caller) for name in names_in(vote) for caller in callers)
    )


def _callers(command: Open) -> tuple[str, str]:
    """Return who makes the call, and for whom."""
    return command.stamp.actor.id, command.principal or command.stamp.actor.id


def _has_same_args(command: Open, effect: Effect, approval: Approval | None) -> bool:
    """Would this run what the call says, and what the policy has judged with it?"""
    if effect.digest != command.digest or effect.args_json == command.args_json:
        return effect.digest == command.digest or _is_edited_to(command, effect, approval)
    # Its caller has read what is hidden, and says what is judged: then only an edit makes others of them.
    return _is_hidden(command, effect) and (approval is None or approval.edited_by is None)


def _is_hidden(command: Open, effect: Effect) -> bool:
    """Say whether a data key hides if the call says what is recorded: its caller can open that, and judges it then.

    The digest leaves out arguments that vary, and the same ones are other bytes under another key.
    """
    if effect.digest != command.digest or effect.args_json == command.args_json:
        return False
    from indelible.core.privacy.encryption import holder_in  # a key is rare, and this takes long to load

    return holder_in(effect.args_json) is not None or holder_in(command.args_json) is not None


def is_reworded(command: Open, effect: Effect, sheets: Sheets) -> bool:
    """Say whether this is the recorded call with other words in arguments that vary, and nothing else changed."""
    if not command.omitted or effect.args_json is None or effect.args_json == command.args_json:
        return False
    if _is_hidden(command, effect):
        return False  # its caller opens and reads them first
    if has_other_injected(command, effect):
        return False  # what a framework supplies now would run, and not what is recorded
    said = without(effect.args_json, command.omitted)
    if not digest_of(effect.tenant, effect.tool, said, command.resource_json) == effect.digest == command.digest:
        return False  # an approver changed more than words, or a hand in the database did
    approval = approval_of(effect, sheets)
    return effect.approval_id is None or (approval is not None and approval.edited_by is None)


def has_other_injected(command: Open, effect: Effect) -> bool:
    """Say whether a framework supplies other arguments now than those that are recorded.

    Under a data key nobody can tell here; the adapter compares them again before it enters the tool.
    """
    if not command.injected or effect.args_json is None or effect.args_json == command.args_json:
        return False
    recorded, given = decode(effect.args_json), decode(command.args_json)
    if not isinstance(recorded, dict) or not isinstance(given, dict):
        return False
    return any(encode(recorded.get(name)) != encode(given.get(name)) for name in command.injected)


def is_other_content(command: Open, effect: Effect) -> bool:
    """Does this call say something else? Nobody can tell once the arguments are erased; the key is the same."""
    return effect.digest != command.digest and not effect.are_args_erased


def is_key_taken(command: Open, effect: Effect) -> bool:
    """Say whether another call has this key, and may not share it."""
    return is_other_content(command, effect) and not _may_be_other(command, effect)


def _may_be_other(command: Open, effect: Effect) -> bool:
    """Say whether a call with other content may have this key.

    With key fields, what a person was asked about and was never entered is asked about anew: the old question ends
    stale, and nothing was done under this key. What is settled replays only if the caller says on_reuse="replay".
    A key of ours names its tool; one that was taken over from another ledger may not.
    """
    is_asked_about = effect.approval_id is not None and effect.attempt == 0
    replays = effect.is_settled and command.on_reuse == "replay"
    return command.has_key_fields and command.tool == effect.tool and (replays or is_asked_about)


def _is_edited_to(command: Open, effect: Effect, approval: Approval | None) -> bool:
    """Say whether an approver edited the effect to be exactly this call."""
    return approval is not None and bool(approval.editors) and effect.args_json == command.args_json


def _ended(
    command: Open,
    effect: Effect,
    approval: Approval,
    end: Literal["expired", "stale"],
    now: datetime,
    seq: int,
    sheets: Sheets,
) -> Change:
    """Gives the change by which an approval ends unused; its effect waits for another, and holds no budget."""
    over = ended(approval, end)
    names = drifted(
        approval,
        schema=command.schema,
        policy=command.verdict.policy,
        run_id=command.run_id,
        are_args_other=is_other_content(command, effect)
        or has_other_injected(command, effect)
        or _is_read_otherwise(command),
    )
    has_all_votes = _votes_for(command, approval, sheets) == approval.votes
    changed = ", ".join(names) or ("what is stored of it" if has_all_votes else "who may decide it")
    reason = encode("its time ran out" if end == "expired" else f"changed since it was asked: {changed}")
    waiting = replace(_waiting(command, effect), detail_seq=seq, detail_json=reason, charges_json=None)
    told = deliveries_of(over, end, channels_told(approval, sheets), now)
    given_back = budgets.release(read_charges(effect.charges_json), sheets)
    return Change(waiting, f"approval_{end}", {"reason": reason}, (approval_sheet(over), *told, *given_back))


def _ask(
    command: Open,
    effect: Effect,
    question: Question,
    now: datetime,
    seq: int,
    sheets: Sheets,
    previous: Approval | None,
    before: tuple[Change, ...],
) -> Step:
    """Asks about an effect that is there already; with other arguments than before, it is about these from now on."""
    waiting, committed = _waiting(command, effect), said_by(command.verdict)
    are_args_new = command.edit is not None or not _has_same_args(command, effect, previous)
    if are_args_new:
        args_json = command.args_json if command.edit is None else command.edit.args_json
        waiting = replace(waiting, args_json=args_json, digest=command.digest, opened_seq=seq)
        if waiting.attempt == 0:  # it is their call now
            waiting = replace(waiting, token_hash=asked_by(command.stamp.actor.holder))
        committed |= {"args": args_json} | _about(command.subject_read)
    charged = _charged(command, waiting, sheets, now, are_args_new=are_args_new)
    if isinstance(charged, Exceeded):
        return _over_budget(command, effect, charged)
    waiting, reserved = charged
    if waiting.charges_json is not None and reserved:
        committed["charges"] = waiting.charges_json
    return _asking(command, waiting, question, now, committed, reserved, previous, before)


def _asking(
    command: Open,
    effect: Effect,
    question: Question,
    now: datetime,
    committed: Mapping[str, bytes],
    changed: Iterable[Sheet],
    previous: Approval | None = None,
    before: tuple[Change, ...] = (),
) -> Step:
    """Asks whether the effect may run; the question and the messages about it are written together with it."""
    approval = ask(
        approval_id_of(command.effect_id),
        effect,
        question,
        schema=command.schema,
        policy=command.verdict.policy,
        requester=command.stamp.actor,
        principal=command.principal,
        for_run=command.run_id,
        naming=command.naming,
        now=now,
        replaces=None if previous is None else previous.id,
    )
    if command.edit is not None and previous is not None:  # the editors wrote these arguments, and do not approve them
        approval = replace(approval, editors=previous.editors)
    # Its lease ends with the question, so that whoever waits is woken then.
    asking = replace(effect, permission_id=approval.id, lease_until=approval.expires_at)
    told = deliveries_of(approval, "requested", question.notify, now)
    change = Change(asking, "approval_requested", committed, (approval_sheet(approval), *told, *changed))
    return Step(AwaitingApproval(approval, asking), (*before, change))


def _attempt(command: Open, effect: Effect, now: datetime, sheets: Sheets, permission: tuple[Sheet, ...]) -> Step:
    """Takes the next attempt, with the permission it uses up."""
    charged = _charged(command, effect, sheets, now)
    if isinstance(charged, Exceeded):
        return _over_budget(command, effect, charged)
    charging, reserved = charged
    holder = command.stamp.actor.holder
    claimed = charging.moved(
        status="processing",
        at=command.stamp.at,
        attempt=effect.attempt + 1,
        token_hash=hash_of(command.token, holder),
        lease_until=now + command.lease,
        detail_seq=None,
        detail_json=None,
    )
    if claimed.permission_id is None:
        claimed = replace(claimed, permission_id=_mark_of(permission))
    doubted = doubted_next(effect.status, effect.side_effect, effect.attempt)
    if doubted != claimed.doubted:
        claimed = replace(claimed, doubted=doubted)
    committed = said_by(command.verdict)
    if tries_again(command, effect, now):
        committed["again"] = encode(effect.attempt)
    if command.edit is not None:  # whoever edited it need not have known whom it is about now
        committed |= _about(command.edit.subject_json)
    if reserved and claimed.charges_json is not None:
        committed["charges"] = claimed.charges_json
    change = Change(claimed, "tool_call_started", committed, (*permission, *reserved))
    return Step(Claimed(Claim(claimed, command.token, holder=holder)), (change,))


def tries_again(command: Open, effect: Effect, now: datetime) -> bool:
    """Say whether the holder of the newest attempt gave it up in doubt, to try again within the time it kept."""
    is_kept = effect.status == "in_doubt" and effect.lease_until is not None and now < effect.lease_until
    is_theirs = command.again is not None and effect.token_hash == hash_of(command.again, command.stamp.actor.holder)
    return is_kept and is_theirs


def _charged(
    command: Open, effect: Effect, sheets: Sheets, now: datetime, *, are_args_new: bool = False
) -> tuple[Effect, list[Sheet]] | Exceeded:
    """Reserve what the policy in force takes of budgets for this call, instead of what the call had of the same ones.

    With new arguments, the call gives back all else that it had. With the same, it keeps that: it may have happened.
    """
    charges = command.verdict.charges
    had = tuple(replace(charge, number=None) for charge in read_charges(effect.charges_json))
    is_judged = are_args_new or _has_same_args(command, effect, approval_of(effect, sheets))
    if not is_judged:
        return effect, []  # the editor has reserved what the edit takes
    named = {charge.budget for charge in charges}
    kept = () if are_args_new else tuple(charge for charge in had if charge.budget not in named)
    if (*charges, *kept) == had:
        return effect, []
    replaced = [charge for charge in had if charge not in kept]
    reserved = budgets.reserve(charges, sheets, now, instead_of=replaced)
    if isinstance(reserved, Exceeded):
        return reserved
    whole = (*reserved.charges, *kept)
    return replace(effect, charges_json=charges_json(whole) if whole else None), reserved.sheets


def _waiting(command: Open, effect: Effect) -> Effect:
    """Gives the effect as it waits for people; whoever held it last is still known, should they report late."""
    return effect.moved(
        status="requires_approval",
        at=command.stamp.at,
        attempt=effect.attempt,
        token_hash=effect.token_hash,
        lease_until=None,
        detail_seq=None,
        detail_json=None,
    )


def _use_of_grant(command: Open, now: datetime, sheets: Sheets) -> tuple[Sheet, ...]:
    """Gives the first standing grant that covers the call, with one use less; nothing when there is none."""
    question = command.verdict.question
    if question is None:
        return ()
    for grant_id, pinned in command.grants.items():
        sheet = sheet_at(sheets, grant_ref(grant_id))
        if sheet is None or sheet.body is None:
            continue
        grant = read_grant(sheet)
        is_gone = not all(may_permit(name, sheets) for name in grant.givers)
        if is_gone or any(is_token_revoked(token, sheets) for token in grant.tokens):
            continue
        why_not = grant.why_not(
            tool=command.tool,
            pinned=pinned,
            schema=command.schema,
            policy=command.verdict.policy,
            question=question,
            now=now,
            asked_by=_callers(command),
        )
        if why_not is None:
            return (grant_sheet(grant.used()),)
    return ()


def _mark_of(grant: tuple[Sheet, ...]) -> str | None:
    """Return what an effect keeps of the grant it is entered on, so that it takes a permission ever after."""
    return f"{GRANT_MARK}{grant[0].id}" if grant else None


def approval_id_of(effect_id: str) -> str:
    """Return the id of the approval that is asked for by the call that an effect id was made for."""
    return f"apr_{effect_id.removeprefix('eff_')}"


def approval_of(effect: Effect, sheets: Sheets) -> Approval | None:
    """Gives the newest approval of an effect; None when nobody was asked, or when what was asked is erased."""
    if effect.approval_id is None:
        return None
    sheet = sheet_at(sheets, approval_ref(effect.approval_id))
    return None if sheet is None or sheet.body is None else read_approval(sheet)


def said_by(verdict: Verdict) -> dict[str, bytes]:
    """Gives what the event says of the verdict; without a policy there is none."""
    return {"policy": verdict_json(verdict)} if verdict.policy else {}


def _about(subject_json: bytes | None) -> dict[str, bytes]:
    """Return what the event says of the person whom its arguments are about, to be found when they are erased."""
    return {} if subject_json is None else {"subject": subject_json}


def _refused(command: Open, effect: Effect | None) -> Step:
    """Refuses by the policy, and puts it on the record."""
    return Step(RefusedByPolicy(command.verdict, effect), (_checked(command, effect, command.verdict),))


def _over_budget(command: Open, effect: Effect | None, exceeded: Exceeded) -> Step:
    why = f"{exceeded.used} of {exceeded.charge.limit} are taken, and this call takes {exceeded.charge.amount}"
    verdict = Verdict(decision="refuse", rule=exceeded.charge.budget, policy=command.verdict.policy, why=why)
    return Step(OverBudget(exceeded, effect), (_checked(command, effect, verdict),))


def _checked(command: Open, effect: Effect | None, verdict: Verdict) -> Change | Fact:
    """Gives the event that tells of a refused call; a call that never was an effect is told with its arguments."""
    if effect is not None:
        return Change(effect, "policy_checked", {"policy": verdict_json(verdict)})
    facts = {
        "decision": verdict.decision,
        "policy": verdict.policy,
        "rule": verdict.rule,
        "side_effect": command.side_effect,
        "tool": command.tool,
    }
    committed = {"args": command.args_json, "policy": verdict_json(verdict)} | _about(command.subject_json)
    return Fact(command.run_id, "policy_checked", facts_json(facts), committed)
