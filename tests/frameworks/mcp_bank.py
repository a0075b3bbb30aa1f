"""An MCP server as a process of its own: it writes a line for each payment, and answers, or does not."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
from mcp.server.fastmcp import FastMCP

PAID = Path(sys.argv[1])
HOW = sys.argv[2] if len(sys.argv) > 2 else "answers"
ALL = ["everybody"]
server = FastMCP("bank", log_level="CRITICAL")


@server.tool()
async def charge(amount: int, memo: str | None = None, to: list[str] = ALL) -> str:
    """Charges."""
    PAID.with_name("seen").write_text(json.dumps({"amount": amount, "memo": memo, "to": to}))
    with PAID.open("a") as lines:
        lines.write(f"{amount}\n")
    match HOW:
        case "dies":
            os._exit(1)
        case "waits":
            await anyio.sleep_forever()
        case "refuses":
            raise ValueError("card declined")
    return "paid"


if __name__ == "__main__":
    server.run()
