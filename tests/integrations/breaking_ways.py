"""How a tool loses its answer after the deed: on the wire, by every HTTP client; and by what it raises itself."""

from __future__ import annotations

import asyncio
import http.client
import json
import smtplib
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import agents
import aiohttp
import httpx
import httpx2
import psycopg
import pydantic
import pydantic_ai
import requests
import urllib3
from langchain_core.tools import ToolException
from langgraph.errors import GraphRecursionError
from mcp.server.mcpserver.exceptions import ToolError as McpToolError
from mcp.shared.exceptions import MCPError
from pydantic_ai.exceptions import ToolFailed

from indelible import Ledger, NothingHappened, Refused, RunningEffect, ToolCall, current_effect, errors
from tests.integrations import breaking_provider
from tests.integrations.breaking_provider import WAYS
from tests.server.test_connecting import _certify
from tests.waiting import PATIENCE

SHORT = 0.3
"""How many seconds a client waits for an answer that never comes."""
READS_IT = frozenset({("urllib", "no_gzip"), ("aiohttp", "empty")})
"""Clients that read an answer although it is broken this way: aiohttp reads a JSON body of no bytes as None."""


@dataclass
class Provider:
    """The provider's process, as its clients reach it."""

    plain: str
    tls: str
    ca: Path
    context: ssl.SSLContext
    """Trusts the provider."""
    _client: httpx2.Client = field(default_factory=lambda: httpx2.Client(trust_env=False))

    def address(self, way: str, order: str) -> str:
        """Return where an order is carried out, with its answer broken this way."""
        base = "http://bank.invalid" if way.startswith("proxy") else self.tls if way.startswith("tls") else self.plain
        return f"{base}/deeds/{way}?order={quote(order, safe='')}"

    def booked(self, order: str) -> tuple[int, list[str | None]]:
        """Return how often an order was carried out, and the key of each of its requests."""
        told = self._client.get(f"{self.plain}/books").json().get(order, {"deeds": 0, "keys": []})
        return told["deeds"], told["keys"]


