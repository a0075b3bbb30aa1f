"""Runs over HTTP: the ledger's own verbs, for whoever has a token; nothing is decided by the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from indelible import Ledger, ToolCall
from tests.server.places import Place
from tests.stores.database import open_file


class RunsPlace(Place):
    """A server on a SQLite file, clients with tokens, and a ledger beside it on the same file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        url = f"sqlite:///{self.path}"
        super().__init__(url, keys=folder / "keys", max_result_bytes=100_000)
        self.ledger = Ledger.open(url, tenant="acme", actor="beside", keys=folder / "keys")
        self.agent = self.client_of("other-agent")  # the ledgers' own actor is called agent

    def client_of(self, who: str) -> httpx2.Client:
        def check(answer: httpx2.Response) -> None:
            answer.read()
            self.described.check(answer.request.method, answer.request.url.raw_path.decode().partition("?")[0], answer)

        hooks = {"response": [check]}
        address = f"{self.served.url}/v1"
        return httpx2.Client(base_url=address, headers=self.headers(who), trust_env=False, event_hooks=hooks)

    def close(self) -> None:
        self.agent.close()
        self.ledger.close()
        super().close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunsPlace]:
    made = RunsPlace(tmp_path_factory.mktemp("runs"))
    yield made
    made.close()


@pytest.fixture
def post(place: RunsPlace) -> Callable[..., Any]:
    def send(path: str, body: Any = None, status: int = 200, client: httpx2.Client | None = None) -> Any:
        asking = client or place.agent
        answer = asking.post(path) if body is None else asking.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    return send


@pytest.fixture
def get(place: RunsPlace) -> Callable[..., Any]:
    def ask(path: str, status: int = 200, **query: Any) -> Any:
        answer = place.agent.get(path, params=query)
        assert answer.status_code == status, answer.text
        return answer.json()

    return ask


@pytest.fixture
def begun(post: Callable[..., Any]) -> Any:
    return post("/runs", {"agent": "billing", "intent": "refund order 123", "run_id": f"run-{uuid4().hex}"}, 201)


def told(event_type: str, **words: Any) -> dict[str, Any]:
    return {"type": event_type, **words}


def test_a_run_is_begun_told_of_saved_and_ended_by_whoever_has_its_token(place: RunsPlace, post: Any, get: Any) -> None:
    body = {"agent": "billing", "intent": "refund", "allowed_tools": ["crm.*"], "permissions": {"budget": 5}}
    begun = post("/runs", body, 201)
    run_id, token = begun["run"]["id"], begun["token"]
    assert run_id.startswith("run_")
    assert begun["fence"] == 1
    assert begun["run"]["permissions"] == {"allowed_tools": ["crm.*"], "budget": 5}
    events = [
        told("plan_locked", payload={"steps": ["refund", 0.5]}, step="plan"),
        told("artifact_created", payload={"uri": "s3://bucket/receipt.pdf"}, step="receipt", said_by="printer"),
    ]
    recorded = post(f"/runs/{run_id}/events", {"events": events, "token": token}, 201)["events"]
    assert [(one["seq"], one["type"], one["status"]) for one in recorded] == [
        (1, "plan_locked", "recorded"),
        (2, "artifact_created", "recorded"),
    ]
    saved = post(f"/runs/{run_id}/checkpoints", {"state": {"next": "mail"}, "token": token, "suggested": "mail"}, 201)
    assert (saved["at"], saved["reason"], saved["has_state"]) == (2, "manual", True)
    ended = post(f"/runs/{run_id}/complete", {"reason": "done", "token": token})
    assert ended["status"] == "completed"
    seen = get(f"/runs/{run_id}/events")["events"]
    assert [one["type"] for one in seen] == [
        "run_started", "plan_locked", "artifact_created", "checkpoint_sealed", "run_completed"
    ]  # fmt: skip
    assert seen[1]["payload"] == {"steps": ["refund", 0.5]}
    assert [one["id"] for one in seen[1:3]] == [one["id"] for one in recorded]
    assert seen[3]["id"] == f"evt_{saved['sealed_hash']}"
    assert place.ledger.get_run(run_id).status == "completed"  # type: ignore[union-attr]
    assert place.ledger.verify_run(run_id).is_valid


