"""A request keeps its key whatever else a handler sends; what would share a key with another never leaves."""

from __future__ import annotations

import asyncio
import importlib
import io
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from datetime import timedelta
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests

from indelible import Effect, Idempotent, Ledger, RunningEffect, Succeeded, ToolCall
from indelible.errors import AmbiguousRequest, BadCall
from indelible.http import AsyncIdempotencyTransport, IdempotencyTransport
from indelible.http.aiohttp import idempotency
from indelible.http.httpx import IdempotencyTransport as HttpxTransport
from indelible.http.requests import IdempotencyAdapter
from tests.http.clients import OURS, RETRYING, Post
from tests.http.provider import Provider
from tests.waiting import PATIENCE

CALL = ToolCall(run_id="order-1", tool="pay", args={"amount": 5})
AGAIN = Idempotent(window=timedelta(hours=1), attempts=2, backoff=timedelta(milliseconds=1))
Handler = Callable[[RunningEffect], Any]
# The SDK has a path of its own and puts our body into a text, so what follows says nothing of it.
BY_ADDRESS = {name: post for name, post in OURS.items() if name != "openai"}


def run(ledger: Ledger, handler: Handler, **words: Any) -> Any:
    return ledger.run(CALL, handler, side_effect="payment", **words)


def run_with(ledger: Ledger, name: str, handler: Handler, **words: Any) -> Any:
    """Run a call of its own for each client."""
    call = ToolCall(run_id=name, tool="pay", args={"amount": 5})
    return ledger.run(call, handler, side_effect="payment", **words)


# ── across attempts ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("refreshes_on", [1, 2], ids=["token cached on retry", "token refreshed on retry"])
def test_86_a_token_request_in_one_attempt_alone_moves_no_key(
    refreshes_on: int, ledger: Ledger, provider: Provider
) -> None:
    for name, post in BY_ADDRESS.items():

        def handler(effect: RunningEffect, post: Post = post) -> Any:
            if effect.attempt == refreshes_on:
                post(f"{provider.url}/token", {"grant_type": "client_credentials"})
            return post(f"{provider.url}/v1/charges", {"amount": 5})["id"]

        provider.charges.clear()
        provider.script = ["swallow"] * (3 if name in RETRYING else 1)
        assert run_with(ledger, name, handler, downstream=AGAIN) == "ch_1"
        assert len(provider.charges) == 1, name


def test_named_items_in_another_order_are_each_charged_once(ledger: Ledger, provider: Provider) -> None:
    for name, post in OURS.items():

        def handler(effect: RunningEffect, post: Post = post) -> Any:
            for item in ("a", "b") if effect.attempt == 1 else ("b", "a"):
                with effect.request(item):
                    post(f"{provider.url}/v1/charges", {"item": item})
            if effect.attempt == 1:
                raise ConnectionResetError

        provider.charges.clear()
        run_with(ledger, name, handler, downstream=AGAIN)
        assert len(provider.charges) == 2, name


def test_items_without_a_name_are_refused_and_none_is_charged_twice(ledger: Ledger, provider: Provider) -> None:
    for name, post in OURS.items():

        def handler(effect: RunningEffect, post: Post = post) -> Any:
            for item in ("a", "b") if effect.attempt == 1 else ("b", "a"):
                post(f"{provider.url}/v1/charges", {"item": item})

        provider.charges.clear()
        with pytest.raises(AmbiguousRequest, match=r"effect\.request"):
            run_with(ledger, name, handler, downstream=AGAIN)
        assert len(provider.charges) == 1, name
        assert ledger.effects(run_id=name)[0].status == "in_doubt"


def test_a_probe_computes_the_key_of_a_request(ledger: Ledger, provider: Provider) -> None:
    provider.always = "swallow"
    url = f"{provider.url}/v1/charges?expand=1"

    def probe(effect: Effect) -> Any:
        return Succeeded("found") if effect.request_key("post", url, "item-7") in provider.keys else None

    def handler(effect: RunningEffect) -> Any:
        with effect.request("item-7"):
            assert effect.request_key("POST", url) == effect.effect.request_key("POST", url, "item-7")
            OURS["httpx2"](url, {})

    with pytest.raises(httpx2.RemoteProtocolError):
        run(ledger, handler)
    assert run(ledger, handler, reconcile=probe) == "found"


