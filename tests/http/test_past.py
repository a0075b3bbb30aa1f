"""Ways past our transports, in a client that has one: nothing leaves by them, so that 'nothing was sent' stays true."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

from indelible import Ledger, RunningEffect, ToolCall
from indelible.errors import BadCall
from indelible.http import AsyncIdempotencyTransport, IdempotencyTransport
from indelible.http.aiohttp import idempotency
from indelible.http.httpx import AsyncIdempotencyTransport as AsyncHttpxTransport
from indelible.http.httpx import IdempotencyTransport as HttpxTransport
from indelible.http.httpx_requests import refuse_other_mounts
from indelible.http.requests import IdempotencyAdapter
from tests.http.provider import Provider
from tests.waiting import PATIENCE, eventually, refusing

CALL = ToolCall(run_id="order-1", tool="pay", args={"amount": 5})
SYNC: dict[str, tuple[Any, Any]] = {"httpx": (httpx, HttpxTransport), "httpx2": (httpx2, IdempotencyTransport)}
ASYNC: dict[str, tuple[Any, Any]] = {
    "httpx": (httpx, AsyncHttpxTransport),
    "httpx2": (httpx2, AsyncIdempotencyTransport),
}


def run(ledger: Ledger, handler: Callable[[RunningEffect], Any]) -> Any:
    return ledger.run(CALL, handler, side_effect="payment", marks_sending=True)


def refused(ledger: Ledger, provider: Provider, handler: Callable[[RunningEffect], Any]) -> None:
    """The request is refused before it leaves: the effect may run again, and nothing came in."""
    provider.always = "swallow"
    with pytest.raises(BadCall):
        run(ledger, handler)
    assert (ledger.effects()[0].status, provider.requests) == ("ready", [])


def _proxy(library: Any, transport: Any, url: str) -> dict[str, Any]:
    return {"transport": transport(), "proxy": url}


def _mounts(library: Any, transport: Any, url: str) -> dict[str, Any]:
    return {"transport": transport(), "mounts": {"all://": library.HTTPTransport()}}


def _other_default(library: Any, transport: Any, url: str) -> dict[str, Any]:
    """Only some hosts go through ours."""
    return {"mounts": {"https://": transport()}}


@pytest.mark.parametrize("words", [_proxy, _mounts, _other_default])
@pytest.mark.parametrize("name", sorted(SYNC))
def test_httpx_with_our_transport_beside_a_proxy_or_other_mounts_is_refused(
    name: str, words: Callable[..., dict[str, Any]], ledger: Ledger, provider: Provider
) -> None:
    library, transport = SYNC[name]

    def handler(effect: RunningEffect) -> Any:
        with library.Client(**words(library, transport, provider.url)) as client:
            return client.post(f"{provider.url}/v1/charges", json={"amount": 5}).json()

    refused(ledger, provider, handler)


@pytest.mark.parametrize("name", sorted(ASYNC))
def test_an_asynchronous_client_is_refused_too(name: str, quick: Ledger, provider: Provider) -> None:
    library, transport = ASYNC[name]

    async def handler(effect: RunningEffect) -> Any:
        async with library.AsyncClient(transport=transport(), proxy=provider.url) as client:
            return (await client.post("http://api.example/v1/charges", json={})).json()

    refused(quick, provider, handler)


@pytest.mark.parametrize("name", sorted(SYNC))
def test_a_proxy_of_the_inner_transport_and_mounts_of_ours_are_taken(
    name: str, quick: Ledger, provider: Provider
) -> None:
    library, transport = SYNC[name]

    def handler(effect: RunningEffect) -> Any:
        inner = transport(library.HTTPTransport(proxy=provider.url))
        with library.Client(transport=transport(), mounts={"all://api.example": inner, "all://b.example": None}) as one:
            return one.post("http://api.example/v1/charges", json={}).json()

    run(quick, handler)
    assert [key is not None for key in provider.keys] == [True]


def _before_0_28(kind: Any, name: str) -> Any:
    """A class of clients as httpx has it before 0.28: `proxies=` names a proxy for each scheme, or one for all."""

    class Client(kind):  # type: ignore[misc]
        def __init__(self, *, proxies: str | dict[str, str], mounts: Any = None, **words: Any) -> None:
            by_scheme = {"all://": proxies} if isinstance(proxies, str) else proxies
            own = {scheme: getattr(httpx, name)(proxy=url) for scheme, url in by_scheme.items()}
            kind.__init__.__wrapped__(self, mounts={**own, **(mounts or {})}, **words)

    refuse_other_mounts(Client, name)
    return Client


@pytest.mark.parametrize("by_scheme", [False, True])
def test_the_proxies_of_an_older_httpx_are_refused(by_scheme: bool, ledger: Ledger, provider: Provider) -> None:
    proxies = {"http://": provider.url} if by_scheme else provider.url

    def handler(effect: RunningEffect) -> Any:
        with _before_0_28(httpx.Client, "HTTPTransport")(transport=HttpxTransport(), proxies=proxies) as client:
            return client.post("http://api.example/v1/charges", json={"amount": 5}).json()

    refused(ledger, provider, handler)


def test_the_proxies_of_an_older_asynchronous_httpx_are_refused(quick: Ledger, provider: Provider) -> None:
    async def handler(effect: RunningEffect) -> Any:
        kind = _before_0_28(httpx.AsyncClient, "AsyncHTTPTransport")
        async with kind(transport=AsyncHttpxTransport(), proxies=provider.url) as client:
            return (await client.post("http://api.example/v1/charges", json={})).json()

    refused(quick, provider, handler)


@pytest.mark.parametrize("proxy", [None, "HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize("name", sorted(SYNC))
def test_a_proxy_of_the_environment_leads_nothing_past_ours(
    name: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch, ledger: Ledger, provider: Provider
) -> None:
    """Our transport sends to the provider itself, and what was sent is known; mounts alone raise."""
    library, transport = SYNC[name]
    provider.always = "swallow"
    if proxy is not None:
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")

    def handler(effect: RunningEffect) -> Any:
        with pytest.raises(BadCall):
            library.Client(mounts={"http://": transport()})
        with library.Client(transport=transport()) as client:
            return client.post(f"{provider.url}/v1/charges", json={"amount": 5}).json()

    with pytest.raises(library.RemoteProtocolError):
        run(ledger, handler)
    assert (ledger.effects()[0].status, [key is not None for key in provider.keys]) == ("in_doubt", [True])


@pytest.mark.parametrize(("version", "code"), [("0.22.0", 1), ("0.23.0", 0), ("1.0b1", 0)])
def test_an_httpx_that_does_not_tell_when_it_writes_is_not_imported(version: str, code: int) -> None:
    program = f"import httpx; httpx.__version__ = {version!r}; import indelible.http.httpx"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, "ImportError" in done.stderr) == (code, code == 1)


async def _plain(request: aiohttp.ClientRequest, handler: Any) -> aiohttp.ClientResponse:
    response: aiohttp.ClientResponse = await handler(request)
    return response


def test_aiohttp_middlewares_of_one_request_are_refused_without_ours(ledger: Ledger, provider: Provider) -> None:
    async def handler(effect: RunningEffect) -> Any:
        async with (
            aiohttp.ClientSession(middlewares=(idempotency,)) as session,
            session.post(f"{provider.url}/v1/charges", json={}, middlewares=(_plain,)) as response,
        ):
            return await response.json()

    refused(ledger, provider, handler)


def test_aiohttp_middlewares_of_one_request_are_taken_with_ours(quick: Ledger, provider: Provider) -> None:
    async def handler(effect: RunningEffect) -> Any:
        async with (
            aiohttp.ClientSession(middlewares=(idempotency,)) as session,
            session.post(f"{provider.url}/v1/charges", json={}, middlewares=(_plain, idempotency)) as response,
        ):
            return await response.json()

    run(quick, handler)
    assert [key is not None for key in provider.keys] == [True]


class OwnPools(IdempotencyAdapter):
    """Makes its pools itself."""

    def init_poolmanager(self, *args: Any, **words: Any) -> None:
        self.poolmanager = urllib3.PoolManager()


class OtherPoolClasses(IdempotencyAdapter):
    """Replaces the classes of the pools that ours has marked."""

    def init_poolmanager(self, *args: Any, **words: Any) -> None:
        super().init_poolmanager(*args, **words)
        self.poolmanager.pool_classes_by_scheme = dict(urllib3.poolmanager.pool_classes_by_scheme)


class OtherConnections(IdempotencyAdapter):
    """Makes connections itself, in pools that are ours."""

    def cert_verify(self, conn: Any, *args: Any) -> None:
        conn.ConnectionCls = urllib3.connection.HTTPConnection
        super().cert_verify(conn, *args)


class OwnProxy(IdempotencyAdapter):
    """Makes the pools of proxies itself."""

    def proxy_manager_for(self, proxy: str, **words: Any) -> Any:
        return urllib3.ProxyManager(proxy)


class OwnConnection(IdempotencyAdapter):
    """Chooses the pool itself."""

    def get_connection_with_tls_context(self, request: Any, *args: Any, **words: Any) -> Any:
        return urllib3.connection_from_url(request.url)


class OwnSend(IdempotencyAdapter):
    """Sends by itself."""

    def send(self, request: requests.PreparedRequest, *args: Any, **words: Any) -> requests.Response:
        return requests.adapters.HTTPAdapter.send(OwnPools(), request, *args, **words)


class _Beside(requests.adapters.HTTPAdapter):
    def send(self, request: requests.PreparedRequest, *args: Any, **words: Any) -> requests.Response:
        return requests.adapters.HTTPAdapter().send(request, *args, **words)


class SendBelow(IdempotencyAdapter, _Beside):
    """Another base class sends by itself."""


class _MakesPools(requests.adapters.HTTPAdapter):
    def init_poolmanager(self, *args: Any, **words: Any) -> None:
        self.poolmanager = urllib3.PoolManager()


class PoolsBefore(_MakesPools, IdempotencyAdapter):
    """Another base class makes the pools, before ours is asked."""


def _replaced() -> IdempotencyAdapter:
    adapter = IdempotencyAdapter()
    adapter.poolmanager = urllib3.PoolManager()
    return adapter


PAST_POOLS: dict[str, Callable[[], IdempotencyAdapter]] = {
    **{kind.__name__: kind for kind in (OwnPools, OtherPoolClasses, OtherConnections, OwnProxy, OwnConnection)},
    **{kind.__name__: kind for kind in (OwnSend, SendBelow, PoolsBefore)},
    "replaced": _replaced,
}


def _pay(adapter: IdempotencyAdapter, url: str, proxies: dict[str, str]) -> Any:
    with requests.Session() as session:
        session.mount("http://", adapter)
        return session.post(url, json={"amount": 5}, timeout=PATIENCE, proxies=proxies).json()


@pytest.mark.parametrize("name", sorted(PAST_POOLS))
def test_37_an_adapter_whose_own_pools_send_counts_as_sent(name: str, ledger: Ledger, provider: Provider) -> None:
    """Its connections do not tell when they write, so a lost answer is no proof."""
    provider.always = "swallow"
    proxies = {"http": provider.url} if name == "OwnProxy" else {}
    with pytest.raises(requests.ConnectionError):
        run(ledger, lambda effect: _pay(PAST_POOLS[name](), f"{provider.url}/v1/charges", proxies))
    assert (ledger.effects()[0].status, len(provider.charges)) == ("in_doubt", 1)


def test_37_own_pools_count_as_sent_before_they_send(quick: Ledger, provider: Provider) -> None:
    """A thread of the handler waits for its answer when the handler raises."""
    provider.always = "stall"

    def handler(effect: RunningEffect) -> None:
        asked = (OwnPools(), f"{provider.url}/v1/charges", {})
        threading.Thread(target=copy_context().run, args=(_lost, *asked), daemon=True).start()
        eventually(lambda: provider.requests)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        run(quick, handler)
    assert quick.effects()[0].status == "in_doubt"


def _lost(*args: Any) -> None:
    with pytest.raises(requests.RequestException):
        _pay(*args)


class OtherSettings(IdempotencyAdapter):
    """Changes what the pools are made with, as people do for certificates."""

    def init_poolmanager(self, *args: Any, **words: Any) -> None:
        super().init_poolmanager(*args, **words, ssl_context=ssl.create_default_context())


def test_an_adapter_that_only_changes_settings_still_proves_that_nothing_was_sent(quick: Ledger) -> None:
    with refusing() as port, pytest.raises(requests.ConnectionError):
        run(quick, lambda effect: _pay(OtherSettings(), f"http://127.0.0.1:{port}/", {}))
    assert quick.effects()[0].status == "ready"


def _session() -> requests.Session:
    session = requests.Session()
    session.mount("https://", IdempotencyAdapter())  # and http:// keeps the adapter of requests
    return session


def test_requests_with_our_adapter_elsewhere_in_the_session_are_refused(ledger: Ledger, provider: Provider) -> None:
    def handler(effect: RunningEffect) -> Any:
        with _session() as session:
            return session.post(f"{provider.url}/v1/charges", json={}, timeout=PATIENCE).json()

    refused(ledger, provider, handler)


def test_past_our_adapter_a_thread_without_context_counts_as_sent_by_all(quick: Ledger, provider: Provider) -> None:
    def handler(effect: RunningEffect) -> None:
        with _session() as session:
            words: dict[str, Any] = {"json": {}, "timeout": PATIENCE}
            thread = threading.Thread(target=session.post, args=(f"{provider.url}/v1/charges",), kwargs=words)
            thread.start()
            thread.join(PATIENCE)
        raise KeyError

    with pytest.raises(KeyError):
        run(quick, handler)
    assert (quick.effects()[0].status, provider.keys) == ("in_doubt", [None])
