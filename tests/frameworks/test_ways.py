"""Every way in which ADK and Strands run code: guarded, or refused in strict mode and always named by the report."""

from __future__ import annotations

import asyncio
import functools
import itertools
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionResult
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools._node_tool import NodeTool
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.google_search_tool import google_search
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.adk.workflow import START, FunctionNode, JoinNode, Workflow
from google.genai import types
from mcp import StdioServerParameters, stdio_client
from strands import Agent, tool
from strands.bidi import BidiAgent
from strands.bidi.models import BidiModel
from strands.hooks import BeforeModelCallEvent
from strands.interventions import InterventionHandler, Proceed
from strands.middleware import InvokeModelStage
from strands.models.routing import ModelRouter
from strands.multiagent import GraphBuilder, Swarm
from strands.multiagent.base import MultiAgentBase, MultiAgentResult, Status
from strands.tools.mcp import MCPClient
from strands.vended_tools import shell

from indelible import Ledger, instrument, migrate
from indelible.errors import BadCall
from indelible.integrations.adk import LedgerPlugin
from indelible.integrations.strands import LedgerPlugin as StrandsPlugin
from indelible.integrations.ways import WAYS
from indelible.testing.adapters.adk import ScriptedLlm, called
from indelible.testing.adapters.strands import ScriptedModel
from indelible.testing.adapters.strands import called as strands_called

ROOT = Path(__file__).parents[2]
done: list[str] = []
own: dict[str, Any] = {}
"""What of ours an app or an agent has itself, by framework."""
paid: Path
made_before: dict[str, Callable[[], None]] = {}
numbers = itertools.count(1)
OTHERS = ["crewai", "claude-agent-sdk", "mcp"]  # are installed here too, and are not what is tried


@pytest.fixture(autouse=True)
def _nothing_done(tmp_path: Path) -> None:
    global paid
    done.clear()
    own.clear()
    paid = tmp_path / "paid"
    made_before["Google ADK"] = runs(app_of(adk_agent(charge)))
    agent = strands_agent(pays)
    made_before["Strands"] = lambda: agent("go")


@pytest.fixture
def ledger(store_url: str) -> Any:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


def times() -> int:
    return len(done) + (len(paid.read_text().splitlines()) if paid.exists() else 0)


def charge(amount: int) -> str:
    """Charges."""
    done.append("paid")
    return "paid"


def server() -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=["-m", "tests.frameworks.mcp_bank", str(paid)], cwd=ROOT)


# Google ADK


CHARGES = [[called("charge", "c1", amount=5)], [types.Part(text="done")]]


def adk_agent(*tools: Any, turns: Any = CHARGES, name: str = "till", model: str = "scripted", **words: Any) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedLlm(model=model, turns=turns), tools=list(tools), **words)


def app_of(root: Any, *plugins: Any) -> Runner:
    resumable = ResumabilityConfig(is_resumable=True)
    plugins += (own["Google ADK"],) if "Google ADK" in own else ()
    app = App(name="billing", root_agent=root, plugins=list(plugins), resumability_config=resumable)
    return Runner(app=app, session_service=InMemorySessionService(), artifact_service=InMemoryArtifactService())


def runs(runner: Runner, said: str = "go", is_live: bool = False) -> Callable[[], None]:
    async def run() -> None:
        place = {"user_id": "ana", "session_id": f"s{next(numbers)}"}
        await runner.session_service.create_session(app_name="billing", **place)
        if is_live:
            events = runner.run_live(live_request_queue=LiveRequestQueue(), **place)
        else:
            message = types.Content(role="user", parts=[types.Part(text=said)])
            events = runner.run_async(new_message=message, **place)
        async for _ in events:
            pass
        await runner.close()

    return lambda: asyncio.run(run())


def adk(root: Any, **words: Any) -> Callable[[], None]:
    return lambda: runs(app_of(root()), **words)()


def mcp_toolset() -> LlmAgent:
    return adk_agent(McpToolset(connection_params=StdioConnectionParams(server_params=server(), timeout=60)))


