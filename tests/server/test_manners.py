"""What comes of requests that no resource is asked by: other methods, other kinds of bodies, odd forms of HTTP."""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from indelible.server.describing.description import operations
from indelible.server.routes import effects
from tests.server.places import Place, sqlite_place
from tests.waiting import PATIENCE

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = sqlite_place(tmp_path_factory.mktemp("manners"))
    yield made
    made.close()


def test_a_method_that_an_address_does_not_know_is_refused_with_those_it_knows(place: Place) -> None:
    told = [(method, path) for method, path, _ in operations(place.described.openapi)]
    assert len(told) > 40
    for template in {path for _, path in told}:
        path = template.replace("{", "").replace("}", "")  # a name is as good as any other
        known = {one for one, other in told if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", other), path)}
        for method in random.Random(template).sample(sorted(METHODS - known), 3):
            answer = place.client.request(method, path)
            assert answer.status_code == 405, (method, path)
            assert answer.headers["allow"] == ", ".join(sorted(known)), (method, path)
            assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_that_is_not_json_is_refused(place: Place) -> None:
    body = b'{"tool": "charge"}'
    for path in ("/v1/effects", "/v1/runs", "/v1/effects/x/cancel", "/v1/store/look"):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "json"):
            headers = {"Content-Type": kind}
            answer = place.ask("POST", path, "agent", content=body, headers=headers)
            assert (answer.status_code, answer.json()["type"]) == (415, "/problems/unsupported-media-type"), (
                path,
                kind,
            )
            assert place.ask("POST", path, None, content=body, headers=headers).status_code == 401
        for kind in ("application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json"):
            answer = place.ask("POST", path, "agent", content=body, headers={"Content-Type": kind})
            assert answer.status_code != 415


def test_accept_chooses_where_there_is_a_choice_and_is_not_looked_at_else(place: Place) -> None:
    for accept in ("image/png", "*/*", "application/xml;q=0.1", "", "nonsense", "a" * 5000):
        answer = place.get("/v1/effects", headers={"Accept": accept})
        assert answer.headers["content-type"] == "application/json"
        assert place.get("/v1/effects/none", headers={"Accept": accept}).status_code == 404


def test_an_address_that_is_not_there_is_told_as_every_problem(place: Place) -> None:
    for path in ("/nowhere", "/v1", "/v1/effects/", "/v1//effects", "/%00", "/%ff", "/v1/effects%2f"):
        answer = place.client.get(path, headers=place.headers("admin"))
        assert answer.status_code == 404, path
        assert answer.headers["content-type"] == "application/problem+json"


def test_what_is_our_fault_is_said_to_be_and_tells_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def tripping(*_: object) -> None:
        raise RuntimeError("a secret of ours")

    monkeypatch.setattr(effects, "effect_shown", tripping)
    answer = place.client.post("/v1/effects", json={"tool": "charge", "run_id": "new"}, headers=place.headers("agent"))
    assert (answer.status_code, answer.json()["type"]) == (500, "/problems/indelible-error")
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /livez HTTP/1.0\r\n\r\n", 200),
        ("GET /livez HTTP/1.0\r\nConnection: keep-alive\r\nHost: 127.0.0.1\r\n\r\n", 200),
        ("GET http://127.0.0.1/livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 404),
        ("GET http://evil.example/livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 404),
        ("OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 404),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 404),
        ("GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        ("GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", 400),
        ("GET /li vez HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /livez\r\n\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400),
        ("POST /v1/effects HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400),
        ("POST /v1/effects HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST /v1/effects HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", 400),
    ],
)
def test_odd_forms_of_http_are_answered_and_never_our_fault(place: Place, request_: str, status: int) -> None:
    at = urlsplit(place.served.url)
    with socket.create_connection((at.hostname, at.port), timeout=PATIENCE) as connection:
        connection.sendall(request_.encode("latin-1"))
        answered = b""
        while part := connection.recv(65536):
            answered += part
            if b"keep-alive" in request_.encode() and b"alive" in answered:
                break
    assert answered.split(b" ", 2)[1] == str(status).encode(), answered
