"""What fails around a tool is not the tool's failure: a deed that was done is on the record as done, or in doubt."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

import mcp_types
import pytest
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, ToolException, tool
from langgraph.types import Command
from mcp.client import Client
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from indelible import AsyncLedger, Ledger, MayHaveHappened
from indelible.errors import NotAuthenticated, StoreUnavailable
from indelible.integrations.function_calls import FunctionCalls
from indelible.integrations.langchain import LedgerMiddleware
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.results import ToolError
from tests.integrations.langchain_agents import THREAD, Scripted, calls
from tests.scenarios.shells import prepare_store

TERMS: list[dict[str, Any]] = [{"side_effect": "write"}, {"side_effect": "payment", "failed_on": ValueError}]
done: list[str] = []


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    done.clear()
    with Ledger.open(prepare_store(store_url), seal=False) as opened:
        yield opened


class Order(BaseModel):
    order: str


@tool(response_format="content_and_artifact")
def no_artifact(order: str) -> Any:
    """Return a text, where LangChain wants a text and an artifact."""
    done.append(order)
    return "paid"


@tool
def no_message(order: str) -> Any:
    """Return a command without the message that LangGraph wants in it."""
    done.append(order)
    return Command(update={"messages": []})


@tool
def pay(order: str) -> str:
    """Pay."""
    done.append(order)
    return "paid"


@functools.lru_cache(maxsize=0)
def cached(order: str) -> Any:
    """Return a text, where LangChain wants a text and an artifact."""
    done.append(order)
    return "paid"


@functools.lru_cache(maxsize=0)
def cached_refusal(order: str) -> Any:
    """Refuse."""
    raise ValueError("declined")


# What calls these is not written in Python.
remembers, remembers_refusal = (
    StructuredTool.from_function(one, args_schema=Order, response_format="content_and_artifact")
    for one in (cached, cached_refusal)
)


class Refusing(BaseModel):
    def __call__(self, order: str) -> str:
        raise ValueError("declined")


@tool
def declined(order: str) -> str:
    """Refuse, by an object that is called."""
    return Refusing()(order)


class Tracer(BaseCallbackHandler):
    raise_error = True

    def on_tool_end(self, output: Any, **words: Any) -> None:
        raise ValueError("the tracing server is away")


def asked(name: str) -> list[BaseMessage]:
    return [calls((name, {"order": "1"}, "call_Xyz")), AIMessage(content="done")]


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("shell", ["blocking", "awaited"])
@pytest.mark.parametrize(
    "one", [no_artifact, no_message, pay, declined, remembers, remembers_refusal], ids=lambda one: one.name
)
def test_37_what_langchain_raises_after_a_tool_returned_leaves_doubt(
    ledger: Ledger, one: Any, shell: str, terms: Any
) -> None:
    model = Scripted(responses=asked(one.name))
    graph: Any = create_agent(model, [one], middleware=[LedgerMiddleware(ledger, **terms, model_turns=False)])
    config: Any = {**THREAD, "callbacks": [Tracer()] if one is pay else []}
    run = graph.invoke if shell == "blocking" else lambda *args: asyncio.run(graph.ainvoke(*args))
    is_refused = one in (declined, remembers_refusal)
    if is_refused:
        with pytest.raises(ValueError, match="declined"):
            run({"messages": [("user", "go")]}, config)
    else:
        assert run({"messages": [("user", "go")]}, config)["__interrupt__"][0].value["type"] == "indelible.in_doubt"
    (effect,) = ledger.effects(tool=one.name)
    assert (effect.status, len(done)) == (("failed", 0) if is_refused else ("in_doubt", 1))


def refuses(order: str) -> str:
    """Save."""
    raise ToolException("no such folder")


def tells(order: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
    """Save."""
    return ToolMessage("no such folder", tool_call_id=tool_call_id, status="error")


def commands(order: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
    """Save."""
    return Command(update={"messages": [tells(order, tool_call_id)]})


def listed_commands(order: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
    """Save."""
    return [commands(order, tool_call_id)]


@pytest.mark.parametrize(
    ("terms", "status"),
    [
        ({"side_effect": "write"}, "failed"),
        ({"side_effect": "payment"}, "in_doubt"),
        ({"side_effect": "payment", "failed_on": ToolError}, "failed"),
    ],
)
@pytest.mark.parametrize("shell", ["blocking", "awaited"])
@pytest.mark.parametrize("function", [refuses, tells, commands, listed_commands])
def test_37_an_error_that_a_tool_tells_by_langchain_s_own_means_is_the_tool_s(
    ledger: Ledger, function: Any, shell: str, terms: Any, status: str
) -> None:
    """`handle_tool_error` makes a message of a `ToolException`. A tool may return one itself, or in a command."""
    one = StructuredTool.from_function(function, name="save", handle_tool_error=True)
    behind = LedgerMiddleware(ledger, terms={"save": terms}, on_error="tell", model_turns=False)
    graph: Any = create_agent(Scripted(responses=asked("save")), [one], middleware=[behind])
    run = graph.invoke if shell == "blocking" else lambda *args: asyncio.run(graph.ainvoke(*args))
    result = run({"messages": [("user", "go")]}, THREAD)
    (effect,) = ledger.effects(tool="save")
    assert (effect.status, "__interrupt__" in result) == (status, status == "in_doubt")
    assert status == "in_doubt" or result["messages"][-2].content == "no such folder"


def test_37_an_error_of_another_call_in_a_command_is_not_the_tool_s(ledger: Ledger) -> None:
    """A tool that writes the history hands over the messages of other calls too."""

    def saves(order: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Save."""
        old = ToolMessage("no such folder", tool_call_id="call_Old", status="error")
        return Command(update={"seen": [old], "messages": [ToolMessage("saved", tool_call_id=tool_call_id)]})

    one = StructuredTool.from_function(saves, name="save")
    graph: Any = create_agent(
        Scripted(responses=asked("save")), [one], middleware=[LedgerMiddleware(ledger, model_turns=False)]
    )
    graph.invoke({"messages": [("user", "go")]}, THREAD)
    assert [effect.status for effect in ledger.effects(tool="save")] == ["succeeded"]


