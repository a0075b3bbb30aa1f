"""The walk of one call, from asking to its value, without any I/O.

A walk is a generator. It yields what it needs done (write this command, enter the handler, wait for a change…) and
receives how that went. The blocking and the asynchronous ledger drive the same walks, so there is one path.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, cast

from indelible.core.approvals.edits import carried_over, edited_from, holds_mark, place_taken
from indelible.core.commands import (
    AllStopped,
    Answer,
    ApprovalEnded,
    ArgsErased,
    AwaitingApproval,
    Begun,
    Canceled,
    Claimed,
    Command,
    Decided,
    Denied,
    EditRead,
    EditUnread,
    Finish,
    Forbidden,
    Illegal,
    InDoubt,
    InFlight,
    Kept,
    KeyTaken,
    Late,
    LimitsUnseen,
    LooksRepeated,
    MayRun,
    Moved,
    NoSuchEffect,
    NotCounted,
    Open,
    Outrun,
    OverBudget,
    Recorded,
    RefusedByPolicy,
    Relinquish,
    Reopen,
    Replayed,
    ReplayedFailure,
    Reworded,
    Settle,
    Stamp,
    Taken,
)
from indelible.core.effects.calls import Handling
from indelible.core.effects.claiming import is_key_taken
from indelible.core.effects.compensations import compensated, compensation_ref, undoing
from indelible.core.effects.effect import SYSTEM, Actor, Claim, Effect, Failed, Outcome, Succeeded, detail_erased
from indelible.core.effects.from_arguments import derived_from
from indelible.core.effects.identity import naming_of, repeat_of, resource_json, without
from indelible.core.effects.meaning import Meaning, is_about, meaning_of
from indelible.core.effects.outcomes import error_json, note_on, outcome_json, result_json, safe_text, said_by, shown
from indelible.core.effects.refusing import ended, key_reused, refuse, refused_by
from indelible.core.effects.requests import (
    AwaitChange,
    Awaited,
    AwaitSeal,
    CheckSealing,
    Invoke,
    Judge,
    Judged,
    Mint,
    Origin,
    Pause,
    Prepared,
    Probe,
    Raised,
    Recall,
    Request,
    Returned,
    Submit,
    Walk,
)
from indelible.core.effects.tightening import at_least
from indelible.core.effects.turns import is_made_elsewhere, looks_repeated
from indelible.core.journal.set_back import way_out
from indelible.core.policy.verdicts import UNREAD_LIMITS
from indelible.core.privacy.redaction import Screen
from indelible.core.rights import permitted
from indelible.core.runs.commands import RunMoved, RunNotMoved
from indelible.core.stamps import EDIT_VALUES
from indelible.core.values.canonical import decode, encode
from indelible.errors import (
    BadCall,
    BudgetExceeded,
    EffectErased,
    EffectFailed,
    EffectInDoubt,
    IllegalMove,
    IndelibleError,
    KeyUnusable,
    LeaseLost,
    NotAuthenticated,
    NothingHappened,
    NotPermitted,
    RepeatRefused,
    ResourceBusy,
    ResultNotRecorded,
    RunHandedOver,
    RunLost,
    RunOver,
    Stopped,
    StoreError,
    TooManyPending,
    UnknownEffect,
)


def opening(
    prepared: Prepared,
    mint: Mint,
    judged: Judged,
    awaited_approval: str | None = None,
    *,
    only_asks: bool = False,
    again: str | None = None,
) -> Open:
    """Gives the command that asks to run this call, with the verdict on it."""
    call, identity, handling = prepared.call, prepared.identity, prepared.handling
    return Open(
        ref=identity.ref,
        stamp=mint.stamp(prepared.actor) if prepared.edit is None else mint.stamp(prepared.actor, EDIT_VALUES),
        effect_id=mint.effect_id(),
        token=mint.token(),
        run_id=call.run,
        tool=call.tool,
        side_effect=handling.side_effect,
        on_crash=handling.on_crash,
        call_id=call.call_id,
        dedupe=call.dedupe,
        digest=identity.digest,
        args_json=identity.args_json,
        lease=handling.lease,
        verdict=judged.verdict,
        has_key_fields=call.key is not None,
        subject_json=prepared.subject_json,
        schema=call.schema,
        principal=prepared.principal,
        awaited_approval=awaited_approval,
        grants=judged.grants,
        driver_token=prepared.driver_token,
        knows_limits=judged.knows_limits,
        resource_json=resource_json(call),
        only_asks=only_asks,
        turn=call.turn,
        omitted=identity.omitted,
        injected=tuple(call.injected),
        on_reuse=call.on_reuse,
        naming=naming_of(call, derived_from(*handling.exclusive), judged.environment),
        resend_within=None if handling.downstream is None else handling.downstream.window,
        edit=prepared.edit,
        again=again,
        judged_as=handling.judged_as,
    )


def begin(
    prepared: Prepared,
    mint: Mint,
    known: Effect | None = None,
    awaited_approval: str | None = None,
    *,
    waited: bool = False,
    only_asks: bool = False,
    afresh: bool = False,
    again: str | None = None,
    must_seal: bool = False,
) -> Generator[Request, Any, Begun]:
    """Ask once and return the typed answer; raise what cannot be answered that way.

    The policy is asked each time: what it said before a person was asked need not hold when they have answered.

    Args:
        again: The token of the newest attempt, if this caller gave it up in doubt to try again.
        must_seal: Check first whether the journal can be sealed, for a call that has to be on the signed record.
    """
    judged: Judged = yield Judge(prepared.judged, waited, afresh)
    if judged.handling is not None:
        prepared = prepared.treated(judged.handling)
    if must_seal and prepared.handling.inclusion != "not_awaited":
        yield CheckSealing()
    command = opening(prepared, mint, judged, awaited_approval, only_asks=only_asks, again=again)
    before: list[Effect] = []
    for origin in judged.origins:
        recalled, earlier = yield from _recalled(command, prepared, origin)
        if recalled is not None:
            yield from _check_stands(recalled, judged, origin)
            return _replay(recalled)
        before += [] if earlier is None else [earlier]
    answer: Answer
    if before:
        made = max(before, key=lambda one: one.status == "succeeded")
        answer = yield from _repeat(command, judged, made, prepared.handling, is_first_here=True)
    else:
        is_about_this = known is not None and known.ref == command.ref
        answer = yield Submit(command, known if is_about_this else None)
    if isinstance(answer, Canceled) and (place := edited_from(answer.effect)) is not None:
        edited: Effect | None = yield Recall(place)
        if edited is not None:
            _check_edited_to(prepared, edited)
            answer = LooksRepeated(edited)
            if not looks_repeated(command, edited):  # both are one call, and run once; in a later turn they are two
                answer = yield Submit(replace(command, ref=edited.ref, digest=edited.digest))
    if isinstance(answer, LooksRepeated):
        answer = yield from _repeat(command, judged, answer.effect, prepared.handling)
    if isinstance(answer, Reworded):
        recorded = _with_recorded_words(prepared, answer.effect)
        words: dict[str, Any] = {"waited": waited, "only_asks": only_asks, "again": again}
        return (yield from begin(recorded, mint, answer.effect, awaited_approval, **words))
    if isinstance(answer, EditUnread) and answer.effect.are_args_erased:
        answer = ArgsErased(answer.effect)  # their key is gone, which the store cannot see
    if isinstance(answer, EditUnread):
        words = {"waited": waited, "only_asks": only_asks, "again": again}
        read = _with_edit(prepared, answer.effect, mint)
        return (yield from begin(read, mint, answer.effect, awaited_approval, **words))
    if isinstance(answer, NoSuchEffect) and prepared.edit is not None:
        # What was edited is gone, so the call's own arguments are judged.
        words = {"waited": waited, "only_asks": only_asks, "again": again}
        return (yield from begin(replace(prepared, edit=None, plain_edit_json=None), mint, None, None, **words))
    if isinstance(answer, LimitsUnseen):
        if afresh:
            raise refused_by(command, UNREAD_LIMITS, answer.effect)
        words = {"waited": waited, "only_asks": only_asks, "afresh": True, "again": again}
        return (yield from begin(prepared, mint, known, awaited_approval, **words))
    if isinstance(answer, Replayed | KeyTaken):
        yield from _check_stands(answer.effect, judged)
    match answer:
        case Replayed() if answer.effect.is_detail_erased:
            raise detail_erased(answer.effect)
        case Claimed(claim) if prepared.screen is not None or prepared.call.added:
            return Claimed(replace(claim, screen=prepared.screen, added=prepared.added))
        case Claimed() | Replayed():  # on the way of every call, so they are looked for first
            return answer
        case KeyTaken(effect):
            raise key_reused(prepared, effect)
        case ArgsErased(effect) if effect.status == "in_doubt":
            raise EffectInDoubt(
                f"{effect.tool}: {effect.id} is in doubt, and its arguments cannot be read here: they were erased, or "
                "their key is on another machine. Settle it: indelible effects settle",
                effect=effect,
            )
        case ArgsErased(effect):
            raise EffectErased(
                f"{effect.tool}: the arguments of {effect.id} were erased, so it cannot be attempted any more; if it "
                f"has to be done, call it under another scope or call_id",
                effect=effect,
            )
        case RefusedByPolicy(verdict, effect):
            raise refused_by(command, verdict, effect)
        case OverBudget(exceeded, effect) if exceeded.charge.is_of_questions:
            raise TooManyPending(
                f"{command.tool}: {exceeded.used} calls that a person was asked about are unfinished here, and "
                f"{exceeded.charge.limit} may be ({exceeded.charge.budget}). Decide or settle some, then call again",
                charge=exceeded.charge,
                effect=effect,
            )
        case OverBudget(exceeded, effect) if exceeded.charge.is_of_resource:
            raise ResourceBusy(
                f"{command.tool}: another call on {exceeded.charge.resource} is open, and this tool allows one at a "
                "time. Call again when it has ended; if it is in doubt, settle it first: indelible effects list",
                effect=effect,
            )
        case OverBudget(exceeded, effect):
            raise BudgetExceeded(
                f"{command.tool}: the budget {exceeded.charge.budget!r} allows {exceeded.charge.limit} in "
                f"{exceeded.charge.window}; {exceeded.used} are taken, and this call takes {exceeded.charge.amount}. "
                "Call again later, or let somebody raise it",
                charge=exceeded.charge,
                effect=effect,
            )
        case AllStopped(stop, effect):
            raise Stopped(
                f"{command.tool}: all effects are stopped since {stop.at:%Y-%m-%d %H:%M} UTC by {stop.by}: "
                f"{stop.reason}{_next_step(way_out(stop))}",
                effect=effect,
            )
        case ApprovalEnded(approval, effect):
            raise ended(approval, effect)
        case LooksRepeated() | Moved() | Late() | Illegal() | Forbidden() | NoSuchEffect() | Recorded():
            raise AssertionError(f"an Open is never answered by {type(answer).__name__}")
        case RunNotMoved(code, why):
            raise {"over": RunOver, "handed_over": RunHandedOver}.get(code, RunLost)(
                f"{command.tool}: run {command.run_id} {why}", code=code
            )
        case Decided() | NotCounted() | Kept() | Outrun() | RunMoved():
            raise AssertionError(f"an Open is never answered by {type(answer).__name__}")
        case MayRun():
            return cast("Begun", answer)  # only `ask` gets this, and says so
        case _:
            return answer


def _check_edited_to(prepared: Prepared, edited: Effect) -> None:
    """Raise `KeyReused` unless an approver edited this effect to be the prepared call, whatever its words that vary."""
    omitted = prepared.identity.omitted
    is_same = edited.tool == prepared.call.tool and edited.args_json is not None
    if not is_same or without(edited.args_json or b"", omitted) != without(prepared.identity.args_json, omitted):
        raise key_reused(prepared, edited)  # it was edited further, or only shares the key


def _recalled(
    command: Open, prepared: Prepared, origin: Origin
) -> Generator[Request, Any, tuple[Effect | None, Effect | None]]:
    """Return this call as the run that was forked has it, and the same call of an earlier turn or by another id there.

    The run's repeats are at the places that `_repeat` gives them. A call that was never entered is not on the record.

    Raises:
        KeyReused: Another call has this key there.
    """
    earlier: Effect | None = None
    ref, number = origin.ref, 0
    while True:
        found: Effect | None = yield Recall(ref)
        place = None if found is None else edited_from(found)
        if place is not None:
            found = yield Recall(place)
        if found is None or not origin.has(found):
            return None, earlier
        if place is not None:
            _check_edited_to(prepared, found)
        if (command.dedupe == "ask" and number) or not looks_repeated(command, found):
            if place is None and is_key_taken(command, found):
                raise key_reused(prepared, found)
            return (None, earlier) if found.status in ("requires_approval", "ready") else (found, None)
        earlier = found if earlier is None or found.status == "succeeded" else earlier
        number += 1
        occurrence = (command.call_id or "",) if command.dedupe == "ask" else ("turn", str(number))
        ref = repeat_of(origin.ref, *occurrence)


def _repeat(
    command: Open, judged: Judged, earlier: Effect, handling: Handling, *, is_first_here: bool = False
) -> Generator[Request, Any, Answer]:
    """Ask for a call that was made before, at a place of its own.

    A new call id that looks like a repeat is asked about. In a later turn, the places of all turns before are looked
    at, one after the other: what is open there goes on, and what succeeded there is asked about, if its class or the
    tool says so. In a forked run, the earlier call may be of the run that was forked: then all places here are free.
    """
    asked = judged.repeated("ask")
    asking = replace(command, verdict=asked.verdict, grants=asked.grants, on_repeat="ask")
    if command.dedupe == "ask":
        assert command.call_id is not None
        ref = repeat_of(command.ref, command.call_id)
        answer: Answer = yield Submit(replace(asking, ref=ref, dedupe="call"))
        return answer
    made: Effect | None = None
    number = -1 if is_first_here else 0
    while True:
        made = earlier if is_made_elsewhere(earlier) else made
        if made is not None and handling.on_repeat == "refuse":
            yield from _check_stands(made, judged)
            raise RepeatRefused(
                f"{made.tool}: {made.id} is {made.status} with these arguments in an earlier turn, since "
                f"{made.updated_at:%Y-%m-%d %H:%M} UTC; nothing was run now. To repeat it, use another scope",
                effect=made,
            )
        number += 1
        ref = command.ref if number == 0 else repeat_of(command.ref, "turn", str(number))
        repeating = asking if handling.on_repeat == "ask" else replace(command, on_repeat=handling.on_repeat)
        answer = yield Submit(replace(command if made is None else repeating, ref=ref))
        if not isinstance(answer, LooksRepeated):
            return answer
        earlier = answer.effect


def _with_recorded_words(prepared: Prepared, effect: Effect) -> Prepared:
    """Return the call with the recorded words in arguments that vary: these were shown and approved, so these run."""
    assert effect.args_json is not None
    plain = None if prepared.screen is None else encode(_own_args(prepared, effect), root="args")
    identity = replace(prepared.identity, args_json=effect.args_json)
    return replace(prepared, identity=identity, plain_args_json=plain)


def _own_args(prepared: Prepared, effect: Effect) -> dict[str, Any]:
    """Return the recorded arguments with this caller's own values in place of the marks.

    Raises:
        KeyReused: A mark stands for a value that another caller has, and this one has not.
    """
    screen, own = prepared.screen, effect.args
    if screen is not None:
        own = carried_over(own, decode(screen.recorded_args), decode(screen.args_json))
    if holds_mark(own):
        raise key_reused(prepared, effect)
    return own


def _with_edit(prepared: Prepared, effect: Effect, mint: Mint) -> Prepared:
    """Return the call with the recorded arguments as its tool reads them.

    Raises:
        BadCall: The tool does not take them.
        EffectErased: They cannot be read any more.
        KeyReused: This caller has not all of them.
    """
    own, screen, binds = _own_args(prepared, effect), prepared.screen, prepared.call.binds
    assert effect.args_json is not None
    plain = encode(own, root="args")
    is_own = plain == (prepared.plain_args_json or prepared.identity.args_json)  # only the key that encrypts it differs
    whole = plain if is_own or binds is None else encode(binds(own), root="args")
    recorded = effect.args_json
    if whole != plain:
        recorded = whole if screen is None else screen.redactor.screen(whole).recorded_args
    about = None if is_own or prepared.subject_in is None else prepared.subject_in(whole)
    read = EditRead(effect.version, recorded, is_exact=whole == plain, subject_json=about)
    ref = None if read.is_exact else place_taken(naming_of(prepared.call), effect, recorded)
    if ref is not None:
        read = replace(read, takes=Taken(ref=ref, effect_id=mint.effect_id()))
    return replace(prepared, edit=read, plain_edit_json=None if screen is None else whole)


def ask(prepared: Prepared, mint: Mint) -> Generator[Request, Any, Begun | MayRun]:
    """Asks for permission to run a call, and claims nothing."""
    return (yield from begin(prepared, mint, only_asks=True))


def _check_stands(effect: Effect, judged: Judged, origin: Origin | None = None) -> Generator[Request, Any, None]:
    """Raise `EffectCompensated` if a success was compensated; in a forked run, if it was by the event forked from."""
    if not judged.may_be_compensated or effect.status != "succeeded":
        return
    found: Effect | None = yield Recall(compensation_ref(effect))
    compensation = undoing(effect, found)
    if compensation is not None and (origin is None or origin.has(compensation)):
        raise compensated(effect, compensation)


def _replay(effect: Effect) -> Begun:
    """Answers a call of a forked run from the record of the run it was forked from: nothing of it runs again."""
    if effect.status == "succeeded":
        if effect.is_detail_erased:
            raise detail_erased(effect)
        return Replayed(effect)
    if effect.status == "failed":
        return ReplayedFailure(effect)
    if effect.status == "denied":
        return Denied(effect)
    return Canceled(effect) if effect.status == "canceled" else InDoubt(effect)


def run(prepared: Prepared, mint: Mint) -> Walk:
    """Walks a call to its value: executes it if it is ours to execute, else waits, replays or says why not."""
    handling = prepared.handling
    left = handling.wait
    known: Effect | None = None
    awaited_approval: str | None = None
    waited = False
    has_probed = False
    entries = 0
    again = _Again()
    while True:
        words: dict[str, Any] = {"waited": waited, "again": again.token, "must_seal": entries == 0}
        try:
            begun: Begun = yield from begin(prepared, mint, known, awaited_approval, **words)
        except IndelibleError:
            if again.doubt is None:
                raise
            return again.doubt
        known = None
        waited = isinstance(begun, AwaitingApproval)
        match begun:
            case Claimed(claim):
                entries += 1
                verdict = yield from _attempt(claim, prepared, mint, entries)
                if isinstance(verdict, _Again):
                    again = verdict
                    continue
                yield from await_seal(claim.effect, handling)
                return verdict
            case Replayed(value):
                return value
            case ReplayedFailure(error):
                raise EffectFailed(
                    f"{begun.effect.tool} failed before: {error} (replayed from {begun.effect.id})",
                    effect=begun.effect,
                    error_type=begun.error_type,
                )
            case InDoubt(effect) if handling.reconcile is not None and not has_probed:
                has_probed = True
                yield from probe(effect, handling.reconcile, mint, prepared.screen)
            case InFlight() | AwaitingApproval():
                if left <= timedelta(0):
                    refuse(begun)
                if isinstance(begun, AwaitingApproval):
                    awaited_approval = begun.approval.id
                awaited: Awaited = yield AwaitChange(begun.effect, left)
                known, left = awaited.newest, awaited.left
            case InDoubt() if again.doubt is not None:
                return again.doubt  # what its last attempt raised, whatever keeps the next one from being made
            case _:
                refuse(begun)


def await_seal(effect: Effect, handling: Handling) -> Generator[Request, Any, None]:
    """Lets a call that must be on the signed record return only when it is."""
    handling = at_least(handling, effect.side_effect)
    if handling.inclusion != "not_awaited":
        yield AwaitSeal(effect, wherever=handling.inclusion == "awaited")


@dataclass(frozen=True, slots=True)
class _Again:
    """Says to go round again.

    `token` is that of the attempt, if it was given up in doubt to be tried again. `doubt` is what it raised, if it may
    have happened.
    """

    token: str | None = None
    doubt: Raised | None = None


def _attempt(claim: Claim, prepared: Prepared, mint: Mint, entries: int) -> Walk:
    """Enter the handler once and record what came of it; return the value, or `_Again`, or what it raised.

    `entries` counts those of this call alone, so that a person's retry of an old effect gets its full measure. If an
    earlier attempt may have happened, what this one raises leaves that doubt.
    """
    # Its policy, or the call that opened it, may have named a stronger class than this caller does.
    screen, handling = prepared.screen, at_least(prepared.handling, claim.effect.side_effect)
    report: Returned | Raised = yield Invoke(claim, handling, screen, prepared.added)
    if isinstance(report, Returned):
        most = prepared.max_result_bytes
        return (yield from finish_with_value(claim, report.value, most, mint, screen, untold=_AFTER_HANDLER))
    error, is_interruption = report.error, report.is_interruption
    is_doubted = claim.effect.doubted is not None
    meaning: Meaning = "in_doubt" if is_doubted else "nothing"
    if not report.was_entered:
        yield from finish_with_error(claim, error, meaning, mint, screen, _AFTER_HANDLER)
        return report
    meaning = meaning_of(
        error,
        handling,
        claim.effect.id,
        has_sent=report.has_sent,
        is_interruption=is_interruption,
        is_doubted=is_doubted,
    )
    pause = None if report.is_canceled else _pause_after(error, entries, handling)
    if pause is not None and meaning == "failed":
        meaning = "nothing"  # it has not failed for good
    lease = None if pause is None else max(pause, handling.lease)
    is_told = yield from finish_with_error(claim, error, meaning, mint, screen, _AFTER_HANDLER, lease)
    if meaning == "failed" or not is_told:
        return report
    if pause is not None:
        yield Pause(pause)
        return _Again(claim.token, report) if meaning == "in_doubt" else _Again()
    downstream = handling.downstream
    if meaning == "in_doubt" and downstream is not None and not is_interruption and entries < downstream.attempts:
        yield Pause(downstream.backoff * 2 ** (entries - 1))
        return _Again(doubt=report)
    return report  # the driver raises it as itself: a generator cannot raise every exception there is


_Untold = tuple[type[IndelibleError], ...]
_AWAY: _Untold = (StoreError, KeyUnusable, BadCall)
"""Errors with which the store takes no report, from any caller. After a `BadCall` it may take a shorter one."""
_AFTER_HANDLER: _Untold = (*_AWAY, NotAuthenticated, NotPermitted)
"""The same after a handler: its credential may have ended meanwhile, and what it did must not be lost with that."""


def finish_with_error(
    claim: Claim,
    error: BaseException,
    meaning: Meaning,
    mint: Mint,
    screen: Screen | None = None,
    untold: _Untold = _AWAY,
    lease: timedelta | None = None,
) -> Generator[Request, Any, bool]:
    """Record an exception of the tool as what it means; return whether that was written."""
    if meaning != "failed":
        return (yield from _give_up(claim, meaning, error, mint, screen, untold, lease))
    yield from _finish(claim, Failed(said_by(error)), error_json(error, screen), mint, error, untold=untold)
    return True


def _pause_after(error: BaseException, entries: int, handling: Handling) -> timedelta | None:
    """Return how long to pause before the next attempt; None if `retry=` makes none."""
    retry = handling.retry  # with downstream=, a doubt is sent again instead, and only within the window
    if retry is None or handling.downstream is not None or not isinstance(error, retry.on) or entries >= retry.attempts:
        return None
    return retry.pause_after(entries)


def finish_with_value(
    claim: Claim,
    value: Any,
    max_bytes: int | None,
    mint: Mint,
    screen: Screen | None = None,
    known: Effect | None = None,
    untold: _Untold = _AWAY,
) -> Walk:
    """Records a success and gives the recorded form; a result that cannot be recorded leaves the effect in doubt."""
    try:
        recorded = result_json(value, screen, max_bytes)
    except Exception as problem:  # also one that the value's own code raises while it is looked at
        yield from _give_up(claim, "in_doubt", problem, mint, screen, untold)
        raise ResultNotRecorded(
            f"{claim.effect.tool} ran, but its result cannot be recorded: {safe_text(str(problem), screen)}. The "
            f"effect {claim.effect.id} is in doubt: return plain values, then settle it",
            value=value,
        ) from problem
    yield from _finish(claim, Succeeded(value), recorded, mint, known=known, untold=untold)
    return decode(recorded)


def _finish(
    claim: Claim,
    outcome: Outcome,
    detail_json: bytes,
    mint: Mint,
    cause: BaseException | None = None,
    known: Effect | None = None,
    untold: _Untold = _AWAY,
) -> Generator[Request, Any, None]:
    """Settles the claim; a store that is gone or a lost lease is told together with what the handler did.

    Args:
        known: How the effect was seen last, where that is not as the claim has it.
        untold: The errors that mean that the report was not written.
    """
    status: Literal["succeeded", "failed"] = "succeeded" if isinstance(outcome, Succeeded) else "failed"
    ended = "returned" if isinstance(outcome, Succeeded) else "raised"
    effect = claim.effect
    command = Finish(claim=claim, stamp=mint.stamp(SYSTEM), status=status, detail_json=detail_json)
    try:
        answer: Answer = yield Submit(command, known or effect)
    except untold as problem:
        standing = "will be in doubt when its lease ends"
        # A BadCall refuses this report alone: it is too large, or the handler has ended the transaction it belongs to.
        if isinstance(problem, BadCall) and (yield from _give_up(claim, "in_doubt", problem, mint, untold=untold)):
            standing = "is in doubt"
        raise ResultNotRecorded(
            f"the handler of {effect.tool} {ended}, but that could not be recorded: {problem}. The effect {effect.id} "
            f"{standing}; settle it with what you know",
            value=outcome.value if isinstance(outcome, Succeeded) else outcome.error,
        ) from (cause or problem)
    if isinstance(answer, NoSuchEffect):
        raise ResultNotRecorded(
            f"the handler of {effect.tool} {ended}, but the effect {effect.id} is not in this ledger: it was begun in "
            "another one, or the database was put back meanwhile. Record there what you know",
            value=outcome.value if isinstance(outcome, Succeeded) else outcome.error,
        ) from cause
    if isinstance(answer, Late):
        raise LeaseLost(
            f"{effect.tool} ran and {status}, but attempt {claim.attempt} had lost its lease; the effect {effect.id} "
            f"is {answer.effect.status}, the late outcome is kept as an event of run {effect.run_id}",
            effect=answer.effect,
        ) from cause


def _give_up(
    claim: Claim,
    meaning: Meaning,
    error: BaseException,
    mint: Mint,
    screen: Screen | None = None,
    untold: _Untold = _AWAY,
    lease: timedelta | None = None,
) -> Generator[Request, Any, bool]:
    """Relinquish the claim; where that cannot be written, the end of the lease leaves the effect in doubt.

    Returns:
        Whether it was written.

    Args:
        untold: The errors that mean that the report was not written.
        lease: How long the caller keeps the right to try again.
    """
    is_doubt = meaning == "in_doubt"
    reason = encode(safe_text(f"{type(error).__qualname__}: {said_by(error)}", screen))
    if is_doubt:
        note_on(
            error,
            f"Indelible: {claim.effect.id} is in doubt: it may have happened, so it is not repeated. Find out, then: "
            f"indelible effects settle {claim.effect.id} --as succeeded|failed --evidence …",
        )
    status: Literal["ready", "in_doubt"] = "in_doubt" if is_doubt else "ready"
    kept = lease if is_doubt else None
    command = Relinquish(claim=claim, stamp=mint.stamp(SYSTEM), status=status, detail_json=reason, lease=kept)
    try:
        yield Submit(command, claim.effect)
    except untold as problem:
        note_on(error, f"Indelible: the effect {claim.effect.id} could not be marked {status} now: {problem}")
        return False
    return True


def probe(
    effect: Effect, reconcile: Callable[[Effect], Any], mint: Mint, screen: Screen | None = None
) -> Generator[Request, Any, Effect]:
    """Asks the tool's probe about an effect in doubt, and settles it if the probe knows."""
    report: Returned | Raised = yield Probe(effect, reconcile)
    actor = Actor(f"probe of {effect.tool}", "system")
    if isinstance(report, Raised):
        if report.is_interruption:
            raise report.error
        if isinstance(report.error, NothingHappened) and is_about(report.error, effect.id):
            reason = encode(safe_text(f"the probe says that nothing happened: {said_by(report.error)}", screen))
            reopening = Reopen(ref=effect.ref, stamp=mint.stamp(actor), detail_json=reason, attempt=effect.attempt)
            return (yield from _take(reopening, effect))
        raise _probe_failed(effect, f"raised {shown(report.error, screen)}") from report.error
    outcome = report.value
    if outcome is None:
        return effect
    if not isinstance(outcome, Succeeded | Failed):
        kind = type(outcome).__name__
        raise _probe_failed(effect, f"returned {kind}, not Succeeded(value), Failed(error) or None")
    try:
        settling = _settling(effect, outcome, mint.stamp(actor), "probe", screen)
    except BadCall as problem:
        raise _probe_failed(effect, f"gave an answer that cannot be recorded ({problem})") from problem
    return (yield from _take(settling, effect))


