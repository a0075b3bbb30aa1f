"""MCP servers whose answer is lost: a framework's own client stands between, and its word is not the tool's (83)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from crewai import Agent, Crew, Task
from crewai.mcp import MCPServerStdio
from crewai.tools.mcp_native_tool import MCPNativeTool
from crewai.tools.mcp_tool_wrapper import MCPToolWrapper
from crewai.tools.tool_failure import ToolExecutionFailedError
from pydantic import BaseModel

from indelible import Ledger, instrument
from indelible.errors import BadCall
from indelible.integrations.crewai import LedgerTools
from indelible.integrations.results import ToolError
from indelible.testing.adapters.crewai import ScriptedLLM
from indelible.testing.adapters.crewai import called as crew_called
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


def crew_tool(how: str, timeout: int = 1) -> MCPNativeTool:
    """Return the bank's tool as CrewAI makes it, with a client that waits less long."""
    server = MCPServerStdio(command=sys.executable, args=bank(how), env={"PYTHONPATH": str(ROOT)})
    agent = Agent(role="billing", goal="g", backstory="b", llm=ScriptedLLM(model="s", turns=[]), mcps=[server])
    (found,) = agent.get_mcp_tools([server])
    assert isinstance(found, MCPNativeTool)
    found.name, make = "charge", found._client_factory

    def hurried() -> Any:
        client = make()
        client.execution_timeout = timeout
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
    (tool,) = LedgerTools(ledger, run="order-1", terms=terms).tools([crew_tool("refuses", timeout=30)])
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
    with pytest.raises(BadCall, match="MCPServerHTTP"):
        if by == "tools":
            LedgerTools(ledger, run="order-1").tools([tool])
        with instrument(ledger, strict=True, allow=OTHERS), ledger.in_run("order-1"):
            kick_off(tool) if by == "crew" else tool.run(amount=5)
    assert ledger.effects() == []
