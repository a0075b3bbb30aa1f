"""A LangChain agent charges a card once, asks a person before it refunds, and goes on in another process.

Run it, decide, and run it again: what was done replays, and what was decided goes on. Its model is scripted, so it
needs no key.  python examples/langchain_agent.py; python examples/langchain_agent.py --decide
"""

import sys
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from indelible import Ledger
from indelible.integrations.langchain import LedgerMiddleware


class Scripted(FakeMessagesListChatModel):
    """Stands for a model: charges, then refunds, then is done."""

    def bind_tools(self, tools: Sequence[Any], **words: Any) -> Any:
        """Knows what it will call."""
        return self


@tool
def charge(order: str, amount: int) -> str:
    """Stands for a payment provider."""
    print(f"  charging {amount} for order {order}")
    return f"ch_{order}"


@tool
def refund(charge_id: str, amount: int) -> str:
    """Stands for a payment provider, too."""
    print(f"  refunding {amount} of {charge_id}")
    return f"re_{charge_id}"


def turn(name: str, args: dict[str, Any], call_id: str) -> AIMessage:
    """Is a turn of the model that calls a tool."""
    return AIMessage(content="", tool_calls=[ToolCall(name=name, args=args, id=call_id)])


charging = turn("charge", {"order": "123", "amount": 1000}, "call_Kq7charge")
refunding = turn("refund", {"charge_id": "ch_123", "amount": 50}, "call_Zt4refund")
thread: RunnableConfig = {"configurable": {"thread_id": "order-123"}}

with Ledger.open("sqlite:///langchain_agent.db") as ledger, SqliteSaver.from_conn_string("threads.db") as saver:
    middleware = LedgerMiddleware(
        ledger,
        terms={"charge": {"side_effect": "payment"}, "refund": {"side_effect": "payment", "approval": "required"}},
    )
    turns = [charging, refunding, AIMessage(content="refunded")]
    said = saver.get(thread)
    before = [] if said is None else said["channel_values"]["messages"]
    model = Scripted(responses=turns[sum(isinstance(one, AIMessage) for one in before) :] or turns[-1:])
    agent = create_agent(model, [charge, refund], middleware=[middleware], checkpointer=saver)

    waiting = agent.get_state(thread).interrupts
    if waiting:
        (asked,) = waiting
        if "--decide" in sys.argv:  # as `indelible approvals approve` does in a terminal
            ledger.approve(asked.value["approval"], digest=asked.value["digest"], by="ana")
        result = agent.invoke(Command(resume="look again"), thread)
    elif before:
        result = agent.get_state(thread).values
    else:
        result = agent.invoke({"messages": [("user", "charge order 123, then give 50 back")]}, thread)

    for pause in result.get("__interrupt__", ()):
        print(f"waits for a person: {pause.value['show']}")
    print("last message:", result["messages"][-1].content)
    for effect in reversed(ledger.effects()):
        if effect.tool != "model.turn":
            print(f"{effect.tool} {effect.status}, attempt {effect.attempt}")
