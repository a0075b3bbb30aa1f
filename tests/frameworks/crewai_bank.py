"""An MCP server as a process of its own, for the mcp 1 that CrewAI brings: it writes a line for each payment."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.fastmcp import FastMCP

server = FastMCP("bank")


@server.tool()
def pay(amount: int) -> str:
    """Pays."""
    with Path(sys.argv[1]).open("a") as lines:
        lines.write(f"{amount}\n")
    return "paid"


if __name__ == "__main__":
    server.run()
