"""MCP servers behind the ledger, without a line of code: `indelible mcp proxy -- <command or URL>`.

    async with Client("https://tools.example/mcp") as upstream:
        server = ledger_proxy(ledger, upstream, run="order-123", terms={"charge": {"side_effect": "payment"}})

Tools go through the ledger. Resources, prompts and completions are handed through as they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import mcp_types as types
from mcp.client import Client
from mcp.server import Server

from indelible import AsyncLedger, Ledger, __version__
from indelible.integrations.mcp_gate import Context, McpGate

__all__ = ["McpGate", "ledger_proxy"]
P = TypeVar("P")
R = TypeVar("R")


def ledger_proxy(
    ledger: Ledger | AsyncLedger,
    upstream: Client,
    *,
    run: str,
    terms: Mapping[str, Mapping[str, Any]] | None = None,
    approver: str | None = None,
    turn: str | None = None,
    server: str | None = None,
    reached_by: str = "",
    **usual: Any,
) -> Server[Any]:
    """Return an MCP server whose tools are those of a connected client's server, behind the ledger.

    The words are those of `McpGate`.
    """
    words: dict[str, Any] = {"turn": turn, "server": server, "reached_by": reached_by, **usual}
    gate = McpGate(ledger, upstream, run=run, terms=terms, approver=approver, **words)
    below = upstream.session
    offers = upstream.server_capabilities
    handed: dict[str, Any] = {}
    if offers.resources is not None:
        handed["on_list_resources"] = _paged(lambda params: below.list_resources(params=params))
        handed["on_list_resource_templates"] = _paged(lambda params: below.list_resource_templates(params=params))
        handed["on_read_resource"] = _paged(lambda params: below.read_resource(params.uri, **_answers(params)))
    if offers.prompts is not None:
        handed["on_list_prompts"] = _paged(lambda params: below.list_prompts(params=params))
        handed["on_get_prompt"] = _paged(
            lambda params: below.get_prompt(params.name, params.arguments, **_answers(params))
        )
    if offers.completions is not None:
        handed["on_completion"] = _paged(_completed(upstream))
    return Server(
        _name_of(upstream),
        version=__version__,
        instructions=upstream.instructions,
        on_list_tools=gate.list_tools,
        on_call_tool=gate.call_tool,
        **handed,
    )


def _paged(ask: Callable[[P], Awaitable[R]]) -> Callable[[Context, P], Awaitable[R]]:
    """Hands a question on as it is."""

    async def handed(ctx: Context, params: P) -> R:
        return await ask(params)

    return handed


def _answers(params: Any) -> dict[str, Any]:
    """Return the answers to what a server asked before it gives a prompt or a resource; it may ask more."""
    said = {"input_responses": params.input_responses, "request_state": params.request_state}
    return {**said, "allow_input_required": True}


def _completed(upstream: Client) -> Callable[[types.CompleteRequestParams], Awaitable[types.CompleteResult]]:
    def complete(params: types.CompleteRequestParams) -> Awaitable[types.CompleteResult]:
        context = None if params.context is None else params.context.arguments
        argument = {"name": params.argument.name, "value": params.argument.value}
        return upstream.complete(params.ref, argument, context)

    return complete


def _name_of(upstream: Client) -> str:
    told = upstream.server_info
    return "indelible" if told is None else f"{told.name} behind Indelible"
