"""`instrument()`: agents that know nothing of a ledger, one line, and what they did happens once across a crash."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from textwrap import indent
from traceback import format_exception
from typing import Any

import mcp_types as types
import pytest
from agents import Agent as OpenAIAgent
from agents import FunctionTool, Runner, RunState, function_tool, set_tracing_disabled
from agents.exceptions import UserError
from agents.run_context import RunContextWrapper
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.prebuilt import ToolNode
from mcp.client import Client
from mcp.client.session import ClientSession
from mcp.server import Server
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import DeferredToolRequests
from pydantic_ai.capabilities import WrapperCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import Ledger, instrument
from indelible.errors import BadCall, EffectInDoubt
from indelible.integrations.everywhere.reach import NotAsKnown, replaced
from indelible.integrations.instrument import FRAMEWORKS, Instrumented, is_known_version
from indelible.integrations.langchain import LedgerMiddleware
from indelible.integrations.openai_agents import ledger_tools
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.pydantic_ai_durability import LedgerDurability
from indelible.testing.crashing import crash_at
from indelible.testing.once import Outside, effect_once
from tests.integrations.langchain_agents import Scripted

ROOT = Path(__file__).parents[2]
Agent = Callable[[], Any]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    set_tracing_disabled(True)
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db", seal=False) as opened:
        yield opened
    set_tracing_disabled(False)


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    (tmp_path / "outside").mkdir()
    return Outside(tmp_path / "outside")


# Agents as anybody writes them: not a word of a ledger. Each begins, and goes on when it is called again.


def langchain(outside: Outside, folder: Path, **words: Any) -> Any:
    def charge(order: str) -> str:
        outside.happens(order)
        return "charged"

    tool = StructuredTool.from_function(charge, name="charge", description="Charges.")
    model = Scripted(
        responses=[
            AIMessage(content="", tool_calls=[{"name": "charge", "args": {"order": "o1"}, "id": "c1"}]),
            AIMessage(content="done"),
        ]
    )
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        agent = create_agent(model, [tool], checkpointer=saver, **words)
        thread: Any = {"configurable": {"thread_id": "order-123"}}
        begun = agent.get_state(thread).values
        return agent.invoke(None if begun else {"messages": [("user", "charge")]}, thread)["messages"][-1].content


def openai_agent(tool: FunctionTool) -> OpenAIAgent[Any]:
    turns = [[function_call("charge", {"order": "o1"}, call_id="c1")], [assistant_message("done")]]
    return OpenAIAgent(name="billing", model=ScriptedModel(turns), tools=[tool])


def openai_tool(outside: Outside, **words: Any) -> FunctionTool:
    @function_tool(failure_error_function=None, **words)
    def charge(order: str) -> str:
        """Charges."""
        outside.happens(order)
        return "charged"

    return charge


def openai_agents(outside: Outside, folder: Path) -> Any:
    return asyncio.run(Runner.run(openai_agent(openai_tool(outside)), "charge")).final_output


def pydantic_ai(outside: Outside, folder: Path, **words: Any) -> Any:
    def says(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        if any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("charge", {"order": "o1"})])  # a new id whenever it is asked

    def charge(order: str) -> str:
        outside.happens(order)
        return "charged"

    agent: Any = PydanticAgent(FunctionModel(says), tools=[charge], output_type=[str, DeferredToolRequests], **words)
    return asyncio.run(agent.run("charge", conversation_id="order-123")).output


def till(outside: Outside) -> Server[Any]:
    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="charge", input_schema={"type": "object"})])

    async def called(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        outside.happens("o1")
        return types.CallToolResult(content=[types.TextContent(text="done")])

    return Server("till", on_list_tools=listed, on_call_tool=called)


async def called_at_the_till(outside: Outside) -> Any:
    async with Client(till(outside)) as client:
        said, *_ = (await client.call_tool("charge", {"order": "o1"})).content
        return said.text  # type: ignore[union-attr]


def mcp(outside: Outside, folder: Path) -> Any:
    return asyncio.run(called_at_the_till(outside))


AGENTS = {"langchain": langchain, "openai_agents": openai_agents, "pydantic_ai": pydantic_ai, "mcp": mcp}


@pytest.fixture(params=AGENTS)
def work(request: pytest.FixtureRequest, ledger: Ledger, outside: Outside, tmp_path: Path) -> Agent:
    def begun_or_gone_on_with() -> Any:
        with instrument(ledger), ledger.in_run("order-123"):
            return AGENTS[request.param](outside, tmp_path)

    return begun_or_gone_on_with


def test_what_was_recorded_replays_though_the_process_died(work: Agent, outside: Outside) -> None:
    crash_at("after_record", work, tool="charge")
    assert work() == "done"
    assert outside.times("o1") == 1


def test_of_two_workers_one_does_it_and_the_other_gets_its_result(work: Agent, outside: Outside) -> None:
    """A process was killed before it began, so both come to the tool for the first time."""
    effect_once(outside, work, "o1", at="before_claim", tool="charge")


def test_what_may_have_happened_is_not_repeated(work: Agent, outside: Outside, ledger: Ledger) -> None:
    crash_at("after_handler", work, tool="charge")
    with suppress(EffectInDoubt, UserError):  # a framework that cannot pause here stops, or tells the model
        work()
    assert outside.times("o1") == 1
    assert [effect.tool for effect in ledger.effects(status="in_doubt")] == ["charge"]


def test_graphs_in_an_event_loop_too(ledger: Ledger, outside: Outside) -> None:
    async def charge(order: str) -> str:
        outside.happens(order)
        return "charged"

    tool = StructuredTool.from_function(coroutine=charge, name="charge", description="Charges.")
    calls = [{"name": "charge", "args": {"order": order}, "id": order} for order in ("o1", "o2")]

    async def asked(thread: str) -> Any:
        model = Scripted(responses=[AIMessage(content="", tool_calls=calls), AIMessage(content="done")])
        agent = create_agent(model, [tool])
        asks = {"messages": [HumanMessage("charge", id="m1")]}
        told = await agent.ainvoke(asks, {"configurable": {"thread_id": thread}})
        return [message.content for message in told["messages"][2:]]

    with instrument(ledger):
        for thread in ("order-1", "order-1", "order-2"):
            assert asyncio.run(asked(thread)) == ["charged", "charged", "done"]
    assert (outside.times("o1"), outside.times("o2")) == (2, 2), "once in each of the two threads"


@pytest.mark.parametrize("framework", ["openai_agents", "mcp"])
def test_without_a_run_nothing_runs(framework: str, ledger: Ledger, outside: Outside, tmp_path: Path) -> None:
    with instrument(ledger), pytest.raises((UserError, ExceptionGroup)) as stopped:
        AGENTS[framework](outside, tmp_path)
    assert "write: with ledger.in_run(" in "".join(format_exception(stopped.value))
    assert outside.times("o1") == 0


@pytest.mark.parametrize("framework", AGENTS)
def test_with_a_store_that_is_gone_nothing_runs(
    framework: str, ledger: Ledger, outside: Outside, tmp_path: Path
) -> None:
    with instrument(ledger), ledger.in_run("order-123"):
        ledger.close()
        try:
            said = AGENTS[framework](outside, tmp_path)
        except Exception:
            said = "stopped"
    assert said != "done"
    assert outside.times("o1") == 0


@pytest.mark.parametrize("framework", AGENTS)
def test_undone_it_is_as_if_it_had_never_been(framework: str, ledger: Ledger, outside: Outside, tmp_path: Path) -> None:
    with instrument(ledger):
        pass
    assert AGENTS[framework](outside, tmp_path) == "done"
    assert ledger.effects() == []


class _Wrapped(WrapperCapability[Any]):
    """A capability of somebody else's, with one of ours in it."""


