"""Forgetting over HTTP: only an administrator, first what would go, then it is gone, and the record still verifies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from indelible import Ledger, ToolCall
from tests.server.places import WHO, Place

ADMIN = "admin"
CANARY = "CANARY-forget-me"
NONSENSE: list[tuple[dict[str, Any], int]] = [
    ({}, 400),
    ({"run_id": "r", "subject": "ada"}, 400),
    ({"run_id": "nowhere"}, 400),
    ({"run_id": "r", "reason": ""}, 422),
    ({"subject": "ada", "seq": 1}, 400),
    ({"run_id": "r", "fields": []}, 422),
    ({"run_id": "r", "rewrite": True}, 422),
]
TENANT = WHO["ana"][0]


@pytest.fixture
def place(store_url: str) -> Iterator[Place]:
    made = Place(store_url)
    yield made
    made.close()


def erase(place: Place, status: int = 200, **words: Any) -> dict[str, Any]:
    answer = place.post("/v1/erasures", {"reason": "request of 3 May", **words}, ADMIN)
    assert answer.status_code == status, answer.text
    return dict(answer.json())


def test_a_value_goes_when_an_administrator_says_so_and_the_record_verifies(place: Place) -> None:
    run = uuid4().hex
    claim = place.begin(run_id=run, args={"note": CANARY}).json()
    assert place.commit(claim, {"status": "succeeded", "value": CANARY}).status_code == 200
    effect = f"/v1/effects/{claim['effect']['id']}"
    would = erase(place, run_id=run, seq=0, fields=["args"], dry_run=True)
    assert (would["dry_run"], would["kept"], would["runs"]) == (True, [], {run: would["erased"]})
    assert place.get(effect).json()["effect"]["args"] == {"note": CANARY}
    assert erase(place, run_id=run, seq=0, fields=["args"])["erased"] == would["erased"]
    gone = place.get(effect).json()["effect"]
    assert (gone["args"], gone["erased"], gone["outcome"]["value"]) == (None, ["args"], CANARY)
    assert erase(place, run_id=run)["erased"] > 0
    assert CANARY not in place.get(effect).text
    assert place.post(f"/v1/runs/{run}/verify", None, ADMIN).json()["is_valid"]
    told = place.get("/v1/events", params={"run_id": run}).json()["events"]
    assert [one["body"]["actor"]["id"] for one in told if one["type"] == "payload_erased"] == [ADMIN, ADMIN]


def test_a_person_is_forgotten_in_all_runs(place: Place, store_url: str) -> None:
    with Ledger.open(store_url, tenant=TENANT, seal=False, subject="args.customer") as ledger:
        for number in range(2):
            call = ToolCall(tool="pay", args={"customer": "ada", "n": number}, run_id=f"order-{number}")
            ledger.run(call, lambda effect: CANARY)
        ledger.begin(ToolCall(tool="pay", args={"customer": "ada", "n": 2}, run_id="order-2"), approval="required")
    (kept,) = erase(place, subject="ada", dry_run=True)["kept"]
    assert (kept["run_id"], "cancel it first" in kept["why"]) == ("order-2", True)
    would = erase(place, subject="ada", force=True, dry_run=True)
    assert (set(would["runs"]), would["kept"]) == ({"order-0", "order-1", "order-2"}, [])
    done = erase(place, subject="ada", force=True)
    assert (set(done["runs"]), done["kept"], done["dry_run"]) == (set(would["runs"]), [], False)
    assert erase(place, subject="ada", force=True)["erased"] == 0


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_what_makes_no_sense_is_refused(place: Place) -> None:
    for words, status in NONSENSE:
        erase(place, status, **words)