def agent_as_tool() -> LlmAgent:
    inner = AgentTool(adk_agent(charge), include_plugins=False)
    return adk_agent(inner, name="root", turns=[[called("till", "t1", request="go")], [types.Part(text="done")]])


def sub_agents() -> LlmAgent:
    turns = [[called("transfer_to_agent", "t1", agent_name="till")], [types.Part(text="done")]]
    return adk_agent(name="root", turns=turns, sub_agents=[adk_agent(charge)])


class Paying(BaseCodeExecutor):
    def execute_code(self, invocation_context: Any, code_execution_input: Any) -> CodeExecutionResult:
        done.append("paid")
        return CodeExecutionResult(stdout="paid", stderr="", output_files=[])


def executor() -> LlmAgent:
    turns = [[types.Part(text="```tool_code\npay()\n```")], [types.Part(text="done")]]
    return adk_agent(turns=turns, code_executor=Paying())


def noted(callback_context: Any) -> None:
    done.append("paid")


class Custom(BaseAgent):
    async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Any]:
        done.append("paid")
        return
        yield


def pay_in_node(ctx: Any, node_input: Any) -> str:
    done.append("paid")
    return "paid"


def live() -> None:
    with suppress(NotImplementedError):  # a scripted model cannot; the gate comes first
        runs(app_of(adk_agent(charge)), is_live=True)()


# Strands


@tool(name="charge")
def pays(amount: int) -> str:
    """Charges."""
    return charge(amount)


PAYS: Any = [[strands_called("charge", "c1", amount=5)], [{"text": "done"}]]


class Hosting(ScriptedModel):
    def get_config(self) -> dict[str, Any]:
        return {"params": {"tools": [{"type": "web_search"}]}}


def strands_agent(*tools: Any, turns: Any = PAYS, model: Any = ScriptedModel, **words: Any) -> Agent:
    if "Strands" in own:
        words.setdefault("plugins", [own["Strands"]])
    return Agent(model=model(turns), tools=list(tools), callback_handler=None, **words)


def strands(*tools: Any, **words: Any) -> Callable[[], Any]:
    return lambda: strands_agent(*tools, **words)("go")


def built_in() -> None:
    command = f"echo paid >> {paid}"
    strands_agent(shell, turns=[[strands_called("shell", "c1", command=command)], [{"text": "done"}]])("go")


def mcp_client() -> None:
    with MCPClient(lambda: stdio_client(server())) as client:
        strands_agent(*client.list_tools_sync())("go")


def called_by_the_program() -> None:
    agent = strands_agent(pays)
    agent.tool.charge(amount=5)


def agent_is_tool() -> None:
    turns: Any = [[strands_called("till", "t1", input="go")], [{"text": "done"}]]
    strands_agent(strands_agent(pays, name="till"), turns=turns)("go")


def agent_in_tool() -> None:
    @tool
    def ask(amount: int) -> str:
        """Asks."""
        return str(strands_agent(pays)("go"))

    strands_agent(ask, turns=[[strands_called("ask", "a1", amount=5)], [{"text": "done"}]])("go")


def graph_and_swarm() -> None:
    graph = GraphBuilder()
    graph.add_node(strands_agent(pays, name="till"), "till")
    assert graph.build()("go").status == Status.COMPLETED
    turns: Any = [[strands_called("handoff_to_agent", "h1", agent_name="second", message="pay")], [{"text": "done"}]]
    second = strands_agent(pays, name="second", turns=[[strands_called("charge", "c2", amount=6)], [{"text": "done"}]])
    Swarm([strands_agent(name="first", turns=turns), second])("go")


def hooks() -> None:
    def pay(event: BeforeModelCallEvent) -> None:
        done.append("paid")

    agent = strands_agent(turns=[[{"text": "done"}]])
    agent.add_hook(pay, BeforeModelCallEvent)
    agent("go")


