"""What proves that nothing happened: no byte of any request of this attempt was written. And what proves nothing."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import threading
from collections.abc import Callable
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests

from indelible import Ledger, RunningEffect, ToolCall, current_effect
from indelible.errors import BadCall, EffectInDoubt
from indelible.http import IdempotencyTransport
from indelible.http.aiohttp import idempotency
from indelible.http.httpx import AsyncIdempotencyTransport as AsyncHttpxTransport
from indelible.http.httpx import IdempotencyTransport as HttpxTransport
from indelible.http.requests import IdempotencyAdapter
from tests.http.clients import LOST, OURS, RETRYING, Post
from tests.http.provider import Provider
from tests.http.test_lost_answers import DOORS
from tests.waiting import PATIENCE, eventually, refusing

CALL = ToolCall(run_id="order-1", tool="pay", args={"amount": 5})


def run(ledger: Ledger, handler: Callable[[RunningEffect], Any], **words: Any) -> Any:
    return ledger.run(CALL, handler, **({"side_effect": "payment", "marks_sending": True} | words))


def status(ledger: Ledger) -> str:
    return ledger.effects()[0].status


def test_a_connection_that_is_refused_sends_nothing_and_the_next_call_runs_freely(
    ledger: Ledger, provider: Provider
) -> None:
    for (name, post), door in itertools.product(OURS.items(), DOORS):
        case = f"{name}: {door}"
        with refusing() as port:
            where = [f"http://127.0.0.1:{port}/v1/charges", f"{provider.url}/v1/charges"]
            call = DOORS[door](ledger, partial(_post_to_next, post, where), marks_sending=True)
            with pytest.raises(LOST) as caught:
                call(case, 5)
        found = ledger.effects(run_id=case)[0].status, len(provider.charges)
        assert found == ("ready", 0), (case, caught.value)
        assert call(case, 5)["id"] == "ch_1"
        assert (ledger.effects(run_id=case)[0].status, len(provider.charges)) == ("succeeded", 1), case
        provider.charges.clear()


def _post_to_next(post: Post, where: list[str], amount: int) -> Any:
    return post(where.pop(0), {"amount": amount})


def test_an_answer_that_is_lost_is_no_proof_although_the_tool_marks(ledger: Ledger, provider: Provider) -> None:
    for (name, post), word in itertools.product(OURS.items(), ("swallow", "reset", "gateway")):
        provider.always = word
        where = [f"{provider.url}/v1/charges"]
        call = DOORS["tool"](ledger, partial(_post_to_next, post, where), marks_sending=True)
        with pytest.raises(LOST):
            call(f"{name}: {word}", 5)
        assert ledger.effects(run_id=f"{name}: {word}")[0].status == "in_doubt", (name, word)
    assert len(provider.charges) == 3 * len(OURS)


def test_a_refused_connection_after_an_earlier_request_of_the_attempt_leaves_doubt(
    ledger: Ledger, provider: Provider
) -> None:
    with refusing() as port:
        for name, post in OURS.items():

            def handler(amount: int, post: Post = post) -> None:
                post(f"{provider.url}/v1/charges", {"amount": amount})
                post(f"http://127.0.0.1:{port}/v1/receipts", {"amount": amount})

            with pytest.raises(LOST):
                DOORS["tool"](ledger, handler, marks_sending=True)(name, 5)
            assert ledger.effects(run_id=name)[0].status == "in_doubt", name
    assert len(provider.charges) == len(OURS)


@pytest.mark.parametrize("name", sorted(RETRYING & set(OURS)))
def test_a_connection_that_is_refused_when_a_client_sends_again_leaves_doubt(
    name: str, ledger: Ledger, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the first send is swallowed; when the client tries again by itself, it is refused."""
    provider.always = "swallow"
    refused, real = list[Any](), socket.socket.connect

    def connect(self: socket.socket, where: Any) -> None:
        if provider.requests and f":{where[1]}" in provider.url:
            refused.append(where)
            raise ConnectionRefusedError(111, "nothing listens any more")
        real(self, where)

    monkeypatch.setattr(socket.socket, "connect", connect)
    with pytest.raises(LOST):
        run(ledger, lambda effect: OURS[name](f"{provider.url}/v1/charges", {"amount": 5}))
    monkeypatch.undo()
    assert (status(ledger), len(provider.charges), len(refused)) == ("in_doubt", 1, 2)


