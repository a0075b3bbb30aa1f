"""Who may ask what: every operation of the description, without a credential, with the wrong one, and a stranger's.

Generated from the OpenAPI document: a new operation is asked too, and one with a name in its path has to be told here
what to send, so that nothing is left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from indelible.core.remote import SCOPES
from indelible.server.routing import SCOPES_TOLD
from tests.server.places import Place, sqlite_place

RUN = "a-run"
OURS = ("/v1/effects", "/v1/approvals", "/v1/grants", "/v1/delegations", "/v1/policy", "/v1/events", "/v1/journal",
        "/.well-known", "/v1/people", "/v1/api-keys")  # fmt: skip
OPEN = ("/livez", "/readyz", "/version", "/docs", "/docs/{file}", "/problems/{name}",
        "/v1/sign-in/link", "/v1/sign-in/options", "/v1/sign-in/passkey")  # fmt: skip
"""Are asked by whoever runs the server, reads about it or signs in, who has no token."""
# Written out: what the description says comes from the same lines as what is checked, so it proves nothing by itself.
# Whatever reads is for everybody with a token, and an administrator may everything.
READING = "agent approver auditor"
SCOPES_OF = {
    "POST /v1/store/{}": READING,
    "POST /v1/effects": "agent",
    "POST /v1/effects/{}/commit": "agent",
    "POST /v1/effects/{}/heartbeat": "agent",
    "POST /v1/effects/{}/release": "agent",
    "POST /v1/effects/{}/settle": "agent approver",
    "POST /v1/effects/{}/cancel": "agent approver",
    "POST /v1/effects/{}/retry": "agent approver",
    "POST /v1/approvals/{}/views": "approver",
    "POST /v1/approvals/{}/decisions": "approver",
    "POST /v1/approvals/{}/edit": "approver",
    "POST /v1/approvals/{}/revoke": "approver",
    "GET /v1/grants": "approver auditor",
    "POST /v1/grants/{}/end": "approver",
    "GET /v1/delegations": "approver auditor",
    "POST /v1/delegations": "approver",
    "POST /v1/delegations/{}/end": "approver",
    "GET /v1/policy": "approver auditor",
    "PUT /v1/policy": "",
    "POST /v1/policy/evaluate": "approver auditor",
    "POST /v1/journal/verify": "auditor",
    "POST /v1/tools/{}/calls": "agent",
    "POST /v1/runs": "agent",
    "POST /v1/runs/{}/events": "agent",
    "POST /v1/runs/{}/checkpoints": "agent",
    "POST /v1/runs/{}/resume": "agent",
    "POST /v1/runs/{}/fork": "agent",
    "POST /v1/runs/{}/heartbeat": "agent",
    "POST /v1/runs/{}/release": "agent",
    "POST /v1/runs/{}/complete": "agent approver",
    "POST /v1/runs/{}/fail": "agent approver",
    "POST /v1/runs/{}/cancel": "agent approver",
    "POST /v1/runs/{}/verify": READING,
    "POST /v1/runs/{}/packet": "agent",
    "POST /v1/packets": "",
    "POST /v1/sign-out": READING,
    "POST /v1/sessions/{}/end": READING,
    "POST /v1/passkeys": READING,
    "POST /v1/passkeys/options": READING,
    "POST /v1/passkeys/{}/remove": READING,
    "GET /v1/people": "auditor",
    "POST /v1/people": "",
    "POST /v1/people/{}/revoke": "",
    "GET /v1/api-keys": "auditor",
    "POST /v1/api-keys": "",
    "POST /v1/api-keys/{}/revoke": "",
    "POST /internal/runs/start": "agent",
    "POST /internal/runs/{}/events": "agent",
    "POST /internal/runs/{}/checkpoint": "agent",
    "POST /internal/runs/{}/resume": "agent",
    "POST /internal/runs/{}/verify": READING,
    "POST /v1/sign": "agent",
    "POST /provedex/{}/v1/sign": "agent",
    "POST /v1/verify": READING,
    "POST /provedex/{}/v1/verify": READING,
}
BY_SCOPE = {"agent": "agent", "approver": "ana", "auditor": "auditor", "admin": "admin"}
TOKEN = {"token": "a token of somebody's", "attempt": 1}
DIGEST = "0" * 64
BODIES: dict[str, Any] = {
    "commit": {**TOKEN, "outcome": {"status": "succeeded", "value": 1}},
    "heartbeat": TOKEN,
    "release": {**TOKEN, "status": "ready", "reason": "x"},
    "settle": {"outcome": {"status": "failed", "error": "no"}, "evidence": "looked"},
    "cancel": {"reason": "x"},
    "retry": {"reason": "x"},
    "decisions": {"decision": "approve", "digest": DIGEST},
    "edit": {"args": {}, "digest": DIGEST},
    "revoke": {},
    "end": {"reason": "x"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = sqlite_place(tmp_path_factory.mktemp("access"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def names(place: Place) -> dict[str, str]:
    """Names things of acme, for somebody of globex to ask after."""
    asked = place.begin(run_id=RUN, approval="required").json()
    until = "2099-01-01T00:00:00Z"
    decision = {"decision": "approve", "digest": asked["approval"]["digest"], "grant": {"count": 9, "until": until}}
    place.post(f"/v1/approvals/{asked['approval']['id']}/decisions", decision, "ana")
    delegation = place.post("/v1/delegations", {"to": "bob", "until": until}, "ana").json()["delegation"]
    (grant,) = place.get("/v1/grants", "ana").json()["grants"]
    person = place.post("/v1/people", {"name": "eve", "scopes": ["auditor"]}, "admin").json()["person"]
    key = place.post("/v1/api-keys", {"name": "bot", "scopes": ["agent"]}, "admin").json()["api_key"]
    place.ledgers.of("acme")._seal()
    return {
        "person_id": person["id"],
        "key_id": key["id"],
        "session_id": "ses_1",
        "passkey_id": "pky_1",
        "effect_id": asked["effect"]["id"],
        "key": asked["effect"]["key"],
        "approval_id": asked["approval"]["id"],
        "grant_id": grant["id"],
        "delegation_id": delegation["id"],
        "path": "entries/000.p/1",
    }


def closed(place: Place) -> list[tuple[str, str, dict[str, Any]]]:
    return [one for one in place.described.operations if one[1] not in OPEN]


def filled(template: str, names: dict[str, str]) -> str:
    return template.format(**{"run_id": RUN, "tool": "charge", "name": "look", **names})


def body_for(method: str, path: str) -> Any:
    return BODIES.get(path.rpartition("/")[2], {}) if method in ("POST", "PUT") else None


def test_every_operation_says_who_may_ask_and_that_is_as_it_is_written_here(place: Place) -> None:
    told = {}
    for method, path, operation in closed(place):
        scopes = set(operation[SCOPES_TOLD])
        assert "admin" in scopes
        told[f"{method} {re.sub('{.*?}', '{}', path)}"] = scopes - {"admin"}
    expected = {name: set(SCOPES_OF.get(name, READING if name.startswith("GET ") else "?").split()) for name in told}
    assert told == expected
    assert set(SCOPES_OF) <= set(told)


def test_without_a_credential_nothing_is_answered(place: Place, names: dict[str, str]) -> None:
    for method, template, _ in closed(place):
        path = filled(template, names)
        for headers in ({}, {"Authorization": "Bearer made-up"}):
            answer = place.ask(method, path, None, body_for(method, path), headers=headers)
            assert answer.status_code == 401, (method, path, answer.text)


def test_a_credential_of_another_scope_is_refused(place: Place, names: dict[str, str]) -> None:
    refused = 0
    for method, template, operation in closed(place):
        path = filled(template, names)
        for scope in SCOPES:
            if scope in operation[SCOPES_TOLD]:
                continue
            answer = place.ask(method, path, BY_SCOPE[scope], body_for(method, path))
            assert answer.status_code == 403, (method, path, scope, answer.text)
            assert answer.json()["type"] == "/problems/not-permitted"
            refused += 1
    assert refused > 20


def test_what_another_tenant_has_is_not_found(place: Place, names: dict[str, str]) -> None:
    found = 0
    for method, template, _ in closed(place):
        if "{" not in template or not template.startswith(OURS):
            continue
        path = filled(template, names)
        last = path.rpartition("/")[2]
        assert method == "GET" or last in BODIES or last == "views", f"say what to send to {path}"
        answer = place.ask(method, path, "stranger", body_for(method, path))
        assert answer.status_code == 404, (method, path, answer.text)
        found += 1
    assert found >= 15
    for query in (f"events?run_id={RUN}", f"events/stream?run_id={RUN}", f"journal/inclusion?run_id={RUN}&seq=0"):
        assert place.get(f"/v1/{query}", "stranger").status_code == 404
        assert "stream" in query or place.get(f"/v1/{query}", "agent").status_code == 200


def test_lists_hold_nothing_of_another_tenant(place: Place, names: dict[str, str]) -> None:
    for path in ("effects", "approvals", "grants", "delegations", "events", "journal/heads", "journal/entries"):
        shown = place.get(f"/v1/{path}", "stranger").text
        assert not any(name in shown for name in names.values()), path
    assert place.get("/v1/policy", "stranger").json() == {"version": None, "content": None}


def test_the_check_of_answers_sees_what_is_not_described(place: Place) -> None:
    import httpx2

    described = place.described
    described.check("GET", "/v1/policy", httpx2.Response(200, json={"version": None, "content": None}))
    for wrong in (
        httpx2.Response(200, json={"version": 5, "content": None}),
        httpx2.Response(207, json={}),
        httpx2.Response(200, text="hello"),
        httpx2.Response(500, json={}),
    ):
        with pytest.raises(Exception, match=r"described|5|\{"):
            described.check("GET", "/v1/policy", wrong)
