"""A server that pays and then breaks its answer: whatever the way, one approval is one payment, and it is in doubt.

The proxy is a process, and so is the server behind it. The numbers are those of the faults that were found.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from indelible import Ledger, migrate
from indelible.integrations.mcp_words import TURN
from indelible.integrations.telling import TEXTS
from tests.integrations.mcp_breaking import NEVER, WAYS

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).with_name("mcp_breaking.py")
CALLS = 3
TERMS = "\n".join(f'[tools.{tool}]\nside_effect = "payment"\ntimeout_s = 5\n' for tool in ("pay", "audited_pay"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def broken_server(kind: str, deeds: Path) -> Iterator[list[str]]:
    """Start the server, or say how the proxy starts it."""
    command = [sys.executable, str(SERVER), str(deeds), kind]
    if kind == "stdio":
        yield command
        return
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield [f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp"]
        finally:
            server.kill()


@asynccontextmanager
async def proxied(url: str, folder: Path, server: list[str], *options: str) -> AsyncIterator[Client]:
    terms = folder / "terms.toml"
    terms.write_text(TERMS)
    told = ("--terms", str(terms), "--approval", "required", "--approver", "ana", *options)
    words = ("-m", "indelible.cli", "mcp", "proxy", "--url", url, "--run", "order-1", *told, "--", *server)

    async def approves(ctx: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    parameters = StdioServerParameters(command=sys.executable, args=list(words), env=dict(os.environ))
    async with Client(parameters, elicitation_callback=approves) as client:
        yield client


def tool_of(way: str) -> str:
    return "audited_pay" if way.endswith("its_schema") else "pay"


async def heard(client: Client, way: str, turn: str) -> str:
    meta = cast("types.RequestParamsMeta", {TURN: turn})
    result = await client.call_tool(tool_of(way), {"way": way}, meta=meta)
    assert result.is_error, way
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_83_a_lost_answer_is_one_payment_in_doubt_and_keeps_its_budget(
    kind: str, store_url: str, tmp_path: Path
) -> None:
    migrate(store_url)
    ways, deeds = WAYS[kind], tmp_path / "deeds"
    with Ledger.open(store_url, seal=False) as ledger:
        ways = (*ways, "bye") if kind == "stdio" else ways
        budget = {"name": "payments", "limit": len(ways), "window": "24h"}
        ledger.apply_policy({"budgets": [budget], "open_approvals": {"run": 100}}, by="ana")
    told: dict[str, list[str]] = {way: [] for way in ways}
    with broken_server(kind, deeds) as server:
        async with proxied(store_url, tmp_path, server) as client:
            few = anyio.CapacityLimiter(8)  # on a busy machine, all at once would run into time limits on the way

            async def call(way: str) -> None:
                async with few:
                    for number in range(CALLS):
                        told[way].append(await heard(client, way, "m1" if number < 2 else "m2"))

            async with anyio.create_task_group() as group:
                for way in set(ways) - {"bye"}:
                    group.start_soon(call, way)
            if kind == "stdio":  # the server ends, and the proxy goes on without it
                await call("bye")
            else:
                assert "budget" in await heard(client, "one_more", "m1")
    assert Counter(deeds.read_text().split()) == dict.fromkeys(ways, 1)
    with Ledger.open(store_url, seal=False) as ledger:
        found = ledger.effects(run_id="order-1", limit=200)
        effects = {effect.args["way"]: effect for effect in found}
        assert len(found) == len(effects)
        assert {way: effect.status for way, effect in effects.items()} == dict.fromkeys(ways, "in_doubt")
        assert all(effect.charges_json for effect in effects.values())
        assert {one.status for one in ledger.approvals(limit=200)} == {"consumed"}
    for way, texts in told.items():
        doubt = TEXTS["in_doubt"].format(tool=tool_of(way), effect=effects[way].id)
        assert texts == [f"Indelible: {doubt}"] * CALLS, way
    assert len(set(ways) - set(NEVER)) >= 12
