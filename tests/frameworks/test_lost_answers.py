"""MCP servers whose answer is lost: a framework's own client stands between, and its word is not the tool's (83)."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from crewai import Agent, Crew, Task
from crewai.mcp import MCPServerStdio
from crewai.tools.mcp_native_tool import MCPNativeTool
from crewai.tools.mcp_tool_wrapper import MCPToolWrapper
from crewai.tools.tool_failure import ToolExecutionFailedError
from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.features import FeatureName
from google.adk.features._feature_registry import temporary_feature_override
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from google.adk.tools.mcp_tool.mcp_tool import McpTool
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from google.genai import types
from mcp import StdioServerParameters, stdio_client
from pydantic import BaseModel
from strands import Agent as StrandsAgent
from strands import tool as strands_tool
from strands.tools.mcp import MCPClient

from indelible import Ledger, NothingHappened, Refused, instrument
from indelible.errors import BadCall
from indelible.integrations.adk import LedgerPlugin as AdkPlugin
from indelible.integrations.crewai import LedgerTools
from indelible.integrations.results import ToolError
from indelible.integrations.strands import LedgerPlugin as StrandsPlugin
from indelible.testing.adapters.adk import ScriptedLlm
from indelible.testing.adapters.adk import called as adk_called
from indelible.testing.adapters.crewai import ScriptedLLM
from indelible.testing.adapters.crewai import called as crew_called
from indelible.testing.adapters.strands import ScriptedModel
from indelible.testing.adapters.strands import called as strands_called
from tests.frameworks.conftest import OTHERS

ROOT = Path(__file__).parents[2]
LOST = ["dies", "waits"]
DECLARED = [
    ("payment", {}),
    ("payment", {"failed_on": (ToolError, RuntimeError)}),
    ("write", {}),
]


def paid() -> int:
    """Count what the bank has done."""
    return len(Path("paid").read_text().split()) if Path("paid").exists() else 0


def bank(how: str) -> list[str]:
    """Return the words that begin the bank's process; the test is in a folder of its own."""
    return ["-m", "tests.frameworks.mcp_bank", str(Path("paid").absolute()), how]


# CrewAI


def crew_tool(how: str) -> MCPNativeTool:
    """Return the bank's tool as CrewAI makes it, with a client that waits less long."""
    server = MCPServerStdio(command=sys.executable, args=bank(how), env={"PYTHONPATH": str(ROOT)})
    agent = Agent(role="billing", goal="g", backstory="b", llm=ScriptedLLM(model="s", turns=[]), mcps=[server])
    (found,) = agent.get_mcp_tools([server])
    assert isinstance(found, MCPNativeTool)
    found.name, make = "charge", found._client_factory

    def hurried() -> Any:
        client = make()
        client.execution_timeout = 2 if how == "waits" else 60
        return client

    found._client_factory = hurried
    return found


def kick_off(tool: Any) -> Any:
    llm = ScriptedLLM(model="s", turns=[[crew_called("charge", "c1", amount=5)], "done"])
    agent = Agent(role="billing", goal="g", backstory="b", llm=llm, tools=[tool], max_retry_limit=0)
    return Crew(agents=[agent], tasks=[Task(description="d", expected_output="e", agent=agent)]).kickoff()


@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize(("side_effect", "declared"), DECLARED)
def test_83_crewai_sends_a_call_once_and_a_lost_answer_is_in_doubt(
    ledger: Ledger, how: str, side_effect: str, declared: Any
) -> None:
    terms = {"charge": {"side_effect": side_effect, **declared}}
    (tool,) = LedgerTools(ledger, run="order-1", terms=terms).tools([crew_tool(how)])
    for _ in range(2):
        with pytest.raises(ToolExecutionFailedError) as stopped:
            kick_off(tool)
        assert stopped.value.record.failure.code == "EffectInDoubt"
    assert (paid(), [one.status for one in ledger.effects()]) == (1, ["in_doubt"])


