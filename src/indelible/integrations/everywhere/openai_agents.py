"""OpenAI Agents everywhere: the function tools of every agent, those of its MCP servers too, whenever they were made.

The SDK knows an agent's tools by their identity, so they stay the same objects: only their entrance changes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from agents import Agent, FunctionTool, RunContextWrapper, Tool
from agents import tool as tool_module
from agents.agent import AgentBase
from agents.realtime.session import RealtimeSession
from agents.run_internal import run_loop, tool_execution
from agents.tool_context import ToolContext

from indelible import MayRun, ToolCall
from indelible.integrations.everywhere.reach import (
    Around,
    Undo,
    all_replaced,
    inside_tool,
    replaced,
    run_here,
)
from indelible.integrations.openai_agents import LedgerTools, copied, is_guarded
from indelible.integrations.openai_agents_ways import note_settings, note_unguarded

EDITED = (
    "{tool} was not carried out: an approver changed its arguments to {args}, and the tool asks a person by itself, "
    "who was shown others. If these are meant, call it with exactly these."
)
Invoke = Callable[[ToolContext[Any], str], Awaitable[Any]]


def reach(around: Around) -> Undo:
    """Puts the ledger before the tools of an agent whenever the SDK asks for them, which it does before it runs one."""
    switch = _Switch(around)
    ask = AgentBase.get_all_tools

    @functools.wraps(ask)
    async def get_all_tools(self: Agent[Any], run_context: RunContextWrapper[Any]) -> list[Tool]:
        found = await ask(self, run_context)
        note_unguarded(around.watch, self, found, switch.guarded(found))
        for tool in found:
            if isinstance(tool, FunctionTool) and not is_guarded(tool):
                switch.put_before(tool)
        return found

    restore = all_replaced(
        lambda: replaced(AgentBase, "get_all_tools", get_all_tools, takes=("self", "run_context")),
        *_entered(switch),
        *_asked(switch),
    )

    def undo() -> None:
        switch.is_on = False
        restore()

    return undo


def _entered(switch: _Switch) -> list[Callable[[], Undo]]:
    """Return the replacements where the SDK enters a function tool, wherever it has the tool from."""
    takes = ("function_tool", "context", "arguments")
    plain = tool_module._invoke_function_tool_with_metadata

    @functools.wraps(plain)
    async def invoked(*, function_tool: FunctionTool, context: ToolContext[Any], arguments: str) -> Any:
        if not is_guarded(function_tool):
            switch.put_before(function_tool)
        entrance, entered = function_tool.on_invoke_tool, function_tool
        is_limited = function_tool.timeout_seconds is not None
        if is_limited and isinstance(entrance, _Entrance) and await entrance.leads_through_ledger(context, arguments):
            # The ledger keeps the time limit: the SDK would tell the model in words of its own that it timed out.
            entered = copied(function_tool, timeout_seconds=None)
            entered.on_invoke_tool = entrance
        return await plain(function_tool=entered, context=context, arguments=arguments)

    name = plain.__name__
    return [functools.partial(replaced, owner, name, invoked, takes=takes) for owner in (tool_module, tool_execution)]


def _asked(switch: _Switch) -> list[Callable[[], Undo]]:
    """Return the replacements where the SDK has the tools and the settings with which it asks a model."""
    watch = switch.around.watch
    tools, settings = run_loop.get_all_tools, vars(run_loop)["get_model_settings"]
    session = RealtimeSession._get_updated_model_settings_from_agent

    @functools.wraps(tools)
    async def all_tools(agent: Agent[Any], context_wrapper: RunContextWrapper[Any]) -> list[Tool]:
        found = await tools(agent, context_wrapper)
        note_unguarded(watch, agent, found, switch.guarded(found))
        return found

    @functools.wraps(settings)
    def model_settings(agent: Agent[Any], run_config: Any) -> Any:
        made = settings(agent, run_config)
        note_settings(watch, {"extra_body": made.extra_body, "extra_args": made.extra_args})
        return made

    @functools.wraps(session)
    async def session_settings(self: RealtimeSession, starting_settings: Any, agent: Any) -> Any:
        made = await session(self, starting_settings, agent)
        found = made.get("tools") or ()
        note_unguarded(watch, agent, found, switch.guarded(found))
        note_settings(watch, {name: value for name, value in made.items() if name not in ("tools", "handoffs")})
        return made

    return [
        lambda: replaced(run_loop, "get_all_tools", all_tools, takes=("agent", "context_wrapper")),
        lambda: replaced(run_loop, "get_model_settings", model_settings, takes=("agent", "run_config")),
        lambda: replaced(
            RealtimeSession,
            "_get_updated_model_settings_from_agent",
            session_settings,
            takes=("self", "starting_settings", "agent"),
        ),
    ]


class _Switch:
    """Is on until the reach is undone: then every entrance leads straight to its tool again."""

    def __init__(self, around: Around) -> None:
        self.around = around
        self.is_on = True

    def guarded(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the tools whose calls go through a ledger, whatever its rules: terms name them, or a gate has them."""
        return [one for one in tools if isinstance(one, FunctionTool) and (is_guarded(one) or self.is_named(one))]

    def is_named(self, tool: FunctionTool) -> bool:
        """Say whether the terms name a tool."""
        return not {tool.name, tool.qualified_name}.isdisjoint(self.around.terms or {})

    def put_before(self, tool: FunctionTool) -> None:
        """Gives a tool an entrance through the ledger, unless it has one."""
        current = tool.on_invoke_tool
        if isinstance(current, _Entrance):
            if current.switch.is_on:
                return
            current = current.plain
        tool.on_invoke_tool = _Entrance(self, tool, current)


