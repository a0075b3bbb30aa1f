"""Ledger-Seq: an answer that changed something names the event that tells of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pytest

from tests.server.places import Place

RUN = "an order/of ours ü"


@pytest.fixture
def place(each_place: Place) -> Place:
    return each_place


def told(place: Place, answer: Any) -> str:
    """Gives the type of the event that an answer names."""
    assert answer.status_code < 300, answer.text
    run, _, seq = answer.headers["ledger-seq"].rpartition("/")
    params = {"run_id": unquote(run), "after": int(seq) - 1, "limit": 1}
    (event,) = place.get("/v1/events", "auditor", params=params).json()["events"]
    assert event["seq"] == int(seq)
    return str(event["type"])


def test_what_becomes_of_effects(place: Place) -> None:
    begun = place.begin(run_id=RUN, args={"n": 1})
    assert told(place, begun) == "tool_call_started"
    path = f"/v1/effects/{begun.json()['effect']['id']}"
    place.begin(run_id=RUN, args={"n": 2})
    assert told(place, place.commit(begun.json(), {"status": "failed", "error": "no"})) == "tool_call_finished"
    assert told(place, place.commit(begun.json(), {"status": "failed", "error": "no"})) == "tool_call_finished"
    replayed = place.begin(run_id=RUN, args={"n": 1})
    assert (replayed.status_code, "ledger-seq" in replayed.headers) == (200, False)
    assert told(place, place.post(f"{path}/retry", {"reason": "again"}, "ana")) == "tool_call_released"
    again = place.begin(run_id=RUN, args={"n": 1})
    assert told(place, again) == "tool_call_started"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("indelible.server.requests.sequence.MOST_LOOKED_AT", 1)
        token = {"run_id": RUN, "args": {"n": 1}, "token": again.json()["token"]}
        assert "ledger-seq" not in place.begin(**token).headers
    given_up = {"token": again.json()["token"], "attempt": 2, "status": "in_doubt", "reason": "lost"}
    assert told(place, place.post(f"{path}/release", given_up)) == "tool_call_in_doubt"
    looked = {"outcome": {"status": "succeeded", "value": 1}, "evidence": "looked"}
    assert told(place, place.post(f"{path}/settle", looked, "ana")) == "tool_call_finished"
    assert "ledger-seq" not in place.get(path).headers


def test_what_people_decide(place: Place) -> None:
    asked = place.begin(run_id=RUN, approval="required")
    assert told(place, asked) == "approval_requested"
    path = f"/v1/approvals/{asked.json()['approval']['id']}"
    vote = {"decision": "approve", "digest": asked.json()["approval"]["digest"]}
    assert told(place, place.post(f"{path}/views", None, "ana")) == "approval_viewed"
    assert told(place, place.post(f"{path}/decisions", vote, "ana")) == "approval_received"
    assert told(place, place.post(f"{path}/revoke", {"reason": "no"}, "ana")) == "approval_revoked"
    edit = {"args": {"amount": 1}, "digest": vote["digest"], "reason": "less"}
    edited = place.post(f"{path}/edit", edit, "ana")
    assert told(place, edited) == "approval_edited"
    vote["digest"] = edited.json()["approval"]["digest"]
    assert told(place, place.post(f"{path}/decisions", vote, "bob")) == "approval_received"
    assert told(place, place.begin(run_id=RUN, approval="required")) == "tool_call_started"
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    given = place.post("/v1/delegations", {"to": "bob", "until": until}, "ana")
    assert told(place, given) == "delegation_given"
    ended = place.post(f"/v1/delegations/{given.json()['delegation']['id']}/end", {"reason": "back"}, "ana")
    assert told(place, ended) == "delegation_ended"
    policy = {"rules": [{"name": "all", "match": {"tool": "*"}, "then": "allow"}]}
    assert told(place, place.ask("PUT", "/v1/policy", "admin", {"content": policy})) == "policy_applied"


def test_what_becomes_of_runs(place: Place) -> None:
    begun = place.post("/v1/runs", {"run_id": "r 1", "agent": "a"})
    assert told(place, begun) == "run_started"
    token = {"token": begun.json()["token"]}
    events = [{"type": "plan_locked"}, {"type": "artifact_created", "payload": {"uri": "x"}}]
    assert told(place, place.post("/v1/runs/r 1/events", {**token, "events": events})) == "artifact_created"
    assert told(place, place.post("/v1/runs/r 1/checkpoints", {**token, "state": {}})) == "checkpoint_sealed"
    assert told(place, place.post("/v1/runs/r 1/fork", {"run_id": "r 2"})) == "run_started"
    assert told(place, place.post("/v1/runs/r 1/fail", {**token, "reason": "no"})) in (
        "run_failed",
        "checkpoint_sealed",
    )
    resumed = place.post("/v1/runs/r 1/resume", {})
    assert told(place, resumed) == "run_resumed"
    done = place.post("/v1/runs/r 1/complete", {"token": resumed.json()["token"], "reason": "done"})
    assert told(place, done) == "run_completed"
