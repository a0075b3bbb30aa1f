"""What a Strands agent runs without the ledger: hooks and middleware of your own, and tools of the model's provider."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from strands import Agent
from strands.middleware._registry import MiddlewareRegistry
from strands.multiagent.graph import Graph
from strands.multiagent.swarm import Swarm

from indelible.integrations.ways import Watch

FRAMEWORK = "Strands"
_NESTED = ("params", "additional_request_fields", "additional_args")
_HOSTED = ("tools", "anthropic_tools", "gemini_tools", "mcp_servers", "web_search_options")
_OURS = ("strands.", "indelible.")


def note_agent(watch: Watch, agent: Any, model: Any) -> None:
    """Note what an agent runs without the ledger.

    Args:
        watch: Notes it, or refuses it.
        agent: The agent.
        model: The model that is about to be asked.
    """
    watch.note(FRAMEWORK, "hosted tools", _hosted_by(model))
    watch.note(FRAMEWORK, "hooks, middleware and executors", _code_of(agent))


def note_graph(watch: Watch, graph: Graph) -> None:
    """Note the nodes of a graph that are no agents, graphs or swarms of the SDK."""
    others = [one.node_id for one in graph.nodes.values() if not isinstance(one.executor, (Agent, Graph, Swarm))]
    watch.note(FRAMEWORK, "custom and remote nodes of graphs", others)


def _hosted_by(model: Any) -> Iterator[str]:
    said = model.get_config()
    config: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    for part in [config, *(config.get(name) for name in _NESTED)]:
        for key in _HOSTED if isinstance(part, Mapping) else ():
            found = (part or {}).get(key) or ()
            for tool in found if isinstance(found, list | tuple) else [key]:
                yield from _names_of(tool)


def _names_of(tool: Any) -> Iterator[str]:
    """Yield the names of what one entry of a model's configuration stands for."""
    if isinstance(tool, Mapping):
        yield str(tool.get("name") or tool.get("type") or tool.get("server_label") or next(iter(tool), "tool"))
    elif hasattr(tool, "model_dump"):
        yield from tool.model_dump(exclude_none=True)
    else:
        yield str(tool)


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
