"""MCP: which server a tool is of tells calls and approvals apart, by the proxy and under `instrument()`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

import anyio
import mcp_types as types
import pytest
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.server import MCPServer, Server
from mcp.shared.memory import create_client_server_memory_streams
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from indelible import AsyncLedger, instrument, migrate
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.results import plain
from tests.integrations import mcp_bank

pytestmark = pytest.mark.anyio
PAYS = {"side_effect": "payment"}
ASKS = {**PAYS, "approval": "required"}
INSTALLED = ["langgraph", "openai-agents", "crewai", "strands-agents", "google-adk", "claude-agent-sdk"]


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
async def connected(
    ledger: AsyncLedger, bank: Bank, way: str, terms: Any, run: str = "order-1"
) -> AsyncIterator[Client]:
    """Connect to a bank, by a proxy or under `instrument()`."""
    async with Client(bank.server) as plain:
        if way == "instrument":
            with instrument(ledger, terms=terms), ledger.in_run(run):
                yield plain
            return
        words: dict[str, Any] = {"server": bank.name} if way == "named" else {}
        async with Client(ledger_proxy(ledger, plain, run=run, terms=terms, **words)) as behind:
            yield behind


async def test_96_a_compensation_reads_what_an_mcp_tool_gave(store_url: str) -> None:
    """It got the envelope of the protocol, so what the page says raised a KeyError, and the call stayed in doubt."""
    migrate(store_url)
    server, undone = MCPServer("bank"), list[Any]()

    @server.tool()
    def charge(amount: int) -> dict[str, Any]:
        """Charges."""
        return {"id": f"ch_{amount}"}

    @server.tool(structured_output=False)
    def say(amount: int) -> str:
        """Says."""
        return f"said {amount}"

    async with AsyncLedger.open(
        store_url, seal=False, compensate=lambda effect: undone.append(plain(effect.detail))
    ) as ledger:
        async with ledger.start_run("order-1", agent="clerk", intent="pay"), Client(server) as upstream:
            words: Any = {"run": "order-1", "side_effect": "payment"}
            async with Client(ledger_proxy(ledger, upstream, **words)) as client:
                for tool in ("charge", "say"):
                    await client.call_tool(tool, {"amount": 1})
        assert {one.status for one in await ledger.compensate("order-1")} == {"done"}
    assert undone == ["said 1", {"id": "ch_1"}]


@pytest.mark.parametrize("is_structured", [True, False])
@pytest.mark.parametrize("kind", ["objects", "texts"])
async def test_95_a_path_reaches_the_items_that_an_mcp_tool_gives(
    ledger: AsyncLedger, kind: str, is_structured: bool
) -> None:
    """The SDK tells each item of a list as a text of its own beside the list, and those stood on the record."""
    server, secret = MCPServer("bank"), "078-05-1120"
    words: Any = {"structured_output": is_structured}

    if kind == "objects":

        @server.tool("look", **words)
        def look_at() -> list[dict[str, Any]]:
            return [{"id": 1, "ssn": secret}, {"id": 2, "ssn": secret}]
    else:

        @server.tool("look", **words)
        def look() -> list[str]:
            return [secret, f"{secret} too"]

    terms = {"look": {"side_effect": "read", "redact": ["result[].ssn" if kind == "objects" else "result[]"]}}
    async with (
        Client(server) as upstream,
        Client(ledger_proxy(ledger, upstream, run="order-1", terms=terms)) as client,
    ):
        assert not (await client.call_tool("look", {})).is_error
    (effect,) = await ledger.effects(run_id="order-1")
    assert effect.status == "succeeded"
    assert secret.encode() not in (effect.detail_json or b"")


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


async def agrees(ctx: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"decision": "approve"})


@pytest.mark.parametrize("answer", [types.ErrorData(code=-32601, message="no forms here"), types.EmptyResult()])
async def test_91_a_client_that_cannot_answer_a_form_is_told_that_the_call_waits(
    ledger: AsyncLedger, answer: Any
) -> None:
    bank = Bank("bank-a")

    async def cannot(ctx: Any, params: Any) -> Any:
        return answer

    async with (
        Client(bank.server) as upstream,
        Client(
            ledger_proxy(ledger, upstream, run="order-1", terms={"pay": ASKS}),
            mode="legacy",
            elicitation_callback=cannot,
        ) as client,
    ):
        told = await client.call_tool("pay", {"amount": 5})
        (asked,) = await ledger.approvals(status="pending")
        assert told.is_error
        assert asked.id in str(told.content)
        await approve(ledger)
        assert not (await client.call_tool("pay", {"amount": 5})).is_error
    assert bank.paid == 1


@pytest.mark.parametrize("redact", [[], ["args.pin"], ["args.pin", "args.card"]], ids=["plain", "part", "all"])
@pytest.mark.parametrize("mode", ["2026-07-28", "legacy", "terminal"])
async def test_91_an_approved_read_runs_when_it_is_called_again(
    ledger: AsyncLedger, mode: str, redact: list[str]
) -> None:
    """Of redacted arguments, each call was another one: its approval was asked for anew, for ever."""
    bank, args = Bank("bank-a"), {"pin": "4711-secret", "card": "c1"}
    words: Any = {"terms": {"pay": {"side_effect": "read", "approval": "required", "redact": redact}}}
    client_words: Any = {"mode": "legacy"}
    if mode != "terminal":
        client_words, words["approver"] = {"mode": mode, "elicitation_callback": agrees}, "ana"
    async with (
        Client(bank.server) as upstream,
        Client(ledger_proxy(ledger, upstream, run="order-1", **words), **client_words) as client,
    ):
        told = await client.call_tool("pay", args)
        if mode == "terminal":
            await client.call_tool("pay", {**args, "pin": "4712-secret"})
            for asked in await ledger.approvals(status="pending"):
                await ledger.approve(asked, digest=asked.digest, by="ana")
            told = await client.call_tool("pay", args)
    assert not told.is_error, told.content
    assert bank.paid == 1
    assert len(await ledger.approvals()) == (2 if mode == "terminal" else 1), "another secret is another call"


@pytest.mark.parametrize("way", ["instrument", "named", "proxy"])
@pytest.mark.parametrize("words", [{}, {"scope": "orders"}], ids=["plain", "scope"])
async def test_91_a_fork_replays_the_calls_of_a_server(ledger: AsyncLedger, way: str, words: dict[str, Any]) -> None:
    """A range whose name held the run's was in no fork: each call was refused as one that is not on the record."""
    bank, other, terms = Bank("bank-a"), Bank("bank-b"), {"pay": {**PAYS, **words}}
    async with ledger.start_run("order-1", agent="clerk", intent="pay"), connected(ledger, bank, way, terms) as client:
        first = await client.session.call_tool("pay", {"amount": 5}, allow_input_required=True)
    fork = await ledger.fork_run("order-1")
    again = await ledger.fork_run(fork.id)
    for run in (fork.id, again.id):
        async with connected(ledger, bank, way, terms, run) as client:
            told = await client.session.call_tool("pay", {"amount": 5}, allow_input_required=True)
            assert (told.is_error, told.content[0]) == (False, first.content[0])
        if way != "proxy":
            async with connected(ledger, other, way, terms, run) as client:
                assert (await client.session.call_tool("pay", {"amount": 5}, allow_input_required=True)).is_error
    assert (bank.paid, other.paid) == (1, 0)


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


