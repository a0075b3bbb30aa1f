"""The proxy does to a real client and a real server what each fault is named after, and nothing else."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.chaos.http_proxy import KINDS, HttpFaultProxy, Kind, Plan
from tests.stores.between import Between

ANSWER = {"answer": "whole"}
ARRIVES: dict[Kind, bool] = {
    kind: "before" not in kind and kind not in ("refused", "429", "redirect") for kind in KINDS
}
ARRIVES["stall before"] = True


@pytest.fixture
def server() -> Iterator[Between]:
    counting = Between(always=(200, ANSWER))
    yield counting
    counting.stop()


def asked(proxy: HttpFaultProxy) -> tuple[int, bytes] | None:
    """Gives what came back; None when nothing did."""
    line = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=20)
    try:
        line.request("POST", "/x", b"{}")
        response = line.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        line.close()


@pytest.mark.parametrize("kind", KINDS)
def test_each_fault_is_what_it_is_named_after(kind: Kind, server: Between) -> None:
    # A tenth of the rate refuses connections.
    plan = Plan(rate=10.0 if kind == "refused" else 1.0, kinds=(kind,), stall=0.01, late=0.02)
    with HttpFaultProxy(server.url, plan) as proxy:
        answer = asked(proxy)
    if kind != "cut during":  # it may still be on its way
        assert bool(server.requests) is ARRIVES[kind]
    assert set(proxy.faults) == {kind}
    match kind:
        case "refused" | "cut before" | "cut during" | "cut after" | "cut inside":
            assert answer is None
        case "truncated" | "another type":
            assert answer is not None
            assert answer[0] == 200
            assert b"whole" not in answer[1]
        case "stall before" | "stall after" | "too late":
            assert answer is not None
            assert b"whole" in answer[1]
        case _:
            assert answer is not None
            assert answer[0] == (302 if kind == "redirect" else int(kind[:3]))


def test_what_is_not_struck_passes(server: Between) -> None:
    with HttpFaultProxy(server.url, Plan(rate=0.0)) as proxy:
        assert asked(proxy) == (200, b'{"answer": "whole"}')
    assert not proxy.faults