@pytest.mark.parametrize(("said", "got"), [({"to": ["bob"]}, ["bob"]), ({"to": [], "memo": None}, ["everybody"])])
def test_84_crewai_s_client_leaves_out_what_is_empty_and_so_does_the_record(
    ledger: Ledger, said: Any, got: Any
) -> None:
    """A server takes its default for what is left out, so an approver must not be shown the empty value."""
    (tool,) = LedgerTools(ledger, run="order-1", terms={"charge": {"side_effect": "payment"}}).tools(
        [crew_tool("answers")]
    )
    assert tool.run(amount=5, **said) == "paid"
    (effect,) = ledger.effects()
    assert json.loads(Path("seen").read_text())["to"] == got
    assert effect.args == {"amount": 5, **{name: value for name, value in said.items() if value}}


@pytest.mark.parametrize("by", ["crew", "program"])
def test_83_crewai_sends_a_call_once_under_instrument(ledger: Ledger, by: str) -> None:
    tool, terms = crew_tool("waits"), {"charge": {"side_effect": "payment"}}
    with instrument(ledger, terms=terms, strict=True, allow=OTHERS), ledger.in_run("order-1"):
        with pytest.raises(ToolExecutionFailedError):
            kick_off(tool) if by == "crew" else tool.run(amount=5)
        assert (paid(), [one.status for one in ledger.effects()]) == (1, ["in_doubt"])
    assert tool._client_factory().max_retries > 1, "the tool itself is as it was"


def test_83_crewai_an_error_that_the_server_reports_is_the_tools(ledger: Ledger) -> None:
    terms = {"charge": {"side_effect": "payment", "failed_on": ToolError}}
    (tool,) = LedgerTools(ledger, run="order-1", terms=terms).tools([crew_tool("refuses")])
    assert "card declined" in tool.run(amount=5)
    assert (paid(), [one.status for one in ledger.effects()]) == (1, ["failed"])


def test_83_crewai_a_read_whose_answer_is_lost_has_failed(ledger: Ledger) -> None:
    (tool,) = LedgerTools(ledger, run="order-1", side_effect="read").tools([crew_tool("dies")])
    assert isinstance(tool.run(amount=5), str)
    assert [one.status for one in ledger.effects()] == ["failed"]


class Amount(BaseModel):
    """Is what a charge takes."""

    amount: int


@pytest.mark.parametrize("by", ["tools", "crew", "program"])
def test_83_crewai_a_tool_that_sends_calls_again_by_itself_is_refused(ledger: Ledger, by: str) -> None:
    tool = MCPToolWrapper({"url": "https://bank.test/mcp"}, "charge", {"args_schema": Amount}, "bank")
    ways: dict[str, Any] = {
        "tools": lambda: LedgerTools(ledger, run="order-1").tools([tool]),
        "crew": lambda: kick_off(tool),
        "program": lambda: tool.run(amount=5),
    }
    with instrument(ledger, strict=True, allow=OTHERS), ledger.in_run("order-1"):
        with pytest.raises(BadCall, match="MCPServerHTTP"):
            ways[by]()
        assert ledger.effects() == []


# Google ADK