# ── in one attempt ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_retry_inside_a_handler_has_the_same_key(ledger: Ledger, provider: Provider) -> None:
    for name, post in BY_ADDRESS.items():

        def handler(effect: RunningEffect, post: Post = post) -> Any:
            for _ in range(2):
                try:
                    post(f"{provider.url}/v1/charges", {"amount": 5, "currency": "eur"})
                except Exception:
                    continue
            return post(f"{provider.url}/v1/charges", {"currency": "eur", "amount": 5})["id"]

        provider.charges.clear()
        provider.script = ["swallow"] * 2
        assert run_with(ledger, name, handler) == "ch_1"
        assert len(provider.charges) == 1, name


def test_86_a_body_that_differs_never_leaves_unless_only_volatile_fields_do(ledger: Ledger, provider: Provider) -> None:
    for name, post in BY_ADDRESS.items():

        def handler(effect: RunningEffect, post: Post = post) -> Any:
            for moment in ("12:00", "12:01"):
                post(f"{provider.url}/v1/charges", {"amount": 5, "sent_at": moment, "meta": {"at": moment}})

        for volatile, most in (([], 1), (["sent_at"], 1), (["sent_at", "meta.at"], 2)):
            provider.requests.clear()
            provider.charges.clear()
            run_id = f"{name} {volatile}"
            if most == 1:
                with pytest.raises(AmbiguousRequest, match="volatile"):
                    run_with(ledger, run_id, handler, volatile=volatile)
            else:
                run_with(ledger, run_id, handler, volatile=volatile)
            assert (len(provider.requests), len(provider.charges)) == (most, 1), run_id


def upload_by_httpx(url: str, content: bytes) -> None:
    with httpx.Client(transport=HttpxTransport()) as client:
        client.post(url, files={"invoice": ("invoice.pdf", content)}, data={"amount": "5"})


def upload_by_httpx2(url: str, content: bytes) -> None:
    async def send() -> None:
        async with httpx2.AsyncClient(transport=AsyncIdempotencyTransport()) as client:
            await client.post(url, files={"invoice": ("invoice.pdf", content)}, data={"amount": "5"})

    asyncio.run(send())


def upload_by_requests(url: str, content: bytes) -> None:
    with requests.Session() as session:
        session.mount("http://", IdempotencyAdapter())
        session.post(url, files={"invoice": ("invoice.pdf", content)}, data={"amount": "5"})


def upload_by_aiohttp(url: str, content: bytes) -> None:
    async def send() -> None:
        form = aiohttp.FormData({"amount": "5"})
        form.add_field("invoice", content, filename="invoice.pdf")
        async with aiohttp.ClientSession(middlewares=(idempotency,)) as session, session.post(url, data=form):
            return

    asyncio.run(send())


@pytest.mark.parametrize("upload", [upload_by_httpx, upload_by_httpx2, upload_by_requests, upload_by_aiohttp])
def test_an_upload_that_is_sent_again_is_the_same_although_its_boundary_is_random(
    upload: Callable[[str, bytes], None], quick: Ledger, provider: Provider
) -> None:
    url, file = f"{provider.url}/v1/invoices", b"%PDF-1.7"

    def again(effect: RunningEffect) -> None:
        upload(url, file)
        upload(url, file)

    def other(effect: RunningEffect) -> None:
        upload(url, file)
        upload(url, file + b"!")

    run_with(quick, "same", again)
    bodies = [body for _, _, _, body in provider.requests]
    assert (len(provider.charges), bodies[0] != bodies[1]) == (1, True)
    assert all(file in body and b"invoice.pdf" in body for body in bodies), "it arrived whole"
    with pytest.raises(AmbiguousRequest):
        run_with(quick, "other", other)
    assert len(provider.requests) == 3


