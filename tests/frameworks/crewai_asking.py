"""Passes of a crew or a flow with CrewAI's own questions to people, each in a process of its own."""

from __future__ import annotations

import builtins
import io
import json
import os
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false", OTEL_SDK_DISABLED="true")

from crewai import Agent, Crew, Flow, Task
from crewai.core.providers.human_input import set_provider
from crewai.flow import human_feedback
from crewai.flow.flow import listen, start
from crewai.tools import BaseTool, tool
from crewai.tools.tool_failure import ToolExecutionFailedError

from indelible import Ledger, instrument
from indelible.integrations.crewai import LedgerTools
from indelible.testing.adapters.crewai import ScriptedLLM, called

DONE: list[str] = []
FILES: frozenset[str] = frozenset()
TERMS = {"charge": {"side_effect": "payment", "approval": "required"}}


@tool
def charge(amount: int) -> str:
    """Charges."""
    DONE.append("charged")
    return "charged"


def agent_of(*turns: Any, tools: list[BaseTool]) -> Agent:
    llm = ScriptedLLM(model="scripted", turns=list(turns))
    return Agent(role="billing", goal="charge", backstory="b", llm=llm, tools=tools)


def crew_of(tools: list[BaseTool]) -> Crew:
    """A person looks at a plan, then it is charged, and a person looks at the bill; "again" asks for another one."""
    plans = agent_of("the plan", "the better plan", tools=[])
    bills = agent_of([called("charge", "c1", amount=5)], "the bill", tools=tools)
    looked_at = {"expected_output": "done", "human_input": True}
    tasks = [Task(description="plan", agent=plans, **looked_at), Task(description="bill", agent=bills, **looked_at)]
    return Crew(agents=[plans, bills], tasks=tasks)


def flow_of(tools: list[BaseTool], people: Any) -> Flow[Any]:
    class Billing(Flow[Any]):
        @start()
        @human_feedback(message="Is the plan right?", provider=people)
        def plan(self) -> str:
            return "the plan"

        @listen(plan)
        def bill(self, looked_at: Any) -> str:
            bills = agent_of([called("charge", "c1", amount=5)], "the bill", tools=tools)
            Crew(agents=[bills], tasks=[Task(description="bill", expected_output="done", agent=bills)]).kickoff()
            return f"{looked_at.feedback}, {self.ask('Send it?')}"

    return Billing()


def played(url: str, kind: str, how: str) -> Any:
    """Return how a pass ended."""
    with Ledger.open(url, seal=False) as ledger:
        gate = LedgerTools(ledger, run="order-1", terms=TERMS)
        tools = gate.tools([charge]) if how == "hand" else [charge]
        people = gate.people() if how == "hand" else None
        if people is not None:
            set_provider(people)
        around = instrument(ledger, terms=TERMS) if how == "instrument" else nullcontext()
        with around, ledger.in_run("order-1"):
            try:
                if kind == "crew":
                    return str(crew_of(tools).kickoff())
                flow = flow_of(tools, people)
                flow.input_provider = people
                return str(flow.kickoff())
            except ToolExecutionFailedError as stopped:
                return stopped.record.failure.code


def asking(_: object, url: str, kind: str, how: str, answers: list[str], into: str) -> None:
    """Play a pass: with no ledger ("none"), by hand ("hand"), or with `instrument`. These answers are at hand."""
    left, read = iter(answers), list[str]()

    def answer(*_: Any) -> str:
        read.append(next(left))
        return read[-1]

    builtins.input = answer
    with redirect_stdout(io.StringIO()):
        end = played(url, kind, how)
    Path(into).write_text(json.dumps({"end": end, "read": read, "done": DONE}))