# A call inside of another effect


async def by_call(client: Client) -> Any:
    return await client.session.call_tool("pay", {"amount": 5})


async def by_request(client: Client) -> Any:
    params = types.CallToolRequestParams(name="pay", arguments={"amount": 5})
    return await client.session.send_request(types.CallToolRequest(params=params), types.CallToolResult)


async def by_plain_request(client: Client) -> Any:
    params = {"name": "pay", "arguments": {"amount": 5}}
    request: Any = types.Request[Any, Any](method="tools/call", params=params)
    return await client.session.send_request(request, types.CallToolResult)


@pytest.mark.parametrize("send", [by_call, by_request, by_plain_request])
@pytest.mark.parametrize("outer", ["none", "look_up", "prepare_pay", "turn"])
async def test_90_a_call_meets_the_ledger_wherever_it_is_made(ledger: AsyncLedger, outer: str, send: Any) -> None:
    bank, terms = Bank("bank"), {"pay": ASKS}

    async def act(*_: Any, amount: int = 5) -> Any:
        said = await send(client)
        assert isinstance(said, types.CallToolResult)
        return ModelResponse(parts=[TextPart("done")]) if outer == "turn" else "done"

    async with Client(bank.server) as client:
        with instrument(ledger, strict=True, terms=terms, allow=INSTALLED), ledger.in_run("order-1"):
            if outer == "none":
                await act()
            elif outer == "turn":
                await PydanticAgent(FunctionModel(act)).run("go")
            else:
                await ledger.tool(side_effect="read", name=outer)(act)(amount=5)
        assert bank.paid == 0
        await approve(ledger)
        with instrument(ledger, strict=True, terms=terms, allow=INSTALLED), ledger.in_run("order-1"):
            await send(client)
            await send(client)
    assert bank.paid == 1
    (effect,) = await ledger.effects(tool="pay")
    assert effect.status == "succeeded"