def stream_by_httpx(url: str) -> None:
    with httpx.Client(transport=HttpxTransport()) as client:
        client.post(url, content=_chunks())


def stream_by_requests(url: str) -> None:
    with requests.Session() as session:
        session.mount("http://", IdempotencyAdapter())
        session.post(url, data=_chunks())


def stream_by_aiohttp(url: str) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in _chunks():
            yield chunk

    async def send() -> None:
        async with aiohttp.ClientSession(middlewares=(idempotency,)) as session, session.post(url, data=chunks()):
            return

    asyncio.run(send())


def _chunks() -> Iterator[bytes]:
    yield b"one "
    yield b"two"


@pytest.mark.parametrize("stream", [stream_by_httpx, stream_by_requests, stream_by_aiohttp])
def test_a_second_stream_to_one_address_needs_a_name(
    stream: Callable[[str], None], quick: Ledger, provider: Provider
) -> None:
    def twice(effect: RunningEffect) -> None:
        stream(provider.url)
        stream(provider.url)

    def named(effect: RunningEffect) -> None:
        with effect.request("log"):
            twice(effect)

    with pytest.raises(AmbiguousRequest):
        run_with(quick, "unnamed", twice)
    run_with(quick, "named", named)
    assert [body for _, _, _, body in provider.requests] == [b"one two"] * 3
    assert len(set(provider.keys)) == 2


def test_threads_that_send_at_once_get_one_key_for_one_body(quick: Ledger, provider: Provider) -> None:
    together = threading.Barrier(8)

    def send(amount: int) -> str:
        together.wait(PATIENCE)
        try:
            OURS["httpx"](f"{provider.url}/v1/charges", {"amount": amount})
        except AmbiguousRequest:
            return "refused"
        return "sent"

    def handler(effect: RunningEffect) -> list[str]:
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda task: task[0].run(send, task[1]), [(copy_context(), n % 2) for n in range(8)]))

    assert sorted(run(quick, handler)) == ["refused"] * 4 + ["sent"] * 4
    assert (len(provider.charges), len(set(provider.keys))) == (1, 1)


def test_of_nested_names_the_inner_one_counts_and_none_reaches_another_call(quick: Ledger, provider: Provider) -> None:
    url = provider.url

    def inner(effect: RunningEffect) -> str:
        return effect.request_key("POST", url)

    def handler(effect: RunningEffect) -> list[Any]:
        with effect.request("outer"):
            with effect.request("inner"):
                first = effect.request_key("POST", url)
            second = effect.request_key("POST", url)
            other = run_with(quick, "other", inner)
        return [first, second, effect.request_key("POST", url), other]

    first, second, third, other = run(quick, handler)
    mine, its = (next(e for e in quick.effects() if e.run_id == run_id) for run_id in ("order-1", "other"))
    assert first == mine.request_key("POST", url, "inner")
    assert second == mine.request_key("POST", url, "outer")
    assert third == mine.request_key("POST", url)
    assert other == its.request_key("POST", url), "the name around a call names nothing inside it"


def test_a_name_that_names_nothing_is_refused(quick: Ledger) -> None:
    def handler(effect: RunningEffect) -> None:
        with effect.request(""):
            raise AssertionError

    with pytest.raises(BadCall, match="request name"):
        run(quick, handler)


def test_each_method_and_address_has_its_own_key_and_safe_methods_have_none(quick: Ledger, provider: Provider) -> None:
    def handler(effect: RunningEffect) -> None:
        with httpx.Client(transport=HttpxTransport(), base_url=provider.url) as client:
            for method in ("POST", "PUT", "DELETE", "GET"):
                client.request(method, "/v1/charges/1")
            client.post("/v1/charges/2")
            client.post("/v1/charges/2?expand=1")

    run(quick, handler)
    assert provider.keys[3] is None
    assert len({*provider.keys}) == 6


