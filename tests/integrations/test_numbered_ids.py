"""Models that number the calls of each answer from zero: no payment is lost, none is made twice, and none is stuck.

The number is that of the fault that was found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from agents import set_tracing_disabled
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from indelible import AsyncLedger
from indelible.integrations.function_calls import FunctionCalls
from indelible.integrations.langchain import LedgerMiddleware
from tests.integrations.langchain_agents import Scripted, calls, create_agent
from tests.integrations.test_repeats import CHARGE, Play, Said, Till, mcp, openai_agents, pydantic_ai

pytestmark = pytest.mark.anyio
OTHER = {"order": "o1", "amount": 6}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


async def function_calls(ledger: AsyncLedger, till: Till, said: Said, **words: Any) -> list[str]:
    loop = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", **words)
    heard: list[str] = []
    for number, asked in enumerate(said):
        for n, args in enumerate(asked):
            call = {"id": f"call_{n}", "type": "function", "function": {"name": "charge", "arguments": args}}
            answered = await loop.answer_async([call], turn=f"m{number}")
            heard += [one["content"] for one in answered.messages] + [one.told for one in answered.waiting]
    return heard


async def langchain(ledger: AsyncLedger, till: Till, said: Said, **words: Any) -> list[str]:
    saver, thread = InMemorySaver(), {"configurable": {"thread_id": "order-1"}}
    heard: list[str] = []
    for asked in said:
        turns = [calls(("charge", args, f"call_{n}")) for n, args in enumerate(asked)]
        gate = [LedgerMiddleware(ledger.blocking, **words)]
        model = Scripted(responses=[*turns, AIMessage(content="done")])
        agent = create_agent(model, [tool(till.charge)], middleware=gate, checkpointer=saver)
        result = await asyncio.to_thread(agent.invoke, {"messages": [("user", "charge")]}, thread)
        while "__interrupt__" in result:
            pending = await ledger.approvals(status="pending")
            if not pending:
                result = await asyncio.to_thread(agent.invoke, Command(resume="go on"), thread)
                continue
            heard.append("waits")
            for question in pending:
                await ledger.approve(question, digest=question.digest, by="ana")
            result = await asyncio.to_thread(agent.invoke, Command(resume="go on"), thread)
        heard.append(str(result["messages"][-2].content))
    return heard


LIGHT = (openai_agents, pydantic_ai, mcp, function_calls)


@pytest.mark.parametrize("words", [{}, {"dedupe": "call"}], ids=["turn", "call"])
@pytest.mark.parametrize("play", [*LIGHT, langchain], ids=lambda one: one.__name__)
async def test_96_each_turns_call_0_is_its_own_payment(sqlite_url: str, play: Play, words: dict[str, Any]) -> None:
    till = Till()
    async with AsyncLedger.open(sqlite_url, seal=False) as ledger:
        await play(ledger, till, [[CHARGE], [OTHER]], side_effect="payment", **words)
        assert till.charged == [5, 6]
        if words:  # the integrator says that each call is meant
            await play(ledger, till, [[], [], [CHARGE]], side_effect="payment", **words)
            assert till.charged == [5, 6, 5]


@pytest.mark.parametrize("play", LIGHT, ids=lambda one: one.__name__)
async def test_96_a_resumed_call_0_is_not_made_again(sqlite_url: str, play: Play) -> None:
    till = Till()
    async with AsyncLedger.open(sqlite_url, seal=False) as ledger:
        for _ in range(2):
            await play(ledger, till, [[CHARGE]], side_effect="payment", dedupe="call")
    assert till.charged == [5]


@pytest.mark.parametrize("words", [{}, {"dedupe": "call"}], ids=["turn", "call"])
@pytest.mark.parametrize("play", [*LIGHT, langchain], ids=lambda one: one.__name__)
async def test_96_an_approved_call_0_is_made_once_and_is_not_stuck(
    sqlite_url: str, play: Play, words: dict[str, Any]
) -> None:
    till = Till()
    words = {**words, "side_effect": "payment", "approval": "required"}
    async with AsyncLedger.open(sqlite_url, seal=False) as ledger:
        await play(ledger, till, [[CHARGE]], **words)
        if play is not langchain:
            (question,) = await ledger.approvals(status="pending")
            await ledger.approve(question, digest=question.digest, by="ana")
            for _ in range(2):
                await play(ledger, till, [[CHARGE]], **words)
        assert till.charged == [5]
        assert len(await ledger.approvals()) == 1
