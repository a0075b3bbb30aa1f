"""Pydantic AI everywhere: every run of every agent, whenever it was made."""

from __future__ import annotations

import functools
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset

from indelible.integrations.everywhere.reach import (
    Around,
    Undo,
    all_replaced,
    inside_tool,
    is_behind_tool,
    replaced,
    run_here,
)
from indelible.integrations.pydantic_ai import LedgerCapability, is_led, note_request, note_unguarded
from indelible.integrations.terms import MODEL_TURN
from indelible.integrations.ways import Watch


def reach(around: Around) -> Undo:
    """Give every run and every realtime session capabilities more: one that watches, and a gate."""
    watching = _Watching(around.watch)
    own = _Everywhere(around.ledger, run=_run_of, terms=around.terms, watch=around.watch, **around.usual)
    begin, resolve = Agent.iter, Agent._resolve_realtime_session

    def with_ours(agent: Agent[Any, Any], capabilities: Any, ours: AbstractCapability[Any]) -> list[Any]:
        given = list(capabilities or ())
        return given if _is_guarded(agent, given) else [*given, ours]

    @functools.wraps(begin)
    def iter_(self: Agent[Any, Any], *args: Any, capabilities: Any = None, **words: Any) -> Any:
        return begin(self, *args, capabilities=[watching, *with_ours(self, capabilities, own)], **words)

    @functools.wraps(resolve)
    @asynccontextmanager
    async def resolved(self: Agent[Any, Any], model: Any, *, capabilities: Any = None, **words: Any) -> Any:
        given = with_ours(self, capabilities, _Tools(own))
        async with resolve(self, model, capabilities=given, **words) as found:
            note_request(around.watch, found.model_request_parameters, found.model_settings)
            yield found

    return all_replaced(
        lambda: replaced(Agent, "iter", iter_, takes=("self", "user_prompt")),
        lambda: replaced(Agent, "_resolve_realtime_session", resolved, takes=("self", "model")),
    )


def _is_guarded(agent: Agent[Any, Any], given: list[Any]) -> bool:
    """Has the agent a capability of ours already? `LedgerDurability` counts what an agent does, and takes no second."""
    found = list(given)
    agent.root_capability.apply(found.append)
    return any(type(one).__module__.startswith("indelible.integrations.") for one in found)


class _Watching(AbstractCapability[Any]):
    """Notes what runs without the ledger, whatever gate of ours an agent has, and refuses it in strict mode."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def get_ordering(self) -> CapabilityOrdering:
        """Stand outermost: what is refused leaves nothing on the record."""
        return CapabilityOrdering(position="outermost")

    async def wrap_model_request(self, ctx: RunContext[Any], *, request_context: Any, handler: Any) -> ModelResponse:
        """Note it before the model is asked, and before a recorded answer is given."""
        note_unguarded(self._watch, ctx, request_context)
        response: ModelResponse = await handler(request_context)
        return response


class _Everywhere(LedgerCapability):
    """Steps aside where a capability of ours stands around the call that could not be seen from outside."""

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: Any
    ) -> Any:
        """Runs a tool call, replays it, pauses the agent, or tells the model why not."""
        enter = _inside(handler)
        if is_led(call):
            return await enter(args)
        return await super().wrap_tool_execute(ctx, call=call, tool_def=tool_def, args=args, handler=enter)

    async def wrap_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any, handler: Any
    ) -> Any:
        """Call the function that makes the agent's output once."""
        enter = _inside(handler)
        if is_led(output_context):
            return await enter(output)
        words = {"output_context": output_context, "output": output, "handler": enter}
        return await super().wrap_output_process(ctx, **words)

    async def wrap_model_request(self, ctx: RunContext[Any], *, request_context: Any, handler: Any) -> ModelResponse:
        """Gives the model's answer of this turn, asked for once."""
        if is_behind_tool(MODEL_TURN):
            response: ModelResponse = await handler(request_context)
            return response
        return await super().wrap_model_request(ctx, request_context=request_context, handler=handler)


class _Tools(AbstractCapability[Any]):
    """Guard the tools alone: a realtime session runs no other hooks, and warns of those that it does not run."""

    def __init__(self, own: _Everywhere) -> None:
        self._own = own

    def get_ordering(self) -> CapabilityOrdering:
        """Stand where the whole capability stands."""
        return self._own.get_ordering()

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Enter tools as the whole capability does."""
        return self._own.get_wrapper_toolset(toolset)

    async def wrap_tool_execute(self, ctx: RunContext[Any], **words: Any) -> Any:
        """Run a tool call, replay it, or tell the model why not."""
        return await self._own.wrap_tool_execute(ctx, **words)


def _inside(handler: Any) -> Any:
    """Return a handler that notes that its tool is entered."""

    async def entered(given: Any) -> Any:
        with inside_tool():
            return await handler(given)

    return entered


def _run_of(ctx: RunContext[Any]) -> str:
    return run_here(ctx.conversation_id, advice="…, or run the agent with conversation_id=…")
