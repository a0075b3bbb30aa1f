"""Whatever is sent, by the description or against it: no answer is our fault, and each is described."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.server.nonsense import Nonsense
from tests.server.places import WHO, Place

COUNT = int(os.environ.get("INDELIBLE_NONSENSE", "300"))
# With some seeds an administrator erases the ledger's own record of credentials, and no token is known any more.
SEED = int(os.environ.get("INDELIBLE_NONSENSE_SEED", "7"))
ENDLESS = ("/v1/events/stream", "/v1/store/")


def test_no_answer_is_our_fault_and_each_is_described(store_url: str, tmp_path: Path) -> None:
    place = Place(store_url, keys=tmp_path / "keys")
    made = Nonsense(place.described.openapi, SEED)
    operations = [one for one in place.described.operations if not one[1].startswith(ENDLESS)]
    begin = next(one for one in operations if one[:2] == ("POST", "/v1/effects"))
    try:
        for _ in range(COUNT):
            method, template, told = begin if made.is_likely(0.2) else made.chosen.choice(operations)
            allowed = [name for name, (_, scopes) in WHO.items() if scopes[0] in told.get("x-scopes", scopes)]
            who = made.chosen.choice(allowed if made.is_likely(0.8) else list(WHO))
            path, query, headers, body = made.request(template, told)
            raw = json.dumps(body).encode()
            answer = place.ask(
                method,
                path,
                who if made.is_likely(0.97) else None,
                content=raw[: made.chosen.randint(0, len(raw))] if made.is_likely(0.02) else raw,
                params=query,
                headers={**headers, "Content-Type": "application/json" if made.is_likely(0.98) else "text/plain"},
            )
            if answer.is_success and answer.headers["content-type"].startswith("application/json"):
                made.learn(answer.json())
        (key,) = place.get("/.well-known/indelible-keys.json", "auditor").json()["keys"]
        report = place.post("/v1/journal/verify", {"keys": [key["vkey"]], "deep": True}, "auditor").json()
        assert report["verdict"] == "verified", report["why"]
    finally:
        place.close()