def test_a_call_that_an_adapter_guards_is_guarded_once(ledger: Ledger, outside: Outside, tmp_path: Path) -> None:
    """Twice would be two effects under two names, or a call that waits for itself."""
    with instrument(ledger), ledger.in_run("order-123"):
        assert langchain(outside, tmp_path, middleware=[LedgerMiddleware(ledger, model_turns=False)]) == "done"
        assert pydantic_ai(outside, tmp_path, capabilities=[LedgerCapability(ledger, run="other")]) == "done"
        durable = LedgerDurability(ledger, run="durable")
        assert pydantic_ai(outside, tmp_path, capabilities=[durable], name="billing") == "done"
        assert pydantic_ai(outside, tmp_path, capabilities=[_Wrapped(LedgerCapability(ledger, run="hidden"))]) == "done"
        tools = ledger_tools([openai_tool(outside)], ledger, run="third")
        agent = OpenAIAgent(name="billing", model=openai_agent(openai_tool(outside)).model, tools=tools)
        assert asyncio.run(Runner.run(agent, "charge")).final_output == "done"
    runs = sorted(effect.run_id for effect in ledger.effects() if effect.tool == "charge")
    assert runs == ["durable", "hidden", "order-123", "other", "third"]
    assert outside.times("o1") == 5


