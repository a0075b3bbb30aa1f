"""The face of zehrava-gate's Python client, for an Indelible server: its snippets run with the import changed.

from indelible.compat.zehrava import EVENT_TYPES, SIDE_EFFECT_CLASS, Gate

gate = Gate(endpoint="http://localhost:8787", api_key="ind_...")
run = gate.start_run(agent_id="my-agent", intent_summary="Enrich leads", permissions={})
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx2

from indelible.compat.zehrava_words import EVENT_TYPES, SIDE_EFFECT_CLASS, hash  # noqa: A004  # its name there

__all__ = ["EVENT_TYPES", "SIDE_EFFECT_CLASS", "Gate", "GateError", "hash"]

PATIENCE = 30.0
EXECUTION_SECONDS = 900
"""Is how long there is to report what came of an execution."""
INTENTS = "intents"
"""Is the run of intents that are proposed outside of any."""
Content = dict[str, Any]
_BLOCKED = ("/problems/policy-refused", "/problems/budget-exceeded", "/problems/effect-denied")


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
        self._claims: dict[str, Content] = {}
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
        metadata: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> Content:
        """Asks whether something may be done; gives intentId, status, blockReason and expiresAt.

        The same proposal twice is one intent, unless its idempotency_key differs.
        """
        told = {
            "policy": policy,
            "payload": payload,
            "record_count": record_count,
            "estimated_value_usd": estimated_value_usd,
            "sensitivity_tags": None if sensitivity_tags is None else list(sensitivity_tags),
            "idempotency_key": idempotency_key,
            "on_behalf_of": on_behalf_of,
            "metadata": metadata,
        }
        args = {name: value for name, value in told.items() if value is not None}
        status, content = self._begin(destination, args, run_id or INTENTS)
        if status in (403, 409, 429) and content.get("type") in _BLOCKED:
            return {"intentId": None, "status": "blocked", "blockReason": content["detail"], "expiresAt": None}
        return self._proposed(status, _checked(status, content))

    def _proposed(self, status: int, content: Content) -> Content:
        effect = content["effect"]
        intent = {"intentId": effect["approval_id"], "blockReason": None, "expiresAt": None}
        if status == 202:
            return {**intent, "status": "pending_approval", "expiresAt": content["approval"]["expires_at"]}
        if status == 201:  # it was approved since it was proposed first
            self._claims[effect["approval_id"]] = content
            return {**intent, "status": "approved"}
        return {**intent, "status": "duplicate_blocked", "blockReason": f"{effect['id']} is {effect['status']}"}

    def approve(self, *, intent_id: str) -> Content:
        """Approves an intent as it is now; the api_key has to be a person's who may decide."""
        return self._decide(intent_id, {"decision": "approve"})

    def reject(self, *, intent_id: str, reason: str = "rejected") -> Content:
        """Refuses an intent."""
        return self._decide(intent_id, {"decision": "deny", "reason": reason})

    def _decide(self, intent_id: str, decision: Content) -> Content:
        place = f"/v1/approvals/{quote(intent_id, safe='')}"
        digest = self._ask("GET", place)["approval"]["digest"]
        decided = self._ask("POST", f"{place}/decisions", {**decision, "digest": digest})["approval"]
        status = {"denied": "rejected"}.get(decided["status"], decided["status"])
        at = decided["votes"][-1]["at"] if decided["votes"] else None
        return {"intentId": intent_id, "status": status, "approvedAt": at if status == "approved" else None}

    def execute(self, *, intent_id: str) -> Content:
        """Gives the right to do what was approved, once; tell what came of it with `report`."""
        claim = self._claims.pop(intent_id, None)
        if claim is None:
            shown = self._ask("GET", f"/v1/approvals/{quote(intent_id, safe='')}")
            effect = shown["effect"]
            status, claim = self._begin(effect["tool"], shown["args"], effect["run_id"])
            if _checked(status, claim) and status != 201:
                why = "waits for approval" if status == 202 else f"was executed before: {effect['id']}"
                raise GateError(f"intent {intent_id} {why}", 409, claim)
        return {
            "executionId": f"exe_{claim['effect']['id'].removeprefix('eff_')}",
            "execution_token": claim["token"],
            "intent_id": intent_id,
            "expires_at": claim["lease_until"],
            "mode": "runner_exec",
            "attempt": claim["effect"]["attempt"],
        }

    def report(self, execution: Mapping[str, Any], *, result: Any = None, error: str | None = None) -> Content:
        """Tells what came of an execution; until then nobody else may do it, and afterwards nobody needs to."""
        outcome = {"status": "succeeded", "value": result} if error is None else {"status": "failed", "error": error}
        body = {"token": execution["execution_token"], "attempt": execution["attempt"], "outcome": outcome}
        effect_id = f"eff_{str(execution['executionId']).removeprefix('exe_')}"
        return self._ask("POST", f"/v1/effects/{quote(effect_id, safe='')}/commit", body)

    def _begin(self, tool: str, args: Mapping[str, Any], run_id: str) -> tuple[int, Content]:
        call: Content = {"tool": tool, "args": args, "run_id": run_id, "side_effect": "external_mutation"}
        if "idempotency_key" in args:
            # As there, a key that was used is a duplicate, whatever comes with it.
            call |= {"key": ["idempotency_key"], "on_reuse": "replay"}
        body = {**call, "approval": "required", "token": secrets.token_hex(16), "lease_s": EXECUTION_SECONDS}
        return self._send("POST", "/v1/effects", body)

    # Asking

    def _ask(self, method: str, path: str, body: Content | None = None) -> Content:
        """Sends a request; what is None is left out, as undefined is there."""
        said = None if body is None else {name: value for name, value in body.items() if value is not None}
        return _checked(*self._send(method, path, said))

    def _send(self, method: str, path: str, body: Content | None) -> tuple[int, Content]:
        try:
            answer = self._client.request(method, path, json=body)
        except httpx2.HTTPError as problem:
            raise GateError(f"the server cannot be reached: {problem}") from problem
        return answer.status_code, _read(answer)


def _checked(status: int, content: Content) -> Content:
    if status >= 400:
        raise GateError(str(content.get("detail") or f"HTTP {status}"), status, content)
    return content


def _place(run_id: str) -> str:
    return f"/internal/runs/{quote(run_id, safe='')}"


def _read(answer: httpx2.Response) -> Content:
    try:
        content = answer.json()
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
