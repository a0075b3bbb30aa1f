"""What an app of Google ADK runs without the ledger: executors, nodes, callbacks, and tools of the model's provider."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.workflow._base_node import START, BaseNode
from google.adk.workflow._join_node import JoinNode
from google.adk.workflow._parallel_worker import _ParallelWorker
from google.adk.workflow._tool_node import _ToolNode
from google.adk.workflow._workflow import Workflow

from indelible.integrations.adk_pauses import NAME
from indelible.integrations.hosted import hosted_in
from indelible.integrations.ways import Watch, module_of

FRAMEWORK = "Google ADK"
_WATCHING = f"{NAME}.watching"
_KNOWN = (LlmAgent, SequentialAgent, ParallelAgent, LoopAgent, Workflow, _ParallelWorker, _ToolNode, JoinNode)
_ENTERED = (
    *("run", "_run_impl", "run_async", "run_live"),
    *("_run_with_lifecycle", "_run_async_impl", "_run_live_impl"),
)
"""The methods by which ADK enters agents and nodes."""
_CALLBACKS = (
    *("before_agent_callback", "after_agent_callback", "before_model_callback", "after_model_callback"),
    *("on_model_error_callback", "before_tool_callback", "after_tool_callback", "on_tool_error_callback"),
)


class WatchingPlugin(BasePlugin):
    """Notes what an app runs without the ledger, and refuses it in strict mode. It guards nothing.

    Args:
        watch: Notes it, or refuses it.
        name: The plugin's name.
    """

    def __init__(self, watch: Watch, name: str = _WATCHING) -> None:
        super().__init__(name=name)
        self._watch = watch

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Note what the app runs without the ledger, before anything of it runs."""
        _note_app(self._watch, invocation_context)

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: CallbackContext) -> None:
        """Note what an agent runs without the ledger: it may be none of those that the app was made with."""
        note_node(self._watch, agent)

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Note what the model's provider would run."""
        _note_request(self._watch, llm_request)


def _note_app(watch: Watch, context: InvocationContext) -> None:
    if context.live_request_queue is not None:
        watch.note(FRAMEWORK, "live runs", [context.app_name])
    plugins = context.plugin_manager.plugins
    others = [one for one in plugins if one.name not in (NAME, _WATCHING) and not is_adks(type(one))]
    watch.note(FRAMEWORK, "callbacks", [one.name for one in others])
    if context.agent is not None:
        note_node(watch, getattr(context.agent, "root_agent", context.agent))


def note_node(watch: Watch, node: BaseNode) -> None:
    """Note what an agent or a node, and those below it, run without the ledger."""
    for way, name in _found_in(node, []):
        watch.note(FRAMEWORK, way, [name])


def _note_request(watch: Watch, request: LlmRequest) -> None:
    """Note the tools of a model's request that run at its provider."""
    watch.note(FRAMEWORK, "hosted tools", hosted_in(request.config))


def _found_in(node: Any, done: list[BaseNode]) -> Iterator[tuple[str, str]]:
    if any(node is one for one in done):
        return
    done.append(node)
    if node is not START and node.name != START.name and not _is_known(node):
        yield "custom, remote and managed agents" if isinstance(node, BaseAgent) else "workflow nodes", node.name
    match node:
        case BaseAgent():
            yield from _found_in_agent(node, done)
        case Workflow():
            for inner in () if node.graph is None else node.graph.nodes:
                yield from _found_in(inner, done)
        case _ParallelWorker():
            yield from _found_in(node._node, done)
        case _:
            return


def _found_in_agent(agent: BaseAgent, done: list[BaseNode]) -> Iterator[tuple[str, str]]:
    executor = getattr(agent, "code_executor", None)
    if executor is not None and not isinstance(executor, BuiltInCodeExecutor):
        yield "code executors", type(executor).__name__
    for field in _CALLBACKS:
        for callback in _listed(getattr(agent, field, None)):
            if not is_adks(callback):
                yield "callbacks", str(getattr(callback, "__name__", type(callback).__name__))
    for inner in agent.sub_agents:
        yield from _found_in(inner, done)


def _is_known(node: Any) -> bool:
    """Say whether ADK itself runs an agent or a node: no method by which it is entered is the program's own."""
    entered = [getattr(type(node), name, None) for name in _ENTERED]
    return isinstance(node, _KNOWN) and all(is_adks(one) for one in entered if one is not None)


def _listed(value: Any) -> Iterable[Any]:
    return () if value is None else value if isinstance(value, list) else [value]


def is_adks(code: Any) -> bool:
    """Say whether code was written by ADK."""
    return module_of(code).startswith("google.adk.")
