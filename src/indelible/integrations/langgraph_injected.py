"""What LangGraph injects into a tool: fields of the state, the store, the runtime, the config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId
from langchain_core.tools.base import (
    _get_runnable_config_param,
    _is_injected_arg_type,
    get_all_basemodel_annotations,
)
from langgraph.prebuilt.tool_node import ToolCallRequest, _get_all_injected_args
from langgraph.store.base import BaseStore

from indelible.integrations.injected import recorded

TURN_FIELD = "indelible_turn"
"""The field of an agent's state that keeps the id of the user's message which began the turn."""
_OPAQUE = (BaseMessage, BaseStore)
# What the graph and its server put there for themselves; it changes from one invocation to the next.
_ITS_OWN = ("__", "langgraph_", "checkpoint", "x-", "lc_", "ls_")
_PLACES = frozenset({"thread_id", "thread_ts", "run_id", "assistant_id", "graph_id"})


def injected_in(request: ToolCallRequest, unbound: Iterable[str]) -> dict[str, Any]:
    """Return what the tool of a request gets beside the model's arguments, as it is recorded, by parameter.

    The id of the call is on the record of every effect, and is not among these.
    """
    if request.tool is None:
        return {}
    wanted, runtime = _get_all_injected_args(request.tool), request.runtime
    unbound = tuple(unbound)
    found = recorded(_given(request), unbound, _OPAQUE)
    if wanted.runtime is not None:
        found[wanted.runtime] = _runtime(request, unbound)
    for parameter in _configs_of(request.tool):
        found[parameter] = recorded(_config(runtime.config), unbound, _OPAQUE)
    return found


def live_in(request: ToolCallRequest) -> dict[str, Any]:
    """Return what the tool of a request gets beside the model's arguments, as it gets it, by parameter."""
    if request.tool is None:
        return {}
    found, runtime = _given(request), _get_all_injected_args(request.tool).runtime
    if runtime is not None:
        found[runtime] = request.runtime
    annotated = get_all_basemodel_annotations(request.tool.get_input_schema())
    ids = [name for name, kind in annotated.items() if _is_injected_arg_type(kind, injected_type=InjectedToolCallId)]
    return found | dict.fromkeys(ids, request.tool_call["id"])


def _given(request: ToolCallRequest) -> dict[str, Any]:
    """Return what the caller, the state and the store give the tool of a request."""
    assert request.tool is not None, "both callers ask first"
    wanted = _get_all_injected_args(request.tool)
    given: dict[str, Any] = given_by_caller(request)
    for parameter, field in wanted.state.items():
        if field is None:
            given[parameter] = _state(request.state)
        elif _has(request.state, field):  # else the parameter's default, which is the tool's own
            given[parameter] = _of(request.state, field)
    if wanted.store is not None:
        given[wanted.store] = request.runtime.store
    return given


def given_by_caller(request: ToolCallRequest) -> dict[str, Any]:
    """Return the arguments that no model may say and that stand in the call: a middleware around the gate put them."""
    if request.tool is None:
        return {}
    wanted = _get_all_injected_args(request.tool)
    ours = {*wanted.state, wanted.store, wanted.runtime}
    args: Mapping[str, Any] = request.tool_call["args"]
    shown = getattr(request.tool.tool_call_schema, "model_fields", {})
    return {name: args[name] for name in wanted.all_injected_keys - ours if name in args and name not in shown}


def _runtime(request: ToolCallRequest, unbound: Iterable[str]) -> dict[str, Any]:
    """Return what a tool can read of the runtime that is not the graph's own."""
    runtime = request.runtime
    parts = {
        "state": _state(request.state),
        "context": runtime.context,
        **_config(runtime.config),
        "store": runtime.store,
    }
    return recorded({name: part for name, part in parts.items() if part is not None}, unbound, _OPAQUE)


def _config(config: RunnableConfig) -> dict[str, Any]:
    """Return what of a config is the program's: not what the graph and its server put there for themselves."""
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    found = _own(config.get("metadata")).items()
    metadata = {name: value for name, value in found if not _is_copied(value, configurable.get(name))}
    return {"configurable": _own(configurable), **({"metadata": metadata} if metadata else {})}


def _is_copied(value: Any, original: Any) -> bool:
    """Say whether a value of the metadata is a plain one of `configurable`, as LangChain copies them."""
    return isinstance(value, str | int | float) and type(value) is type(original) and bool(value == original)


def _own(found: Mapping[str, Any] | None) -> dict[str, Any]:
    named = (found or {}).items()
    return {name: value for name, value in named if name not in _PLACES and not name.startswith(_ITS_OWN)}


def _configs_of(tool: BaseTool) -> list[str]:
    """Name the parameters that get the config; LangChain finds them by their type."""
    given = [function for function in (getattr(tool, "func", None), getattr(tool, "coroutine", None)) if function]
    own = [method for method in (tool._run, tool._arun) if not method.__module__.startswith("langchain_core.")]
    found = [_get_runnable_config_param(function) for function in (*given, *own)]
    return list(dict.fromkeys(name for name in found if name is not None))


def _state(state: Any) -> Any:
    """Return the state as the program knows it."""
    if isinstance(state, Mapping):
        return {name: value for name, value in state.items() if name != TURN_FIELD}
    return {"messages": state} if isinstance(state, list) else state


def _has(state: Any, field: str) -> bool:
    return field in state if isinstance(state, Mapping) else hasattr(_state(state), field) or field == "messages"


def _of(state: Any, field: str) -> Any:
    if isinstance(state, list):
        return state
    return state[field] if isinstance(state, Mapping) else getattr(state, field)
