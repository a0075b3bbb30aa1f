"""Models that number the calls of each turn anew: a second payment is neither lost nor stuck."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import Ledger, migrate
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability

pytestmark = pytest.mark.anyio
PAYS = {"charge": {"side_effect": "payment"}}
AMOUNTS = (5, 7, 5)


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


def approve(ledger: Ledger) -> None:
    (approval,) = ledger.approvals(status="pending")
    ledger.approve(approval, digest=approval.digest, by="ana")


async def test_96_openai_agents(ledger: Ledger) -> None:
    paid: list[int] = []

    @function_tool
    def charge(amount: int) -> str:
        """Charges."""
        paid.append(amount)
        return f"charged {amount}"

    set_tracing_disabled(True)
    gate, session, asked = LedgerTools(ledger, run="order-1", terms=PAYS), SQLiteSession("s"), 0
    tools = gate.tools([charge])
    for amount in AMOUNTS:
        turns = [[function_call("charge", {"amount": amount}, call_id="call_0")], [assistant_message("done")]]
        agent: Any = OpenAIAgent(name="till", model=ScriptedModel(turns), tools=tools)
        result = await Runner.run(agent, f"charge {amount}, please", session=session)
        if result.interruptions:
            asked += 1
            state = result.to_state()
            assert len(await gate.answer(state)) == 1, "nobody has decided"
            approve(ledger)
            assert await gate.answer(state) == []
            result = await Runner.run(agent, state, session=session)
        assert result.final_output == "done"
    assert (paid, asked) == ([5, 7, 5], 1)


async def test_96_pydantic_ai(ledger: Ledger) -> None:
    paid: list[int] = []
    asked = 0

    def charge(amount: int) -> str:
        """Charges."""
        paid.append(amount)
        return f"charged {amount}"

    history: list[ModelMessage] = []
    for number, amount in enumerate(AMOUNTS):

        def answers(messages: list[Any], info: AgentInfo, amount: int = amount, number: int = number) -> ModelResponse:
            if sum(isinstance(one, ModelResponse) for one in messages) == 2 * number:
                return ModelResponse(parts=[ToolCallPart("charge", {"amount": amount}, "call_0")])
            return ModelResponse(parts=[TextPart("done")])

        agent: Any = Agent(
            FunctionModel(answers),
            tools=[charge],
            output_type=[str, DeferredToolRequests],
            capabilities=[LedgerCapability(ledger, terms=PAYS)],
        )
        result = await agent.run(f"charge {amount}", message_history=history, conversation_id="order-1")
        if isinstance(result.output, DeferredToolRequests):
            asked += 1
            approve(ledger)
            answer = result.output.build_results(approve_all=True)
            words = {"message_history": result.all_messages(), "deferred_tool_results": answer}
            result = await agent.run(**words, conversation_id="order-1")
        assert result.output == "done"
        history = result.all_messages()
    assert (paid, asked) == ([5, 7, 5], 1)
