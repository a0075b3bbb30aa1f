"""The Python snippets that zehrava-gate documents run here with the import changed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from indelible.compat.zehrava import EVENT_TYPES, SIDE_EFFECT_CLASS, Gate, GateError, hash  # noqa: A004
from indelible.core.runs.run import EVENT_TYPES as KNOWN_TYPES
from indelible.core.runs.run import side_effect_key
from tests.server.conftest import each_place as each_place
from tests.server.places import Place


@pytest.fixture(scope="module")
def place(each_place: Place) -> Iterator[Place]:
    """Answers on each kind of store."""
    yield each_place
    gc.collect()  # a Gate that nobody closed closes its connections when it goes, before the server does


@pytest.fixture
def gate(place: Place) -> Gate:
    return Gate(endpoint=place.served.url, api_key=place.tokens["agent"])


@pytest.fixture
def ana(place: Place) -> Gate:
    return Gate(endpoint=place.served.url, api_key=place.tokens["ana"])


@pytest.fixture
def run(gate: Gate) -> Any:
    return gate.start_run(
        agent_id="my-agent",
        intent_summary="Enrich leads and sync to Salesforce",
        runtime="zehrava-gate",
        permissions={"allowed_tools": ["fetch", "enrich", "sync"]},
    )


def test_the_documented_snippets_run(gate: Gate, run: Any) -> None:
    told = gate.record_event(
        run_id=run["runId"],
        event_type=EVENT_TYPES.TOOL_CALL_FINISHED,
        actor_id="my-agent",
        step_name="fetch",
        payload={"tool": "fetch_data", "recordsFetched": 847},
        side_effect_class=SIDE_EFFECT_CLASS.READ,
    )
    assert (told["seq"], told["status"]) == (2, "recorded")
    my_side_effect_key = hash.side_effect_key("salesforce.import", "salesforce", {"batch": "batch-001"})
    words: dict[str, Any] = {
        "run_id": run["runId"],
        "event_type": EVENT_TYPES.EXECUTION_SUCCEEDED,
        "actor_id": "salesforce-worker",
        "step_name": "sync",
        "payload": {"recordsSynced": 847},
        "side_effect_class": SIDE_EFFECT_CLASS.EXTERNAL_MUTATION,
        "side_effect_key": my_side_effect_key,
    }
    assert [gate.record_event(**words)["status"] for _ in range(2)] == ["recorded", "skipped"]
    checkpoint = gate.create_checkpoint(
        run_id=run["runId"], reason="approval_requested", suggested_next_action="await_approval_then_execute"
    )
    ctx = gate.resume_run(run_id=run["runId"])
    assert my_side_effect_key in ctx["blockedSideEffectKeys"]
    assert ctx["checkpointId"] == checkpoint["checkpointId"]
    assert ctx["suggestedNextAction"] == "await_approval_then_execute"
    assert gate.get_run(run_id=run["runId"])["run"]["currentStep"] == "sync"
    assert gate.verify_run(run_id=run["runId"])["checkpointIntegrity"]["valid"]


def test_tasks_use_a_gate_from_threads_at_once_and_no_event_gets_lost(gate: Gate, ana: Gate, run: Any) -> None:
    """Its calls block, as there; a loop hands them to threads."""

    async def work() -> list[Any]:
        told = (
            asyncio.to_thread(
                gate.record_event,
                run_id=run["runId"],
                event_type=EVENT_TYPES.TOOL_CALL_FINISHED,
                actor_id="my-agent",
                payload={"n": number},
            )
            for number in range(16)
        )
        intents = (
            asyncio.to_thread(
                gate.propose, destination="crm", policy="p", payload="x.csv", idempotency_key="one", run_id=None
            )
            for _ in range(4)
        )
        return [await asyncio.gather(*told), await asyncio.gather(*intents)]

    told, intents = asyncio.run(work())
    assert sorted(each["seq"] for each in told) == list(range(2, 18))
    assert len({intent["intentId"] for intent in intents}) == 1
    ana.approve(intent_id=intents[0]["intentId"])

    async def execute() -> list[Any]:
        asked = (asyncio.to_thread(gate.execute, intent_id=intents[0]["intentId"]) for _ in range(4))
        return await asyncio.gather(*asked, return_exceptions=True)

    outcomes = asyncio.run(execute())
    granted = [outcome for outcome in outcomes if not isinstance(outcome, GateError)]
    assert len(granted) == 1, outcomes
    gate.report(granted[0], result={"synced": 1})
    assert gate.verify_run(run_id=run["runId"])["valid"]


def test_every_type_of_event_has_its_name() -> None:
    assert {str(one) for one in EVENT_TYPES} == KNOWN_TYPES
    assert all(one.name == str(one).upper() for one in [*EVENT_TYPES, *SIDE_EFFECT_CLASS])


def test_a_side_effect_key_is_the_documented_hash() -> None:
    payload_hash = sha256(b'{"a":[1,null],"b":"\xc3\xa9"}').hexdigest()
    key = hash.side_effect_key("mail", "ana", {"b": "é", "a": [1.0, None]})
    assert key == side_effect_key("mail", "ana", payload_hash)
    assert key == sha256(f'{{"action":"mail","payloadHash":"{payload_hash}","target":"ana"}}'.encode()).hexdigest()


def test_what_is_proposed_waits_for_a_person_and_is_executed_once(gate: Gate, ana: Gate, run: Any) -> None:
    words: dict[str, Any] = {"destination": "salesforce.import", "policy": "crm-low-risk", "record_count": 847}
    intent = gate.propose(payload="leads.csv", idempotency_key="batch-001", **words)
    assert intent["status"] == "pending_approval"
    assert gate.propose(payload="leads.csv", idempotency_key="batch-001", **words) == intent
    asked = {"run_id": run["runId"], "payload": {"intentId": intent["intentId"]}}
    gate.record_event(event_type=EVENT_TYPES.APPROVAL_REQUESTED, **asked)
    assert gate.resume_run(run_id=run["runId"])["unresolvedApprovals"][0]["intentId"] == intent["intentId"]
    with pytest.raises(GateError) as waits:
        gate.execute(intent_id=intent["intentId"])
    assert waits.value.body is not None
    assert (waits.value.status, waits.value.body["type"]) == (409, "/problems/approval-pending")
    with pytest.raises(GateError, match="approver") as refused:
        gate.approve(intent_id=intent["intentId"])
    assert refused.value.status == 403
    assert ana.approve(intent_id=intent["intentId"])["status"] == "approved"
    assert gate.resume_run(run_id=run["runId"])["unresolvedApprovals"] == []
    execution = gate.execute(intent_id=intent["intentId"])
    assert execution["executionId"].startswith("exe_")
    with pytest.raises(GateError):
        gate.execute(intent_id=intent["intentId"])
    gate.report(execution, result={"synced": 847})
    with pytest.raises(GateError, match="executed before"):
        gate.execute(intent_id=intent["intentId"])
    again = gate.propose(payload="leads.csv", idempotency_key="batch-001", **words)
    assert (again["status"], again["intentId"]) == ("duplicate_blocked", intent["intentId"])


def test_an_intent_that_is_proposed_again_after_approval_can_be_executed(gate: Gate, ana: Gate) -> None:
    words: dict[str, Any] = {"destination": "zendesk.reply", "policy": "support", "payload": "resolved"}
    intent = gate.propose(**words)
    ana.approve(intent_id=intent["intentId"])
    assert gate.propose(**words)["status"] == "approved"
    gate.report(gate.execute(intent_id=intent["intentId"]), error="zendesk was down")
    assert gate.propose(**words)["blockReason"].endswith("is failed")


def test_a_key_that_was_executed_is_a_duplicate_also_with_another_payload(gate: Gate, ana: Gate) -> None:
    words: dict[str, Any] = {"destination": "crm.import", "policy": "crm", "idempotency_key": "batch-002"}
    intent = gate.propose(payload="leads.csv", **words)
    ana.approve(intent_id=intent["intentId"])
    gate.report(gate.execute(intent_id=intent["intentId"]), result={"synced": 1})
    again = gate.propose(payload="others.csv", **words)
    assert (again["status"], again["intentId"]) == ("duplicate_blocked", intent["intentId"])


def test_what_a_person_or_the_runs_permissions_refuse_is_blocked(gate: Gate, ana: Gate, run: Any) -> None:
    intent = gate.propose(destination="wire.money", policy="finance", payload="1000000")
    assert ana.reject(intent_id=intent["intentId"], reason="no")["status"] == "rejected"
    assert gate.propose(destination="wire.money", policy="finance", payload="1000000")["status"] == "blocked"
    beyond = gate.propose(destination="wire.money", policy="finance", payload="5", run_id=run["runId"])
    assert beyond["status"] == "blocked"
    assert "allow" in beyond["blockReason"]


def test_a_refusal_says_what_to_do_next(gate: Gate, place: Place) -> None:
    with pytest.raises(GateError, match="GET /v1/runs") as unknown:
        gate.get_run(run_id="run_nobody")
    assert unknown.value.status == 404
    with pytest.raises(GateError) as stranger, Gate(endpoint=place.served.url, api_key="gate_sk_test123") as nobody:
        nobody.start_run(agent_id="x", intent_summary="y")
    assert stranger.value.status == 401
    with pytest.raises(ValueError, match="apikeys create"):
        Gate(endpoint=place.served.url, api_key="")
    with pytest.raises(GateError, match="reached"), Gate(endpoint="http://127.0.0.1:9", api_key="k") as away:
        away.get_run(run_id="x")
