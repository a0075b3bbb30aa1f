"""What a Strands agent runs without the ledger: hooks and middleware of your own, and tools of the model's provider."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from strands import Agent
from strands.middleware._registry import MiddlewareRegistry
from strands.multiagent.graph import Graph
from strands.multiagent.swarm import Swarm

from indelible.integrations.ways import Watch, hosted_in

FRAMEWORK = "Strands"
_OURS = ("strands.", "indelible.")


def note_agent(watch: Watch, agent: Any, model: Any) -> None:
    """Note what an agent runs without the ledger.

    Args:
        watch: Notes it, or refuses it.
        agent: The agent.
        model: The model that is about to be asked.
    """
    watch.note(FRAMEWORK, "hosted tools", hosted_in(model.get_config()))
    watch.note(FRAMEWORK, "hooks, middleware and executors", _code_of(agent))


def noting_model(watch: Watch, ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what asks a model, after it noted what that model's provider would run."""

    def noted(context: Any) -> Any:
        note_agent(watch, context.agent, context.model)
        return ask(context)

    return noted


def note_graph(watch: Watch, graph: Graph) -> None:
    """Note the nodes of a graph that are no agents, graphs or swarms of the SDK."""
    others = [one.node_id for one in graph.nodes.values() if not isinstance(one.executor, (Agent, Graph, Swarm))]
    watch.note(FRAMEWORK, "custom and remote nodes of graphs", others)


def _code_of(agent: Any) -> Iterator[str]:
    hooks = [one.callback for entries in agent.hooks._registered_callbacks.values() for one in entries]
    middleware = [
        _unwrapped(one.handler) for entries in agent._middleware_registry._handlers.values() for one in entries
    ]
    for code in (*hooks, *middleware, type(agent.tool_executor)):
        if not str(getattr(code, "__module__", "")).startswith(_OURS):
            yield str(getattr(code, "__name__", type(code).__name__))
    for handler in agent._intervention_registry.handlers:
        if not type(handler).__module__.startswith(_OURS):
            yield str(handler.name)


def _unwrapped(handler: Any) -> Any:
    """Return the middleware that was given to the SDK, which wraps that of the phases input and output."""
    if handler.__module__ == MiddlewareRegistry.__module__ and inspect.isfunction(handler):
        return inspect.getclosurevars(handler).nonlocals.get("handler", handler)
    return handler
