"""Threat 6: what is approved is not what was shown: cut off, written backwards, or changed in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.threats.exposed import Exposed

TRICKS = {
    "rlo": "pay \u202e001\u202c to evil",
    "ansi": "\x1b[2K\x1b[1Apay 1",
    "link": "[pay 1](https://evil.example)",
    "nul-like": "a\u2400b\u200b\ufeff",
    "html": "<script>alert(1)</script>",
    "combining": "a\u0301\u0489",
}


@pytest.fixture
def exposed(store_url: str) -> Iterator[Exposed]:
    found = Exposed(store_url, seal=False)
    yield found
    found.close()


def decide(exposed: Exposed, approval: str, who: str = "ana", **words: object) -> tuple[int, str]:
    answer = exposed.post(f"/v1/approvals/{approval}/decisions", {"decision": "approve", **words}, who)
    return answer.status_code, answer.json().get("code", "")


def test_what_is_shown_is_all_of_it_as_it_was_sent(exposed: Exposed) -> None:
    args = {**TRICKS, "long": "x" * 900_000, "last": "the end"}
    asked = exposed.begin(approval="required", args=args).json()["approval"]
    shown = exposed.ask("GET", f"/v1/approvals/{asked['id']}", "ana")
    assert shown.json()["args"] == args
    assert shown.json()["approval"]["digest"] == asked["digest"]
    assert shown.headers["content-type"].startswith("application/json")


def test_a_decision_names_what_was_seen_and_counts_for_nothing_else(exposed: Exposed) -> None:
    asked = exposed.begin(approval="required").json()["approval"]
    assert decide(exposed, asked["id"], digest="ab" * 32)[0] == 409
    assert decide(exposed, asked["id"])[0] in (400, 422), "to approve, one says what"
    edited = exposed.post(
        f"/v1/approvals/{asked['id']}/edit", {"args": {"amount": 6}, "digest": asked["digest"], "reason": "less"}, "ana"
    )
    assert edited.status_code == 200, edited.text
    assert decide(exposed, asked["id"], digest=asked["digest"])[0] == 409, "that was the old question"
    newer = edited.json()["approval"]["digest"]
    assert decide(exposed, asked["id"], digest=newer) == (403, "self_approval"), "she chose these arguments herself"
    assert decide(exposed, asked["id"], "admin", digest=asked["digest"])[0] == 409
    assert decide(exposed, asked["id"], "admin", digest=newer) == (201, "")
    claimed = exposed.begin(approval="required").json()
    assert claimed["effect"]["args"] == {"amount": 6}, "what was approved is what runs"
