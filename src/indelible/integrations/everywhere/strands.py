"""Strands everywhere: every agent, whenever it was made, alone, inside of tools, and in graphs and swarms."""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from strands import Agent
from strands.bidi import BidiAgent
from strands.hooks import AfterToolsEvent, BeforeInvocationEvent
from strands.middleware import ExecuteToolStage, InvokeModelStage
from strands.middleware._registry import MiddlewareRegistry
from strands.multiagent.graph import Graph
from strands.multiagent.swarm import Swarm

from indelible.integrations.everywhere.reach import (
    Around,
    Undo,
    all_replaced,
    inside_tool,
    is_behind,
    replaced,
    run_here,
)
from indelible.integrations.strands import LedgerPlugin
from indelible.integrations.strands_ways import FRAMEWORK, note_agent, note_graph, note_model


def reach(around: Around) -> Undo:
    """Stand where the SDK enters tools, inside of all middleware, and look on where it asks models."""
    own = _Everywhere(around.ledger, run=_run_of, terms=around.terms, watch=around.watch, **around.usual)
    invoke, begin, start = MiddlewareRegistry.invoke, Agent.stream_async, BidiAgent.start
    stream, swarm = Graph.stream_async, Swarm.stream_async

    @functools.wraps(invoke)
    def invoked(self: MiddlewareRegistry, stage: Any, context: Any, terminal: Any) -> Any:
        if stage is InvokeModelStage:
            note_agent(around.watch, context.agent, context.model)

            def asked(inner: Any) -> Any:
                note_model(around.watch, inner.model)  # middleware, as a router's, may have chosen another
                return terminal(inner)

            return invoke(self, stage, context, asked)
        if stage is not ExecuteToolStage:
            return invoke(self, stage, context, terminal)
        own.stop_with(context.agent)

        async def entered(inner: Any) -> AsyncGenerator[Any, None]:
            with inside_tool():
                async with aclosing(terminal(inner)) as events:
                    async for event in events:
                        yield event

        return invoke(self, stage, context, lambda inner: own.gate(inner, entered))

    @functools.wraps(begin)
    def begun(self: Agent, *args: Any, **words: Any) -> Any:
        note_agent(around.watch, self, self.model)
        own.follow(self)
        return begin(self, *args, **words)

    @functools.wraps(stream)
    def streamed(self: Graph, *args: Any, **words: Any) -> Any:
        note_graph(around.watch, self)
        return stream(self, *args, **words)

    @functools.wraps(swarm)
    def swarmed(self: Swarm, *args: Any, **words: Any) -> Any:
        note_graph(around.watch, self)
        return swarm(self, *args, **words)

    @functools.wraps(start)
    async def started(self: Any, *args: Any, **words: Any) -> Any:
        around.watch.note(FRAMEWORK, "bidirectional agents", [self.name])
        return await start(self, *args, **words)

    restore = all_replaced(
        lambda: replaced(MiddlewareRegistry, "invoke", invoked, takes=("self", "stage", "context", "terminal")),
        lambda: replaced(Agent, "stream_async", begun, takes=("self", "prompt")),
        lambda: replaced(Graph, "stream_async", streamed, takes=("self", "task")),
        lambda: replaced(Swarm, "stream_async", swarmed, takes=("self", "task")),
        lambda: replaced(BidiAgent, "start", started, takes=("self", "invocation_state")),
    )

    def undo() -> None:
        own.is_on = False
        restore()

    return undo


class _Everywhere(LedgerPlugin):
    """Steps aside once the reach is undone, and where another plugin of ours stands around the call."""

    is_on = True

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        self._heard: weakref.WeakSet[Any] = weakref.WeakSet()
        self._followed: weakref.WeakSet[Agent] = weakref.WeakSet()

    def guard(self, agent: Any) -> None:
        """Do nothing: every agent is reached."""

    def follow(self, agent: Agent) -> None:
        """Name the turns of an agent that is invoked from now on."""
        if agent not in self._followed:
            self._followed.add(agent)
            self._follow_turns(agent)

    def _name_turn(self, event: BeforeInvocationEvent) -> None:
        if self.is_on:
            super()._name_turn(event)

    def stop_with(self, agent: Any) -> None:
        """Let the agent stop when the ledger refused to go on."""
        if agent not in self._heard:
            self._heard.add(agent)
            agent.hooks.add_callback(AfterToolsEvent, self._stop)

    async def gate(self, context: Any, next_fn: Any) -> AsyncGenerator[Any, None]:
        """Run a tool call, replay it, interrupt the agent, or tell the model why not."""
        name = context.tool_use["name"] if context.tool is None else context.tool.tool_name
        is_plain = not self.is_on or is_behind(name, context.tool_use["toolUseId"], LedgerPlugin)
        async for event in next_fn(context) if is_plain else super().gate(context, next_fn):
            yield event


def _run_of(context: Any) -> str:
    session = getattr(getattr(context.agent, "_session_manager", None), "session_id", None)
    return run_here(session, advice="…, or give the agent a session_manager")
