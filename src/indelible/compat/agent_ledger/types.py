"""The records of agent-ledger, by its names: those of 0.1 and those of 0.2 side by side; its options are here too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal

from indelible.compat.agent_ledger.errors import EffectLedgerValidationError
from indelible.compat.agent_ledger.options import (
    ConcurrencyOptions,
    LedgerDefaults,
    LedgerHooks,
    RunOptions,
    StaleOptions,
)

__all__ = [
    "ALLOWED_TRANSITIONS",
    "AWAITING_STATUSES",
    "TERMINAL_STATUSES",
    "BeginResult",
    "CommitFailed",
    "CommitOutcome",
    "CommitSucceeded",
    "ConcurrencyOptions",
    "Effect",
    "EffectError",
    "EffectStatus",
    "IdempotencyStatus",
    "JsonValue",
    "LedgerDefaults",
    "LedgerHooks",
    "ResourceDescriptor",
    "RunOptions",
    "StaleOptions",
    "ToolCall",
    "UpsertEffectInput",
    "UpsertEffectResult",
    "is_awaiting_status",
    "is_terminal_status",
    "is_valid_transition",
]

JsonValue = str | int | float | bool | None | list[Any] | dict[str, Any]
IdempotencyStatus = Literal["fresh", "replayed"]


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


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise EffectLedgerValidationError(f"{name}: give a text that is not empty", name)
