"""An agent is begun in LangGraph, dies, and is gone on with in Pydantic AI: what was charged is not charged again.

Nothing of the first framework is left but the ledger. Both models are scripted, so it needs no key.
python examples/change_framework.py langgraph; python examples/change_framework.py pydantic-ai
"""

import os
import sys
from typing import Any
from uuid import uuid4

from indelible import Ledger

ORDERS = [{"order": "123", "amount": 1000}, {"order": "124", "amount": 20}, {"order": "123", "amount": 1000}]
# In both frameworks a call is what it says, and how often it was said before: the ids of the models do not matter.
WORDS: dict[str, Any] = {"run": "orders", "dedupe": "occurrence", "side_effect": "payment"}


def charge(order: str, amount: int, currency: str = "EUR") -> str:
    """Stands for a payment provider."""
    print(f"  charging {amount} {currency} for order {order}", flush=True)
    return f"ch_{order}"


def in_langgraph(ledger: Ledger) -> None:
    """Charges the first two orders, and dies."""
    from langchain.agents import create_agent
    from langchain_core.language_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage, ToolCall
    from langchain_core.tools import tool

    from indelible.integrations.langchain import LedgerMiddleware

    class Scripted(FakeMessagesListChatModel):
        def bind_tools(self, tools: Any, **words: Any) -> Any:
            return self

        def _generate(self, messages: Any, *rest: Any, **words: Any) -> Any:
            if sum(isinstance(one, AIMessage) for one in messages) == 2:
                print("  the process dies", flush=True)
                os._exit(1)
            return super()._generate(messages, *rest, **words)

    turns = [
        AIMessage(content="", tool_calls=[ToolCall(name="charge", args=args, id=uuid4().hex)]) for args in ORDERS[:2]
    ]
    agent = create_agent(
        Scripted(responses=list(turns)), [tool(charge)], middleware=[LedgerMiddleware(ledger, **WORDS)]
    )
    agent.invoke({"messages": [("user", "charge what is due")]})


def in_pydantic_ai(ledger: Ledger) -> None:
    """Makes all three calls: two were made before, and the third says what the first said, and is meant so."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from indelible.integrations.pydantic_ai import LedgerCapability

    def scripted(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        turn = sum(isinstance(one, ModelResponse) for one in messages)
        if turn == len(ORDERS):
            return ModelResponse(parts=[TextPart("all is charged")])
        return ModelResponse(parts=[ToolCallPart("charge", ORDERS[turn], tool_call_id=uuid4().hex)])

    agent = Agent(FunctionModel(scripted), tools=[charge], capabilities=[LedgerCapability(ledger, **WORDS)])
    print(f"  {agent.run_sync('charge what is due').output}")


with Ledger.open("sqlite:///change_framework.db") as ledger:
    (in_langgraph if "langgraph" in sys.argv else in_pydantic_ai)(ledger)
    for effect in reversed(ledger.effects(tool="charge")):
        print(f"  {effect.tool} {effect.args['order']} {effect.status} after {effect.attempt} attempt")
