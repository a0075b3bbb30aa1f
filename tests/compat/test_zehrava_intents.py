"""The requests that zehrava-gate's JavaScript client sends for intents, with its headers and bodies, byte by byte."""

from __future__ import annotations

import http.client
import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from indelible.core.effects.effect import Status
from indelible.server.peers import zehrava_intents
from tests.server.conftest import each_place as each_place
from tests.server.places import Place
from tests.waiting import eventually

PROPOSAL: dict[str, Any] = {
    "payload": "Thank you, your issue is resolved.",
    "destination": "zendesk.reply",
    "policy": "support-reply",
    "recordCount": 1,
    "expiresIn": "1h",  # the client's default
}


class Answer(NamedTuple):
    """What came back: its status and its content."""

    status: int
    content: dict[str, Any]


class Gate:
    """Sends what `src/sdk.js` of zehrava-gate 0.3.0 sends: undefined members are left out, and a GET says JSON too."""

    def __init__(self, place: Place, who: str) -> None:
        self._place, self._token = place, place.tokens[who]

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, **more: str) -> Answer:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", **more}
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        connection = http.client.HTTPConnection(self._place.served.url.removeprefix("http://"), timeout=60)
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            return Answer(answer.status, json.loads(answer.read()))
        finally:
            connection.close()

    def propose(self, **words: Any) -> Answer:
        return self.ask("POST", "/v1/intents", {**PROPOSAL, **words})

    def act(self, intent_id: str, action: str, body: dict[str, Any] | None = None) -> Answer:
        return self.ask("POST", f"/v1/intents/{intent_id}/{action}", body or {})

    def verify(self, intent_id: str) -> Answer:
        return self.ask("GET", f"/v1/intents/{intent_id}")


@pytest.fixture(scope="module")
def place(each_place: Place) -> Place:
    """Answers on each kind of store."""
    return each_place


@pytest.fixture
def gate(place: Place) -> Gate:
    return Gate(place, "agent")


@pytest.fixture
def ana(place: Place) -> Gate:
    return Gate(place, "ana")


def status_of(place: Place, intent_id: str) -> Status:
    status: Status = place.get(f"/v1/approvals/{intent_id}", "ana").json()["effect"]["status"]
    return status


def test_79_an_intent_is_proposed_approved_executed_and_reported(place: Place, gate: Gate, ana: Gate) -> None:
    status, intent = gate.propose(idempotency_key="ticket-1")
    assert (status, intent["status"], intent["blockReason"]) == (200, "pending_approval", None)
    name = intent["intentId"]
    left = datetime.fromisoformat(intent["expiresAt"]) - datetime.now(UTC)
    assert timedelta(minutes=50) < left <= timedelta(hours=1)
    assert gate.propose(idempotency_key="ticket-1") == (200, intent), "the same proposal is the same intent"
    assert gate.verify(name).content["status"] == "pending_approval"
    assert gate.act(name, "execute").status == 409
    assert gate.act(name, "approve").status == 403, "an agent does not approve"
    status, approved = ana.act(name, "approve")
    assert (status, approved["status"]) == (200, "approved")
    assert datetime.fromisoformat(approved["approvedAt"]) <= datetime.now(UTC)
    assert gate.verify(name).content["status"] == "approved"
    assert gate.propose(idempotency_key="ticket-1").content["status"] == "approved", "and nothing is claimed"
    assert status_of(place, name) == "ready"
    status, order = gate.act(name, "execute")
    assert (status, order["intent_id"], order["mode"]) == (201, name, "runner_exec")
    assert gate.act(name, "execute").status == 409, "the right is given once"
    assert gate.verify(name).content["status"] == "scheduled"
    assert gate.propose(idempotency_key="ticket-1").content["status"] == "duplicate_blocked"
    report = {"status": "succeeded", "result": {"sent": 1}, "execution_token": order["execution_token"]}
    path = f"/v1/executions/{order['executionId']}/report"
    assert gate.ask("POST", path, {**report, "execution_token": "gex_somebody_else"}).status == 403
    assert gate.ask("POST", path, report).content["status"] == "succeeded"
    assert gate.ask("POST", path, report).status == 200, "saying the same twice is harmless"
    assert gate.verify(name).content["status"] == "succeeded"
    again = gate.propose(idempotency_key="ticket-1", payload="another text")
    assert (again.status, again.content["status"], again.content["intentId"]) == (200, "duplicate_blocked", name)
    assert status_of(place, name) == "succeeded"


def test_79_an_idempotency_key_gives_no_second_right_to_execute(gate: Gate, ana: Gate) -> None:
    """A job that is started again sends the same requests under the same keys."""
    name = gate.propose(idempotency_key="ticket-again").content["intentId"]
    ana.act(name, "approve")
    once = {"Idempotency-Key": "execute-again"}
    path = f"/v1/intents/{name}/execute"
    assert gate.ask("POST", path, {}, **once).status == 201
    assert gate.ask("POST", path, {}, **once).status == 409