async def test_90_the_tool_of_a_gate_around_it_is_the_same_call_and_once(ledger: AsyncLedger) -> None:
    bank = Bank("bank")
    async with Client(bank.server) as plain, Client(ledger_proxy(ledger, plain, run="order-1")) as behind:
        with instrument(ledger), ledger.in_run("order-1"):
            await behind.session.call_tool("pay", {"amount": 5})
    assert bank.paid == 1
    keys = {effect.key for effect in await ledger.effects(tool="pay")}
    assert len(keys) == len(await ledger.effects(tool="pay"))


async def by_client(client: Client) -> Any:
    return await client.call_tool("pay", {"amount": 5})


async def by_task(client: Client) -> Any:
    return await asyncio.create_task(client.session.call_tool("pay", {"amount": 5}))


async def by_waiting(client: Client) -> Any:
    return await asyncio.wait_for(client.session.call_tool("pay", {"amount": 5}), timeout=60)


async def run_openai(act: Any) -> None:
    model = ScriptedModel([[function_call("pay", {"amount": 5}, call_id="call_Xa")], [assistant_message("done")]])
    await Runner.run(OpenAIAgent(name="clerk", model=model, tools=[function_tool(act)]), "go")


async def run_pydantic(act: Any) -> None:
    turns: list[Any] = [[ToolCallPart("pay", {"amount": 5})], [TextPart("done")]]
    agent = PydanticAgent(FunctionModel(lambda *_: ModelResponse(parts=turns.pop(0))))
    agent.tool_plain(act)
    await agent.run("go")


@pytest.fixture
def quiet() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("run", [run_openai, run_pydantic])
@pytest.mark.parametrize("send", [by_client, by_task, by_request])
async def test_f2_a_call_by_a_function_tool_of_the_same_name_is_a_call_of_its_own(
    ledger: AsyncLedger, run: Any, send: Any
) -> None:
    bank = Bank("bank")

    async def pay(amount: int) -> str:
        """Pays."""
        for _ in range(2):
            await send(client)
        return "paid"

    async with Client(bank.server) as client:
        with instrument(ledger, terms={"pay": PAYS}), ledger.in_run("order-1"):
            await run(pay)
    assert bank.paid == 1
    assert [effect.status for effect in await ledger.effects(tool="pay")] == ["succeeded"] * 2


BANK: Any = None


async def carry(amount: int) -> str:
    """Pay as a framework does whose client awaits a session's call in a task of its own."""
    await asyncio.create_task(BANK.session.call_tool("pay", {"amount": amount}))
    return "paid"


@pytest.mark.parametrize("module", ["pydantic_ai.mcp", "shop"])
async def test_f2_a_call_that_a_framework_awaits_in_a_task_belongs_to_its_tool(
    ledger: AsyncLedger, module: str
) -> None:
    bank = Bank("bank")
    async with Client(bank.server) as client:
        pay = FunctionType(carry.__code__, {**globals(), "__name__": module, "BANK": client}, "pay")
        pay.__annotations__ = {"amount": int, "return": str}
        with instrument(ledger, terms={"pay": PAYS}), ledger.in_run("order-1"):
            await run_pydantic(pay)
    assert bank.paid == 1
    assert len(await ledger.effects(tool="pay")) == (2 if module == "shop" else 1)


class Near(MCPServerStreamableHttp):
    """Reaches a bank in this process, as the SDK reaches one over HTTP: it sends each call in a task of its own."""

    def __init__(self, bank: Bank) -> None:
        super().__init__({"url": "http://bank/mcp"}, name="bank")
        self._bank = bank

    @asynccontextmanager
    async def create_streams(self) -> AsyncIterator[Any]:
        async with create_client_server_memory_streams() as (near, far), anyio.create_task_group() as tasks:
            server = self._bank.server
            tasks.start_soon(server.run, *far, server.create_initialization_options())
            yield near
            tasks.cancel_scope.cancel()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("is_inside", [False, True], ids=["tool of the server", "function tool"])
async def test_f2_the_call_by_which_the_sdk_carries_out_its_tool_belongs_to_that(
    ledger: AsyncLedger, is_inside: bool
) -> None:
    bank = Bank("bank")

    async def pay(amount: int) -> str:
        """Pays."""
        for _ in range(2):
            await server.call_tool("pay", {"amount": amount})
        return "paid"

    model = ScriptedModel([[function_call("pay", {"amount": 5}, call_id="call_Xa")], [assistant_message("done")]])
    async with Near(bank) as server:
        with instrument(ledger, terms={"pay": PAYS}), ledger.in_run("order-1"):
            words: Any = {"tools": [function_tool(pay)]} if is_inside else {"mcp_servers": [server]}
            await Runner.run(OpenAIAgent(name="clerk", model=model, **words), "go")
    assert bank.paid == 1
    assert [one.status for one in await ledger.effects(tool="pay")] == ["succeeded"] * (2 if is_inside else 1)