async def asked(ledger: Ledger, how: str, declared: Any) -> list[Any]:
    """Let an app charge twice in one turn, and return what its model heard."""
    params = StdioServerParameters(command=sys.executable, args=bank(how), cwd=ROOT)
    toolset = McpToolset(connection_params=StdioConnectionParams(server_params=params, timeout=60))
    turns = [[adk_called("charge", "c1", amount=5)], [adk_called("charge", "c2", amount=5)], [types.Part(text="done")]]
    agent = LlmAgent(name="till", model=ScriptedLlm(model="s", turns=turns), tools=[toolset])
    plugin = AdkPlugin(ledger, run="order-1", terms={"charge": declared})
    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name="billing", root_agent=agent, plugins=[plugin], resumability_config=resumable)
    runner = Runner(app=app, session_service=InMemorySessionService())
    await runner.session_service.create_session(app_name="billing", user_id="ana", session_id="s")
    said = types.Content(role="user", parts=[types.Part(text="pay")])
    events = [event async for event in runner.run_async(user_id="ana", session_id="s", new_message=said)]
    with suppress(Exception):  # its server is dead
        await toolset.close()
    heard = [one.function_response for event in events for one in (event.content and event.content.parts) or ()]
    return [one.response for one in heard if one is not None]


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ADK wait as long as ever for a server to begin, and not as long for its answers."""
    create = McpTool._create_session

    async def created(self: McpTool, **words: Any) -> Any:
        session = await create(self, **words)
        session._session_read_timeout_seconds = timedelta(seconds=2)
        return session

    monkeypatch.setattr(McpTool, "_create_session", created)


@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize(
    ("how", "side_effect", "declared", "is_graceful"),
    [*((how, *one, True) for how in LOST for one in DECLARED), ("dies", "write", {}, False)],
)
def test_83_adk_a_lost_answer_is_in_doubt(
    ledger: Ledger, how: str, side_effect: str, declared: Any, is_graceful: bool
) -> None:
    with temporary_feature_override(FeatureName._MCP_GRACEFUL_ERROR_HANDLING, is_graceful):
        heard = asyncio.run(asked(ledger, how, {"side_effect": side_effect, **declared}))
    assert (paid(), [one.status for one in ledger.effects()]) == (1, ["in_doubt"])
    assert len(heard) <= 1, "the app waits for a person"


@pytest.mark.parametrize(("side_effect", "declared"), [("payment", {"failed_on": ToolError}), ("write", {})])
def test_83_adk_an_error_that_the_server_reports_is_the_tools(ledger: Ledger, side_effect: str, declared: Any) -> None:
    first, again = asyncio.run(asked(ledger, "refuses", {"side_effect": side_effect, **declared}))
    assert first["isError"], "as without the ledger"
    assert "card declined" in again["error"]
    assert (paid(), [one.status for one in ledger.effects()]) == (1, ["failed"])


def test_83_adk_an_error_that_no_one_declared_leaves_doubt(ledger: Ledger) -> None:
    asyncio.run(asked(ledger, "refuses", {"side_effect": "payment"}))
    assert (paid(), [one.status for one in ledger.effects()]) == (1, ["in_doubt"])


def test_83_adk_a_read_whose_answer_is_lost_has_failed_and_the_model_hears_it(ledger: Ledger) -> None:
    first, *_ = asyncio.run(asked(ledger, "dies", {"side_effect": "read"}))
    assert set(first) == {"error"}, "as without the ledger"
    assert {one.status for one in ledger.effects()} == {"failed"}


def test_83_adk_a_call_that_was_not_sent_has_not_happened(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoCredentials:
        async def get_auth_credential(self, context: Any) -> Any:
            raise ValueError("no credentials")

    make = McpTool.__init__

    def made(self: McpTool, **words: Any) -> None:
        make(self, **words)
        self._credentials_manager = NoCredentials()

    monkeypatch.setattr(McpTool, "__init__", made)
    first, again = asyncio.run(asked(ledger, "answers", {"side_effect": "payment"}))
    assert "no credentials" in str(first)
    assert "no credentials" in str(again)
    assert (paid(), [one.status for one in ledger.effects()]) == (0, ["ready"])


# Strands


def strand(
    ledger: Ledger, how: str, declared: Any, through: Any = None, kind: type[MCPClient] = MCPClient, **words: Any
) -> Any:
    """Let an agent charge, by a tool of its own if `through` makes one, and return what came of it."""
    params = StdioServerParameters(command=sys.executable, args=bank(how), cwd=ROOT)
    with kind(lambda: stdio_client(params), **words) as client:
        tools = client.list_tools_sync()
        for one in tools:
            one.timeout = timedelta(seconds=2 if how == "waits" else 60)
        tools = tools if through is None else [through(client)]
        plugin = StrandsPlugin(ledger, run="order-1", terms={"charge": declared})
        model = ScriptedModel([[strands_called("charge", "c1", amount=5)], [{"text": "done"}]])
        return StrandsAgent(model=model, tools=tools, plugins=[plugin], callback_handler=None)("pay")


@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize(("side_effect", "declared"), DECLARED)
def test_83_strands_a_lost_answer_is_in_doubt(ledger: Ledger, how: str, side_effect: str, declared: Any) -> None:
    assert strand(ledger, how, {"side_effect": side_effect, **declared}).stop_reason == "interrupt"
    assert (paid(), [one.status for one in ledger.effects()]) == (1, ["in_doubt"])


@pytest.mark.parametrize(("side_effect", "declared"), [("payment", {"failed_on": ToolError}), ("write", {})])
@pytest.mark.parametrize(("with_tasks", "status"), [(False, "failed"), (True, "in_doubt")])
def test_83_strands_an_error_that_the_server_reports_is_the_tools(
    ledger: Ledger, side_effect: str, declared: Any, with_tasks: bool, status: str
) -> None:
    words: dict[str, Any] = {"tasks_config": {}} if with_tasks else {}
    strand(ledger, "refuses", {"side_effect": side_effect, **declared}, **words)
    assert (paid(), [one.status for one in ledger.effects()]) == (1, [status])


def test_83_strands_a_read_whose_answer_is_lost_has_failed(ledger: Ledger) -> None:
    assert strand(ledger, "dies", {"side_effect": "read"}).stop_reason == "end_turn"
    assert [one.status for one in ledger.effects()] == ["failed"]


def router(client: MCPClient) -> Any:
    """Return a tool that hands on what the SDK's client gives, as its own `mcp_router` does."""

    @strands_tool
    async def charge(amount: int) -> Any:
        """Charges."""
        arguments, until = {"amount": amount}, timedelta(seconds=5)
        return await client.call_tool_async("x", "charge", arguments, read_timeout_seconds=until)

    return charge


