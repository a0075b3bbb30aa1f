"""Every exception Indelible raises, one class per reaction of the caller.

    IndelibleError
    ├── BadCall                  the request is wrong: correct it and call again; nothing was recorded
    │   ├── NotRecordable        a value has no lossless recorded form; .path names the field
    │   ├── UnfitArguments       no call can have these arguments: they hold a mark, or do not say which call it is
    │   ├── TooLarge             a payload is over the limit in bytes or in depth
    │   ├── NoRun                a call with effects is in no run: name one, such as the order's or the ticket's id
    │   ├── BadFilter            a filter cannot be read; .column and .length say where
    │   ├── UnknownEffect        no effect has this id or key
    │   ├── UnknownApproval      no approval has this id
    │   ├── UnknownPermission    no grant or delegation has this id
    │   ├── UnknownCredential    no token, person, passkey or session has this id
    │   ├── UnknownRun           no run has this name
    │   ├── UnknownCheckpoint    the run has no such checkpoint or event
    │   ├── UnknownExport        the server has no such export
    │   ├── BadPolicy            a policy cannot be used; .problems lists what is wrong and where
    │   └── BadSettlements       rows cannot be settled, and none was; .problems lists them with their lines
    ├── NotRun                   the ledger did not run the call; the handler was not entered by this call
    │   ├── KeyReused            the key belongs to a call with other arguments; .outcome is what came of that one
    │   ├── RepeatRefused        the same call succeeded in an earlier turn; .outcome is what came of that one
    │   ├── ResourceBusy         another call on the same resource is open
    │   ├── StillRunning         another caller is executing it and did not finish in time
    │   ├── AboutApproval        an approval keeps it from running; .approval is how it stands
    │   │   ├── ApprovalPending  a person has to decide first
    │   │   ├── ApprovalEndedUnused  the approval it waited for ended before it could be used: call again to ask anew
    │   │   │   ├── ApprovalExpired  nobody decided in time
    │   │   │   └── ApprovalStale    what would run is no longer what was asked about
    │   │   └── VoteRefused      this decision does not count; .code says why in one word
    │   ├── PolicyRefused        a rule of the policy does not let it run
    │   ├── BudgetExceeded       a budget does not have what it takes
    │   │   └── TooManyPending   too many calls that were asked about are unfinished: settle or decide some
    │   ├── Stopped              all effects of the tenant are stopped: nothing runs until somebody lets them go
    │   ├── ToolUnavailable      the tool could not be reached, and nothing happened: call again later
    │   ├── EffectDenied         a person said no
    │   ├── EffectCanceled       it was withdrawn
    │   ├── EffectInDoubt        it may have happened; settle it, retry it or give the tool a probe
    │   ├── EffectCompensated    it succeeded and was undone since; .compensation is the effect that undid it
    │   ├── EffectErased         what is asked for was recorded and then erased; it cannot be given any more
    │   ├── OnHold               a legal hold keeps this from being erased
    │   ├── RunRefused           a run does not allow this now; .code says why in one word
    │   │   ├── RunDriven        another process drives it
    │   │   ├── RunLost          this process drives it no longer: stop working on it
    │   │   ├── RunOver          it has ended
    │   │   ├── RunHandedOver    another ledger goes on with it: work on it there
    │   │   └── ReviewRequired   somebody has to look at it first
    │   └── IllegalMove          the effect's status does not allow this operation
    ├── NotAuthenticated         the server does not know this credential: get another one
    ├── NotPermitted             this credential is not for this
    ├── EffectFailed             the recorded outcome is a failure (raised on replay)
    ├── LeaseLost                the handler ran but its claim was no longer ours; its late result is kept as an event
    ├── ResultNotRecorded        the handler ran but its result could not be stored; the effect is in doubt
    ├── JournalError             the record cannot be sealed, read or shown
    │   ├── SignerRefused        the database does not continue what was signed: nothing was signed
    │   ├── KeyUnusable          a signing key is missing, open to others, locked or damaged
    │   ├── NotSealed            the event is durable, but no signed head covered it in time
    │   └── BadNote              a note, key, head or receipt is not what it should be
    └── StoreError               the store is the problem, not the call
        ├── StoreUnavailable     it cannot be reached or written: nothing was claimed, call again later
        │   ├── AskedTooOften    the server is asked too much: call again after .retry_after seconds
        │   └── Overloaded       too many calls wait already: call again after .retry_after seconds
        ├── OutcomeUnknown       a commit was sent and its fate cannot be learnt now
        ├── SchemaOutdated       run `indelible migrate`
        ├── StateNotRead         the store did not read what decides a call: nothing was run; a fault of the store
        │   └── RecordForged     a program without the ledger's keys changed what decides a call: nothing was run
        └── Misconfigured        the address or a setting of the store cannot be used

Four more are raised in handlers, never by the ledger: `NothingHappened`, `MayHaveHappened`, `Refused`, and
`AmbiguousRequest`, which a transport of ours raises before a request leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indelible.core.approvals.approval import Approval
    from indelible.core.effects.effect import Effect, Outcome
    from indelible.core.policy.verdicts import Charge, Verdict
    from indelible.core.runs.run import Run


class IndelibleError(Exception):
    """Is the root of everything Indelible raises."""

    def __reduce__(self) -> tuple[object, ...]:
        """Keep every attribute in a copy and across processes: a pool of processes raises what its worker raised."""
        return as_it_is(self)


def as_it_is(error: Exception) -> tuple[object, ...]:
    """Say how to make an exception again without its `__init__`, which may need more than `args`."""
    return _made_again, (type(error), error.args), error.__dict__


def _made_again(kind: type[Exception], args: tuple[object, ...]) -> Exception:
    return kind.__new__(kind, *args)


class BadCall(IndelibleError, ValueError):
    """The request is wrong; correct it and call again. Nothing was recorded."""


class NotRecordable(BadCall):
    """A value has no lossless recorded form; `path` names where it sits."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class UnfitArguments(BadCall):
    """No call can have these arguments: they hold the mark of a redacted value, or lack what says which call it is."""


