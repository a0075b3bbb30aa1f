"""LangGraph everywhere: every `ToolNode`, those of LangChain's `create_agent` too, whenever it was made."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents.base import BaseMedia
from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.stores import BaseStore
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import VectorStore
from langgraph._internal._constants import PREVIOUS
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolNode
from langgraph.pregel import Pregel
from langgraph.pregel.remote import RemoteGraph

from indelible.integrations.entries import carries_out
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
from indelible.integrations.hosted import hosted_in
from indelible.integrations.langgraph import NAME, PROVIDER_TOOLS, ToolGate, note_provider_tools
from indelible.integrations.ways import Watch, written_in

_TAKES = ("self", "request", "input_type", "config")
_THEIR_OWN = ("langchain.", "langgraph.", "langchain_core.", "indelible.")
_HOLD_DATA = (BaseMedia, BaseMessage, BaseStore, VectorStore)
_ENTERED_BY = ("generate", "agenerate", "stream", "astream", "_chat_model_stream_v3", "_achat_model_stream_v3")
_ENTRANCES = ("invoke", "ainvoke", "stream", "astream", "run", "arun", "_func", "_afunc")


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
        running = running_here()
        if running is None or not carries_out(running, lambda name, _: name == tool.name):
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
        *_updates(watch),
        *_entered_models(watch),
        *_remote_graphs(watch),
    ]


def _updates(watch: Watch) -> list[Callable[[], Undo]]:
    """Return the replacements for updates of a state, which run the conditional edges of the node they stand for."""
    update, aupdate = Pregel.bulk_update_state, Pregel.abulk_update_state

    def note(graph: Pregel[Any, Any, Any, Any], supersteps: Any) -> None:
        names = {one.as_node for step in supersteps for one in step}
        parts = [(name, node.writers) for name, node in graph.nodes.items() if None in names or name in names]
        watch.note(NAME, "conditional edges", [name for name, writers in parts if _has_own_code(writers)])

    @functools.wraps(update)
    def updated(self: Pregel[Any, Any, Any, Any], config: Any, supersteps: Any) -> Any:
        note(self, supersteps)
        return update(self, config, supersteps)

    @functools.wraps(aupdate)
    async def updated_async(self: Pregel[Any, Any, Any, Any], config: Any, supersteps: Any) -> Any:
        note(self, supersteps)
        return await aupdate(self, config, supersteps)

    takes = ("self", "config", "supersteps")
    return [
        lambda: replaced(Pregel, "bulk_update_state", updated, takes=takes),
        lambda: replaced(Pregel, "abulk_update_state", updated_async, takes=takes),
    ]


def _entered_models(watch: Watch) -> list[Callable[[], Undo]]:
    """Return the replacements that see the tools of a model's provider where every chat model is entered."""

    def looking(name: str) -> Undo:
        plain = vars(BaseChatModel)[name]

        @functools.wraps(plain)
        def entered(self: BaseChatModel, *args: Any, **words: Any) -> Any:
            watch.note(NAME, PROVIDER_TOOLS, hosted_in(self, words))
            return plain(self, *args, **words)

        return replaced(BaseChatModel, name, entered, takes=("self", "messages" if "generate" in name else "input"))

    return [functools.partial(looking, name) for name in _ENTERED_BY]


def _remote_graphs(watch: Watch) -> list[Callable[[], Undo]]:
    """Return the replacements that see graphs which run at another server."""

    def looking(name: str) -> Undo:
        plain = vars(RemoteGraph)[name]

        @functools.wraps(plain)
        def streamed(self: RemoteGraph, *args: Any, **words: Any) -> Any:
            watch.note(NAME, "remote graphs", [str(self.name or self.assistant_id)])
            return plain(self, *args, **words)

        return replaced(RemoteGraph, name, streamed, takes=("self", "input", "config"))

    return [functools.partial(looking, name) for name in ("stream", "astream")]


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
    written = [name for name, node in nodes if _has_own_code([node.bound, _key_of(node.cache_policy)])]
    watch.note(NAME, "entrypoints and tasks" if PREVIOUS in graph.channels else "hand-written nodes", written)
    watch.note(NAME, "conditional edges", [name for name, node in nodes if _has_own_code(node.writers)])


def _key_of(policy: Any) -> Any:
    return None if policy is None else policy.key_func


