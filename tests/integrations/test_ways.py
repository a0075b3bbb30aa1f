"""Every way in which a framework runs code: guarded, or refused in strict mode and always named by the report."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    ApplyPatchTool,
    CodeInterpreterTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    HostedMCPTool,
    LocalShellTool,
    Runner,
    ShellTool,
    WebSearchTool,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.computer import Computer
from agents.mcp import MCPServerStdio
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.pregel.remote import RemoteGraph
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import CallDeferred, DeferredToolRequests, FunctionToolset, RunContext, TextOutput, ToolOutput
from pydantic_ai.capabilities import (
    AbstractCapability,
    HandleDeferredToolCalls,
    Hooks,
    NativeTool,
    WrapperCapability,
)
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import WebSearchTool as NativeWebSearch
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from indelible import Ledger, instrument
from indelible.errors import ApprovalPending, BadCall
from indelible.integrations.instrument import FRAMEWORKS
from indelible.integrations.langchain import LedgerMiddleware
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.pydantic_ai_durability import LedgerDurability
from indelible.integrations.ways import WAYS
from tests.integrations.langchain_agents import HELLO, THREAD, Scripted, calls
from tests.integrations.test_ways_hidden import Voice, spoken

done: list[str] = []
own: list[Any] = []
"""What of ours an agent has itself: capabilities of Pydantic AI, middleware of LangChain."""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    done.clear()
    own.clear()
    set_tracing_disabled(True)
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db", seal=False) as opened:
        yield opened
    set_tracing_disabled(False)


# LangChain and LangGraph


@tool
def pay(amount: int) -> str:
    """Pays."""
    done.append("paid")
    return "paid"


ASKED = calls(("pay", {"amount": 5}, "c1"))


def graph_of(node: Any, name: str = "tools") -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node(name, node)
    builder.add_edge(START, name)
    return builder.compile(checkpointer=InMemorySaver())


def lc_agent(*tools: Any, middleware: Any = ()) -> Any:
    model = Scripted(responses=[ASKED, AIMessage(content="done")])
    return create_agent(model, list(tools), middleware=[*middleware, *own], checkpointer=InMemorySaver())


def nodes_of_tools() -> None:
    graph_of(ToolNode([pay])).invoke({"messages": [ASKED]}, THREAD)


def tools_added() -> None:
    class Adding(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tools=[*request.tools, pay]))

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tool=pay))

    @tool
    def other() -> str:
        """Does nothing."""
        return ""

    lc_agent(other, middleware=[Adding()]).invoke(HELLO, THREAD)


def graphs_inside() -> None:
    graph_of(lc_agent(pay), "inner").invoke(HELLO, THREAD)


def hand_written() -> None:
    def charge(state: Any) -> Any:
        done.append("paid")
        return {}

    graph_of(charge, "charge").invoke(HELLO, THREAD)


def conditional_edge() -> None:
    def charge(state: Any) -> str:
        done.append("paid")
        return END

    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([pay]))
    builder.add_conditional_edges(START, charge, ["tools", END])
    builder.compile().invoke(HELLO, THREAD)


def entrypoints() -> None:
    @entrypoint()
    def charge(amount: int) -> None:
        done.append("paid")

    charge.invoke(5)


def called_by_the_program() -> None:
    pay.invoke({"amount": 5})


def provider_tools() -> None:
    lc_agent({"type": "web_search"}, pay).invoke(HELLO, THREAD)


# OpenAI Agents


def charging() -> FunctionTool:
    @function_tool
    def charge(amount: int) -> str:
        """Charges."""
        done.append("paid")
        return "paid"

    return charge


CHARGES = [[function_call("charge", {"amount": 5}, call_id="c1")], [assistant_message("done")]]


def agent_of(*tools: Any, turns: Any = None, **words: Any) -> Agent[Any]:
    return Agent(name="till", model=ScriptedModel(turns or [[assistant_message("done")]]), tools=list(tools), **words)


def run_agent(agent: Agent[Any]) -> None:
    asyncio.run(Runner.run(agent, "go"))


def mcp_server() -> None:
    async def run() -> None:
        paid = str(Path(tempfile.mkdtemp(), "paid"))
        command: Any = {"command": sys.executable, "args": ["-m", "tests.integrations.mcp_bank", paid], "cwd": ROOT}
        async with MCPServerStdio(command) as server:
            turns = [[function_call("pay", {"amount": 5}, call_id="c1")], [assistant_message("done")]]
            await Runner.run(agent_of(turns=turns, mcp_servers=[server]), "go")

    asyncio.run(run())


def as_tool() -> None:
    inner = agent_of(charging(), turns=CHARGES).as_tool("billing", "Bills.")
    turns = [[function_call("billing", {"input": "go"}, call_id="c0")], [assistant_message("done")]]
    run_agent(agent_of(inner, turns=turns))


def handed_off() -> None:
    second = Agent(name="second", model=ScriptedModel(CHARGES), tools=[charging()])
    turns = [[function_call("transfer_to_second", {}, call_id="h1")]]
    run_agent(agent_of(turns=turns, handoffs=[second]))


def on_handoff() -> None:
    def noted(context: Any) -> None:
        done.append("paid")

    second = Agent(name="second", model=ScriptedModel([[assistant_message("done")]]))
    turns = [[function_call("transfer_to_second", {}, call_id="h1")]]
    run_agent(agent_of(turns=turns, handoffs=[handoff(second, on_handoff=noted)]))


def extracted() -> None:
    async def charge(result: Any) -> str:
        done.append("paid")
        return "paid"

    inner = agent_of().as_tool("billing", "Bills.", custom_output_extractor=charge)
    turns = [[function_call("billing", {"input": "go"}, call_id="c0")], [assistant_message("done")]]
    run_agent(agent_of(inner, turns=turns))


class Screen(Computer):
    """Is a computer that does nothing."""

    environment = "browser"
    dimensions = (1, 1)

    def screenshot(self) -> str:
        return ""

    def click(self, x: int, y: int, button: Any) -> None: ...
    def double_click(self, x: int, y: int) -> None: ...
    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None: ...
    def type(self, text: str) -> None: ...
    def wait(self) -> None: ...
    def move(self, x: int, y: int) -> None: ...
    def keypress(self, keys: list[str]) -> None: ...
    def drag(self, path: list[tuple[int, int]]) -> None: ...


class Editor:
    """Is an editor that does nothing."""

    def create_file(self, operation: Any) -> None: ...
    def update_file(self, operation: Any) -> None: ...
    def delete_file(self, operation: Any) -> None: ...


async def custom(context: Any, given: str) -> str:
    return given


HOSTED: dict[str, Callable[[], Any]] = {
    "hosted tools": WebSearchTool,
    "shell": lambda: ShellTool(executor=lambda request: "done"),
    "local shell": lambda: LocalShellTool(executor=lambda request: "done"),
    "computer": lambda: ComputerTool(Screen()),
    "apply_patch": lambda: ApplyPatchTool(Editor()),
    "code interpreter": lambda: CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}}),
    "custom tools": lambda: CustomTool(name="custom", description="", on_invoke_tool=custom),
    "hosted MCP": lambda: HostedMCPTool(
        {"type": "mcp", "server_label": "x", "server_url": "https://x", "require_approval": "never"}
    ),
}

# Pydantic AI


def charge(amount: int) -> str:
    """Charges."""
    done.append("paid")
    return "paid"


def py_agent(call: str | None = "charge", capabilities: Any = (), **words: Any) -> PydanticAgent[None, Any]:
    def answers(messages: list[Any], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1 and call is not None:
            return ModelResponse(parts=[ToolCallPart(call, {"amount": 5}, "c1")])
        return ModelResponse(parts=[TextPart("done")])

    return PydanticAgent(FunctionModel(answers), name="till", capabilities=[*capabilities, *own], **words)


def run_pydantic(agent: PydanticAgent[None, Any]) -> Any:
    return asyncio.run(agent.run("go", conversation_id="order-1")).output


def output_tool() -> None:
    run_pydantic(py_agent("pay_out", output_type=ToolOutput(charge, name="pay_out")))


def text_output() -> None:
    def send(text: str) -> str:
        done.append("paid")
        return text

    run_pydantic(py_agent(None, output_type=TextOutput(send)))


def inner_agent() -> None:
    inner = py_agent(tools=[charge])

    async def ask(amount: int) -> str:
        """Asks."""
        return str((await inner.run("go", conversation_id="order-2")).output)

    run_pydantic(py_agent("ask", tools=[ask]))


def dynamic() -> None:
    def found(ctx: RunContext[None]) -> Any:
        return FunctionToolset([charge])

    run_pydantic(py_agent(toolsets=[found]))


def external() -> None:
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    outside = ExternalToolset([ToolDefinition(name="charge", parameters_json_schema=schema)])
    run_pydantic(py_agent(toolsets=[outside], output_type=[str, DeferredToolRequests]))


def validators() -> None:
    agent = py_agent(None)

    @agent.output_validator
    def judge(output: str) -> str:
        done.append("paid")
        return output

    run_pydantic(agent)


def deferring(amount: int) -> str:
    """Charges, and leaves the doing to others."""
    raise CallDeferred


def pays_deferred(ctx: RunContext[Any], requests: DeferredToolRequests) -> Any:
    done.extend("paid" for _ in requests.calls)
    return requests.build_results(calls={call.tool_call_id: "paid" for call in requests.calls})


class Carries(AbstractCapability[Any]):
    """Carries out deferred calls itself."""

    async def handle_deferred_tool_calls(self, ctx: RunContext[Any], *, requests: DeferredToolRequests) -> Any:
        return pays_deferred(ctx, requests)


async def pays_deferred_async(ctx: RunContext[Any], *, requests: DeferredToolRequests) -> Any:
    return pays_deferred(ctx, requests)


def handlers() -> None:
    run_pydantic(py_agent("deferring", [HandleDeferredToolCalls(handler=pays_deferred)], tools=[deferring]))


HANDLERS: dict[str, Any] = {
    "handler": lambda: HandleDeferredToolCalls(handler=pays_deferred),
    "wrapped": lambda: WrapperCapability(HandleDeferredToolCalls(handler=pays_deferred)),
    "hook": lambda: Hooks(deferred_tool_calls=pays_deferred_async),
    "capability": Carries,
}


def native() -> None:
    with suppress(Exception):  # a scripted model has no such tools; the gate comes first
        try:
            run_pydantic(py_agent(None, capabilities=[NativeTool(NativeWebSearch())]))
        except BadCall as refused:
            done.append(str(refused))


def remote_graph() -> None:
    try:
        RemoteGraph("agent", url="http://127.0.0.1:1").invoke(HELLO, THREAD)
    except BadCall:
        raise
    except Exception:  # there is no such server; the gate comes first
        return


def realtime_session() -> None:
    asyncio.run(spoken(Voice()))


TRIED: dict[str, dict[str, Callable[[], Any]]] = {
    "LangChain and LangGraph": {
        "tools of ToolNode and create_agent": nodes_of_tools,
        "tools added while it runs": tools_added,
        "agents and graphs inside": graphs_inside,
        "hand-written nodes": hand_written,
        "conditional edges": conditional_edge,
        "entrypoints and tasks": entrypoints,
        "tools that the program calls itself": called_by_the_program,
        "provider tools": provider_tools,
        "remote graphs": remote_graph,
    },
    "OpenAI Agents": {
        "function tools": lambda: run_agent(agent_of(charging(), turns=CHARGES)),
        "tools of MCP servers": mcp_server,
        "agents as tools": as_tool,
        "tools of agents handed off to": handed_off,
        "on_handoff functions": on_handoff,
        "functions of agents as tools": extracted,
        **{way: lambda make=make: run_agent(agent_of(make())) for way, make in HOSTED.items()},
    },
    "Pydantic AI": {
        "function tools": lambda: run_pydantic(py_agent(tools=[charge])),
        "toolsets": lambda: run_pydantic(py_agent(toolsets=[FunctionToolset([charge])])),
        "dynamic toolsets": dynamic,
        "output functions": output_tool,
        "output functions of texts": text_output,
        "agents inside tools": inner_agent,
        "tools of realtime sessions": realtime_session,
        "native tools": native,
        "external tools": external,
        "output validators": validators,
        "handlers of deferred calls": handlers,
    },
}
GUARDED = [(name, way.name) for name in TRIED for way in WAYS[name] if way.is_guarded]
UNGUARDED = [(name, way.name) for name in TRIED for way in WAYS[name] if not way.is_guarded]


def test_88_every_way_is_tried() -> None:
    for name, tried in TRIED.items():
        assert {way.name for way in WAYS[name]} == set(tried)
    reached = {known.name for known in FRAMEWORKS if known.name != "MCP"}
    assert set(WAYS) == reached, "a framework that is wrapped says what is not"


PAGES = {"LangChain and LangGraph": "langchain", "OpenAI Agents": "openai-agents", "Pydantic AI": "pydantic-ai"}


@pytest.mark.parametrize("framework", TRIED)
def test_88_each_page_has_the_table_of_all_ways(framework: str) -> None:
    page = (ROOT / "docs" / "integrations" / f"{PAGES[framework]}.md").read_text()
    rows = page.partition("| how code runs | the ledger |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    says = {True: "guarded", False: "named, and refused in strict mode"}
    assert rows == [f"| {way.name} | {says[way.is_guarded]} |" for way in WAYS[framework]]


@pytest.mark.parametrize(("framework", "way"), GUARDED)
def test_88_what_counts_as_guarded_meets_the_ledger(ledger: Ledger, framework: str, way: str) -> None:
    with instrument(ledger, strict=True) as report, ledger.in_run("order-1"):
        TRIED[framework][way]()
        effects = [effect for effect in ledger.effects() if effect.tool != "model.turn"]
        assert effects, f"{way} met no ledger"
        assert all(effect.status == "succeeded" for effect in effects)
        once = len(done)
        TRIED[framework][way]()
        assert len(done) == once, "run twice, done once: it is replayed, or a person is asked"
    assert report.seen_unguarded == ()


@pytest.mark.parametrize(("framework", "way"), UNGUARDED)
def test_88_what_is_not_guarded_is_refused_in_strict_mode(ledger: Ledger, framework: str, way: str) -> None:
    with instrument(ledger, strict=True) as report, ledger.in_run("order-1"):
        assert f"✗ refused: {', '.join(one.name for one in WAYS[framework] if not one.is_guarded)}" in repr(report)
        if way == "native tools":
            native()
            assert "web_search" in done.pop()
        else:
            with pytest.raises(BadCall, match="strict mode refuses"):
                TRIED[framework][way]()
    assert done == []


@pytest.mark.parametrize(("framework", "way"), UNGUARDED)
def test_88_what_is_not_guarded_is_named(ledger: Ledger, framework: str, way: str) -> None:
    with instrument(ledger) as report, ledger.in_run("order-1"):
        (found,) = [one for one in report.findings if one.framework == framework]
        assert way in found.unguarded
        assert f"✗ not guarded: {', '.join(found.unguarded)}" in str(found)
        TRIED[framework][way]()
        assert any(framework in one and f"({way})" in one for one in report.seen_unguarded)
        assert f"✗ ran without the ledger: {report.seen_unguarded[0]}" in repr(report)


OWN: dict[str, Callable[[Ledger], Any]] = {
    "capability": LedgerCapability,
    "capability without turns": lambda ledger: LedgerCapability(ledger, model_turns=False),
    "capability inside another": lambda ledger: WrapperCapability(LedgerCapability(ledger)),
    "durability": LedgerDurability,
    "middleware": LedgerMiddleware,
}
BESIDE_OWN = [
    (framework, way, name)
    for framework, way in UNGUARDED
    for name in OWN
    if (framework, name == "middleware") in (("Pydantic AI", False), ("LangChain and LangGraph", True))
]


@pytest.mark.parametrize(("framework", "way", "name"), BESIDE_OWN)
def test_88_an_adapter_that_is_not_strict_loosens_no_strict_mode(
    ledger: Ledger, framework: str, way: str, name: str
) -> None:
    own.append(OWN[name](ledger))
    for _ in range(2):  # what is refused stays refused: no record of it stands in the way
        test_88_what_is_not_guarded_is_refused_in_strict_mode(ledger, framework, way)


@pytest.mark.parametrize(("framework", "way", "name"), BESIDE_OWN)
def test_88_what_is_not_guarded_is_named_beside_an_adapter(ledger: Ledger, framework: str, way: str, name: str) -> None:
    own.append(OWN[name](ledger))
    test_88_what_is_not_guarded_is_named(ledger, framework, way)


@pytest.mark.parametrize("name", [name for name in OWN if name != "middleware"])
def test_88_once_it_is_allowed_a_refused_turn_goes_on(ledger: Ledger, name: str) -> None:
    own.append(OWN[name](ledger))
    with instrument(ledger, strict=True), pytest.raises(BadCall, match="strict mode refuses"):
        validators()
    with instrument(ledger, strict=True, allow=["judge"]):
        validators()
    assert done == ["paid"]


def test_88_what_tools_of_ours_allow_strict_mode_does_not(ledger: Ledger) -> None:
    behind = LedgerTools(ledger, run="order-1", allow=["web_search"]).tools([charging(), WebSearchTool()])
    with instrument(ledger, strict=True), pytest.raises(BadCall, match="web_search"):
        run_agent(agent_of(*behind))


def test_88_what_is_allowed_by_name_runs_in_strict_mode(ledger: Ledger) -> None:
    with instrument(ledger, strict=True, allow=["web_search", "charge"]) as report, ledger.in_run("order-1"):
        run_agent(agent_of(WebSearchTool()))
        hand_written()
        assert report.seen_unguarded == ()
        with pytest.raises(BadCall, match="strict mode refuses"):
            run_agent(agent_of(HOSTED["shell"]()))


def test_88_strict_mode_does_not_start_beside_a_framework_that_it_cannot_hold(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib import metadata

    asked = metadata.version
    made_up = {"crewai": "1.15.30"}
    monkeypatch.setattr(metadata, "version", lambda package: made_up.get(package) or asked(package))
    entered = ToolNode._execute_tool_sync
    with pytest.raises(BadCall, match="cannot hold crewai"):
        instrument(ledger, strict=True)
    assert ToolNode._execute_tool_sync is entered
    with instrument(ledger, strict=True, allow=["crewai"]):
        pass


# The adapters' own strict mode


def test_88_the_middleware_refuses_provider_tools(ledger: Ledger) -> None:
    with pytest.raises(BadCall, match="web_search"):
        lc_agent({"type": "web_search"}, middleware=[LedgerMiddleware(ledger, strict=True)]).invoke(HELLO, THREAD)
    allowed = LedgerMiddleware(ledger, strict=True, allow=["web_search"])
    lc_agent({"type": "web_search"}, pay, middleware=[allowed]).invoke(HELLO, THREAD)
    assert done == ["paid"]


@pytest.mark.anyio
async def test_88_openai_agents_are_checked_before_they_start(ledger: Ledger) -> None:
    gate = LedgerTools(ledger, run="order-1", strict=True, allow=["web_search"])
    guarded = gate.tools([charging(), WebSearchTool()])
    assert await gate.check(agent_of(*guarded)) == ()
    inner = agent_of(charging())
    for agent in (
        agent_of(charging()),
        agent_of(HOSTED["shell"]()),
        agent_of(*guarded, handoffs=[inner]),
        agent_of(*guarded, handoffs=[handoff(inner)]),
        agent_of(inner.as_tool("billing", "Bills.")),
    ):
        with pytest.raises(BadCall, match="strict mode refuses"):
            await gate.check(agent)
        assert await LedgerTools(ledger, run="order-1", allow=["web_search"]).check(agent) in (("charge",), ("shell",))


@pytest.mark.anyio
async def test_88_the_capability_refuses_what_it_does_not_guard(ledger: Ledger) -> None:
    agent = py_agent(None, capabilities=[NativeTool(NativeWebSearch()), LedgerCapability(ledger, strict=True)])
    with pytest.raises(BadCall, match="web_search"):
        await agent.run("go", conversation_id="order-1")


@pytest.mark.anyio
@pytest.mark.parametrize("is_everywhere", [False, True])
@pytest.mark.parametrize("kind", [LedgerCapability, LedgerDurability])
async def test_88_an_adapter_that_is_strict_stays_so_everywhere(ledger: Ledger, kind: Any, is_everywhere: bool) -> None:
    agent = py_agent(None, capabilities=[NativeTool(NativeWebSearch()), kind(ledger, strict=True)])
    with instrument(ledger) if is_everywhere else nullcontext(), pytest.raises(BadCall, match="web_search"):
        await agent.run("go", conversation_id="order-1")


@pytest.mark.anyio
@pytest.mark.parametrize("given", HANDLERS)
@pytest.mark.parametrize("is_everywhere", [False, True])
@pytest.mark.parametrize("at_run", [False, True])
async def test_88_handlers_of_deferred_calls_are_refused_however_they_are_given(
    ledger: Ledger, given: str, is_everywhere: bool, at_run: bool
) -> None:
    here: Any = instrument(ledger, strict=True) if is_everywhere else nullcontext()
    gate = [] if is_everywhere else [LedgerCapability(ledger, strict=True)]
    handling = [HANDLERS[given]()]
    agent = py_agent("deferring", gate if at_run else [*gate, *handling], tools=[deferring])
    with here, pytest.raises(BadCall, match="handlers of deferred calls"):
        await agent.run("go", conversation_id="order-1", capabilities=handling if at_run else [])
    assert done == []


@pytest.mark.anyio
async def test_88_hooks_that_handle_no_deferred_calls_are_not_refused(ledger: Ledger) -> None:
    behind = [Hooks(), WrapperCapability(Hooks()), LedgerCapability(ledger, strict=True)]
    agent = py_agent(capabilities=behind, tools=[charge])
    await agent.run("go", conversation_id="order-1")
    assert done == ["paid"]


@pytest.mark.anyio
async def test_88_an_output_function_that_a_person_has_to_decide_waits(ledger: Ledger) -> None:
    terms = {"charge": {"side_effect": "payment", "approval": "required"}}
    behind = LedgerCapability(ledger, terms=terms)
    agent = py_agent("pay_out", output_type=ToolOutput(charge, name="pay_out"), capabilities=[behind])
    with pytest.raises(ApprovalPending):
        await agent.run("go", conversation_id="order-1")
    (approval,) = ledger.approvals(status="pending")
    ledger.approve(approval, digest=approval.digest, by="ana")
    for _ in range(2):
        assert (await agent.run("go", conversation_id="order-1")).output == "paid"
    assert done == ["paid"]
