"""An OpenAI agent charges a card once, asks a person before it refunds, and goes on in another process.

Run it, decide, and run it again: what was done replays, and what was decided goes on. Its model is scripted, so it
needs no key.  python examples/openai_agent.py; python examples/openai_agent.py --decide
"""

import asyncio
import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from indelible import AsyncLedger
from indelible.integrations.openai_agents import LedgerTools


@function_tool
def charge(order: str, amount: int) -> str:
    """Stands for a payment provider."""
    print(f"  charging {amount} for order {order}")
    return f"ch_{order}"


@function_tool
def refund(charge_id: str, amount: int) -> str:
    """Stands for a payment provider, too."""
    print(f"  refunding {amount} of {charge_id}")
    return f"re_{charge_id}"


async def main() -> None:
    """Begins, or goes on from the state that is kept in the ledger."""
    set_tracing_disabled(True)
    turns = [
        [function_call("charge", {"order": "123", "amount": 1000}, call_id="call_Kq7charge")],
        [function_call("refund", {"charge_id": "ch_123", "amount": 50}, call_id="call_Zt4refund")],
        [assistant_message("refunded")],
    ]
    async with AsyncLedger.open("sqlite:///openai_agent.db") as ledger:
        if "--decide" in sys.argv:
            for waiting in await ledger.approvals(status="pending"):
                await ledger.approve(waiting, digest=waiting.digest, by="ana")
        terms = {"charge": {"side_effect": "payment"}, "refund": {"side_effect": "payment", "approval": "required"}}
        gate = LedgerTools(ledger, run="order-123", terms=terms)
        agent = Agent(name="billing", tools=gate.tools([charge, refund]))
        state = await gate.load(agent)
        agent.model = ScriptedModel(turns if state is None else turns[2:])
        if state is None:
            result = await Runner.run(agent, "refund order 123")
            await gate.keep(result)
            state = result.to_state()
        if await gate.answer(state):
            (question,) = await ledger.approvals(status="pending")
            print(f"  waits for a person: indelible approvals show {question.id}")
            return
        print(f"  {(await Runner.run(agent, state)).final_output}")


asyncio.run(main())