class Node(MultiAgentBase):
    id = "node"

    async def invoke_async(self, task: Any, invocation_state: Any = None, **words: Any) -> MultiAgentResult:
        done.append("paid")
        return MultiAgentResult(status=Status.COMPLETED, results={})

    def serialize_state(self) -> dict[str, Any]:
        return {}

    def deserialize_state(self, payload: dict[str, Any]) -> None: ...


def custom_node() -> None:
    graph = GraphBuilder()
    graph.add_node(Node(), "node")
    graph.build()("go")


class NoModel(BidiModel):
    """Is a model of voices that cannot start."""

    async def start(self, *args: Any, **words: Any) -> None:
        raise ConnectionError

    async def stop(self) -> None: ...
    async def send(self, content: Any) -> None: ...
    def receive(self) -> Any: ...
    def update_config(self, **words: Any) -> None: ...
    def get_config(self) -> dict[str, Any]:
        return {"model_id": "none"}


def bidirectional() -> None:
    with suppress(ConnectionError):  # the gate comes first
        asyncio.run(BidiAgent(model=NoModel(), name="voice").start())


TRIED: dict[str, dict[str, Callable[[], Any]]] = {
    "Google ADK": {
        "function tools": adk(lambda: adk_agent(charge)),
        "long-running tools": adk(lambda: adk_agent(LongRunningFunctionTool(charge))),
        "tools of MCP toolsets": adk(mcp_toolset),
        "agents as tools": adk(agent_as_tool),
        "sub-agents": adk(sub_agents),
        "tools as workflow nodes": adk(
            lambda: Workflow(name="flow", edges=[(START, FunctionTool(charge))]), said='{"amount": 5}'
        ),
        "nodes as tools": adk(lambda: adk_agent(NodeTool(FunctionNode(func=charge)))),
        "runners made before": lambda: made_before["Google ADK"](),
        "code executors": adk(executor),
        "hosted tools": adk(
            lambda: adk_agent(google_search, model="gemini-2.5-flash", turns=[[types.Part(text="done")]])
        ),
        "callbacks": adk(lambda: adk_agent(turns=[[types.Part(text="done")]], before_agent_callback=noted)),
        "workflow nodes": adk(lambda: Workflow(name="flow", edges=[(START, pay_in_node)])),
        "custom, remote and managed agents": adk(lambda: Custom(name="custom")),
        "live runs": live,
    },
    "Strands": {
        "tools": strands(pays),
        "built-in tools": built_in,
        "tools of MCP servers": mcp_client,
        "tools that the program calls by the agent": called_by_the_program,
        "background tools": strands(pays, background_tasks={"always": ["charge"]}),
        "agents as tools": agent_is_tool,
        "agents inside tools": agent_in_tool,
        "agents of graphs and swarms": graph_and_swarm,
        "agents made before": lambda: made_before["Strands"](),
        "hosted tools": strands(turns=[[{"text": "done"}]], model=Hosting),
        "hooks, middleware and executors": hooks,
        "custom and remote nodes of graphs": custom_node,
        "bidirectional agents": bidirectional,
    },
}
GUARDED = [(name, way.name) for name in TRIED for way in WAYS[name] if way.is_guarded]
UNGUARDED = [(name, way.name) for name in TRIED for way in WAYS[name] if not way.is_guarded]
PAGES = {"Google ADK": "adk", "Strands": "strands"}


def refusal_of(work: Callable[[], Any]) -> BadCall:
    """Gives the refusal that stopped some work, which a framework may have wrapped."""
    try:
        work()
    except BaseException as error:
        found: BaseException | None = error
        while found is not None and not isinstance(found, BadCall):
            found = getattr(found, "original_exception", None) or found.__cause__ or found.__context__
        if found is None:
            raise
        return found
    raise AssertionError("it was not refused")


def test_88_every_way_is_tried() -> None:
    for name, tried in TRIED.items():
        assert {way.name for way in WAYS[name]} == set(tried)