def blocking_router(client: MCPClient) -> Any:
    @strands_tool
    def charge(amount: int) -> Any:
        """Charges."""
        return client.call_tool_sync("x", "charge", {"amount": amount}, read_timeout_seconds=timedelta(seconds=5))

    return charge


class OwnClient(MCPClient):
    """Writes its own method, as one that connects anew does."""

    async def call_tool_async(self, *args: Any, **words: Any) -> Any:
        return await inspect.unwrap(MCPClient.call_tool_async)(self, *args, **words)


def test_83_strands_a_client_of_the_program_s_own_is_heard(ledger: Ledger) -> None:
    """What stands at the SDK's client does not hear it: the result of the server's tool tells."""
    terms = {"side_effect": "payment", "failed_on": ToolError}
    assert strand(ledger, "dies", terms, kind=OwnClient).stop_reason == "interrupt"
    assert (paid(), [one.status for one in ledger.effects()]) == (1, ["in_doubt"])


@pytest.mark.parametrize("through", [router, blocking_router])
@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize(("side_effect", "declared"), DECLARED[1:])
def test_83_strands_a_lost_answer_that_a_tool_hands_on_is_in_doubt(
    ledger: Ledger, how: str, side_effect: str, declared: Any, through: Any
) -> None:
    terms = {"side_effect": side_effect, **declared}
    assert strand(ledger, how, terms, through).stop_reason == "interrupt"
    assert (paid(), [one.status for one in ledger.effects()]) == (1, ["in_doubt"])


def test_83_strands_an_error_of_the_server_that_a_tool_hands_on_is_the_tools(ledger: Ledger) -> None:
    strand(ledger, "refuses", {"side_effect": "payment", "failed_on": ToolError}, router)
    assert (paid(), [one.status for one in ledger.effects()]) == (1, ["failed"])


@pytest.mark.parametrize(("says", "status"), [(NothingHappened, "ready"), (Refused, "failed")])
def test_83_strands_what_a_tool_says_after_a_lost_answer_is_its_word(ledger: Ledger, says: Any, status: str) -> None:
    def asking(client: MCPClient) -> Any:
        @strands_tool
        async def charge(amount: int) -> str:
            """Looks for the balance first."""
            await client.call_tool_async("x", "charge", {"amount": amount})
            raise says("no balance")

        return charge

    strand(ledger, "dies", {"side_effect": "payment"}, asking)
    assert [one.status for one in ledger.effects()] == [status]


def test_83_strands_what_a_tool_makes_of_a_lost_answer_itself_is_its_word(ledger: Ledger) -> None:
    def asking(client: MCPClient) -> Any:
        @strands_tool
        async def charge(amount: int) -> str:
            """Charges, and looks whether it happened where the answer is lost."""
            await client.call_tool_async("x", "charge", {"amount": amount})
            return f"paid {paid()}x"

        return charge

    assert strand(ledger, "dies", {"side_effect": "payment"}, asking).stop_reason == "end_turn"
    assert (paid(), [one.status for one in ledger.effects()]) == (1, ["succeeded"])
