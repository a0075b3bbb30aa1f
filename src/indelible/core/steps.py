"""The rules: what a command does to an effect. One pure function decides it for every store and every path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from indelible.core.commands import (
    Answer,
    ArgsErased,
    AwaitingApproval,
    Cancel,
    Canceled,
    Claimed,
    Command,
    Decide,
    Denied,
    Expire,
    Finish,
    Illegal,
    InDoubt,
    InFlight,
    KeyTaken,
    Late,
    LooksRepeated,
    Moved,
    NoSuchEffect,
    Open,
    Record,
    Recorded,
    Relinquish,
    Reopen,
    Replayed,
    ReplayedFailure,
    Settle,
)
from indelible.core.effects import Claim, Effect, Status, hash_of


@dataclass(frozen=True, slots=True)
class Change:
    """Is one legal move: the state after it, and the event that tells of it with the values it commits to."""

    effect: Effect
    event_type: str
    committed: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Fact:
    """Is an event that moves no effect: what it says in clear, the values it commits to, and payloads that go."""

    run_id: str
    event_type: str
    facts: bytes
    committed: Mapping[str, bytes]
    erased: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Is what a command leads to: an answer, and the change to write before the answer may go out."""

    answer: Answer
    change: Change | Fact | None = None


def next_step(command: Command, effect: Effect | None, now: datetime, seq: int) -> Step:
    """Decides a command on the state of its effect; the only place that knows which moves are legal.

    `seq` is the number that an event of this run would get now.
    """
    if isinstance(command, Open):
        return _open(command, effect, now, seq)
    if isinstance(command, Record):
        fact = Fact(command.run_id, command.event_type, command.facts, command.committed, command.erased)
        return Step(Recorded(command.run_id, seq), fact)
    if effect is None:
        return Step(NoSuchEffect(command.ref))
    match command:
        case Finish() | Relinquish():
            return _report(command, effect, seq)
        case Expire() if effect.is_abandoned(now):
            return _move(command, effect, seq, "in_doubt", "tool_call_in_doubt", reason=b'"the lease ran out"')
        case Expire():
            return Step(Moved(effect))
        case Settle() | Reopen() if command.attempt not in (None, effect.attempt):
            return Step(Illegal(effect, f"is at attempt {effect.attempt} now, not {command.attempt}; look at it again"))
        case Settle() if effect.status == "in_doubt" or effect.is_abandoned(now):
            field = {"succeeded": "result", "failed": "error"}[command.status]
            shown = {field: command.detail_json, "evidence": command.evidence_json}
            return _move(command, effect, seq, command.status, "tool_call_finished", **shown)
        case Reopen() if effect.are_args_erased:
            return Step(Illegal(effect, "cannot be tried again: its arguments were erased"))
        case Reopen() if effect.status in ("in_doubt", "failed") or effect.is_abandoned(now):
            return _move(command, effect, seq, "ready", "tool_call_released", reason=command.detail_json)
        case Cancel() if effect.status in ("requires_approval", "ready"):
            return _move(command, effect, seq, "canceled", "tool_call_canceled", reason=command.detail_json)
        case Decide() if effect.status == "requires_approval" and command.digest == effect.digest:
            if command.is_approval:
                return _move(command, effect, seq, "ready", "approval_received", reason=command.detail_json)
            return _move(command, effect, seq, "denied", "approval_denied", reason=command.detail_json)
        case Settle() | Reopen() | Cancel() | Decide():
            return Step(Illegal(effect, _why_illegal(command, effect)))
        case _:
            assert_never(command)


def _open(command: Open, effect: Effect | None, now: datetime, seq: int) -> Step:
    """Opens, claims, or answers from what is recorded."""
    if effect is None:
        return _opened(command, now, seq)
    if effect.status == "processing" and effect.token_hash == hash_of(command.token):
        return Step(Claimed(Claim(effect, command.token)))  # our own write, whose answer got lost on the way
    if command.dedupe == "ask" and command.call_id != effect.call_id and command.call_id is not None:
        return Step(LooksRepeated(effect))
    if _is_other_content(command, effect):
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
        case "requires_approval":
            return Step(AwaitingApproval(effect))
        case "ready":
            return _claimed(command, effect, now)
        case "in_doubt":
            return _claimed(command, effect, now) if effect.on_crash == "retry" else Step(InDoubt(effect))
        case "processing" if not effect.is_abandoned(now):
            return Step(InFlight(effect))
        case "processing" if effect.on_crash == "retry":
            return _claimed(command, effect, now)
        case "processing":
            doubt = _move(command, effect, seq, "in_doubt", "tool_call_in_doubt", reason=b'"the lease ran out"')
            assert isinstance(doubt.change, Change)
            return Step(InDoubt(doubt.change.effect), doubt.change)
        case _:
            assert_never(effect.status)


