"""The words of zehrava-gate's Run Ledger: its types of events, its classes of side effects, and its keys."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any

import rfc8785


class EVENT_TYPES(StrEnum):
    """Names the types of events; the first eight tell of work done."""

    PLAN_LOCKED = "plan_locked"
    TOOL_CALL_FINISHED = "tool_call_finished"
    ARTIFACT_CREATED = "artifact_created"
    POLICY_CHECKED = "policy_checked"
    APPROVAL_RECEIVED = "approval_received"
    EXECUTION_SUCCEEDED = "execution_succeeded"
    DELEGATION_FINISHED = "delegation_finished"
    RUN_COMPLETED = "run_completed"
    RUN_STARTED = "run_started"
    TOOL_CALL_STARTED = "tool_call_started"
    INTENT_PROPOSED = "intent_proposed"
    APPROVAL_REQUESTED = "approval_requested"
    EXECUTION_REQUESTED = "execution_requested"
    DELEGATION_STARTED = "delegation_started"
    CHECKPOINT_SEALED = "checkpoint_sealed"
    INTERRUPTION_DETECTED = "interruption_detected"
    RUN_RESUMED = "run_resumed"
    RUN_FAILED = "run_failed"


class SIDE_EFFECT_CLASS(StrEnum):
    """Names what an event does to the world outside."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    EXTERNAL_MUTATION = "external_mutation"
    PAYMENT = "payment"
    NOTIFICATION = "notification"
    DELEGATION = "delegation"


class hash:  # noqa: A001  # it is called so there
    """Computes the keys by which side effects are known again."""

    @staticmethod
    def side_effect_key(action: str, target: str, payload: Any) -> str:
        """Gives SHA-256 of `{action, target, payloadHash}`, where the hash is of the payload with sorted names."""
        payload_hash = _sha256(payload)
        return _sha256({"action": action, "payloadHash": payload_hash, "target": target})


def _sha256(value: Any) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()
