"""Threat 7: arguments, results, names and errors are taken for a page by somebody's browser.

The dashboard itself runs over such a corpus in a real browser: `tests/browser`. Here: whatever is stored, the server
hands it out as data.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.places import described
from tests.threats.exposed import Exposed
from tests.waiting import eventually

CORPUS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</title><svg/onload=alert(1)>",
    "{{constructor.constructor('alert(1)')()}}",
    "<!--<script>",
    "\u2028alert(1)\u2029",
]
DATA = ("application/json", "application/problem+json", "text/event-stream", "application/octet-stream", "text/plain")


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exposed]:
    folder = tmp_path_factory.mktemp("scripts")
    found = Exposed(f"sqlite:///{folder / 'ledger.db'}", keys=folder / "keys")
    for number, text in enumerate(CORPUS):
        claim = found.begin(args={"text": text, text: 1}, run_id=f"run-{number}").json()
        told = {"token": claim["token"], "attempt": 1, "outcome": {"status": "succeeded", "value": {text: text}}}
        assert found.post(f"/v1/effects/{claim['effect']['id']}/commit", told).status_code == 200
        failing = found.begin(args={"text": text}, run_id=f"failed-{number}").json()
        told = {"token": failing["token"], "attempt": 1, "outcome": {"status": "failed", "error": text}}
        assert found.post(f"/v1/effects/{failing['effect']['id']}/commit", told).status_code == 200
        asked = found.begin(args={"text": text}, run_id=f"asked-{number}", approval="required").json()["approval"]
        found.post(f"/v1/approvals/{asked['id']}/decisions", {"decision": "deny", "reason": text}, "ana")
    yield found
    found.close()


def test_whatever_is_asked_for_data_comes_as_data(exposed: Exposed) -> None:
    paths = [
        path
        for path, methods in described(exposed.app).openapi["paths"].items()
        if "get" in methods and "{" not in path
    ]
    effects = exposed.ask("GET", "/v1/effects", params={"limit": 100}).json()["effects"]
    assert len(effects) >= 3 * len(CORPUS)
    paths += [f"/v1/effects/{effect['id']}" for effect in effects]
    paths += [f"/v1/events?run_id=run-{number}" for number in range(len(CORPUS))]
    paths += [f"/v1/approvals/{one['id']}" for one in exposed.ask("GET", "/v1/approvals", "ana").json()["approvals"]]
    shown = 0
    for path in paths:
        if "stream" in path:
            continue
        for who in ("auditor", None):
            answer = exposed.ask("GET", path, who, headers={"Accept": "text/html,*/*"}, follow_redirects=False)
            assert answer.headers["x-content-type-options"] == "nosniff", path
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"], path
            assert "unsafe-inline" not in answer.headers["content-security-policy"], path
            kind = answer.headers.get("content-type", "").partition(";")[0]
            if not any(text in answer.text for text in CORPUS):
                continue
            shown += 1
            assert kind in DATA, f"{path} shows what somebody sent as {kind}"
            assert answer.headers["content-security-policy"].startswith("default-src 'none'"), path
    assert shown > len(effects)


@pytest.mark.parametrize("text", CORPUS)
def test_what_is_refused_comes_as_data_too(exposed: Exposed, text: str) -> None:
    for answer in (
        exposed.ask("GET", f"/v1/effects/{text}", headers={"Accept": "text/html"}),
        exposed.ask("GET", "/nowhere", None, params={"q": text}, headers={"Accept": "text/html"}),
        exposed.begin(tool=text),
        exposed.begin(**{text: 1}),
        exposed.ask("GET", "/v1/effects", params={"before": text, "limit": text}),
        exposed.ask("GET", "/v1/me", None, headers={"Host": "evil.example", "X": "y"}),
        exposed.ask("GET", f"/problems/{text}", None, headers={"Accept": "text/html"}),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        if answer.headers["content-type"].startswith("text/html"):
            assert "<script>alert" not in answer.text
            assert "onerror=alert" not in answer.text
            assert "onload=alert" not in answer.text
        else:
            assert answer.headers["content-type"].partition(";")[0] in DATA


def test_a_download_is_one(exposed: Exposed) -> None:
    eventually(lambda: exposed.ask("GET", "/v1/journal/head", "auditor").status_code == 200)  # it seals by itself
    head = exposed.ask("GET", "/v1/journal/head", "auditor").json()
    width = head["size"] % 256
    place = f"{head['size'] // 256:03}" + (f".p/{width}" if width else "")
    answer = exposed.ask("GET", f"/v1/journal/tile/entries/{place}", "auditor")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"] == "attachment"
    assert answer.headers["content-type"] == "application/octet-stream"
