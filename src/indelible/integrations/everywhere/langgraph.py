"""LangGraph everywhere: every `ToolNode`, those of LangChain's `create_agent` too, whenever it was made."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph._internal._constants import PREVIOUS
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolNode
from langgraph.pregel import Pregel

from indelible.integrations.everywhere.reach import (
    Around,
    Undo,
    all_replaced,
    inside_tool,
    is_behind,
    replaced,
    run_here,
    running_here,
)
from indelible.integrations.langgraph import NAME, ToolGate, note_provider_tools
from indelible.integrations.ways import Watch

_TAKES = ("self", "request", "input_type", "config")
_THEIR_OWN = ("langchain.", "langgraph.", "langchain_core.")


def reach(around: Around) -> Undo:
    """Puts the ledger where a node enters its tools: inside of what wraps the calls, retries and edits included."""
    gate = ToolGate(around.ledger, terms=around.terms, run=_run_of, **around.usual)
    blocking, awaited = ToolNode._execute_tool_sync, ToolNode._execute_tool_async

    @functools.wraps(blocking)
    def execute(self: ToolNode, request: ToolCallRequest, input_type: Any, config: RunnableConfig) -> Any:
        def enter(asked: ToolCallRequest) -> Any:
            with inside_tool():
                return blocking(self, asked, input_type, config)

        return enter(request) if _is_behind(request) else gate.wrap_tool_call(request, enter)

    @functools.wraps(awaited)
    async def execute_async(self: ToolNode, request: ToolCallRequest, input_type: Any, config: RunnableConfig) -> Any:
        async def enter(asked: ToolCallRequest) -> Any:
            with inside_tool():
                return await awaited(self, asked, input_type, config)

        return await (enter(request) if _is_behind(request) else gate.awrap_tool_call(request, enter))

    return all_replaced(
        lambda: replaced(ToolNode, "_execute_tool_sync", execute, takes=_TAKES),
        lambda: replaced(ToolNode, "_execute_tool_async", execute_async, takes=_TAKES),
        *_watching(around.watch),
    )


def _watching(watch: Watch) -> list[Callable[[], Undo]]:
    """Return the replacements that see what runs beside the nodes of tools."""
    stream, astream, run, arun = Pregel.stream, Pregel.astream, BaseTool.run, BaseTool.arun

    @functools.wraps(stream)
    def streamed(self: Pregel[Any, Any, Any, Any], *args: Any, **words: Any) -> Any:
        _note_graph(watch, self)
        return stream(self, *args, **words)

    @functools.wraps(astream)
    def streamed_async(self: Pregel[Any, Any, Any, Any], *args: Any, **words: Any) -> Any:
        _note_graph(watch, self)
        return astream(self, *args, **words)

    def note_call(tool: BaseTool) -> None:
        if running_here() is None:
            watch.note(NAME, "tools that the program calls itself", [tool.name])

    @functools.wraps(run)
    def ran(self: BaseTool, tool_input: Any, *args: Any, **words: Any) -> Any:
        note_call(self)
        return run(self, tool_input, *args, **words)

    @functools.wraps(arun)
    async def ran_async(self: BaseTool, tool_input: Any, *args: Any, **words: Any) -> Any:
        note_call(self)
        return await arun(self, tool_input, *args, **words)

    return [
        lambda: replaced(Pregel, "stream", streamed, takes=("self", "input", "config")),
        lambda: replaced(Pregel, "astream", streamed_async, takes=("self", "input", "config")),
        lambda: replaced(BaseTool, "run", ran, takes=("self", "tool_input")),
        lambda: replaced(BaseTool, "arun", ran_async, takes=("self", "tool_input")),
        lambda: _model_requests(watch),
    ]


def _model_requests(watch: Watch) -> Undo:
    """See the tools that a model's provider runs, in agents of LangChain, if that is installed."""
    try:
        from langchain.agents.middleware import ModelRequest
    except ImportError:
        return lambda: None
    make = ModelRequest.__init__

    @functools.wraps(make)
    def init(self: Any, *args: Any, **words: Any) -> None:
        make(self, *args, **words)
        note_provider_tools(watch, self)

    return replaced(ModelRequest, "__init__", init, takes=("self",))


def _note_graph(watch: Watch, graph: Pregel[Any, Any, Any, Any]) -> None:
    """Note the code of the program that a graph is about to run, whenever and however the graph was made."""
    nodes = graph.nodes.items()
    written = [name for name, node in nodes if _has_own_code(node.bound)]
    watch.note(NAME, "entrypoints and tasks" if PREVIOUS in graph.channels else "hand-written nodes", written)
    watch.note(NAME, "conditional edges", [name for name, node in nodes if _has_own_code(node.writers)])


def _has_own_code(part: Any) -> bool:
    """Say whether a part of a graph runs code of the program, also inside of what the framework makes of runnables.

    Tools, graphs and models are looked at when they are called.
    """
    if isinstance(part, (ToolNode, Pregel, BaseTool, BaseLanguageModel, type)):
        return False
    if isinstance(part, functools.partial):
        return _has_own_code([part.func, part.args, part.keywords])
    if isinstance(part, Mapping):
        return any(_has_own_code(one) for one in part.values())
    if isinstance(part, (list, tuple)):  # a branch is a tuple
        return any(_has_own_code(one) for one in part)
    if isinstance(part, Runnable):
        return not _is_theirs(type(part)) or _has_own_code(vars(part))
    if not callable(part):
        return False
    holder = getattr(part, "__self__", None)
    return not _is_theirs(part) or (isinstance(holder, tuple) and _has_own_code(holder))


def _is_theirs(part: Any) -> bool:
    module = getattr(part, "__module__", None) or type(part).__module__
    return f"{module}.".startswith(_THEIR_OWN)


def _is_behind(request: ToolCallRequest) -> bool:
    return is_behind(request.tool_call["name"], request.tool_call["id"])


def _run_of(config: RunnableConfig) -> str:
    thread = config.get("configurable", {}).get("thread_id")
    return run_here(None if thread is None else str(thread), advice="…, or invoke the graph with a thread_id")