@pytest.mark.parametrize("framework", TRIED)
def test_88_each_page_has_the_table_of_all_ways(framework: str) -> None:
    page = (ROOT / "docs" / "integrations" / f"{PAGES[framework]}.md").read_text()
    rows = page.partition("| how code runs | the ledger |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    says = {True: "guarded", False: "named, and refused in strict mode"}
    assert rows == [f"| {way.name} | {says[way.is_guarded]} |" for way in WAYS[framework]]


@pytest.mark.parametrize(("framework", "way"), GUARDED)
def test_88_what_counts_as_guarded_meets_the_ledger(ledger: Ledger, framework: str, way: str) -> None:
    with instrument(ledger, strict=True, allow=OTHERS) as report, ledger.in_run("order-1"):
        TRIED[framework][way]()
        effects = list(ledger.effects())
        assert effects, f"{way} met no ledger"
        assert {effect.status for effect in effects} == {"succeeded"}
        once = times()
        assert once == len([one for one in effects if one.tool in ("charge", "shell")]), "each was one of the ledger's"
        with suppress(RuntimeError):  # what the program calls by itself cannot wait for a person
            TRIED[framework][way]()
        assert times() == once, "run twice, done once: it is replayed, or a person is asked"
    assert report.seen_unguarded == ()


@pytest.mark.parametrize(("framework", "way"), UNGUARDED)
def test_88_what_is_not_guarded_is_refused_in_strict_mode(ledger: Ledger, framework: str, way: str) -> None:
    with instrument(ledger, strict=True, allow=OTHERS) as report, ledger.in_run("order-1"):
        assert f"✗ refused: {', '.join(one.name for one in WAYS[framework] if not one.is_guarded)}" in repr(report)
        assert f"({way})" in str(refusal_of(TRIED[framework][way]))
    assert times() == 0


@pytest.mark.parametrize(("framework", "way"), UNGUARDED)
def test_88_what_is_not_guarded_is_named(ledger: Ledger, framework: str, way: str) -> None:
    with instrument(ledger) as report, ledger.in_run("order-1"):
        (found,) = [one for one in report.findings if one.framework == framework]
        assert way in found.unguarded
        TRIED[framework][way]()
        assert any(framework in one and f"({way})" in one for one in report.seen_unguarded)
        assert f"✗ ran without the ledger: {report.seen_unguarded[0]}" in repr(report)


def give_own(ledger: Ledger) -> None:
    own.update({"Google ADK": LedgerPlugin(ledger, run="order-1"), "Strands": StrandsPlugin(ledger, run="order-1")})


@pytest.mark.parametrize(("framework", "way"), UNGUARDED)
def test_88_a_plugin_that_is_not_strict_loosens_no_strict_mode(ledger: Ledger, framework: str, way: str) -> None:
    give_own(ledger)
    test_88_what_is_not_guarded_is_refused_in_strict_mode(ledger, framework, way)


@pytest.mark.parametrize(("framework", "way"), UNGUARDED)
def test_88_what_is_not_guarded_is_named_beside_a_plugin(ledger: Ledger, framework: str, way: str) -> None:
    give_own(ledger)
    test_88_what_is_not_guarded_is_named(ledger, framework, way)


@pytest.mark.parametrize("way", [way for framework, way in GUARDED if framework == "Google ADK"])
def test_88_what_a_plugin_guards_is_guarded_once_in_strict_mode(ledger: Ledger, way: str) -> None:
    give_own(ledger)
    test_88_what_counts_as_guarded_meets_the_ledger(ledger, "Google ADK", way)


def test_88_other_plugins_of_adk_are_refused_beside_one_of_ours(ledger: Ledger) -> None:
    give_own(ledger)
    with instrument(ledger, strict=True, allow=OTHERS):
        assert "other" in str(refusal_of(runs(app_of(adk_agent(charge), Other(name="other")))))
    assert times() == 0


class OwnNode(Workflow):
    async def _run_impl(self, *, ctx: Any, node_input: Any) -> AsyncIterator[Any]:
        done.append("paid")
        async for event in super()._run_impl(ctx=ctx, node_input=node_input):
            yield event


class OwnJoin(JoinNode):
    async def _run_impl(self, *, ctx: Any, node_input: Any) -> AsyncIterator[Any]:
        done.append("paid")
        async for event in super()._run_impl(ctx=ctx, node_input=node_input):
            yield event


class OwnImpl(LlmAgent):
    async def _run_impl(self, **words: Any) -> AsyncIterator[Any]:
        done.append("paid")
        async for event in super()._run_impl(**words):
            yield event


class OwnRun(LlmAgent):
    async def run_async(self, parent_context: Any) -> AsyncIterator[Any]:
        done.append("paid")
        async for event in super().run_async(parent_context):
            yield event


def scripted(kind: Any, **words: Any) -> LlmAgent:
    made: LlmAgent = kind(name="own", model=ScriptedLlm(model="s", turns=[[types.Part(text="done")]]), **words)
    return made


@pytest.mark.parametrize(
    "root",
    [
        lambda: scripted(OwnImpl),
        lambda: scripted(OwnRun),
        lambda: OwnNode(name="own", edges=[(START, scripted(LlmAgent, mode="single_turn"))]),
        lambda: Workflow(name="flow", edges=[(START, OwnJoin(name="own"))]),
    ],
)
def test_88_kinds_of_adk_s_agents_and_nodes_that_run_in_a_way_of_their_own_are_refused(
    ledger: Ledger, root: Callable[[], Any]
) -> None:
    with instrument(ledger, strict=True, allow=OTHERS), ledger.in_run("order-1"):
        assert "own" in str(refusal_of(adk(root)))
    assert times() == 0


def test_88_a_tool_of_the_program_s_that_is_a_kind_of_one_inside_the_app_is_guarded(ledger: Ledger) -> None:
    class Paying(TransferToAgentTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            done.append("paid")
            return await super().run_async(args=args, tool_context=tool_context)

    turns = [[called("transfer_to_agent", "c1", agent_name="other")], [types.Part(text="done")]]
    root = adk_agent(Paying(agent_names=["other"]), turns=turns, sub_agents=[adk_agent(name="other", turns=turns[1:])])
    with instrument(ledger, strict=True, allow=OTHERS), ledger.in_run("order-1"):
        runs(app_of(root))()
        (effect,) = ledger.effects()
    assert (effect.tool, times()) == ("transfer_to_agent", 1)


class OwnAgent(Agent):
    async def stream_async(self, *args: Any, **words: Any) -> AsyncIterator[Any]:
        done.append("paid")
        async for event in super().stream_async(*args, **words):
            yield event


@tool
def paying_hook(event: Any) -> str:
    """Pays."""
    done.append("paid")
    return "paid"


def own_node(multi: str) -> None:
    own = OwnAgent(model=ScriptedModel([[{"text": "done"}]]), callback_handler=None, name="own")
    if multi == "swarm":
        Swarm([own])("go")
        return
    graph = GraphBuilder()
    graph.add_node(own, "own")
    graph.build()("go")


def tool_as_hook(hook: Any) -> None:
    agent = strands_agent(turns=[[{"text": "done"}]])
    agent.add_hook(hook, BeforeModelCallEvent)
    agent("go")


@pytest.mark.parametrize(
    "work",
    [
        lambda: tool_as_hook(paying_hook),
        lambda: tool_as_hook(paying_hook.__call__),
        lambda: own_node("graph"),
        lambda: own_node("swarm"),
    ],
)
def test_88_code_of_the_program_s_in_an_object_of_strands_is_refused(ledger: Ledger, work: Callable[[], Any]) -> None:
    with instrument(ledger, strict=True, allow=OTHERS), ledger.in_run("order-1"):
        refusal_of(work)
    assert times() == 0


@pytest.mark.parametrize("framework", ["Google ADK", "Strands"])
def test_90_code_that_says_it_is_the_frameworks_own_is_refused(ledger: Ledger, framework: str) -> None:
    @functools.wraps(LlmAgent.clone if framework == "Google ADK" else Agent.add_hook)
    def pay(*_: Any, **words: Any) -> None:
        done.append("paid")

    def strands() -> None:
        agent = strands_agent(turns=[[{"text": "done"}]])
        agent.add_hook(pay, BeforeModelCallEvent)
        agent("go")

    turns = [[types.Part(text="done")]]
    tried = strands if framework == "Strands" else adk(lambda: adk_agent(turns=turns, before_agent_callback=pay))
    with instrument(ledger, strict=True, allow=OTHERS), ledger.in_run("order-1"):
        refusal_of(tried)
    assert times() == 0


class Second:
    """A router's strategy: it takes the second model."""

    router: ModelRouter

    async def select(self, context: Any, **words: Any) -> Any:
        return self.router.candidates[1]


@pytest.mark.parametrize("is_plugin", [False, True])
def test_88_tools_of_a_model_that_a_router_chooses_are_refused(ledger: Ledger, is_plugin: bool) -> None:
    turns: Any = [[{"text": "done"}]]
    strategy = Second()
    strategy.router = ModelRouter([ScriptedModel(turns), Hosting(turns)], strategy=strategy)
    # The strategy is code of the program's, which strict mode refuses by itself.
    plugins: Any = [StrandsPlugin(ledger, run="order-1", strict=True, allow=["Second"])] if is_plugin else []
    around: Any = nullcontext() if is_plugin else instrument(ledger, strict=True, allow=[*OTHERS, "Second"])
    with around, ledger.in_run("order-1"):
        agent = Agent(model=strategy.router, callback_handler=None, plugins=plugins, retry_strategy=None)
        assert "web_search" in str(refusal_of(lambda: agent("go")))


def test_88_tools_beside_the_request_of_adk_are_refused(ledger: Ledger) -> None:
    beside = types.GenerateContentConfig(http_options=types.HttpOptions(extra_body={"tools": [{"codeExecution": {}}]}))
    turns = [[types.Part(text="done")]]
    with instrument(ledger, strict=True, allow=OTHERS), ledger.in_run("order-1"):
        refused = refusal_of(adk(lambda: adk_agent(turns=turns, generate_content_config=beside)))
    assert "codeExecution" in str(refused)


def test_88_what_is_allowed_by_name_runs_in_strict_mode(ledger: Ledger) -> None:
    allowed = ["Paying", "pay", "web_search"]
    with instrument(ledger, strict=True, allow=[*OTHERS, *allowed]) as report, ledger.in_run("order-1"):
        TRIED["Google ADK"]["code executors"]()
        TRIED["Strands"]["hosted tools"]()
        hooks()
        assert (report.seen_unguarded, times()) == ((), 2)


def test_88_a_call_inside_a_tool_of_the_same_name_and_id_is_judged(ledger: Ledger) -> None:
    @tool(name="charge")
    def around(amount: int) -> str:
        """Asks another agent."""
        return str(strands_agent(pays)("go"))

    with instrument(ledger), ledger.in_run("order-1"):
        strands_agent(around, turns=[[strands_called("charge", "c1", amount=1)], [{"text": "done"}]])("go")
    assert sorted(effect.args["amount"] for effect in ledger.effects()) == [1, 5]


class Meddling(InterventionHandler):
    name = "meddling"

    def before_invocation(self, event: Any) -> Any:
        done.append("paid")
        return Proceed()


def meddles(context: Any) -> Any:
    done.append("paid")
    return context


def by_middleware() -> Agent:
    agent = strands_agent(turns=[[{"text": "done"}]])
    agent.add_middleware(InvokeModelStage.Input, meddles)
    return agent


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (by_middleware, "meddles"),
        (lambda: strands_agent(turns=[[{"text": "done"}]], interventions=[Meddling()]), "meddling"),
    ],
)
def test_88_code_that_strands_wraps_is_named_by_its_own_name(ledger: Ledger, make: Any, name: str) -> None:
    with instrument(ledger, strict=True, allow=OTHERS), ledger.in_run("order-1"):
        assert name in str(refusal_of(lambda: make()("go")))
    assert done == []


