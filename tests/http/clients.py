"""One way to post with every client, as plain as people use them and through our transports."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import urllib.request
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import aiohttp
import httpx
import httpx2
import openai
import requests
import urllib3

from indelible.http import AsyncIdempotencyTransport, IdempotencyTransport
from indelible.http.aiohttp import idempotency
from indelible.http.httpx import AsyncIdempotencyTransport as AsyncHttpxTransport
from indelible.http.httpx import IdempotencyTransport as HttpxTransport
from indelible.http.requests import IdempotencyAdapter
from tests.waiting import PATIENCE

Post = Callable[[str, Any], Any]
"""Posts a JSON value to an address, and returns the JSON value that comes back."""

patience: ContextVar[float] = ContextVar("patience", default=PATIENCE)
"""How many seconds clients wait for an answer; set it low where none will come."""
own_key: ContextVar[str | None] = ContextVar("own_key", default=None)
"""The key that a handler hands to its client itself, where no transport of ours does it."""
_TLS = ssl.create_default_context()  # made once: it takes longer than a request
_RETRY = urllib3.Retry(total=2, backoff_factor=0, allowed_methods=None, status_forcelist=[500, 503])


def _keyed() -> dict[str, str]:
    key = own_key.get()
    return {} if key is None else {"Idempotency-Key": key}


def _read(response: Any) -> Any:
    response.raise_for_status()
    return response.json()


def _plain(transport: Any) -> Any:
    return transport


def _httpx(library: Any, around: Callable[[Any], Any] = _plain) -> Post:
    def post(url: str, body: Any) -> Any:
        transport = around(library.HTTPTransport(verify=_TLS))
        with library.Client(transport=transport, timeout=patience.get()) as client:
            return _read(client.post(url, json=body))

    return post


def _async(library: Any, around: Callable[[Any], Any]) -> Post:
    async def send(url: str, body: Any) -> Any:
        transport = around(library.AsyncHTTPTransport(verify=_TLS))
        async with library.AsyncClient(transport=transport, timeout=patience.get()) as client:
            return _read(await client.post(url, json=body))

    return lambda url, body: asyncio.run(send(url, body))


def _requests(adapter: Callable[[], Any] = requests.adapters.HTTPAdapter) -> Post:
    def post(url: str, body: Any) -> Any:
        with requests.Session() as session:
            session.mount("http://", adapter())
            return _read(session.post(url, json=body, headers=_keyed(), timeout=patience.get()))

    return post


def _urllib(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=patience.get()) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        error.close()
        raise


class Answered(Exception):
    """The answer is no good, and its client raises nothing by itself."""


def _urllib3(url: str, body: Any) -> Any:
    with urllib3.PoolManager(retries=_RETRY, timeout=patience.get()) as pool:
        response = pool.request("POST", url, json=body, headers=_keyed())
        if response.status >= 400:
            raise Answered(f"answered {response.status}")
        return response.json()


def _aiohttp(**words: Any) -> Post:
    async def send(url: str, body: Any) -> Any:
        limit = aiohttp.ClientTimeout(total=None, sock_read=patience.get())
        async with aiohttp.ClientSession(timeout=limit, **words) as session, session.post(url, json=body) as response:
            response.raise_for_status()
            return await response.json()

    return lambda url, body: asyncio.run(send(url, body))


def _openai(around: Callable[[Any], Any] = _plain) -> Post:
    def post(url: str, body: Any) -> Any:
        http_client = httpx.Client(transport=around(httpx.HTTPTransport(verify=_TLS)), timeout=patience.get())
        with openai.OpenAI(
            api_key="k", base_url=url, max_retries=2, http_client=http_client, timeout=patience.get()
        ) as client:
            message: Any = {"role": "user", "content": json.dumps(body)}
            answer = client.chat.completions.create(model="m", messages=[message], extra_headers=_keyed())
            return {"id": answer.id}

    return post


PLAIN: dict[str, Post] = {
    "httpx": _httpx(httpx),
    "httpx2": _httpx(httpx2),
    "requests": _requests(),
    "requests with retries": _requests(lambda: requests.adapters.HTTPAdapter(max_retries=_RETRY)),
    "urllib": _urllib,
    "urllib3 with retries": _urllib3,
    "aiohttp": _aiohttp(),
    "openai": _openai(),
}
OURS: dict[str, Post] = {
    "httpx": _httpx(httpx, HttpxTransport),
    "httpx, asynchronous": _async(httpx, AsyncHttpxTransport),
    "httpx2": _httpx(httpx2, IdempotencyTransport),
    "httpx2, asynchronous": _async(httpx2, AsyncIdempotencyTransport),
    "requests": _requests(IdempotencyAdapter),
    "requests with retries": _requests(lambda: IdempotencyAdapter(max_retries=_RETRY)),
    "aiohttp": _aiohttp(middlewares=(idempotency,)),
    "openai": _openai(HttpxTransport),
}
LOST: tuple[type[Exception], ...] = (
    *(httpx.HTTPError, httpx2.HTTPError, requests.RequestException, urllib3.exceptions.HTTPError, aiohttp.ClientError),
    *(openai.OpenAIError, http.client.HTTPException, OSError, json.JSONDecodeError, Answered),
)
"""What the clients raise if no answer comes, or one that is no good."""
RETRYING = frozenset({"requests with retries", "urllib3 with retries", "openai"})
"""Clients that send again by themselves."""
