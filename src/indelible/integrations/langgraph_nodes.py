"""The node of tools around a gate: where its messages are made, outside of all middleware.

A pause of a graph is an exception. Middleware that catches all exceptions would tell the model that the call failed,
although it may have happened or waits for a person. So the gate leaves each pause at the node, which raises it again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph._internal._constants import CONFIG_KEY_SCRATCHPAD
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.prebuilt import ToolNode

_COMBINE = "_combine_tool_outputs"


class Pauses:
    """The pauses of a node's calls, each until the node has made the messages of its task, or the task has ended.

    Args:
        combine: Makes the messages of a task from the results of its calls.
    """

    def __init__(self, combine: Callable[..., Any]) -> None:
        self._combine = combine
        self._kept: WeakKeyDictionary[Any, dict[str | None, tuple[Any, ...]]] = WeakKeyDictionary()

    def __call__(self, outputs: Any, input_type: Any) -> Any:
        """Make the messages, or pause the graph by what paused one of the calls."""
        task = task_in(var_child_runnable_config.get() or {})
        caught = {} if task is None else self._kept.pop(task, {})
        for asked in caught.values():
            raise GraphInterrupt(*asked)
        return self._combine(outputs, input_type)

    def forget(self, scratchpad: Any, call_id: str | None) -> None:
        """Forget how an earlier try of a call ended."""
        if scratchpad is not None:
            self._kept.get(_task_of(scratchpad), {}).pop(call_id, None)

    def keep(self, scratchpad: Any, call_id: str | None, pause: GraphBubbleUp) -> None:
        """Keep what pauses a call. Outside of a graph, nothing does."""
        if scratchpad is not None and isinstance(pause, GraphInterrupt):
            self._kept.setdefault(_task_of(scratchpad), {})[call_id] = pause.args


def task_in(config: RunnableConfig) -> Any:
    """Return what there is one of for each task while it runs; None outside of a graph."""
    here = config.get("configurable", {}).get(CONFIG_KEY_SCRATCHPAD)
    return None if here is None else _task_of(here)


def _task_of(scratchpad: Any) -> Any:
    """Return what there is one of for each task while it runs. A scratchpad itself cannot be a weak key."""
    return scratchpad.get_null_resume


def pauses_of(execute: Callable[..., Any]) -> Pauses | None:
    """Return the pauses of the node that a tool is entered by; None if that is no `ToolNode`."""
    node = _node_behind(execute)
    if node is None:
        return None
    found = vars(node).get(_COMBINE)
    if not isinstance(found, Pauses):
        found = vars(node).setdefault(_COMBINE, Pauses(getattr(node, _COMBINE)))
    return found


def is_at_the_tool(execute: Callable[..., Any]) -> bool:
    """Say whether this enters the tool itself, and not another middleware before it."""
    return _node_behind(execute) is not None


def _node_behind(execute: Callable[..., Any]) -> ToolNode | None:
    if not inspect.isfunction(execute):
        return None
    names = dict(zip(execute.__code__.co_freevars, execute.__closure__ or (), strict=False))
    node = names["self"].cell_contents if "self" in names else None
    return node if isinstance(node, ToolNode) else None
