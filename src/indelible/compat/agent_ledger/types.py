"""The records and options of agent-ledger, by its names: those of 0.1 and those of 0.2 side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal

from indelible.compat.agent_ledger.errors import EffectLedgerValidationError

JsonValue = str | int | float | bool | None | list[Any] | dict[str, Any]
IdempotencyStatus = Literal["fresh", "replayed"]
_UNSAID: Any = object()
"""Is an option that nobody gave, where None is one."""


class EffectStatus(str, Enum):  # noqa: UP042  # agent-ledger's is one too, and prints differently from a StrEnum
    """Names how an effect stands; `IN_DOUBT` is ours: it may have happened, and a person has to find out."""

    REQUIRES_APPROVAL = "requires_approval"
    READY = "ready"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    DENIED = "denied"
    IN_DOUBT = "in_doubt"


TERMINAL_STATUSES = frozenset({EffectStatus.SUCCEEDED, EffectStatus.FAILED, EffectStatus.CANCELED, EffectStatus.DENIED})
AWAITING_STATUSES = frozenset({EffectStatus.PROCESSING, EffectStatus.REQUIRES_APPROVAL})
ALLOWED_TRANSITIONS: dict[EffectStatus, frozenset[EffectStatus]] = {
    EffectStatus.REQUIRES_APPROVAL: frozenset({EffectStatus.READY, EffectStatus.DENIED, EffectStatus.CANCELED}),
    EffectStatus.READY: frozenset(
        {EffectStatus.PROCESSING, EffectStatus.REQUIRES_APPROVAL, EffectStatus.DENIED, EffectStatus.CANCELED}
    ),
    EffectStatus.PROCESSING: frozenset(
        {EffectStatus.SUCCEEDED, EffectStatus.FAILED, EffectStatus.READY, EffectStatus.IN_DOUBT}
    ),
    EffectStatus.IN_DOUBT: frozenset(
        {EffectStatus.SUCCEEDED, EffectStatus.FAILED, EffectStatus.READY, EffectStatus.PROCESSING}
    ),
    EffectStatus.FAILED: frozenset({EffectStatus.READY}),
}
"""Says what may follow what. It is told here, and decided by the ledger."""


def is_terminal_status(status: EffectStatus) -> bool:
    """Does every later call get the same answer?"""
    return status in TERMINAL_STATUSES


def is_awaiting_status(status: EffectStatus) -> bool:
    """Does a call wait for this to change?"""
    return status in AWAITING_STATUSES


def is_valid_transition(from_status: EffectStatus, to_status: EffectStatus) -> bool:
    """May an effect move so?"""
    return to_status in ALLOWED_TRANSITIONS.get(from_status, ())


# What is called


@dataclass(frozen=True, kw_only=True)
class ResourceDescriptor:
    """Names a thing outside; calls of a tool about the same thing are the same call."""

    namespace: str
    type: str
    id: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check_text("namespace", self.namespace)
        _check_text("type", self.type)
        given: object = self.id
        if not isinstance(given, Mapping) or not given:
            raise EffectLedgerValidationError("id: give a mapping that is not empty", "id")


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """Says which tool to call with which arguments, and in which workflow.

    `idempotency_keys` names the arguments that identify the call; `resource` identifies it by a thing instead.
    """

    workflow_id: str
    tool: str
    args: Mapping[str, Any]
    call_id: str | None = None
    resource: ResourceDescriptor | None = None
    idempotency_keys: Sequence[str] | None = None

    def __post_init__(self) -> None:
        _check_text("workflow_id", self.workflow_id)
        _check_text("tool", self.tool)
        if not isinstance(self.args, Mapping):
            raise EffectLedgerValidationError("args: give a mapping of names to values", "args")
        if self.call_id is not None:
            _check_text("call_id", self.call_id)
        if self.idempotency_keys is not None:
            self._check_keys(self.idempotency_keys)

    def _check_keys(self, keys: Sequence[str]) -> None:
        if isinstance(keys, str) or not keys:
            raise EffectLedgerValidationError("idempotency_keys: name at least one argument", "idempotency_keys")
        missing = [key for key in keys if key not in self.args]
        if missing:
            raise EffectLedgerValidationError(
                f"idempotency_keys: {', '.join(map(str, missing))} not among the arguments", "idempotency_keys"
            )


@dataclass(frozen=True)
class EffectError:
    """Is why something failed; `code` is short and for programs."""

    message: str
    code: str | None = None


@dataclass(frozen=True)
class Effect:
    """Is how one call stands. `idem_key` is the handle by which it is found, approved and denied.

    `digest` is ours: a hook is given it, to approve exactly what it was told of and nothing else.
    """

    id: str
    idem_key: str
    workflow_id: str
    call_id: str
    tool: str
    status: EffectStatus
    args_canonical: str
    resource_id_canonical: str
    dedup_count: int
    created_at: datetime
    updated_at: datetime
    result: JsonValue = None
    error: EffectError | None = None
    completed_at: datetime | None = None
    digest: str = ""


# What comes of it


@dataclass(frozen=True)
class CommitSucceeded:
    """Reports that it was done, with its result."""

    status: Literal["succeeded"] = field(init=False, default="succeeded")
    result: JsonValue = None


@dataclass(frozen=True)
class CommitFailed:
    """Reports that it failed, and why."""

    error: EffectError
    status: Literal["failed"] = field(init=False, default="failed")


CommitOutcome = CommitSucceeded | CommitFailed


@dataclass(frozen=True)
class BeginResult:
    """Answers a begin: what is `cached` was done before, else it is the caller's to do and to commit."""

    effect: Effect
    cached: bool
    idempotency_status: IdempotencyStatus
    cached_result: JsonValue = None