def test_who_acts_is_the_credential_and_a_name_in_a_body_is_only_said(begun: Any, post: Any, get: Any) -> None:
    run_id = begun["run"]["id"]
    post(f"/runs/{run_id}/events", {"events": [told("plan_locked", said_by="ceo")]}, 201)
    post(f"/runs/{run_id}/checkpoints", {}, 201)
    seen = get(f"/runs/{run_id}/events")["events"]
    assert {one["told_by"] for one in seen} == {"other-agent"}
    assert seen[1]["actor"] == "ceo"
    refused = post(f"/runs/{run_id}/events", {"events": [told("plan_locked", actor="ceo")]}, 422)
    assert "actor" in refused["detail"]


def test_events_are_recorded_all_or_none(begun: Any, post: Any, get: Any) -> None:
    run_id = begun["run"]["id"]
    wrong = [told("plan_locked"), told("run_completed")]
    assert "told by the ledger itself" in post(f"/runs/{run_id}/events", {"events": wrong}, 400)["detail"]
    assert len(get(f"/runs/{run_id}/events")["events"]) == 1


def test_a_side_effect_that_was_told_before_is_skipped(begun: Any, post: Any, get: Any) -> None:
    run_id = begun["run"]["id"]
    sent = told("execution_succeeded", side_effect="payment", side_effect_key="k1", payload={"rows": 847})
    first = post(f"/runs/{run_id}/events", {"events": [sent]}, 201)["events"]
    again = post(f"/runs/{run_id}/events", {"events": [sent, sent]}, 201)["events"]
    assert [one["status"] for one in first + again] == ["recorded", "skipped", "skipped"]
    assert get(f"/runs/{run_id}/story")["blocked_side_effect_keys"] == ["k1"]


def test_of_two_drivers_one_wins_and_the_other_is_told_to_stop(begun: Any, post: Any) -> None:
    run_id, old = begun["run"]["id"], begun["token"]
    assert post(f"/runs/{run_id}/resume", {}, 409)["code"] == "driven"
    assert post(f"/runs/{run_id}/heartbeat", {"token": old, "lease_s": 60})["lease_s"] == 60
    post(f"/runs/{run_id}/release", {"token": old})
    resumed = post(f"/runs/{run_id}/resume", {})
    assert resumed["fence"] == 2
    assert resumed["token"] != old
    for path, words in [
        ("events", {"events": [told("plan_locked")]}),
        ("checkpoints", {}),
        ("heartbeat", {}),
        ("release", {}),
        ("complete", {"reason": "done"}),
    ]:
        assert post(f"/runs/{run_id}/{path}", {**words, "token": old}, 409)["code"] == "lost"
    post(f"/runs/{run_id}/events", {"events": [told("plan_locked")], "token": resumed["token"]}, 201)


def test_of_many_who_resume_at_once_one_wins(place: RunsPlace, begun: Any, post: Any) -> None:
    run_id = begun["run"]["id"]
    post(f"/runs/{run_id}/release", {"token": begun["token"]})
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: place.agent.post(f"/runs/{run_id}/resume", json={}), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"driven"}


def test_a_driver_that_fell_silent_is_replaced_and_that_is_told(place: RunsPlace, post: Any, get: Any) -> None:
    begun = post("/runs", {"agent": "billing", "lease_s": 0.001}, 201)
    run_id = begun["run"]["id"]
    while (answer := place.agent.post(f"/runs/{run_id}/resume", json={})).status_code == 409:
        assert answer.json()["code"] == "driven"
    assert answer.json()["fence"] == 2
    seen = [event["type"] for event in get(f"/runs/{run_id}/events")["events"]]
    assert seen == ["run_started", "interruption_detected", "run_resumed"]


def test_whoever_names_the_token_may_ask_again_after_a_lost_answer(post: Any) -> None:
    mine = {"run_id": f"run-{uuid4().hex}", "agent": "billing", "token": "a secret of my own"}
    assert post("/runs", mine, 201) == post("/runs", mine, 201)
    assert post("/runs", {**mine, "token": "somebody else's secret"}, 409)["code"] == "exists"
    run_id = mine["run_id"]
    post(f"/runs/{run_id}/release", {"token": mine["token"]})
    first = post(f"/runs/{run_id}/resume", {"token": "another secret of mine"})
    again = post(f"/runs/{run_id}/resume", {"token": "another secret of mine"})
    assert first["fence"] == again["fence"] == 2


