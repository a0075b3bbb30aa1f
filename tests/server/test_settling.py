"""Many effects in doubt over HTTP: settled by people with rows, and asked about by the server's own probes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indelible import Effect, Failed, MayHaveHappened, NothingHappened, Succeeded
from indelible.errors import Misconfigured
from indelible.server.gateway import Gateway
from indelible.server.gateway_tools import load_tools
from tests.server.places import Place, sqlite_place

FAILED = {"status": "failed", "error": "no"}


@pytest.fixture(scope="module")
def place(each_place: Place) -> Place:
    return each_place


def doubt(place: Place, run_id: str, amount: int = 5, tool: str = "charge") -> dict[str, Any]:
    claim = place.begin(run_id=run_id, tool=tool, args={"amount": amount}).json()
    told = {"token": claim["token"], "attempt": 1, "status": "in_doubt", "reason": "cut"}
    effect: dict[str, Any] = place.post(f"/v1/effects/{claim['effect']['id']}/release", told).json()["effect"]
    assert effect["status"] == "in_doubt"
    return effect


def status(place: Place, effect: dict[str, Any]) -> str:
    return str(place.get(f"/v1/effects/{effect['id']}").json()["effect"]["status"])


def row(effect: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": effect["id"], "outcome": FAILED, "evidence": "looked", **more}


def test_rows_are_settled_by_who_sent_them_and_again_they_are_done_already(place: Place) -> None:
    first, second = doubt(place, "many-1", 1), doubt(place, "many-1", 2)
    seen = {"key": second["key"], "outcome": {"status": "succeeded", "value": {"id": 1}}, "evidence": "ch_1"}
    body = {"rows": [row(first), seen]}
    answer = place.post("/v1/effects/settle", body, "ana")
    assert answer.status_code == 200
    told = answer.json()
    assert (told["settled"], told["already_settled"], told["problems"]) == (2, 0, 0)
    assert [one["effect"]["status"] for one in told["results"]] == ["failed", "succeeded"]
    again = place.post("/v1/effects/settle", body, "bob").json()
    assert [one["result"] for one in again["results"]] == ["already_settled", "already_settled"]
    events = place.get("/v1/events?run_id=many-1").json()["events"]
    finished = [one["body"]["actor"] for one in events if one["type"] == "tool_call_finished"]
    assert [(one["id"], one["kind"]) for one in finished] == [("ana", "person")] * 2


def test_a_bad_row_keeps_all_others_from_being_settled(place: Place) -> None:
    good, done = doubt(place, "many-2", 1), doubt(place, "many-2", 2)
    place.post(f"/v1/effects/{done['id']}/settle", {"outcome": FAILED, "evidence": "x"}, "ana")
    other = row(done, outcome={"status": "succeeded"})
    rows = [row(good), other, row(good), row(good, id="eff_none"), row(good, key="0" * 64)]
    refused = place.post("/v1/effects/settle", {"rows": rows}, "ana")
    assert (refused.status_code, refused.json()["type"].rpartition("/")[2]) == (422, "bad-settlements")
    assert len(refused.json()["problems"]) == 4
    assert status(place, good) == "in_doubt"
    tried = place.post("/v1/effects/settle", {"rows": rows, "dry_run": True}, "ana").json()
    assert [one["result"] for one in tried["results"]] == [
        "would_settle",
        "settled_otherwise",
        "duplicate",
        "unknown_effect",
        "bad_row",
    ]
    assert (tried["dry_run"], status(place, good)) == (True, "in_doubt")
    skipped = place.post("/v1/effects/settle", {"rows": rows, "skip_bad": True}, "admin").json()
    assert (skipped["settled"], skipped["problems"], status(place, good)) == (1, 4, "failed")


def test_only_people_settle_many_and_only_their_own_tenants(place: Place) -> None:
    effect = doubt(place, "many-3")
    assert place.post("/v1/effects/settle", {"rows": [row(effect)]}, "agent").status_code == 403
    assert place.post("/v1/effects/settle", {"rows": [row(effect)]}, "auditor").status_code == 403
    assert place.post("/v1/effects/reconcile", {}, "agent").status_code == 403
    assert place.post("/v1/effects/settle", {"rows": [row(effect)]}, "stranger").status_code == 422
    assert status(place, effect) == "in_doubt"


def test_a_row_for_an_attempt_that_is_over_is_refused(place: Place) -> None:
    effect = doubt(place, "many-4")
    told = place.post("/v1/effects/settle", {"rows": [row(effect, attempt=2)], "dry_run": True}, "ana").json()
    assert [one["result"] for one in told["results"]] == ["other_attempt"]


@pytest.mark.parametrize("body", [{}, {"rows": []}, {"rows": [{"id": "eff_1"}]}, {"rows": [row({"id": "e"})] * 1001}])
def test_what_holds_no_rows_or_too_many_is_refused(place: Place, body: Any) -> None:
    assert place.post("/v1/effects/settle", body, "ana").status_code == 422


# The server's own probes


def probe(effect: Effect) -> Any:
    answer = {1: Succeeded("ch_1"), 2: Failed("no"), 3: None, 4: NothingHappened("no")}[effect.args["amount"]]
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.fixture
def probing(tmp_path: Path) -> Iterator[Place]:
    tools = tmp_path / "tools.toml"
    tools.write_text(f'[tools."bank.charge"]\npython = "{__name__}:probe"\nreconcile = "{__name__}:probe"\n')
    found = sqlite_place(tmp_path, gateway=Gateway(load_tools(tools)))
    yield found
    found.close()


def left_by_the_server(place: Place, amount: int) -> str:
    """Leaves a call of the server's own tool in doubt, as a server that was killed would have."""
    from indelible import Claimed, Ledger, ToolCall

    ledger: Ledger = place.ledgers.of("acme").blocking
    begun = ledger.begin(ToolCall(tool="bank.charge", args={"amount": amount}, run_id="r"))
    assert isinstance(begun, Claimed)
    ledger.commit(begun.claim, MayHaveHappened("cut"))
    return begun.claim.effect.id


