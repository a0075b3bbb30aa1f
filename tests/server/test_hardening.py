"""What every request passes and every answer carries."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import httpx2
import pytest
from fastapi import FastAPI, Request

from indelible.errors import Misconfigured
from indelible.server.requests.bodies import parse_json
from indelible.server.requests.hardening import Hardened
from indelible.server.running import bound, check_is_private
from tests.server.serving import Served


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    app = FastAPI()

    @app.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    @app.get("/page")
    async def page() -> str:
        return "x"

    served = Served(Hardened(app, most_bytes=1000))
    yield served.url
    served.stop()


def test_every_answer_says_what_browsers_may_not_do(url: str) -> None:
    for path in ("/page", "/nowhere"):
        headers = httpx2.get(url + path, trust_env=False).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers or headers["server"] == "uvicorn"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]:1", ""])
def test_a_request_for_another_host_is_misdirected(url: str, host: str) -> None:
    answer = httpx2.get(f"{url}/page", headers={"Host": host}, trust_env=False)
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "[::1]:8787", "127.0.0.1"])
def test_a_request_for_this_machine_is_answered(url: str, host: str) -> None:
    assert httpx2.get(f"{url}/page", headers={"Host": host}, trust_env=False).status_code == 200


def test_a_body_is_taken_up_to_its_limit_however_it_is_sent(url: str) -> None:
    assert httpx2.post(f"{url}/echo", content=b"x" * 1000, trust_env=False).json() == 1000
    answer = httpx2.post(f"{url}/echo", content=b"x" * 1001, trust_env=False)
    assert (answer.status_code, answer.json()) == (413, {"detail": "body: at most 1000 bytes are allowed"})
    chunked = httpx2.post(f"{url}/echo", content=(b"x" * 100 for _ in range(11)), trust_env=False)
    assert chunked.status_code == 413


@pytest.mark.parametrize(
    "twice",
    [
        [("Authorization", "Bearer mine"), ("Authorization", "Bearer somebody.else.key_1.x")],
        [("Content-Type", "application/json"), ("content-type", "text/plain")],
        [("Idempotency-Key", "a"), ("Idempotency-Key", "a")],
        [("Content-Length", "1"), ("Transfer-Encoding", "chunked")],
    ],
)
def test_what_a_proxy_could_take_for_another_request_is_refused(url: str, twice: list[tuple[str, str]]) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    connection.putrequest("POST", "/echo")
    for name, value in twice:
        connection.putheader(name, value)
    connection.endheaders(b"1\r\nx\r\n0\r\n\r\n" if twice[1][0] == "Transfer-Encoding" else None)
    answer = connection.getresponse()
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert json.loads(answer.read())["detail"] == "a header that counts once is there twice"
    connection.close()


@pytest.mark.parametrize("raw", [b"", b"{", b"NaN", b"[Infinity]", b'{"a":1,"a":2}', b"\xff", b"[" * 100_000])
def test_what_two_readers_could_read_differently_is_no_json(raw: bytes) -> None:
    with pytest.raises(ValueError, match="JSON is expected"):
        parse_json(raw)


def test_plain_json_is_read() -> None:
    value = {"a": [1, None, "ü"], "b": {"c": 1.5}}
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "ledger.example"])
def test_tokens_do_not_go_in_clear_over_a_network(host: str) -> None:
    with pytest.raises(Misconfigured, match="--behind-tls"):
        check_is_private(host, has_tls=False)
    check_is_private(host, has_tls=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_this_machine_they_may(host: str) -> None:
    check_is_private(host, has_tls=False)


def test_a_port_that_somebody_has_is_named() -> None:
    with bound("127.0.0.1", 0) as taken, pytest.raises(Misconfigured, match="another --port"):
        bound("127.0.0.1", taken.getsockname()[1])