class _Gate(LedgerTools):
    """Leaves to the SDK what a tool itself asks people. The SDK shows them what the model said, and no edit."""

    async def _unasked(self, at: Any, context: RunContextWrapper[Any], call: ToolCall, judged: ToolCall) -> str | None:
        if judged is call or not await self._needs_own_approval(at, context, judged):
            return None
        if not isinstance(await self._standing(call), MayRun):  # then it does not run now, and the ledger says why
            return None
        args = {name: value for name, value in judged.args.items() if name not in judged.injected}
        return EDITED.format(tool=call.tool, args=json.dumps(args, default=str))


class _Entrance:
    """Leads a call through the ledger to the tool. A copy of the tool gets none: it is found in its own time."""

    def __init__(self, switch: _Switch, tool: FunctionTool, plain: Invoke) -> None:
        self.switch = switch
        self.plain = plain
        self._tool = tool
        around = switch.around
        gate = _Gate(around.ledger, run=_run_of, terms=around.terms, **around.usual)
        # How the tool tells of errors comes after the ledger.
        (behind,) = gate.tools([copied(tool, on_invoke_tool=plain)])
        assert isinstance(behind, FunctionTool)
        self._behind: Any = behind.on_invoke_tool

    def __agents_bind_function_tool__(self, tool: FunctionTool) -> Invoke:
        """Gives the plain entrance for a copy of the tool, as the SDK asks for."""
        bind = getattr(self.plain, "__agents_bind_function_tool__", None)
        return bind(tool) if callable(bind) else self.plain

    async def leads_through_ledger(self, context: ToolContext[Any], arguments: str) -> bool:
        """Say whether the ledger carries out a call.

        What an agent does is guarded call by call. That it is called is guarded if its terms say how, or if a person or
        a rule has a say in it.
        """
        if not self.switch.is_on:
            return False
        if not self._tool._is_agent_tool or self.switch.is_named(self._tool):
            return True
        return bool(await self._behind.gate.is_concerned(self._behind, context, arguments))

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        if await self.leads_through_ledger(context, arguments):
            return await self._behind(context, arguments)
        with inside_tool():
            return await self.plain(context, arguments)


def _run_of(context: RunContextWrapper[Any]) -> str:
    return run_here(None, advice="result = await Runner.run(agent, …)")
