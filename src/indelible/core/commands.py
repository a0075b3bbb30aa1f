"""What shells ask of the core, and what it answers. Commands carry everything impure: time, ids, salts, verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from indelible.core.approvals.approval import Approval, Refusal
from indelible.core.approvals.grants import GrantTerms
from indelible.core.effects.calls import Dedupe, OnCrash, OnRepeat, OnReuse, SideEffect
from indelible.core.effects.effect import ERASED_TEXT, Claim, Effect
from indelible.core.effects.identity import BY_ALL_ARGS, Naming, Ref
from indelible.core.effects.stops import Stop
from indelible.core.policy.budgets import Exceeded
from indelible.core.policy.verdicts import Verdict
from indelible.core.runs.commands import RunAnswer, RunCommand, StartRun
from indelible.core.sheets import Sheet
from indelible.core.stamps import Stamp as Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Is the place of a call that an edit makes this one to be, so that nobody else makes it besides."""

    ref: Ref
    effect_id: str


@dataclass(frozen=True, slots=True)
class EditRead:
    """How the caller's tool reads arguments that an approver edited; the verdict beside it is about these."""

    version: int
    """The effect's version at which they were read."""
    args_json: bytes = field(repr=False)
    is_exact: bool
    """Are they what is recorded? If not, nobody approved what the tool would run with."""
    takes: Taken | None = None
    """The place of the call that they are, if that is another than of what is recorded."""
    subject_json: bytes | None = field(default=None, repr=False)
    """The mark of the person whom they are about, if the approver changed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Asks to run a call: opens its effect if there is none, claims it if it may run, else says why not."""

    ref: Ref
    stamp: Stamp
    effect_id: str
    token: str = field(repr=False)
    run_id: str
    tool: str
    side_effect: SideEffect
    on_crash: OnCrash
    call_id: str | None
    dedupe: Dedupe
    digest: str
    args_json: bytes = field(repr=False)
    lease: timedelta
    verdict: Verdict
    has_key_fields: bool
    subject_json: bytes | None = field(default=None, repr=False)
    """Is the mark of the person this call is about."""
    schema: str = ""
    """Is the hash of the tool's schema, if it has one."""
    principal: str | None = None
    """Is the person the agent acts for."""
    awaited_approval: str | None = None
    """Is the approval this caller has waited for: when that one ended, it is told so instead of asking anew."""
    grants: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names standing grants that may cover the call, with the digest of what they pin in its arguments."""
    driver_token: str | None = field(default=None, repr=False)
    """Is the token of whoever asks as the driver of the call's run: then they have to be that still."""
    knows_limits: bool = False
    """Was it judged by what its run allows? Else it enters no run that limits its calls."""
    resource_json: bytes | None = field(default=None, repr=False)
    """Is what the call is about, if it says so: the digest is also of this."""
    only_asks: bool = False
    """Asks for permission alone: where the call could be claimed, nothing is written and it is told that it may run."""
    turn: str | None = None
    """The id of the user's last message, where the caller's framework knows it."""
    omitted: tuple[str, ...] = ()
    """The arguments that the digest is not made of: those that vary, and those added with their value as before."""
    injected: tuple[str, ...] = ()
    """The arguments that a framework supplied and no model said."""
    on_reuse: OnReuse = "refuse"
    naming: Naming = BY_ALL_ARGS
    """What the key is made of."""
    resend_within: timedelta | None = None
    """How long after its first entry an effect in doubt may be sent again, because the provider honours its key."""
    edit: EditRead | None = None
    """Is set where the recorded arguments are others than the caller's own: then these run."""
    again: str | None = field(default=None, repr=False)
    """The token of the newest attempt, if this caller gave it up in doubt and its tool says that repeating is safe."""
    judged_as: tuple[SideEffect, ...] = ()
    """The classes that ledger, tool and call name, if they name several: a server's policy judges each of them, too."""
    on_repeat: OnRepeat | None = None
    """What its caller lets happen because the call was made before; None if it was not. A server may demand more."""

    @property
    def subject_read(self) -> bytes | None:
        """Return the mark of the person whom the arguments that would run are about."""
        edited = None if self.edit is None else self.edit.subject_json
        return edited or self.subject_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Reports the outcome of an attempt by the holder of its claim."""

    claim: Claim
    stamp: Stamp
    status: Literal["succeeded", "failed"]
    detail_json: bytes = field(repr=False)

    @property
    def ref(self) -> Ref:
        """Locates the effect."""
        return self.claim.effect.ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Relinquish:
    """Gives a claim up: `ready` when nothing happened outside, `in_doubt` when something may have."""

    claim: Claim
    stamp: Stamp
    status: Literal["ready", "in_doubt"]
    detail_json: bytes = field(repr=False)
    lease: timedelta | None = None
    """How long the holder keeps the right to try again. Until then other callers wait."""

    @property
    def ref(self) -> Ref:
        """Locates the effect."""
        return self.claim.effect.ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Calls an abandoned effect in doubt, so that a probe or a person can see to it."""

    ref: Ref
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Tells the outcome of an effect in doubt, by a person or a probe that looked, with the evidence."""

    ref: Ref
    stamp: Stamp
    status: Literal["succeeded", "failed"]
    detail_json: bytes = field(repr=False)
    evidence_json: bytes = field(repr=False)
    attempt: int | None = None
    """Is the attempt they looked at; what is known of one says nothing of the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopen:
    """Allows another attempt of an effect that failed or is in doubt, on somebody's word."""

    ref: Ref
    stamp: Stamp
    detail_json: bytes = field(repr=False)
    attempt: int | None = None
    """Is the attempt they looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Withdraws an effect that has not been entered."""

    ref: Ref
    stamp: Stamp
    detail_json: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CastVote:
    """Answers the question whether an effect may run, for exactly the digest the person saw."""

    ref: Ref
    stamp: Stamp
    approval_id: str
    digest: str | None
    is_approval: bool
    detail_json: bytes = field(repr=False)
    signature: bytes | None = field(default=None, repr=False)
    delegation_id: str | None = None
    grant: GrantTerms | None = None
    grant_id: str = ""
    pinned: str = ""
    """Is the digest of the arguments that the grant pins."""
    version: int | None = None
    """Is the version of the approval that they saw, if that matters: another one is not what they answer."""
    can_read: bool = field(default=False, compare=False)
    """Say whether this process opens the arguments, if they are encrypted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """Takes one's own approval back, as long as nothing runs on it."""

    ref: Ref
    stamp: Stamp
    approval_id: str
    detail_json: bytes = field(repr=False)
    version: int | None = None
    """Is the version of the approval that they saw, if that matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amend:
    """Changes the arguments that are asked about: the question is a new one, and nobody has voted on it yet."""

    ref: Ref
    stamp: Stamp
    approval_id: str
    digest: str
    args_json: bytes = field(repr=False)
    verdict: Verdict
    detail_json: bytes = field(repr=False)
    version: int | None = None
    """Is the version of the approval that they saw, if that matters."""
    takes: Taken | None = None
    """Where a call with the edited arguments would be, if that is not where this effect is: the edit takes it."""
    subject_json: bytes | None = field(default=None, repr=False)
    """The mark of the person whom the edited arguments are about, where the editor's process can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTo:
    """Records that somebody was shown what is asked."""

    ref: Ref
    stamp: Stamp
    approval_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attend:
    """Sees to an approval: calls it expired or escalates it when that is due, and has people told who were not.

    `channels` are those that the attending process sends by: a question that names no channel is told by them.
    """

    ref: Ref
    stamp: Stamp
    approval_id: str
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Takes over an effect that another ledger recorded, so that it is not done again here."""

    effect: Effect
    stamp: Stamp
    origin_json: bytes = field(repr=False)
    subject_json: bytes | None = field(default=None, repr=False)

    @property
    def ref(self) -> Ref:
        """Locates the effect."""
        return self.effect.ref

    @property
    def run_id(self) -> str:
        """Names the run it joins."""
        return self.effect.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Appends a fact to a run that is about no effect; `erased` names payloads of the run that go with it.

    With a sheet, that changes too, if nobody else has changed it since: then its version is the next one. With `after`,
    nothing is written unless that is the number of the run's last event, for it was decided on all that came before.
    """

    tenant: str
    run_id: str
    stamp: Stamp
    event_type: str
    facts: bytes
    committed: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    erased: tuple[tuple[int, str], ...] = ()
    sheet: Sheet | None = None
    after: int | None = field(default=None, compare=False)

    @property
    def ref(self) -> Ref:
        """Is a place where no effect can be: no key is empty."""
        return Ref(self.tenant, self.run_id, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Changes a sheet that no event tells of, if nobody else has changed it since: its version is the next one."""

    tenant: str
    stamp: Stamp
    sheet: Sheet

    @property
    def ref(self) -> Ref:
        """Is a place where no effect can be."""
        return Ref(self.tenant, "", "")


AboutApproval = CastVote | TakeBack | Amend | ShowTo | Attend
Command = (
    Open | Finish | Relinquish | Expire | Settle | Reopen | Cancel | AboutApproval | Adopt | Record | Keep | RunCommand
)


def run_named_by(command: Command) -> str | None:
    """Gives the run that a command itself names; those about an effect that is there leave it to the effect."""
    named: str | None = getattr(command, "run_id", None)
    return named


def runs_named_by(command: Command) -> tuple[str, ...]:
    """Return the runs that a command may write to: the one it names, and the parent that is told of it."""
    named = run_named_by(command)
    telling = command.telling if isinstance(command, StartRun) else None
    return tuple(run_id for run_id in (named, None if telling is None else telling.run_id) if run_id is not None)


def refs_of(command: Command) -> tuple[Ref, ...]:
    """Return the places of the effects that a command is decided on: its own first."""
    edit = command.edit if isinstance(command, Open) else command if isinstance(command, Amend) else None
    taken = None if edit is None else edit.takes
    return (command.ref,) if taken is None else (command.ref, taken.ref)


def is_about_effect(command: Command) -> bool:
    """Is there, or may there come to be, an effect at the place of this command?"""
    return bool(command.ref.key)


# Answers. Each says one thing, and `begin` hands the first group to the caller, so that none can be misread.


@dataclass(frozen=True, slots=True)
class Claimed:
    """The attempt is ours: run the handler, then commit."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Replayed:
    """It succeeded before; `value` is the recorded result."""

    __match_args__ = ("value",)
    effect: Effect

    @property
    def value(self) -> Any:
        """Is the recorded result, a fresh copy each time."""
        return self.effect.detail


@dataclass(frozen=True, slots=True)
class ReplayedFailure:
    """It failed before; `error` is the recorded message."""

    __match_args__ = ("error",)
    effect: Effect

    @property
    def error(self) -> str:
        """Is the recorded message."""
        return ERASED_TEXT if self.effect.is_detail_erased else str((self.effect.detail or {}).get("message", ""))

    @property
    def error_type(self) -> str:
        """Is the recorded name of the exception's class."""
        return "Error" if self.effect.is_detail_erased else str((self.effect.detail or {}).get("type", "Error"))


@dataclass(frozen=True, slots=True)
class AwaitingApproval:
    """A person has to decide first; `approval` is the question."""

    approval: Approval
    effect: Effect


@dataclass(frozen=True, slots=True)
class ApprovalEnded:
    """The approval this caller waited for expired or went stale; calling again asks anew."""

    approval: Approval
    effect: Effect


@dataclass(frozen=True, slots=True)
class RefusedByPolicy:
    """The policy does not let this call run."""

    verdict: Verdict
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class OverBudget:
    """A budget does not have what this call takes."""

    exceeded: Exceeded
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class AllStopped:
    """Nothing of this tenant is entered now: somebody has stopped all effects."""

    stop: Stop
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class MayRun:
    """Nobody has to be asked, or somebody has said yes: whoever calls now may claim it; `effect` is it, if it is there.

    It promises nothing: the claim is decided when it is asked for.
    """

    effect: Effect | None


@dataclass(frozen=True, slots=True)
class LimitsUnseen:
    """The run limits its calls, and whoever judged this one did not know that yet: judge it again."""

    effect: Effect | None


@dataclass(frozen=True, slots=True)
class InFlight:
    """Somebody else is executing it now."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class InDoubt:
    """It may have happened."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Denied:
    """A person said no; `reason` is why."""

    __match_args__ = ("reason",)
    effect: Effect

    @property
    def reason(self) -> str:
        """Is what the person gave as the reason."""
        return ERASED_TEXT if self.effect.is_detail_erased else str(self.effect.detail or "")


@dataclass(frozen=True, slots=True)
class Canceled:
    """It was withdrawn; `reason` is why."""

    __match_args__ = ("reason",)
    effect: Effect

    @property
    def reason(self) -> str:
        """Is what was given as the reason."""
        return ERASED_TEXT if self.effect.is_detail_erased else str(self.effect.detail or "")


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """The key belongs to a call with other content."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class LooksRepeated:
    """The same arguments came before, under another call id or in an earlier turn, and that call has ended."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Reworded:
    """The call is open with other words in arguments that vary: judge and run it with the recorded ones."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class EditUnread:
    """The call would run with other arguments than its caller named: read them as the tool does, and judge them."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class ArgsErased:
    """It could be attempted, but its arguments were erased."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Decided:
    """The command about an approval was carried out (or had been already); this is how both stand now."""

    approval: Approval
    effect: Effect


@dataclass(frozen=True, slots=True)
class NotCounted:
    """The command about an approval was refused; `refusal` says why."""

    refusal: Refusal
    approval: Approval
    effect: Effect


@dataclass(frozen=True, slots=True)
class Moved:
    """The command was carried out (or had been already); `effect` is the state now."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Late:
    """The claim was no longer good; what it reported is kept as an event."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Illegal:
    """The effect's status does not allow the command."""

    effect: Effect
    why: str


@dataclass(frozen=True, slots=True)
class Forbidden:
    """The caller's credential is not for this; `why` says what is."""

    effect: Effect
    why: str


@dataclass(frozen=True, slots=True)
class NoSuchEffect:
    """There is no effect at this place."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Recorded:
    """The fact is event `seq` of its run."""

    run_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class Kept:
    """The sheet is changed, or was already."""

    sheet: Sheet


@dataclass(frozen=True, slots=True)
class Outrun:
    """Somebody else has changed the sheet, or the run; `sheet` is how it stands, None when there is none."""

    sheet: Sheet | None


Begun = Claimed | Replayed | ReplayedFailure | AwaitingApproval | InFlight | InDoubt | Denied | Canceled
NotBegun = (
    KeyTaken
    | LooksRepeated
    | Reworded
    | ArgsErased
    | ApprovalEnded
    | RefusedByPolicy
    | OverBudget
    | AllStopped
    | LimitsUnseen
    | EditUnread
    | MayRun
)
Answer = (
    Begun
    | NotBegun
    | Moved
    | Late
    | Illegal
    | Forbidden
    | NoSuchEffect
    | Recorded
    | Decided
    | NotCounted
    | Kept
    | Outrun
    | RunAnswer
)
