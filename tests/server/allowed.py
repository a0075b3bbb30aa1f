"""Who may ask what: one line for each operation that wants a credential. One that is not here fails `test_access`.

Written out by hand: what the description says comes from the same lines of code as what is checked, so it proves
nothing by itself. An administrator may everything, so `admin` is left out.
"""

from __future__ import annotations

from typing import Any

READERS = "agent approver auditor"
TOKEN = {"token": "a token of somebody's", "attempt": 1}
DRIVER = {"token": "a token of a driver's"}
DIGEST = "0" * 64
UNTIL = "2099-01-01T00:00:00Z"
EVENT = {"type": "SessionEnded", "payload": {"reason": "x", "summary_sha256": "0" * 64}}

# What is sent is whole: else it is refused for that, and nothing is seen of who may ask.
ALLOWED: dict[str, tuple[str, Any]] = {
    "GET /v1/effects": (READERS, None),
    "POST /v1/effects": ("agent", {"tool": "charge"}),
    "GET /v1/effects/{effect_id}": (READERS, None),
    "GET /v1/effects/{effect_id}/answered": (READERS, None),
    "GET /v1/effects/by-key/{key}": (READERS, None),
    "POST /v1/effects/{effect_id}/commit": ("agent", {**TOKEN, "outcome": {"status": "succeeded", "value": 1}}),
    "POST /v1/effects/{effect_id}/heartbeat": ("agent", TOKEN),
    "POST /v1/effects/{effect_id}/release": ("agent", {**TOKEN, "status": "ready", "reason": "x"}),
    "POST /v1/effects/{effect_id}/settle": (
        "agent approver",
        {"outcome": {"status": "failed", "error": "no"}, "evidence": "looked"},
    ),
    "POST /v1/effects/settle": (
        "approver",
        {"rows": [{"id": "eff_1", "outcome": {"status": "failed", "error": "no"}, "evidence": "looked"}]},
    ),
    "POST /v1/effects/reconcile": ("approver", {}),
    "POST /v1/effects/{effect_id}/cancel": ("agent approver", {"reason": "x"}),
    "POST /v1/effects/{effect_id}/retry": ("agent approver", {"reason": "x"}),
    "GET /v1/approvals": (READERS, None),
    "GET /v1/approvals/{approval_id}": (READERS, None),
    "POST /v1/approvals/{approval_id}/views": ("approver", None),
    "POST /v1/approvals/{approval_id}/decisions": ("approver", {"decision": "approve", "digest": DIGEST}),
    "POST /v1/approvals/{approval_id}/edit": ("approver", {"args": {}, "digest": DIGEST}),
    "POST /v1/approvals/{approval_id}/revoke": ("approver", {}),
    "GET /v1/stats": ("approver auditor", None),
    "POST /v1/exports": ("auditor", {"form": "csv"}),
    "GET /v1/exports": ("auditor", None),
    "GET /v1/exports/{export_id}": ("auditor", None),
    "GET /v1/exports/{export_id}/download": ("auditor", None),
    "DELETE /v1/exports/{export_id}": ("auditor", None),
    "GET /v1/search": (READERS, None),
    "GET /v1/grants": ("approver auditor", None),
    "POST /v1/grants/{grant_id}/end": ("approver", {"reason": "x"}),
    "GET /v1/delegations": ("approver auditor", None),
    "POST /v1/delegations": ("approver", {"to": "bob", "until": UNTIL}),
    "POST /v1/delegations/{delegation_id}/end": ("approver", {"reason": "x"}),
    "GET /v1/policy": ("approver auditor", None),
    "PUT /v1/policy": ("", {"content": {}}),
    "POST /v1/policy/evaluate": ("approver auditor", {"tool": "charge", "agent": "a"}),
    "GET /v1/events": (READERS, None),
    "GET /v1/events/stream": (READERS, None),
    "GET /v1/journal/head": (READERS, None),
    "GET /v1/journal/checkpoint": (READERS, None),
    "GET /v1/journal/heads": (READERS, None),
    "GET /v1/journal/entries": (READERS, None),
    "GET /v1/journal/tile/{path}": (READERS, None),
    "GET /v1/journal/inclusion": (READERS, None),
    "GET /v1/journal/consistency": (READERS, None),
    "GET /.well-known/indelible-keys.json": (READERS, None),
    "POST /v1/journal/verify": ("auditor", {}),
    "GET /v1/tools": (READERS, None),
    "POST /v1/tools/{tool}/calls": ("agent", {"args": {}}),
    "GET /v1/me": (READERS, None),
    "GET /v1/stop": (READERS, None),
    "POST /v1/stop": ("", {"reason": "x"}),
    "POST /v1/stop/end": ("", {"reason": "x"}),
    "POST /v1/erasures": ("", {"run_id": "r", "reason": "x"}),
    "GET /metrics": ("auditor", None),
    "POST /v1/runs": ("agent", {"agent": "a"}),
    "GET /v1/runs": (READERS, None),
    "GET /v1/runs/{run_id}": (READERS, None),
    "GET /v1/runs/{run_id}/story": (READERS, None),
    "GET /v1/runs/{run_id}/differences": (READERS, None),
    "GET /v1/runs/{run_id}/events": (READERS, None),
    "POST /v1/runs/{run_id}/events": ("agent", {"events": [{"type": "acme.x"}]}),
    "GET /v1/runs/{run_id}/checkpoints": (READERS, None),
    "GET /v1/runs/{run_id}/checkpoints/{checkpoint_id}": (READERS, None),
    "POST /v1/runs/{run_id}/checkpoints": ("agent", {"state": {}}),
    "POST /v1/runs/{run_id}/resume": ("agent", {}),
    "POST /v1/runs/{run_id}/fork": ("agent", {"at": 0}),
    "POST /v1/runs/{run_id}/heartbeat": ("agent", DRIVER),
    "POST /v1/runs/{run_id}/release": ("agent", DRIVER),
    "POST /v1/runs/{run_id}/complete": ("agent approver", {"reason": "x"}),
    "POST /v1/runs/{run_id}/fail": ("agent approver", {"reason": "x"}),
    "POST /v1/runs/{run_id}/cancel": ("agent approver", {"reason": "x"}),
    "POST /v1/runs/{run_id}/verify": (READERS, None),
    "POST /v1/runs/{run_id}/packet": ("agent", None),
    "POST /v1/packets": ("", {"packet": {}}),
    "POST /internal/runs/start": ("agent", {"agentId": "a"}),
    "POST /internal/runs/{run_id}/events": ("agent", {"eventType": "acme.x"}),
    "GET /internal/runs/{run_id}/events": (READERS, None),
    "POST /internal/runs/{run_id}/checkpoint": ("agent", {}),
    "POST /internal/runs/{run_id}/resume": ("agent", {}),
    "GET /internal/runs/{run_id}": (READERS, None),
    "POST /internal/runs/{run_id}/verify": (READERS, None),
    "POST /v1/sign": ("agent", {"event": EVENT}),
    "POST /v1/verify": (READERS, None),
    "GET /v1/healthz": (READERS, None),
    "POST /provedex/{run_id}/v1/sign": ("agent", {"event": EVENT}),
    "POST /provedex/{run_id}/v1/verify": (READERS, None),
    "GET /provedex/{run_id}/v1/healthz": (READERS, None),
    "POST /v1/sign-out": (READERS, None),
    "GET /v1/sessions": (READERS, None),
    "POST /v1/sessions/{session_id}/end": (READERS, None),
    "GET /v1/passkeys": (READERS, None),
    "POST /v1/passkeys": (READERS, {"challenge_id": "x", "credential": {}, "name": "x"}),
    "POST /v1/passkeys/options": (READERS, None),
    "POST /v1/passkeys/{passkey_id}/remove": (READERS, None),
    "GET /v1/people": ("auditor", None),
    "POST /v1/people": ("", {"name": "x", "scopes": ["auditor"]}),
    "POST /v1/people/{person_id}/revoke": ("", None),
    "GET /v1/api-keys": ("auditor", None),
    "POST /v1/api-keys": ("", {"name": "x", "scopes": ["auditor"]}),
    "POST /v1/api-keys/{key_id}/revoke": ("", None),
    "POST /v1/store/{name}": (READERS, {"refs": []}),
}
OPEN = {
    "GET /livez",
    "GET /readyz",
    "GET /version",
    "GET /docs",
    "GET /docs/{file}",
    "GET /problems/{name}",
    "GET /v1/sign-in",
    "POST /v1/sign-in/link",
    "POST /v1/sign-in/options",
    "POST /v1/sign-in/passkey",
}
"""Are asked by whoever runs the server, reads about it or wants to come in, who has no token yet."""

STRANGERS: dict[str, tuple[int, str]] = {
    "POST /v1/tools/{tool}/calls": (400, "tools are the server's, and no tenant's"),
    "POST /v1/store/{name}": (200, "names a question, and no thing; tests/server/test_store_routes.py"),
    "POST /provedex/{run_id}/v1/sign": (200, "begins a run of their own with the same name"),
    "GET /provedex/{run_id}/v1/healthz": (200, "says whether a run of their own could be recorded in"),
    "POST /v1/sessions/{session_id}/end": (403, "is for a session's own person; a token has none"),
    "POST /v1/passkeys/{passkey_id}/remove": (403, "is for a session's own person; a token has none"),
}
"""Says what somebody of another tenant gets where an address names no thing of ours; everywhere else it is 404."""
