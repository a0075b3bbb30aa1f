"""Figures over HTTP: they count what is there, on both stores, by whoever may see it, and say what they left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server.places import Place

POLICY = {
    "rules": [{"name": "all", "match": {"tool": "*"}, "then": "allow"}],
    "budgets": [{"name": "spend", "match": {"tool": "pay"}, "limit": 100, "sum": "amount", "window": "1h"}],
}


@pytest.fixture
def place(each_place: Place) -> Place:
    return each_place


def stats(place: Place, metric: str, who: str = "auditor", **words: Any) -> dict[str, Any]:
    answer = place.get("/v1/stats", who, params={"metric": metric, **words})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def told(place: Place, metric: str, *names: str, **words: Any) -> list[tuple[Any, ...]]:
    return [tuple(figure[name] for name in names) for figure in stats(place, metric, **words)["figures"]]


def story(place: Place) -> None:
    for n in range(3):
        claim = place.begin(run_id="a", tool="pay", args={"amount": 5, "n": n}).json()
        place.commit(claim)
    for _ in range(2):
        assert place.begin(run_id="a", tool="pay", args={"amount": 5, "n": 0}).status_code == 200
    failed = place.begin(run_id="a", tool="mail").json()
    place.commit(failed, {"status": "failed", "error": "no"})
    lost = place.begin(run_id="a", tool="sms").json()
    given_up = {"token": lost["token"], "attempt": 1, "status": "in_doubt", "reason": "lost"}
    place.post(f"/v1/effects/{lost['effect']['id']}/release", given_up)
    asked = place.begin(run_id="a", tool="wire", approval="required").json()["approval"]
    place.post(f"/v1/approvals/{asked['id']}/decisions", {"decision": "deny", "reason": "no"}, "ana")
    place.begin(run_id="b", tool="wire", approval="required")


def test_the_figures_of_the_overview(place: Place) -> None:
    assert place.ask("PUT", "/v1/policy", "admin", {"content": POLICY}).status_code == 200
    story(place)
    by_status = [("denied", 1), ("failed", 1), ("in_doubt", 1), ("requires_approval", 1), ("succeeded", 3)]
    assert told(place, "effects", "group", "count") == by_status
    assert told(place, "effects", "group", "count", q="tool:pay") == [("succeeded", 3)]
    assert told(place, "effects", "group", "count", q="args.n:>0", by="tool") == [("pay", 2)]
    assert told(place, "effects", "group", "count", q="until:1h") == []
    series = stats(place, "effects", by="tool", interval="1h", since="2h")
    assert sum(figure["count"] for figure in series["figures"]) == 7
    assert all(figure["at"].endswith(":00:00.000000Z") for figure in series["figures"])
    assert (series["looked_at"], series["is_complete"]) == (7, True)
    assert [row[0:2] for row in told(place, "latency", "group", "count", "p50_s")] == [("mail", 1), ("pay", 3)]
    assert all(0 <= row[0] <= row[1] < 60 for row in told(place, "latency", "p50_s", "p95_s"))
    assert told(place, "replays", "group", "count") == [("pay", 2)]
    assert told(place, "approvals", "group", "count") == [("denied", 1), ("pending", 1)]
    assert told(place, "approvals", "group", "count", q="run:b") == [("pending", 1)]
    (pending,) = told(place, "approvals", "oldest_id", q="status:pending")
    assert place.get(f"/v1/approvals/{pending[0]}").json()["approval"]["run_id"] == "b"
    assert told(place, "decisions", "group", "count") == [("ana", 1)]
    assert told(place, "decisions", "group", "count", by="decision") == [("deny", 1)]
    assert told(place, "in_doubt", "group", "count") == [("sms", 1)]
    ((used, limit),) = told(place, "budgets", "used", "limit")
    assert (used, limit) == ("15", "100")


def test_what_waits_from_before_the_period_is_told_too(place: Place) -> None:
    place.begin(run_id="c", tool="wire", approval="required")
    assert told(place, "approvals", "group", "count", since="0s", q="run:c") == [("pending", 1)]
    assert told(place, "effects", "group", since="0s") == []


def test_when_not_everything_was_looked_at_that_is_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(6):
        place.begin(run_id="d", args={"n": n})
    monkeypatch.setattr("indelible.server.counting._PAGE", 2)
    monkeypatch.setattr("indelible.server.counting.MOST_OUTLINES", 4)
    found = stats(place, "effects")
    assert (found["looked_at"], found["is_complete"]) == (4, False)
    assert sum(figure["count"] for figure in found["figures"]) == 4


def test_counts_of_replays_outlive_the_server_and_add_up(store_url: str, tmp_path: Path) -> None:
    total = 0
    for is_last in (False, True):
        place = Place(store_url, keys=tmp_path / "keys")
        claim = place.begin(run_id="a")
        if claim.status_code == 201:
            place.commit(claim.json())
        assert place.begin(run_id="a").status_code == 200
        if is_last:  # to ask writes down what was counted, and so does stopping
            total = sum(count for (count,) in told(place, "replays", "count"))
        place.close()
    assert total == 3


def test_who_got_the_recorded_answer_is_told_apart_by_run(place: Place) -> None:
    claim = place.begin(run_id="once", scope="shop", args={"n": 77}).json()
    effect_id = claim["effect"]["id"]
    assert place.get(f"/v1/effects/{effect_id}/answered").json() == {"callers": []}
    place.commit(claim)
    for run_id in ("once", "again", "again"):
        assert place.begin(run_id=run_id, scope="shop", args={"n": 77}).status_code == 200
    callers = place.get(f"/v1/effects/{effect_id}/answered").json()["callers"]
    assert {(one["kind"], one["run_id"], one["count"]) for one in callers} == {
        ("agent", "once", 1),
        ("agent", "again", 2),
    }
    assert callers[0]["run_id"] == "again"
    assert place.get("/v1/effects/eff_none/answered").status_code == 404


def test_nonsense_is_told_what_to_write(place: Place) -> None:
    for words in (
        {"metric": "budgets", "by": "tool"}, {"metric": "replays", "q": "tool:x"}, {"by": "person"}, {"interval": "1y"},
        {"interval": "1s"}, {"interval": "0m"}, {"since": "soon"}, {"since": "1h tool:x"}, {"since": "91d"},
        {"q": "a:b"},
    ):  # fmt: skip
        params = {"metric": "effects", **words}
        assert place.get("/v1/stats", "auditor", params=params).status_code == 400, words
    assert place.get("/v1/stats", "auditor", params={"metric": "colour"}).status_code == 422
    assert place.get("/v1/stats", "agent", params={"metric": "effects"}).status_code == 403