def _is_other_content(command: Open, effect: Effect) -> bool:
    """Does this call say something else? Nobody can tell once the arguments are erased; the key is the same."""
    if effect.digest == command.digest or effect.are_args_erased:
        return False
    return not (command.has_key_fields and effect.is_settled)


def _opened(command: Open, now: datetime, seq: int) -> Step:
    """Makes the effect; its first state already says whether it may run, so no crash can skip the question."""
    asks = command.needs_approval
    effect = Effect(
        tenant=command.ref.tenant,
        scope=command.ref.scope,
        key=command.ref.key,
        id=command.effect_id,
        run_id=command.run_id,
        tool=command.tool,
        side_effect=command.side_effect,
        on_crash=command.on_crash,
        call_id=command.call_id,
        digest=command.digest,
        status="requires_approval" if asks else "processing",
        attempt=0 if asks else 1,
        version=1,
        token_hash=hash_of(command.token),
        lease_until=None if asks else now + command.lease,
        opened_seq=seq,
        detail_seq=None,
        created_at=command.stamp.at,
        updated_at=command.stamp.at,
        args_json=command.args_json,
        detail_json=None,
    )
    committed = {"args": command.args_json, "key": bytes.fromhex(command.ref.key)}
    if command.subject_json is not None:
        committed["subject"] = command.subject_json
    if asks:
        return Step(AwaitingApproval(effect), Change(effect, "approval_requested", committed))
    return Step(Claimed(Claim(effect, command.token)), Change(effect, "tool_call_started", committed))


def _claimed(command: Open, effect: Effect, now: datetime) -> Step:
    """Takes the next attempt; the arguments stay those that were recorded, and without them there is none."""
    if effect.are_args_erased:
        return Step(ArgsErased(effect))
    claimed = effect.moved(
        status="processing",
        at=command.stamp.at,
        attempt=effect.attempt + 1,
        token_hash=hash_of(command.token),
        lease_until=now + command.lease,
        detail_seq=None,
        detail_json=None,
    )
    return Step(Claimed(Claim(claimed, command.token)), Change(claimed, "tool_call_started", {}))


def _report(command: Finish | Relinquish, effect: Effect, seq: int) -> Step:
    """Lets the holder of the claim settle or give it up; anybody else's report changes nothing."""
    is_ours = effect.token_hash == command.claim.token_hash and effect.attempt == command.claim.attempt
    if is_ours and effect.status == "processing":
        if isinstance(command, Finish):
            field = {"succeeded": "result", "failed": "error"}[command.status]
            return _move(command, effect, seq, command.status, "tool_call_finished", **{field: command.detail_json})
        event_type = {"ready": "tool_call_released", "in_doubt": "tool_call_in_doubt"}[command.status]
        return _move(command, effect, seq, command.status, event_type, reason=command.detail_json)
    if is_ours and effect.status == command.status and effect.detail_json in (None, command.detail_json):
        return Step(Moved(effect))  # said twice
    if isinstance(command, Relinquish) or (not is_ours and command.claim.attempt >= effect.attempt):
        return Step(Late(effect))  # nothing to keep, or never a claim of this effect at all
    # The state stays as it is, whoever owns it now; what the late worker saw is kept beside it.
    late = {"late_result" if command.status == "succeeded" else "late_error": command.detail_json}
    return Step(Late(effect), Change(effect, "tool_call_late", late))


def _move(command: Command, effect: Effect, seq: int, status: Status, event_type: str, **committed: bytes) -> Step:
    """Gives the step to `status`; the first committed value becomes the effect's detail."""
    moved = effect.moved(
        status=status,
        at=command.stamp.at,
        attempt=effect.attempt,
        token_hash=effect.token_hash,
        lease_until=None,
        detail_seq=seq,
        detail_json=next(iter(committed.values())),
    )
    return Step(Moved(moved), Change(moved, event_type, committed))


def _why_illegal(command: Settle | Reopen | Cancel | Decide, effect: Effect) -> str:
    """Says in one sentence why not, and what to do instead."""
    asked = {Settle: "settled", Reopen: "tried again", Cancel: "canceled", Decide: "decided"}[type(command)]
    if isinstance(command, Decide) and effect.status == "requires_approval":
        return f"the digest does not match: this effect asks about {effect.digest}; look at it again, then decide"
    if effect.status == "processing":
        return f"cannot be {asked} while its handler may be running; its lease ends at {effect.lease_until}"
    return f"cannot be {asked}: it is {effect.status}"