PDF = b"%PDF-1.7\n%\xe2\xe3"


class Receipt(BaseModel):
    pdf: bytes


def as_bytes(order: str) -> bytes:
    """Pay, and return a file."""
    done.append(order)
    return PDF


def as_model(order: str) -> Receipt:
    """Pay, and return a file in a model."""
    done.append(order)
    return Receipt(pdf=PDF)


def in_pydantic_ai(ledger: Ledger, pays: Any, terms: Any) -> None:
    turns: Iterator[Any] = iter([ToolCallPart(pays.__name__, {"order": "1"}, "call_Xyz"), TextPart("done")])
    model = FunctionModel(lambda messages, about: ModelResponse(parts=[next(turns)]))
    agent = Agent(model, tools=[pays], capabilities=[LedgerCapability(ledger, model_turns=False, **terms)])
    with suppress(UnicodeDecodeError):  # Pydantic AI itself cannot tell its model of bytes in a model
        asyncio.run(agent.run("go", conversation_id="order-1"))


def in_openai_agents(ledger: Ledger, pays: Any, terms: Any) -> None:
    set_tracing_disabled(True)
    said = [[function_call(pays.__name__, {"order": "1"}, call_id="call_Xyz")], [assistant_message("done")]]
    gate = LedgerTools(ledger, run="order-1", **terms)
    agent = OpenAIAgent(name="a", model=ScriptedModel(said), tools=gate.tools([function_tool(pays)]))
    asyncio.run(Runner.run(agent, "go"))


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("pays", [as_bytes, as_model])
@pytest.mark.parametrize("behind", [in_pydantic_ai, in_openai_agents])
def test_37_a_result_that_is_no_json_is_recorded_as_text(ledger: Ledger, behind: Any, pays: Any, terms: Any) -> None:
    behind(ledger, pays, terms)
    assert [effect.status for effect in ledger.effects(tool=pays.__name__)] == ["succeeded"]
    assert done == ["1"]


