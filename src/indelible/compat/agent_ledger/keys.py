"""Keys as agent-ledger computes them, for those who have some already; our own are better, and the default.

Its key is the SHA-256 of workflow, tool and identity with a bar between them. Ours takes no separator for granted.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

import rfc8785

from indelible.compat.agent_ledger.errors import EffectLedgerValidationError
from indelible.compat.agent_ledger.types import ResourceDescriptor, ToolCall

DEFAULT_MAX_ARGS_SIZE_BYTES = 1024 * 1024


def canonicalize(obj: Any) -> str:
    """Gives a JSON value in its one canonical form, RFC 8785."""
    try:
        return rfc8785.dumps(obj).decode("utf-8")
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as problem:
        raise EffectLedgerValidationError(f"this has no canonical JSON: {problem}") from problem


def validate_args(args: Mapping[str, Any], max_size_bytes: int | None = None) -> str:
    """Gives arguments in canonical form; refuses what JSON cannot say, and what is too large."""
    if not isinstance(args, Mapping):
        raise EffectLedgerValidationError(f"args: give a mapping, not {type(args).__name__}", "args")
    try:
        text = canonicalize(dict(args))
    except EffectLedgerValidationError as problem:
        raise EffectLedgerValidationError(f"args: {problem}", "args") from problem
    check_size(text, DEFAULT_MAX_ARGS_SIZE_BYTES if max_size_bytes is None else max_size_bytes)
    return text


def check_size(text: str, most: int) -> None:
    """Refuses arguments that are too large."""
    size = len(text.encode("utf-8"))
    if size > most:
        raise EffectLedgerValidationError(f"args: {size} bytes, and at most {most} are allowed", "args")


def resource_id_canonical(resource: ResourceDescriptor) -> str:
    """Gives the one text that names a thing."""
    return f"{resource.namespace}/{resource.type}/{canonicalize(dict(resource.id))}"


def compute_idem_key(call: ToolCall) -> str:
    """Gives the key that agent-ledger gives this call."""
    if call.resource is not None:
        subject = resource_id_canonical(call.resource)
    elif call.idempotency_keys is not None:
        subject = canonicalize({name: call.args[name] for name in call.idempotency_keys})
    else:
        subject = canonicalize(dict(call.args))
    return hashlib.sha256(f"{call.workflow_id}|{call.tool}|{subject}".encode()).hexdigest()


def generate_id() -> str:
    """Gives a new id."""
    return str(uuid.uuid4())
