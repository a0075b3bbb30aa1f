"""provedex's sidecar contract: its seven events go on the record, signed, and none is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from indelible.core.journal.notes import ED25519, PublicKey
from indelible.core.journal.receipts import parse_receipt
from tests.server.places import Place, sqlite_place
from tests.stores.database import open_file

HASH = sha256(b"").hexdigest()
EVENTS: list[dict[str, Any]] = [
    {"type": "SessionStarted", "payload": {"agent_id": "scribe", "model_id": "m", "session_id": "s-1"}},
    {
        "type": "UtteranceCaptured",
        "payload": {"audio_sha256": HASH, "transcript": "chest pain", "lang": "en", "duration_ms": 2400},
    },
    {
        "type": "ToolCalled",
        "payload": {"tool_name": "lookup", "args_sha256": HASH, "args_redacted": {"id": "<redacted>", "n": 0.5}},
    },
    {
        "type": "ToolReturned",
        "payload": {"tool_name": "lookup", "result_sha256": HASH, "latency_ms": 12, "success": True},
    },
    {
        "type": "ModelInvoked",
        "payload": {
            "model_id": "m",
            "prompt_sha256": HASH,
            "response_sha256": HASH,
            "prompt_tokens": 482,
            "response_tokens": 71,
        },
    },
    {"type": "UtteranceSpoken", "payload": {"text_sha256": HASH, "text": "rest", "audio_sha256": ""}},
    {"type": "SessionEnded", "payload": {"reason": "hangup", "summary_sha256": HASH}},
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = sqlite_place(tmp_path_factory.mktemp("provedex"))
    yield made
    made.close()


@pytest.fixture
def run_id() -> str:
    return f"call-{uuid4().hex}"


def sign(place: Place, run_id: str, event: Any) -> Any:
    answer = place.post(f"/provedex/{run_id}/v1/sign", {"event": event})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_each_event_is_recorded_as_sent_and_chained(place: Place, run_id: str) -> None:
    signed = [sign(place, run_id, event) for event in EVENTS]
    assert [one["event"] for one in signed] == EVENTS
    assert [one["seq"] for one in signed] == list(range(1, 8))
    assert [one["parent_hash"] for one in signed[1:]] == [one["self_hash"] for one in signed[:-1]]
    assert all(re.fullmatch("[0-9a-f]{128}", one["signature"]) for one in signed)
    events = place.get(f"/v1/runs/{run_id}/events").json()["events"]
    assert [event["type"] for event in events] == [
        "run_started",
        "callback.session_started",
        "callback.utterance_captured",
        "callback.tool_called",
        "callback.tool_returned",
        "callback.model_invoked",
        "callback.utterance_spoken",
        "callback.session_ended",
    ]
    assert [event["payload"] for event in events[1:]] == EVENTS
    assert place.get(f"/v1/runs/{run_id}").json()["agent"] == "scribe"


def test_the_signature_is_of_a_tree_head_that_leads_to_the_event(place: Place, run_id: str) -> None:
    signed = sign(place, run_id, EVENTS[0])
    receipt = parse_receipt(signed["receipt"])
    assert receipt.extra is not None
    assert receipt.covers(receipt.extra)
    assert sha256(b"\0" + receipt.extra).hexdigest() == signed["self_hash"]
    key = PublicKey(receipt.tree_head().origin, bytes.fromhex(signed["signer_pubkey"]), ED25519)
    assert receipt.head.signed_by(key)
    assert key.verifies(bytes.fromhex(signed["signature"]), receipt.head.text.encode())
    healthy = place.get(f"/provedex/{run_id}/v1/healthz").json()
    assert (healthy["status"], healthy["session_id"], healthy["ledger_writable"]) == ("ok", run_id, True)
    assert healthy["pubkey"] == signed["signer_pubkey"]


def test_a_client_that_knows_an_address_alone_has_a_run_of_its_own(place: Place) -> None:
    """As its LangChain handler does: everything it has is PROVEDEX_AGENT_URL."""
    address = place.served.url.replace("://", f"://key:{place.tokens['other-agent']}@")
    with httpx2.Client(base_url=address, trust_env=False) as client:
        assert client.post("/v1/verify").status_code == 404
        signed = client.post("/v1/sign", json={"event": EVENTS[4]}).json()
        assert signed["run_id"] == "provedex-other-agent"
        assert client.get("/v1/healthz").json()["session_id"] == "provedex-other-agent"
        report = client.post("/v1/verify").json()
    assert (report["status"], report["event_count"], report["root_hash"]) == ("valid", 2, signed["self_hash"])
    events = place.get("/v1/runs/provedex-other-agent/events").json()["events"]
    assert {event["told_by"] for event in events} == {"other-agent"}


def test_of_many_at_once_none_is_lost(place: Place, run_id: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        seqs = list(pool.map(lambda _: sign(place, run_id, EVENTS[4])["seq"], range(24)))
    assert sorted(seqs) == list(range(1, 25))
    assert place.post(f"/provedex/{run_id}/v1/verify", None).json()["event_count"] == 25


def test_what_was_altered_breaks_the_chain_where_it_was(place: Place, run_id: str, tmp_path: Any) -> None:
    for event in EVENTS[:3]:
        sign(place, run_id, event)
    assert place.post(f"/provedex/{run_id}/v1/verify", None).json()["status"] == "valid"
    connection = open_file(place.store._path)  # type: ignore[attr-defined]
    forged = b'{"forged":true}'
    connection.execute("UPDATE indelible_payloads SET value = ? WHERE run_id = ? AND seq = 2", (forged, run_id))
    connection.close()
    report = place.post(f"/provedex/{run_id}/v1/verify", None).json()
    assert (report["status"], report["broken_at_seq"]) == ("broken", 2)
    assert "payload" in report["broken_reason"]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "SessionPaused", "payload": {}},
        {"type": "SessionEnded", "payload": {"reason": "x"}},
        {"type": "SessionEnded", "payload": {"reason": "x", "summary_sha256": "", "more": 1}},
        {"type": "ToolReturned", "payload": {**EVENTS[3]["payload"], "latency_ms": -1}},
        {"type": "ModelInvoked", "payload": {**EVENTS[4]["payload"], "prompt_tokens": 2**32}},
        {"type": "ModelInvoked", "payload": {**EVENTS[4]["payload"], "prompt_tokens": "1"}},
        None,
    ],
)
def test_what_is_no_event_is_refused(place: Place, run_id: str, event: Any) -> None:
    assert place.post(f"/provedex/{run_id}/v1/sign", {"event": event}).status_code == 422
    assert place.get(f"/v1/runs/{run_id}").status_code == 404


def test_odd_names_of_agents_are_no_reason_to_lose_an_event(place: Place) -> None:
    for odd in ("", "a\0b", "x" * 10_000):
        run_id = f"odd-{uuid4().hex}"
        event = {"type": "SessionStarted", "payload": {"agent_id": odd, "model_id": odd, "session_id": odd}}
        assert sign(place, run_id, event)["event"] == event
        assert place.get(f"/v1/runs/{run_id}").json()["agent"] == "agent"


def test_nobody_signs_without_a_credential_and_nobody_verifies_a_strangers(place: Place, run_id: str) -> None:
    sign(place, run_id, EVENTS[0])
    place_of = f"/provedex/{run_id}/v1"
    assert place.post(f"{place_of}/sign", {"event": EVENTS[0]}, None).status_code == 401
    assert place.post(f"{place_of}/sign", {"event": EVENTS[0]}, "auditor").status_code == 403
    assert place.post(f"{place_of}/verify", None, "stranger").status_code == 404
    for wrong in ("Basic !!!", "Basic Og==", "Basic " + "a" * 100):
        answer = place.get("/v1/healthz", None, headers={"Authorization": wrong})
        assert answer.status_code == 401, answer.text
