"""LangGraph everywhere: every `ToolNode`, those of LangChain's `create_agent` too, whenever it was made."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.func import entrypoint
from langgraph.graph import StateGraph
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolNode
from langgraph.pregel import Pregel

from indelible import current_effect
from indelible.integrations.everywhere.reach import Around, Undo, all_replaced, is_behind, replaced, run_here
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
            return blocking(self, asked, input_type, config)

        return enter(request) if _is_behind(request) else gate.wrap_tool_call(request, enter)

    @functools.wraps(awaited)
    async def execute_async(self: ToolNode, request: ToolCallRequest, input_type: Any, config: RunnableConfig) -> Any:
        async def enter(asked: ToolCallRequest) -> Any:
            return await awaited(self, asked, input_type, config)

        return await (enter(request) if _is_behind(request) else gate.awrap_tool_call(request, enter))

    return all_replaced(
        lambda: replaced(ToolNode, "_execute_tool_sync", execute, takes=_TAKES),
        lambda: replaced(ToolNode, "_execute_tool_async", execute_async, takes=_TAKES),
        *_watching(around.watch),
    )


def _watching(watch: Watch) -> list[Callable[[], Undo]]:
    """Return the replacements that see what runs beside the nodes of tools."""
    compile_, run, arun, call = StateGraph.compile, BaseTool.run, BaseTool.arun, entrypoint.__call__

    @functools.wraps(compile_)
    def compiled(self: StateGraph[Any], *args: Any, **words: Any) -> Any:
        watch.note(NAME, "hand-written nodes", [name for name, node in self.nodes.items() if _is_own(node.runnable)])
        return compile_(self, *args, **words)

    def note_call(tool: BaseTool) -> None:
        if current_effect() is None:
            watch.note(NAME, "tools that the program calls itself", [tool.name])

    @functools.wraps(run)
    def ran(self: BaseTool, tool_input: Any, *args: Any, **words: Any) -> Any:
        note_call(self)
        return run(self, tool_input, *args, **words)

    @functools.wraps(arun)
    async def ran_async(self: BaseTool, tool_input: Any, *args: Any, **words: Any) -> Any:
        note_call(self)
        return await arun(self, tool_input, *args, **words)

    @functools.wraps(call)
    def called(self: Any, func: Callable[..., Any]) -> Any:
        watch.note(NAME, "entrypoints and tasks", [func.__name__])
        return call(self, func)

    return [
        lambda: replaced(StateGraph, "compile", compiled, takes=("self", "checkpointer")),
        lambda: replaced(BaseTool, "run", ran, takes=("self", "tool_input")),
        lambda: replaced(BaseTool, "arun", ran_async, takes=("self", "tool_input")),
        lambda: replaced(entrypoint, "__call__", called, takes=("self", "func")),
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
        note_provider_tools(watch, self.tools)

    return replaced(ModelRequest, "__init__", init, takes=("self",))


def _is_own(runnable: Any) -> bool:
    """Say whether a node runs code of the program: no node of tools, no graph, and none of the framework's."""
    if isinstance(runnable, (ToolNode, Pregel)):
        return False
    function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None) or runnable
    function = getattr(function, "func", function)  # of a partial
    module = str(getattr(function, "__module__", None) or type(function).__module__)
    return not f"{module}.".startswith(_THEIR_OWN)


def _is_behind(request: ToolCallRequest) -> bool:
    return is_behind(request.tool_call["name"], request.tool_call["id"])


def _run_of(config: RunnableConfig) -> str:
    thread = config.get("configurable", {}).get("thread_id")
    return run_here(None if thread is None else str(thread), advice="…, or invoke the graph with a thread_id")