def test_an_exception_before_sending_proves_it_and_one_inside_does_not(ledger: Ledger) -> None:
    def before(effect: RunningEffect) -> None:
        raise KeyError("price list")

    def inside(effect: RunningEffect) -> None:
        with effect.sending():
            raise KeyError("answer")

    with pytest.raises(KeyError):
        run(ledger, before)
    assert status(ledger) == "ready"
    with pytest.raises(KeyError):
        run(ledger, inside)
    assert status(ledger) == "in_doubt"


def test_without_marks_sending_a_refused_connection_proves_nothing(ledger: Ledger) -> None:
    with refusing() as port, pytest.raises(httpx.ConnectError):
        run(ledger, lambda effect: OURS["httpx"](f"http://127.0.0.1:{port}/", {}), marks_sending=False)
    assert status(ledger) == "in_doubt"


def test_a_request_with_a_safe_method_is_sent_too(ledger: Ledger, provider: Provider) -> None:
    def handler(effect: RunningEffect) -> None:
        with httpx2.Client(transport=IdempotencyTransport()) as client:
            client.get(f"{provider.url}/charge-me?amount=5")
        raise KeyError

    with pytest.raises(KeyError):
        run(ledger, handler)
    assert (status(ledger), provider.keys) == ("in_doubt", [None])


# ── when exactly ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_httpx_marks_when_it_has_a_connection_and_tells_the_callers_own_trace(
    quick: Ledger, provider: Provider
) -> None:
    told: list[tuple[str, bool]] = []

    def trace(event: str, info: Any) -> None:
        effect = current_effect()
        assert effect is not None
        told.append((event, effect.has_sent))

    async def async_trace(event: str, info: Any) -> None:
        trace(event, info)

    async def later() -> None:
        async with httpx.AsyncClient(transport=AsyncHttpxTransport()) as client:
            await client.post(provider.url, json={}, extensions={"trace": async_trace})

    def handler(effect: RunningEffect) -> None:
        if effect.attempt == 1:
            with httpx.Client(transport=HttpxTransport()) as client:
                client.post(provider.url, json={}, extensions={"trace": trace})
            raise KeyError
        asyncio.run(later())
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            run(quick, handler)
        sent = dict(told)
        assert sent["connection.connect_tcp.started"] is False
        assert sent["connection.connect_tcp.complete"] is False
        assert sent["http11.send_request_headers.started"] is True
        assert "http11.receive_response_headers.complete" in sent
        told.clear()
        quick.retry(quick.effects()[0].id, by="ana")