def test_a_request_that_is_redirected_has_the_key_of_its_new_address(quick: Ledger) -> None:
    keys: list[str] = []

    def provider(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers["Idempotency-Key"])
        is_first = request.url.path == "/old"
        return httpx2.Response(308, headers={"Location": "/new"}) if is_first else httpx2.Response(200)

    def handler(effect: RunningEffect) -> list[str]:
        transport = IdempotencyTransport(httpx2.MockTransport(provider))
        with httpx2.Client(transport=transport, follow_redirects=True) as client:
            client.post("https://api.example/old", json={})
        return [effect.request_key("POST", f"https://api.example/{path}") for path in ("old", "new")]

    found = run(quick, handler)
    assert found == keys


def test_the_message_shows_the_address_without_its_secrets(quick: Ledger, provider: Provider) -> None:
    def handler(effect: RunningEffect) -> None:
        for amount in range(2):
            OURS["httpx"](
                f"{provider.url.replace('//', '//user:hunter2@')}/v1/charges?token=hunter2", {"amount": amount}
            )

    with pytest.raises(AmbiguousRequest) as caught:
        run(quick, handler)
    assert f"POST {provider.url}/v1/charges was requested before" in str(caught.value)
    assert "hunter2" not in str(caught.value)


# ── importing ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("library", ["httpx", "httpx2", "requests", "aiohttp"])
def test_each_module_needs_its_own_client_only_and_says_how_to_get_it(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {"httpx", "httpx2", "requests", "aiohttp"} - {library}
    for name in [name for name in sys.modules if name.startswith("indelible.http.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in others:
        monkeypatch.setitem(sys.modules, name, None)
    importlib.import_module(f"indelible.http.{library}")
    for name in others:
        with pytest.raises(ImportError, match=r"needs .*: pip install"):
            importlib.import_module(f"indelible.http.{name}")


def test_a_name_that_the_package_does_not_have_is_an_attribute_error() -> None:
    import indelible.http

    with pytest.raises(AttributeError, match="Nothing"):
        _ = indelible.http.Nothing


async def _parts() -> AsyncIterator[bytes]:
    yield b"a"
    yield b"b"


def _form() -> aiohttp.FormData:
    form = aiohttp.FormData({"amount": "5"})
    form.add_field("file", io.BytesIO(b"content"), filename="a")
    return form


BODIES: dict[str, Callable[[], Any]] = {
    "bytes": lambda: b"content",
    "text": lambda: "content",
    "a bytearray": lambda: bytearray(b"content"),
    "a memoryview": lambda: memoryview(b"content"),
    "a form": lambda: {"amount": "5"},
    "an upload": _form,
    "bytes in memory": lambda: io.BytesIO(b"content"),
    "text in memory": lambda: io.StringIO("content"),
    "a payload": lambda: aiohttp.JsonPayload({"amount": 5}),
    "a stream": _parts,
}


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("name", sorted(BODIES))
def test_each_body_of_aiohttp_is_sent_with_a_key_and_counts_as_sent(
    name: str, is_lost: bool, quick: Ledger, provider: Provider
) -> None:
    provider.always = "swallow" if is_lost else "ok"

    async def handler(effect: RunningEffect) -> Any:
        async with (
            aiohttp.ClientSession(middlewares=(idempotency,)) as session,
            session.post(provider.url, data=BODIES[name]()) as response,
        ):
            return await response.json()

    with suppress(aiohttp.ClientError):
        run(quick, handler, marks_sending=True)
    assert quick.effects()[0].status == ("in_doubt" if is_lost else "succeeded")
    assert [(key is not None, bool(body)) for _, _, key, body in provider.requests] == [(True, True)]


def test_an_aiohttp_that_cannot_read_a_body_before_it_is_sent_is_not_imported() -> None:
    program = "import aiohttp.payload; del aiohttp.payload.Payload.as_bytes; import indelible.http.aiohttp"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, "3.12.1 or newer" in done.stderr) == (1, True)
