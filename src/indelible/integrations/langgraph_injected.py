"""What LangGraph injects into a tool: fields of the state, the store, the runtime, the config."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Container, Iterable, Mapping
from types import FrameType
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

from indelible.errors import BadCall
from indelible.integrations.injected import recorded

TURN_FIELD = "indelible_turn"
"""The field of an agent's state that keeps the id of the user's message which began the turn."""
_OPAQUE = (BaseMessage, BaseStore)
# What the graph and its server put there for themselves; it changes from one invocation to the next.
_ITS_OWN = ("__", "langgraph_", "checkpoint", "x-", "lc_", "ls_")
_BEFORE = frozenset({"_inject_tool_args", "_to_args_and_kwargs", "on_tool_start"})
_PLACES = frozenset({"thread_id", "thread_ts", "run_id", "assistant_id", "graph_id"})


def injected_in(request: ToolCallRequest, unbound: Iterable[str]) -> dict[str, Any]:
    """Return what the tool of a request gets beside the model's arguments, as it is recorded, by parameter.

    The id of the call is on the record of every effect, and is not among these.
    """
    if request.tool is None:
        return {}
    wanted, runtime = _get_all_injected_args(request.tool), request.runtime
    unbound = tuple(unbound)
    given = _given(request)
    defaults = _defaults(request.tool, {*given, wanted.runtime, *_ids_of(request.tool), *_configs_of(request.tool)})
    found = recorded(given | defaults, unbound, _OPAQUE)
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
    return found | dict.fromkeys(_ids_of(request.tool), request.tool_call["id"])


def _ids_of(tool: BaseTool) -> list[str]:
    """Name the parameters that get the id of the call."""
    annotated = get_all_basemodel_annotations(tool.get_input_schema())
    return [name for name, kind in annotated.items() if _is_injected_arg_type(kind, injected_type=InjectedToolCallId)]


def _given(request: ToolCallRequest) -> dict[str, Any]:
    """Return what the state and the store give the tool of a request."""
    assert request.tool is not None, "both callers ask first"
    wanted = _get_all_injected_args(request.tool)
    given: dict[str, Any] = {}
    for parameter, field in wanted.state.items():
        if field is None:
            given[parameter] = _state(request.state)
        elif _has(request.state, field):  # else the parameter's default
            given[parameter] = _of(request.state, field)
    if wanted.store is not None:
        given[wanted.store] = request.runtime.store
    return given


def _defaults(tool: BaseTool, others: Container[str | None]) -> dict[str, Any]:
    """Return the defaults of the parameters that no model may say and that get nothing, except for `others`.

    LangGraph drops what a call says of them. A function that makes a default anew each time stands for its value.
    LangChain passes the defaults of a schema that the tool has, and leaves those of its functions to Python.
    """
    fields: Mapping[str, Any] = getattr(tool.args_schema, "model_fields", {})
    unsaid = fields.keys() - getattr(tool.tool_call_schema, "model_fields", {}).keys()  # LangGraph overlooks an alias
    found: dict[str, Any] = {}
    for name in sorted(_get_all_injected_args(tool).all_injected_keys | unsaid):
        if name in others:
            continue
        if name in fields and not fields[name].is_required():
            found[name] = fields[name].default_factory or fields[name].default
        elif name not in fields and (of_functions := _defaults_of(name, tool)):
            found[name] = of_functions[0]
    return found


def _defaults_of(name: str, tool: BaseTool) -> list[Any]:
    """Return the equal defaults that the functions of a tool have for a parameter: LangChain picks the function.

    Raises:
        BadCall: The defaults differ.
    """
    parameters = [inspect.signature(function).parameters.get(name) for function in functions_of(tool)]
    found = [one.default for one in parameters if one is not None and one.default is not inspect.Parameter.empty]
    shown = [recorded({name: default}) for default in found]
    if any(one != shown[0] for one in shown[1:]):
        raise BadCall(f"{tool.name}: its functions have different defaults for {name!r}. Give them the same one.")
    return found


def own_defaults(tool: BaseTool) -> dict[str, Any]:
    """Return the defaults of the functions of a tool, those that they have in common."""
    names = {name for function in functions_of(tool) for name in inspect.signature(function).parameters}
    found = {name: _defaults_of(name, tool) for name in names}
    return {name: defaults[0] for name, defaults in found.items() if defaults}


def _runtime(request: ToolCallRequest, unbound: Iterable[str]) -> dict[str, Any]:
    """Return what a tool can read of the runtime that is not the graph's own."""
    runtime = request.runtime
    parts = {
        "state": _state(request.state),
        "context": runtime.context,
        **_config(runtime.config),
        "store": runtime.store,
        "user": getattr(getattr(runtime.server_info, "user", None), "identity", None),
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
    found = [_get_runnable_config_param(function) for function in functions_of(tool)]
    return list(dict.fromkeys(name for name in found if name is not None))


def functions_of(tool: BaseTool) -> list[Callable[..., Any]]:
    """Return the functions of the program that a tool runs, blocking and awaited."""
    given = [function for function in (getattr(tool, "func", None), getattr(tool, "coroutine", None)) if function]
    own = [method for method in (tool._run, tool._arun) if not method.__module__.startswith("langchain_core.")]
    return [*given, *own]


def is_raised_after(error: BaseException, tool: BaseTool) -> bool:
    """Say whether LangChain raised an error itself, after the tool had returned.

    What the tool raises has in its traceback the method that calls the tool's function, whatever kind of function it
    is. What LangChain raises before has one of `_BEFORE`.
    """
    codes = [getattr(inspect.unwrap(method), "__code__", None) for method in (tool._run, tool._arun)]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    is_told = any(frame.f_code in codes and _self_of(frame) is tool for frame in frames)
    return not is_told and not any(frame.f_code.co_name in _BEFORE for frame in frames)


def _self_of(method: FrameType) -> Any:
    """Return the object that a method is called on: its first parameter."""
    names = method.f_code.co_varnames
    return method.f_locals.get(names[0]) if names else None


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