def test_resuming_says_what_was_done_is_open_and_in_doubt(place: RunsPlace, begun: Any, post: Any) -> None:
    run_id, token = begun["run"]["id"], begun["token"]
    call = ToolCall(tool="mail", args={"to": "ana"}, run_id=run_id)
    place.ledger.run(call, lambda effect: {"sent": True}, side_effect="notification")
    place.ledger.begin(ToolCall(tool="pay", args={}, run_id=run_id), side_effect="payment")
    place.ledger.begin(ToolCall(tool="wire", args={}, run_id=run_id), approval="required")
    post(f"/runs/{run_id}/fail", {"reason": "crashed", "state": {"step": 2}, "token": token})
    context = post(f"/runs/{run_id}/resume", {})["context"]
    assert context["state"] == {"step": 2}
    assert [line["tool"] for line in context["in_doubt"]] == ["pay"]
    assert [approval["tool"] for approval in context["unresolved_approvals"]] == ["wire"]
    assert [event["tool"] for event in context["receipts"]] == ["mail"]
    assert len(context["blocked_side_effect_keys"]) == 2
    assert context["suggested_next_action"] == "settle_effects_in_doubt"


def test_a_fork_begins_with_what_the_other_run_did(place: RunsPlace, begun: Any, post: Any) -> None:
    run_id = begun["run"]["id"]
    call = ToolCall(tool="mail", args={"to": "ana"}, run_id=run_id)
    place.ledger.run(call, lambda effect: {"sent": 1}, side_effect="notification")
    forked = post(f"/runs/{run_id}/fork", {"dry_run": True}, 201)
    assert forked["run"]["fork"] == {"run_id": run_id, "at": 2, "is_dry": True}
    replayed = place.ledger.run(
        ToolCall(tool="mail", args={"to": "ana"}, run_id=forked["run"]["id"]),
        lambda effect: pytest.fail("a dry run touches nothing"),
        side_effect="notification",
    )
    assert replayed == {"sent": 1}
    assert "no event with seq 99" in post(f"/runs/{run_id}/fork", {"at": 99}, 400)["detail"]


def test_pages_go_through_everything_once(place: RunsPlace, post: Any, get: Any) -> None:
    run_id = f"pages-{uuid4().hex}"
    post("/runs", {"agent": "pager", "run_id": run_id}, 201)
    post(f"/runs/{run_id}/events", {"events": [told("acme.counted", payload=number) for number in range(9)]}, 201)
    seen, after = [], -1
    while after is not None:
        page = get(f"/runs/{run_id}/events", after=after, limit=4)
        seen += page["events"]
        after = page["next"]
    assert [one["seq"] for one in seen] == list(range(10))
    assert {one["status"] for one in seen} == {"recorded"}
    made = [post(f"/runs/{run_id}/checkpoints", {}, 201)["id"] for _ in range(3)]
    first = get(f"/runs/{run_id}/checkpoints", limit=2)
    rest = get(f"/runs/{run_id}/checkpoints", limit=2, before=first["next"])
    assert [one["id"] for one in first["checkpoints"] + rest["checkpoints"]] == made[::-1]
    assert rest["next"] is None
    names = [f"pages-{uuid4().hex}" for _ in range(3)]
    for name in names:
        post("/runs", {"agent": "lister", "run_id": name}, 201)
    first = get("/runs", agent="lister", limit=2)
    rest = get("/runs", agent="lister", limit=2, before=first["next"])
    assert [one["id"] for one in first["runs"] + rest["runs"]] == names[::-1]
    assert rest["next"] is None
    assert get("/runs", 404, before="nobody")["type"].endswith("unknown-run")
    assert place.agent.get("/runs", params={"agent": "lister", "status": "completed"}).json() == {
        "runs": [],
        "next": None,
    }


def test_what_was_altered_is_named(place: RunsPlace, begun: Any, post: Any) -> None:
    run_id = begun["run"]["id"]
    post(f"/runs/{run_id}/events", {"events": [told("plan_locked", payload={"amount": 5})]}, 201)
    assert post(f"/runs/{run_id}/verify")["is_valid"]
    forged = json.dumps({"amount": 9}, separators=(",", ":")).encode()
    connection = open_file(place.path)
    connection.execute(
        "UPDATE indelible_payloads SET value = ? WHERE run_id = ? AND field = 'payload'", (forged, run_id)
    )
    connection.close()
    report = post(f"/runs/{run_id}/verify")
    assert not report["is_valid"]
    assert report["not_valid"] == ["seq 1: its payload is not what it commits to"]


