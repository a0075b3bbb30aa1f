"""If-Match is part of the decision: of two people who saw the same version, one wins, however they race."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from indelible.server.routes import approvals
from tests.server.places import Place

PAIR = {"rules": [{"name": "two", "match": {"tool": "pay"}, "then": "ask", "approvals": {"quorum": 2}}]}


@pytest.fixture
def place(each_place: Place) -> Place:
    return each_place


def after_a_look(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> None:
    """Lets two requests go on, one after the other, when both have looked at what is there."""
    both, one = asyncio.Barrier(2), asyncio.Lock()
    go_on = getattr(where, name)

    async def together(*words: Any, **named: Any) -> Any:
        await both.wait()
        async with one:
            return await go_on(*words, **named)

    monkeypatch.setattr(where, name, together)


def test_two_people_who_saw_the_same_version_do_not_both_decide(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.ask("PUT", "/v1/policy", "admin", {"content": PAIR}).status_code == 200
    asked = place.begin(tool="pay", run_id="order-1").json()["approval"]
    assert asked["lacking"] == 2
    body = {"decision": "approve", "digest": asked["digest"]}
    etag = {"If-Match": place.get(f"/v1/approvals/{asked['id']}").headers["etag"]}
    after_a_look(monkeypatch, approvals, "_voted")
    with ThreadPoolExecutor() as threads:
        path = f"/v1/approvals/{asked['id']}/decisions"
        answers = list(threads.map(lambda who: place.post(path, body, who, headers=etag), ("ana", "bob")))
    assert sorted(answer.status_code for answer in answers) == [201, 412]
    refused = next(answer for answer in answers if answer.status_code == 412)
    assert "is at version 2 now, not 1" in refused.json()["detail"]
    assert place.get(f"/v1/approvals/{asked['id']}").json()["approval"]["lacking"] == 1


def test_two_administrators_who_saw_the_same_policy_do_not_both_replace_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    etag = {"If-Match": place.get("/v1/policy", "admin").headers["etag"]}
    after_a_look(monkeypatch, place.ledgers.of("acme"), "apply_policy")

    def put(effect: str) -> Any:
        content = {"rules": [{"name": effect, "match": {"tool": "pay"}, "then": effect}]}
        return place.ask("PUT", "/v1/policy", "admin", {"content": content}, headers=etag)

    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(put, ("ask", "refuse")))
    assert sorted(answer.status_code for answer in answers) == [200, 412]
    won = next(answer for answer in answers if answer.status_code == 200)
    assert place.get("/v1/policy", "admin").json()["version"] == won.json()["version"]


def test_whoever_takes_back_what_has_changed_is_told(place: Place) -> None:
    asked = place.begin(tool="wire", run_id="order-1", approval="required").json()["approval"]
    path = f"/v1/approvals/{asked['id']}"
    place.post(f"{path}/decisions", {"decision": "approve", "digest": asked["digest"]}, "ana")
    assert place.post(f"{path}/revoke", {"reason": "no"}, "ana", headers={"If-Match": '"1"'}).status_code == 412
    assert place.post(f"{path}/revoke", {"reason": "no"}, "ana", headers={"If-Match": 'W/"2"'}).status_code == 200
