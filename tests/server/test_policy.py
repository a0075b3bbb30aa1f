"""The policy over HTTP: put in force by administrators, tried out without a trace, and not for agents to read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.server.places import Place, sqlite_place

CONTENT: dict[str, Any] = {
    "rules": [
        {"name": "large refunds", "match": {"tool": "refund", "args": {"amount": {"gt": 100}}}, "then": "ask"},
        {"name": "no deletes", "match": {"tool": "delete.*"}, "then": "refuse"},
        {"name": "not this one", "match": {"tool": "mail", "agent": "other-agent"}, "then": "refuse"},
    ],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = sqlite_place(tmp_path_factory.mktemp("policy"))
    yield made
    made.close()


def put(place: Place, content: Any, who: str = "admin", **words: Any) -> Any:
    return place.ask("PUT", "/v1/policy", who, {"content": content}, **words)


def evaluate(place: Place, **words: Any) -> dict[str, Any]:
    answer = place.post("/v1/policy/evaluate", {"tool": "refund", **words}, "auditor")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_policy_is_put_in_force_for_everybody_and_on_the_record(place: Place) -> None:
    none = place.get("/v1/policy", "auditor")
    assert none.json() == {"version": None, "content": None}
    version = put(place, CONTENT, headers={"If-Match": none.headers["etag"]}).json()["version"]
    shown = place.get("/v1/policy", "ana")
    assert shown.json() == {"version": version, "content": CONTENT}
    assert put(place, {**CONTENT, "default": "ask"}, headers={"If-Match": '"another"'}).status_code == 412
    assert put(place, CONTENT, headers={"If-Match": shown.headers["etag"]}).json()["version"] == version
    run = uuid4().hex
    asked = place.post("/v1/effects", {"tool": "refund", "args": {"amount": 500}, "run_id": run, "approval": "none"})
    assert (asked.status_code, asked.json()["approval"]["rule"]) == (202, "large refunds")
    refused = place.post("/v1/effects", {"tool": "delete.all", "run_id": run})
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/policy-refused")
    assert "no deletes" in refused.json()["detail"]


def test_a_rule_about_an_agent_looks_at_the_credential(place: Place) -> None:
    put(place, CONTENT)
    for who, status in (("agent", 201), ("other-agent", 403)):
        assert place.post("/v1/effects", {"tool": "mail", "run_id": uuid4().hex}, who).status_code == status
    assert evaluate(place, tool="mail", agent="other-agent")["rule"] == "not this one"


OPTIONS: dict[str, list[Any]] = {
    "side_effect": ["none", "read", "write", "payment"],
    "approval": ["none", "required"],
    "on_crash": ["retry", "hold"],
    "dedupe": ["args", "call", "ask"],
    "call_id": ["c1", "c2"],
    "scope": ["elsewhere"],
    "key": [["amount"]],
    "resource": [{"namespace": "n", "type": "t", "id": "i"}],
    "schema": ["0" * 64],
    "lease_s": [0.001, 600],
    "token": ["a token of the client's own"],
    "driver_token": ["the right to drive, or so they say"],
}


def test_whatever_an_agent_says_it_is_asked_about_what_the_policy_asks_about(place: Place) -> None:
    put(place, CONTENT)
    chosen = random.Random(3)
    answers = []
    for _ in range(120):
        names = chosen.sample(list(OPTIONS), chosen.randint(1, 5))
        said = {name: chosen.choice(OPTIONS[name]) for name in names}
        body = {"tool": "refund", "args": {"amount": 500}, "run_id": chosen.choice(["x", "y", uuid4().hex]), **said}
        answers.append(place.post("/v1/effects", body).status_code)
    assert 201 not in answers
    assert 200 not in answers
    assert answers.count(202) > 40


def test_trying_out_says_what_would_happen_and_records_nothing(place: Place) -> None:
    put(place, CONTENT)
    run = uuid4().hex
    assert evaluate(place, args={"amount": 5}, run_id=run)["decision"] == "allow"
    asked = evaluate(place, args={"amount": 500}, run_id=run, agent="billing")
    assert (asked["decision"], asked["rule"]) == ("ask", "large refunds")
    assert asked["question"]["needs"] == [{"count": 1, "role": None}]
    assert evaluate(place, tool="delete.x", run_id=run)["decision"] == "refuse"
    assert evaluate(place, tool="mail", approval="required", run_id=run)["decision"] == "ask"
    assert place.get("/v1/events", params={"run_id": run}).status_code == 404
    assert place.get("/v1/effects", params={"run_id": run}).json()["effects"] == []


@pytest.mark.parametrize("content", [{"rules": 5}, {"rules": [{"decision": "maybe"}]}, {"unknown": 1}])
def test_a_policy_that_cannot_be_used_is_refused_with_what_is_wrong(place: Place, content: Any) -> None:
    before = place.get("/v1/policy", "auditor").json()
    answer = put(place, content)
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/bad-policy")
    assert answer.json()["problems"]
    assert place.get("/v1/policy", "auditor").json() == before


def test_agents_neither_read_nor_try_out_nor_make_the_rules_they_are_under(place: Place) -> None:
    assert place.get("/v1/policy", "agent").status_code == 403
    assert place.post("/v1/policy/evaluate", {"tool": "refund"}, "agent").status_code == 403
    for who in ("agent", "ana", "auditor"):
        assert put(place, CONTENT, who).status_code == 403
