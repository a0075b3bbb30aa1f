"""Threat 19: huge, deep or many arguments, too many requests and slow clients keep others from being served."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from indelible import Actor, Ledger, ToolCall
from indelible.core.remote.admissible import MOST_MEMBERS, members_in
from indelible.core.remote.admitting import Caller
from indelible.core.values.canonical import parse_strict
from indelible.errors import AskedTooOften, BadCall
from indelible.server.requests.bodies import MOST_FROM_STRANGERS
from indelible.server.requests.bodies import MOST_MEMBERS as MOST_IN_BODY
from indelible.server.requests.limits import Gate, Limits, counting
from indelible.server.requests.lingering import HEAD_SECONDS, Lingering
from tests.threats.exposed import Exposed
from tests.waiting import PATIENCE, eventually

MEBIBYTE = 1024 * 1024
SLOW = 500


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# A machine that is busy must not make a connection of the tests late: it is late when the clock is moved.
CLOCK = Clock()
LINGERING = Lingering(clock=CLOCK)


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exposed]:
    folder = tmp_path_factory.mktemp("flooded")
    found = Exposed(f"sqlite:///{folder / 'ledger.db'}", keys=folder / "keys", lingering=LINGERING)
    yield found
    found.close()


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# Each limit, and one more


@pytest.mark.parametrize(
    ("args", "over"),
    [
        ({"text": "x" * (MEBIBYTE - 11)}, {"text": "x" * (MEBIBYTE - 10)}),
        ({"deep": deep(63)}, {"deep": deep(64)}),
        ({"many": [1] * (MOST_MEMBERS - 1)}, {"many": [1] * MOST_MEMBERS}),
    ],
    ids=["bytes", "depth", "members"],
)
def test_arguments_are_taken_up_to_each_limit_and_no_further(exposed: Exposed, args: Any, over: Any) -> None:
    assert exposed.begin(args=args).status_code == 201
    refused = exposed.begin(args=over)
    assert (refused.status_code, refused.json()["type"]) == (413, "/problems/too-large")
    calls = exposed.post("/v1/tools/none/calls", {"args": over, "run_id": "order-1"})
    assert calls.status_code in (400, 404, 413)


def test_the_clients_own_protocol_has_the_same_limits(exposed: Exposed) -> None:
    with Ledger.open(exposed.url, token=exposed.tokens["agent"], max_args_bytes=None) as ledger:
        for over in ({"text": "x" * MEBIBYTE}, {"many": [1] * MOST_MEMBERS}):
            with pytest.raises(BadCall, match="at most"):
                ledger.run(_call(over), lambda effect: 1)


def _call(args: Any) -> ToolCall:
    return ToolCall(run_id="r", tool="t", args=args)


def test_what_grows_in_memory_is_refused_before_it_is_read(exposed: Exposed) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bodies = [
        b"[" + b"[]," * (6 * MEBIBYTE) + b"[]]",  # 18 MiB, and half a gigabyte once read
        b"{" + b",".join(b'"%d":0' % number for number in range(300_000)) + b"}",
        b"[" * (2 * MEBIBYTE),
    ]
    for path in ("/v1/effects", "/v1/store/apply", "/v1/runs"):
        for body in bodies:
            answer = exposed.ask("POST", path, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code in (400, 413, 422), (path, answer.text[:200])
    # The requests and their copies are in this process too.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


def test_a_body_over_the_limit_is_not_read_to_its_end(exposed: Exposed) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(64):
            sent += MEBIBYTE
            yield b" " * MEBIBYTE

    try:
        answer = exposed.ask("POST", "/v1/effects", content=endless(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
    except httpx2.TransportError:
        pass  # it hung up on us
    assert sent < 40 * MEBIBYTE


def answered_to_head(exposed: Exposed, line: str, *headers: str, body: bytes = b"") -> bytes:
    """Gives the status of the answer to a request whose body never comes whole."""
    head = (f"{line} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers)
    with socket.create_connection(("127.0.0.1", exposed.port), timeout=PATIENCE) as connection:
        connection.sendall("\r\n".join([*head, f"Content-Length: {20 * MEBIBYTE}", "", ""]).encode() + body)
        return connection.recv(12)[9:]


def test_nothing_is_read_of_a_body_before_it_is_known_whose_it_is(exposed: Exposed) -> None:
    forged, known = "Authorization: Bearer ind.YWNtZQ.key_1.x", f"Authorization: Bearer {exposed.tokens['auditor']}"
    described = exposed.app.openapi()["paths"]
    asked = [(f"{method.upper()} {path}", one) for path, ways in described.items() for method, one in ways.items()]
    with_body = [(line.replace("{", "").replace("}", ""), one) for line, one in asked if "requestBody" in one]
    assert len(with_body) > 40
    for line, one in with_body:
        if "x-scopes" not in one:  # where people sign in
            assert answered_to_head(exposed, line, body=b" " * (MOST_FROM_STRANGERS + 1)) == b"413", line
            continue
        assert answered_to_head(exposed, line) == b"401", line
        assert answered_to_head(exposed, line, forged, "Idempotency-Key: k") == b"401", line
        if "auditor" not in one["x-scopes"]:
            assert answered_to_head(exposed, line, known) == b"403", line


def test_values_are_counted_outside_of_texts_alone() -> None:
    text = json.dumps({"a": "," * 20_000, 'b"\\': ['x\\",[', 1]}).encode()
    assert members_in(text) == 4
    assert members_in(b"[" + b"1," * 20_000 + b"1]") == 20_001
    assert members_in(b'"' + b"," * 20_000) == 0  # never closed
    assert MOST_IN_BODY > MOST_MEMBERS


def test_to_find_a_repeated_name_takes_no_longer_than_to_read() -> None:
    names = [f'"{number}":0' for number in range(400_000)]  # to count each of them would take hours
    with pytest.raises(BadCall, match="stands twice"):
        parse_strict("{" + ",".join([*names, names[-1]]) + "}")


# Too many requests


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Exposed]:
    limits = Limits(rate=5, in_flight=3, waiting=2, strangers_rate=4)
    found = Exposed(f"sqlite:///{tmp_path / 'ledger.db'}", keys=tmp_path / "keys", limits=limits)
    yield found
    found.close()


def stop_the_clock(exposed: Exposed) -> None:
    """Lets nobody's measure fill up again, however long a machine takes for what is asked meanwhile."""
    gate, now = exposed.hardened._gate, time.monotonic()
    assert gate is not None
    gate._clock = lambda: now


