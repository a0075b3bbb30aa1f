"""What the processes of the tests of durable runs do: one agent in three frameworks, that charges two orders."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from agents import Agent as OpenAIAgent
from agents import Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import Ledger
from indelible.integrations import pydantic_ai, pydantic_ai_durability
from indelible.integrations.langchain import LedgerMiddleware
from indelible.integrations.openai_agents import LedgerTools
from tests.integrations.forking import KilledAtLine
from tests.integrations.outside import Outside

FILES = frozenset({__file__, pydantic_ai.__file__, pydantic_ai_durability.__file__})
LEASE = timedelta(seconds=0.4)

set_tracing_disabled(True)


def durable(tracer: KilledAtLine, url: str, folder: str, run_id: str, **words: Any) -> None:
    """Runs the agent in Pydantic AI, durably."""
    outside = Outside(folder, orders=words.pop("orders", 3))
    with Ledger.open(url) as ledger:
        # One order is charged twice on purpose, in one turn: by the ids, which are recorded with the model's answers.
        terms = {"charge": {"lease": LEASE, "dedupe": "call", **words}, "model.turn": {"lease": LEASE}}
        output = _pydantic_ai(outside, pydantic_ai_durability.LedgerDurability(ledger, run=run_id, terms=terms))
    outside.end(output, tracer.count)


def in_pydantic_ai(tracer: KilledAtLine, url: str, folder: str, run_id: str, **dies: Any) -> None:
    """Runs the agent in Pydantic AI, where a call is what it says."""
    outside = Outside(folder, **dies)
    with Ledger.open(url) as ledger:
        gate = pydantic_ai.LedgerCapability(ledger, run=run_id, dedupe="occurrence", lease=LEASE)
        output = _pydantic_ai(outside, gate)
    outside.end(output, tracer.count)


def _pydantic_ai(outside: Outside, capability: Any) -> Any:
    def says(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        args = outside.is_asked(sum(isinstance(one, ModelResponse) for one in messages))
        # Another id each time it is asked, as of every model: were it asked again, the call would be another one.
        return ModelResponse(
            parts=[TextPart("done") if args is None else ToolCallPart("charge", args, tool_call_id=uuid4().hex)]
        )

    agent = Agent(
        FunctionModel(says),
        name="billing",
        tools=[Tool(outside.charge)],
        output_type=[str, DeferredToolRequests],
        instructions=lambda: f"this is process {os.getpid()}",
        capabilities=[capability],
    )
    output = asyncio.run(agent.run("charge what is due")).output
    return output if isinstance(output, str) else next(iter(output.metadata.values()))


class _Scripted(FakeMessagesListChatModel):
    """Calls what is due by the messages so far."""

    outside: Any

    def bind_tools(self, tools: Sequence[Any], **words: Any) -> Any:
        """Gives itself: it knows what it will call."""
        return self

    def _generate(self, messages: Any, *rest: Any, **words: Any) -> Any:
        args = self.outside.is_asked(sum(isinstance(one, AIMessage) for one in messages))
        calls = [] if args is None else [{"name": "charge", "args": args, "id": uuid4().hex}]
        self.i, self.responses = 0, [AIMessage(content="" if calls else "done", tool_calls=calls)]
        return super()._generate(messages, *rest, **words)


def in_langgraph(tracer: KilledAtLine, url: str, folder: str, run_id: str, **dies: Any) -> None:
    """Runs the agent in LangGraph, where a call is what it says."""
    outside = Outside(folder, **dies)
    with Ledger.open(url) as ledger:
        gate = LedgerMiddleware(ledger, run=run_id, dedupe="occurrence", lease=LEASE)
        tool = StructuredTool.from_function(coroutine=outside.charge, name="charge", description="Charges an order.")
        model = _Scripted(responses=[], outside=outside)
        agent = create_agent(model, [tool], middleware=[gate], checkpointer=InMemorySaver())
        asked = {"messages": [("user", "charge what is due")]}
        result = asyncio.run(agent.ainvoke(asked, {"configurable": {"thread_id": uuid4().hex}}))
    pauses = result.get("__interrupt__", ())
    outside.end(pauses[0].value if pauses else result["messages"][-1].content, tracer.count)


def in_openai_agents(tracer: KilledAtLine, url: str, folder: str, run_id: str, orders: int) -> None:
    """Runs the agent in the OpenAI SDK, where a call is what it says, and no tool can see how often that was said."""
    outside = Outside(folder, orders=orders)
    turns: list[Any] = [
        [function_call("charge", {"order": order, "amount": amount, "currency": "EUR"}, call_id=uuid4().hex)]
        for order, amount in outside.orders
    ]
    with Ledger.open(url) as ledger:
        gate = LedgerTools(ledger, run=run_id, dedupe="args", lease=LEASE)
        model = ScriptedModel([*turns, [assistant_message("done")]])
        agent = OpenAIAgent(name="billing", model=model, tools=gate.tools([function_tool(outside.charge)]))
        outside.end(asyncio.run(Runner.run(agent, "charge what is due")).final_output, tracer.count)


def kept(tracer: KilledAtLine, url: str, folder: str, run_id: str, orders: int, approval: str) -> None:
    """Runs the agent in the OpenAI SDK, from the state that is kept in the ledger; is killed once it has kept one."""
    outside = Outside(folder, orders=orders)

    async def run(ledger: Ledger) -> str:
        gate = LedgerTools(ledger, run=run_id, approval=approval)
        calls = [
            function_call("charge", {"order": order, "amount": amount, "currency": "EUR"}, call_id=f"c{amount}")
            for order, amount in outside.orders
        ]
        agent = OpenAIAgent(name="billing", tools=gate.tools([function_tool(outside.charge)]))
        state = await gate.load(agent)
        agent.model = ScriptedModel([calls] * (state is None) + [[assistant_message("done")]])
        if state is not None and await gate.answer(state):
            return "paused"
        result = await Runner.run(agent, "charge what is due" if state is None else state)
        if result.interruptions:
            await gate.keep(result)
            os.kill(os.getpid(), signal.SIGKILL)
        return str(result.final_output)

    with Ledger.open(url) as ledger:
        outside.end(asyncio.run(run(ledger)), tracer.count)


def page(tracer: KilledAtLine, folder: str, program: str) -> None:
    """Runs what stands on a page."""
    os.chdir(folder)
    names: dict[str, Any] = {}
    exec(program, names)
    names["ledger"].close()
