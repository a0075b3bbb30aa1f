"""The face of zehrava-gate's Python client, for an Indelible server: its snippets run with the import changed.

from indelible.compat.zehrava import EVENT_TYPES, SIDE_EFFECT_CLASS, Gate

gate = Gate(endpoint="http://localhost:8787", api_key="ind_...")
run = gate.start_run(agent_id="my-agent", intent_summary="Enrich leads", permissions={})
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx2

from indelible.compat.zehrava_words import EVENT_TYPES, SIDE_EFFECT_CLASS, hash  # noqa: A004  # its name there

__all__ = ["EVENT_TYPES", "SIDE_EFFECT_CLASS", "Gate", "GateError", "hash"]

PATIENCE = 30.0
Content = dict[str, Any]


class GateError(Exception):
    """Says that the server refused, with its status and what it said."""

    def __init__(self, message: str, status: int | None = None, body: Content | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class Gate:
    """Talks to a server as zehrava-gate's client does."""

    def __init__(self, endpoint: str, api_key: str) -> None:
        if not endpoint or not api_key:
            raise ValueError("a Gate needs an endpoint and an api_key; make one with: indelible apikeys create")
        headers = {"Authorization": f"Bearer {api_key}"}
        self._client = httpx2.Client(base_url=endpoint.rstrip("/"), headers=headers, timeout=PATIENCE, trust_env=False)
        weakref.finalize(self, self._client.close)

    def close(self) -> None:
        """Closes its connections; one that is forgotten closes them too."""
        self._client.close()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start_run(
        self,
        *,
        agent_id: str,
        intent_summary: str = "",
        runtime: str = "zehrava-gate",
        parent_run_id: str | None = None,
        permissions: Mapping[str, Any] | None = None,
    ) -> Content:
        """Begins a run; gives runId, ledgerId, status and createdAt."""
        body = {
            "agentId": agent_id,
            "intentSummary": intent_summary,
            "runtime": runtime,
            "parentRunId": parent_run_id,
            "permissions": permissions,
        }
        return self._ask("POST", "/internal/runs/start", body)

    def record_event(
        self,
        *,
        run_id: str,
        event_type: str,
        actor_id: str | None = None,
        step_name: str | None = None,
        payload: Any = None,
        side_effect_class: str = SIDE_EFFECT_CLASS.NONE,
        side_effect_key: str | None = None,
    ) -> Content:
        """Records an event; gives eventId, seq, eventType, status (recorded or skipped) and createdAt."""
        body = {
            "eventType": event_type,
            "actorId": actor_id,
            "stepName": step_name,
            "payload": payload,
            "sideEffectClass": side_effect_class,
            "sideEffectKey": side_effect_key,
        }
        return self._ask("POST", f"{_place(run_id)}/events", body)

    def create_checkpoint(
        self,
        *,
        run_id: str,
        event_id: str | None = None,
        reason: str = "manual",
        suggested_next_action: str | None = None,
    ) -> Content:
        """Seals a run; gives checkpointId, sealedHash, isResumable and createdAt."""
        body = {"eventId": event_id, "reason": reason, "suggestedNextAction": suggested_next_action}
        return self._ask("POST", f"{_place(run_id)}/checkpoint", body)

    def resume_run(self, *, run_id: str, from_checkpoint_id: str | None = None) -> Content:
        """Resumes a run; gives what was done, what is open, and the keys of what must not be repeated."""
        return self._ask("POST", f"{_place(run_id)}/resume", {"fromCheckpointId": from_checkpoint_id})

    def get_run(self, *, run_id: str) -> Content:
        """Gives a run with its events, checkpoints and artifacts."""
        return self._ask("GET", _place(run_id))

    def verify_run(self, *, run_id: str) -> Content:
        """Says whether a run's record, its checkpoints and its lineage hold together."""
        return self._ask("POST", f"{_place(run_id)}/verify")

    # Intents: what is proposed is an effect that asks for approval

    def propose(
        self,
        *,
        destination: str,
        policy: str,
        payload: Any = None,
        record_count: int | None = None,
        estimated_value_usd: float | None = None,
        sensitivity_tags: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        on_behalf_of: str | None = None,
        expires_in: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> Content:
        """Ask whether something may be done; return intentId, status, blockReason and expiresAt.

        The same proposal twice is one intent, unless its idempotency_key differs. With `expires_in`, such as `"30m"`,
        it cannot be executed later than that.
        """
        body = {
            "destination": destination,
            "policy": policy,
            "payload": payload,
            "recordCount": record_count,
            "estimated_value_usd": estimated_value_usd,
            "sensitivity_tags": None if sensitivity_tags is None else list(sensitivity_tags),
            "idempotency_key": idempotency_key,
            "on_behalf_of": on_behalf_of,
            "expiresIn": expires_in,
            "metadata": metadata,
            "runId": run_id,
        }
        return self._ask("POST", "/v1/intents", body)

    def verify(self, *, intent_id: str) -> Content:
        """Return an intent and how it stands."""
        return self._ask("GET", _intent(intent_id))

    def approve(self, *, intent_id: str) -> Content:
        """Approve an intent as it is now; the api_key has to be a person's who may decide."""
        return self._ask("POST", f"{_intent(intent_id)}/approve", {})

    def reject(self, *, intent_id: str, reason: str | None = None) -> Content:
        """Reject an intent."""
        return self._ask("POST", f"{_intent(intent_id)}/reject", {"reason": reason})

    def execute(self, *, intent_id: str) -> Content:
        """Return the right to do what was approved, once; tell what came of it with `report`."""
        return self._ask("POST", f"{_intent(intent_id)}/execute", {})

    def report(self, execution: Mapping[str, Any], *, result: Any = None, error: str | None = None) -> Content:
        """Tell what came of an execution; until then nobody else may do it, and afterwards nobody needs to."""
        outcome = {"status": "succeeded", "result": result} if error is None else {"status": "failed", "error": error}
        place = f"/v1/executions/{quote(str(execution['executionId']), safe='')}/report"
        return self._ask("POST", place, {**outcome, "execution_token": execution["execution_token"]})

    # Asking

    def _ask(self, method: str, path: str, body: Content | None = None) -> Content:
        """Sends a request; what is None is left out, as undefined is there."""
        said = None if body is None else {name: value for name, value in body.items() if value is not None}
        try:
            answer = self._client.request(method, path, json=said)
        except httpx2.HTTPError as problem:
            raise GateError(f"the server cannot be reached: {problem}") from problem
        content, status = _read(answer), answer.status_code
        if status >= 400:
            raise GateError(str(content.get("detail") or f"HTTP {status}"), status, content)
        return content


def _intent(intent_id: str) -> str:
    return f"/v1/intents/{quote(intent_id, safe='')}"


def _place(run_id: str) -> str:
    return f"/internal/runs/{quote(run_id, safe='')}"


def _read(answer: httpx2.Response) -> Content:
    try:
        content = answer.json()
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