def _probe_failed(effect: Effect, what: str) -> EffectInDoubt:
    return EffectInDoubt(
        f"{effect.tool}: {effect.id} is in doubt, and its probe {what}; mend it, or settle by hand", effect=effect
    )


def _take(command: Command, effect: Effect) -> Generator[Request, Any, Effect]:
    """Carries out what a probe found; when somebody else has moved the effect on meanwhile, that holds."""
    try:
        return (yield from carry_out(command, effect))
    except IllegalMove as illegal:
        return illegal.effect or effect
    except NotPermitted as refused:
        raise EffectInDoubt(
            f"{effect.tool}: {effect.id} is in doubt. Its probe gave an answer, but an agent's credential settles "
            "nothing: let the server run the tool, run the probe where the database is, or let a person settle it",
            effect=effect,
        ) from refused


def settle(
    effect: Effect, outcome: Outcome, mint: Mint, *, actor: Actor, evidence: str, screen: Screen | None = None
) -> Generator[Request, Any, Effect]:
    """Settles an effect in doubt on a person's word."""
    return (yield from carry_out(_settling(effect, outcome, mint.stamp(actor), evidence, screen), effect))


def _settling(effect: Effect, outcome: Outcome, stamp: Stamp, evidence: str, screen: Screen | None) -> Settle:
    return Settle(
        ref=effect.ref,
        stamp=stamp,
        status="succeeded" if isinstance(outcome, Succeeded) else "failed",
        detail_json=outcome_json(outcome, screen),
        evidence_json=encode(evidence if screen is None else screen.text(evidence), root="evidence"),
        attempt=effect.attempt,
    )


def carry_out(command: Command, effect: Effect | None) -> Generator[Request, Any, Effect]:
    """Submits a command about an effect and gives its new state, or raises why it cannot be."""
    answer: Answer = permitted((yield Submit(command, effect)))
    match answer:
        case Moved(moved):
            return moved
        case Illegal(now, why):
            raise IllegalMove(f"{now.tool}: {now.id} {why}", effect=now)
        case NoSuchEffect(ref):
            raise UnknownEffect(f"no effect has the key {ref.key} in scope {ref.scope!r}")
        case _:
            raise AssertionError(f"{type(command).__name__} is never answered by {type(answer).__name__}")


def _next_step(command: str | None) -> str:
    return "" if command is None else f". Nothing runs until an administrator enters: indelible {command}"