def test_whoever_asks_too_often_is_told_when_to_come_again(counted: Exposed) -> None:
    stop_the_clock(counted)
    answers = [counted.ask("GET", "/v1/me") for _ in range(11)]
    assert [answer.status_code for answer in answers] == [200] * 10 + [429]  # twice five were there
    last = answers[-1]
    assert last.json()["type"] == "/problems/asked-too-often"
    assert last.headers["content-type"] == "application/problem+json"
    assert 0 < last.json()["retry_after"] <= 0.2
    assert last.headers["retry-after"] == "1"
    assert last.headers["ratelimit-policy"] == '"default";q=5;w=1'
    assert last.headers["ratelimit"] == '"default";r=0;t=1'
    assert answers[0].headers["ratelimit"] == '"default";r=9;t=0'
    assert counted.ask("GET", "/v1/me", "other-agent").status_code == 200, "each credential has its own measure"


def test_whoever_guesses_tokens_is_slowed_down_and_nobody_else(counted: Exposed) -> None:
    assert counted.ask("GET", "/v1/me").status_code == 200
    stop_the_clock(counted)
    told = {_guess(counted, number) for number in range(40)}
    assert told == {401, 429}
    assert counted.ask("GET", "/livez", None).status_code == 200
    assert counted.ask("GET", "/v1/me").status_code == 200, "from the same address, with a token that is one"