def test_a_tool_that_ran_before_it_was_undone_is_plain_again(ledger: Ledger, outside: Outside) -> None:
    tool = openai_tool(outside)
    with instrument(ledger), ledger.in_run("order-123"):
        asyncio.run(Runner.run(openai_agent(tool), "charge"))
    asyncio.run(Runner.run(openai_agent(tool), "charge"))
    assert outside.times("o1") == 2, "without the ledger, nobody remembers"
    with instrument(ledger), ledger.in_run("order-123"):
        asyncio.run(Runner.run(openai_agent(tool), "charge"))
    assert outside.times("o1") == 2, "and with it again, it is the same call"


def test_what_the_agents_own_approvals_ask_stays_so(ledger: Ledger, outside: Outside) -> None:
    """And a state that is resumed three times is carried out once."""
    tool = openai_tool(outside, needs_approval=True)

    async def resumed(kept: str) -> Any:
        state: Any = await RunState.from_string(agent, kept)
        for item in state.get_interruptions():
            state.approve(item)
        return (await Runner.run(agent, state)).final_output

    with instrument(ledger), ledger.in_run("order-123"):
        agent = openai_agent(tool)
        kept = asyncio.run(Runner.run(agent, "charge")).to_state().to_string()
        assert outside.times("o1") == 0
        for _ in range(3):
            agent = OpenAIAgent(name="billing", model=ScriptedModel([[assistant_message("done")]]), tools=[tool])
            assert asyncio.run(resumed(kept)) == "done"
    assert outside.times("o1") == 1


def test_agents_as_tools_are_guarded_call_by_call(ledger: Ledger, outside: Outside) -> None:
    inner = openai_agent(openai_tool(outside)).as_tool("billing", "Bills.")
    turns = [[function_call("billing", {"input": "charge"}, call_id="c0")], [assistant_message("done")]]
    with instrument(ledger), ledger.in_run("order-123"):
        agent = OpenAIAgent(name="boss", model=ScriptedModel(turns), tools=[inner])
        assert asyncio.run(Runner.run(agent, "bill")).final_output == "done"
    assert [effect.tool for effect in ledger.effects()] == ["charge"]


def test_90_a_call_within_a_guarded_call_is_a_call_of_its_own(ledger: Ledger, outside: Outside) -> None:
    @ledger.tool
    async def pay() -> Any:
        return [await called_at_the_till(outside), await called_at_the_till(outside)]

    with instrument(ledger), ledger.in_run("order-1"):
        assert asyncio.run(pay()) == ["done", "done"]
    assert sorted(effect.tool for effect in ledger.effects()) == ["charge", "pay"]
    assert outside.times("o1") == 1


def test_terms_hold_in_every_framework(ledger: Ledger, outside: Outside, tmp_path: Path) -> None:
    """Here: the framework pauses its own way, or the caller is told."""
    with instrument(ledger, terms={"charge": {"side_effect": "payment", "approval": "required"}}):
        assert isinstance(pydantic_ai(outside, tmp_path), DeferredToolRequests)
        with ledger.in_run("other"):
            assert "waits for a person" in mcp(outside, tmp_path)
        with ledger.in_run("third"):
            assert langchain(outside, tmp_path) == "", "the last that was said is the model's call"
        with ledger.in_run("fourth"):
            openai_agents(outside, tmp_path)
    assert outside.times("o1") == 0
    assert len(ledger.approvals(status="pending")) == 4


def test_twice_is_once(ledger: Ledger) -> None:
    with instrument(ledger) as first:
        entered = ToolNode._execute_tool_sync
        assert instrument(ledger) is first
        assert instrument(ledger.awaited) is first
        assert instrument() is first
        assert ToolNode._execute_tool_sync is entered
        with Ledger.open(":memory:", seal=False) as other, pytest.raises(BadCall, match=r"undo\(\) first"):
            instrument(other)
        first.undo()
        first.undo()
        assert ToolNode._execute_tool_sync is not entered


