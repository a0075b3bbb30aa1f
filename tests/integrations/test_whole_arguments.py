"""FAULT 38 behind adapters: what a framework's validation makes of arguments is judged, shown, keyed and run, whole."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from enum import IntEnum, StrEnum
from typing import Annotated, Any

import mcp_types as types
import pytest
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from mcp.client import Client
from mcp.server import Server
from pydantic import BaseModel, Field, PlainSerializer, RootModel, SecretStr, StringConstraints, v1
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import AsyncLedger, Ledger, NothingHappened, migrate
from indelible.integrations.function_calls import FunctionCalls
from indelible.integrations.langgraph import ledger_tool_node
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.pydantic_ai_durability import LedgerDurability

pytestmark = pytest.mark.anyio
POLICY: dict[str, Any] = {
    "defaults": "allow",
    "rules": [
        {"name": "blocked", "match": {"args": {"account": {"in": [666, "mallory"]}}}, "then": "refuse"},
        {"name": "much", "match": {"args": {"amount": {"gt": 1000}}}, "then": "refuse"},
        {"name": "much inside", "match": {"args": {"opts.amount": {"gt": 1000}}}, "then": "refuse"},
    ],
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@pytest.fixture
async def ledger(store_url: str) -> AsyncIterator[AsyncLedger]:
    migrate(store_url)
    async with AsyncLedger.open(store_url, policy=POLICY, principal="dora") as opened:
        yield opened


class Order(BaseModel):
    """Arguments of which one is not in the dump."""

    charge: str
    amount: int = Field(default=5000, exclude=True)


Capped = Annotated[int, PlainSerializer(lambda value: min(value, 10))]


async def by_openai(ledger: AsyncLedger, tool: Any, args: dict[str, Any], call_id: str) -> None:
    turns = [[function_call(tool.name, args, call_id=call_id)], [assistant_message("done")]]
    tools = LedgerTools(ledger, run="r", side_effect="payment").tools([tool])
    await Runner.run(OpenAIAgent(name="billing", model=ScriptedModel(turns), tools=tools), "pay")


async def test_38_openai_agents_judges_and_keys_what_the_sdk_validates(ledger: AsyncLedger) -> None:
    got: list[Any] = []

    @function_tool
    def pay(account: int, amount: Capped = 5) -> str:
        """Pays."""
        got.append((account, amount))
        return "paid"

    for number, account in enumerate((666, "666", 7, "7", 7.0)):
        await by_openai(ledger, pay, {"account": account}, f"call_{number}x")
    assert got == [(7, 5)]
    await by_openai(ledger, pay, {"account": 8, "amount": 9999}, "call_9x")
    assert got == [(7, 5)], "what a serializer caps is judged as it is read"
    assert [effect.args for effect in await ledger.effects()] == [{"account": 7, "amount": 5}]


async def test_38_openai_agents_judges_a_name_as_the_sdk_reads_it(ledger: AsyncLedger) -> None:
    got: list[str] = []

    @function_tool
    def pay(account: Annotated[str, StringConstraints(to_lower=True, strip_whitespace=True)]) -> str:
        """Pays."""
        got.append(account)
        return "paid"

    for number, account in enumerate(("mallory", "MALLORY", " Mallory", "ann", "Ann ")):
        await by_openai(ledger, pay, {"account": account}, f"call_{number}x")
    assert got == ["ann"]
    assert [effect.args for effect in await ledger.effects()] == [{"account": "ann"}]


async def test_38_openai_agents_records_a_default_that_the_dump_hides(ledger: AsyncLedger) -> None:
    got: list[Any] = []

    @function_tool(strict_mode=False)
    def pay(opts: Order) -> str:
        """Pays."""
        got.append(opts.amount)
        return "paid"

    for number, opts in enumerate(({"charge": "c"}, {"charge": "c", "amount": "5000"}, {"charge": "c", "amount": "5"})):
        await by_openai(ledger, pay, {"opts": opts}, f"call_{number}x")
    assert got == []
    await by_openai(ledger, pay, {"opts": {"charge": "c", "amount": 5}}, "call_8x")
    assert got == [5]
    assert [effect.args for effect in await ledger.effects()] == [{"opts": {"charge": "c", "amount": 5}}]


async def by_pydantic_ai(
    ledger: AsyncLedger, function: Any, args: dict[str, Any], told: list[str] | None = None, **words: Any
) -> Any:
    turns = iter((ToolCallPart("pay", args, tool_call_id="toolu_1x"), TextPart("done")))

    def says(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        if told is not None:
            told.extend(str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart))
        return ModelResponse(parts=[next(turns)])

    behind = LedgerCapability(ledger, run="r", model_turns=False, side_effect="payment", **words)
    tool = Tool(function, name="pay", takes_ctx=False)
    outputs: Any = [str, DeferredToolRequests]
    agent = Agent(FunctionModel(says), tools=[tool], output_type=outputs, capabilities=[behind])
    return (await agent.run("pay")).output


class Lines(BaseModel):
    """Arguments of which each is shown as 10 at most."""

    cents: Capped


def pay_secret(account: SecretStr) -> str:
    raise NotImplementedError


def pay_excluded(order: Order) -> str:
    raise NotImplementedError


def pay_capped(lines: list[Lines]) -> str:
    raise NotImplementedError


def pay_rooted(orders: RootModel[list[Order]], fast: bool = True) -> str:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "args", "path"),
    [
        (pay_secret, {"account": "alice"}, "args.account"),
        (pay_excluded, {"order": {"charge": "c"}}, "args.order.amount"),
        (pay_excluded, {"order": {"charge": "c", "amount": 9999}}, "args.order.amount"),
        (pay_capped, {"lines": [{"cents": 5}, {"cents": 9999}]}, "args.lines.1.cents"),
        (pay_rooted, {"orders": [{"charge": "c"}]}, "args.orders.0.amount"),
    ],
)
async def test_38_pydantic_ai_tells_the_model_of_arguments_whose_json_shows_less_than_they_hold(
    ledger: AsyncLedger, function: Any, args: dict[str, Any], path: str
) -> None:
    told = list[str]()
    assert await by_pydantic_ai(ledger, function, args, told, approval="required") == "done"
    assert told[0].startswith(f"pay was not called: {path}: ")
    assert await ledger.effects() == await ledger.approvals() == []


BY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "amount": {"type": "integer", "default": 50},
        "to": {"type": "object", "properties": {"account": {"type": "string", "default": "acme"}}, "default": {}},
    },
    "required": ["order"],
}


def agent_by_schema(behind: Any, deeds: list[Any], *said: dict[str, Any]) -> Agent[None, Any]:
    """Make an agent with a tool of which the framework knows a JSON schema alone, and no types."""

    def pay(order: str, amount: int = 9000, to: Any = "mallory") -> str:
        deeds.append((order, amount, to))
        return "paid"

    def says(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        number = sum(isinstance(one, ModelResponse) for one in messages)
        part = ToolCallPart("pay", said[number], f"toolu_{number}x") if number < len(said) else TextPart("done")
        return ModelResponse(parts=[part])

    outputs: Any = [str, DeferredToolRequests]
    tool = Tool.from_schema(pay, "pay", "Pay.", BY_SCHEMA)
    return Agent(FunctionModel(says), name="till", tools=[tool], output_type=outputs, capabilities=[behind])


@pytest.mark.parametrize("kind", [LedgerCapability, LedgerDurability])
async def test_38_pydantic_ai_fills_in_a_default_that_only_a_json_schema_tells(ledger: AsyncLedger, kind: Any) -> None:
    deeds: list[Any] = []
    whole = {"order": "1", "amount": 50, "to": {"account": "acme"}}
    agent = agent_by_schema(kind(ledger, run="r", side_effect="payment"), deeds, {"order": "1"}, whole)
    await agent.run("pay")
    (effect,) = await ledger.effects(tool="pay")
    assert (deeds, effect.args) == ([("1", 50, {"account": "acme"})], whole)


async def test_38_pydantic_ai_judges_and_shows_what_a_json_schema_tells(ledger: AsyncLedger) -> None:
    deeds: list[Any] = []
    behind = LedgerCapability(ledger, run="r", model_turns=False, side_effect="payment", approval="required")
    first: Any = await agent_by_schema(behind, deeds, {"order": "1"}).run("pay")
    assert first.output.metadata["toolu_0x"]["args"] == {"order": "1", "amount": 50, "to": {"account": "acme"}}
    misread: Any = await agent_by_schema(behind, deeds, {"order": "2", "amount": "50"}).run("pay")
    assert (misread.output, deeds, len(await ledger.effects(tool="pay"))) == ("done", [], 1)


def graph(ledger: Ledger | AsyncLedger, tool: Any, args: dict[str, Any], saver: Any = None) -> Any:
    said = {"name": "pay", "args": args, "id": "call_1x", "type": "tool_call"}
    made: Any = StateGraph(MessagesState)
    made.add_node("ask", lambda state: {"messages": [AIMessage(content="", tool_calls=[said])]})
    made.add_node("tools", ledger_tool_node([tool], ledger, side_effect="payment"))
    made.add_edge(START, "ask")
    made.add_edge("ask", "tools")
    made.add_edge("tools", END)
    return made.compile(checkpointer=saver)


@pytest.mark.parametrize("args", [{"charge": "c"}, {"charge": "c", "amount": 9999}])
async def test_38_langchain_shows_a_field_that_the_dump_hides(ledger: AsyncLedger, args: dict[str, Any]) -> None:
    def pay(charge: str, amount: int) -> str:
        raise NotImplementedError

    tool = StructuredTool.from_function(pay, name="pay", description="Pays.", args_schema=Order)
    place: Any = {"configurable": {"thread_id": "t"}}
    told = await graph(ledger, tool, args, InMemorySaver()).ainvoke({"messages": [HumanMessage("pay")]}, place)
    assert "much" in told["messages"][-1].content, "the rule sees the amount"
    assert await ledger.effects() == []


class Pydantic1(v1.BaseModel):
    """Arguments in a model of pydantic 1."""

    amount: int = 50


class Nested1(v1.BaseModel):
    """The same inside of another, beside what may be left out."""

    opts: Pydantic1 = Pydantic1()
    memo: str | None = None


class Secret1(v1.BaseModel):
    """Arguments that are shown as stars."""

    account: v1.SecretStr = v1.SecretStr("ana")


class InCents(v1.BaseModel):
    """Arguments that are read otherwise than they are shown."""

    amount: int = 50

    @v1.validator("amount")
    def converts(cls, value: int) -> int:
        return value * 100


UNTOLD_DEFAULT = {"type": "object", "properties": {"amount": {"type": "integer"}}}


@pytest.mark.parametrize(("schema", "amount"), [(Pydantic1, 50), (UNTOLD_DEFAULT, 5000)])
async def test_38_langchain_judges_a_default_of_any_kind_of_schema_and_of_the_function(
    ledger: AsyncLedger, schema: Any, amount: int
) -> None:
    got: list[int] = []

    def pay(amount: int = 5000) -> str:
        got.append(amount)
        return "paid"

    tool = StructuredTool.from_function(pay, name="pay", description="Pays.", args_schema=schema)
    place: Any = {"configurable": {"thread_id": "t"}}
    for args in ({}, {"amount": amount}):
        await graph(ledger, tool, args, InMemorySaver()).ainvoke({"messages": [HumanMessage("pay", id="m")]}, place)
    is_refused = amount > 1000
    assert got == ([] if is_refused else [amount])
    assert [effect.args for effect in await ledger.effects()] == ([] if is_refused else [{"amount": amount}])


class Mode(StrEnum):
    """Is equal to its text, and is encoded as it."""

    DRY = "dry"


class Level(IntEnum):
    """Is equal to its number."""

    LOW = 1


NO_JSON = [date(2026, 11, 19), object(), [object()], Mode.DRY, Level.LOW, [Mode.DRY], {"mode": Mode.DRY}, {Mode.DRY: 1}]


@pytest.mark.parametrize("usual", [*NO_JSON, (1, 2), math.nan])
async def test_38_langchain_leaves_a_default_to_the_function_that_no_json_tells(
    ledger: AsyncLedger, usual: Any
) -> None:
    got: list[Any] = []

    def pay(amount: Any = usual) -> str:
        got.append(amount)
        return "paid"

    tool = StructuredTool.from_function(pay, name="pay", description="Pays.", args_schema=UNTOLD_DEFAULT)
    place: Any = {"configurable": {"thread_id": "t"}}
    await graph(ledger, tool, {}, InMemorySaver()).ainvoke({"messages": [HumanMessage("pay", id="m")]}, place)
    assert got[0] is usual
    assert [effect.args for effect in await ledger.effects()] == [{}]


@pytest.mark.parametrize("by", ["openai", "langchain"])
@pytest.mark.parametrize("usual", [Mode.DRY, date(2026, 11, 19), (1, 2)])
async def test_38_a_default_of_a_parameter_without_a_type_reaches_the_tool_itself(
    ledger: AsyncLedger, usual: Any, by: str
) -> None:
    got: list[Any] = []

    def pay(amount: int, mode: Any = usual) -> str:
        """Pays."""
        got.append((amount, mode))
        return "paid"

    if by == "openai":
        await by_openai(ledger, function_tool(pay, strict_mode=False), {"amount": 5}, "call_1x")
    else:
        tool = StructuredTool.from_function(pay, name="pay", description="Pays.")
        place: Any = {"configurable": {"thread_id": "t"}}
        await graph(ledger, tool, {"amount": 5}, InMemorySaver()).ainvoke({"messages": [HumanMessage("pay")]}, place)
    ((amount, mode),) = got
    assert amount == 5
    assert mode is usual or (mode == usual and type(mode) is type(usual))
    (effect,) = await ledger.effects()
    assert set(effect.args) == {"amount", "mode"}


async def test_38_langchain_records_what_a_model_of_pydantic_1_reads(ledger: AsyncLedger) -> None:
    got: list[Any] = []

    def pay(opts: Any, memo: str | None) -> str:
        got.append((opts.amount, memo))
        return "paid"

    tool = StructuredTool.from_function(pay, name="pay", description="Pays.", args_schema=Nested1)
    place: Any = {"configurable": {"thread_id": "t"}}
    for args in ({}, {"opts": {"amount": "50"}}):
        await graph(ledger, tool, args, InMemorySaver()).ainvoke({"messages": [HumanMessage("pay", id="m")]}, place)
    assert got == [(50, None)]
    assert [effect.args for effect in await ledger.effects()] == [{"opts": {"amount": 50}, "memo": None}]


@pytest.mark.parametrize("schema", [InCents, Secret1])
async def test_38_langchain_refuses_a_model_of_pydantic_1_that_reads_other_arguments_than_it_shows(
    ledger: AsyncLedger, schema: Any
) -> None:
    def pay(**given: Any) -> str:
        raise NotImplementedError

    tool = StructuredTool.from_function(pay, name="pay", description="Pays.", args_schema=schema)
    place: Any = {"configurable": {"thread_id": "t"}}
    told = await graph(ledger, tool, {}, InMemorySaver()).ainvoke({"messages": [HumanMessage("pay")]}, place)
    assert told["messages"][-1].status == "error"
    assert await ledger.effects() == []


def test_45_a_thread_in_a_subgraph_is_no_thread_with_both_names(store_url: str) -> None:
    got: list[str] = []

    def pay(order: str) -> str:
        got.append(order)
        return "paid"

    migrate(store_url)
    tool = StructuredTool.from_function(pay, name="pay", description="Pays.")
    with Ledger.open(store_url) as ledger:
        outer: Any = StateGraph(MessagesState)
        outer.add_node("billing", graph(ledger, tool, {"order": "monthly"}))
        outer.add_edge(START, "billing")
        outer.add_edge("billing", END)
        plain = graph(ledger, tool, {"order": "monthly"}, InMemorySaver())
        said = {"messages": [HumanMessage("pay", id="m1")]}
        for _ in range(2):
            compiled = outer.compile(checkpointer=InMemorySaver())
            compiled.invoke(said, {"configurable": {"thread_id": "a"}})
            plain.invoke(said, {"configurable": {"thread_id": "a|billing"}})
        assert got == ["monthly", "monthly"], "once in each thread"
        assert sorted(effect.run_id for effect in ledger.effects()) == ["a", "a|billing"]


class Team(BaseModel):
    """Arguments with sets inside."""

    groups: list[set[int]]


@dataclass
class Pair:
    """What a model of pydantic 1 writes by its encoder."""

    both: frozenset[int]


class Team1(v1.BaseModel):
    """The same in a model of pydantic 1."""

    groups: list[set[int]]


class Sets1(v1.BaseModel):
    """The arguments of a tool in a model of pydantic 1."""

    to: set[int]
    team: Team1
    pair: Pair | None = None


# Two equal sets that are iterated in different orders, as sets of texts are in different processes.
SETS = ({"to": [0, 8], "team": {"groups": [[1], [0, 8]]}}, {"to": [8, 0], "team": {"groups": [[1], [8, 0]]}})


@pytest.mark.parametrize("by", ["openai", "pydantic", "langchain"])
async def test_38_a_set_is_recorded_in_one_order_so_its_call_is_made_once(ledger: AsyncLedger, by: str) -> None:
    got: list[Any] = []

    def pay(to: set[int], team: Team) -> str:
        """Pays."""
        got.append((to, team))
        return "paid"

    assert len({tuple({*said["to"]}) for said in SETS}) == 2
    for said in SETS:
        if by == "openai":
            await by_openai(ledger, function_tool(pay, strict_mode=False), said, "call_1x")
        elif by == "pydantic":
            await by_pydantic_ai(ledger, pay, said)
        else:
            tool = StructuredTool.from_function(pay, name="pay", description="Pays.")
            place: Any = {"configurable": {"thread_id": "t"}}
            await graph(ledger, tool, said, InMemorySaver()).ainvoke({"messages": [HumanMessage("pay", id="m")]}, place)
    assert got == [({0, 8}, Team(groups=[{1}, {0, 8}]))]
    assert [effect.args for effect in await ledger.effects()] == [{"to": [0, 8], "team": {"groups": [[1], [0, 8]]}}]


async def test_38_a_set_in_a_model_of_pydantic_1_is_recorded_in_one_order(ledger: AsyncLedger) -> None:
    got: list[Any] = []

    def pay(to: Any, team: Any, pair: Any) -> str:
        got.append((to, team.groups, pair.both))
        return "paid"

    tool = StructuredTool.from_function(pay, name="pay", description="Pays.", args_schema=Sets1)
    place: Any = {"configurable": {"thread_id": "t"}}
    for said in SETS:
        args = {**said, "pair": {"both": said["to"]}}
        await graph(ledger, tool, args, InMemorySaver()).ainvoke({"messages": [HumanMessage("pay", id="m")]}, place)
    assert got == [({0, 8}, [{1}, {0, 8}], {0, 8})]
    (effect,) = await ledger.effects()
    assert effect.args == {"to": [0, 8], "team": {"groups": [[1], [0, 8]]}, "pair": {"both": [0, 8]}}


INSIDE = {
    "type": "object",
    "properties": {
        "opts": {"type": "object", "properties": {"amount": {"type": "number", "default": 5000}}, "default": {}}
    },
}
WIRE = {
    "type": "object",
    "properties": {"kind": {"const": "wire"}, "amount": {"type": "number", "default": 5000}},
    "required": ["kind"],
}
CARD = {"type": "object", "properties": {"kind": {"const": "card"}, "amount": {"default": 1}}, "required": ["kind"]}
CHOICE = {"type": "object", "properties": {"opts": {"anyOf": [WIRE, CARD]}}}
TUPLE = {
    "type": "object",
    "properties": {"lines": {"items": [CARD]}},
    "$schema": "http://json-schema.org/draft-07/schema#",
}
ANCHOR = {"type": "object", "properties": {"opts": {"$ref": "#card"}}, "$defs": {"Card": {"$anchor": "card", **CARD}}}
THEN = {"type": "object", "if": {}, "then": {"properties": {"amount": {"default": 5000}}}}
UNTOLD = {"type": "object", "properties": {"opts": {"anyOf": [{**WIRE, "required": []}, {**CARD, "required": []}]}}}


@pytest.mark.parametrize(
    ("schema", "args", "reached"),
    [
        (INSIDE, {}, []),
        (CHOICE, {"opts": {"kind": "wire"}}, []),
        (CHOICE, {"opts": {"kind": "card"}}, [{"opts": {"kind": "card", "amount": 1}}]),
        (UNTOLD, {"opts": {}}, []),
        (TUPLE, {"lines": [{"kind": "card"}]}, [{"lines": [{"kind": "card", "amount": 1}]}]),
        (ANCHOR, {"opts": {"kind": "card"}}, []),
        (THEN, {}, []),
        (THEN, {"amount": 5}, [{"amount": 5}]),
    ],
)
async def test_38_the_mcp_proxy_judges_defaults_inside_of_defaults_and_choices(
    ledger: AsyncLedger, schema: Any, args: dict[str, Any], reached: list[Any]
) -> None:
    got: list[Any] = []

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="pay", description="Pays.", input_schema=schema)])

    async def entered(ctx: Any, params: Any) -> types.CallToolResult:
        got.append(params.arguments)
        return types.CallToolResult(content=[types.TextContent(text="paid")])

    below = Server("till", on_list_tools=listed, on_call_tool=entered)
    async with Client(below) as up:
        proxy = ledger_proxy(ledger, up, run="r", side_effect="notification")
        async with Client(proxy, mode="legacy") as client:
            for _ in range(2):
                result: Any = await client.call_tool("pay", args)
                assert result.is_error == (not reached)
    assert got == reached
    assert [effect.args for effect in await ledger.effects()] == reached


async def test_44_an_adapter_enters_an_older_call_with_what_added_says_and_with_no_default_of_its_own(
    ledger: AsyncLedger,
) -> None:
    got: list[Any] = []

    def before(order: str) -> str:
        raise ConnectionError("the bank is closed")

    def after(order: str, currency: str = "eur") -> str:
        got.append((order, currency))
        return "paid"

    async def call(function: Any, args: str, **words: Any) -> None:
        words |= {"side_effect": "payment", "nothing_on": ConnectionError, "dedupe": "args"}
        behind = FunctionCalls(ledger, {"pay": function}, run="r", **words)
        said = {"id": "call_1x", "type": "function", "function": {"name": "pay", "arguments": args}}
        with contextlib.suppress(NothingHappened):
            await behind.answer_async([said])

    for order in ("1", "2"):
        await call(before, f'{{"order": "{order}"}}')
    await call(after, '{"order": "1", "currency": "usd"}', added={"currency": "usd"})
    assert got == [("1", "usd")]
    await call(after, '{"order": "2"}', varies=["currency"])
    assert got == [("1", "usd")], "no person has seen the default of the new version"