class Other(BasePlugin):
    async def before_tool_callback(self, **words: Any) -> None:
        done.append("paid")


@pytest.mark.parametrize("root", [executor, lambda: Custom(name="custom"), agent_as_tool])
def test_88_the_plugin_of_adk_refuses_what_it_does_not_guard(ledger: Ledger, root: Any) -> None:
    assert refusal_of(runs(app_of(root(), LedgerPlugin(ledger, run="order-1", strict=True))))
    assert times() == 0


def test_88_the_plugin_of_adk_refuses_other_plugins(ledger: Ledger) -> None:
    plugins = [Other(name="other"), LedgerPlugin(ledger, run="order-1", strict=True)]
    assert "other" in str(refusal_of(runs(app_of(adk_agent(charge), *plugins))))
    plugins[1] = LedgerPlugin(ledger, run="order-1", strict=True, allow=["other"])
    runs(app_of(adk_agent(charge), *plugins))()
    assert done == ["paid", "paid"]


def test_88_calls_of_an_agent_inside_belong_to_the_run_and_the_turn_around_it(ledger: Ledger) -> None:
    inner = AgentTool(adk_agent(charge))
    turns = [[called("till", "t1", request="go")], [called("till", "t2", request="again")], [types.Part(text="done")]]
    runner = app_of(adk_agent(inner, name="root", turns=turns), LedgerPlugin(ledger))
    runs(runner)()
    assert {effect.run_id for effect in ledger.effects()} == {f"billing/ana/s{next(numbers) - 1}"}
    assert len({effect.turn for effect in ledger.effects()}) == 1
    assert done == ["paid"], "both delegations would pay the same, in one turn"


