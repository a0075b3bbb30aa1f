"""A witness among strangers: what they send is answered with an error, and keeps nobody out."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing, suppress
from pathlib import Path

import pytest

from indelible.core.journal.witnessing import MOST_REQUEST_BYTES
from tests.core.journal.test_witnessing import MALFORMED
from tests.journal.watched import Log, Running, running, send


def dial(witness: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", witness.server.server_port), timeout=60)


def raw(witness: Running, content: bytes) -> bytes:
    """Sends bytes as they are and gives all that comes back until the witness hangs up."""
    with dial(witness) as line:
        line.sendall(content)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65_536), b""))


def test_malformed_requests_are_bad_requests_and_harm_nobody(witness: Running) -> None:
    for name, body in MALFORMED.items():
        assert (name, witness.post(body)[0]) == (name, 400)
    assert witness.post(Log().to(3).request(0))[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"", b"411"),
        (b"Transfer-Encoding: chunked\r\n", b"411"),
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"411"),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n", b"411"),
        (b"Content-Length: -5\r\n", b"400"),
        (b"Content-Length: five\r\n", b"400"),
        (b"Content-Length: %d\r\n" % (MOST_REQUEST_BYTES + 1), b"413"),
        (b"Content-Length: " + b"9" * 4000 + b"\r\n", b"413"),
    ],
)
def test_a_request_says_its_length_or_is_turned_away(witness: Running, headers: bytes, status: bytes) -> None:
    answer = raw(witness, b"POST /add-checkpoint HTTP/1.1\r\n" + headers + b"\r\nGET / HTTP/1.1\r\n\r\n")
    assert answer.split(b" ")[1] == status
    assert answer.count(b"HTTP/1.1 ") == 1  # what was in the body is not taken for another request
    assert witness.post(Log().to(3).request(0))[0] == 200


def test_a_body_behind_a_get_is_not_taken_for_another_request(witness: Running) -> None:
    answer = raw(witness, b"GET / HTTP/1.1\r\nHost: w\r\nContent-Length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_other_requests_are_answered_with_an_error(witness: Running) -> None:
    for content in (b"PUT / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        assert raw(witness, content) != b""
    assert raw(witness, b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").startswith(b"HTTP/1.1 404")
    cut_off = raw(witness, b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 50\r\n\r\nold 0\n")
    assert cut_off.startswith(b"HTTP/1.1 400")
    assert witness.post(Log().to(3).request(0))[0] == 200


def test_one_connection_serves_many_requests(witness: Running) -> None:
    connection = http.client.HTTPConnection(witness.url.removeprefix("http://"), timeout=60)
    with closing(connection):
        connection.connect()
        line = connection.sock
        for size in range(5):
            connection.request("POST", "/add-checkpoint", bytes(Log().to(size + 1).request(size)))
            with connection.getresponse() as response:
                assert (response.status, response.read()[:3]) == (200, "—".encode())
            assert connection.sock is line


def test_slow_clients_are_cut_and_keep_nobody_out(tmp_path: Path) -> None:
    with running(tmp_path / "w", patience=0.3) as witness:
        beginnings = [b"", b"POST", b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 100\r\n\r\nold"]
        lines = [dial(witness) for _ in beginnings]
        for line, beginning in zip(lines, beginnings, strict=True):
            line.sendall(beginning)
        assert witness.post(Log().to(3).request(0))[0] == 200
        for line in lines:
            with line:
                assert line.recv(1) == b""  # the witness hung up


def test_a_client_that_drips_is_cut_too(tmp_path: Path) -> None:
    with running(tmp_path / "w", patience=0.2) as witness, dial(witness) as line:
        line.sendall(b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 100000\r\n\r\n")
        line.settimeout(0.01)
        while True:
            with suppress(TimeoutError):
                line.sendall(b"o")
                if line.recv(1) == b"":
                    break


def test_too_many_connections_are_turned_away_until_some_end(witness: Running) -> None:
    lines = [dial(witness) for _ in range(80)]
    for line in lines[64:]:
        assert line.recv(1) == b""
    for line in lines:
        line.close()
    while send(Log().to(3), 0, witness.url) != (409, b"3\n"):  # those that ended are noticed one by one
        pass
