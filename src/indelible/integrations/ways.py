"""Every way in which a framework runs code that can have effects, and whether the ledger guards it.

A way that is not guarded is named by `instrument()`'s report, and refused in strict mode unless it is allowed by name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple

from indelible.errors import BadCall

_LOG = logging.getLogger("indelible.integrations")
_HELD = ("func", "_tool_func", "coroutine", "__wrapped__")
"""Where objects of frameworks keep a function that they stand around."""


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
            "remote graphs",
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
            "functions of agents as tools",
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
            "tools of realtime sessions",
        ],
        ["native tools", "external tools", "output validators", "handlers of deferred calls"],
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
            "tools of a LiteAgent",
            "structured tools",
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
            "conditions of tasks",
            "output files",
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


def module_of(code: Any) -> str:
    """Return the module that a function, a method, a class or the class of an object was written in.

    A method of a framework may be bound to an object of the program, and an object of a framework may stand around a
    function of the program. Then it is the program's module. `__module__` and `__wrapped__` of a function are not
    asked: `functools.wraps` copies them from another one.
    """
    outer, *inner = _modules_of(code, [])
    known = (outer.partition(".")[0], "indelible")
    return next((one for one in inner if one.partition(".")[0] not in known), outer)


def written_in(code: Any) -> str:
    """Return the module of some code itself, whatever it is bound to or stands around."""
    return _modules_of(code, [])[0]


def _modules_of(code: Any, done: list[Any]) -> list[str]:
    """Return the module of some code, and of what it is bound to or stands around."""
    if any(code is one for one in done):
        return []
    done.append(code)
    if isinstance(code, MethodType):
        own = module_of(code.__func__)
        return [own, *(() if own.startswith("indelible.") else _modules_of(code.__self__, done))]
    if isinstance(code, FunctionType):
        return [str(code.__globals__.get("__name__"))]
    if isinstance(code, (type, BuiltinFunctionType)):
        return [str(code.__module__)]
    held = [one for name in _HELD if callable(one := getattr(code, "__dict__", {}).get(name))]
    return [str(type(code).__module__), *(module for one in held for module in _modules_of(one, done))]


class Watch:
    """Notes what runs without the ledger, and refuses it in strict mode.

    Args:
        is_strict: Refuse it. Default: log a warning, once for each.
        allowed: Names that may run without the ledger, for example hosted tools that only read.
        packages: Names in `allowed` that stand for packages. What runs under such a name is allowed as `way: name`.
    """

    def __init__(self, is_strict: bool = False, allowed: Collection[str] = (), packages: Collection[str] = ()) -> None:
        self.is_strict = is_strict
        self.allowed = frozenset(allowed)
        self._packages = frozenset(packages)
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
        told_as = {f"{way}: {name}" if name in self._packages else name for name in names}
        found = sorted(told_as - self.allowed)
        if not found:
            return
        told = f"{framework}: {', '.join(found)} ({way}) would run without the ledger"
        if self.is_strict:
            raise BadCall(f"{told}, and strict mode refuses that. Leave it out, or allow it by name: allow={found!r}")
        if any((framework, name) not in self.seen for name in found):
            _LOG.warning("%s", told)
        self.seen |= {(framework, name): way for name in found}
