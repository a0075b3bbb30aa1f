"""Effects over HTTP: at most once for any client, with the same rules as in a process of ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from indelible import Actor, Ledger, Succeeded, ToolCall, connect
from indelible.errors import EffectCompensated
from indelible.server.requests import remembering
from indelible.server.signin.credentials import Credentials
from tests.server.places import Place, sqlite_place
from tests.waiting import PATIENCE, eventually


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = sqlite_place(tmp_path_factory.mktemp("effects"))
    yield made
    made.close()


@pytest.fixture
def run() -> str:
    return uuid4().hex


def ledger_of(place: Place) -> Ledger:
    """Is the same ledger, in this process."""
    return Ledger.open(place.store.address, tenant="acme", seal=False)


def test_a_call_is_claimed_once_and_then_replayed(place: Place, run: str) -> None:
    first = place.begin(run_id=run)
    assert first.status_code == 201
    claim = first.json()
    assert (claim["fence"], claim["effect"]["status"], claim["effect"]["args"]) == (1, "processing", {"amount": 5})
    assert claim["lease_until"] == claim["effect"]["lease_until"]
    assert place.commit(claim).json() == {"id": claim["effect"]["id"], "status": "succeeded", "attempt": 1}
    again = place.begin(run_id=run)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert again.json()["effect"]["outcome"]["value"] == {"id": "ch_1"}


def test_a_recorded_failure_is_replayed_too(place: Place, run: str) -> None:
    claim = place.begin(run_id=run).json()
    assert place.commit(claim, {"status": "failed", "error": "no funds", "error_type": "Declined"}).status_code == 200
    again = place.begin(run_id=run)
    outcome = {"status": "failed", "error": "no funds", "error_type": "Declined"}
    assert (again.status_code, again.json()["effect"]["outcome"]) == (200, outcome)


def test_whoever_lost_the_answer_gets_the_same_claim_with_the_same_token_and_nobody_else_does(
    place: Place, run: str
) -> None:
    token = "a secret of the client's own"
    first = place.begin(run_id=run, token=token)
    again = place.begin(run_id=run, token=token)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert first.json()["token"] == token
    for other in ({}, {"token": "another secret, not the same"}):
        refused = place.begin(run_id=run, **other)
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/still-running")
        assert refused.json()["effect_id"] == first.json()["effect"]["id"]


def test_a_token_is_never_shown_to_who_looks(place: Place, run: str) -> None:
    claim = place.begin(run_id=run).json()
    assert claim["token"] not in place.get(f"/v1/effects/{claim['effect']['id']}").text
    assert claim["token"] not in place.get("/v1/effects", params={"run_id": run}).text


def test_what_is_recorded_is_told_by_the_callers_name(place: Place, run: str) -> None:
    place.commit(place.begin(run_id=run).json())
    told = place.get("/v1/events", params={"run_id": run}).json()["events"]
    assert [(one["type"], one["body"]["actor"]) for one in told] == [
        ("tool_call_started", {"id": "agent", "kind": "agent", "via": "api_key"}),
        ("tool_call_finished", {"id": "agent", "kind": "agent", "via": "api_key"}),
    ]


def test_other_arguments_under_the_same_key_are_refused(place: Place, run: str) -> None:
    place.begin(run_id=run, args={"order": "1", "amount": 5}, key=["order"])
    refused = place.begin(run_id=run, args={"order": "1", "amount": 6}, key=["order"])
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/key-reused")


def test_an_effect_here_and_the_same_in_a_process_is_one_execution(place: Place, run: str) -> None:
    claim = place.begin(run_id=run).json()
    with ledger_of(place) as ledger:
        call = ToolCall(tool="charge", args={"amount": 5}, run_id=run)
        entered: list[int] = []
        waiting = threading.Thread(target=lambda: entered.append(ledger.run(call, lambda effect: 1 / 0)))
        waiting.start()
        place.commit(claim, {"status": "succeeded", "value": 7})
        waiting.join(PATIENCE)
        assert entered == [7]


def test_only_the_holder_of_the_token_commits(place: Place, run: str) -> None:
    claim = place.begin(run_id=run).json()
    effect_id = claim["effect"]["id"]
    assert place.commit(claim, attempt=0).status_code == 422
    for words in ({"token": "x" * 20}, {"attempt": 2}):
        refused = place.commit(claim, **words)
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/not-permitted"), words
    assert place.get(f"/v1/effects/{effect_id}").json()["effect"]["status"] == "processing"
    assert [place.commit(claim).status_code, place.commit(claim).status_code] == [200, 200]
    other = place.commit(claim, {"status": "succeeded", "value": "something else"})
    assert (other.status_code, other.json()["type"]) == (409, "/problems/lease-lost")
    assert place.get(f"/v1/effects/{effect_id}").json()["effect"]["outcome"]["value"] == {"id": "ch_1"}


def test_a_claim_that_is_remembered_here_is_not_another_tenants_to_commit(place: Place, run: str) -> None:
    claim = place.begin(run_id=run).json()
    path = f"/v1/effects/{claim['effect']['id']}/commit"
    body = {"token": claim["token"], "attempt": 1, "outcome": {"status": "succeeded", "value": "forged"}}
    assert place.post(path, body, "stranger").status_code == 404
    assert place.commit(claim).status_code == 200


def test_a_commit_needs_no_memory_of_the_claim(place: Place, run: str) -> None:
    claim = place.begin(run_id=run).json()
    place.ledgers.claims.take("acme", claim["effect"]["id"])
    assert place.commit(claim).status_code == 200


def test_a_result_that_cannot_be_recorded_leaves_the_claim_as_it_is(
    place: Place, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place.ledgers.of("acme"), "_max_result_bytes", 1000)
    claim = place.begin(run_id=run).json()
    assert place.commit(claim, {"status": "succeeded", "value": "x" * 2000}).status_code == 413
    assert place.commit(claim, {"status": "succeeded", "value": "x"}).status_code == 200


def test_a_heartbeat_keeps_an_attempt_and_says_when_it_is_lost(place: Place, run: str) -> None:
    claim = place.begin(run_id=run, lease_s=5).json()
    path = f"/v1/effects/{claim['effect']['id']}/heartbeat"
    kept = place.post(path, {"token": claim["token"], "attempt": 1, "lease_s": 600})
    assert kept.json() == {"id": claim["effect"]["id"], "attempt": 1, "lease_s": 600.0}
    assert place.get(path.removesuffix("/heartbeat")).json()["effect"]["lease_until"] > claim["lease_until"]
    forged = place.post(path, {"token": "somebody else's!", "attempt": 1})
    assert (forged.status_code, forged.json()["type"]) == (403, "/problems/not-permitted")
    place.commit(claim)
    lost = place.post(path, {"token": claim["token"], "attempt": 1})
    assert (lost.status_code, lost.json()["type"]) == (409, "/problems/lease-lost")


@pytest.mark.parametrize(("status", "then"), [("ready", 201), ("in_doubt", 409)])
def test_an_attempt_is_given_up_as_not_begun_or_as_in_doubt(place: Place, run: str, status: str, then: int) -> None:
    claim = place.begin(run_id=run).json()
    path = f"/v1/effects/{claim['effect']['id']}/release"
    body = {"token": claim["token"], "attempt": 1, "status": status, "reason": "the connection broke"}
    assert place.post(path, {**body, "token": "somebody else's"}).status_code == 403
    given_up = place.post(path, body).json()["effect"]
    assert (given_up["status"], given_up["reason"]) == (status, "the connection broke")
    told = place.get("/v1/events", params={"run_id": run}).json()["events"][-1]
    assert told["body"]["actor"]["id"] == "agent"
    assert place.begin(run_id=run).status_code == then
    late = place.post(path, {**body, "reason": "another"})
    assert (late.status_code, late.json()["type"]) == (409, "/problems/lease-lost")


def test_of_many_who_ask_at_once_one_is_let_in(place: Place, run: str) -> None:
    asked = place.begin(run_id=run, approval="required").json()["approval"]
    decision = {"decision": "approve", "digest": asked["digest"]}
    place.post(f"/v1/approvals/{asked['id']}/decisions", decision, "ana")
    with ThreadPoolExecutor(24) as crowd:
        answers = list(crowd.map(lambda _: place.begin(run_id=run, approval="required").status_code, range(96)))
    assert sorted(set(answers)) == [201, 409]
    assert answers.count(201) == 1


def test_what_was_erased_is_not_given_and_not_done_again(place: Place, run: str) -> None:
    claim = place.begin(run_id=run).json()
    place.commit(claim)
    with ledger_of(place) as ledger:
        ledger.erase(run_id=run, by="ana", reason="asked to")
    effect = place.get(f"/v1/effects/{claim['effect']['id']}").json()["effect"]
    assert (effect["args"], effect["outcome"]["value"], effect["erased"]) == (None, None, ["args", "detail"])
    again = place.begin(run_id=run)
    assert (again.status_code, again.json()["type"]) == (410, "/problems/effect-erased")
    with connect(place.served.url, token=place.tokens["admin"]) as far:
        assert far.prune(timedelta(days=90), by="admin", reason="old").count == 0, "a server lists so many at once"


def test_what_is_encrypted_or_redacted_in_the_record_is_so_over_http(tmp_path: Path) -> None:
    own = sqlite_place(tmp_path, encrypt=True, redact=["args.card"])
    try:
        args = {"card": "4111-canary", "order": "order-canary"}
        claim = own.begin(args=args, approval="none", run_id="r1").json()
        assert claim["effect"]["args"]["order"] == "order-canary"
        assert list(claim["effect"]["args"]["card"]) == ["$redacted"]
        own.commit(claim, {"status": "succeeded", "value": {"paid": "result-canary"}})
        again = own.begin(args=args, run_id="r1").json()["effect"]
        assert again["outcome"]["value"] == {"paid": "result-canary"}
        question = own.begin(args=args, approval="required", run_id="r2").json()["approval"]
        shown = own.get(f"/v1/approvals/{question['id']}", "ana").json()
        assert shown["args"] == claim["effect"]["args"]
        own.ledgers.of("acme")._seal()
        raw = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
        assert b"charge" in raw
        assert b"canary" not in raw
    finally:
        own.close()


def in_doubt(place: Place, run: str) -> dict[str, Any]:
    """Gives an effect whose worker never reported."""
    claim = place.begin(run_id=run, lease_s=0.001).json()
    refused = place.begin(run_id=run)
    while refused.json()["type"] == "/problems/still-running":
        refused = place.begin(run_id=run)
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/effect-in-doubt")
    return dict(claim["effect"])


def test_an_effect_in_doubt_is_settled_with_evidence(place: Place, run: str) -> None:
    effect = in_doubt(place, run)
    body = {"outcome": {"status": "succeeded", "value": 1}, "evidence": "ch_1 is on the provider's page"}
    settled = place.post(f"/v1/effects/{effect['id']}/settle", body, "ana")
    assert settled.json()["effect"]["outcome"] == {"status": "succeeded", "value": 1}
    told = place.get("/v1/events", params={"run_id": run}).json()["events"]
    assert told[-1]["body"]["actor"]["id"] == "ana"
    assert place.post(f"/v1/effects/{effect['id']}/settle", body, "ana").status_code == 409


def test_another_attempt_is_allowed_and_the_old_ones_late_report_is_kept(place: Place, run: str) -> None:
    first = place.begin(run_id=run, lease_s=0.001).json()
    while place.begin(run_id=run).json()["type"] == "/problems/still-running":
        pass
    retried = place.post(f"/v1/effects/{first['effect']['id']}/retry", {"reason": "it never left"}, "ana")
    assert retried.json()["effect"]["status"] == "ready"
    second = place.begin(run_id=run).json()
    assert second["fence"] == 2
    late = place.commit(first)
    assert (late.status_code, late.json()["type"]) == (409, "/problems/lease-lost")
    assert place.commit(second, {"status": "succeeded", "value": 2}).status_code == 200
    types = [one["type"] for one in place.get("/v1/events", params={"run_id": run}).json()["events"]]
    assert types.count("tool_call_late") == 1
    assert place.get(f"/v1/effects/{first['effect']['id']}").json()["effect"]["outcome"]["value"] == 2


def test_an_effect_that_was_not_entered_is_canceled(place: Place, run: str) -> None:
    asked = place.begin(run_id=run, approval="required")
    assert (asked.status_code, asked.json()["effect"]["status"]) == (202, "requires_approval")
    assert asked.json()["approval"]["effect_id"] == asked.json()["effect"]["id"]
    path = f"/v1/effects/{asked.json()['effect']['id']}/cancel"
    canceled = place.post(path, {"reason": "no longer wanted"}).json()["effect"]
    assert (canceled["status"], canceled["reason"]) == ("canceled", "no longer wanted")
    refused = place.begin(run_id=run, approval="required")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/effect-canceled")


def test_a_client_cannot_ask_for_less_than_the_ledger_wants(tmp_path_factory: pytest.TempPathFactory) -> None:
    strict = sqlite_place(tmp_path_factory.mktemp("strict"), approval="required")
    try:
        assert strict.begin(approval="none", run_id="r1").status_code == 202
    finally:
        strict.close()


def test_pages_go_on_where_the_one_before_ended(place: Place, run: str) -> None:
    made = [place.begin(run_id=run, args={"n": n}).json()["effect"]["id"] for n in range(5)]
    seen: list[str] = []
    before: str | None = None
    while True:
        params = {"run_id": run, "limit": "2", **({} if before is None else {"before": before})}
        page = place.get("/v1/effects", params=params).json()
        seen += [effect["id"] for effect in page["effects"]]
        before = page["next"]
        if before is None:
            break
    assert seen == made[::-1]
    assert place.get("/v1/effects", params={"run_id": run, "status": "failed"}).json()["effects"] == []


def test_a_page_of_large_effects_ends_early_and_none_is_left_out(
    place: Place, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.engine.finding.MOST_BYTES", 10_000)
    made = [place.begin(run_id=run, args={"n": n, "large": "x" * 2000}).json()["effect"]["id"] for n in range(20)]
    seen: list[str] = []
    pages, before = 0, {}
    while True:
        page = place.get("/v1/effects", params={"run_id": run, "limit": "20", **before}).json()
        seen += [effect["id"] for effect in page["effects"]]
        pages += 1
        if page["next"] is None:
            break
        before = {"before": page["next"]}
    assert seen == made[::-1]
    assert pages >= 3


def test_an_effect_is_found_by_its_key_and_unchanged_ones_are_not_sent_again(place: Place, run: str) -> None:
    effect = place.begin(run_id=run).json()["effect"]
    for path in (f"/v1/effects/{effect['id']}", f"/v1/effects/by-key/{effect['key']}?scope={run}"):
        found = place.get(path)
        assert found.json()["effect"] == effect
        assert found.headers["etag"] == f'W/"{effect["version"]}"'
        same = place.get(path, headers={"If-None-Match": found.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
    assert place.get(f"/v1/effects/by-key/{'0' * 64}").status_code == 404
    assert place.get("/v1/effects/by-key/short").status_code == 400
    assert place.get("/v1/effects/eff_").status_code == 404
    assert place.get(f"/v1/effects/{effect['id'][:-1]}").status_code == 404


def test_whoever_is_revoked_while_they_wait_hears_nothing(
    place: Place, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembering, "REMEMBERED", -1.0)
    claim = place.begin(run_id=run, lease_s=600).json()
    credentials = Credentials(place.store, "acme")
    given, token = credentials.give("cy", ("auditor",), by=Actor("root"))
    headers = {"Authorization": f"Bearer {token}"}
    heard: list[Any] = []
    path = f"{place.served.url}/v1/effects/{claim['effect']['id']}?wait=60"
    waiting = threading.Thread(
        target=lambda: heard.append(httpx2.get(path, headers=headers, trust_env=False, timeout=PATIENCE))
    )
    waiting.start()
    eventually(lambda: place.ledgers.of("acme")._engine.waiting._wakers)
    credentials.revoke(given.id, by=Actor("root"))
    place.commit(claim)
    waiting.join(PATIENCE)
    assert [answer.status_code for answer in heard] == [401]


def test_whoever_waits_hears_at_once_that_an_effect_has_moved(place: Place, run: str) -> None:
    claim = place.begin(run_id=run, lease_s=600).json()
    path = f"/v1/effects/{claim['effect']['id']}?wait=60"
    heard: list[Any] = []
    waiting = threading.Thread(target=lambda: heard.append(place.get(path)))
    waiting.start()
    eventually(lambda: place.ledgers.of("acme")._engine.waiting._wakers)
    place.commit(claim)
    waiting.join(PATIENCE)
    assert heard[0].json()["effect"]["status"] == "succeeded"
    # What has ended does not move: nobody waits for it. What was seen already is waited for, and comes as 304.
    assert place.get(path).status_code == 200
    etag = heard[0].headers["etag"]
    same = place.get(path.replace("wait=60", "wait=0.05"), headers={"If-None-Match": etag})
    assert same.status_code == 304


def test_whoever_waits_for_a_decision_of_another_process_hears_of_it(place: Place, run: str) -> None:
    asked = place.begin(run_id=run, approval="required").json()
    heard: list[Any] = []
    path = f"/v1/effects/{asked['effect']['id']}?wait=60"
    waiting = threading.Thread(target=lambda: heard.append(place.get(path)))
    waiting.start()
    eventually(lambda: place.ledgers.of("acme")._engine.waiting._wakers)
    with ledger_of(place) as ledger:
        ledger.approve(asked["approval"]["id"], digest=asked["approval"]["digest"], by="ana")
    waiting.join(PATIENCE)
    assert heard[0].json()["effect"]["status"] == "ready"


def test_arguments_come_back_as_they_were_sent(place: Place, run: str) -> None:
    args = {"$set": {"a": 1.5}, "big": 2**70, "text": "\u202eevil", "deep": [[{"$decimal": "not a tag"}]], "none": None}
    claim = place.begin(run_id=run, args=args).json()
    assert claim["effect"]["args"] == args
    assert place.commit(claim, {"status": "succeeded", "value": args}).status_code == 200
    assert place.begin(run_id=run, args=args).json()["effect"]["outcome"]["value"] == args
    with ledger_of(place) as ledger:
        found = ledger.begin(ToolCall(tool="charge", args=args, run_id=run))
        assert found.value == args  # type: ignore[union-attr]


def test_what_only_python_can_say_is_tagged(place: Place, run: str) -> None:
    from decimal import Decimal

    with ledger_of(place) as ledger:
        call = ToolCall(tool="price", args={"amount": Decimal("1.10")}, run_id=run)
        begun = ledger.begin(call)
        ledger.commit(begun.claim, Succeeded({"paid": Decimal("1.1")}))  # type: ignore[union-attr]
    (effect,) = place.get("/v1/effects", params={"run_id": run}).json()["effects"]
    assert effect["args"] == {"amount": {"$decimal": "1.1"}}
    assert effect["outcome"]["value"] == {"paid": {"$decimal": "1.1"}}


BAD: list[tuple[bytes, int]] = [
    (b"", 400),
    (b"[]", 422),
    (b"{", 400),
    (b'{"tool":"a","tool":"b"}', 400),
    (b'{"tool":"a","args":{"x":NaN}}', 400),
    (b'{"tool":"a","args":{"x":1e999}}', 400),
    (b'{"tool":"a","args":{"\\ud800":1}}', 400),
    (b'{"tool":"a","\\ud800":1}', 400),
    (b"[" * 100_000, 413),
    (b'{"tool":"a","run_id":"r","args":' + b'{"a":' * 100 + b"1" + b"}" * 101, 413),
    (b'{"tool":"a","args":{"x":' + b"9" * 5000 + b"}}", 400),
    (b'{"tool":"a","more":1}', 422),
    (b'{"tool":1}', 422),
    (b'{"tool":"a b"}', 400),
    (b'{"tool":"a","run_id":"indelible:journal"}', 400),
    (b'{"tool":"a","run_id":"\\u0000"}', 400),
    (b'{"tool":"a","lease_s":0}', 422),
    (b'{"tool":"a","lease_s":1e9}', 422),
    (b'{"tool":"a","token":"short"}', 422),
    (b'{"tool":"a","dedupe":"call"}', 400),
    (b'{"tool":"a","run_id":"order-1","key":["missing"]}', 422),
    (b'{"tool":"a","side_effect":"harmless"}', 422),
    (b'{"tool":"a","tenant":"globex"}', 422),
    (b'{"tool":"a","actor":"ceo"}', 422),
]


@pytest.mark.parametrize(("raw", "status"), BAD)
def test_what_is_wrong_is_refused_with_its_place(place: Place, raw: bytes, status: int) -> None:
    answer = place.ask("POST", "/v1/effects", content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "query",
    [
        "?tool=%00",
        "?run_id=",
        "?before=%00",
        "?limit=0",
        "?limit=1001",
        "?status=done",
        "?side_effect=x",
        "?limit=" + "9" * 30,
    ],
)
def test_odd_filters_are_refused(place: Place, query: str) -> None:
    assert place.get(f"/v1/effects{query}").status_code in (400, 422)
    assert place.get("/v1/effects/%00").status_code == 404
    assert place.get("/v1/effects/x?wait=61").status_code == 422


def test_96_a_compensated_effect_says_so_over_http_and_a_repeat_of_it_is_refused(place: Place, run: str) -> None:
    claim = place.begin(run_id=run).json()
    place.commit(claim)
    path = f"/v1/effects/{claim['effect']['id']}"
    before = place.get(path)
    assert before.json()["effect"]["compensation"] is None
    with ledger_of(place) as ledger:

        @ledger.tool(name=claim["effect"]["tool"], side_effect="payment", compensate=lambda effect: "re_1")
        def refundable(amount: int) -> dict[str, str]:
            return {}

        (one,) = ledger.compensate(run)
        assert one.status == "done"
    after = place.get(path, headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200, "what it stands for has changed"
    undone = after.json()["effect"]["compensation"]
    assert (undone["id"][:4], undone["status"]) == ("eff_", "succeeded")
    listed = {each["id"]: each["compensation"] for each in place.get(f"/v1/effects?run_id={run}").json()["effects"]}
    assert listed == {claim["effect"]["id"]: undone, undone["id"]: None}

    def is_refused() -> bool:
        again = place.begin(run_id=run)
        problem = again.json()
        return (again.status_code, problem.get("type"), problem.get("compensation_id")) == (
            *(409, "/problems/effect-compensated"),
            undone["id"],
        )

    eventually(is_refused)  # a server looks up what others wrote twice a second
    with connect(place.served.url, token=place.tokens["agent"]) as far, pytest.raises(EffectCompensated) as caught:
        far.run(ToolCall(tool=claim["effect"]["tool"], run_id=run, args=claim["effect"]["args"]), lambda effect: "no")
    assert caught.value.compensation is not None
    assert caught.value.compensation.id == undone["id"]