def test_the_server_asks_the_probes_of_its_own_tools(probing: Place) -> None:
    ids = [left_by_the_server(probing, amount) for amount in (1, 2, 3, 4)]
    other = doubt(probing, "r", 9)
    tried = probing.post("/v1/effects/reconcile", {"dry_run": True}, "ana").json()
    assert [one["result"] for one in tried["effects"]] == ["would_ask"] * 4 + ["no_probe"]
    some = probing.post("/v1/effects/reconcile", {"ids": ids[:1]}, "ana").json()
    assert [(one["result"], one["effect"]["status"]) for one in some["effects"]] == [("settled", "succeeded")]
    told = probing.post("/v1/effects/reconcile", {"tool": "bank.*", "run_id": "r"}, "admin").json()
    assert [one["result"] for one in told["effects"]] == ["settled", "in_doubt", "ready"]
    assert (told["left_in_doubt"], status(probing, other)) == (1, "in_doubt")
    assert probing.post("/v1/effects/reconcile", {"ids": ["eff_none"]}, "ana").status_code == 404


def test_41_a_probe_that_the_server_asks_for_an_agent_settles(probing: Place) -> None:
    """The agent's call makes the server ask: what settles is the probe's word, and the record says so."""
    left = left_by_the_server(probing, 1)
    called = probing.post("/v1/tools/bank.charge/calls", {"args": {"amount": 1}, "run_id": "r"})
    assert (called.status_code, called.json()["value"], status(probing, {"id": left})) == (200, "ch_1", "succeeded")
    events = probing.get("/v1/events", "auditor", params={"run_id": "r"}).json()["events"]
    assert events[-1]["body"]["actor"]["id"] == "probe of bank.charge"


def test_a_probe_that_is_not_there_is_told_when_the_server_starts(tmp_path: Path) -> None:
    tools = tmp_path / "tools.toml"
    tools.write_text(f'[tools."bank.charge"]\npython = "{__name__}:probe"\nreconcile = "{__name__}:nothing"\n')
    with pytest.raises(Misconfigured):
        load_tools(tools)
