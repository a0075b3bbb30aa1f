"""Agents whose tools ask people themselves, each pass in a process of its own: what is kept between is in a folder."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

from agents import Agent as OpenAIAgent
from agents import Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, interrupt
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import AsyncLedger, Ledger
from indelible.integrations.langchain import LedgerMiddleware
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability
from tests.integrations.langchain_agents import HELLO, THREAD, Till, agent, said

FILES: frozenset[str] = frozenset()
PAYS: dict[str, Any] = {"side_effect": "payment", "approval": "required"}


def _end(folder: str, **told: Any) -> None:
    Path(folder, "end.json").write_text(json.dumps(told))


def langgraph(tracer: Any, url: str, folder: str, resume: Any = None, first: bool = False) -> None:
    """Invokes a graph once: its first time, or resumed with a word."""
    till = Till(lambda order, amount: f"{interrupt('which colour?')} {interrupt('which size?')}")
    saver = SqliteSaver(sqlite3.connect(Path(folder, "graph.db"), check_same_thread=False))
    terms = {"charge": {**PAYS, "nothing_on": GraphInterrupt}}
    with Ledger.open(url) as ledger:
        graph = agent(
            till, [LedgerMiddleware(ledger, terms=terms)], None if first else [AIMessage("done")], saver=saver
        )
        result = graph.invoke(HELLO if first else None if resume is None else Command(resume=resume), THREAD)
    asked = [one.value for one in result.get("__interrupt__", ())]
    _end(folder, asked=asked, entered=len(till.charged), said=[message.content for message in said(result)])


def openai(
    tracer: Any,
    url: str,
    folder: str,
    approve: list[str] | None = None,
    unseen: bool = False,
    first: bool = False,
    lost: bool = False,
) -> None:
    """Runs an agent once: its first time, or from its saved state, in which the calls of these ids are approved.

    `unseen` approves them without asking the ledger what they are about. `lost` keeps nothing of what came of it.
    """
    asyncio.run(_openai(url, folder, approve or [], unseen, lost))


async def _openai(url: str, folder: str, approve: list[str], unseen: bool, lost: bool) -> None:
    set_tracing_disabled(True)
    entered: list[str] = []

    @function_tool(needs_approval=True)
    def charge(order: str, amount: int) -> str:
        """Charges an order."""
        entered.append(order)
        return f"charged {amount}"

    turns = [[function_call("charge", {"order": "1", "amount": 5}, call_id="c1")], [assistant_message("done")]]
    kept = Path(folder, "kept")
    async with AsyncLedger.open(url) as ledger:
        gate = LedgerTools(ledger, run="order-123", terms={"charge": PAYS})
        model = ScriptedModel(turns[1:] if kept.exists() else turns)
        agent_ = OpenAIAgent(name="till", model=model, tools=gate.tools([charge]))
        if not kept.exists():
            result = await Runner.run(agent_, "charge it")
        else:
            state = await gate.load(agent_)
            assert state is not None
            for item in state.get_interruptions() if unseen else await gate.answer(state):
                if str(item.call_id) in approve:
                    state.approve(item)
            result = await Runner.run(agent_, state)
        if result.interruptions and not lost:
            await gate.keep(result)
            kept.touch()
    asked = [str(item.call_id) for item in result.interruptions]
    _end(folder, asked=asked, entered=len(entered), said=str(result.final_output))


def pydantic(
    tracer: Any, url: str, folder: str, approve: bool | None = None, first: bool = False, lost: bool = False
) -> None:
    """Runs an agent once: its first time, or from its saved messages with an answer to what it asked.

    `lost` keeps nothing of what came of it.
    """
    asyncio.run(_pydantic(url, folder, approve, lost))


async def _pydantic(url: str, folder: str, approve: bool | None, lost: bool) -> None:
    entered: list[str] = []

    def charge(ctx: RunContext[None], order: str, amount: int) -> str:
        """Charges an order."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"asks": "which colour?"})
        entered.append(order)
        return f"charged {amount}"

    def answers(messages: list[Any], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("charge", {"order": "1", "amount": 5}, "c1")])
        return ModelResponse(parts=[TextPart("done")])

    kept = Path(folder, "messages.json")
    async with AsyncLedger.open(url) as ledger:
        terms = {"charge": {**PAYS, "nothing_on": ApprovalRequired}}
        one = Agent(
            FunctionModel(answers),
            tools=[charge],
            output_type=[str, DeferredToolRequests],
            capabilities=[LedgerCapability(ledger, terms=terms)],
        )
        if not kept.exists():
            result: Any = await one.run("charge it", conversation_id="order-123")
        else:
            answer = DeferredToolResults(approvals={} if approve is None else {"c1": approve})
            history = ModelMessagesTypeAdapter.validate_json(kept.read_bytes())
            result = await one.run(message_history=history, deferred_tool_results=answer, conversation_id="order-123")
    if not lost:
        kept.write_bytes(result.all_messages_json())
    is_paused = isinstance(result.output, DeferredToolRequests)
    asked = list(result.output.metadata.values()) if is_paused else []
    _end(folder, asked=asked, entered=len(entered), said=None if is_paused else result.output)