def _has_own_code(part: Any, inside: tuple[Any, ...] = ()) -> bool:
    """Say whether a part of a graph runs code of the program, also inside of what the framework makes of runnables.

    Tools, graphs and models are looked at when they are called, unless a class of the program enters them its own way.

    Args:
        part: The part.
        inside: What it is a part of. Default: nothing.
    """
    has_own_code = functools.partial(_has_own_code, inside=(*inside, part))
    if isinstance(part, (BaseLanguageModel, type)) or any(part is one for one in inside):
        return False
    if isinstance(part, (ToolNode, Pregel, RemoteGraph, BaseTool)):
        entered = [getattr(part, name, None) for name in _ENTRANCES]
        entered += [part.func, part.afunc] if isinstance(part, ToolNode) else []
        is_changed = isinstance(part, ToolNode) and _is_changed(part)
        return is_changed or any(not _is_theirs(one) for one in entered if one is not None)
    if isinstance(part, functools.partial):
        return _is_own_class(part.func) or has_own_code([part.func, part.args, part.keywords])
    if isinstance(part, Mapping):
        return any(has_own_code(one) for one in part.values())
    if isinstance(part, (list, tuple)):  # a branch is a tuple
        return any(has_own_code(one) for one in part)
    if isinstance(part, Runnable):
        is_class = any(_is_own_class(vars(part).get(name)) for name in ("func", "afunc"))
        return is_class or not _is_theirs(type(part)) or has_own_code(vars(part))
    if not callable(part):
        return _is_own_object(part) or has_own_code(_objects_in(part))
    return not _is_theirs(part) or has_own_code(getattr(part, "__self__", None)) or has_own_code(_closure_of(part))


def _is_own_object(part: Any) -> bool:
    """Say whether an object is of a class of the program, or of a package of others, and no plain data.

    What the framework makes around it, as a retriever around a store, calls its methods. Callbacks are not looked at.
    """
    package = written_in(part).partition(".")[0]
    is_data = (
        isinstance(part, (Enum, BaseCallbackHandler))
        or package in sys.stdlib_module_names
        or package.startswith("pydantic")
    )
    return not is_data and not _is_theirs(part)


def _objects_in(part: Any) -> list[Any]:
    """Return what an object of the framework was made around, without the data that a store or a message holds."""
    if not f"{written_in(part)}.".startswith(("langchain.", "langgraph.", "langchain_core.")):
        return []
    found = list(getattr(part, "__dict__", {}).values())
    is_data = isinstance(part, _HOLD_DATA)
    return [one for one in found if not (is_data and isinstance(one, (Mapping, list, tuple, set)))]


def _is_own_class(part: Any) -> bool:
    """Say whether a part that is called is a class of the program, which runs when an object of it is made."""
    return isinstance(part, type) and not _is_theirs(part)


def _is_changed(node: ToolNode) -> bool:
    """Say whether a class of the program, or the program itself, changed how a node of tools does anything.

    The ledger stands in the methods of `ToolNode`: one that takes the place of any of them may enter tools without it.
    """
    kinds = type(node).__mro__
    names = [name for kind in kinds[: kinds.index(ToolNode)] if not _is_theirs(kind) for name in vars(kind)]
    names += [name for name, one in vars(node).items() if not _is_theirs(one)]
    known = [inspect.getattr_static(ToolNode, name, None) for name in names if not name.startswith("__")]
    return any(callable(one) or isinstance(one, (property, classmethod, staticmethod)) for one in known)


def _closure_of(function: Any) -> list[Any]:
    """Return what a function of LangGraph was made around, for example a prompt that is a function."""
    if not inspect.isfunction(function) or not written_in(function).startswith("langgraph."):
        return []
    found = inspect.getclosurevars(function).nonlocals.values()
    return [one for one in found if one is not function]


def _is_theirs(part: Any) -> bool:
    return f"{written_in(part)}.".startswith(_THEIR_OWN)


def _is_behind(request: ToolCallRequest) -> bool:
    return is_behind(request.tool_call["name"], request.tool_call["id"], ToolGate)


def _run_of(config: RunnableConfig) -> str:
    thread = config.get("configurable", {}).get("thread_id")
    return run_here(None if thread is None else str(thread), advice="…, or invoke the graph with a thread_id")
