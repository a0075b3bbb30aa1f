"""A crew charges a card once, stops before it refunds until a person has decided, and is kicked off again.

Run it, decide, and run it again: what was done replays, and what was decided goes on. Its model is scripted, so it
needs no key.  python examples/crewai_crew.py; python examples/crewai_crew.py --decide
"""

import json
import os
import sys
from typing import Any

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from crewai.tools.tool_failure import ToolExecutionFailedError

from indelible import Ledger
from indelible.integrations.crewai import LedgerTools

TURNS = [("charge", {"order": "123", "amount": 1000}), ("refund", {"charge_id": "ch_123", "amount": 50})]


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


class Scripted(BaseLLM):
    """Stands for a model: it calls one tool after the other, and then says what it did."""

    def call(self, messages: Any, *words: Any, **more: Any) -> Any:
        """Says the turn that is due by the messages so far."""
        said = sum(message["role"] == "assistant" for message in messages)
        if said >= len(TURNS):
            return "refunded"
        name, args = TURNS[said]
        return [{"id": f"call_{said}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}]

    def supports_function_calling(self) -> bool:
        """Calls tools by their names, not by text."""
        return True


def main() -> None:
    """Kicks the crew off, every time from the start."""
    with Ledger.open("sqlite:///crewai_crew.db") as ledger:
        if "--decide" in sys.argv:
            for waiting in ledger.approvals(status="pending"):
                ledger.approve(waiting, digest=waiting.digest, by="ana")
        terms = {"charge": {"side_effect": "payment"}, "refund": {"side_effect": "payment", "approval": "required"}}
        gate = LedgerTools(ledger, run="order-123", terms=terms)
        agent = Agent(
            role="billing",
            goal="refund what is due",
            backstory="keeps the books",
            llm=Scripted(model="scripted"),
            tools=gate.tools([charge, refund]),
        )
        task = Task(description="refund order 123", expected_output="what was done", agent=agent)
        try:
            print(f"  {Crew(agents=[agent], tasks=[task]).kickoff().raw}")
        except ToolExecutionFailedError as stopped:
            print(f"  waits for a person: {stopped.record.failure.details['show']}")


main()
