"""An MCP server behind the ledger: its client charges a card once, and a person is asked before it refunds.

Neither the server nor the client knows of the ledger; `indelible mcp proxy` stands between them. Run it, decide, and
run it again: what was done replays, and what was decided goes on. The client is scripted, so it needs no model.
python examples/mcp_agent.py; python examples/mcp_agent.py --decide
"""

import asyncio
import os
import sys
from pathlib import Path

import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server import MCPServer

from indelible import Ledger, migrate

URL = "sqlite:///mcp_agent.db"
TERMS = Path(__file__).with_name("mcp_tools.toml")
till = MCPServer("till")


@till.tool()
def charge(order: str, amount: int) -> str:
    """Stands for a payment provider."""
    print(f"  charging {amount} for order {order}", file=sys.stderr)
    return f"ch_{order}"


@till.tool()
def refund(charge_id: str, amount: int) -> str:
    """Stands for a payment provider, too."""
    print(f"  refunding {amount} of {charge_id}", file=sys.stderr)
    return f"re_{charge_id}"


async def main() -> None:
    """Makes the calls that an agent makes, of the proxy instead of the server."""
    proxy = ["-m", "indelible.cli", "mcp", "proxy", "--url", URL, "--run", "order-123", "--terms", str(TERMS)]
    server = [sys.executable, __file__, "--serve"]
    command = StdioServerParameters(command=sys.executable, args=[*proxy, "--", *server], env=dict(os.environ))
    async with Client(command) as client:
        charged = await client.call_tool("charge", {"order": "123", "amount": 1000})
        args = {"charge_id": charged.content[0].text, "amount": 50}
        refunded = await client.session.call_tool("refund", args, allow_input_required=True)
    if isinstance(refunded, types.InputRequiredResult):
        (approval,) = refunded.input_requests
        print(f"  waits for a person: indelible approvals show {approval}")
    else:
        print(f"  refunded as {refunded.content[0].text}")


if "--serve" in sys.argv:
    till.run()
else:
    migrate(URL)  # the proxy makes no ledger by itself
    if "--decide" in sys.argv:
        with Ledger.open(URL) as ledger:
            for question in ledger.approvals(status="pending"):
                ledger.approve(question, digest=question.digest, by="ana")
    asyncio.run(main())
