"""LangGraph everywhere: every `ToolNode`, those of LangChain's `create_agent` too, whenever it was made."""

from __future__ import annotations

import functools
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolNode

from indelible.integrations.everywhere.reach import Around, Undo, is_behind, replaced, run_here
from indelible.integrations.langgraph import ToolGate

_TAKES = ("self", "request", "input_type", "config")


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

    undo = replaced(ToolNode, "_execute_tool_sync", execute, takes=_TAKES)
    try:
        undo_async = replaced(ToolNode, "_execute_tool_async", execute_async, takes=_TAKES)
    except Exception:
        undo()
        raise
    return lambda: (undo(), undo_async())[0]


def _is_behind(request: ToolCallRequest) -> bool:
    return is_behind(request.tool_call["name"], request.tool_call["id"])


def _run_of(config: RunnableConfig) -> str:
    thread = config.get("configurable", {}).get("thread_id")
    return run_here(None if thread is None else str(thread), advice="…, or invoke the graph with a thread_id")
