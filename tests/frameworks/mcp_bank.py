"""An MCP server as a process of its own: it writes a line for each payment."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.fastmcp import FastMCP

PAID = Path(sys.argv[1])
server = FastMCP("bank", log_level="ERROR")


@server.tool()
def charge(amount: int) -> str:
    """Charges."""
    with PAID.open("a") as lines:
        lines.write(f"{amount}\n")
    return "paid"


if __name__ == "__main__":
    server.run()
