"""An MCP server over HTTP that ends its sessions: the proxy begins a new one, and sends no call again for it."""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from indelible import AsyncLedger, migrate
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.mcp_line import SteadyClient
from indelible.integrations.mcp_words import name_of

pytestmark = pytest.mark.anyio
TOOL = {"name": "pay", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Server(ThreadingHTTPServer):
    """A server of 2025-11-25 with sessions, which it can forget, as one that was started again has."""

    def __init__(self, answers: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.name = "bank"
        self.answers = answers
        self.sessions: set[str] = set()
        self.paid: list[int] = []
        self.heard: Counter[str] = Counter()
        self.forgets_before = ""

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}/mcp"

    def result_of(self, message: Any) -> Any:
        """Carry out what a client asks."""
        match message["method"]:
            case "initialize":
                told = {"name": self.name, "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": told}
            case "tools/list":
                return {"tools": [TOOL]}
            case _:
                self.paid.append(message["params"]["arguments"]["n"])
                return {"content": [{"type": "text", "text": "paid"}]}


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Offer no stream."""
        self._end(405)

    do_DELETE = do_GET

    def do_POST(self) -> None:
        """Answer in a session alone."""
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        bank, method = self.server, message["method"]
        bank.heard[method] += 1
        if method == bank.forgets_before:
            bank.sessions.clear()
        if method == "server/discover":
            self._end(400)
        elif method != "initialize" and self.headers.get("mcp-session-id") not in bank.sessions:
            self._end(404)
        elif "id" not in message:
            self._end(202)
        else:
            self._tell(message)

    def _tell(self, message: Any) -> None:
        bank, begun = self.server, {}
        if message["method"] == "initialize":
            begun = {"mcp-session-id": uuid.uuid4().hex}
            bank.sessions.add(begun["mcp-session-id"])
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": bank.result_of(message)})
        if bank.answers == "json":
            self._end(200, body, {"content-type": "application/json", **begun})
        else:
            self._end(200, f"event: message\ndata: {body}\n\n", {"content-type": "text/event-stream", **begun})

    def _end(self, code: int, body: str = "", headers: Any = None) -> None:
        self.send_response(code)
        for name, value in {**(headers or {}), "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())


@pytest.fixture(params=["json", "events"])
def bank(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(request.param) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@asynccontextmanager
async def proxied(url: str, bank: Server) -> AsyncIterator[Client]:
    """Put a proxy before the server, as the command does."""
    migrate(url)
    line = SteadyClient(None)
    async with (
        AsyncLedger.open(url, seal=False) as ledger,
        line,
        Client(streamable_http_client(bank.url, http_client=line)) as upstream,
    ):
        line.is_connected, line.server = True, name_of(upstream.session)
        async with Client(ledger_proxy(ledger, upstream, run="order-1", side_effect="payment")) as client:
            yield client


async def test_83_a_proxy_goes_on_after_its_server_forgot_the_session(sqlite_url: str, bank: Server) -> None:
    """It told the model for ever that the server is away, and to call again."""
    async with proxied(sqlite_url, bank) as client:
        for n in range(3):
            assert not (await client.call_tool("pay", {"n": n})).is_error
            bank.sessions.clear()
    assert bank.paid == [0, 1, 2]
    assert bank.heard["initialize"] == bank.heard["notifications/initialized"] == 3


async def test_83_a_call_whose_session_ends_is_not_sent_again(sqlite_url: str, bank: Server) -> None:
    async with proxied(sqlite_url, bank) as client:
        bank.forgets_before = "tools/call"
        assert (await client.call_tool("pay", {"n": 1})).is_error
        assert (await client.call_tool("pay", {"n": 1})).is_error
        assert bank.heard["tools/call"] == 1, "an answer of 404 may be a gateway's, after the deed"
        bank.forgets_before = ""
        assert not (await client.call_tool("pay", {"n": 2})).is_error
    assert bank.paid == [2]


async def test_91_no_session_is_begun_with_another_server(sqlite_url: str, bank: Server) -> None:
    async with proxied(sqlite_url, bank) as client:
        assert not (await client.call_tool("pay", {"n": 1})).is_error
        bank.name = "another bank"
        bank.sessions.clear()
        assert (await client.call_tool("pay", {"n": 2})).is_error
        assert not (await client.call_tool("pay", {"n": 1})).is_error, "the record still answers"
        bank.name = "bank"
        assert not (await client.call_tool("pay", {"n": 2})).is_error
    assert bank.paid == [1, 2]
