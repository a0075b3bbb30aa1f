"""What a Strands agent runs without the ledger: hooks and middleware of your own, and tools of the model's provider."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from strands import Agent
from strands.middleware._registry import MiddlewareRegistry
from strands.models.routing import ModelRouter
from strands.multiagent.graph import Graph
from strands.multiagent.swarm import Swarm

from indelible.integrations.hosted import hosted_in
from indelible.integrations.ways import Watch, module_of

FRAMEWORK = "Strands"
_OURS = ("strands.", "indelible.")


def note_agent(watch: Watch, agent: Any, model: Any) -> None:
    """Note what an agent runs without the ledger.

    Args:
        watch: Notes it, or refuses it.
        agent: The agent.
        model: The model that is about to be asked.
    """
    note_model(watch, model)
    watch.note(FRAMEWORK, "hooks, middleware and executors", _code_of(agent))


def note_model(watch: Watch, model: Any) -> None:
    """Note the tools that a model's provider runs."""
    watch.note(FRAMEWORK, "hosted tools", hosted_in(model.get_config()))


def note_graph(watch: Watch, graph: Graph | Swarm) -> None:
    """Note the nodes of a graph or a swarm that the SDK does not run in its own way."""
    others = [one.node_id for one in graph.nodes.values() if not _is_known(one.executor)]
    watch.note(FRAMEWORK, "custom and remote nodes of graphs", others)


def _is_known(node: Any) -> bool:
    return isinstance(node, (Agent, Graph, Swarm)) and module_of(type(node).stream_async).startswith(_OURS)


def _code_of(agent: Any) -> Iterator[str]:
    hooks = [one.callback for entries in agent.hooks._registered_callbacks.values() for one in entries]
    middleware = [
        _unwrapped(one.handler) for entries in agent._middleware_registry._handlers.values() for one in entries
    ]
    for code in (*hooks, *middleware, type(agent.tool_executor)):
        if not module_of(code).startswith(_OURS):
            yield str(getattr(code, "__name__", type(code).__name__))
    yield from _strategies_of(agent._model_router)
    for handler in agent._intervention_registry.handlers:
        if not type(handler).__module__.startswith(_OURS):
            yield str(handler.name)


def _strategies_of(router: Any) -> Iterator[str]:
    """Yield the strategies of your own by which a router, and those inside of it, choose models."""
    if isinstance(router, ModelRouter):
        if not type(router._strategy).__module__.startswith(_OURS):
            yield type(router._strategy).__name__
        for candidate in router.candidates:
            yield from _strategies_of(candidate.model)


def _unwrapped(handler: Any) -> Any:
    """Return the middleware that was given to the SDK, which wraps that of the phases input and output."""
    if module_of(handler) == MiddlewareRegistry.__module__ and inspect.isfunction(handler):
        return inspect.getclosurevars(handler).nonlocals.get("handler", handler)
    return handler
