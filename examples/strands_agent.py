"""A Strands agent charges a card once, asks a person before it refunds, and goes on in another process.

Run it, decide, and run it again: what was done replays, and what was decided goes on. Its model is scripted, so it
needs no key.  python examples/strands_agent.py; python examples/strands_agent.py --decide
"""

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, tool
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager

from indelible import Ledger
from indelible.integrations.strands import LedgerPlugin

TURNS: list[tuple[str, dict[str, Any]]] = [
    ("charge", {"order": "123", "amount": 1000}),
    ("refund", {"charge_id": "ch_123", "amount": 50}),
]


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


class Scripted(Model):
    """Stands for a model: it calls one tool after the other, and then says what it did."""

    def update_config(self, **words: Any) -> None:
        """Has nothing to set."""

    def get_config(self) -> dict[str, Any]:
        """Has nothing that is set."""
        return {}

    def structured_output(self, *words: Any, **more: Any) -> Any:
        """Is never asked for."""
        raise NotImplementedError

    async def stream(self, messages: Any, *words: Any, **more: Any) -> AsyncIterator[Any]:
        """Says the turn that is due by the messages so far."""
        said = sum(message["role"] == "assistant" for message in messages)
        yield {"messageStart": {"role": "assistant"}}
        if said < len(TURNS):
            name, args = TURNS[said]
            start = {"toolUse": {"name": name, "toolUseId": f"call_{said + 1}"}}
            delta: dict[str, Any] = {"toolUse": {"input": json.dumps(args)}}
        else:
            start, delta = {}, {"text": "refunded"}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if start else "end_turn"}}


def main() -> None:
    """Begins, or goes on from the session."""
    with Ledger.open("sqlite:///strands_agent.db") as ledger:
        if "--decide" in sys.argv:
            for waiting in ledger.approvals(status="pending"):
                ledger.approve(waiting, digest=waiting.digest, by="ana")
        terms = {"charge": {"side_effect": "payment"}, "refund": {"side_effect": "payment", "approval": "required"}}
        plugin = LedgerPlugin(ledger, terms=terms)
        agent = Agent(
            model=Scripted(),
            tools=[charge, refund],
            session_manager=FileSessionManager("order-123", storage_dir="strands_sessions"),
            plugins=[plugin],
            callback_handler=None,
        )
        result = agent(plugin.answer(agent) or "refund order 123")
        if result.stop_reason == "interrupt":
            print(f"  waits for a person: {result.interrupts[0].reason['show']}")
            return
        print(f"  {str(result).strip()}")


main()
