"""A Pydantic AI agent charges a card once, asks a person before it refunds, and goes on in another process.

Run it, decide, and run it again: what was done replays, and what was decided goes on. Its model is scripted, so it
needs no key.  python examples/pydantic_ai_agent.py; python examples/pydantic_ai_agent.py --decide
"""

import sys

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import Ledger
from indelible.integrations.pydantic_ai import LedgerCapability


def charge(order: str, amount: int) -> str:
    """Stands for a payment provider."""
    print(f"  charging {amount} for order {order}")
    return f"ch_{order}"


def refund(charge_id: str, amount: int) -> str:
    """Stands for a payment provider, too."""
    print(f"  refunding {amount} of {charge_id}")
    return f"re_{charge_id}"


TURNS: list[list[TextPart | ToolCallPart]] = [
    [ToolCallPart("charge", {"order": "123", "amount": 1000}, tool_call_id="call_Kq7charge")],
    [ToolCallPart("refund", {"charge_id": "ch_123", "amount": 50}, tool_call_id="call_Zt4refund")],
    [TextPart("refunded")],
]


def scripted(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
    """Stands for a model: charges, then refunds, then is done."""
    return ModelResponse(parts=TURNS[sum(isinstance(one, ModelResponse) for one in messages)])


with Ledger.open("sqlite:///pydantic_ai_agent.db") as ledger:
    if "--decide" in sys.argv:
        for waiting in ledger.approvals(status="pending"):
            ledger.approve(waiting, digest=waiting.digest, by="ana")
    terms = {"charge": {"side_effect": "payment"}, "refund": {"side_effect": "payment", "approval": "required"}}
    agent = Agent(
        FunctionModel(scripted),
        tools=[charge, refund],
        output_type=[str, DeferredToolRequests],
        capabilities=[LedgerCapability(ledger, terms=terms)],
    )
    # Nothing is kept but the ledger: run again, the agent gets its model's turns and its tools' results from there.
    result = agent.run_sync("refund order 123", conversation_id="order-123")
    if isinstance(result.output, DeferredToolRequests):
        print(f"  waits for a person: {result.output.metadata['call_Zt4refund']['show']}")
    else:
        print(f"  {result.output}")