@dataclass(frozen=True)
class UpsertEffectInput:
    """Is what stores of agent-ledger are given. It is here for type hints: nothing is written past the ledger."""

    idem_key: str
    workflow_id: str
    call_id: str
    tool: str
    status: EffectStatus
    args_canonical: str
    resource_id_canonical: str
    result: JsonValue = None
    error: EffectError | None = None


@dataclass(frozen=True)
class UpsertEffectResult:
    """Is what stores of agent-ledger answer. It is here for type hints."""

    effect: Effect
    created: bool


# Options


@dataclass(frozen=True, kw_only=True)
class ConcurrencyOptions:
    """Says how long a call waits for another caller to finish, and for a person to decide.

    Both spellings hold: `wait_timeout_ms` of 0.1 is for either wait, and 0.2 tells them apart, where no
    `approval_timeout_s` waits without end. Intervals are checked and otherwise unused, for nothing polls here.
    """

    effect_timeout_s: float | None = None
    approval_timeout_s: float | None = _UNSAID
    initial_interval_s: float | None = None
    max_interval_s: float | None = None
    wait_timeout_ms: int | None = None
    initial_interval_ms: int | None = None
    max_interval_ms: int | None = None
    backoff_multiplier: float = 1.5
    jitter_factor: float = 0.3
    said: frozenset[str] = field(init=False, repr=False, compare=False)
    """Names which of the two waits it says something of; no end is something as well."""

    def __post_init__(self) -> None:
        effect, approval = self.effect_timeout_s, self.approval_timeout_s
        if self.wait_timeout_ms is not None:
            if effect is not None or approval not in (None, _UNSAID):
                raise EffectLedgerValidationError(
                    "wait_timeout_ms: or effect_timeout_s and approval_timeout_s, not both"
                )
            effect = approval = self.wait_timeout_ms / 1000
        waits = {"effect_timeout_s": effect is not None, "approval_timeout_s": approval is not _UNSAID}
        object.__setattr__(self, "said", frozenset(name for name, is_said in waits.items() if is_said))
        approval = None if approval is _UNSAID else approval
        first = _seconds("initial_interval", self.initial_interval_s, self.initial_interval_ms, 0.05)
        most = _seconds("max_interval", self.max_interval_s, self.max_interval_ms, 1.0)
        given = {"effect_timeout_s": 30.0 if effect is None else effect, "approval_timeout_s": approval}
        given |= {"initial_interval_s": first, "max_interval_s": most}
        for name, seconds in given.items():
            _check_positive(name, seconds)
            object.__setattr__(self, name, seconds)
        if first > most:
            raise EffectLedgerValidationError("initial_interval: must not be longer than max_interval")

    def over(self, lower: ConcurrencyOptions) -> ConcurrencyOptions:
        """Gives these waits, with those that it says nothing of taken from others."""
        said = {name: getattr(lower, name) for name in lower.said} | {name: getattr(self, name) for name in self.said}
        return ConcurrencyOptions(**said)


@dataclass(frozen=True, kw_only=True)
class StaleOptions:
    """Says after how long a call may be taken over from a worker that died; 0 leaves that to a person.

    Naming a time says that repeating the call after a crash is safe. A worker that lives is never taken over from.
    """

    after_ms: int = 0

    def __post_init__(self) -> None:
        if self.after_ms < 0:
            raise EffectLedgerValidationError("after_ms: 0, or so many milliseconds", "after_ms")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Says how a call is treated; what it leaves open, the ledger's defaults say."""

    concurrency: ConcurrencyOptions | None = None
    stale: StaleOptions | None = None
    requires_approval: bool | None = None

    def over(self, lower: RunOptions) -> RunOptions:
        """Gives these options with the gaps filled from others."""
        none_said = ConcurrencyOptions()
        return RunOptions(
            concurrency=(self.concurrency or none_said).over(lower.concurrency or none_said),
            stale=self.stale or lower.stale,
            requires_approval=lower.requires_approval if self.requires_approval is None else self.requires_approval,
        )


@dataclass(frozen=True, kw_only=True)
class LedgerDefaults:
    """Holds the options of calls that have none of their own."""

    run: RunOptions | None = None


@dataclass(frozen=True, kw_only=True)
class LedgerHooks:
    """Holds functions of the caller's, blocking or coroutine functions.

    `requires_approval(call)` says whether somebody has to be asked; one that raises keeps the call from running.
    `on_approval_required(effect)` is told of the question.
    """

    requires_approval: Callable[[ToolCall], Any] | None = None
    on_approval_required: Callable[[Effect], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("requires_approval", "on_approval_required"):
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise EffectLedgerValidationError(f"{name}: give a function", name)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise EffectLedgerValidationError(f"{name}: give a text that is not empty", name)


def _check_positive(name: str, seconds: float | None) -> None:
    if seconds is not None and not seconds > 0:
        raise EffectLedgerValidationError(f"{name}: must be longer than nothing", name)


def _seconds(name: str, seconds: float | None, millis: int | None, otherwise: float) -> float:
    if seconds is not None and millis is not None:
        raise EffectLedgerValidationError(f"{name}_ms: or {name}_s, not both", f"{name}_ms")
    if millis is not None:
        return millis / 1000
    return otherwise if seconds is None else seconds
