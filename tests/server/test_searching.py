"""The one box for everything finds what is named, and what was said lately; bounded, and within the tenant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.places import Place


@pytest.fixture
def place(each_place: Place) -> Place:
    return each_place


def hits(place: Place, q: str, who: str = "ana", **words: Any) -> list[tuple[str, str]]:
    answer = place.get("/v1/search", who, params={"q": q, **words})
    assert answer.status_code == 200, answer.text
    return [(hit["kind"], hit["id"]) for hit in answer.json()["hits"]]


def test_everything_is_found_by_what_names_it_and_by_what_it_says(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.post("/v1/runs", {"run_id": "order-7", "agent": "billing", "intent": "refund Ümit"})
    effect = place.begin(run_id="order-7", tool="pay", args={"to": "Rome"}).json()["effect"]
    asked = place.begin(run_id="order-7", tool="wire", approval="required", args={"to": "Oslo"}).json()
    approval, waiting = asked["approval"]["id"], asked["effect"]["id"]
    one = ("effect", effect["id"])
    for q in (effect["id"], effect["id"][:24], effect["key"], "rome"):
        assert hits(place, q) == [one], q
    for q in (approval, approval[:24], waiting):
        assert set(hits(place, q)) == {("approval", approval), ("effect", waiting)}, q
    assert hits(place, "oslo") == [("effect", waiting), ("approval", approval)]
    assert hits(place, "order-7")[0] == ("run", "order-7")
    assert hits(place, "ümit") == [("run", "order-7")]
    assert hits(place, "nothing of that") == hits(place, "f" * 64) == hits(place, "eff_0123") == []
    assert hits(place, effect["id"], "stranger") == hits(place, "rome", "stranger") == []
    for _ in range(3):
        place.begin(run_id="r", args={"n": _})
    assert len(hits(place, "charge", limit=2)) == 2
    monkeypatch.setattr("indelible.engine.finding.MOST_LOOKED_AT", 1)
    assert not place.get("/v1/search", params={"q": "rome"}).json()["is_complete"]
    for q in (" ", "a\nb", "x" * 201):
        assert place.get("/v1/search", params={"q": q}).status_code in (400, 422), q