def test_it_says_what_it_wrapped_and_what_it_could_not(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = metadata.version

    def version(package: str) -> str:
        made_up = {"mcp": "3.0.0", "strands-agents": "1.62.0", "crewai": "1.0", "claude-agent-sdk": "0.2.182"}
        return made_up.get(package) or asked(package)

    monkeypatch.setattr(metadata, "version", version)
    kept = ClientSession.call_tool
    with instrument(ledger) as report:
        assert report.wrapped == ("LangChain and LangGraph", "OpenAI Agents", "Pydantic AI")
        assert report.not_wrapped == ("MCP", "CrewAI", "Strands", "Claude Agent SDK")
        said = repr(report)
        assert "  ✗ MCP 3.0.0: not wrapped: this release knows it from 2.3 to before 3\n" in said
        assert "\n      by hand (indelible.integrations.mcp): indelible mcp proxy" in said
        assert "✗ CrewAI 1.0: not wrapped: this release knows it from 1.15.28" in said
        assert "✗ Strands 1.62.0: not wrapped: ModuleNotFoundError" in said
        assert "✗ Claude Agent SDK 0.2.182: not wrapped: ModuleNotFoundError" in said
        assert "✓ Pydantic AI" in said
        assert ClientSession.call_tool is kept


def test_a_framework_that_is_not_as_known_is_left_alone(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def call_tool(self: Any, request: Any) -> None:
        """A release that says another version than it behaves."""

    monkeypatch.setattr(ClientSession, "call_tool", call_tool)
    monkeypatch.delattr(ToolNode, "_execute_tool_async")
    before = ToolNode._execute_tool_sync
    with instrument(ledger) as report:
        assert report.not_wrapped == ("LangChain and LangGraph", "MCP")
        assert "call_tool is not as known: self, request" in repr(report)
        assert ClientSession.call_tool is call_tool
        assert ToolNode._execute_tool_sync is before, "half a reach is none"
    assert ClientSession.call_tool is call_tool


def test_what_somebody_else_put_over_it_is_not_undone() -> None:
    class Session:
        def call(self) -> str:
            return "plain"

    undo = replaced(Session, "call", lambda self: "ours", takes=["self"])
    theirs = lambda self: "theirs"  # noqa: E731
    Session.call = theirs  # type: ignore[method-assign]
    undo()
    assert Session().call() == "theirs"
    with pytest.raises(NotAsKnown, match="gone"):
        replaced(Session, "send", theirs, takes=["self"])


def test_wrong_words_are_told_before_anything_is_changed(ledger: Ledger) -> None:
    before = ToolNode._execute_tool_sync
    with pytest.raises(BadCall, match="colour"):
        instrument(ledger, colour="red")
    assert ToolNode._execute_tool_sync is before


def test_where_there_is_no_framework_it_says_so(ledger: Ledger) -> None:
    assert "found no agent framework" in repr(Instrumented(ledger, [], []))


def test_the_versions_are_those_that_the_extras_ask_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {word for words in extras.values() for word in words}
    for known in FRAMEWORKS:
        assert f"{known.package}>={known.oldest},<{known.before}" in asked, known.name


def test_what_it_says_to_write_by_hand_can_be_written() -> None:
    """Not every framework is installed here, so the adapters are read and not loaded."""
    told = 0
    for known in FRAMEWORKS:
        source = (ROOT / "src" / Path(*known.adapter.split("."))).with_suffix(".py").read_text()
        for name in re.findall(r"\bLedger\w+", known.by_hand):
            assert f"class {name}" in source, known.name
            told += 1
    assert told >= len(FRAMEWORKS) // 2


@pytest.mark.parametrize(
    ("version", "is_known"),
    [
        ("2.2.9", False),
        ("2.3", True),
        ("2.3.0", True),
        ("2.10.1", True),
        ("3.0.0a1", False),
        ("3", False),
        ("?", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, is_known: bool) -> None:
    (mcp_,) = [known for known in FRAMEWORKS if known.name == "MCP"]
    assert is_known_version(mcp_, version) is is_known


def test_a_context_names_no_run_by_itself() -> None:
    """The SDK has no id that outlives a state; were it to get one, this reach should use it."""
    assert not [name for name in vars(RunContextWrapper(context=None)) if name in ("group_id", "session_id", "run_id")]


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: Outside) -> None:
    """instrument.md, from top to bottom, and each row of its table is a framework that we know."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    page = (ROOT / "docs" / "integrations" / "instrument.md").read_text()
    first, second, third, strict = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"Runner": Runner, "agent": openai_agent(openai_tool(outside))}
    set_tracing_disabled(True)
    try:
        exec(first, names)
        exec(f"async def talk():\n{indent(second, '    ')}\n    return result", names)
        assert asyncio.run(names["talk"]()).final_output == "done"
        exec(third, names)
        exec(strict, names)
    finally:
        names["report"].undo()
        names["ledger"].close()
        set_tracing_disabled(False)
    assert outside.times("o1") == 1
    for known in FRAMEWORKS:
        assert known.name.partition(" and ")[0] in page