def test_requests_marks_when_it_has_a_connection(
    quick: Ledger, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    import urllib3.connection

    seen: list[bool] = []
    real = urllib3.connection.HTTPConnection.connect

    def connecting(self: Any) -> None:
        real(self)
        effect = current_effect()
        assert effect is not None
        seen.append(effect.has_sent)

    monkeypatch.setattr(urllib3.connection.HTTPConnection, "connect", connecting)

    def handler(effect: RunningEffect) -> bool:
        OURS["requests"](provider.url, {})
        return effect.has_sent

    assert run(quick, handler) is True
    assert seen == [False]


def test_an_answer_that_a_proxy_loses_is_no_proof_although_the_tool_marks(ledger: Ledger, provider: Provider) -> None:
    """The provider plays the proxy: it is handed the whole address, does the deed, and hangs up."""
    provider.always = "swallow"

    def handler(effect: RunningEffect) -> Any:
        with requests.Session() as session:
            session.mount("http://", IdempotencyAdapter())
            asked = {"json": {"amount": 5}, "timeout": PATIENCE, "proxies": {"http": provider.url}}
            return session.post("http://payments.example/v1/charges", **asked).json()

    with pytest.raises(LOST):
        run(ledger, handler)
    assert (status(ledger), len(provider.charges)) == ("in_doubt", 1)
    with pytest.raises(EffectInDoubt):
        run(ledger, handler)
    assert len(provider.charges) == 1


def test_aiohttp_marks_when_it_has_a_connection(quick: Ledger, provider: Provider) -> None:
    seen: list[bool] = []
    traces = aiohttp.TraceConfig()

    async def connected(*_: Any) -> None:
        effect = current_effect()
        assert effect is not None
        seen.append(effect.has_sent)

    traces.on_connection_create_end.append(connected)

    async def handler(effect: RunningEffect) -> bool:
        async with (
            aiohttp.ClientSession(middlewares=(idempotency,), trace_configs=[traces]) as session,
            session.post(provider.url, json={}),
        ):
            return effect.has_sent

    assert run(quick, handler) is True
    assert seen == [False]


class Raises(httpx2.BaseTransport):
    """A transport of another kind: what it did before it raised cannot be told."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("nothing listens")


class Extends(httpx2.HTTPTransport):
    """One that does something of its own first."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("nothing listens")


@pytest.mark.parametrize("inner", [Raises, Extends])
def test_a_transport_of_another_kind_below_proves_nothing(inner: type[httpx2.BaseTransport], quick: Ledger) -> None:
    def handler(effect: RunningEffect) -> None:
        with httpx2.Client(transport=IdempotencyTransport(inner())) as client:
            client.post("http://provider.example/")

    with pytest.raises(httpx2.ConnectError):
        run(quick, handler)
    assert status(quick) == "in_doubt"


@pytest.mark.parametrize("what", ["httpx", "httpx, asynchronous", "requests"])
def test_a_mock_in_the_place_of_a_client_proves_nothing(
    what: str, quick: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise httpx.ConnectError("mocked")

    async def refuse_later(*_: Any, **__: Any) -> Any:
        refuse()

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", refuse)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", refuse_later)
    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", refuse)
    with pytest.raises(httpx.ConnectError):
        run(quick, lambda effect: OURS[what]("http://provider.example/", {}))
    assert status(quick) == "in_doubt"


# ── who sends ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_thread_without_the_handlers_context_may_belong_to_any_so_all_are_marked(
    quick: Ledger, provider: Provider
) -> None:
    def handler(effect: RunningEffect) -> None:
        thread = threading.Thread(target=OURS["httpx"], args=(f"{provider.url}/v1/charges", {"amount": 5}))
        thread.start()
        thread.join(PATIENCE)
        raise KeyError

    with pytest.raises(KeyError):
        run(quick, handler)
    assert (status(quick), provider.keys) == ("in_doubt", [None])


