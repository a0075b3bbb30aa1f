"""What a framework runs in ways that are easy to overlook: guarded, or named and refused in strict mode."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    ModelSettings,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    WebSearchTool,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.realtime import RealtimeAgent, RealtimeRunner
from agents.realtime.model_events import RealtimeModelToolCallEvent
from agents.realtime.testing import ScriptedRealtimeModel
from agents.run_config import SandboxRunConfig
from agents.sandbox import SandboxAgent
from agents.sandbox.capabilities import Shell
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough, RunnablePick
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from langgraph.pregel.remote import RemoteGraph
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.native_tools import WebSearchTool as NativeWebSearch
from pydantic_ai.realtime import RealtimeModel
from pydantic_ai.realtime._inferred_lifecycle import InferredLifecycle
from pydantic_ai.realtime.codec import RealtimeConnection, ResponseDone, ToolCall

from indelible import Ledger, instrument
from indelible.errors import BadCall
from indelible.integrations.hosted import hosted_in
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.ways import Watch

done: list[str] = []
THREAD: Any = {"configurable": {"thread_id": "t"}}
HELLO: Any = {"messages": [HumanMessage("go", id="m1")]}
MCP = {"type": "mcp", "server_label": "bank", "server_url": "https://bank", "require_approval": "never"}
CALL = "call_abcdefghij"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    done.clear()
    set_tracing_disabled(True)
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db", seal=False) as opened:
        yield opened
    set_tracing_disabled(False)


# LangGraph


class Provider(FakeMessagesListChatModel):
    """Runs the tools that its provider hosts."""

    model_kwargs: dict[str, Any] = {}  # noqa: RUF012

    def bind_tools(self, tools: Any, **words: Any) -> Any:
        own = {"type": "function", "function": {"name": "pay"}}
        return self.bind(tools=[one if isinstance(one, dict) else own for one in tools])

    def _generate(self, *args: Any, **words: Any) -> Any:
        given = [*words.pop("tools", ()), *self.model_kwargs.get("tools", ())]
        done.extend(one["type"] for one in given if one["type"] != "function")
        return super()._generate(*args)


@tool
def pay(amount: int) -> str:
    """Pays."""
    done.append("paid")
    return "paid"


def model(**words: Any) -> Any:
    return Provider(responses=[AIMessage(content="done")], **words)


def graph_of(node: Any, **words: Any) -> Any:
    builder = StateGraph(MessagesState)
    with warnings.catch_warnings():  # of LangGraph, about the types of a bound method
        warnings.simplefilter("ignore")
        builder.add_node("n", node, **words)
    builder.add_edge(START, "n")
    return builder.compile(checkpointer=InMemorySaver())


def react(chosen: Any, *tools: Any, **words: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        create_react_agent(chosen, list(tools), **words).invoke(HELLO, THREAD)


def bound_as_node() -> None:
    graph_of(RunnableParallel(messages=RunnablePick("messages") | model().bind(tools=[MCP]))).invoke(HELLO, THREAD)


def model_function() -> None:
    def choose(state: Any, runtime: Any) -> Any:
        done.append("own code")
        return model()

    react(choose, pay)


def prompt_function() -> None:
    def prompt(state: Any) -> Any:
        done.append("own code")
        return state["messages"]

    react(model(), pay, prompt=prompt)


def updated_state() -> None:
    def route(state: Any) -> str:
        done.append("own code")
        return END

    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([pay]))
    builder.add_edge(START, "tools")
    builder.add_conditional_edges("tools", route, [END])
    builder.compile(checkpointer=InMemorySaver()).update_state(THREAD, HELLO, as_node="tools")


def class_as_node() -> None:
    class Charge:
        def __new__(cls, state: Any) -> Any:
            done.append("own code")
            return {}

    graph_of(Charge).invoke(HELLO, THREAD)


def class_as_edge() -> None:
    class Route:
        def __new__(cls, state: Any) -> Any:
            done.append("own code")
            return END

    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([pay]))
    builder.add_conditional_edges(START, Route, [END, "tools"])
    builder.compile().invoke(HELLO, THREAD)


def own_tool_node() -> None:
    class Mine(ToolNode):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.func = self._mine

        def _mine(self, given: Any, config: Any, runtime: Any) -> Any:
            done.append("own code")
            return {"messages": []}

    graph_of(Mine([pay])).invoke(HELLO, THREAD)


def own_invoke() -> None:
    class Mine(BaseTool):
        name: str = "mine"
        description: str = "Does."

        def invoke(self, *args: Any, **words: Any) -> Any:
            done.append("own code")
            return {}

        def _run(self) -> None: ...

    graph_of(Mine()).invoke(HELLO, THREAD)


class Client:
    """Stands for a server that runs graphs."""

    class runs:
        @staticmethod
        def stream(**words: Any) -> Any:
            done.append("remote")
            return iter(())


def remote() -> Any:
    return RemoteGraph("agent", client=Client(), sync_client=Client())  # type: ignore[arg-type]


def _told(call: Any) -> ToolMessage:
    done.append("own code")
    return ToolMessage(content="paid", tool_call_id=call["id"], name=call["name"])


class Runs(ToolNode):
    """Runs each call its own way."""

    def _run_one(self, call: Any, *args: Any) -> Any:
        return _told(call)


class Executes(ToolNode):
    """Enters tools its own way."""

    def _execute_tool_sync(self, request: Any, *args: Any) -> Any:
        return _told(request.tool_call)


class Parses(ToolNode):
    """Reads the calls its own way."""

    def _parse_input(self, *args: Any) -> Any:
        done.append("own code")
        return super()._parse_input(*args)


class Plain(ToolNode):
    """Changes nothing that a node of tools does."""

    kind = "plain"

    def __init__(self, tools: Any) -> None:
        super().__init__(tools, name="plain")

    def names(self) -> list[str]:
        return list(self.tools_by_name)


class Mixed:
    """Takes the place of a method by standing before `ToolNode`."""

    def _inject_tool_args(self, *args: Any) -> Any:
        done.append("own code")
        return super()._inject_tool_args(*args)  # type: ignore[misc]


class Mixing(Mixed, ToolNode):
    pass


def set_on_a_node() -> ToolNode:
    node = ToolNode([pay])
    node._run_one = lambda call, *_: _told(call)  # type: ignore[method-assign]
    return node


def tools_run_by(node: Any) -> None:
    said = AIMessage(content="", tool_calls=[{"name": "pay", "args": {"amount": 5}, "id": CALL}])
    graph_of(node).invoke({"messages": [HumanMessage("go", id="m1"), said]}, THREAD)


OWN_NODES = {one.__name__: lambda one=one: tools_run_by(one([pay])) for one in (Runs, Executes, Parses, Mixing)}
OWN_NODES["set on a node"] = lambda: tools_run_by(set_on_a_node())


LANGGRAPH: dict[str, tuple[str, Callable[[], Any]]] = {
    "bound by create_react_agent": ("provider tools", lambda: react(model(), MCP, pay)),
    "bound in a node": ("provider tools", bound_as_node),
    "settings of a model": ("provider tools", lambda: react(model(model_kwargs={"tools": [MCP]}), pay)),
    "model by a function": ("hand-written nodes", model_function),
    "prompt by a function": ("hand-written nodes", prompt_function),
    "update_state": ("conditional edges", updated_state),
    "class as a node": ("hand-written nodes", class_as_node),
    "class as an edge": ("conditional edges", class_as_edge),
    "ToolNode of your own": ("hand-written nodes", own_tool_node),
    **{f"ToolNode, {name}": ("hand-written nodes", tried) for name, tried in OWN_NODES.items()},
    "tool that is invoked otherwise": ("hand-written nodes", own_invoke),
    "remote graph": ("remote graphs", lambda: remote().invoke(HELLO, THREAD)),
    "remote graph as a node": ("remote graphs", lambda: graph_of(remote()).invoke(HELLO, THREAD)),
}

# OpenAI Agents

PAYS: Any = [[function_call("charge", {"amount": 5}, call_id=CALL)], [assistant_message("done")]]
SAYS: Any = [[assistant_message("done")]]


def charging() -> Any:
    @function_tool
    def charge(amount: int) -> str:
        """Charges."""
        done.append("paid")
        return "paid"

    return charge


class Adding(Agent[Any]):
    async def get_all_tools(self, run_context: Any) -> Any:
        return [*await super().get_all_tools(run_context), charging()]


class AddingHosted(Agent[Any]):
    async def get_all_tools(self, run_context: Any) -> Any:
        return [*await super().get_all_tools(run_context), WebSearchTool()]


class Copying(Agent[Any]):
    async def get_all_tools(self, run_context: Any) -> Any:
        return [dataclasses.replace(one, description="new") for one in await super().get_all_tools(run_context)]  # type: ignore[type-var]


def run_agent(agent: Any, **words: Any) -> Any:
    return asyncio.run(Runner.run(agent, "go", **words))


def settings_of(**words: Any) -> Callable[[], Any]:
    return lambda: run_agent(Agent(name="a", model=ScriptedModel(SAYS), model_settings=ModelSettings(**words)))


async def talked(agent: Any, **settings: Any) -> None:
    spoken = ScriptedRealtimeModel()
    config: Any = {"initial_model_settings": settings} if settings else None
    async with await RealtimeRunner(agent, model=spoken).run(model_config=config) as session:
        await spoken.emit(RealtimeModelToolCallEvent(name="charge", call_id=CALL, arguments='{"amount": 5}'))
        async for event in session:
            if event.type == "tool_end" or event.type == "error":
                return


def sandboxed() -> None:
    asks = function_call("exec_command", {"cmd": "echo done"}, call_id=CALL)
    agent = SandboxAgent(name="a", model=ScriptedModel([[asks], [assistant_message("done")]]), capabilities=[Shell()])
    config = RunConfig(sandbox=SandboxRunConfig(client=UnixLocalSandboxClient()))
    run_agent(agent, run_config=config)
    done.append("paid")


OPENAI: dict[str, Callable[[], Any]] = {
    "extra_body": settings_of(extra_body={"tools": [MCP]}),
    "extra_args": settings_of(extra_args={"tools": [MCP]}),
    "settings of the run": lambda: run_agent(
        Agent(name="a", model=ScriptedModel(SAYS)),
        run_config=RunConfig(model_settings=ModelSettings(extra_body={"web_search_options": {}})),
    ),
    "stored prompt": lambda: run_agent(Agent(name="a", model=ScriptedModel(SAYS), prompt={"id": "pmpt_1"})),
    "added by a class": lambda: run_agent(AddingHosted(name="a", model=ScriptedModel(SAYS))),
    "realtime settings": lambda: asyncio.run(talked(RealtimeAgent(name="a"), prompt={"id": "pmpt_1"})),
}
OPENAI_GUARDED: dict[str, Callable[[], Any]] = {
    "added by a class": lambda: run_agent(Adding(name="a", model=ScriptedModel(PAYS))),
    "copied by a class": lambda: run_agent(Copying(name="a", model=ScriptedModel(PAYS), tools=[charging()])),
    "realtime": lambda: asyncio.run(talked(RealtimeAgent(name="a", tools=[charging()]))),
    "realtime settings": lambda: asyncio.run(talked(RealtimeAgent(name="a"), tools=[charging()])),
    "sandbox": sandboxed,
}

# Pydantic AI


def charge(amount: int) -> str:
    """Charges."""
    done.append("paid")
    return "paid"


class Line(RealtimeConnection):
    def __init__(self) -> None:
        self._answered = asyncio.Event()

    async def send(self, content: Any) -> None:
        self._answered.set()

    async def frames(self) -> AsyncIterator[Any]:
        async for frame in InferredLifecycle().frames(self._events()):
            yield frame

    async def _events(self) -> AsyncIterator[Any]:
        yield ToolCall(CALL, tool_name="charge", args='{"amount": 5}')
        yield ResponseDone()
        await self._answered.wait()


class Voice(RealtimeModel):
    model_name = "voice"  # type: ignore[assignment]
    system = "test"  # type: ignore[assignment]

    @asynccontextmanager
    async def connect(self, **words: Any) -> AsyncIterator[Any]:
        yield Line()


class SearchingVoice(Voice):
    profile = {"supported_native_tools": frozenset({NativeWebSearch})}  # type: ignore[assignment]  # noqa: RUF012


async def spoken(voice: Any, **words: Any) -> None:
    agent: Any = PydanticAgent(tools=[charge], **words)
    async with agent.realtime(voice, conversation_id="order-1").session() as session:
        async for _ in session:
            pass


def native_of_session() -> None:
    asyncio.run(spoken(SearchingVoice(), capabilities=[NativeTool(NativeWebSearch())]))


def answering(settings: Any) -> None:
    agent = PydanticAgent(FunctionModel(lambda *_: ModelResponse(parts=[TextPart("done")])), model_settings=settings)
    asyncio.run(agent.run("go", conversation_id="order-1"))


# Code that looks like the framework's own


def paying(state: Any) -> dict[str, Any]:
    done.append("paid")
    return {}


def looks_like_theirs(gives: Any) -> Any:
    @functools.wraps(tools_condition)
    def runs(state: Any) -> Any:
        done.append("paid")
        return gives

    return runs


class Paid(dict[str, Any]):
    """Pays when it is made."""

    def __init__(self, account: str, state: Any) -> None:
        done.append("paid")
        super().__init__()


def edge_of(route: Any) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("n", ToolNode([pay]))
    with warnings.catch_warnings():  # of LangGraph, about the types of a bound method
        warnings.simplefilter("ignore")
        builder.add_conditional_edges(START, route, [END, "n"])
    builder.compile().invoke(HELLO, THREAD)


def lambda_of_edge() -> None:
    def route(state: Any) -> str:
        done.append("paid")
        return END

    edge_of(RunnableLambda(route).invoke)


LOOKING_ALIKE: dict[str, tuple[str, Callable[[], Any]]] = {
    "bound": ("hand-written nodes", lambda: graph_of(RunnableLambda(paying).invoke).invoke(HELLO, THREAD)),
    "bound chain": (
        "hand-written nodes",
        lambda: graph_of((RunnablePassthrough() | RunnableLambda(paying)).invoke).invoke(HELLO, THREAD),
    ),
    "bound edge": ("conditional edges", lambda_of_edge),
    "wraps": ("hand-written nodes", lambda: graph_of(looks_like_theirs({})).invoke(HELLO, THREAD)),
    "wraps of an edge": ("conditional edges", lambda: edge_of(looks_like_theirs(END))),
    "partial of a class": ("hand-written nodes", lambda: graph_of(functools.partial(Paid, "a")).invoke(HELLO, THREAD)),
}


def handed_by(change: Callable[[Any], Any]) -> None:
    made = handoff(Agent(name="b", model=ScriptedModel([[assistant_message("done")]])))
    made.on_invoke_handoff = change(made.on_invoke_handoff)
    calling = ScriptedModel([[function_call(made.tool_name, {}, call_id=CALL)], [assistant_message("done")]])
    asyncio.run(Runner.run(Agent(name="a", model=calling, handoffs=[made]), "go"))


async def around(entered: Any, *args: Any) -> Any:
    done.append("paid")
    return await entered(*args)


def wrapping(entered: Any, theirs: Any) -> Any:
    @functools.wraps(theirs)
    async def entered_too(*args: Any) -> Any:
        return await around(entered, *args)

    return entered_too


def entrance_wrapped() -> None:
    inner = Agent(name="inner", model=ScriptedModel([[assistant_message("done")]])).as_tool("billing", "Bills.")
    inner.on_invoke_tool = wrapping(inner.on_invoke_tool, inner.on_invoke_tool)
    calling = ScriptedModel([[function_call("billing", {"input": "x"}, call_id=CALL)], [assistant_message("done")]])
    asyncio.run(Runner.run(Agent(name="a", model=calling, tools=[inner]), "go"))


OPENAI_ALIKE: dict[str, tuple[str, Callable[[], Any]]] = {
    "partial": ("on_handoff functions", lambda: handed_by(lambda entered: functools.partial(around, entered))),
    "wraps": ("on_handoff functions", lambda: handed_by(lambda entered: wrapping(entered, handoff))),
    "wraps inside": (
        "on_handoff functions",
        lambda: handed_by(lambda one: functools.partial(one.func, wrapping(one.args[0], one.args[0]))),
    ),
    "entrance": ("functions of agents as tools", entrance_wrapped),
}


def by_fallback() -> None:
    settings: Any = {"extra_body": {"tools": [MCP]}}
    inner = FunctionModel(lambda *_: ModelResponse(parts=[TextPart("done")]), settings=settings)
    model = WrapperModel(FallbackModel(FunctionModel(lambda *_: ModelResponse(parts=[TextPart("done")])), inner))
    asyncio.run(PydanticAgent(model).run("go", conversation_id="order-1"))


HIDDEN = {
    "Pydantic AI: fallback": ("native tools", by_fallback),
    **{f"LangGraph: {name}": tried for name, tried in LOOKING_ALIKE.items()},
    **{f"OpenAI Agents: {name}": tried for name, tried in OPENAI_ALIKE.items()},
    **{f"LangGraph: {name}": tried for name, tried in LANGGRAPH.items()},
    **{f"OpenAI Agents: {name}": ("hosted tools", tried) for name, tried in OPENAI.items()},
    "Pydantic AI: extra_body": ("native tools", lambda: answering({"extra_body": {"tools": [MCP]}})),
    "Pydantic AI: realtime": ("native tools", native_of_session),
}
GUARDED = {**OPENAI_GUARDED, "Pydantic AI: realtime": lambda: asyncio.run(spoken(Voice()))}


@pytest.mark.parametrize("name", HIDDEN)
def test_88_what_is_hidden_is_refused_in_strict_mode(ledger: Ledger, name: str) -> None:
    way, tried = HIDDEN[name]
    with (
        instrument(ledger, strict=True),
        ledger.in_run("order-1"),
        pytest.raises(BadCall, match=rf"\({way}\).*strict mode refuses"),
    ):
        tried()
    assert done == []


@pytest.mark.parametrize("name", [name for name in HIDDEN if "remote" not in name])
def test_88_what_is_hidden_is_named(ledger: Ledger, name: str) -> None:
    way, tried = HIDDEN[name]
    with instrument(ledger) as report, ledger.in_run("order-1"):
        tried()
    assert any(f"({way})" in one for one in report.seen_unguarded)


@pytest.mark.parametrize("name", GUARDED)
def test_88_a_tool_is_guarded_wherever_the_framework_has_it_from(ledger: Ledger, name: str) -> None:
    with instrument(ledger, strict=True) as report, ledger.in_run("order-1"):
        GUARDED[name]()
    assert (done, report.seen_unguarded) == (["paid"], ())
    assert [effect.status for effect in ledger.effects()] == ["succeeded"]


@pytest.mark.parametrize("prompt", [None, "Be kind."])
def test_88_what_langgraph_makes_itself_is_not_refused(ledger: Ledger, prompt: str | None) -> None:
    with instrument(ledger, strict=True) as report:
        react(model(), pay, prompt=prompt)
        graph_of(ToolNode([pay])).update_state(THREAD, HELLO, as_node="n")
        tools_run_by(Plain([pay]))
    assert report.seen_unguarded == ()


# An agent as a tool that waits for a person


@pytest.mark.anyio
@pytest.mark.parametrize("is_own", [False, True])
async def test_88_an_agent_as_a_tool_has_not_ended_while_it_is_paused(ledger: Ledger, is_own: bool) -> None:
    @function_tool(needs_approval=is_own)
    def charge(amount: int) -> str:
        """Charges."""
        done.append("paid")
        return "paid"

    asked = {} if is_own else {"approval": "required"}
    terms = {"charge": {"side_effect": "payment", **asked}, "billing": {"side_effect": "delegation"}}
    gate = LedgerTools(ledger, run="order-1", terms=terms)
    inner = Agent(name="inner", model=ScriptedModel(PAYS), tools=gate.tools([charge]))
    bills = function_call("billing", {"input": "bill"}, call_id="call_abcdefghik")
    said = ScriptedModel([[bills], [assistant_message("done")]])
    outer = Agent(name="outer", model=said, tools=gate.tools([inner.as_tool("billing", "Bills.")]))
    result = await Runner.run(outer, "go")
    assert [effect.status for effect in ledger.effects(tool="billing")] == ["ready"]
    for _ in range(3):
        for approval in ledger.approvals(status="pending"):
            ledger.approve(approval, digest=approval.digest, by="ana")
        if result.interruptions:
            state = await RunState.from_string(outer, result.to_state().to_string())
            for item in await gate.answer(state):
                state.approve(item)
            result = await Runner.run(outer, state)
    assert (result.final_output, done) == ("done", ["paid"])
    assert [effect.status for effect in ledger.effects(tool="billing")] == ["succeeded"]


@pytest.mark.anyio
@pytest.mark.parametrize("word", ["input_builder", "on_stream", "hooks"])
@pytest.mark.parametrize("words", [{"side_effect": "payment"}, {"side_effect": "read"}], ids=["payment", "read"])
async def test_90_functions_of_an_agent_as_a_tool_that_pauses_run_again_only_if_it_reads(
    ledger: Ledger, word: str, words: dict[str, Any]
) -> None:
    ran: list[str] = []

    async def runs(*_: Any) -> str:
        ran.append(word)
        return "bill"

    class Hooks(RunHooks[Any]):
        async def on_llm_start(self, *_: Any) -> None:
            ran.append(word)

    @function_tool
    def charge(amount: int) -> str:
        """Charges."""
        done.append("paid")
        return "paid"

    given: Any = {word: Hooks() if word == "hooks" else runs}
    terms = {"charge": {"side_effect": "payment", "approval": "required"}, "billing": words}
    gate = LedgerTools(ledger, run="order-1", terms=terms)
    inner = Agent(name="inner", model=ScriptedModel(PAYS), tools=gate.tools([charge]))
    bills = function_call("billing", {"input": "bill"}, call_id="call_abcdefghik")
    said = ScriptedModel([[bills], [assistant_message("done")]])
    outer = Agent(name="outer", model=said, tools=gate.tools([inner.as_tool("billing", "Bills.", **given)]))
    result = await Runner.run(outer, "go")
    before = len(ran)
    (approval,) = ledger.approvals(status="pending")
    ledger.approve(approval, digest=approval.digest, by="ana")
    state = result.to_state()
    assert await gate.answer(state) == []
    result = await Runner.run(outer, state)
    (effect,) = ledger.effects(tool="billing")
    if words["side_effect"] == "read":
        assert (effect.status, effect.attempt, done, len(ran) > before) == ("succeeded", 2, ["paid"], True)
    else:
        assert (effect.status, effect.attempt, done, len(ran)) == ("in_doubt", 1, [], before)


# What leaves with a request


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"tools": [{"type": "function"}, {"name": "x", "input_schema": {}}, {"functionDeclarations": []}]}, []),
        ({"params": {"extra_body": {"tools": [MCP]}}}, ["mcp:bank"]),
        ({"mcp_servers": [{"type": "url", "url": "https://bank"}]}, ["mcp:https://bank"]),
        ({"extra_body": {"web_search_options": {}}}, ["web_search_options"]),
        ({"tools": [{"codeExecution": {}}, {"type": "web_search_20250305", "name": "web_search"}]},
         ["codeExecution", "web_search_20250305"]),
        ({"anthropic_tools": [{"name": "x"}], "supports_tools": True, "tools": None}, ["x"]),
        ({"prompt": {"id": "p"}, "cached_content": "c"}, ["prompt:p", "cached_content"]),
        ({"messages": [{"tools": [MCP]}], "response_format": {"properties": {"mcp_servers": {}}}}, []),
        (None, []),
    ],
)  # fmt: skip
def test_88_hosted_tools_are_found_at_any_depth(settings: Any, names: list[str]) -> None:
    assert hosted_in(settings) == names


def test_88_a_name_of_a_package_allows_nothing_that_runs() -> None:
    watch = Watch(True, ["mcp", "hosted tools: langgraph"], ["mcp", "langgraph"])
    watch.note("Strands", "hosted tools", ["langgraph"])
    with pytest.raises(BadCall, match="hosted tools: mcp"):
        watch.note("Strands", "hosted tools", ["mcp"])
