"""Nonsense in any member of anything that is sent about runs is refused or recorded, and never our fault."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.server.places import Place

Way = tuple[str | int, ...]
TOKEN = "a token of our own"
NESTED: Any = json.loads("[" * 300 + "]" * 300)
NONSENSE: list[Any] = [
    *("", "\0", "a\0b", "x" * 501, "x" * 100_000, "𝄞\u202e", "'; DROP TABLE x;--", "indelible:journal", "a/b", ".."),
    *("evt_" + "0" * 64, "apr_0", "run_completed", "run_failed", "2030-01-01T00:00:00Z"),
    *(None, True, 0, -1, 2**31, 2**53, 2**64, 10**40, 1.5, 1e308, 5e-324),
    *([], [None], {}, {"$decimal": "1"}, {"$": {"b": [1, {"c": None}]}}, NESTED),
]
SENT: dict[str, Any] = {
    "/v1/runs": {
        "agent": "a",
        "run_id": "q",
        "intent": "i",
        "runtime": "x",
        "parent": "r",
        "allowed_tools": ["a"],
        "permissions": {"allowed_tools": ["x"], "b": 1},
        "lease_s": 5,
        "token": TOKEN,
    },
    "/v1/runs/r/events": {
        "events": [
            {
                "type": "acme.x",
                "payload": {"a": 1},
                "step": "s",
                "side_effect": "none",
                "side_effect_key": "k",
                "said_by": "z",
            }
        ],
        "token": TOKEN,
    },
    "/v1/runs/r/checkpoints": {"state": {"a": 1}, "reason": "manual", "suggested": "x", "at": 0, "token": TOKEN},
    "/v1/runs/r/resume": {"checkpoint": "c", "force": False, "lease_s": 3, "token": TOKEN},
    "/v1/runs/r/fork": {"at": 0, "run_id": "f", "dry_run": True, "lease_s": 3, "token": TOKEN},
    "/v1/runs/r/heartbeat": {"token": TOKEN, "lease_s": 30},
    "/v1/runs/none/fail": {"reason": "x", "state": {"a": 1}, "token": TOKEN},
    "/internal/runs/start": {
        "agentId": "a",
        "intentSummary": "b",
        "runtime": "c",
        "parentRunId": "r",
        "permissions": {"allowed_tools": ["x"]},
    },
    "/internal/runs/r/events": {
        "eventType": "artifact_created",
        "actorId": "a",
        "stepName": "s",
        "payload": {"uri": "u", "contentHash": "h", "metadata": {"a": 1}},
        "sideEffectClass": "none",
        "sideEffectKey": "k",
    },
    "/internal/runs/r/checkpoint": {"eventId": "e", "reason": "manual", "suggestedNextAction": "n"},
    "/internal/runs/r/resume": {"fromCheckpointId": "c"},
    "/provedex/p/v1/sign": {
        "event": {"type": "ToolCalled", "payload": {"tool_name": "x", "args_sha256": "h", "args_redacted": {"a": 1}}}
    },
}
ADDRESSES = [
    *("/v1/runs/{}", "/v1/runs/{}/events", "/v1/runs/{}/story", "/v1/runs/{}/checkpoints", "/internal/runs/{}"),
    *("/v1/runs?agent={}", "/v1/runs?before={}", "/v1/runs?status={}", "/v1/runs?limit={}"),
    *("/v1/runs/r/events?after={}", "/v1/runs/r/checkpoints?before={}", "/provedex/{}/v1/healthz"),
]


def ways(body: Any, way: Way = ()) -> Iterator[Way]:
    """Gives the way to every member of what is sent, and to all of it."""
    yield way
    members = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in members:
        yield from ways(value, (*way, name))


def changed(body: Any, way: Way, value: Any) -> Any:
    """Gives what is sent with one member replaced."""
    if not way:
        return value
    copy = json.loads(json.dumps(body))
    place = copy
    for name in way[:-1]:
        place = place[name]
    place[way[-1]] = value
    return copy


def test_nonsense_is_refused_or_recorded_and_the_run_still_verifies(store_url: str, tmp_path: Path) -> None:
    place = Place(store_url, keys=tmp_path / "keys")
    chosen = random.Random(6)  # the same nonsense each time; all of it was sent once, by hand
    try:
        place.post("/v1/runs", {"agent": "a", "run_id": "r", "token": TOKEN})
        for path, body in SENT.items():
            for way in ways(body):
                place.post(path, changed(body, way, chosen.choice(NONSENSE)))  # compares with the description itself
        words = [one for one in NONSENSE if isinstance(one, str) and 0 < len(one) < 1000]
        for address in ADDRESSES:
            fitting = [one for one in words if "?" in address or one.strip("./") == one]
            for word in ["\0", *chosen.sample(fitting, 2)]:
                place.get(address.format(quote(word, safe="")))
        for path in ("/v1/runs/r", "/v1/runs/r/story", "/v1/runs/r/events", "/internal/runs/r", "/v1/runs?limit=1000"):
            assert place.get(path).status_code == 200, path
        assert place.post("/v1/runs/r/verify", None).json()["is_valid"]
    finally:
        place.close()


def test_a_packet_with_nonsense_in_it_is_not_taken_over(store_url: str, tmp_path: Path) -> None:
    place = Place(store_url, keys=tmp_path / "keys")
    try:
        place.post("/v1/runs", {"agent": "a", "run_id": "r", "token": TOKEN})
        place.commit(place.begin(run_id="r", side_effect="payment").json())
        packet = place.post("/v1/runs/r/packet", None).json()
        packet["packet"]["runId"] = "other"
        told = packet["packet"]["effects"][0]
        named = told["id"]
        for scope, effect_id in (("elsewhere", named), ("\0", "eff_1"), ("x" * 501, "eff_1"), ("", "eff_1")):
            told |= {"scope": scope, "id": effect_id}
            answer = place.post("/v1/packets", {"packet": packet, "trust": True}, "admin")
            assert answer.status_code == 400, answer.text
            assert place.get("/v1/runs/other").status_code == 404
    finally:
        place.close()
