"""An ADK agent charges a card once, asks a person before it refunds, and goes on in another process.

Run it, decide, and run it again: what was done replays, and what was decided goes on. Its model is scripted, so it
needs no key.  python examples/adk_agent.py; python examples/adk_agent.py --decide
"""

import asyncio
import sys
import warnings
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from indelible import AsyncLedger
from indelible.integrations.adk import LedgerPlugin

warnings.simplefilter("ignore")  # resuming is marked as experimental there
WHO: dict[str, Any] = {"user_id": "ana", "session_id": "order-123"}
TURNS = [
    types.Part(
        function_call=types.FunctionCall(id="call_Kq7charge", name="charge", args={"order": "123", "amount": 1000})
    ),
    types.Part(
        function_call=types.FunctionCall(id="call_Zt4refund", name="refund", args={"charge_id": "ch_123", "amount": 50})
    ),
    types.Part(text="refunded"),
]


def charge(order: str, amount: int) -> str:
    """Stands for a payment provider."""
    print(f"  charging {amount} for order {order}")
    return f"ch_{order}"


def refund(charge_id: str, amount: int) -> str:
    """Stands for a payment provider, too."""
    print(f"  refunding {amount} of {charge_id}")
    return f"re_{charge_id}"


class Scripted(BaseLlm):
    """Stands for a model: it calls one tool after the other, and then says what it did."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Says the turn that is due by the results so far."""
        done = {
            part.function_response.id
            for content in llm_request.contents
            for part in content.parts or ()
            if part.function_response is not None and part.function_response.name in ("charge", "refund")
        }
        yield LlmResponse(content=types.Content(role="model", parts=[TURNS[len(done)]]))


async def main() -> None:
    """Begins, or goes on from the session."""
    async with AsyncLedger.open("sqlite:///adk_agent.db") as ledger:
        if "--decide" in sys.argv:
            for waiting in await ledger.approvals(status="pending"):
                await ledger.approve(waiting, digest=waiting.digest, by="ana")
        terms = {"charge": {"side_effect": "payment"}, "refund": {"side_effect": "payment", "approval": "required"}}
        plugin = LedgerPlugin(ledger, terms=terms)
        app = App(
            name="billing",
            root_agent=LlmAgent(name="billing", model=Scripted(model="scripted"), tools=[charge, refund]),
            plugins=[plugin],
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        sessions = SqliteSessionService("adk_sessions.db")
        runner = Runner(app=app, session_service=sessions)
        session = await sessions.get_session(app_name="billing", **WHO)
        if session is None:
            await sessions.create_session(app_name="billing", **WHO)
            message, invocation = types.Content(role="user", parts=[types.Part(text="refund order 123")]), None
        elif (answer := await plugin.answer(session)) is None:
            print("  nothing is open: refunded")
            return
        elif answer.waiting:
            print(f"  waits for a person: indelible approvals show {answer.waiting[0]}")
            return
        else:
            message, invocation = answer.message, answer.invocation_id
        async for event in runner.run_async(new_message=message, invocation_id=invocation, **WHO):
            show(event)
        await runner.close()


def show(event: Any) -> None:
    """Prints what the model says, and what a person is asked."""
    for asked in event.actions.requested_tool_confirmations.values():
        print(f"  waits for a person: {asked.payload['show']}")
    if event.is_final_response() and event.content and event.content.parts[0].text:
        print(f"  {event.content.parts[0].text}")


asyncio.run(main())