class Unsayable:
    """Is a result whose own code raises what the tool declares as its failure."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


def in_langchain(ledger: Ledger, pays: Any, terms: Any) -> None:
    behind = LedgerMiddleware(ledger, terms={pays.__name__: terms}, on_error="tell", model_turns=False)
    model = Scripted(responses=asked(pays.__name__))
    graph: Any = create_agent(model, [StructuredTool.from_function(pays)], middleware=[behind])
    graph.invoke({"messages": [("user", "go")]}, THREAD)


def in_function_calls(ledger: Ledger, pays: Any, terms: Any) -> None:
    call = {"type": "function_call", "call_id": "call_Xyz", "name": pays.__name__, "arguments": '{"order": "1"}'}
    FunctionCalls(ledger, {pays.__name__: pays}, run="order-1", **terms).answer([call])


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("behind", [in_pydantic_ai, in_openai_agents, in_langchain, in_function_calls])
def test_37_a_result_whose_own_code_raises_what_the_tool_declares_leaves_doubt(
    ledger: Ledger, behind: Any, terms: Any
) -> None:
    def pay(order: str) -> Any:
        """Pay."""
        done.append(order)
        return Unsayable()

    with suppress(MayHaveHappened):  # where the framework hands it on
        behind(ledger, pay, terms)
    assert [effect.status for effect in ledger.effects(tool="pay")] == ["in_doubt"]
    assert done == ["1"]


def broken_server() -> Any:
    """Return a server that does each deed, and then answers in its own way."""
    needs: Any = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    takes: Any = {"type": "object", "properties": {"order": {"type": "string"}}}

    async def list_tools(context: Any, params: Any) -> mcp_types.ListToolsResult:
        described = partial(mcp_types.Tool, input_schema=takes)
        tools = [described(name="misfit", output_schema=needs), described(name="code"), described(name="declined")]
        return mcp_types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: Any) -> mcp_types.CallToolResult:
        done.append(params.name)
        if params.name == "code":
            raise MCPError(-32603, "internal")
        text = mcp_types.TextContent(type="text", text="declined")
        if params.name == "misfit":
            return mcp_types.CallToolResult(content=[text], structured_content={"n": "none"})
        return mcp_types.CallToolResult(content=[text], is_error=True)

    return Server("broken", on_list_tools=list_tools, on_call_tool=call_tool)


@pytest.mark.parametrize(
    ("name", "side_effect", "status"),
    [
        ("misfit", "write", "in_doubt"),
        ("code", "write", "in_doubt"),
        ("declined", "write", "failed"),
        ("misfit", "read", "failed"),
        ("code", "payment", "in_doubt"),
    ],
)
def test_83_only_what_a_server_reports_as_its_tools_error_is_a_failure(
    ledger: Ledger, name: str, side_effect: str, status: str
) -> None:
    async def call() -> None:
        async with Client(broken_server()) as upstream:
            proxy = ledger_proxy(ledger, upstream, run="order-1", side_effect=side_effect)
            async with Client(proxy) as client:
                await client.call_tool(name, {"order": "1"})

    asyncio.run(call())
    assert [effect.status for effect in ledger.effects(tool=name)] == [status]
    assert done == [name]


def test_37_function_calls_wait_for_a_tool_that_ran_out_of_time_or_whose_result_cannot_be_recorded(
    ledger: Ledger,
) -> None:
    async def slow(order: str) -> str:
        """Pay slowly."""
        done.append(order)
        await asyncio.Event().wait()
        return "never"

    def unrecordable(order: str) -> Any:
        """Pay, and return what has no recorded form."""
        done.append(order)
        return object()

    terms = {"slow": {"timeout": timedelta(seconds=0.1)}}
    loop = FunctionCalls(
        ledger, {"slow": slow, "unrecordable": unrecordable}, run="order-1", side_effect="payment", terms=terms
    )
    said = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": '{"order": "1"}'}}
        for name in ("slow", "unrecordable")
    ]
    for _ in range(2):
        answered = asyncio.run(loop.answer_async(said))
        assert {one.tool for one in answered.waiting} == {"slow", "unrecordable"}
        assert len(done) == 2
    assert {effect.status for effect in ledger.effects()} == {"in_doubt"}


def test_37_function_calls_wait_for_a_call_that_still_runs(ledger: Ledger) -> None:
    async def play() -> tuple[Any, Any, Any]:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def render(order: str) -> str:
            """Work for longer than a repeat waits."""
            done.append(order)
            begun.set()
            await may_end.wait()
            return "rendered"

        terms = {"render": {"wait": timedelta(milliseconds=20)}}
        loop = FunctionCalls(ledger, {"render": render}, run="order-1", side_effect="write", terms=terms)
        said = {"id": "call_Xy", "type": "function", "function": {"name": "render", "arguments": '{"order": "1"}'}}
        first = asyncio.create_task(loop.answer_async([said]))
        await begun.wait()
        repeated = await loop.answer_async([said])
        may_end.set()
        return await first, repeated, await loop.answer_async([said])

    first, repeated, later = asyncio.run(play())
    assert [len(one.waiting) for one in (first, repeated, later)] == [0, 1, 0]
    assert [one.approval for one in repeated.waiting] == [None]
    assert done == ["1"]


@pytest.mark.parametrize("problem", [StoreUnavailable("away"), NotAuthenticated("revoked")])
@pytest.mark.parametrize("shell", ["blocking", "awaited"])
def test_37_a_tool_that_raised_while_the_store_went_away_may_have_happened(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, shell: str, problem: Exception
) -> None:
    """One outage takes the provider's answer and the database: that says nothing of whether the tool was entered."""

    def away(*_: Any) -> Any:
        raise problem

    def lose(order: str) -> str:
        """Pay, and lose the answer."""
        done.append(order)
        monkeypatch.setattr(Ledger, "get_effect", away)
        monkeypatch.setattr(AsyncLedger, "get_effect", away)
        raise ConnectionResetError("lost")

    loop = FunctionCalls(ledger, {"lose": lose}, run="order-1", side_effect="payment")
    said = [{"id": "call_Xy", "type": "function", "function": {"name": "lose", "arguments": '{"order": "1"}'}}]
    answered = loop.answer(said) if shell == "blocking" else asyncio.run(loop.answer_async(said))
    assert ([one.tool for one in answered.waiting], done) == (["lose"], ["1"])


