"""Approvals over HTTP: what is decided is what was shown, by who is let in, and never by looking."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from indelible import GrantTerms, connect
from indelible.core.approvals.approval import approval_digest
from indelible.errors import NotPermitted
from tests.server.places import WHO, Place, sqlite_place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = sqlite_place(tmp_path_factory.mktemp("approvals"))
    yield made
    made.close()


@pytest.fixture
def run() -> str:
    return uuid4().hex


def ask(place: Place, run: str, **words: Any) -> dict[str, Any]:
    """Gives the question about a call."""
    answer = place.begin(run_id=run, approval="required", **words)
    assert answer.status_code == 202
    return dict(answer.json()["approval"])


def decide(place: Place, approval: dict[str, Any], who: str = "ana", **words: Any) -> Any:
    headers = words.pop("headers", {})
    body = {"decision": "approve", "digest": approval["digest"], **words}
    body = {name: value for name, value in body.items() if value is not None}
    return place.post(f"/v1/approvals/{approval['id']}/decisions", body, who, headers=headers)


def events(place: Place, run: str) -> list[tuple[str, str]]:
    told = place.get("/v1/events", params={"run_id": run}).json()["events"]
    return [(one["type"], one["body"]["actor"]["id"]) for one in told]


def test_what_was_approved_runs_once(place: Place, run: str) -> None:
    approval = ask(place, run)
    decided = decide(place, approval)
    assert decided.status_code == 201
    (vote,) = decided.json()["approval"]["votes"]
    assert (vote["by"], vote["via"], decided.json()["approval"]["status"]) == ("ana", "api_key", "approved")
    claim = place.begin(run_id=run, approval="required")
    assert claim.status_code == 201
    assert place.commit(claim.json()).status_code == 200
    assert place.get(f"/v1/approvals/{approval['id']}").json()["approval"]["status"] == "consumed"


def test_looking_shows_everything_decides_nothing_and_leaves_no_trace(place: Place, run: str) -> None:
    approval = ask(place, run, args={"to": "a\u202eb", "amount": 5})
    before = events(place, run)
    for who in ("agent", "ana", "auditor"):
        seen = place.get(f"/v1/approvals/{approval['id']}", who)
        assert seen.json()["args"] == {"to": "a\u202eb", "amount": 5}
        assert seen.json()["approval"] == approval
        assert seen.headers["etag"] == '"1"'
    assert events(place, run) == before


def test_the_text_that_is_shown_has_the_digest_that_is_sent_back(place: Place, run: str) -> None:
    """Whoever hashes it need not believe anything else, and no number is rounded on the way."""
    approval = ask(place, run, args={"amount": 2**53 + 1, "to": "Zoë"})
    seen = place.get(f"/v1/approvals/{approval['id']}", "ana").json()
    assert seen["args_json"] == '{"amount":{"$int":"9007199254740993"},"to":"Zoë"}'
    bound = {name: approval[name] for name in ("tool", "schema", "policy")} | {"run_id": approval["for_run"]}
    expires_at = datetime.fromisoformat(approval["expires_at"])
    text = seen["args_json"].encode()
    digest = approval_digest(
        approval=approval["id"], tenant=WHO["ana"][0], args_json=text, expires_at=expires_at, **bound
    )
    assert digest == approval["digest"]
    again = ask(place, run, args={"amount": 6, "to": "Zoë"})
    second = place.get(f"/v1/approvals/{again['id']}", "ana").json()
    changed = {"path": "args.amount", "before": {"$int": "9007199254740993"}, "after": 6}
    assert (second["previous"], second["since_previous"]) == (approval["id"], [changed])


def test_having_been_shown_it_goes_on_the_record_when_asked(place: Place, run: str) -> None:
    approval = ask(place, run)
    seen = place.ask("POST", f"/v1/approvals/{approval['id']}/views", "ana")
    assert seen.json()["approval"]["digest"] == approval["digest"]
    assert events(place, run)[-1] == ("approval_viewed", "ana")


def test_another_digest_than_the_one_asked_about_is_refused(place: Place, run: str) -> None:
    approval = ask(place, run)
    wrong = decide(place, approval, digest="0" * 64)
    assert (wrong.status_code, wrong.json()["type"], wrong.json()["code"]) == (409, "/problems/vote-refused", "digest")
    assert approval["digest"] not in wrong.text
    assert decide(place, approval, digest=None).status_code == 400
    assert place.begin(run_id=run, approval="required").status_code == 202


def test_a_second_decision_is_told_who_decided(place: Place, run: str) -> None:
    approval = ask(place, run)
    denied = decide(place, approval, "ana", decision="deny", reason="too much", digest=None)
    assert denied.json()["approval"]["status"] == "denied"
    late = decide(place, approval, "bob", headers={"If-Match": '"1"'})
    assert (late.status_code, late.json()["code"]) == (409, "not_pending")
    assert "ana denied at 20" in late.json()["detail"]
    refused = place.begin(run_id=run, approval="required")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/effect-denied")
    assert "too much" in refused.json()["detail"]


def test_whoever_decides_on_a_question_that_was_replaced_is_told_the_new_one(place: Place, run: str) -> None:
    first = ask(place, run, args={"order": "1", "amount": 5}, key=["order"])
    second = ask(place, run, args={"order": "1", "amount": 500}, key=["order"])
    assert (second["replaces"], second["effect_id"]) == (first["id"], first["effect_id"])
    late = decide(place, first)
    assert (late.status_code, late.json()["code"]) == (409, "replaced")
    assert second["id"] in late.json()["detail"]
    shown = place.get(f"/v1/approvals/{second['id']}").json()
    assert shown["changed"] == [{"path": "args.amount", "before": 5, "after": 500}]


def test_if_match_refuses_what_has_changed_meanwhile(place: Place, run: str) -> None:
    approval = ask(place, run)
    assert decide(place, approval, headers={"If-Match": '"7"'}).status_code == 412
    assert decide(place, approval, headers={"If-Match": '"1"'}).status_code == 201


def test_who_asked_does_not_decide(place: Place, run: str) -> None:
    approval = ask(place, run, who="agent")
    assert decide(place, approval, "agent").status_code == 403
    by_admin = place.begin("admin", run_id=run + "2", approval="required").json()["approval"]
    refused = decide(place, by_admin, "admin")
    assert (refused.status_code, refused.json()["code"]) == (403, "self_approval")


def test_a_denial_says_why_and_grants_nothing(place: Place, run: str) -> None:
    approval = ask(place, run)
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert decide(place, approval, decision="deny").status_code == 400
    granting = decide(place, approval, decision="deny", reason="no", grant={"count": 1, "until": until})
    assert granting.status_code == 400


def test_an_edit_asks_anew_and_runs_with_what_was_edited(place: Place, run: str) -> None:
    approval = ask(place, run, args={"amount": 500})
    path = f"/v1/approvals/{approval['id']}/edit"
    stale = place.post(path, {"args": {"amount": 50}, "digest": approval["digest"]}, "ana", headers={"If-Match": '"9"'})
    assert stale.status_code == 412
    edited = place.post(path, {"args": {"amount": 50}, "digest": approval["digest"], "reason": "less"}, "ana")
    assert edited.status_code == 200
    question = edited.json()["approval"]
    assert question["digest"] != approval["digest"]
    assert decide(place, approval, "bob").status_code == 409
    assert decide(place, question, "bob").status_code == 201
    claim = place.begin(run_id=run, args={"amount": 500}, approval="required").json()
    assert claim["effect"]["args"] == {"amount": 50}
    again = place.post(path, {"args": {"amount": 5}, "digest": question["digest"]}, "ana")
    assert again.status_code == 409


def test_an_approval_is_taken_back_as_long_as_nothing_runs_on_it(place: Place, run: str) -> None:
    approval = ask(place, run)
    decide(place, approval)
    path = f"/v1/approvals/{approval['id']}/revoke"
    assert place.post(path, {}, "bob").status_code == 409
    assert place.post(path, {"reason": "wait"}, "ana").json()["approval"]["status"] == "pending"
    assert place.begin(run_id=run, approval="required").status_code == 202
    decide(place, approval)
    assert place.begin(run_id=run, approval="required").status_code == 201
    assert place.post(path, {}, "ana").status_code == 409


def test_a_grant_spares_the_next_question_until_it_is_ended(place: Place, run: str) -> None:
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat().replace("+00:00", "Z")
    approval = ask(place, run, tool="mail", args={"to": "x"})
    assert decide(place, approval, grant={"count": 2, "until": until}).status_code == 201
    (grant,) = place.get("/v1/grants?tool=mail", "ana").json()["grants"]
    assert (grant["uses_left"], grant["given_by"], grant["approval_id"]) == (2, "ana", approval["id"])
    other = {"tool": "mail", "args": {"to": "x"}, "run_id": run + "2", "approval": "required"}
    assert place.post("/v1/effects", other).status_code == 201
    ended = place.post(f"/v1/grants/{grant['id']}/end", {"reason": "enough"}, "ana")
    assert ended.json()["grant"]["is_ended"]
    assert place.post("/v1/effects", {**other, "run_id": run + "3"}).status_code == 202
    assert place.get("/v1/grants?tool=mail", "ana").json()["grants"] == []
    wrong = decide(place, ask(place, run + "4"), grant={"count": 1, "until": until, "pin": ["nothing"]})
    assert wrong.status_code == 400


def test_an_approvers_own_client_takes_back_what_it_granted_and_delegates_in_its_name_alone(
    place: Place, run: str
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    question = ask(place, run)
    with connect(place.served.url, token=place.tokens["ana"]) as ana:
        terms = GrantTerms(count=5, until=later)
        ana.approve(question["id"], digest=question["digest"], by="ana", grant=terms)
        ana.revoke_approval(question["id"], by="ana", reason="a mistake")
        assert [grant for grant in ana.grants() if grant.approval_id == question["id"]] == []
        assert place.begin(run_id=f"{run}-2", approval="required").status_code == 202, "it is asked about again"
        given = ana.delegate("dan", until=later, by="ana", reason="on holiday")
        assert ana.end_delegation(given.id, by="ana", reason="back").is_ended
        with pytest.raises(NotPermitted):
            ana.delegate("ana", until=later, by="the boss", reason="so it is said")


def test_a_delegation_is_given_listed_and_ended(place: Place) -> None:
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    given = place.post("/v1/delegations", {"to": "bob", "until": until}, "ana")
    assert (given.status_code, given.json()["delegation"]["giver"]) == (201, "ana")
    assert place.get("/v1/delegations", "auditor").json()["delegations"] == [given.json()["delegation"]]
    ended = place.post(f"/v1/delegations/{given.json()['delegation']['id']}/end", {"reason": "back"}, "ana")
    assert ended.json()["delegation"]["is_ended"]
    assert place.get("/v1/delegations", "ana").json()["delegations"] == []
    assert place.post("/v1/delegations", {"to": "ana", "until": until}, "ana").status_code == 400


@pytest.mark.parametrize(
    "until", ["2030-01-01T00:00:00", "soon", 5, "9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+05:00"]
)
def test_an_instant_needs_a_zone_and_has_to_be_one(place: Place, until: Any) -> None:
    assert place.post("/v1/delegations", {"to": "bob", "until": until}, "ana").status_code == 422


def test_approvals_are_listed_by_pages(place: Place, run: str) -> None:
    made = [ask(place, run, args={"n": n})["id"] for n in range(3)]
    first = place.get("/v1/approvals", "ana", params={"run_id": run, "limit": 2, "status": "pending"}).json()
    assert [one["id"] for one in first["approvals"]] == made[:0:-1]
    rest = place.get("/v1/approvals", "ana", params={"run_id": run, "limit": 2, "before": first["next"]}).json()
    assert ([one["id"] for one in rest["approvals"]], rest["next"]) == (made[:1], None)
    assert place.get("/v1/approvals?tool=nothing", "ana").json()["approvals"] == []


def test_a_page_that_looks_through_large_arguments_ends_early_and_none_is_left_out(
    place: Place, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.engine.finding.MOST_BYTES", 10_000)
    made = [ask(place, run, args={"n": n, "large": "x" * 2000})["id"] for n in range(20)]
    seen: list[str] = []
    pages, before = 0, {}
    while pages == 0 or before:
        page = place.get("/v1/approvals", params={"run_id": run, "q": "xxx", **before}).json()
        seen += [approval["id"] for approval in page["approvals"]]
        pages, before = pages + 1, {"before": page["next"]} if page["next"] else {}
    assert seen == made[::-1]
    assert pages >= 3


def test_bad_signatures_and_odd_ids_are_refused(place: Place, run: str) -> None:
    approval = ask(place, run)
    assert decide(place, approval, signature="not base64!").status_code == 400
    assert decide(place, approval, signature="YWJj").json()["code"] == "signature"
    assert place.get("/v1/approvals/%00", "ana").status_code == 404
    assert place.get("/v1/approvals/apr_", "ana").status_code == 404
    assert place.post("/v1/grants/%00/end", {"reason": "x"}, "ana").status_code == 400
