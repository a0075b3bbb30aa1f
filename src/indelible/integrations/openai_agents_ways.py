"""What OpenAI Agents run beside function tools: at the provider, by handoffs, and around agents as tools."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents import (
    ApplyPatchTool,
    CodeInterpreterTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    Handoff,
    HostedMCPTool,
    LocalShellTool,
    ShellTool,
    Tool,
)

from indelible.integrations.hosted import hosted_in, hosted_tools
from indelible.integrations.ways import Watch, module_of

NAME = "OpenAI Agents"
_WAYS: Mapping[type, str] = {
    ShellTool: "shell",
    LocalShellTool: "local shell",
    ComputerTool: "computer",
    ApplyPatchTool: "apply_patch",
    CodeInterpreterTool: "code interpreter",
    CustomTool: "custom tools",
    HostedMCPTool: "hosted MCP",
}
_FUNCTIONS = ("custom_output_extractor", "input_builder", "on_stream")
_RUN_AGAIN = ("input_builder", "on_stream", "hooks")


def note_unguarded(watch: Watch, agent: Any, tools: Iterable[Tool], guarded: Sequence[Tool] = ()) -> None:
    """Note what an agent runs that is no function tool, and the functions that its handoffs and agents as tools call.

    Args:
        watch: Notes it, or refuses it.
        agent: The agent.
        tools: Its tools, those of its MCP servers included.
        guarded: Those of them whose calls go through the ledger. Default: none.
    """
    for tool in tools:
        if not isinstance(tool, FunctionTool):
            watch.note(NAME, _WAYS.get(type(tool), "hosted tools"), [name_of(tool)])
        elif tool._is_agent_tool and _has_functions(tool) and not any(tool is one for one in guarded):
            watch.note(NAME, "functions of agents as tools", [tool.qualified_name])
    note_settings(watch, {"prompt": getattr(agent, "prompt", None)})
    handed = [one for one in getattr(agent, "handoffs", ()) if isinstance(one, Handoff)]
    watch.note(NAME, "on_handoff functions", [one.tool_name for one in handed if _calls_something(one)])


def note_settings(watch: Watch, settings: Mapping[str, Any]) -> None:
    """Note what the settings of a request let the provider run; a stored prompt may hold tools."""
    stored = ["prompt"] if callable(settings.get("prompt")) else []
    watch.note(NAME, "hosted tools", [*stored, *hosted_in(settings)])


def _calls_something(handoff: Handoff[Any, Any]) -> bool:
    """Say whether a handoff calls a function of the program; one whose code cannot be seen does."""
    entered: Any = handoff.on_invoke_handoff
    while isinstance(entered, functools.partial):
        if not _is_theirs(entered.func) or len(entered.args) != 1 or entered.keywords:
            return True
        (entered,) = entered.args
    if not inspect.isfunction(entered) or not _is_theirs(entered):
        return True
    return inspect.getclosurevars(entered).nonlocals.get("on_handoff") is not None


def name_of(tool: Tool) -> str:
    """Return the name under which a tool is refused and allowed: a hosted MCP server has that of its label."""
    return hosted_tools([tool.tool_config])[0] if isinstance(tool, HostedMCPTool) else tool.name


def entered_by(tool: FunctionTool) -> Any:
    """Return what the SDK enters behind its own handling of errors; None for an entrance that is not the SDK's."""
    entrance: Any = tool.on_invoke_tool
    if module_of(entrance).startswith("indelible."):  # of `instrument()`
        entrance = getattr(entrance, "plain", entrance)
    return getattr(entrance, "_invoke_tool_impl", None) if _is_theirs(entrance) else None


def _is_theirs(code: Any) -> bool:
    return module_of(code).startswith("agents.")


def runs_again(tool: FunctionTool) -> bool:
    """Say whether an agent as a tool calls functions of the program again if it is resumed after a pause."""
    return _has_functions(tool, _RUN_AGAIN)


def _has_functions(tool: FunctionTool, words: Sequence[str] = _FUNCTIONS) -> bool:
    """Say whether an agent as a tool calls functions of the program; one whose code cannot be seen does."""
    entered = entered_by(tool)
    if not inspect.isfunction(entered) or not _is_theirs(entered):
        return True
    known = inspect.getclosurevars(entered).nonlocals
    return any(known.get(word) is not None for word in words)
