"""MCP: which server a tool is of tells calls and approvals apart, by the proxy and under `instrument()`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.server import Server

from indelible import AsyncLedger, instrument, migrate
from indelible.integrations.mcp import ledger_proxy
from tests.integrations import mcp_bank

pytestmark = pytest.mark.anyio
PAYS = {"side_effect": "payment"}
ASKS = {**PAYS, "approval": "required"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def ledger(store_url: str) -> AsyncIterator[AsyncLedger]:
    migrate(store_url)
    async with AsyncLedger.open(store_url, seal=False) as opened:
        yield opened


class Bank:
    """Is an MCP server with one tool, which counts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paid = 0
        self.server: Server[Any] = Server(name, on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="pay", input_schema={"type": "object"})])

    async def _call(self, ctx: Any, params: Any) -> types.CallToolResult:
        self.paid += 1
        return types.CallToolResult(content=[types.TextContent(text=f"paid at {self.name}")])


@asynccontextmanager
async def connected(ledger: AsyncLedger, bank: Bank, way: str, terms: Any) -> AsyncIterator[Client]:
    """Connect to a bank, by a proxy or under `instrument()`."""
    async with Client(bank.server) as plain:
        if way == "instrument":
            with instrument(ledger, terms=terms), ledger.in_run("order-1"):
                yield plain
            return
        words: dict[str, Any] = {"server": bank.name} if way == "named" else {}
        async with Client(ledger_proxy(ledger, plain, run="order-1", terms=terms, **words)) as behind:
            yield behind


async def approve(ledger: AsyncLedger) -> None:
    (asked,) = await ledger.approvals(status="pending")
    await ledger.approve(asked, digest=asked.digest, by="ana")


@pytest.mark.parametrize("way", ["instrument", "named", "proxy"])
async def test_91_an_approval_of_one_server_is_not_spent_at_another(ledger: AsyncLedger, way: str) -> None:
    one, other, terms = Bank("bank-a"), Bank("bank-b"), {"pay": ASKS}
    async with connected(ledger, one, way, terms) as client:
        await client.session.call_tool("pay", {"amount": 5}, allow_input_required=True)
    await approve(ledger)
    async with connected(ledger, other, way, terms) as client:
        await client.session.call_tool("pay", {"amount": 5}, allow_input_required=True)
    assert (one.paid, other.paid) == (0, 0)
    assert len(await ledger.approvals(status="pending")) == 1


@pytest.mark.parametrize("way", ["instrument", "named"])
@pytest.mark.parametrize(
    "words",
    [
        {},
        {"scope": "orders"},
        {"key": ["amount"], "scope": "orders"},
        {"scope": "orders", "dedupe": "call"},
        {"resource": {"namespace": "s", "type": "o", "id": "args.amount"}, "scope": "orders"},
    ],
    ids=["plain", "scope", "key", "call", "resource"],
)
async def test_91_calls_of_two_servers_are_two_calls(ledger: AsyncLedger, way: str, words: dict[str, Any]) -> None:
    one, other, terms = Bank("bank-a"), Bank("bank-b"), {"pay": {**PAYS, **words}}
    for _ in range(2):
        for bank in (one, other):
            async with connected(ledger, bank, way, terms) as client:
                meta: Any = {"claudecode/toolUseId": "toolu_1"}
                said = await client.session.call_tool("pay", {"amount": 5}, meta=meta)
                assert isinstance(said.content[0], types.TextContent)
                assert said.content[0].text == f"paid at {bank.name}"
    assert (one.paid, other.paid) == (1, 1)


async def test_91_servers_of_one_name_are_told_apart_by_their_commands(ledger: AsyncLedger, tmp_path: Path) -> None:
    with instrument(ledger, terms={"pay": ASKS}), ledger.in_run("order-1"):
        for name in ("sandbox", "production"):
            (tmp_path / name).touch()
            reached = StdioServerParameters(command=sys.executable, args=[str(mcp_bank.__file__), str(tmp_path / name)])
            async with Client(reached) as client:
                await client.call_tool("pay", {"amount": 5})
            if name == "sandbox":
                await approve(ledger)
    assert (tmp_path / "production").read_text() == ""
    assert len(await ledger.approvals(status="pending")) == 1