def test_29_an_idempotency_key_gives_no_second_driver_of_a_run(gate: Gate) -> None:
    once = {"Idempotency-Key": "resume-order-29"}
    started = gate.ask("POST", "/v1/runs", {"run_id": "order-29", "agent": "billing"}, **once)
    assert started.status == 201
    assert gate.ask("POST", "/v1/runs", {"run_id": "order-29", "agent": "billing"}, **once).status == 409
    assert gate.ask("POST", "/v1/runs/order-29/release", {"token": started.content["token"]}).status == 200
    assert gate.ask("POST", "/v1/runs/order-29/resume", {}, **once).status == 200
    assert gate.ask("POST", "/v1/runs/order-29/resume", {}, **once).status == 409


def test_79_a_result_has_its_keys_in_the_order_in_which_they_are_recorded(place: Place, gate: Gate, ana: Gate) -> None:
    name = gate.propose(idempotency_key="sorted").content["intentId"]
    ana.act(name, "approve")
    order = gate.act(name, "execute").content
    told = {
        "status": "succeeded",
        "result": {"z": 1, "a": {"y": 1, "b": 2}},
        "execution_token": order["execution_token"],
    }
    answer = gate.ask("POST", f"/v1/executions/{order['executionId']}/report", told).content["result"]
    effect = place.get(f"/v1/approvals/{name}", "ana").json()["effect"]
    recorded = effect["outcome"]["value"]
    assert json.dumps(answer) == json.dumps(recorded) == '{"a": {"b": 2, "y": 1}, "z": 1}'


def test_79_an_intent_that_a_person_rejects_is_blocked(gate: Gate, ana: Gate) -> None:
    name = gate.propose(destination="wire.money").content["intentId"]
    assert ana.act(name, "reject", {"reason": "no"}).content["status"] == "rejected"
    assert gate.verify(name).content["status"] == "rejected"
    again = gate.propose(destination="wire.money").content
    assert (again["status"], again["intentId"], again["blockReason"]) == ("blocked", name, "no")
    refused = gate.act(name, "execute")
    assert (refused.status, refused.content["type"]) == (409, "/problems/effect-denied")
    assert ana.act(gate.propose(destination="wire").content["intentId"], "reject").status == 200, "a reason is optional"


def test_79_the_python_clients_requests_without_a_body_are_answered(gate: Gate, ana: Gate) -> None:
    """It sends no body where the other client sends an empty object, and null for what was not said."""
    intent = gate.propose(idempotency_key="python", metadata=None, on_behalf_of=None).content
    path = f"/v1/intents/{intent['intentId']}"
    assert ana.ask("POST", f"{path}/approve").status == 200
    assert gate.ask("POST", f"{path}/execute").status == 201
    other = gate.propose(idempotency_key="python-2").content["intentId"]
    assert ana.ask("POST", f"/v1/intents/{other}/reject").content["status"] == "rejected"


def test_79_an_intent_is_not_executed_after_the_time_it_asked_for(
    place: Place, gate: Gate, ana: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = gate.propose(idempotency_key="late", expiresIn="30m").content["intentId"]
    assert ana.act(name, "approve").status == 200
    later = datetime.now(UTC) + timedelta(minutes=31)
    monkeypatch.setattr(
        zehrava_intents, "datetime", type("Later", (datetime,), {"now": staticmethod(lambda tz: later)})
    )
    assert gate.verify(name).content["status"] == "expired"
    assert gate.act(name, "execute").status == 409
    again = gate.propose(idempotency_key="late", expiresIn="30m").content
    assert (again["status"], again["intentId"]) == ("blocked", name)
    assert status_of(place, name) == "ready"


def test_79_an_intent_that_another_one_replaced_is_executed_by_that_ones_id_alone(
    place: Place, gate: Gate, ana: Gate
) -> None:
    """The older id claimed on the newer question's approval, whose time was then not looked at."""
    replaced = gate.propose(idempotency_key="asked-twice").content["intentId"]
    rules = {"rules": [{"name": "allowed", "match": {"tool": "*"}, "then": "allow"}]}
    assert place.ask("PUT", "/v1/policy", "admin", {"content": rules, "reason": "another one"}).status_code == 200

    def is_asked_anew() -> bool:
        newest.append(gate.propose(idempotency_key="asked-twice").content["intentId"])
        return bool(newest[-1] != replaced)

    newest: list[str] = []
    eventually(is_asked_anew)  # a server reads the policy from time to time
    assert ana.act(newest[-1], "approve").status == 200

    assert gate.act(replaced, "execute").status == 409
    assert gate.act(newest[-1], "execute").status == 201
    assert gate.act(replaced, "execute").status == 409


def test_79_what_is_no_intent_is_refused(place: Place, gate: Gate) -> None:
    assert gate.verify("apr_00").status == 404
    assert gate.act("apr_00", "execute").status == 404
    assert (
        gate.ask("POST", "/v1/executions/exe_00-1/report", {"status": "failed", "execution_token": "x"}).status == 404
    )
    assert gate.ask("POST", "/v1/intents", {"destination": "mail"}).status == 422
    assert gate.propose(expiresIn="soon").status == 422
    asked = place.begin(run_id="own", scope="somewhere", approval="required").json()["approval"]["id"]
    assert gate.act(asked, "execute").status == 404, "an approval of a call that is no intent"
    assert len(place.get("/v1/effects?run_id=own").json()["effects"]) == 1
