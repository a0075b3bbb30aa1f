"""A Claude agent charges a card once, asks a person before it refunds, and goes on in another process.

Run it, decide, and run it again: what was done replays, and what was decided goes on. Claude Code is the one that the
SDK brings, and its model is scripted, so it needs no key.
python examples/claude_agent.py; python examples/claude_agent.py --decide
"""

import asyncio
import sys
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query, tool

from indelible import AsyncLedger
from indelible.integrations.claude_agent import LedgerHooks
from indelible.testing.claude_model import scripted_model, text, use

SESSION = Path("claude_agent.session")


@tool("charge", "Stands for a payment provider.", {"order": str, "amount": int})
async def charge(args: dict) -> dict:
    print(f"  charging {args['amount']} for order {args['order']}")
    return {"content": [{"type": "text", "text": f"ch_{args['order']}"}]}


@tool("refund", "Stands for a payment provider, too.", {"charge_id": str, "amount": int})
async def refund(args: dict) -> dict:
    print(f"  refunding {args['amount']} of {args['charge_id']}")
    return {"content": [{"type": "text", "text": f"re_{args['charge_id']}"}]}


def says(heard: dict) -> list:
    """Stands for the model: what it says next, when it knows what came of its calls."""
    if "toolu_1" not in heard:
        return [use("toolu_1", "mcp__till__charge", {"order": "123", "amount": 1000})]
    if "toolu_2" not in heard:
        return [use("toolu_2", "mcp__till__refund", {"charge_id": heard["toolu_1"], "amount": 50})]
    return [text("refunded")]


async def main() -> None:
    """Begins a session, or resumes it."""
    terms = {"charge": {"side_effect": "payment"}, "refund": {"side_effect": "payment", "approval": "required"}}
    async with AsyncLedger.open("sqlite:///claude_agent.db") as ledger, LedgerHooks(ledger, terms=terms) as gate:
        if "--decide" in sys.argv:
            for question in await ledger.approvals(status="pending"):
                await ledger.approve(question, digest=question.digest, by="ana")
        with scripted_model(says) as model:
            options = ClaudeAgentOptions(
                mcp_servers={"till": gate.server("till", [charge, refund])},
                hooks=gate.hooks(),
                allowed_tools=["mcp__till__charge", "mcp__till__refund"],
                setting_sources=[],
                resume=SESSION.read_text() if SESSION.exists() else None,
                env={**model, "HOME": str(Path.cwd())},  # its sessions are kept here
            )
            async for message in query(prompt="refund order 123", options=options):
                if not isinstance(message, ResultMessage):
                    continue
                SESSION.write_text(message.session_id)
                if message.deferred_tool_use is None:
                    print(f"  {message.result}")
                else:
                    (question,) = await ledger.approvals(status="pending")
                    print(f"  waits for a person: indelible approvals show {question.id}")


asyncio.run(main())
