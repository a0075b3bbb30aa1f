"""`indelible mcp` as processes: killed in the middle, asked in one and answered in another, and only looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import mcp_types as types
import psutil
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from indelible import Ledger, ToolCall, migrate

pytestmark = pytest.mark.anyio
INDELIBLE = (sys.executable, "-m", "indelible.cli")
BANK = Path(__file__).with_name("mcp_bank.py")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(store_url: str) -> str:
    migrate(store_url)
    return store_url


@asynccontextmanager
async def proxied(url: str, paid: Path, *options: str, hangs: bool = False) -> AsyncIterator[Client]:
    bank = (sys.executable, str(BANK), str(paid), *(["hang"] if hangs else []))
    words = ("-m", "indelible.cli", "mcp", "proxy", "--url", url, "--run", "order-1", *options, "--", *bank)
    async with Client(StdioServerParameters(command=sys.executable, args=list(words), env=environment())) as client:
        yield client


def environment() -> dict[str, str]:
    return dict(os.environ)


def indelible(url: str, *words: str) -> str:
    ran = subprocess.run([*INDELIBLE, *words, "--url", url], capture_output=True, text=True, check=True, timeout=200)
    return ran.stdout


def paid_lines(paid: Path) -> int:
    return len(paid.read_text().splitlines()) if paid.exists() else 0


def text(result: types.CallToolResult) -> str:
    block, *_ = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def test_a_proxy_killed_after_the_payment_does_not_pay_again(url: str, tmp_path: Path) -> None:
    paid, terms = tmp_path / "paid", tmp_path / "terms.toml"
    terms.write_text("[tools.pay]\nlease_s = 1\n")
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            async with proxied(url, paid, "--terms", str(terms), hangs=True) as client:
                with pytest.raises(MCPError):
                    await client.call_tool("pay", {"to": "ana"})

        group.start_soon(ask)
        while paid_lines(paid) == 0:  # noqa: ASYNC110  # another process writes it
            await anyio.sleep(0.02)
        (proxy,) = [one for one in psutil.Process().children(recursive=True) if "proxy" in one.cmdline()]
        proxy.kill()
    async with proxied(url, paid) as client:
        again = await client.call_tool("pay", {"to": "ana"})
    assert again.is_error
    assert "may have happened" in text(again)
    assert paid_lines(paid) == 1


async def test_what_one_process_asked_is_decided_in_the_terminal_and_done_by_another(url: str, tmp_path: Path) -> None:
    paid = tmp_path / "paid"
    async with proxied(url, paid, "--approval", "required") as client:
        asked = await client.session.call_tool("pay", {"to": "ana"}, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
    (waiting,) = json.loads(indelible(url, "approvals", "list", "--json"))["approvals"]
    indelible(url, "approvals", "approve", waiting["id"], "--digest", waiting["digest"], "--by", "ana")
    async with proxied(url, paid, "--approval", "required") as client:
        assert text(await client.call_tool("pay", {"to": "ana"})) == "paid"
        assert text(await client.call_tool("pay", {"to": "ana"})) == "paid"
    assert paid_lines(paid) == 1


async def test_an_answer_reaches_another_proxy_when_the_one_that_asked_was_killed(url: str, tmp_path: Path) -> None:
    paid = tmp_path / "paid"
    ways = ("--approval", "required", "--approver", "ana")
    async with proxied(url, paid, *ways) as client:
        asked = await client.session.call_tool("pay", {"to": "ana"}, allow_input_required=True)
        (proxy,) = [one for one in psutil.Process().children(recursive=True) if "proxy" in one.cmdline()]
        proxy.kill()
    assert isinstance(asked, types.InputRequiredResult)
    assert asked.input_requests is not None
    yes = {name: types.ElicitResult(action="accept", content={"decision": "approve"}) for name in asked.input_requests}
    for _ in range(2):
        async with proxied(url, paid, *ways) as client:
            done = await client.session.call_tool(
                "pay", {"to": "ana"}, request_state=asked.request_state, input_responses=yes, allow_input_required=True
            )
            assert isinstance(done, types.CallToolResult)
            assert text(done) == "paid"
    assert paid_lines(paid) == 1


async def test_the_server_below_gets_the_environment_without_what_opens_the_ledger(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_TOKEN", "of the ledger")
    monkeypatch.setenv("BANK_SECRET", "of the bank")
    async with proxied(url, tmp_path / "paid"):
        below = [one for one in psutil.Process().children(recursive=True) if str(BANK) in one.cmdline()]
        found = [one.environ() for one in below if "proxy" not in one.cmdline()]
    assert [one["BANK_SECRET"] for one in found] == ["of the bank"]
    assert not [name for one in found for name in one if name.startswith("INDELIBLE_")]


async def test_an_agent_can_look_and_not_decide(sqlite_url: str) -> None:
    url = sqlite_url
    with Ledger.open(url) as ledger:
        ledger.run(ToolCall(run_id="order-1", tool="crm.find", args={"secret": "canary"}), lambda effect: 1)
        ledger.begin(ToolCall(run_id="order-1", tool="pay", args={"to": "ana"}), approval="required")
    words = ["-m", "indelible.cli", "mcp", "serve", "--url", url]
    async with Client(StdioServerParameters(command=sys.executable, args=words, env=environment())) as client:
        tools = await client.list_tools()
        assert {tool.name for tool in tools.tools} == {
            "list_effects",
            "show_effect",
            "list_pending_approvals",
            "list_in_doubt",
        }
        effects = (await client.call_tool("list_effects", {"run_id": "order-1"})).structured_content["effects"]
        assert [(one["tool"], one["status"]) for one in effects] == [
            ("pay", "requires_approval"),
            ("crm.find", "succeeded"),
        ]
        pending = (await client.call_tool("list_pending_approvals", {})).structured_content["approvals"]
        assert [one["tool"] for one in pending] == ["pay"]
        shown = await client.call_tool("show_effect", {"effect_id": effects[0]["id"]})
        assert "canary" not in text(shown)
        with pytest.raises(MCPError, match="tools/list"):
            await client.call_tool("show_effect", {"effect_id": 5})
        with pytest.raises(MCPError, match="tools/list"):
            await client.call_tool("approve", {"approval_id": pending[0]["id"]})


def test_terms_that_say_nonsense_are_refused_with_their_place(tmp_path: Path) -> None:
    terms = tmp_path / "terms.toml"
    for wrong, said in [("[pay]\n", "tables such as"), ("[tools.pay]\nlease_s = 'long'\n", "number of seconds"),
                        ("[tools.pay]\nside_efect = 'payment'\n", "side_efect"), ("[", "cannot be read")]:  # fmt: skip
        terms.write_text(wrong)
        words = [
            "mcp",
            "proxy",
            "--url",
            f"sqlite:///{tmp_path}/l.db",
            "--terms",
            str(terms),
            "--",
            sys.executable,
            "-c",
            "",
        ]
        ran = subprocess.run([*INDELIBLE, *words], capture_output=True, text=True, check=False, timeout=200)
        assert ran.returncode != 0
        assert said in ran.stderr, ran.stderr


def test_the_example_asks_is_decided_and_goes_on_without_doing_anything_twice(tmp_path: Path) -> None:
    """The server says what it does on standard error, which the proxy hands on."""
    example, said = Path(__file__).parents[2] / "examples" / "mcp_agent.py", []
    for words in ([], ["--decide"]):
        command = [sys.executable, str(example), *words]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=200)
        said.append((ran.stdout, ran.stderr))
    (asked, first), (told, second) = said
    assert "waits for a person: indelible approvals show apr_" in asked
    assert ("charging 1000" in first, "refunding" in first) == (True, False)
    assert told == "  refunded as re_ch_123\n"
    assert ("charging" in second, "refunding 50" in second) == (False, True)