class TooLarge(BadCall):
    """A payload exceeds a limit; `limit` and `size` say which and by how much."""

    def __init__(self, message: str, *, limit: int, size: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.size = size


class NoRun(BadCall):
    """A call that has effects is in no run, and has no `scope`; so a repeat could not be told from a new call."""

    code = "no_run"


class BadFilter(BadCall):
    """A filter cannot be read; `column`, counted from 1, and `length` say what of it."""

    def __init__(self, message: str, *, column: int = 1, length: int = 0) -> None:
        super().__init__(message)
        self.column = column
        self.length = length


class UnknownEffect(BadCall, LookupError):
    """No effect has this id or key."""


class UnknownApproval(BadCall, LookupError):
    """No approval has this id."""


class UnknownPermission(BadCall, LookupError):
    """No grant or delegation has this id."""


class UnknownCredential(BadCall, LookupError):
    """No token, person, passkey or session has this id."""


class UnknownRun(BadCall, LookupError):
    """No run has this name."""


class UnknownCheckpoint(BadCall, LookupError):
    """The run has no such checkpoint or event."""


class UnknownExport(BadCall, LookupError):
    """The server has no such export."""


class BadPolicy(BadCall):
    """A policy cannot be used; `problems` lists what is wrong with it and where."""

    def __init__(self, message: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class BadSettlements(BadCall):
    """Some rows cannot be settled, so none was; `problems` lists them with their lines."""

    def __init__(self, message: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class NotAuthenticated(IndelibleError):
    """The server does not know the credential, or it has ended; get another one."""


class NotPermitted(IndelibleError):
    """The credential is known and is not for this."""


class NotRun(IndelibleError):
    """The ledger did not run the call; the handler was not entered by this call."""

    def __init__(self, message: str, *, effect: Effect | None = None) -> None:
        super().__init__(message)
        self.effect = effect


class KeyReused(NotRun):
    """The key belongs to a call with other arguments.

    Attributes:
        outcome: What came of the recorded call; None while it is not settled.
        differing: The arguments that differ, by name: `(recorded, given)`. Empty where the record cannot tell.
    """

    def __init__(
        self,
        message: str,
        *,
        effect: Effect | None = None,
        differing: Mapping[str, tuple[object, object]] | None = None,
    ) -> None:
        super().__init__(message, effect=effect)
        self.differing = dict(differing or {})

    @property
    def outcome(self) -> Outcome | None:
        """Return what came of the recorded call; None while it is not settled or when that was erased."""
        return _recorded_outcome(self.effect)


class RepeatRefused(NotRun):
    """The same call succeeded in an earlier turn, and its tool says on_repeat="refuse"; `outcome` is that result."""

    @property
    def outcome(self) -> Outcome | None:
        """Return what came of the earlier call; None when that was erased."""
        return _recorded_outcome(self.effect)


class ResourceBusy(NotRun):
    """Another call on the same resource is open; call again when it has ended."""


class StillRunning(NotRun):
    """Another caller is executing this effect and did not finish within the wait."""


class AboutApproval(NotRun):
    """Carries the approval that keeps a call from running."""

    def __init__(self, message: str, *, approval: Approval, effect: Effect | None = None) -> None:
        super().__init__(message, effect=effect)
        self.approval = approval


class ApprovalPending(AboutApproval):
    """A person has to decide before this effect may run."""


class ApprovalEndedUnused(AboutApproval):
    """The approval this call waited for ended before it could be used; calling again asks anew."""


class ApprovalExpired(ApprovalEndedUnused):
    """Nobody decided in time."""


class ApprovalStale(ApprovalEndedUnused):
    """What would run is no longer what was asked about."""


class VoteRefused(AboutApproval):
    """This decision does not count; `code` says why in one word."""

    def __init__(self, message: str, *, code: str, approval: Approval, effect: Effect | None = None) -> None:
        super().__init__(message, approval=approval, effect=effect)
        self.code = code


class PolicyRefused(NotRun):
    """A rule of the policy does not let this call run; `verdict` names it."""

    def __init__(self, message: str, *, verdict: Verdict, effect: Effect | None = None) -> None:
        super().__init__(message, effect=effect)
        self.verdict = verdict


class BudgetExceeded(NotRun):
    """A budget does not have what this call takes; `charge` names it."""

    def __init__(self, message: str, *, charge: Charge, effect: Effect | None = None) -> None:
        super().__init__(message, effect=effect)
        self.charge = charge


class TooManyPending(BudgetExceeded):
    """Too many calls that a person was asked about are unfinished; no other is asked about until some have ended."""


class Stopped(NotRun):
    """Somebody has stopped all effects of the tenant; nothing runs until somebody lets them go."""


class ToolUnavailable(NotRun):
    """The tool could not be reached, and nothing happened; call again later."""


class EffectDenied(NotRun):
    """A person refused this effect."""


class EffectCanceled(NotRun):
    """This effect was withdrawn before it ran."""


class EffectInDoubt(NotRun):
    """The effect may have happened; only a probe or a person can say."""


class EffectCompensated(NotRun):
    """The call succeeded and was compensated since, so it no longer stands; it was not run again.

    Attributes:
        compensation: The effect that compensated it. It may still be running or in doubt.
    """

    def __init__(self, message: str, *, effect: Effect | None = None, compensation: Effect | None = None) -> None:
        super().__init__(message, effect=effect)
        self.compensation = compensation


class EffectErased(NotRun):
    """What is asked for was recorded and then erased; the effect happened, and its value cannot be given any more."""


class OnHold(NotRun):
    """A legal hold keeps this from being erased."""


class RunRefused(NotRun):
    """A run does not allow this now; `code` says why in one word, `run` is how it stands."""

    def __init__(self, message: str, *, code: str, run: Run | None = None, checkpoint_id: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.run = run
        self.checkpoint_id = checkpoint_id


class RunDriven(RunRefused):
    """Another process drives this run."""


class RunLost(RunRefused):
    """This process drives the run no longer."""


class RunOver(RunRefused):
    """The run has ended."""


class RunHandedOver(RunRefused):
    """The run was handed over to another ledger, which goes on with it; nothing of it runs here."""


class ReviewRequired(RunRefused):
    """Somebody has to look at the run first; `checkpoint_id` names the newest checkpoint that is whole."""


class IllegalMove(NotRun):
    """The effect's status does not allow this operation."""


class EffectFailed(IndelibleError):
    """The recorded outcome of this effect is a failure."""

    def __init__(self, message: str, *, effect: Effect, error_type: str) -> None:
        super().__init__(message)
        self.effect = effect
        self.error_type = error_type


class LeaseLost(IndelibleError):
    """The handler ran, but the claim was no longer ours; the late result is kept as an event."""

    def __init__(self, message: str, *, effect: Effect) -> None:
        super().__init__(message)
        self.effect = effect


class ResultNotRecorded(IndelibleError):
    """The handler ran but its result could not be stored; `value` is what it returned, the effect is in doubt."""

    def __init__(self, message: str, *, value: object = None) -> None:
        super().__init__(message)
        self.value = value


class JournalError(IndelibleError):
    """The record cannot be sealed, read or shown."""


class SignerRefused(JournalError):
    """The database does not continue what was signed before; nothing was signed."""


class KeyUnusable(JournalError):
    """A signing key is missing, can be read by others, is locked or damaged."""


class NotSealed(JournalError):
    """The event is durable, but no signed head covered it in time, and the ledger was told to refuse then."""


class BadNote(JournalError, ValueError):
    """A note, key, head or receipt is not what it should be; the message says what is wrong with it."""


class StoreError(IndelibleError):
    """The store is the problem, not the call."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written; nothing was claimed."""


class AskedTooOften(StoreUnavailable):
    """The server is asked more than this caller may; `retry_after` says in how many seconds to ask again."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overloaded(StoreUnavailable):
    """Too many calls wait already, or this one waited too long; nothing was claimed. Call again, or slow down.

    Attributes:
        retry_after: In how many seconds to call again.
    """

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OutcomeUnknown(StoreError):
    """A commit was sent and its fate cannot be learnt now."""


class SchemaOutdated(StoreError):
    """The store's schema is older or newer than this version of Indelible."""


class StateNotRead(StoreError):
    """The store did not read what decides a call, so nothing was run. It is a fault of the store."""


class RecordForged(StateNotRead):
    """A row that decides a call was not written by a holder of the ledger's keys, or was put back; nothing was run."""


class Misconfigured(StoreError):
    """The store's address or one of its settings cannot be used."""


def _recorded_outcome(effect: Effect | None) -> Outcome | None:
    return None if effect is None or effect.is_detail_erased else effect.outcome


class NothingHappened(Exception):
    """Raise in a handler when the outside world was not touched; the effect may be tried again.

    It speaks of this one effect, so raise a new one each time. If it passes through the handler of another effect, that
    handler failed as by any other exception: what it did before is done.
    """

    effect_id: str | None = None
    """The effect whose handler raised it."""


class MayHaveHappened(Exception):
    """Raise in a handler when it is unknown whether the call happened; the effect becomes in doubt."""


class Refused(Exception):
    """Raise in a handler when the provider refused the call: nothing was done, and a repeat gets the same answer.

    The effect becomes `failed`. Like `NothingHappened`, it speaks of one effect.
    """

    effect_id: str | None = None
    """The effect whose handler raised it."""


class AmbiguousRequest(Exception):
    """A handler sends a second, different request to the same address, and the two would share an idempotency key.

    Name the requests (`with effect.request("item-7"):`), or list the body fields that change (`volatile=["sent_at"]`).
    The request was not sent.
    """
