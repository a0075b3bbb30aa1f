"""What shells ask of the core, and what it answers. Commands carry everything impure: time, ids, salts, verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from indelible.core.calls import Dedupe, OnCrash, SideEffect
from indelible.core.effects import ERASED_TEXT, Actor, Claim, Effect
from indelible.core.identity import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Is when and by whom a command was given, and the randomness its event may use."""

    at: datetime
    actor: Actor
    salts: bytes = field(repr=False)


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
    needs_approval: bool
    has_key_fields: bool
    subject_json: bytes | None = field(default=None, repr=False)
    """Is the mark of the person this call is about."""


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
class Decide:
    """Answers the question whether an effect may run, for exactly the digest the person saw."""

    ref: Ref
    stamp: Stamp
    digest: str
    is_approval: bool
    detail_json: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Appends a fact to a run that is about no effect; `erased` names payloads of the run that go with it."""

    tenant: str
    run_id: str
    stamp: Stamp
    event_type: str
    facts: bytes
    committed: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    erased: tuple[tuple[int, str], ...] = ()

    @property
    def ref(self) -> Ref:
        """Is a place where no effect can be: no key is empty."""
        return Ref(self.tenant, self.run_id, "")


Command = Open | Finish | Relinquish | Expire | Settle | Reopen | Cancel | Decide | Record


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
    """A person has to decide first."""

    effect: Effect


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
    """The same arguments came before under another call id, and the tool wants to be asked about that."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class ArgsErased:
    """It could be attempted, but its arguments were erased."""

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
class NoSuchEffect:
    """There is no effect at this place."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Recorded:
    """The fact is event `seq` of its run."""

    run_id: str
    seq: int


Begun = Claimed | Replayed | ReplayedFailure | AwaitingApproval | InFlight | InDoubt | Denied | Canceled
Answer = Begun | KeyTaken | LooksRepeated | ArgsErased | Moved | Late | Illegal | NoSuchEffect | Recorded