@pytest.mark.parametrize("error", [TimeoutError(), AssertionError(), ValueError("")])
@pytest.mark.parametrize("by", ["loop", "langchain"])
def test_37_a_failure_without_words_is_told_as_a_failure(ledger: Ledger, by: str, error: Exception) -> None:
    """An empty text reads like a success, so the model hears that the tool failed: at once, and on each repeat."""

    def save(order: str) -> str:
        """Save."""
        done.append(order)
        raise error

    terms: Any = {"save": {"side_effect": "write"}}
    if by == "loop":
        loop = FunctionCalls(ledger, {"save": save}, run="order-1", terms=terms)
        call = {"type": "function_call", "name": "save", "arguments": '{"order": "1"}'}
        told = [loop.answer([{**call, "call_id": one}]).messages[0] for one in ("call_Xa", "call_Xb")]
        said = [message["output"] for message in told]
    else:
        behind = LedgerMiddleware(ledger, terms=terms, on_error="tell", model_turns=False)
        turns = [calls(("save", {"order": "1"}, one)) for one in ("call_Xa", "call_Xb")]
        model = Scripted(responses=[*turns, AIMessage(content="done")])
        graph: Any = create_agent(model, [StructuredTool.from_function(save)], middleware=[behind])
        messages = graph.invoke({"messages": [("user", "go")]}, THREAD)["messages"]
        said = [message.content for message in messages if isinstance(message, ToolMessage)]
    assert said == ["the tool failed and said nothing"] * 2
    assert (done, [effect.status for effect in ledger.effects()]) == (["1"], ["failed"])


def test_37_a_call_whose_result_could_not_be_recorded_is_told_as_in_doubt(ledger: Ledger) -> None:
    def save(order: str) -> str:
        """Save."""
        ledger.close()
        return "saved"

    call = {"type": "function_call", "call_id": "call_Xyz", "name": "save", "arguments": '{"order": "1"}'}
    (waits,) = FunctionCalls(ledger, {"save": save}, run="order-1", side_effect="payment").answer([call]).waiting
    assert waits.told.startswith("save may have happened")