@pytest.mark.parametrize("name", sorted(OURS))
def test_37_a_request_that_a_plain_thread_has_begun_when_its_handler_ends_leaves_doubt(
    name: str, quick: Ledger, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread waits for the name server, and sends when the handler has raised."""
    is_asked, may_answer, real = threading.Event(), threading.Event(), socket.getaddrinfo

    def slow(*args: Any, **words: Any) -> Any:
        is_asked.set()
        assert may_answer.wait(PATIENCE)
        return real(*args, **words)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    url = provider.url.replace("127.0.0.1", "localhost")

    def handler(effect: RunningEffect) -> None:
        threading.Thread(target=OURS[name], args=(f"{url}/v1/charges", {"amount": 5}), daemon=True).start()
        assert is_asked.wait(PATIENCE)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        run(quick, handler)
    may_answer.set()
    eventually(lambda: provider.requests)
    assert status(quick) == "in_doubt"


def test_a_thread_with_the_handlers_context_has_its_key_and_its_name(quick: Ledger, provider: Provider) -> None:
    def handler(effect: RunningEffect) -> str:
        with effect.request("item-7"):
            thread = threading.Thread(target=copy_context().run, args=(OURS["httpx"], f"{provider.url}/a", {}))
        thread.start()
        thread.join(PATIENCE)
        return effect.request_key("POST", f"{provider.url}/a", "item-7")

    found = run(quick, handler)
    assert [found] == provider.keys


def test_what_a_call_inside_a_handler_sends_its_handler_has_sent_too(quick: Ledger, provider: Provider) -> None:
    inner = ToolCall(run_id="order-2", tool="pay-inner", args={"amount": 1})

    def handler(effect: RunningEffect) -> None:
        quick.run(inner, lambda _: OURS["httpx"](provider.url, {}), side_effect="payment")
        raise KeyError

    with pytest.raises(KeyError):
        run(quick, handler)
    assert {effect.tool: effect.status for effect in quick.effects()} == {"pay": "in_doubt", "pay-inner": "succeeded"}


def test_a_thread_that_goes_on_after_its_handler_has_raised_sends_nothing(quick: Ledger, provider: Provider) -> None:
    is_over, refused = threading.Event(), list[BaseException]()

    def late() -> None:
        assert is_over.wait(PATIENCE)
        try:
            OURS["httpx"](f"{provider.url}/v1/charges", {"amount": 5})
        except BadCall as error:
            refused.append(error)

    def handler(effect: RunningEffect) -> None:
        threading.Thread(target=copy_context().run, args=(late,)).start()
        raise KeyError

    with pytest.raises(KeyError):
        run(quick, handler)
    assert status(quick) == "ready", "nothing had been sent"
    is_over.set()
    eventually(lambda: refused)
    assert ("is over" in str(refused[0]), provider.requests) == (True, [])


@pytest.mark.parametrize("name", ["httpx", "requests", "aiohttp"])
def test_an_answer_that_comes_after_the_time_limit_is_still_heard(name: str, quick: Ledger, provider: Provider) -> None:
    provider.always = "slow"
    with pytest.raises(TimeoutError):
        run(quick, lambda effect: OURS[name](provider.url, {})["id"], timeout=timedelta(seconds=2))
    eventually(lambda: provider.requests)
    provider.may_answer.set()
    eventually(lambda: status(quick) == "succeeded")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_of_a_handler_sends_nothing(quick: Ledger, provider: Provider) -> None:
    def handler(effect: RunningEffect) -> int:
        child = os.fork()
        if child == 0:
            try:
                OURS["httpx"](f"{provider.url}/v1/charges", {"amount": 5})
                os._exit(1)
            except BadCall:
                os._exit(7)
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert run(quick, handler) == 7
    assert provider.requests == []


def test_a_key_that_the_caller_gave_stays_and_the_request_is_marked(quick: Ledger, provider: Provider) -> None:
    def handler(effect: RunningEffect) -> None:
        with httpx.Client(transport=HttpxTransport(), headers={"idempotency-key": "mine"}) as client:
            client.post(provider.url, json={})
            client.post(provider.url, json={"other": "body"})
        raise KeyError

    with pytest.raises(KeyError):
        run(quick, handler)
    with pytest.raises(EffectInDoubt):
        run(quick, handler)
    assert provider.keys == ["mine", "mine"]


def test_outside_a_handler_nothing_is_added(provider: Provider) -> None:
    for post in OURS.values():
        post(provider.url, {})
    assert provider.keys == [None] * len(OURS)


def test_the_callers_own_request_stays_as_it_is(quick: Ledger, provider: Provider) -> None:
    """The same request object may be sent for another effect, which has another key."""
    for made, client in (
        (httpx.Request("POST", provider.url, json={}), httpx.Client(transport=HttpxTransport())),
        (httpx2.Request("POST", provider.url, json={}), httpx2.Client(transport=IdempotencyTransport())),
    ):
        with client:
            for run_id in ("one", "two"):
                call = ToolCall(run_id=f"{run_id}-{type(client).__module__}", tool="pay", args={"amount": 5})
                quick.run(call, lambda effect: client.send(made).status_code, side_effect="payment")  # noqa: B023
            assert "Idempotency-Key" not in made.headers
    prepared = requests.Request("POST", provider.url, json={}).prepare()
    with requests.Session() as session:
        session.mount("http://", IdempotencyAdapter())
        for run_id in ("one", "two"):
            call = ToolCall(run_id=run_id, tool="pay", args={"amount": 5})
            quick.run(call, lambda effect: session.send(prepared).status_code, side_effect="payment")
    assert "Idempotency-Key" not in prepared.headers
    assert len(set(provider.keys)) == 6
    assert None not in provider.keys


def test_37_a_request_that_urllib3_writes_by_itself_is_noted_too(ledger: Ledger, provider: Provider) -> None:
    """urllib3 1 sends a streamed body with `putrequest` and `send`, and never calls `request` of its connection."""
    adapter = IdempotencyAdapter()

    def pay(effect: RunningEffect) -> None:
        connection = adapter.poolmanager.connection_from_url(provider.url)._get_conn()
        connection.putrequest("POST", "/v1/charges")
        connection.putheader("Content-Length", "13")
        connection.endheaders()
        connection.send(b'{"amount": 5}')
        connection.close()
        raise ConnectionError("the answer was lost")

    with pytest.raises(ConnectionError):
        run(ledger, pay)
    assert status(ledger) == "in_doubt"