def test_a_packet_is_taken_over_by_an_admin_alone(place: RunsPlace, tmp_path: Path, post: Any) -> None:
    run_id = f"packet-{uuid4().hex}"
    token = post("/runs", {"agent": "mover", "run_id": run_id}, 201)["token"]
    post(f"/runs/{run_id}/release", {"token": token})
    other = tmp_path / "other"
    other.mkdir()
    elsewhere = RunsPlace(other)
    try:
        with elsewhere.client_of("admin") as admin:
            copy = post(f"/runs/{run_id}/packet")
            assert post("/packets", {"packet": copy, "trust": True}, 409, admin)["code"] == "copy"
            there = elsewhere.ledgers.of("acme").blocking.journal_name
            packet = post(f"/runs/{run_id}/packet", {"to": there})
            unproven = {**packet, "receipt": "c2sp.org/tlog-proof@v1"}
            refused = post("/packets", {"packet": unproven, "key": "x"}, 400, admin)
            assert "prove" in refused["detail"]
            assert post("/packets", {"packet": packet, "trust": True}, 201, admin)["id"] == run_id
            post("/packets", {"packet": packet, "trust": True}, 403, elsewhere.agent)
    finally:
        elsewhere.close()


def test_a_run_that_was_set_aside_for_a_person_is_taken_over_by_an_admin_alone(
    place: RunsPlace, begun: Any, post: Any, get: Any
) -> None:
    run_id = begun["run"]["id"]
    place.ledger.end_run(run_id, "manual_review_required", by="ada", reason="odd amounts")
    assert post(f"/runs/{run_id}/resume", {}, 409)["code"] == "review"
    post(f"/runs/{run_id}/resume", {"force": True}, 403)
    assert get(f"/runs/{run_id}")["status"] == "manual_review_required"
    with place.client_of("admin") as admin:
        assert post(f"/runs/{run_id}/resume", {"force": True}, 200, admin)["run"]["status"] == "active"


def test_what_is_larger_than_a_result_may_be_is_refused(begun: Any, post: Any, get: Any) -> None:
    run_id, large = begun["run"]["id"], "x" * 100_001
    sent = {"events": [told("plan_locked"), told("plan_locked", payload=large)]}
    assert post(f"/runs/{run_id}/events", sent, 413)["limit"] == 100_000
    post(f"/runs/{run_id}/checkpoints", {"state": large}, 413)
    post(f"/runs/{run_id}/fail", {"reason": "x", "state": large}, 413)
    assert len(get(f"/runs/{run_id}/events")["events"]) == 1


GETS = ["", "/story", "/events", "/checkpoints"]
POSTS: dict[str, Any] = {
    "/events": {"events": [{"type": "plan_locked"}]},
    "/checkpoints": {},
    "/resume": {},
    "/fork": {},
    "/heartbeat": {"token": "0123456789abcdef"},
    "/release": {"token": "0123456789abcdef"},
    "/complete": {"reason": "x"},
    "/fail": {"reason": "x"},
    "/cancel": {"reason": "x"},
    "/verify": None,
    "/packet": None,
    "/take-back": {"reason": "x"},
}


def test_what_another_tenant_has_is_not_there(place: RunsPlace, begun: Any) -> None:
    run_id = begun["run"]["id"]
    with place.client_of("stranger") as stranger:
        statuses = {path: stranger.get(f"/runs/{run_id}{path}").status_code for path in GETS}
        for path, body in POSTS.items():
            statuses[f"POST {path}"] = stranger.post(f"/runs/{run_id}{path}", json=body).status_code
        assert stranger.get("/runs").json() == {"runs": [], "next": None}
    assert set(statuses.values()) == {404}, statuses


