"""Every way in which a framework runs code that can have effects, and whether the ledger guards it.

A way that is not guarded is named by `instrument()`'s report, and refused in strict mode unless it is allowed by name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from indelible.errors import BadCall

_LOG = logging.getLogger("indelible.integrations")


class Way(NamedTuple):
    """One way in which a framework runs code: what it is, and whether each such call goes through the ledger."""

    name: str
    is_guarded: bool


def _ways(guarded: Iterable[str], unguarded: Iterable[str]) -> tuple[Way, ...]:
    return (*(Way(name, True) for name in guarded), *(Way(name, False) for name in unguarded))


WAYS: dict[str, tuple[Way, ...]] = {
    "LangChain and LangGraph": _ways(
        ["tools of ToolNode and create_agent", "tools added while it runs", "agents and graphs inside"],
        [
            "hand-written nodes",
            "conditional edges",
            "entrypoints and tasks",
            "tools that the program calls itself",
            "provider tools",
        ],
    ),
    "OpenAI Agents": _ways(
        ["function tools", "tools of MCP servers", "agents as tools", "tools of agents handed off to"],
        [
            "hosted tools",
            "shell",
            "local shell",
            "computer",
            "apply_patch",
            "code interpreter",
            "custom tools",
            "hosted MCP",
            "on_handoff functions",
        ],
    ),
    "Pydantic AI": _ways(
        [
            "function tools",
            "toolsets",
            "dynamic toolsets",
            "output functions",
            "output functions of texts",
            "agents inside tools",
        ],
        ["native tools", "external tools", "output validators"],
    ),
    "CrewAI": _ways(
        [
            "tools of agents",
            "tools that a model calls by text",
            "tools of tasks",
            "tools of MCP servers",
            "tools of agents kicked off alone",
            "tools of coworkers who are delegated to",
            "tools of a hierarchical crew",
            "tools of crews inside flows",
            "tools that flows declare",
            "tools that the program runs itself",
            "crews inside tools",
            "saving to memory",
        ],
        [
            "methods of flows",
            "scripts of flows",
            "hosted tools",
            "functions given to a model",
            "agents of other frameworks",
            "remote agents",
            "callbacks",
            "guardrails",
            "hooks",
            "event listeners",
        ],
    ),
    "Claude Agent SDK": _ways(
        [
            "Bash",
            "Write and Edit",
            "WebFetch",
            "tools of your own",
            "tools of MCP servers",
            "subagents and their tools",
        ],
        [
            "slash commands",
            "skills",
            "hooks of others",
            "settings files",
            "plugins",
            "clients connected before",
        ],
    ),
    "Google ADK": _ways(
        [
            "function tools",
            "long-running tools",
            "tools of MCP toolsets",
            "agents as tools",
            "sub-agents",
            "tools as workflow nodes",
            "nodes as tools",
            "runners made before",
        ],
        [
            "code executors",
            "hosted tools",
            "callbacks",
            "workflow nodes",
            "custom, remote and managed agents",
            "live runs",
        ],
    ),
    "Strands": _ways(
        [
            "tools",
            "built-in tools",
            "tools of MCP servers",
            "tools that the program calls by the agent",
            "background tools",
            "agents as tools",
            "agents inside tools",
            "agents of graphs and swarms",
            "agents made before",
        ],
        [
            "hosted tools",
            "hooks, middleware and executors",
            "custom and remote nodes of graphs",
            "bidirectional agents",
        ],
    ),
}
"""The ways, by framework."""


def unguarded_ways(framework: str) -> tuple[str, ...]:
    """Return the names of the ways of a framework that no ledger guards."""
    return tuple(way.name for way in WAYS.get(framework, ()) if not way.is_guarded)


_HOSTED = frozenset(
    {"tools", "anthropic_tools", "gemini_tools", "builtin_tools", "mcp_servers", "web_search_options", "plugins"}
)
_FUNCTIONS = ("function_declarations", "functionDeclarations")


def hosted_in(said: Any) -> Iterator[str]:
    """Yield the names of what a model's configuration or request lets its provider run, at any depth.

    Functions are left out: their calls come back to the program. A hosted MCP server is named by its label or URL.
    """
    if isinstance(said, Mapping):
        for key, value in said.items():
            if key in _HOSTED and value is not None:
                yield from _hosted_under(key, value)
            else:
                yield from hosted_in(value)
    elif isinstance(said, list | tuple):
        for one in said:
            yield from hosted_in(one)


def _hosted_under(key: str, value: Any) -> Iterator[str]:
    if not isinstance(value, list | tuple):
        yield key
        return
    for tool in value:
        if isinstance(tool, Mapping):
            yield from _names_of(tool)
        elif hasattr(tool, "model_dump"):
            yield from (name for name in tool.model_dump(exclude_none=True) if name not in _FUNCTIONS)
        else:
            yield str(tool)


def _names_of(tool: Mapping[str, Any]) -> Iterator[str]:
    kind = tool.get("type")
    is_function = kind in ("function", "custom") or (kind is None and {"input_schema", "toolSpec"} & set(tool))
    if is_function:
        return
    place = tool.get("server_label") or tool.get("server_url") or tool.get("url")
    named = place or tool.get("name") or kind
    yield from [str(named)] if named else [name for name in tool if name not in _FUNCTIONS]


class Watch:
    """Notes what runs without the ledger, and refuses it in strict mode.

    Args:
        is_strict: Refuse it. Default: log a warning, once for each.
        allowed: Names that may run without the ledger, for example hosted tools that only read.
    """

    def __init__(self, is_strict: bool = False, allowed: Collection[str] = ()) -> None:
        self.is_strict = is_strict
        self.allowed = frozenset(allowed)
        self.seen: dict[tuple[str, str], str] = {}

    def note(self, framework: str, way: str, names: Iterable[str]) -> None:
        """Note that these run without the ledger.

        Args:
            framework: The framework's name.
            way: One of its `WAYS`.
            names: What runs so: tools, nodes, functions.

        Raises:
            BadCall: In strict mode, for names that are not allowed.
        """
        found = sorted({name for name in names if name not in self.allowed})
        if not found:
            return
        told = f"{framework}: {', '.join(found)} ({way}) would run without the ledger"
        if self.is_strict:
            raise BadCall(f"{told}, and strict mode refuses that. Leave it out, or allow it by name: allow={found!r}")
        if any((framework, name) not in self.seen for name in found):
            _LOG.warning("%s", told)
        self.seen |= {(framework, name): way for name in found}
