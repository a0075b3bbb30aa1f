"""The face of agent-ledger, over a ledger of ours: its programs run with the import changed, without its faults.

from indelible.compat.agent_ledger import EffectLedger, EffectLedgerOptions, MemoryStore, ToolCall

ledger = EffectLedger(EffectLedgerOptions(store=MemoryStore()))
result = await ledger.run(ToolCall(workflow_id="order-123", tool="charge", args={"amount": 5}), handler=charge)

Names of 0.1 and of 0.2 are here side by side. What differs, and why: docs/migrate/agent-ledger.md.
"""

from indelible.compat.agent_ledger.errors import (
    EffectDeniedError,
    EffectFailedError,
    EffectInDoubtError,
    EffectLedgerError,
    EffectLedgerInvariantError,
    EffectLedgerValidationError,
    EffectStoreError,
    EffectTimeoutError,
)
from indelible.compat.agent_ledger.keys import (
    canonicalize,
    compute_idem_key,
    generate_id,
    resource_id_canonical,
    validate_args,
)
from indelible.compat.agent_ledger.ledger import EffectLedger, EffectLedgerOptions
from indelible.compat.agent_ledger.observability import get_logger, get_tracer
from indelible.compat.agent_ledger.stores import EffectStore, LedgerStore, MemoryStore
from indelible.compat.agent_ledger.types import (
    ALLOWED_TRANSITIONS,
    AWAITING_STATUSES,
    TERMINAL_STATUSES,
    BeginResult,
    CommitFailed,
    CommitOutcome,
    CommitSucceeded,
    ConcurrencyOptions,
    Effect,
    EffectError,
    EffectStatus,
    IdempotencyStatus,
    JsonValue,
    LedgerDefaults,
    LedgerHooks,
    ResourceDescriptor,
    RunOptions,
    StaleOptions,
    ToolCall,
    UpsertEffectInput,
    UpsertEffectResult,
    is_awaiting_status,
    is_terminal_status,
    is_valid_transition,
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
    "EffectDeniedError",
    "EffectError",
    "EffectFailedError",
    "EffectInDoubtError",
    "EffectLedger",
    "EffectLedgerError",
    "EffectLedgerInvariantError",
    "EffectLedgerOptions",
    "EffectLedgerValidationError",
    "EffectStatus",
    "EffectStore",
    "EffectStoreError",
    "EffectTimeoutError",
    "IdempotencyStatus",
    "JsonValue",
    "LedgerDefaults",
    "LedgerHooks",
    "LedgerStore",
    "MemoryStore",
    "ResourceDescriptor",
    "RunOptions",
    "StaleOptions",
    "ToolCall",
    "UpsertEffectInput",
    "UpsertEffectResult",
    "canonicalize",
    "compute_idem_key",
    "generate_id",
    "get_logger",
    "get_tracer",
    "is_awaiting_status",
    "is_terminal_status",
    "is_valid_transition",
    "resource_id_canonical",
    "validate_args",
]
