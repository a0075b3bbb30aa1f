"""Who may ask what: every operation of the description, without a credential that holds, with one for something else,
and with a stranger's.

Generated from the OpenAPI document: a new operation is asked too, and has to have a line in `bodies`, so that nothing
is left out in silence.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from jsonschema import ValidationError

from indelible.core.rights import RIGHTS
from indelible.core.scopes import SCOPES
from indelible.server.requests.routing import RIGHT_TOLD, SCOPES_TOLD
from indelible.server.signin.credentials import Credentials
from tests.server.bodies import BODIES, OPEN, STRANGERS, UNTIL
from tests.server.places import ROOT, Place

RUN, ANOTHER = "a-run", "another-run"
BY_SCOPE = {"agent": "agent", "approver": "ana", "auditor": "auditor", "admin": "admin"}


@pytest.fixture(scope="module")
def place(each_place: Place) -> Place:
    return each_place


@pytest.fixture(scope="module")
def names(place: Place) -> dict[str, str]:
    """Makes one thing of each kind for acme, and names it, for somebody of globex to ask after."""
    for run_id in (RUN, ANOTHER):  # strangers begin a run of their own with the first name
        place.post("/v1/runs", {"agent": "billing", "run_id": run_id})
    checkpoint = place.post(f"/v1/runs/{RUN}/checkpoints", {"state": {}}).json()
    asked = place.begin(run_id=RUN, approval="required").json()
    intent = place.post("/v1/intents", {"destination": "mail", "policy": "p"}).json()["intentId"]
    decision = {"decision": "approve", "digest": asked["approval"]["digest"], "grant": {"count": 9, "until": UNTIL}}
    place.post(f"/v1/approvals/{asked['approval']['id']}/decisions", decision, "ana")
    delegation = place.post("/v1/delegations", {"to": "bob", "until": UNTIL}, "ana").json()["delegation"]
    (grant,) = place.get("/v1/grants", "ana").json()["grants"]
    person = place.post("/v1/people", {"name": "eve", "scopes": ["auditor"]}, "admin").json()["person"]
    key = place.post("/v1/api-keys", {"name": "spare", "scopes": ["auditor"]}, "admin").json()["api_key"]
    place.ledgers.of("acme")._seal()
    export = place.post("/v1/exports", {"form": "csv"}, "auditor").json()
    while place.get(f"/v1/exports/{export['id']}", "auditor").json()["state"] != "done":
        pass  # it takes a moment
    return {
        "run_id": RUN,
        "checkpoint_id": checkpoint["id"],
        "effect_id": asked["effect"]["id"],
        "key": asked["effect"]["key"],
        "approval_id": asked["approval"]["id"],
        "intent_id": intent,
        "execution_id": f"{intent.replace('apr_', 'exe_')}-1",
        "grant_id": grant["id"],
        "delegation_id": delegation["id"],
        "person_id": person["id"],
        "key_id": key["id"],
        "export_id": export["id"],
        "path": "entries/000.p/1",
        # These two name nothing of a tenant; and the last two are told to a session's own person only.
        "tool": "charge",
        "name": "look",
        "session_id": "ses_1",
        "passkey_id": "pky_1",
    }


def closed(place: Place) -> list[tuple[str, str, dict[str, Any]]]:
    return [one for one in place.described.operations if f"{one[0]} {one[1]}" not in OPEN]


def body_for(method: str, template: str) -> Any:
    return BODIES[f"{method} {template}"]


def test_every_operation_says_which_right_it_needs_as_the_table_has_it(place: Place) -> None:
    told = {f"{method} {path}": operation for method, path, operation in closed(place)}
    assert told.keys() == BODIES.keys(), "say in tests/server/bodies.py what to send"
    for name, operation in told.items():
        right = RIGHTS[operation[RIGHT_TOLD]["verb"]]
        assert set(operation[SCOPES_TOLD]) == right.scopes == set(operation[RIGHT_TOLD]["reach"]), name
        assert operation[RIGHT_TOLD]["states"] == list(right.states), name
    there = {f"{method} {path}" for method, path, _ in place.described.operations}
    assert OPEN | STRANGERS.keys() <= there, "and nothing is written that is not there"


# Credentials that do not hold


def useless(place: Place) -> dict[str, dict[str, str]]:
    """Gives every way to come with no credential, or with one that does not hold."""
    credentials = Credentials(place.store, "acme")
    past = datetime.now(UTC) - timedelta(seconds=1)
    expired = credentials.give("late", ("admin",), by=ROOT, expires_at=past)[1]
    gone, revoked = credentials.give("gone", ("admin",), by=ROOT)
    credentials.revoke(gone.id, by=ROOT)
    good = place.tokens["admin"]
    kind, tenant, key, secret = good.split(".")
    other = place.tokens["stranger"].split(".")
    tokens = {
        "made up": "made-up",
        "of another form": f"{kind}.{tenant}.{key}",
        "not base64": f"{kind}.!!.{key}.{secret}",
        "unknown": f"{kind}.{tenant}.key_{'0' * 28}.{secret}",
        "with another's secret": f"{kind}.{tenant}.{key}.{other[3]}",
        "with a part of its secret": good[:-1],
        "said to be for another tenant": f"{kind}.{other[1]}.{key}.{secret}",
        "expired": str(expired),
        "revoked": str(revoked),
    }
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    return {
        "missing": {},
        "empty": {"Authorization": ""},
        "a word": {"Authorization": "Bearer"},
        "without its kind": {"Authorization": good},
        "of another kind": {"Authorization": f"Digest {good}"},
        "a cookie": {"Cookie": f"__Host-indelible={good}; indelible={good}; session={good}"},
        **headers,
    }


def test_without_a_credential_that_holds_nothing_is_answered(place: Place, names: dict[str, str]) -> None:
    ways, doors = useless(place), list(closed(place))
    assert len(doors) > 40
    for method, template, _ in doors:
        path = template.format(**names)
        for name, headers in ways.items():
            words: dict[str, Any] = {"json": body_for(method, template)}
            if method != "GET" and name == "missing":  # to strangers nothing else is said, whatever they send
                words = {"content": b"{nonsense", "headers": {"Content-Type": "text/plain"}}
            headers = {**words.pop("headers", {}), **headers}
            answer = place.client.request(method, path, headers=headers, **words)
            if name == "missing":  # once; it takes long
                place.described.check(method, path, answer)
            assert answer.status_code == 401, (name, method, path, answer.text)
            assert answer.json()["type"] == "/problems/not-authenticated"
            assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_credential_of_another_scope_is_refused(place: Place, names: dict[str, str]) -> None:
    refused = 0
    for method, template, operation in closed(place):
        path = template.format(**names)
        for scope in SCOPES:
            if scope in operation[SCOPES_TOLD]:
                continue
            answer = place.ask(method, path, BY_SCOPE[scope], body_for(method, template))
            assert answer.status_code == 403, (method, path, scope, answer.text)
            assert answer.json()["type"] == "/problems/not-permitted"
            refused += 1
    assert refused > 40


# Another tenant's things

WITH = {"GET /v1/runs/{run_id}/differences": "?other={run_id}"}
"""What cannot be asked without naming more in the query."""


def test_what_another_tenant_has_is_not_found(place: Place, names: dict[str, str]) -> None:
    """Real names of real things; the stranger is an administrator at home, so that nothing but the tenant is wrong."""
    place.ledgers.of("acme")._seal()
    before = place.get("/v1/journal/heads", "auditor").json()["heads"][0]["size"]
    about_one = [(method, path) for method, path, _ in closed(place) if "{" in path]
    assert len(about_one) > 20
    for method, template in sorted(about_one, key=lambda one: " ".join(one) in STRANGERS):
        path = (template + WITH.get(f"{method} {template}", "")).format(**names)
        status, why = STRANGERS.get(f"{method} {template}", (404, "it is acme's"))
        if method == "GET" and status == 404:
            assert place.ask(method, path, "admin").status_code == 200, f"{path}: what is asked for is there"
        answer = place.ask(method, path, "stranger", body_for(method, template))
        assert answer.status_code == status, (method, path, why, answer.text)
        if status == 404:
            spared = [each for name, each in names.items() if f"{{{name}}}" not in template and len(each) > 8]
            assert not any(each in answer.text for each in spared), "and says nothing of other things"
    place.ledgers.of("acme")._seal()
    more = place.get(f"/v1/journal/entries?after={before - 1}", "auditor").json()["events"]
    assert not more, "nothing of ours has moved"


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/events?run_id={ANOTHER}",
        f"/v1/events/stream?run_id={ANOTHER}",
        f"/v1/journal/inclusion?run_id={ANOTHER}&seq=0",
    ],
)
def test_what_a_query_names_of_another_tenant_is_not_found(place: Place, names: dict[str, str], path: str) -> None:
    assert place.get(path, "stranger").status_code == 404
    assert "stream" in path or place.get(path, "agent").status_code == 200


def test_what_a_body_names_of_another_tenant_is_not_found(place: Place, names: dict[str, str]) -> None:
    child = place.post("/v1/runs", {"agent": "a", "run_id": "child", "parent": ANOTHER}, "stranger")
    ours = place.post("/v1/runs", {"agent": "a", "run_id": "child", "parent": ANOTHER}, "agent")
    assert (child.status_code, ours.status_code) == (404, 201)


def test_lists_hold_nothing_of_another_tenant(place: Place, names: dict[str, str]) -> None:
    """Every list there is: what is answered to a `GET` without a name in its address."""
    secret = {each for name, each in names.items() if name.endswith("_id") and len(each) > 12} | {names["key"]}
    lists = [path for method, path, _ in closed(place) if method == "GET" and "{" not in path]
    lists = [path for path in lists if not path.endswith(("/stream", "/inclusion", "/consistency", "/metrics"))]
    assert {"/v1/effects", "/v1/approvals", "/v1/runs"} <= set(lists)
    for path in lists:
        shown = place.get(path, "stranger").text
        assert not any(name in shown for name in secret), path
    assert place.get("/v1/policy", "stranger").json() == {"version": None, "content": None}


def test_the_check_of_answers_sees_what_is_not_described(place: Place) -> None:
    import httpx2

    described = place.described
    described.check("GET", "/v1/policy", httpx2.Response(200, json={"version": None, "content": None}))
    with pytest.raises(ValidationError, match="5"):
        described.check("GET", "/v1/policy", httpx2.Response(200, json={"version": 5, "content": None}))
    for wrong in (httpx2.Response(207, json={}), httpx2.Response(200, text="hello"), httpx2.Response(500, json={})):
        with pytest.raises(AssertionError, match=r"described|\{"):
            described.check("GET", "/v1/policy", wrong)