def test_an_auditor_looks_and_does_nothing(place: RunsPlace, begun: Any) -> None:
    run_id = begun["run"]["id"]
    with place.client_of("auditor") as auditor:
        assert {auditor.get(f"/runs/{run_id}{path}").status_code for path in GETS} == {200}
        done = {path: auditor.post(f"/runs/{run_id}{path}", json=body).status_code for path, body in POSTS.items()}
    assert done.pop("/verify") == 200
    assert set(done.values()) == {403}, done


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/runs", {"agent": ""}),
        ("/runs", {"agent": "a\0b"}),
        ("/runs", {"agent": "a", "run_id": "indelible:own"}),
        ("/runs", {"agent": "a", "run_id": "a/b"}),
        ("/runs", {"agent": "a", "token": "short"}),
        ("/runs", {"agent": "a", "lease_s": 1e9}),
        ("/runs", {"agent": "a", "lease_s": 1e-9}),
        ("/runs", {"agent": "a", "tenant": "globex"}),
        ("/runs", {"agent": "a", "parent": "nobody\0"}),
        ("/runs", {"agent": "a", "permissions": {"allowed_tools": 5}}),
        ("/runs/%00", {}),
        ("/runs/x/checkpoints", {"at": 2**64}),
        ("/runs/x/checkpoints", {"reason": "because"}),
        ("/runs/x/events", {"events": []}),
        ("/runs/x/events", {"events": [{"type": "plan_locked"}] * 257}),
        ("/runs/x/resume", {"checkpoint": "\0"}),
        ("/packets", {"packet": {}}),
        ("/packets", {"packet": {"packet": {"kind": "indelible-resume-packet", "schemaVersion": 1}}, "trust": True}),
    ],
)
def test_nothing_a_client_sends_is_our_fault(place: RunsPlace, path: str, body: Any) -> None:
    with place.client_of("admin") as client:
        answer = client.post(path, json=body)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["status"] == answer.status_code


@pytest.mark.parametrize("raw", [b'{"agent":"a","agent":"b"}', b'{"agent":NaN}', b"[" * 100_000, b"\xff", b"{"])
def test_json_that_could_be_read_in_two_ways_is_refused(place: RunsPlace, raw: bytes) -> None:
    answer = place.agent.post("/runs", content=raw, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 413), answer.text


def test_two_runs_are_compared_call_by_call(place: RunsPlace, post: Any, get: Any) -> None:
    left, right = (f"compared-{name}-{uuid4().hex}" for name in "ab")
    for name, amounts in ((left, (1, 2)), (right, (1, 3, 4))):
        post("/runs", {"agent": "a", "run_id": name}, 201)
        for amount in amounts:
            claim = post("/effects", {"tool": "pay", "args": {"amount": amount}, "run_id": name}, 201)
            outcome = {"status": "succeeded", "value": None}
            told = {"token": claim["token"], "attempt": 1, "outcome": outcome}
            post(f"/effects/{claim['effect']['id']}/commit", told)
    calls = get(f"/runs/{left}/differences", other=right)["calls"]
    assert [one["kind"] for one in calls] == ["same", "changed", "only_right"]
    assert calls[1]["fields"] == [{"path": "args.amount", "before": 2, "after": 3}]
    assert (calls[2]["left"], calls[2]["fields"]) == (None, [])
    assert get(f"/runs/{left}/differences", 404, other="nobody")["type"].endswith("unknown-run")
    assert get(f"/runs/{left}/differences", 422)


def test_a_checkpoint_shows_what_was_saved_and_what_changed_since_another(post: Any, get: Any) -> None:
    run_id = f"saved-{uuid4().hex}"
    post("/runs", {"agent": "a", "run_id": run_id}, 201)
    states = {"first": {"step": "look", "n": 1}, "second": {"step": "pay", "n": 1, "big": 2**53 + 1}, "bare": None}
    saved = {name: post(f"/runs/{run_id}/checkpoints", {"state": state}, 201) for name, state in states.items()}
    ids = {name: one["id"] for name, one in saved.items()}
    shown = get(f"/runs/{run_id}/checkpoints/{ids['second']}", other=ids["first"])
    assert (shown["checkpoint"], shown["other"]) == (saved["second"], saved["first"])
    assert shown["state"] == {"step": "pay", "n": 1, "big": {"$int": str(2**53 + 1)}}
    assert shown["fields"] == [
        {"path": "state.big", "after": {"$int": str(2**53 + 1)}},
        {"path": "state.step", "before": "look", "after": "pay"},
    ]
    alone = get(f"/runs/{run_id}/checkpoints/{ids['bare']}")
    assert (alone["state"], alone["other"], alone["fields"]) == (None, None, None)
    assert get(f"/runs/{run_id}/checkpoints/{ids['bare']}", other=ids["first"])["fields"] is None
    unknown = get(f"/runs/{run_id}/checkpoints/ckpt_nobody", 404)
    assert unknown["type"].endswith("unknown-checkpoint")
    assert get(f"/runs/nobody/checkpoints/{ids['bare']}", 404)["type"].endswith("unknown-run")
