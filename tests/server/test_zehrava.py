"""The endpoints that zehrava-gate documents: every documented field is there, under its name and of its kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.places import Place, sqlite_place

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
EVENT, CHECKPOINT, HASH = r"evt_[0-9a-f]{64}", r"ckpt_[0-9a-f]+", r"[0-9a-f]{64}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = sqlite_place(tmp_path_factory.mktemp("zehrava"))
    yield made
    made.close()


class Runs:
    """Asks as its clients do."""

    def __init__(self, place: Place) -> None:
        self.place = place
        body = {
            "agentId": "my-agent",
            "intentSummary": "Enrich leads and sync to Salesforce",
            "runtime": "zehrava-gate",
            "permissions": {"allowed_tools": ["fetch", "enrich", "sync"]},
        }
        self.begun = self.post("start", body)
        self.id: str = self.begun["runId"]

    def post(self, path: str, body: Any = None, status: int = 200, who: str = "agent") -> Any:
        answer = self.place.post(f"/internal/runs/{path}", body, who)
        assert answer.status_code == status, answer.text
        return answer.json()

    def tell(self, event_type: str, status: int = 200, **words: Any) -> Any:
        return self.post(f"{self.id}/events", {"eventType": event_type, "actorId": "my-agent", **words}, status)

    def get(self, status: int = 200) -> Any:
        answer = self.place.get(f"/internal/runs/{self.id}")
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def runs(place: Place) -> Runs:
    return Runs(place)


def told(content: Any, **kinds: Any) -> None:
    """Compares documented fields with what is answered: with a pattern, a type, or a value."""
    for name, kind in kinds.items():
        value = content[name]
        if isinstance(kind, str | re.Pattern):
            assert re.fullmatch(kind, value), (name, value)
        elif isinstance(kind, type):
            assert isinstance(value, kind), (name, value)
        else:
            assert value == kind[0], (name, value)


def test_a_run_is_started_as_documented(runs: Runs) -> None:
    assert set(runs.begun) == {"runId", "ledgerId", "status", "createdAt"}
    told(runs.begun, runId=r"run_[0-9a-f]+", ledgerId=str, status="active", createdAt=TIME)


def test_an_event_is_recorded_as_documented_and_counted_from_one(runs: Runs) -> None:
    payload = {"tool": "fetch_data", "recordsFetched": 847}
    answer = runs.tell("tool_call_finished", stepName="fetch", payload=payload, sideEffectClass="read")
    assert set(answer) == {"eventId", "seq", "eventType", "status", "createdAt", "timestamp"}
    told(answer, eventId=EVENT, seq=[2], eventType="tool_call_finished", status="recorded", createdAt=TIME)


def test_a_side_effect_key_that_was_told_is_recorded_as_skipped(runs: Runs) -> None:
    words = {"sideEffectClass": "external_mutation", "sideEffectKey": "abc123", "stepName": "sync"}
    statuses = [runs.tell("execution_succeeded", **words)["status"] for _ in range(2)]
    assert statuses == ["recorded", "skipped"]
    assert runs.post(f"{runs.id}/resume", {})["blockedSideEffectKeys"] == ["abc123"]


def test_a_checkpoint_is_sealed_as_documented(runs: Runs) -> None:
    event = runs.tell("plan_locked")["eventId"]
    runs.tell("tool_call_started")
    body = {"eventId": event, "reason": "approval_requested", "suggestedNextAction": "await_approval_then_execute"}
    answer = runs.post(f"{runs.id}/checkpoint", body)
    told(answer, checkpointId=CHECKPOINT, sealedHash=HASH, isResumable=[True], createdAt=TIME)
    (kept,) = runs.get()["checkpoints"]
    assert (kept["checkpointId"], kept["eventId"]) == (answer["checkpointId"], event)
    told(runs.post(f"{runs.id}/checkpoint", {}), checkpointId=CHECKPOINT, isResumable=[True])
    assert "no event" in runs.post(f"{runs.id}/checkpoint", {"eventId": "evt_1"}, 404)["detail"]


def test_a_run_is_resumed_as_documented_again_and_again(runs: Runs) -> None:
    runs.tell("tool_call_finished", stepName="fetch", payload={"tool": "fetch_data"}, sideEffectClass="read")
    runs.tell("artifact_created", stepName="review", payload={"artifact": "leads.csv", "recordCount": 847})
    runs.tell("approval_requested", payload={"intentId": "int_1"})
    runs.tell("approval_requested", payload={"intentId": "int_2"})
    runs.tell("approval_received", payload={"intentId": "int_1"})
    sealed = runs.post(f"{runs.id}/checkpoint", {"reason": "interruption", "suggestedNextAction": "go_on"})
    for body in ({}, {"fromCheckpointId": sealed["checkpointId"]}):
        answer = runs.post(f"{runs.id}/resume", body)
        told(answer, runId=runs.id, checkpointId=sealed["checkpointId"], currentStep="review", resumedAt=TIME)
        told(answer, receipts=list, artifacts=list, unresolvedApprovals=list, blockedSideEffectKeys=[[]])
        assert [receipt["seq"] for receipt in answer["receipts"]] == [2, 3, 6]
        assert [artifact["uri"] for artifact in answer["artifacts"]] == ["leads.csv"]
        assert [approval["intentId"] for approval in answer["unresolvedApprovals"]] == ["int_2"]
        assert answer["suggestedNextAction"] == "go_on"
        assert answer["remainingPermissions"] == {"allowed_tools": ["fetch", "enrich", "sync"]}
    assert runs.post(f"{runs.id}/resume", {"fromCheckpointId": "ckpt_0"}, 404)["status"] == 404


def test_a_run_is_given_as_documented(runs: Runs) -> None:
    safe = runs.tell("plan_locked", stepName="plan", payload={"steps": [1.5, "x"]})
    runs.tell("tool_call_started", actorId="worker")
    sealed = runs.post(f"{runs.id}/checkpoint", {})
    answer = runs.get()
    run = answer["run"]
    told(run, runId=runs.id, ledgerId=runs.begun["ledgerId"].replace("+", "\\+"), agentId="my-agent", status="active")
    told(run, intentSummary="Enrich leads and sync to Salesforce", currentStep="plan", lastSafeEventId=safe["eventId"])
    told(run, createdAt=TIME, updatedAt=TIME)
    told(answer, events=list, checkpoints=list, artifacts=[[]], resumableCheckpoints=[[sealed["checkpointId"]]])
    assert [event["seq"] for event in answer["events"]] == [1, 2, 3, 4]
    event = answer["events"][1]
    told(event, eventId=safe["eventId"], eventType="plan_locked", type="plan_locked", timestamp=TIME, actor="my-agent")
    assert event["payload"] == {"steps": [1.5, "x"]}
    assert answer["events"][2]["actorId"] == "worker"
    listed = runs.place.get(f"/internal/runs/{runs.id}/events").json()
    assert listed == {"runId": runs.id, "events": answer["events"]}


def test_a_run_is_verified_as_documented(place: Place, runs: Runs) -> None:
    child = runs.post("start", {"agentId": "sub", "intentSummary": "x", "parentRunId": runs.id})["runId"]
    sealed = runs.post(f"{runs.id}/checkpoint", {})
    answer = runs.post(f"{runs.id}/verify")
    told(answer, runId=runs.id)
    told(answer["ledgerIntegrity"], valid=[True], hash=HASH)
    told(answer["checkpointIntegrity"], valid=[True])
    told(answer["checkpointIntegrity"]["checkpoints"][0], checkpointId=sealed["checkpointId"], valid=[True])
    told(answer["lineageContinuity"], valid=[True], parentRunId=[None])
    told(runs.post(f"{child}/verify")["lineageContinuity"], valid=[True], parentRunId=[runs.id])


def test_79_what_is_recorded_is_answered_with_its_time_by_both_names(runs: Runs) -> None:
    """Its client documents `timestamp`, its page `createdAt`."""
    answer = runs.tell("plan_locked")
    told(answer, timestamp=TIME)
    assert answer["timestamp"] == answer["createdAt"]


def test_71_a_child_is_told_of_by_its_parent_and_may_be_told_of_once_more(runs: Runs) -> None:
    child = runs.post("start", {"agentId": "sub", "intentSummary": "x", "parentRunId": runs.id})["runId"]
    assert [event["eventType"] for event in runs.get()["events"]] == ["run_started", "delegation_started"]
    runs.tell("delegation_started", payload={"runId": child}, sideEffectClass="delegation")
    for name in (child, runs.id):
        assert runs.post(f"{name}/verify")["lineageContinuity"]["valid"] is True


def test_telling_that_a_run_ended_ends_it(runs: Runs) -> None:
    answer = runs.tell("run_completed", payload={"totalRecords": 847})
    told(answer, eventType="run_completed", status="recorded", seq=[2], eventId=EVENT, createdAt=TIME)
    assert runs.get()["run"]["status"] == "completed"
    assert runs.tell("plan_locked", 409)["code"] == "over"
    failing = Runs(runs.place)
    assert failing.tell("run_failed", payload={"reason": "crash"})["eventType"] == "run_failed"
    assert failing.get()["run"]["status"] == "failed"
    assert failing.post(f"{failing.id}/resume", {})["checkpointId"] is not None


def test_who_acts_is_the_credential_whatever_a_body_says(place: Place, runs: Runs) -> None:
    runs.post(f"{runs.id}/events", {"eventType": "plan_locked", "actorId": "ceo"}, who="other-agent")
    runs.post(f"{runs.id}/resume", {}, who="other-agent")
    events = place.get(f"/v1/runs/{runs.id}/events").json()["events"][1:]
    assert [(event["actor"], event["told_by"]) for event in events] == [
        ("ceo", "other-agent"),
        ("other-agent", "other-agent"),
    ]


def test_others_see_nothing_and_readers_change_nothing(place: Place, runs: Runs) -> None:
    posts: dict[str, Any] = {"events": {"eventType": "plan_locked"}, "checkpoint": {}, "resume": {}, "verify": None}
    for path, body in posts.items():
        assert place.post(f"/internal/runs/{runs.id}/{path}", body, "stranger").status_code == 404, path
        assert place.post(f"/internal/runs/{runs.id}/{path}", body, None).status_code == 401, path
        seen = place.post(f"/internal/runs/{runs.id}/{path}", body, "auditor").status_code
        assert seen == (200 if path == "verify" else 403), path
    assert place.get(f"/internal/runs/{runs.id}", "stranger").status_code == 404
    assert place.get(f"/internal/runs/{runs.id}", "auditor").status_code == 200
    assert place.get(f"/internal/runs/{runs.id}/events", "stranger").status_code == 404
    assert place.post("/internal/runs/start", {"agentId": "a", "intentSummary": "b"}, "auditor").status_code == 403


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("start", {"intentSummary": "nobody"}),
        ("start", {"agentId": "a", "tenant": "globex"}),
        ("start", {"agentId": "a", "parentRunId": "\0"}),
        ("{id}/events", {"eventType": "run_resumed"}),
        ("{id}/events", {"eventType": "lead_scored"}),
        ("{id}/events", {"eventType": "plan_locked", "sideEffectClass": "magic"}),
        ("{id}/events", {"eventType": "approval_requested", "payload": {"intentId": "apr_\0"}, "seq": 1}),
        ("{id}/checkpoint", {"reason": "because"}),
        ("{id}/resume", {"fromCheckpointId": "\0"}),
        ("nobody/events", {"eventType": "plan_locked"}),
        ("%00/resume", {}),
    ],
)
def test_nothing_a_client_sends_is_our_fault(runs: Runs, path: str, body: Any) -> None:
    answer = runs.place.post(f"/internal/runs/{path.replace('{id}', runs.id)}", body)
    assert 400 <= answer.status_code < 500, answer.text


@pytest.fixture
def any_place(store_url: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(store_url, keys=tmp_path / "keys")
    yield made
    made.close()


def test_79_an_intent_is_asked_about_whatever_a_grant_allows(any_place: Place) -> None:
    def proposed(key: str) -> Any:
        body = {"destination": "crm.import", "policy": "crm", "payload": "leads.csv", "idempotency_key": key}
        return any_place.post("/v1/intents", body).json()

    def decided(intent: Any, **words: Any) -> None:
        seen = any_place.get(f"/v1/approvals/{intent['intentId']}", "ana").json()["approval"]
        told = {"decision": "approve", "digest": seen["digest"], **words}
        assert any_place.post(f"/v1/approvals/{intent['intentId']}/decisions", told, "ana").status_code == 201

    first = proposed("batch-001")
    decided(first, grant={"count": 5, "until": "2099-01-01T00:00:00Z", "pin": ["policy"]})
    assert any_place.post(f"/v1/intents/{first['intentId']}/execute", {}).status_code == 201
    second = proposed("batch-002")
    assert second["status"] == "pending_approval"
    assert any_place.post(f"/v1/intents/{second['intentId']}/execute", {}).status_code == 409
    decided(second)
    assert any_place.post(f"/v1/intents/{second['intentId']}/execute", {}).status_code == 201
    assert proposed("batch-002")["status"] == "duplicate_blocked"
