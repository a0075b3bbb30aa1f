"""One HTTP request to numbers that are known to be good: no second lookup, no redirect, no proxy, and in time."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from indelible.notify.ssrf import Address, Target


@dataclass(frozen=True, slots=True)
class Reply:
    """Is what the receiver answered, as far as anybody looks at it."""

    status: int
    retry_after: str | None = None


def post(
    target: Target,
    numbers: Sequence[Address],
    headers: Mapping[str, str],
    body: bytes,
    *,
    timeout: float,
    ca_file: Path | None = None,
) -> Reply:
    """Posts to the first of the numbers that answers; raises `OSError` or `HTTPException` when none does in time.

    The whole of it takes `timeout` seconds at most, however slowly the receiver speaks. The certificate has to be that
    of the host's name.
    """
    ends = time.monotonic() + timeout
    first = _connected(target, numbers, ends)
    lines: list[socket.socket] = [first]
    reply: Reply | None
    clock = threading.Timer(max(0.0, ends - time.monotonic()), _hang_up, [lines])
    clock.daemon = True
    clock.start()
    try:
        if target.scheme == "https":
            encrypted = _encrypted(first, target, ca_file)
            lines.append(encrypted)
            encrypted.do_handshake()
        reply = _asked(lines[-1], target, headers, body)
    except Exception:
        if time.monotonic() < ends:
            raise
        reply = None
    finally:
        clock.cancel()
        for line in lines:
            line.close()
    if reply is None or time.monotonic() >= ends:  # headers that were cut off look like headers that ended
        raise TimeoutError(f"no answer within {timeout:g} s")
    return reply


def _connected(target: Target, numbers: Sequence[Address], ends: float) -> socket.socket:
    problem: OSError = TimeoutError("no time was left to connect")
    for at, number in enumerate(numbers):
        left = ends - time.monotonic()
        if left <= 0:
            break
        try:  # each gets its share of the time, for the first may be a number that nobody answers
            line = socket.create_connection((str(number), target.port), timeout=left / (len(numbers) - at))
        except OSError as refused:
            problem = refused
        else:
            line.settimeout(max(0.001, ends - time.monotonic()))
            return line
    raise problem


def _encrypted(line: socket.socket, target: Target, ca_file: Path | None) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    # The handshake comes later, when the clock knows of this line: until then nobody could cut it.
    return context.wrap_socket(line, server_hostname=target.host, do_handshake_on_connect=False)


def _asked(line: socket.socket, target: Target, headers: Mapping[str, str], body: bytes) -> Reply:
    connection = http.client.HTTPConnection(target.host, target.port)
    connection.auto_open = 0  # it has a line already, and must never look for another
    connection.sock = line
    try:
        connection.request("POST", target.path, body, {**headers, "Host": target.host_header, "Connection": "close"})
        answer = connection.getresponse()
        with answer:  # what it says besides is nobody's business, and may be endless
            return Reply(answer.status, answer.headers.get("Retry-After"))
    finally:
        connection.close()


def _hang_up(lines: Sequence[socket.socket]) -> None:
    for line in lines:
        with suppress(OSError):  # gone already, or gone over to the encrypted one
            socket.socket.shutdown(line, socket.SHUT_RDWR)  # below the encryption, which another thread is using
