"""What a walk asks of its driver, and what the driver answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol

from indelible.core.approvals.approval import Question
from indelible.core.commands import Command, EditRead, Stamp
from indelible.core.effects.calls import HARMLESS, Handling, OnRepeat, ToolCall, no_run
from indelible.core.effects.effect import Actor, Claim, Effect
from indelible.core.effects.identity import Identity, Ref, identify
from indelible.core.effects.tightening import occurring
from indelible.core.policy.verdicts import REPEAT_RULE, Charge, Verdict, asked_as_repeat, capped
from indelible.core.privacy.redaction import Screen


class Mint(Protocol):
    """Makes what must be new: stamps, ids and tokens. The only source of time and randomness."""

    def stamp(self, actor: Actor, values: int = ...) -> Stamp: ...
    def effect_id(self) -> str: ...
    def token(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Submit:
    """Write this command and answer; `known` is the effect's state as last seen, if it was seen."""

    command: Command
    known: Effect | None = None


@dataclass(frozen=True, slots=True)
class Invoke:
    """Enter the handler with this claim; answer `Returned` or `Raised`.

    `screen` holds the caller's own arguments where the record has marks, and what of a late report may be recorded.
    `added` holds the values of parameters that a version of the tool before them did not record.
    """

    claim: Claim
    handling: Handling
    screen: Screen | None = field(default=None, repr=False)
    added: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class AwaitChange:
    """Wait until this effect has moved on, at most `left`; answer `Awaited`."""

    effect: Effect
    left: timedelta


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait this long."""

    duration: timedelta


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the tool's probe what became of the effect; answer `Returned(outcome or None)` or `Raised`."""

    effect: Effect
    reconcile: Callable[[Effect], Any]


@dataclass(frozen=True, slots=True)
class Judge:
    """Ask the policy about this call, as it is now; answer `Judged`.

    Whoever has `waited` for an approval goes on with that one: no standing grant has to be looked for.
    """

    prepared: Prepared
    waited: bool = False
    afresh: bool = False
    """Forget what was known of rules before: it was not enough."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Is where the same call stands in the run that this one was forked from, if it was made there by then."""

    ref: Ref
    run_id: str
    at: int

    def has(self, effect: Effect | None) -> bool:
        """Was it made there by then?"""
        return effect is not None and effect.run_id == self.run_id and effect.opened_seq <= self.at


@dataclass(frozen=True, slots=True)
class Recall:
    """Look at the effect at this place; answer with it, or None."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Judged:
    """The policy's verdict, and the standing grants that may cover the call, with what they pin in its arguments.

    In a forked run, `origins` are the places where the call may have been made before.
    """

    verdict: Verdict
    grants: Mapping[str, str] = field(default_factory=dict)
    origins: tuple[Origin, ...] = ()
    terms: Question | None = None
    """Says whom to ask where no rule does: when a call looks like one before."""
    caps: tuple[Charge, ...] = ()
    """Are what a question takes of how many may be open."""
    knows_limits: bool = False
    """Is it known what the call's run allows?"""
    environment: str = ""
    """The environment that the call was judged in."""
    handling: Handling | None = None
    """How the call is treated, where a policy declares a stronger class than its caller."""
    may_be_compensated: bool = False
    """Has this ledger any compensations? Then a success may no longer stand."""

    def repeated(self, on_repeat: OnRepeat) -> Judged:
        """Return what holds of the call if it was made before.

        A grant answers the rule it was given for, and not whether a repeat is meant.
        """
        if on_repeat == "run":
            return self
        if on_repeat == "refuse":
            refused = replace(self.verdict, decision="refuse", rule=REPEAT_RULE, question=None, charges=())
            return replace(self, verdict=refused, grants={})
        verdict = capped(asked_as_repeat(self.verdict, self.terms), self.caps)
        return replace(self, verdict=verdict, grants=self.grants if verdict.rule == REPEAT_RULE else {})


@dataclass(frozen=True, slots=True)
class CheckSealing:
    """Raise `NotSealed` if the journal cannot be sealed now and the ledger was told to refuse then."""


@dataclass(frozen=True, slots=True)
class AwaitSeal:
    """Wait until the newest event of this effect is under a signed head, wherever it is signed or only if here."""

    effect: Effect
    wherever: bool


Request = Submit | Invoke | AwaitChange | Pause | Probe | Judge | Recall | CheckSealing | AwaitSeal


@dataclass(frozen=True, slots=True)
class Returned:
    """The user's code returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Awaited:
    """The effect's newest state, or None when the time was up, and how much of the time is left."""

    newest: Effect | None
    left: timedelta


@dataclass(frozen=True, slots=True)
class Raised:
    """The user's code raised, or was cancelled or timed out."""

    error: BaseException
    is_interruption: bool = False
    is_canceled: bool = False
    """Was the caller's task cancelled? Then nothing is tried again, whatever the handler raised for it."""
    has_sent: bool = True
    """False only if it is known that the attempt sent nothing."""
    was_entered: bool = True
    """False only if it is known that the handler was never entered."""


Walk = Generator[Request, Any, Any]
"""Ends with a value, or with `Raised` when the handler's own exception is to be raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Is a call ready to be walked: identified, with its handling decided."""

    call: ToolCall
    identity: Identity
    handling: Handling
    actor: Actor
    max_result_bytes: int | None
    screen: Screen | None = field(default=None, repr=False)
    subject_json: bytes | None = field(default=None, repr=False)
    subject_in: Callable[[bytes], bytes | None] | None = field(default=None, repr=False)
    """Gives the mark of the person whom other arguments of this tool are about, if the tool says so."""
    principal: str | None = None
    plain_args_json: bytes | None = field(default=None, repr=False)
    """Is what the caller said, where that is not what may be recorded; rules look at it."""
    driver_token: str | None = field(default=None, repr=False)
    """Is the right to drive the call's run, where this process has or had it."""
    is_alone: bool = False
    """Its caller named neither run nor scope, as one may whose call has no effects."""
    takes_grants: bool = True
    """May a standing grant spare the question? Not where the caller needs an approval to speak of."""
    edit: EditRead | None = None
    """Is what an approver made of the arguments, as the tool reads it, where that is what would run."""
    plain_edit_json: bytes | None = field(default=None, repr=False)
    """Is the same with the caller's own values where the record has marks; rules look at it."""

    @property
    def added(self) -> Mapping[str, Any]:
        """Return what a version before this one did not record, for the arguments of an open call.

        Inside of an argument, a field belongs only where this call has it: a union's other class may have none.
        """
        omitted = self.identity.omitted
        return {path: value for path, value in self.call.added.items() if "." not in path or path in omitted}

    @property
    def judged(self) -> Prepared:
        """Return the call with the arguments that would run, for the policy to judge."""
        if self.edit is None:
            return self
        identity = replace(self.identity, args_json=self.edit.args_json)
        return replace(self, identity=identity, plain_args_json=self.plain_edit_json)

    def treated(self, handling: Handling) -> Prepared:
        """Return the call as a policy that declares its class has it treated: also told apart by that class.

        Raises:
            NoRun: It has effects by that class, and is in no run that its caller named.
        """
        said = self.handling.side_effect
        if self.is_alone and handling.side_effect not in HARMLESS:
            raise no_run(self.call.tool)
        call, identity = occurring(self.call, said, handling), self.identity
        if call is not self.call:
            identity = identify(call, identity.ref.tenant, args_json=identity.args_json)
        return replace(self, call=call, identity=identity, handling=handling)