@pytest.mark.parametrize("shown", [{"Cookie": "a=b"}, {"Authorization": "x"}])
@pytest.mark.parametrize("path", ["/readyz", "/version", "/inbox"])
def test_what_is_no_credential_lifts_no_limit(counted: Exposed, path: str, shown: dict[str, str]) -> None:
    assert counted.ask("GET", "/v1/me").status_code == 200
    stop_the_clock(counted)
    told = [counted.ask("GET", path, None, headers=shown).status_code for _ in range(12)]
    assert (told.count(429), told[-1]) == (4, 429), "twice four were there"
    assert counted.ask("GET", path, "agent").status_code != 429, "who was let in before is no stranger"


def _guess(counted: Exposed, number: int) -> int:
    shown = f"Bearer {counted.tokens['agent'][:-4]}{number:04d}"
    return counted.ask("GET", "/v1/me", None, headers={"Authorization": shown}).status_code


def test_many_who_come_at_once_with_a_good_token_are_no_strangers() -> None:
    """So it is after a restart: nobody is known yet, and all of them share the address of one proxy."""
    gate = Gate(Limits(strangers_rate=4), Clock())

    async def let_in(request: Any) -> Caller:
        await asyncio.sleep(0)
        return _caller(str(request.scope["headers"]))

    async def all_at_once() -> None:
        requests = [SimpleNamespace(scope=_scope() | {"headers": [(b"authorization", b"%d" % n)]}) for n in range(64)]
        for request in requests:
            gate.ticket(request.scope)
        await asyncio.gather(*(counting(let_in)(request) for request in requests))

    asyncio.run(all_at_once())


def test_waiting_is_counted_apart(counted: Exposed) -> None:
    effect = counted.begin().json()["effect"]
    path = f"/v1/effects/{effect['id']}?wait=60"

    def waiting() -> int:
        with httpx2.Client(base_url=counted.url, trust_env=False, timeout=PATIENCE) as client:
            return client.get(path, headers=counted.headers("agent")).status_code

    with ThreadPoolExecutor(3) as pool:
        statuses = [pool.submit(waiting) for _ in range(3)]
        eventually(lambda: any(each.done() for each in statuses))
        assert sorted(each.result() for each in statuses if each.done()) == [429]
        assert counted.ask("GET", "/v1/me").status_code == 200
        claim = counted.begin()  # the one that is there
        assert claim.status_code in (200, 409)
        token = {"Authorization": f"Bearer {counted.tokens['ana']}"}
        assert counted.ask("GET", "/v1/me", None, headers=token).status_code == 200
        counted.ledgers.stopping.begin()  # whoever waits is answered
    assert sorted(each.result() for each in statuses) == [200, 200, 429]


def test_requests_under_way_are_counted_and_given_back() -> None:
    clock = Clock()
    gate = Gate(Limits(rate=1000, in_flight=2), clock)
    caller = _caller("key_1")
    tickets = [gate.ticket(_scope()) for _ in range(3)]
    tickets[0].admit(caller)
    tickets[0].admit(caller)  # the same request asks twice who sent it
    tickets[1].admit(caller)
    with pytest.raises(AskedTooOften, match="2 requests of this credential may be carried out at once"):
        tickets[2].admit(caller)
    tickets[2].give_back()
    tickets[1].give_back()
    again = gate.ticket(_scope())
    again.admit(caller)
    assert not any(name == b"retry-after" for name, _ in again.headers)


def test_a_bucket_fills_by_itself_and_not_over_its_rim() -> None:
    clock = Clock()
    gate = Gate(Limits(rate=2, in_flight=0), clock)

    def ask() -> bool:
        ticket = gate.ticket(_scope())
        try:
            ticket.admit(_caller("key_1"))
        except AskedTooOften:
            return False
        finally:
            ticket.give_back()
        return True

    assert [ask() for _ in range(5)] == [True] * 4 + [False]
    clock.now += 0.5
    assert [ask() for _ in range(2)] == [True, False]
    clock.now += 3600
    assert [ask() for _ in range(5)] == [True] * 4 + [False]