@contextmanager
def provider_process(folder: Path) -> Iterator[Provider]:
    """Run the provider until the test is over."""
    _certify(folder)
    chain = folder / "chain.pem"
    chain.write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    command = [sys.executable, "-m", breaking_provider.__name__, str(chain)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        plain, tls = process.stdout.readline().split()
        ca = folder / "ca.pem"
        context = ssl.create_default_context(cafile=ca)
        yield Provider(f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{tls}", ca, context)
        process.kill()


@dataclass(frozen=True)
class Request:
    """One request of a tool: where it goes, by which proxy, and the key that goes with it."""

    url: str
    proxy: str | None
    key: str | None
    seconds: float
    provider: Provider

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Idempotency-Key": self.key}


def request_of(provider: Provider, way: str, order: str, key: str | None = None) -> Request:
    proxy = provider.plain if way.startswith("proxy") else None
    return Request(provider.address(way, order), proxy, key, SHORT if way == "stall" else PATIENCE, provider)


def _read(response: Any) -> Any:
    response.raise_for_status()
    return response.json()


def by_httpx(library: Any) -> Callable[[Request], Any]:
    def post(asked: Request) -> Any:
        words: dict[str, Any] = {"proxy": asked.proxy, "verify": asked.provider.context, "timeout": asked.seconds}
        with library.Client(trust_env=False, follow_redirects=True, **words) as client:
            return _read(client.post(asked.url, json={}, headers=asked.headers))

    return post


def by_requests(asked: Request) -> Any:
    with requests.Session() as session:
        session.trust_env, session.verify = False, str(asked.provider.ca)
        proxies = None if asked.proxy is None else {"http": asked.proxy}
        return _read(session.post(asked.url, json={}, headers=asked.headers, timeout=asked.seconds, proxies=proxies))


def by_urllib(asked: Request) -> Any:
    proxies = urllib.request.ProxyHandler({} if asked.proxy is None else {"http": asked.proxy})
    opener = urllib.request.build_opener(proxies, urllib.request.HTTPSHandler(context=asked.provider.context))
    request = urllib.request.Request(asked.url, b"{}", {"Content-Type": "application/json", **asked.headers})
    try:
        with opener.open(request, timeout=asked.seconds) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        error.close()
        raise


def by_urllib3(asked: Request) -> Any:
    words: dict[str, Any] = {"timeout": asked.seconds, "ca_certs": str(asked.provider.ca)}
    pool: Any = urllib3.PoolManager(**words) if asked.proxy is None else urllib3.ProxyManager(asked.proxy, **words)
    with pool:
        # By default it sends a POST four times if TLS breaks: what a client repeats by itself, tests/http shows.
        response = pool.request("POST", asked.url, json={}, headers=asked.headers, retries=False)
        if response.status >= 400:
            raise urllib3.exceptions.HTTPError(f"answered {response.status}")
        return response.json()


async def by_aiohttp(asked: Request) -> Any:
    limit = aiohttp.ClientTimeout(total=None, sock_read=asked.seconds)
    words: dict[str, Any] = {"proxy": asked.proxy, "ssl": asked.provider.context, "headers": asked.headers}
    async with aiohttp.ClientSession(timeout=limit) as session, session.post(asked.url, json={}, **words) as response:
        response.raise_for_status()
        return await response.json()


async def by_httpx_async(asked: Request) -> Any:
    words: dict[str, Any] = {"proxy": asked.proxy, "verify": asked.provider.context, "timeout": asked.seconds}
    async with httpx.AsyncClient(trust_env=False, follow_redirects=True, **words) as client:
        return _read(await client.post(asked.url, json={}, headers=asked.headers))


BLOCKING: dict[str, Callable[[Request], Any]] = {
    "httpx": by_httpx(httpx),
    "httpx2": by_httpx(httpx2),
    "requests": by_requests,
    "urllib": by_urllib,
    "urllib3": by_urllib3,
}
AWAITED: dict[str, Callable[[Request], Awaitable[Any]]] = {"aiohttp": by_aiohttp, "httpx": by_httpx_async}

_GET = httpx.Request("POST", "http://bank.invalid")


class Paid(pydantic.BaseModel):
    """What the tool takes."""

    order: str
    amount: int = 5


def _misread() -> Exception:
    """Return what a tool raises that reads an answer with a model: frameworks take it for wrong arguments."""
    try:
        Paid.model_validate({"amount": "much"})
    except pydantic.ValidationError as wrong:
        return wrong
    raise AssertionError


RAISED: dict[str, Callable[[], BaseException]] = {
    "ConnectionResetError": lambda: ConnectionResetError(104, "reset by peer"),
    "BrokenPipeError": lambda: BrokenPipeError(32, "broken pipe"),
    "TimeoutError": lambda: TimeoutError("timed out"),
    "ssl.SSLEOFError": lambda: ssl.SSLEOFError(8, "unexpected eof"),
    "http.client.IncompleteRead": lambda: http.client.IncompleteRead(b"{"),
    "httpx.ReadTimeout": lambda: httpx.ReadTimeout("timed out", request=_GET),
    "httpx.ConnectError": lambda: httpx.ConnectError("of the second request", request=_GET),
    "httpx.PoolTimeout": lambda: httpx.PoolTimeout("of the second request", request=_GET),
    "httpx.ProxyError": lambda: httpx.ProxyError("407", request=_GET),
    "requests.ConnectTimeout": lambda: requests.ConnectTimeout("of the second request"),
    "requests.SSLError": lambda: requests.exceptions.SSLError("eof"),
    "requests.ProxyError": lambda: requests.exceptions.ProxyError("cannot connect to proxy"),
    "urllib3.ProtocolError": lambda: urllib3.exceptions.ProtocolError("connection aborted"),
    "urllib3.MaxRetryError": lambda: urllib3.exceptions.MaxRetryError(None, "/"),  # type: ignore[arg-type]
    "aiohttp.ServerDisconnectedError": lambda: aiohttp.ServerDisconnectedError(),
    "aiohttp.ClientPayloadError": lambda: aiohttp.ClientPayloadError("not completed"),
    "psycopg.OperationalError": lambda: psycopg.OperationalError("server closed the connection unexpectedly"),
    "psycopg.UniqueViolation": lambda: psycopg.errors.UniqueViolation("duplicate key"),
    "psycopg.SerializationFailure": lambda: psycopg.errors.SerializationFailure("could not serialize access"),
    "smtplib.SMTPServerDisconnected": lambda: smtplib.SMTPServerDisconnected("connection unexpectedly closed"),
    "KeyError": lambda: KeyError("id"),
    "AssertionError": lambda: AssertionError(),
    "NotImplementedError": lambda: NotImplementedError(),
    "RecursionError": lambda: RecursionError("maximum recursion depth exceeded"),
    "MemoryError": lambda: MemoryError(),
    "StopAsyncIteration": lambda: StopAsyncIteration(),
    "ExceptionGroup": lambda: ExceptionGroup("two tasks", [TimeoutError(), KeyError("id")]),
    "pydantic.ValidationError": _misread,
    # What a framework takes for its own business, although the deed is done
    "langchain.ToolException": lambda: ToolException("try again"),
    "langgraph.GraphRecursionError": lambda: GraphRecursionError("an agent inside"),
    "pydantic_ai.ModelRetry": lambda: pydantic_ai.ModelRetry("try again"),
    "pydantic_ai.ToolFailed": lambda: ToolFailed("try again"),
    "pydantic_ai.UnexpectedModelBehavior": lambda: pydantic_ai.UnexpectedModelBehavior("an agent inside"),
    "agents.UserError": lambda: agents.UserError("try again"),
    "agents.MaxTurnsExceeded": lambda: agents.MaxTurnsExceeded("an agent inside"),
    "mcp.ToolError": lambda: McpToolError("try again"),
    "mcp.MCPError": lambda: MCPError(-32602, "invalid params"),
    # What another call of the ledger was told, which the tool made after the deed
    "BadCall": lambda: errors.BadCall("of a call inside"),
    "NoRun": lambda: errors.NoRun("of a call inside"),
    "Stopped": lambda: errors.Stopped("of a call inside"),
    "ResourceBusy": lambda: errors.ResourceBusy("of a call inside"),
    "StillRunning": lambda: errors.StillRunning("of a call inside"),
    "ToolUnavailable": lambda: errors.ToolUnavailable("of a call inside"),
    "StoreUnavailable": lambda: errors.StoreUnavailable("of a call inside"),
}
"""What a tool raises after the deed, by the name of its class."""
INSIDE: dict[str, Callable[[], Exception]] = {
    "NothingHappened inside": lambda: NothingHappened("the receipt was not sent"),
    "Refused inside": lambda: Refused("the receipt was refused"),
}
"""What a second call of the ledger raises that the tool makes after the deed: it speaks of that call alone."""
CANCELLED = "asyncio.CancelledError"
EVERY_WAY = (*WAYS, *RAISED, *INSIDE, CANCELLED)


@dataclass
class Pay:
    """The tool: it has its order carried out, and loses the answer on the way back."""

    provider: Provider
    way: str
    client: str
    ledger: Ledger
    is_async: bool = False
    passes_key: bool = False
    given_key: str | None = None
    """The effect's key, where the tool runs in another task than the ledger, or by hand."""
    url: str | None = None
    """Where the tool is, if a server calls it there."""

    @property
    def timeout(self) -> timedelta:
        """How long a server waits for a tool at an address."""
        return timedelta(seconds=SHORT if self.way == "stall" else PATIENCE)

    @property
    def function(self) -> Callable[..., Any]:
        if self.is_async:

            async def pay(order: str, amount: int = 5) -> Any:
                """Pay."""
                return await self.awaited(order)

        else:

            def pay(order: str, amount: int = 5) -> Any:  # type: ignore[misc]
                """Pay."""
                return self.blocking(order)

        return pay

    @property
    def model(self) -> type[pydantic.BaseModel]:
        return Paid

    def request(self, order: str) -> Request:
        way = self.way if self.way in WAYS else "ok"
        key = (self.given_key or current_effect().key) if self.passes_key else None
        return request_of(self.provider, way, order, key)

    def blocking(self, order: str) -> Any:
        paid = BLOCKING[self.client if self.client in BLOCKING else "httpx"](self.request(order))
        self._raise(order)
        return paid

    async def awaited(self, order: str) -> Any:
        if self.client in AWAITED:
            paid = await AWAITED[self.client](self.request(order))
        else:
            paid = await asyncio.to_thread(BLOCKING[self.client], self.request(order))
        self._raise(order)
        return paid

    def _raise(self, order: str) -> None:
        if self.way == CANCELLED:
            raise asyncio.CancelledError
        if self.way in INSIDE:
            self.ledger.run(ToolCall(tool="receipt", args={"order": order}, run_id=f"{order}-receipt"), self._refuse)
        if self.way in RAISED:
            raise RAISED[self.way]()

    def _refuse(self, effect: RunningEffect) -> None:
        raise INSIDE[self.way]()
