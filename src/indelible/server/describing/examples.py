"""Requests as one would send them, for the description; each is accepted by the server, which a test sees to."""

from __future__ import annotations

from typing import Any

_CLAIM = {"token": "5f0c…, as the claim says", "attempt": 1}
_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_CHARGE = {"tool": "stripe.charge", "args": {"order": "123", "amount": 5}, "run_id": "order-123"}
_DRIVER = "a secret of 16 characters or more"

EXAMPLES: dict[str, Any] = {
    "POST /v1/effects": {**_CHARGE, "side_effect": "payment"},
    "POST /v1/effects/{effect_id}/commit": {**_CLAIM, "outcome": {"status": "succeeded", "value": {"charge": "ch_1"}}},
    "POST /v1/effects/{effect_id}/heartbeat": {**_CLAIM, "lease_s": 60},
    "POST /v1/effects/{effect_id}/release": {**_CLAIM, "status": "in_doubt", "reason": "the answer timed out"},
    "POST /v1/effects/{effect_id}/settle": {
        "outcome": {"status": "succeeded", "value": {"charge": "ch_1"}},
        "evidence": "ch_1 is in the provider's list",
    },
    "POST /v1/effects/settle": {
        "rows": [
            {
                "id": "eff_01a1",
                "outcome": {"status": "failed", "error": "never arrived"},
                "evidence": "not in the provider's report of 31 January",
            }
        ],
        "dry_run": True,
    },
    "POST /v1/effects/reconcile": {"tool": "stripe.*", "dry_run": True},
    "POST /v1/effects/{effect_id}/cancel": {"reason": "the order was withdrawn"},
    "POST /v1/effects/{effect_id}/retry": {"reason": "looked: the provider has no such charge"},
    "POST /v1/approvals/{approval_id}/decisions": {"decision": "approve", "digest": _DIGEST, "reason": "agreed"},
    "POST /v1/approvals/{approval_id}/edit": {"args": {"order": "123", "amount": 4}, "digest": _DIGEST},
    "POST /v1/delegations": {"to": "bob", "until": "2030-01-31T12:00:00Z", "reason": "on holiday"},
    "POST /v1/policy/evaluate": {**_CHARGE, "agent": "billing-agent"},
    "POST /v1/runs": {"agent": "billing-agent", "run_id": "order-123", "intent": "Charge order 123", "token": _DRIVER},
    "POST /v1/runs/{run_id}/events": {
        "events": [{"type": "billing.noted", "payload": {"text": "the customer called"}, "step": "charge"}],
        "token": _DRIVER,
    },
    "POST /v1/runs/{run_id}/checkpoints": {"state": {"next": "send the receipt"}, "token": _DRIVER},
    "POST /v1/journal/verify": {"keys": ["ledger.example+0c3f8b1a+AQ…, got by another way"], "deep": True},
}
"""Holds the body of an example by method and path."""
