"""The exceptions of agent-ledger, by its names, and one more for what it does not know: an effect in doubt.

    EffectLedgerError
    ├── EffectLedgerValidationError   a call, an option or arguments are wrong; also a ValueError
    ├── EffectDeniedError             a person, or the policy, said no; or it was canceled
    ├── EffectFailedError             the recorded outcome is a failure (raised on replay)
    ├── EffectTimeoutError            nobody finished or decided in time: call again
    ├── EffectInDoubtError            it may have happened: somebody has to find out (not there in agent-ledger)
    ├── EffectLedgerInvariantError    the ledger will not do this with the effect as it stands
    └── EffectStoreError              the store is the problem

What our own ledger said is each one's `__cause__`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from indelible import Effect, IndelibleError, errors


class EffectLedgerError(Exception):
    """Is the root of what this face raises."""

    def __reduce__(self) -> tuple[object, ...]:
        """Keep every attribute in a copy and across processes."""
        return errors.as_it_is(self)


class EffectLedgerValidationError(EffectLedgerError, ValueError):
    """Something given is wrong; `field` names it, where that is known."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class EffectDeniedError(EffectLedgerError):
    """Somebody said no to this call; `reason` is why."""

    def __init__(self, idem_key: str, reason: str | None = None) -> None:
        super().__init__(reason or f"effect {idem_key} was denied")
        self.idem_key = idem_key
        self.reason = reason


class EffectFailedError(EffectLedgerError):
    """It failed before, and is not tried again; `effect_error` holds the recorded message and code."""

    def __init__(self, idem_key: str, effect_error: Mapping[str, str | None]) -> None:
        super().__init__(effect_error.get("message") or f"effect {idem_key} failed")
        self.idem_key = idem_key
        self.effect_error = dict(effect_error)
        self.code = self.effect_error.get("code")


class EffectTimeoutError(EffectLedgerError):
    """It was not finished, or not decided, in the time this call waits."""

    def __init__(self, idem_key: str, timeout_s: float | None = None, *, timeout_ms: int | None = None) -> None:
        if timeout_s is None and timeout_ms is not None:
            timeout_s = timeout_ms / 1000
        within = "" if timeout_s is None else f" within {timeout_s:g}s"
        super().__init__(f"effect {idem_key} did not complete{within}; call again to go on waiting")
        self.idem_key = idem_key
        self.timeout_s = timeout_s
        self.timeout_ms = None if timeout_s is None else round(timeout_s * 1000)


class EffectInDoubtError(EffectLedgerError):
    """It may have happened and nobody reported: nothing runs it again until a person has found out."""

    def __init__(self, idem_key: str, message: str) -> None:
        super().__init__(message)
        self.idem_key = idem_key


class EffectLedgerInvariantError(EffectLedgerError):
    """The ledger will not do this with the effect as it stands."""


class EffectStoreError(EffectLedgerError):
    """The store cannot do this, or not now."""

    def __init__(
        self,
        message: str,
        *,
        operation: str | None = None,
        idem_key: str | None = None,
        effect_id: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.operation = operation
        self.idem_key = idem_key
        self.effect_id = effect_id
        self.details = details or {}


def told_as_there(problem: IndelibleError, idem_key: str) -> EffectLedgerError:
    """Gives what agent-ledger's users know a refusal of our ledger as."""
    for kind, make in _AS_THERE.items():
        if isinstance(problem, kind):
            return make(problem, idem_key)
    return EffectLedgerInvariantError(str(problem))


def _denied(problem: Any, idem_key: str) -> EffectLedgerError:
    return EffectDeniedError(idem_key, reason_of(problem.effect))


def _failed(problem: Any, idem_key: str) -> EffectLedgerError:
    outcome = problem.effect.outcome
    return EffectFailedError(idem_key, {"message": outcome.error, "code": code_of(outcome.error_type)})


def reason_of(effect: Effect) -> str | None:
    """Gives why a call was denied or canceled; None where nobody said so, or where that was erased."""
    try:
        return str(effect.detail or "") or None
    except errors.EffectErased:
        return None


def _field_of(problem: Any) -> str | None:
    """Gives the field that something wrong is in; the message says where in it."""
    path: str | None = getattr(problem, "path", None)
    return None if path is None else path.replace("[", ".").partition(".")[0]


def code_of(error_type: str) -> str | None:
    """Gives an error's code: the name of its class, unless it says nothing."""
    return None if error_type == "Error" else error_type


# In the order in which they are looked through: what is more special comes first.
_AS_THERE: dict[type[IndelibleError], Callable[[Any, str], EffectLedgerError]] = {
    errors.EffectDenied: _denied,
    errors.EffectCanceled: _denied,
    errors.PolicyRefused: lambda problem, key: EffectDeniedError(key, str(problem)),
    errors.EffectFailed: _failed,
    errors.StillRunning: lambda problem, key: EffectTimeoutError(key),
    errors.ApprovalPending: lambda problem, key: EffectTimeoutError(key),
    errors.EffectInDoubt: lambda problem, key: EffectInDoubtError(key, str(problem)),
    errors.ResultNotRecorded: lambda problem, key: EffectInDoubtError(key, str(problem)),
    errors.LeaseLost: lambda problem, key: EffectInDoubtError(key, str(problem)),
    errors.BadCall: lambda problem, key: EffectLedgerValidationError(str(problem), _field_of(problem)),
    errors.StoreError: lambda problem, key: EffectStoreError(str(problem), idem_key=key),
}