def test_whose_measures_are_kept_is_bounded() -> None:
    clock = Clock()
    gate = Gate(Limits(strangers_rate=1), clock)
    for number in range(20_050):
        gate.wait_of_strangers(_scope(f"10.0.{number // 256}.{number % 256}"))
    assert len(gate._addresses) <= 10_000


def _caller(credential_id: str) -> Caller:
    actor = Actor("a", "agent", "api_key")
    return Caller(tenant="t", scopes=frozenset({"agent"}), actor=actor, credential_id=credential_id)


def _scope(address: str = "10.0.0.1") -> dict[str, Any]:
    return {"path": "/v1/effects", "query_string": b"", "headers": [], "client": (address, 1)}


def test_the_client_waits_as_long_as_it_is_told(counted: Exposed) -> None:
    with Ledger.open(counted.url, token=counted.tokens["agent"]) as ledger:
        values = [ledger.run(_call({"number": number}), lambda effect: effect.args["number"]) for number in range(6)]
    assert values == list(range(6))  # twice as many requests as are allowed at once, and more


# Slow clients


def test_the_api_answers_while_five_hundred_sockets_say_next_to_nothing(exposed: Exposed) -> None:
    slow = [socket.create_connection(("127.0.0.1", exposed.port), timeout=PATIENCE) for _ in range(SLOW)]
    try:
        for number, each in enumerate(slow):
            each.sendall(b"POST /v1/effects HTTP/1.1\r\nHost: 127.0.0.1\r\nX-"[: 10 + number % 40])
        assert _begun_anew(exposed, "beside") == 201
        eventually(lambda: len(LINGERING._seen) >= SLOW)
        CLOCK.now += HEAD_SECONDS + 1
        assert [_is_hung_up(each) for each in slow] == [True] * SLOW
        assert _begun_anew(exposed, "after") == 201
    finally:
        for each in slow:
            each.close()


def _begun_anew(exposed: Exposed, run_id: str) -> int:
    """Begin a call over a connection of its own: one that was idle may be closed just when it is used again."""
    body = {"tool": "charge", "args": {"amount": 5}, "run_id": run_id}
    with httpx2.Client(base_url=exposed.url, trust_env=False, timeout=PATIENCE) as client:
        return client.post("/v1/effects", json=body, headers=exposed.headers("agent")).status_code


def _is_hung_up(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


class _Cycle:
    def __init__(self, *, more_body: bool = False, complete: bool = False) -> None:
        self.more_body, self.response_complete = more_body, complete


class _Connection:
    def __init__(self, cycle: _Cycle | None = None) -> None:
        self.cycle, self.transport, self.is_gone = cycle, self, False

    def abort(self) -> None:
        self.is_gone = True


def test_only_who_owes_us_something_is_hung_up_on() -> None:
    clock = Clock()
    lingering = Lingering(most=1000, head_seconds=10, body_seconds=60, clock=clock)
    fresh, body, ours = _Connection(), _Connection(_Cycle(more_body=True)), _Connection(_Cycle())
    everybody = [fresh, body, ours]
    lingering.look(everybody)
    clock.now += 11
    lingering.look(everybody)
    assert [each.is_gone for each in everybody] == [True, False, False]
    body.cycle = _Cycle(more_body=True)  # its next request begins anew
    clock.now += 55
    lingering.look(everybody)
    clock.now += 55
    lingering.look(everybody)
    assert not body.is_gone
    clock.now += 6
    lingering.look(everybody)
    assert body.is_gone
    assert not ours.is_gone


def test_when_there_are_too_many_those_who_owe_longest_go_first() -> None:
    clock = Clock()
    lingering = Lingering(most=10, clock=clock)
    busy = [_Connection(_Cycle()) for _ in range(5)]
    quiet = [_Connection() for _ in range(3)]
    lingering.look([*busy, *quiet])
    clock.now += 1
    newer = [_Connection() for _ in range(2)]
    lingering.look([*busy, *quiet, *newer])
    assert [each.is_gone for each in quiet].count(True) == 2
    assert not any(each.is_gone for each in [*busy, *newer])
