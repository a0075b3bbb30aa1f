"""An MCP server as a process of its own: it writes a line for each payment, and can be told to break after it.

The word after the file says how: `hang`, `die`, or `error`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server


async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="pay", input_schema={"type": "object"})])


async def called(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    paid, how = Path(sys.argv[1]), sys.argv[2:]
    with paid.open("a") as lines:
        lines.write(f"{params.arguments}\n")
    if how == ["hang"]:
        await anyio.sleep_forever()
    if how == ["die"]:
        os._exit(1)
    if how == ["error"]:
        return types.CallToolResult(content=[types.TextContent(text="the gateway did not answer")], is_error=True)
    return types.CallToolResult(content=[types.TextContent(text="paid")])


async def main() -> None:
    server: Server[Any] = Server("bank", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
