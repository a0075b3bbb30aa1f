"""`indelible mcp`: MCP servers behind the ledger, and the ledger as an MCP server for agents that look."""

from __future__ import annotations

import os
import secrets
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from indelible.cli.ending import ending_at_once
from indelible.cli.opening import about_ledger, open_existing, where
from indelible.cli.options import InOrder
from indelible.errors import Misconfigured

if TYPE_CHECKING:
    from mcp.server import Server

    from indelible import Ledger

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=InOrder)
def mcp() -> None:
    """Put MCP servers behind the ledger, or let agents look at it."""


@mcp.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--run",
    "run_id",
    envvar="INDELIBLE_RUN",
    help="The run that calls belong to.  [default: $INDELIBLE_RUN, or a new one for each start]",
)
@click.option("--server", "name", metavar="NAME", help="Tells this server from others whose calls are in the same run.")
@click.option("--terms", type=_FILE, metavar="FILE", help="How single tools are treated, in TOML.")
@click.option(
    "--approval", type=click.Choice(["required", "none"]), help="Ask a person about every call, or by policy."
)
@click.option("--approver", metavar="NAME", help="Answers in the client are this person's. Whoever has it is believed.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=600,
    show_default=True,
    help="Seconds until a tool call without an answer is in doubt (0 = never).",
)
@about_ledger
@click.argument("server", nargs=-1, required=True)
def proxy(run_id: str | None, name: str | None, terms: Path | None, approval: str | None, approver: str | None,
          timeout: float, server: tuple[str, ...]) -> None:  # fmt: skip
    """Stand before another MCP server: each call once, with permission.

    It speaks MCP on standard input and output. SERVER is the command that starts it, or its URL. The same call again in
    the same run gets the recorded result; name the run to keep that so over restarts.

    \b
    indelible mcp proxy --run order-123 -- npx @example/payments-mcp
    indelible mcp proxy --terms tools.toml -- https://tools.example/mcp
    \b
    [tools.charge]                 # tools.toml
    side_effect = "payment"
    approval = "required"
    key = ["order_id"]
    lease_s = 120
    """
    usual: dict[str, Any] = {} if approval is None else {"approval": approval}
    if timeout:
        usual["timeout"] = timedelta(seconds=timeout)
    told = {} if terms is None else read_terms(terms)
    _needed()
    from indelible.integrations.mcp_words import split_meta
    from indelible.integrations.terms import Terms

    Terms(*split_meta(told, usual)[:2])  # what cannot be said of a tool is said before anything starts
    run = run_id or f"mcp-{secrets.token_hex(8)}"
    with open_existing(where(), wakeups=True) as ledger, ending_at_once():
        words: dict[str, Any] = {"server": name, "reached_by": " ".join(server), **usual}
        _run_proxy(ledger, server, run=run, terms=told, approver=approver, **words)


def _run_proxy(ledger: Ledger, started_by: tuple[str, ...], **words: Any) -> None:
    anyio = _needed()
    import httpx2
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.exceptions import MCPError

    from indelible.integrations.mcp import ledger_proxy
    from indelible.integrations.mcp_line import SteadyClient
    from indelible.integrations.mcp_words import name_of

    command, *arguments = started_by

    async def main() -> None:
        if "://" in command:
            line = SteadyClient(_longest(words))
            async with line, Client(streamable_http_client(command, http_client=line)) as upstream:
                line.is_connected, line.server = True, name_of(upstream.session)
                await _speak(ledger_proxy(ledger, upstream, **words))
        else:
            async with Client(StdioServerParameters(command=command, args=arguments, env=_environment())) as upstream:
                await _speak(ledger_proxy(ledger, upstream, **words))

    try:
        anyio.run(main)
    except* (MCPError, OSError, httpx2.HTTPError) as broken:
        raise Misconfigured(f"{command}: {_first(broken)}; is it an MCP server, and does it start?") from None


def _longest(words: dict[str, Any]) -> timedelta | None:
    """Return the longest time that a tool may take; None if one of them may take any."""
    usual = words.get("timeout")
    times = [usual, *(told.get("timeout", usual) for told in words["terms"].values())]
    return None if None in times else max(times)


@mcp.command()
@about_ledger
def serve() -> None:
    """Let an agent look up its own calls over MCP.

    Which ran, which wait for whom, which are in doubt: it can look, and never decide. It speaks on standard input and
    output.
    """
    anyio = _needed()
    from indelible.integrations.mcp_lookup import lookup_server

    with open_existing(where(), wakeups=True) as ledger, ending_at_once():
        anyio.run(_speak, lookup_server(ledger))


def _first(broken: BaseExceptionGroup[Any]) -> BaseException:
    """Gives the first of what went wrong at once: the others are its consequences."""
    found: BaseException = broken
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _environment() -> dict[str, str]:
    """Hands on the environment, where servers look for their secrets; what opens the ledger is not theirs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("INDELIBLE_")}


async def _speak(server: Server[Any]) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _needed() -> Any:
    try:
        import anyio
        import mcp.client  # noqa: F401
    except ImportError as missing:
        raise click.UsageError(f"{missing}; this needs: pip install 'indelible[mcp]'") from missing
    return anyio


def read_terms(path: Path) -> dict[str, dict[str, Any]]:
    """Reads how single tools are treated; raises `Misconfigured` with the place of what is wrong."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise Misconfigured(f"{path}: cannot be read: {problem}") from problem
    tools = content.get("tools")
    if (
        set(content) - {"tools"}
        or not isinstance(tools, dict)
        or not all(isinstance(one, dict) for one in tools.values())
    ):
        raise Misconfigured(f"{path}: has tables such as [tools.charge], and nothing else")
    return {name: dict(map(_word, told.items())) for name, told in tools.items()}


def _word(told: tuple[str, Any]) -> tuple[str, Any]:
    """Read `lease_s = 30` as a duration, and the names in `failed_on` and `nothing_on` as what they name."""
    name, value = told
    if name in ("failed_on", "nothing_on"):
        from indelible.integrations.results import ToolAsked, ToolError

        kind, when = (ToolError, "reports an error") if name == "failed_on" else (ToolAsked, "asks for input again")
        if value not in (kind.__name__, [kind.__name__]):
            raise Misconfigured(f'{name} = {value!r}: only "{kind.__name__}" can be named here: the tool {when}')
        return name, kind
    if name not in ("lease_s", "timeout_s", "wait_s"):
        return name, value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Misconfigured(f"{name} = {value!r}: a number of seconds is expected here")
    return name.removesuffix("_s"), timedelta(seconds=value)