def test_88_the_plugin_of_strands_guards_agents_inside_and_refuses_what_it_does_not_guard(ledger: Ledger) -> None:
    turns: Any = [[strands_called("till", "t1", input="go")], [{"text": "done"}]]
    inner = strands_agent(pays, name="till")
    plugin = StrandsPlugin(ledger, run="order-1", strict=True)
    strands_agent(inner, turns=turns, plugins=[plugin])("go")
    assert {(one.tool, one.run_id) for one in ledger.effects()} == {("till", "order-1"), ("charge", "order-1")}
    assert len({one.turn for one in ledger.effects()}) == 1
    hosting = strands_agent(model=Hosting, turns=[[{"text": "done"}]], plugins=[plugin])
    assert "web_search" in str(refusal_of(lambda: hosting("go")))
    assert done == ["paid"]


class Nested(ScriptedModel):
    def get_config(self) -> dict[str, Any]:
        return {"params": {"extra_body": {"tools": [{"type": "mcp", "server_label": "bank"}]}}}


@pytest.mark.parametrize("is_routed", [False, True])
def test_88_hosted_tools_of_strands_are_found_at_any_depth_and_behind_a_router(ledger: Ledger, is_routed: bool) -> None:
    class Second:
        async def select(self, context: Any, **words: Any) -> Any:
            return context.candidates[1]

    def model(turns: Any) -> Any:
        plain, hosted = ScriptedModel(turns), Nested(turns)
        return ModelRouter([plain, hosted], strategy=Second()) if is_routed else hosted

    work = strands(turns=[[{"text": "done"}]], model=model)
    with instrument(ledger, strict=True, allow=[*OTHERS, "Second"]), ledger.in_run("order-1"):
        assert "mcp:bank" in str(refusal_of(work))


def test_88_hosted_tools_of_adk_are_found_in_the_options_of_a_request(ledger: Ledger) -> None:
    options = types.HttpOptions(extra_body={"tools": [{"codeExecution": {}}]})
    config = types.GenerateContentConfig(http_options=options)
    agent = adk(lambda: adk_agent(turns=[[types.Part(text="done")]], generate_content_config=config))
    with instrument(ledger, strict=True, allow=OTHERS), ledger.in_run("order-1"):
        assert "codeExecution" in str(refusal_of(agent))
