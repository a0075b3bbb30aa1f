"""A packet in which something is not what it should be is not taken over."""

from __future__ import annotations

from pathlib import Path

from tests.server.places import Place

TOKEN = "a token of our own"


def test_a_packet_with_nonsense_in_it_is_not_taken_over(store_url: str, tmp_path: Path) -> None:
    place = Place(store_url, keys=tmp_path / "keys")
    try:
        place.post("/v1/runs", {"agent": "a", "run_id": "r", "token": TOKEN})
        place.commit(place.begin(run_id="r", side_effect="payment").json())
        packet = place.post("/v1/runs/r/packet", None).json()
        there = place.ledgers.of("acme").blocking.journal_name
        packet["packet"] |= {"runId": "other", "handedOverTo": there, "importBefore": "2999-01-01T00:00:00Z"}
        told = packet["packet"]["effects"][0]
        named = told["id"]
        for scope, effect_id in (("elsewhere", named), ("\0", "eff_1"), ("x" * 501, "eff_1"), ("", "eff_1")):
            told |= {"scope": scope, "id": effect_id}
            answer = place.post("/v1/packets", {"packet": packet, "trust": True}, "admin")
            assert answer.status_code == 400, answer.text
            assert place.get("/v1/runs/other").status_code == 404
    finally:
        place.close()
