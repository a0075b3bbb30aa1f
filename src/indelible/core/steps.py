"""The rules: what a command does to an effect. One pure function decides it for every store and every path."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, assert_never

from indelible.core.approvals.approval import ended, handed_back
from indelible.core.approvals.asking import about_approval
from indelible.core.approvals.deliveries import channels_told, deliveries_of, told_ref
from indelible.core.approvals.edits import edited_from
from indelible.core.approvals.grants import delegation_ref, grant_ref
from indelible.core.approvals.revoked import people_behind, standing_votes
from indelible.core.approvals.sheets import approval_ref, approval_sheet
from indelible.core.changes import Aside, Change, Fact, Step, moved_to, step_to
from indelible.core.commands import (
    Adopt,
    AllStopped,
    Amend,
    Attend,
    AwaitingApproval,
    Cancel,
    Canceled,
    CastVote,
    Claimed,
    Command,
    Denied,
    EditUnread,
    Expire,
    Finish,
    Forbidden,
    Illegal,
    InDoubt,
    InFlight,
    Keep,
    Kept,
    KeyTaken,
    Late,
    LimitsUnseen,
    LooksRepeated,
    MayRun,
    Moved,
    NoSuchEffect,
    Open,
    Outrun,
    Record,
    Recorded,
    Relinquish,
    Reopen,
    Replayed,
    ReplayedFailure,
    Reworded,
    Settle,
    ShowTo,
    TakeBack,
)
from indelible.core.effects.calls import HARMLESS, OnCrash
from indelible.core.effects.claiming import (
    approval_id_of,
    approval_of,
    claim,
    is_key_taken,
    is_reworded,
    opened,
    tries_again,
)
from indelible.core.effects.compensations import compensated_ref, is_compensation, noting
from indelible.core.effects.effect import ELSEWHERE, Claim, Effect, hash_of
from indelible.core.effects.stops import STOP_REF, stop_in
from indelible.core.effects.tightening import strictest_word
from indelible.core.effects.turns import joined, joins, looks_repeated, reopened
from indelible.core.events import instant
from indelible.core.macs import BOUND_EVENTS
from indelible.core.moving import is_moved_away
from indelible.core.people.standing import credential_ref, place_of, places_of, standing_of, standing_on
from indelible.core.policy import budgets
from indelible.core.policy.budgets import budget_ref, read_charges
from indelible.core.rights import RIGHTS, is_newest, verb_of, why_forbidden
from indelible.core.runs.commands import EndRun, SealCheckpoint, StartRun, TakeRun, Tell
from indelible.core.runs.driving import about_run, sheets_of_run, why_fenced, why_no_call
from indelible.core.runs.run import driver_ref, fence_ref, limit_ref
from indelible.core.sheets import NO_SHEETS, Sheet, SheetRef, Sheets, sheet_at
from indelible.core.values.canonical import decode, encode

_GOES_ON = (Claimed, EditUnread, LimitsUnseen, MayRun, Reworded)
"""Answers by which a caller enters the handler, or looks something up and asks again."""
_LEASE_RAN_OUT = b'"the lease ran out"'
# No move leads on from these, not even one of the same batch.
_FINAL = frozenset({"succeeded", "denied", "canceled"})
_NOT_ABOUT_APPROVAL = (Finish, Settle, Reopen, Expire)


def next_step(
    command: Command,
    effect: Effect | None,
    now: datetime,
    seq: int,
    sheets: Sheets = NO_SHEETS,
    beside: Effect | None = None,
) -> Step:
    """Decides a command on the state of its effect; the only place that knows which moves are legal.

    `seq` is the number that an event of this run would get now. `sheets` holds at least those that
    `needed_sheets` and `brakes_of` name; for one that is not in it, `StateNotRead` is raised. `beside` is the effect at
    the second place of `refs_of`, if there is one.
    """
    match command:
        case Open():
            return _open(command, effect, now, seq, sheets, beside)
        case Record() | Keep():
            return _write_down(command, now, seq, sheets)
        case StartRun() | Tell() | SealCheckpoint() | TakeRun() | EndRun():
            return about_run(command, now, seq, sheets)
        case Adopt():
            adopted = _adopt(command, effect, seq)
            return noting(adopted, command.run_id, sheets) if is_compensation(command.effect.tool) else adopted
        case _ if effect is None:
            return Step(NoSuchEffect(command.ref))
        case _ if (why := why_forbidden(command, effect)) is not None:
            return Step(Forbidden(effect, why))
        case Finish() | Relinquish():
            return _report(command, effect, now, seq, sheets)
        case Expire() if effect.is_abandoned(now):
            return step_to(moved_to(command, effect, seq, "in_doubt", "tool_call_in_doubt", reason=_LEASE_RAN_OUT))
        case Expire():
            return Step(Moved(effect))
        case CastVote() | TakeBack() | Amend() | ShowTo() | Attend():
            return about_approval(command, effect, now, seq, sheets, beside)
        case Settle() | Reopen() | Cancel() if (why := _why_not_theirs(command, now, sheets)) is not None:
            return Step(Forbidden(effect, why))
        case Settle() | Reopen() if command.attempt not in (None, effect.attempt):
            return Step(Illegal(effect, f"is at attempt {effect.attempt} now, not {command.attempt}; look at it again"))
        case Settle() if _moves(command, effect, now):
            return _settle(command, effect, now, seq, sheets)
        case Reopen() if effect.are_args_erased:
            return Step(Illegal(effect, "cannot be tried again: its arguments were erased"))
        case Reopen() if _moves(command, effect, now) and command.stamp.actor.kind == "system":
            return _release(command, effect, seq, sheets)  # a probe found that nothing happened
        case Reopen() if _moves(command, effect, now):
            free = reopened(effect)
            return step_to(moved_to(command, free, seq, "ready", "tool_call_released", reason=command.detail_json))
        case Cancel() if _moves(command, effect, now):
            return _cancel(command, effect, now, seq, sheets)
        case Settle() | Reopen() | Cancel():
            return Step(Illegal(effect, _why_illegal(command, effect)))
        case _:
            assert_never(command)


def _moves(command: Settle | Reopen | Cancel, effect: Effect, now: datetime) -> bool:
    """Say whether the effect is in a state that this moves it from; one whose lease ran out is in doubt."""
    states = RIGHTS[verb_of(command)].states
    return effect.status in states or ("in_doubt" in states and effect.is_abandoned(now))


def needed_sheets(command: Command, effect: Effect | None) -> tuple[SheetRef, ...]:
    """Names the sheets that a command is decided on, given its effect; most commands need none."""
    others = _fences_of_others(command, effect)
    is_plain = isinstance(command, Finish) or (
        isinstance(command, Open)
        and not others
        and not command.verdict.charges
        and not command.grants
        and command.driver_token is None
        and not is_compensation(command.tool)
    )
    if is_plain and (effect is None or (effect.approval_id is None and effect.charges_json is None)):
        return ()  # on the way of every call, so it is said first
    if isinstance(command, Keep):
        return (command.sheet.ref,)
    if isinstance(command, Record):
        sheet = command.sheet
        if sheet is None:
            return ()
        # A later command of the batch may rest on what this one writes, so on those who stand behind it.
        return tuple(dict.fromkeys((sheet.ref, *places_of(command.stamp.actor), *people_behind({sheet.ref: sheet}))))
    if isinstance(command, StartRun | Tell | SealCheckpoint | TakeRun | EndRun):
        return sheets_of_run(command)
    if isinstance(command, Open) and effect is not None and effect.status in _FINAL:
        return ()
    needed: list[SheetRef] = [*others]
    if isinstance(command, Open):
        needed += [budget_ref(charge.budget) for charge in command.verdict.charges]
        needed += [grant_ref(grant_id) for grant_id in command.grants]
        needed += sheets_led_by_run(command)
        needed += [compensated_ref(command.run_id)] if is_compensation(command.tool) else []
    elif isinstance(command, Adopt):
        needed += [compensated_ref(command.run_id)] if is_compensation(command.effect.tool) else []
    elif isinstance(command, Amend):
        needed += [budget_ref(charge.budget) for charge in command.verdict.charges]
    elif isinstance(command, CastVote):
        needed += [] if command.delegation_id is None else [delegation_ref(command.delegation_id)]
        # Whoever votes names the question; that of an effect nobody has looked at yet is most likely the same.
        needed += [approval_ref(command.approval_id), told_ref(command.approval_id)] if effect is None else []
    if isinstance(command, Settle | Reopen | Cancel):
        needed += places_of(command.stamp.actor)
    if isinstance(command, CastVote | Amend):
        actor = command.stamp.actor
        needed.append(place_of(actor.id))
        needed += [] if actor.credential is None else [credential_ref(actor.credential)]
    if effect is not None and effect.charges_json is not None:
        needed += [budget_ref(charge.budget) for charge in read_charges(effect.charges_json)]
    if effect is not None and effect.approval_id is not None and not isinstance(command, _NOT_ABOUT_APPROVAL):
        needed.append(approval_ref(effect.approval_id))
        needed += [] if isinstance(command, Relinquish | ShowTo) else [told_ref(effect.approval_id)]
    return tuple(dict.fromkeys(needed))


def brakes_of(command: Command) -> tuple[SheetRef, ...]:
    """Name what keeps a call from being entered, if it is there.

    That is the stop, the fence of a run that another ledger goes on with, and limits that its judge did not know.
    A run is not taken over while the stop says that the database was set back. The row of the stop also tells of
    declared losses, to which rights and each attempt that is given back or allowed are bound.

    Every claim is decided on them, and hardly ever is one there. So a store may assume what it saw last, and have the
    write see that it is so: `Batch.stop_version` and `Batch.unlimited`.
    """
    if isinstance(command, TakeRun) or is_bound(command):
        return (STOP_REF,)
    if not isinstance(command, Open):
        return ()
    brakes = (STOP_REF, fence_ref(command.run_id))
    return brakes if command.knows_limits else (*brakes, limit_ref(command.run_id))


def is_bound(command: Command) -> bool:
    """Return whether a command may write an event that is bound to the losses declared before it."""
    is_right = isinstance(command, Record) and command.event_type in BOUND_EVENTS
    return is_right or isinstance(command, CastVote | Amend | Reopen | Relinquish)


def _fences_of_others(command: Command, effect: Effect | None) -> tuple[SheetRef, ...]:
    """Name the fence of the run that an effect belongs to, if another run calls for it by a scope that both share."""
    is_of_other = isinstance(command, Open) and effect is not None and effect.run_id != command.run_id
    return (fence_ref(effect.run_id),) if is_of_other and effect is not None else ()


def sheets_led_by_run(command: Command) -> tuple[SheetRef, ...]:
    """Names those sheets of a command that nobody else changes without an event in the runs that it may write to.

    So whoever writes behind the ends of those chains as they were when the sheets were read has read them as they are.
    Heartbeats are the exception, and change nothing that is decided on but the driver's own time.
    """
    if isinstance(command, Open):
        return () if command.driver_token is None else (driver_ref(command.run_id),)
    return sheets_of_run(command) if isinstance(command, StartRun | Tell | SealCheckpoint | TakeRun | EndRun) else ()


def _write_down(command: Record | Keep, now: datetime, seq: int, sheets: Sheets) -> Step:
    """Records a fact, or changes a sheet, that is about no effect."""
    sheet = command.sheet
    if sheet is not None:
        found = sheet_at(sheets, sheet.ref)
        if (
            isinstance(command, Keep)
            and found is not None
            and (found.version, found.body) == (sheet.version, sheet.body)
        ):
            return Step(Kept(found))  # our own write, whose answer got lost on the way
        if sheet.version != (1 if found is None else found.version + 1):
            return Step(Outrun(found))
        if isinstance(command, Record) and (_is_late(command, seq) or _is_out(command, sheet, now, sheets)):
            return Step(Outrun(found))
    if isinstance(command, Keep):
        return Step(Kept(command.sheet), (Aside((command.sheet,)),))
    changed = () if sheet is None else (sheet,)
    fact = Fact(command.run_id, command.event_type, command.facts, command.committed, command.erased, changed)
    return Step(Recorded(command.run_id, seq), (fact,))


def _is_late(command: Record, seq: int) -> bool:
    """Has somebody else written to the run since the writer looked at it?"""
    return command.after is not None and command.after + 1 != seq


def _is_out(command: Record, sheet: Sheet, now: datetime, sheets: Sheets) -> bool:
    """Say whether the person who tells this lost their access since they were let in.

    What they set up now, nobody would look for any more. A person who signs in stands by what is written now.
    """
    actor = command.stamp.actor
    if not places_of(actor) or (before := standing_of(actor.id, sheets)) is None or before.word(now) == "in":
        return False
    return sheet.ref != place_of(actor.id) or standing_on(sheet, sheets).word(now) != "in"


def _why_not_theirs(command: Settle | Reopen | Cancel, now: datetime, sheets: Sheets) -> str | None:
    """Say why a person whom a server let in may not move this any more; None if they may, or are none."""
    actor = command.stamp.actor
    found = standing_of(actor.id, sheets) if places_of(actor) else None
    why = None if found is None else found.why_not_decide(actor.id, now)
    return None if why is None else f"cannot be moved: {why[1]}"


def _adopt(command: Adopt, effect: Effect | None, seq: int) -> Step:
    """Takes an effect over as another ledger left it, unless there is another one at its place."""
    adopted = command.effect
    if effect is not None:
        is_known = (effect.digest, effect.status) == (adopted.digest, adopted.status)  # taken over before
        if is_known or (adopted.status == "requires_approval" and effect.status != "ready"):
            return Step(Moved(effect))  # what waits to be asked about loses nothing by what is here
        return Step(Illegal(effect, f"is here already and {effect.status}, so it cannot be taken over"))
    taken = replace(
        adopted,
        version=1,
        doubted=None,
        opened_seq=seq,
        detail_seq=None if adopted.detail_json is None else seq,
        created_at=min(adopted.created_at, command.stamp.at),
        updated_at=command.stamp.at,
        permission_id=None if adopted.permission_id is None else ELSEWHERE,
    )
    committed = {"args": taken.args_json, "key": bytes.fromhex(taken.key), "origin": _origin(command, taken)}
    committed["subject"] = command.subject_json
    committed[{"succeeded": "result", "failed": "error"}.get(taken.status, "reason")] = taken.detail_json
    told = {name: value for name, value in committed.items() if value is not None}
    return Step(Moved(taken), (Change(taken, "tool_call_adopted", told),))


def _origin(command: Adopt, taken: Effect) -> bytes:
    """Return where an effect comes from, with what its row keeps: when it was opened, and if it was asked about."""
    said: Any = decode(command.origin_json)
    kept = {"opened_at": instant(taken.created_at), "was_asked": taken.permission_id is not None}
    return encode({**said, **kept}, root="origin")


def _open(command: Open, effect: Effect | None, now: datetime, seq: int, sheets: Sheets, beside: Effect | None) -> Step:
    """Opens, claims, or answers from what is recorded; what has not ended notes each turn that asked for it.

    A tenant that was moved away notes nothing: its record goes on elsewhere.
    """
    if effect is None or not joins(command, effect) or is_moved_away(stop_in(sheets)):
        return _answered(command, effect, now, seq, sheets, beside)
    both = joined(command, effect)
    step = _answered(command, replace(both, version=effect.version), now, seq, sheets, beside)
    if not isinstance(step.answer, Claimed | AwaitingApproval | InFlight | InDoubt):
        return _answered(command, effect, now, seq, sheets, beside)
    if step.changes or isinstance(step.answer, Claimed):
        return step
    return Step(replace(step.answer, effect=both), (Change(both, "tool_call_joined", {}),))


def _answered(
    command: Open, effect: Effect | None, now: datetime, seq: int, sheets: Sheets, beside: Effect | None
) -> Step:
    """Opens, claims, or answers from what is recorded."""
    if effect is None and command.edit is not None:
        return Step(NoSuchEffect(command.ref))  # its verdict is about the arguments of an effect that is gone
    if effect is None:
        return _enter(command, None, now, seq, sheets)
    holder = command.stamp.actor.holder
    is_ours = effect.status == "processing" and effect.token_hash == hash_of(command.token, holder)
    if is_ours and not effect.is_abandoned(now):  # our own write, whose answer got lost on the way
        stop = stop_in(sheets)
        return Step(Claimed(Claim(effect, command.token, holder=holder)) if stop is None else AllStopped(stop, effect))
    if edited_from(effect) is not None:
        return Step(Canceled(effect))  # its caller looks at the effect that was edited to be this call
    if looks_repeated(command, effect):
        return Step(LooksRepeated(effect))
    if is_key_taken(command, effect):
        return Step(KeyTaken(effect))
    match effect.status:
        case "succeeded":
            return Step(Replayed(effect))
        case "failed":
            return Step(ReplayedFailure(effect))
        case "denied":
            return Step(Denied(effect))
        case "canceled":
            return Step(Canceled(effect))
        case "requires_approval" | "ready":
            return _enter(command, effect, now, seq, sheets, beside)
        case "in_doubt":
            is_kept = effect.lease_until is not None and now < effect.lease_until
            if is_kept and not tries_again(command, effect, now):
                return Step(InFlight(effect))
            return _enter_again(command, effect, now, seq, sheets, beside) or Step(InDoubt(effect))
        case "processing" if not effect.is_abandoned(now):
            return Step(InFlight(effect))
        case "processing":
            again = _enter_again(command, effect, now, seq, sheets, beside)
            if again is not None:
                return again
            doubt = moved_to(command, effect, seq, "in_doubt", "tool_call_in_doubt", reason=_LEASE_RAN_OUT)
            return Step(InDoubt(doubt.effect), (doubt,))
        case _:
            assert_never(effect.status)


def _enter_again(
    command: Open, effect: Effect, now: datetime, seq: int, sheets: Sheets, beside: Effect | None
) -> Step | None:
    """Enter an effect that may have happened, if its tool allows that; None if it has to stay in doubt.

    It also stays in doubt where the next attempt is refused or a person would have to be asked, unless it only reads.
    A refusal says whether a call may run, and not whether it has run: it would tell as not done what may have
    happened. A person says first what became of it. Where the provider's key makes a repeat safe, a person's answer
    could come after the key is forgotten besides.
    """
    if not _may_enter_again(command, effect, now, sheets):
        return None
    step = _enter(command, effect, now, seq, sheets, beside)
    is_harmless = effect.on_crash == "retry" and effect.side_effect in HARMLESS
    return step if is_harmless or isinstance(step.answer, _GOES_ON) else None


def _may_enter_again(command: Open, effect: Effect, now: datetime, sheets: Sheets) -> bool:
    """Say whether an effect that may have happened may be entered again.

    A tool may say that repeating is safe, after any crash or, to the holder of the newest attempt, after what that one
    raised. Or its provider honours the key: then the same request is sent again, but only within the time for which
    the provider remembers keys, counted from no later than the first entry. The first call and this one each may
    demand more.
    """
    if tries_again(command, effect, now):
        return True
    on_crash: OnCrash = strictest_word("on_crash", effect.on_crash, command.on_crash)
    if on_crash != "resend" or command.resend_within is None:
        return on_crash == "retry"
    approval = approval_of(effect, sheets)
    is_before_entry = approval is not None and approval.id == approval_id_of(effect.id)
    asked = [approval.asked_at] if approval is not None and is_before_entry else []
    # `now` and the time of the question are the store's. The other times are callers': one whose clock is fast must
    # not stretch the window, so no vote counts, and the first caller's clock was compared when the effect was opened.
    return max(now, command.stamp.at) < max([effect.created_at, *asked]) + command.resend_within


def _enter(
    command: Open,
    effect: Effect | None,
    now: datetime,
    seq: int,
    sheets: Sheets,
    beside: Effect | None = None,
) -> Step:
    """Opens or claims the effect, unless all are stopped, or whoever asks does not know the run or has lost it."""
    stop = stop_in(sheets)
    if stop is not None:
        return Step(AllStopped(stop, effect))
    if effect is not None and is_reworded(command, effect, sheets):
        return Step(Reworded(effect))
    fenced = why_fenced(command.run_id, sheets)
    if fenced is None and effect is not None and effect.run_id != command.run_id:
        fenced = why_fenced(effect.run_id, sheets)
    if fenced is not None:
        return Step(fenced)
    if not command.knows_limits and sheet_at(sheets, limit_ref(command.run_id)) is not None:
        return Step(LimitsUnseen(effect))
    if command.driver_token is not None:
        lost = why_no_call(command.run_id, command.driver_token, sheets)
        if lost is not None:
            return Step(lost)
    step = opened(command, now, seq, sheets) if effect is None else claim(command, effect, now, seq, sheets, beside)
    if command.only_asks and isinstance(step.answer, Claimed):
        return Step(MayRun(effect))
    return noting(step, command.run_id, sheets) if is_compensation(command.tool) else step


def _report(command: Finish | Relinquish, effect: Effect, now: datetime, seq: int, sheets: Sheets) -> Step:
    """Lets the holder of the claim settle or give it up; a report of an older attempt changes nothing.

    A late report of the newest attempt resolves its doubt, as long as no person or probe has.
    """
    is_ours = is_newest(command.claim, command.stamp.actor, effect)
    if is_ours and (effect.status == "processing" or (effect.status == "in_doubt" and command.status != "in_doubt")):
        if _leaves_earlier_doubt(command, effect):
            return _doubt_again(command, effect, seq)
        if isinstance(command, Finish):
            return _settle(command, effect, now, seq, sheets)
        if command.status == "ready" and effect.status == "processing":
            return _hand_back(command, effect, seq, sheets)
        if command.status == "ready":
            return _release(command, effect, seq, sheets)
        until = None if command.lease is None else now + command.lease
        doubt = moved_to(command, effect, seq, "in_doubt", "tool_call_in_doubt", reason=command.detail_json)
        return step_to(replace(doubt, effect=replace(doubt.effect, lease_until=until)))
    if is_ours and effect.status == command.status and effect.detail_json in (None, command.detail_json):
        return Step(Moved(effect))  # said twice
    if isinstance(command, Relinquish) or (not is_ours and command.claim.attempt >= effect.attempt):
        return Step(Late(effect))  # nothing to keep, or never a claim of this effect at all
    # The state stays as it is, whoever owns it now; what the late worker saw is kept beside it.
    late = {"late_result" if command.status == "succeeded" else "late_error": command.detail_json}
    return Step(Late(effect), (Change(effect, "tool_call_late", late),))


def _leaves_earlier_doubt(command: Finish | Relinquish, effect: Effect) -> bool:
    """Say whether this report resolves nothing, because an earlier attempt may have happened.

    A tool that is entered again while in doubt proves by a later attempt that it succeeded. That the later attempt did
    nothing, or was refused, says nothing of the one before.
    """
    return effect.doubted is not None and command.status in ("ready", "failed")


def _doubt_again(command: Finish | Relinquish, effect: Effect, seq: int) -> Step:
    if effect.status == "processing":
        return step_to(moved_to(command, effect, seq, "in_doubt", "tool_call_in_doubt", reason=command.detail_json))
    if isinstance(command, Relinquish) or effect.detail_json == command.detail_json:
        return Step(Moved(effect))  # nothing to keep, or said twice
    return Step(Late(effect), (Change(effect, "tool_call_late", {"late_error": command.detail_json}),))


def _settle(command: Finish | Settle, effect: Effect, now: datetime, seq: int, sheets: Sheets) -> Step:
    """Gives the outcome: a success spends what was reserved of budgets, and a failure gives it back."""
    field = {"succeeded": "result", "failed": "error"}[command.status]
    shown = {field: command.detail_json}
    if isinstance(command, Settle):
        shown["evidence"] = command.evidence_json
    elif effect.status == "in_doubt":
        shown["evidence"] = encode(f"attempt {effect.attempt} reported late, itself")
    changed: list[Sheet] = []
    if effect.charges_json is not None:
        charges = read_charges(effect.charges_json)
        is_spent = command.status == "succeeded"
        changed = budgets.spend(charges, sheets, now) if is_spent else budgets.release(charges, sheets)
        effect = replace(effect, charges_json=None)
    change = moved_to(command, effect, seq, command.status, "tool_call_finished", tuple(changed), **shown)
    return step_to(change)


def _hand_back(command: Relinquish, effect: Effect, seq: int, sheets: Sheets) -> Step:
    """Gives an attempt back in which nothing happened: all is as before it, when it was approved or not even asked.

    So an approval can be used again, and what was reserved while it waited stays reserved until it is, or ends. One
    with a vote of somebody who was revoked meanwhile is used up.
    """
    approval = approval_of(effect, sheets)
    has_all_votes = approval is not None and standing_votes(approval, sheets) == approval.votes
    free = handed_back(approval, effect.attempt) if approval is not None and has_all_votes else None
    if free is not None:
        changed = [approval_sheet(free)]
    else:
        changed = budgets.release(read_charges(effect.charges_json), sheets)
        effect = replace(effect, charges_json=None)
    return step_to(
        moved_to(command, effect, seq, "ready", "tool_call_released", tuple(changed), reason=command.detail_json)
    )


def _release(command: Relinquish | Reopen, effect: Effect, seq: int, sheets: Sheets) -> Step:
    """Make an effect ready that is known to have done nothing: its budgets are free, its permission is used up."""
    freed = tuple(budgets.release(read_charges(effect.charges_json), sheets))
    free = replace(effect, charges_json=None)
    return step_to(moved_to(command, free, seq, "ready", "tool_call_released", freed, reason=command.detail_json))


def _cancel(command: Cancel, effect: Effect, now: datetime, seq: int, sheets: Sheets) -> Step:
    """Withdraws the effect, and the question about it."""
    changed = list(budgets.release(read_charges(effect.charges_json), sheets))
    approval = approval_of(effect, sheets)
    if approval is not None and approval.is_open:
        over = ended(approval, "canceled")
        changed += [approval_sheet(over), *deliveries_of(over, "canceled", channels_told(over, sheets), now)]
    effect = replace(effect, charges_json=None)
    return step_to(
        moved_to(command, effect, seq, "canceled", "tool_call_canceled", tuple(changed), reason=command.detail_json)
    )


def _why_illegal(command: Settle | Reopen | Cancel, effect: Effect) -> str:
    """Says in one sentence why not, and what to do instead."""
    asked = {Settle: "settled", Reopen: "tried again", Cancel: "canceled"}[type(command)]
    if effect.status == "processing":
        return f"cannot be {asked} while its handler may be running; its lease ends at {effect.lease_until}"
    return f"cannot be {asked}: it is {effect.status}"
