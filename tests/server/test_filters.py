"""Filters over HTTP: `q` finds what it asks for on both stores, in pages of bounded work that leave nothing out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.places import Place


@pytest.fixture
def place(each_place: Place) -> Place:
    return each_place


def found(place: Place, resource: str, q: str, who: str = "auditor", **params: Any) -> list[dict[str, Any]]:
    """Gives everything that is found, page by page."""
    names = {"events": "after"}
    things: list[dict[str, Any]] = []
    going_on: dict[str, Any] = {}
    while True:
        answer = place.get(f"/v1/{resource}", who, params={"q": q, **params, **going_on})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        things += page[resource]
        if page["next"] is None:
            return things
        going_on = {names.get(resource, "before"): page["next"]}


def story(place: Place) -> None:
    """Makes a run with paid, failed and waiting calls, and one call outside of it; once for every place."""
    if place.get("/v1/runs/order-1").status_code == 200:
        return
    driving = place.post("/v1/runs", {"run_id": "order-1", "agent": "billing", "intent": "refund order 1"}).json()
    assert driving["run"]["agent"] == "billing"
    for amount in (5, 1500):
        words = {"run_id": "order-1", "tool": "stripe.charge", "side_effect": "payment"}
        place.commit(place.begin(args={"amount": amount, "to": {"city": "Rome"}}, **words).json())
    failing = place.begin(run_id="order-1", tool="mail.send", args={"to": "ana"}).json()
    place.commit(failing, {"status": "failed", "error": "mailbox full"})
    place.begin(run_id="order-1", tool="stripe.refund", args={"amount": 2000}, approval="required")
    place.begin(run_id="other", tool="crm.get", args={"amount": 9000})


def test_every_list_is_filtered_by_the_same_words(place: Place) -> None:
    story(place)

    def tools(q: str, **params: Any) -> list[str]:
        return [effect["tool"] for effect in found(place, "effects", q, **params)]

    charges = ["stripe.charge", "stripe.charge"]
    assert tools("tool:stripe.*") == ["stripe.refund", *charges]
    assert tools("tool:stripe.* -tool:*.charge") == ["stripe.refund"]
    assert tools("args.amount:>1000") == ["crm.get", "stripe.refund", "stripe.charge"]
    assert tools("args.amount:>1000 agent:billing") == ["stripe.refund", "stripe.charge"]
    assert tools("args.to.city:Rome status:succeeded run:order-1 side_effect:payment") == charges
    assert tools("status:failed,requires_approval") == ["stripe.refund", "mail.send"]
    assert tools('"mailbox FULL" since:1h') == ["mail.send"]
    assert tools("since:1h until:0s") == tools("")
    assert tools("until:30d") == tools("since:2100-01-01") == []
    assert tools("status:failed", status="succeeded") == []
    assert [run["id"] for run in found(place, "runs", "agent:bill* refund")] == ["order-1"]
    assert [run["id"] for run in found(place, "runs", "run:order-1 status:active")] == ["order-1"]
    assert found(place, "runs", "run:order-1 status:failed") == found(place, "runs", "agent:nobody") == []
    for q in ("requester:agent args.amount:2000 agent:billing", "tool:stripe.refund since:1h", "status:pending"):
        assert [approval["tool"] for approval in found(place, "approvals", q)] == ["stripe.refund"], q
    for q in ("args.amount:<2000", "actor:ana", "until:1d"):
        assert found(place, "approvals", q) == [], q
    told = found(place, "events", "run:order-1 type:tool_call_finished -tool:mail.*")
    assert [(event["body"]["status"], event["body"]["tool"]) for event in told] == [("succeeded", "stripe.charge")] * 2


def test_pages_look_at_so_many_and_say_where_to_go_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [place.begin(run_id="many", args={"n": n}).json()["effect"]["id"] for n in range(60)]
    monkeypatch.setattr("indelible.engine.finding.MOST_LOOKED_AT", 10)
    first = place.get("/v1/effects", params={"q": "args.n:<3", "limit": 5, "run_id": "many"}).json()
    assert first["effects"] == []
    assert first["next"] == made[50]
    for limit in (1, 2, 3, 10):
        assert [one["id"] for one in found(place, "effects", "args.n:<3 run:many", limit=limit)] == made[2::-1]
    assert [one["id"] for one in found(place, "effects", "run:many", limit=7)] == made[::-1]
    last = place.get("/v1/effects", params={"q": "args.n:>=58", "limit": 2, "before": made[59]}).json()
    assert [one["id"] for one in last["effects"]] == [made[58]]
    seqs = [one["seq"] for one in found(place, "events", "seq:<3", run_id="many", limit=2)]
    assert seqs == [0, 1, 2]


def test_a_filter_by_time_of_the_journal_begins_near_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        place.begin(run_id="r", args={"n": n})
    place.ledgers.of("acme").blocking.seal()
    assert len(found(place, "events", "since:1h type:tool_call_* run:r")) == 5
    assert len(found(place, "events", "since:1h type:tool_call_*")) >= 5
    looked: list[int] = []
    read = place.ledgers.store.journal.entries

    def watched(tenant: str, start: int, count: int) -> Any:
        looked.append(start)
        return read(tenant, start, count)

    monkeypatch.setattr(place.ledgers.store.journal, "entries", watched)
    assert found(place, "events", "since:2100-01-01") == []
    assert 0 not in looked


def test_the_ends_of_the_calendar_are_moments_too(place: Place) -> None:
    story(place)
    place.ledgers.of("acme").blocking.seal()
    for resource in ("effects", "runs", "approvals", "events"):
        assert found(place, resource, "since:0001-01-01 until:9999-12-31T23:59:59.999999Z") == found(
            place, resource, ""
        )
        assert found(place, resource, "since:9999-12-31T23:59:59Z") == found(place, resource, "until:0001-01-01") == []
    for since in ("9999-12-31T23:59:59Z", "0s"):
        assert place.get("/v1/stats", "auditor", params={"since": since, "interval": "1m"}).status_code == 200
    for q in ("since:0001-01-01", "until:0001-01-01", "since:9999-12-31 until:9999-12-31T23:59Z"):
        assert place.get("/v1/stats", "auditor", params={"q": q}).status_code == 200


def test_what_cannot_be_read_is_told_with_its_place(place: Place) -> None:
    for resource in ("effects", "runs", "approvals", "events", "events/stream"):
        refused = place.get(f"/v1/{resource}", params={"q": "since:1h colour:red"})
        problem = refused.json()
        assert (refused.status_code, problem["type"]) == (400, "/problems/bad-filter"), resource
        assert (problem["column"], problem["length"]) == (10, 6)
        assert "colour" in problem["detail"]


def test_a_stream_sends_what_its_filter_asks_for_and_whoever_comes_back_goes_on_behind_the_rest(place: Place) -> None:
    story(place)
    params = {"q": "run:order-1 type:tool_call_finished"}
    sent: list[str] = []
    frame: dict[str, str] = {}
    with place.client.stream("GET", "/v1/events/stream", params=params, headers=place.headers("auditor")) as answer:
        for line in answer.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                frame[name] = value
            elif "data" in frame:
                sent.append(json.loads(frame.pop("data"))["body"]["tool"])
                frame.clear()
            elif "id" in frame:
                break  # an id alone: everything was looked at
    assert sent == ["stripe.charge", "stripe.charge", "mail.send"]
    assert (
        int(frame["id"]) == place.get("/v1/events", "auditor", params={"run_id": "order-1"}).json()["events"][-1]["seq"]
    )


def test_whoever_may_see_nothing_finds_nothing(place: Place) -> None:
    story(place)
    for resource in ("effects", "runs", "approvals"):
        assert found(place, resource, "", who="stranger") == []
        assert place.get(f"/v1/{resource}", None, params={"q": "colour:red"}).status_code == 401
