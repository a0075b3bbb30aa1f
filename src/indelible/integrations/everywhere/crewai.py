"""CrewAI everywhere: the tools of every agent, alone, in a crew or in a flow, whenever it was made.

What the framework runs beside tools is noted before it runs: methods of flows, callbacks, guardrails, hooks, listeners,
agents that are none of CrewAI's, and tools that run at the model's provider.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from crewai import LLM, Agent, Crew, Task, lite_agent
from crewai.core.providers.human_input import SyncHumanInputProvider, get_provider, set_provider
from crewai.events.event_bus import crewai_event_bus
from crewai.flow.async_feedback.providers import ConsoleProvider
from crewai.flow.flow_definition import FlowCodeActionDefinition
from crewai.flow.flow_wrappers import FlowMethod
from crewai.flow.runtime import Flow
from crewai.flow.runtime._actions import CodeAction, ScriptAction
from crewai.hooks import (
    get_after_llm_call_hooks,
    get_after_tool_call_hooks,
    get_before_llm_call_hooks,
    get_before_tool_call_hooks,
)
from crewai.hooks.dispatch import InterceptionPoint, get_hooks
from crewai.lite_agent import LiteAgent
from crewai.llms.base_llm import BaseLLM
from crewai.skills.tool import LoadSkillTool
from crewai.tools import BaseTool
from crewai.tools.agent_tools.add_image_tool import AddImageTool
from crewai.tools.agent_tools.base_agent_tools import BaseAgentTool
from crewai.tools.base_tool import Tool
from crewai.tools.mcp_native_tool import MCPNativeTool
from crewai.tools.memory_tools import RecallMemoryTool
from crewai.tools.structured_tool import CrewStructuredTool
from crewai.tools.tool_failure import (
    ToolExecutionFailedError,
    ToolFailure,
    ToolFailurePolicy,
    ToolFailureRecord,
)
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import PrivateAttr

from indelible.errors import BadCall
from indelible.integrations.crewai import (
    LedgerTool,
    LedgerTools,
    Stop,
    check_sends_once,
    deed_behind,
    going_on,
    named,
    never,
    stops_of,
)
from indelible.integrations.everywhere.reach import Around, Undo, all_replaced, replaced, run_here
from indelible.integrations.hosted import hosted_in
from indelible.integrations.ways import Watch, module_of

_NAME = "CrewAI"
_ONLY_READ = (LoadSkillTool, RecallMemoryTool, AddImageTool)  # what CrewAI gives its agents to read their own notes


def reach(around: Around) -> Undo:
    """Put the ledger before the tools of an agent whenever it begins to work, and before tools that a program runs."""
    gate = _Gate(around.ledger, run=_run_of, terms=around.terms, **around.usual)
    return all_replaced(
        lambda: _turned_on(gate),
        lambda: _agents(gate, around.watch),
        *_running(gate),
        *_structured(gate),
        *_tasks(around.watch),
        *_crews(around.watch),
        *_beside_tools(around.watch),
        *_questions(gate),
    )


class _Gate(LedgerTools):
    """Lets calls in by the gate of the reach that is on: an agent keeps the tools that it was made with.

    Once no reach is on, the tools run as they are.
    """

    on: ClassVar[_Gate | None] = None

    def enter(self, tool: BaseTool, words: Mapping[str, Any], deed: str = "_run") -> Any:
        """Let a call in."""
        gate = _Gate.on
        return getattr(tool, deed)(**words) if gate is None else LedgerTools.enter(gate, tool, words, deed)

    async def enter_async(self, tool: BaseTool, words: Mapping[str, Any], deed: str) -> Any:
        """Let a call in."""
        if _Gate.on is None and inspect.iscoroutinefunction(getattr(tool, deed)):
            return await getattr(tool, deed)(**words)
        return await LedgerTools.enter_async(_Gate.on or self, tool, words, deed)


def _turned_on(gate: _Gate) -> Undo:
    _Gate.on = gate

    def undo() -> None:
        if _Gate.on is gate:
            _Gate.on = None

    return undo


def _run_of() -> str:
    return run_here(None, advice="crew.kickoff()")


# Tools


def _agents(gate: LedgerTools, watch: Watch) -> Undo:
    """Put the tools of an agent behind the ledger where it collects them, which it does each time it begins."""
    collect, people = Agent._add_skill_loader_tool, gate.people()

    @functools.wraps(collect)
    def collected(self: Agent, tools: list[BaseTool], task: Any = None) -> list[BaseTool]:
        _note_agent(watch, self)
        if type(get_provider()) is SyncHumanInputProvider:
            set_provider(people)
        return [_behind(gate, tool) for tool in collect(self, tools, task=task)]

    restore = replaced(Agent, "_add_skill_loader_tool", collected, takes=("self", "tools", "task"))

    def undo() -> None:
        restore()
        if get_provider() is people:
            set_provider(SyncHumanInputProvider())

    return undo


def _behind(gate: LedgerTools, tool: BaseTool) -> BaseTool:
    if not _is_plain(tool):
        return LedgerTool.around(tool, gate)
    return Delegation.around(tool) if isinstance(tool, BaseAgentTool) else tool


class Delegation(BaseTool):
    """Lets an agent delegate: what the other one does is guarded call by call, and its stop stops the crew."""

    _inner: BaseTool = PrivateAttr()

    @classmethod
    def around(cls, tool: BaseTool) -> Delegation:
        """Return a tool that looks like this one to the crew and to the model."""
        made = cls(
            name=tool.name,
            description=tool.description,
            args_schema=tool.args_schema,
            cache_function=never,
            tool_failure_policy=ToolFailurePolicy.RAISE,
        )
        made._inner = tool
        return made

    def _run(self, **words: Any) -> Any:
        stops: list[Stop] = []
        with stops_of(stops):
            said = self._inner._run(**words)
        return stops[0] if stops else said


def _running(gate: LedgerTools) -> list[Callable[[], Undo]]:
    """Return the replacements for tools that a program, or a declared flow, runs itself."""

    def guarded(owner: type, name: str) -> Undo:
        plain = vars(owner)[name]

        @functools.wraps(plain)
        def run(self: BaseTool, *args: Any, **words: Any) -> Any:
            with going_on(self) as goes_on:
                if goes_on or _is_plain(self):
                    return plain(self, *args, **words)
            given = _counted(self, args, words)
            return given if isinstance(given, ToolFailure) else _asked(gate, self, given, deed_behind(self, name))

        @functools.wraps(plain)
        async def arun(self: BaseTool, *args: Any, **words: Any) -> Any:
            with going_on(self) as goes_on:
                if goes_on or _is_plain(self):
                    return await plain(self, *args, **words)
            given = _counted(self, args, words)
            if isinstance(given, ToolFailure):
                return given
            return _unless_stopped(self, given, await gate.enter_async(self, given, deed_behind(self, name)))

        return replaced(owner, name, run if name == "run" else arun, takes=("self", "args", "kwargs"))

    places = [(owner, name) for owner in (BaseTool, Tool) for name in ("run", "arun")]
    return [functools.partial(guarded, owner, name) for owner, name in places]


def _is_plain(tool: Any) -> bool:
    """Say whether a tool runs as it is: one of ours, or one that CrewAI wrote for its agents, and no subclass of it."""
    is_crewais = isinstance(tool, (BaseAgentTool, *_ONLY_READ)) and _is_crewais(type(tool))
    return is_crewais or isinstance(tool, (LedgerTool, Delegation))


def _structured(gate: LedgerTools) -> list[Callable[[], Undo]]:
    """Return the replacements for structured tools: CrewAI reads and counts the call, and enters the ledger.

    A `LiteAgent` gets its tools behind the ledger: a call that waits stops it, where a program's raises.
    """
    parse, invoke, ainvoke = lite_agent.parse_tools, CrewStructuredTool.invoke, CrewStructuredTool.ainvoke
    enter = CrewStructuredTool._run

    @functools.wraps(parse)
    def parsed(tools: list[Any]) -> list[CrewStructuredTool]:
        made: list[CrewStructuredTool] = parse(
            [_behind(gate, one) if isinstance(one, BaseTool) else one for one in tools]
        )
        return made

    @functools.wraps(invoke)
    def invoked(self: CrewStructuredTool, input: Any, config: Any = None, **words: Any) -> Any:  # noqa: A002 - its word
        return invoke(_Entering.of(self, gate, words), input, config, **words)

    @functools.wraps(ainvoke)
    async def ainvoked(self: CrewStructuredTool, input: Any, config: Any = None, **words: Any) -> Any:  # noqa: A002
        return await ainvoke(_Entering.of(self, gate, words, is_awaited=True), input, config, **words)

    @functools.wraps(enter)
    def entered(self: CrewStructuredTool, *args: Any, **words: Any) -> Any:
        return enter(_Entering.of(self, gate, {}), *args, **words)

    return [
        lambda: replaced(lite_agent, "parse_tools", parsed, takes=("tools",)),
        lambda: replaced(CrewStructuredTool, "invoke", invoked, takes=("self", "input", "config")),
        lambda: replaced(CrewStructuredTool, "ainvoke", ainvoked, takes=("self", "input", "config")),
        lambda: replaced(CrewStructuredTool, "_run", entered, takes=("self", "args", "kwargs")),
    ]


class _Entering:
    """Is a structured tool to CrewAI; the function that it enters lets the call in by the ledger."""

    def __init__(self, structured: CrewStructuredTool, func: Callable[..., Any]) -> None:
        self._structured = structured
        self.func = func

    def __getattr__(self, name: str) -> Any:
        return getattr(self._structured, name)

    @classmethod
    def of(
        cls, structured: CrewStructuredTool, gate: LedgerTools, words: Mapping[str, Any], *, is_awaited: bool = False
    ) -> Any:
        """Return what CrewAI enters: the structured tool itself if its function meets the ledger, or is CrewAI's own.

        Args:
            structured: The structured tool.
            gate: The gate.
            words: What the function gets beside the arguments that the schema reads.
            is_awaited: CrewAI awaits the function. Default: False.
        """
        tool = _tool_in(structured, words)
        if tool is None:
            return structured

        def enter(*args: Any, **given: Any) -> Any:
            by_place = zip(inspect.signature(structured.func).parameters, args, strict=False) if args else ()
            return _asked(gate, tool, {**dict(by_place), **given})

        async def aenter(**given: Any) -> Any:
            deed = "func" if getattr(tool, "func", None) is structured.func else "_run"
            return _unless_stopped(tool, given, await gate.enter_async(tool, given, deed))

        return cls(structured, aenter if is_awaited else enter)


def _tool_in(structured: CrewStructuredTool, words: Mapping[str, Any]) -> BaseTool | None:
    """Return the tool that a structured tool enters; None if that meets the ledger by itself, or is CrewAI's own.

    It is a tool itself only if it is entered by its own name and schema: any other one is another deed.
    """
    func, schema = structured.func, structured.args_schema
    tool = getattr(func, "__self__", None)
    if isinstance(tool, BaseTool):
        is_itself = func == tool._run
        if _meets_ledger(func) or (is_itself and _is_plain(tool)):
            return None
        check_sends_once(tool)
        if is_itself and not words and (structured.name, schema) == (tool.name, tool.args_schema):
            return tool
        if isinstance(tool, MCPNativeTool):
            raise BadCall(f"{structured.name}: {tool.name} is a tool of an MCP server; give the agent that tool itself")
    elif _is_crewais(func):
        return None
    if words and schema is not None:  # they go beside the schema, also when an approver edits them
        schema = type(schema)(schema.__name__, (schema,), {"__module__": __name__, "model_config": {"extra": "allow"}})
    made: BaseTool = Tool(
        name=structured.name,
        description=structured.description,
        func=func,
        args_schema=schema,
        result_schema=structured.result_schema,
    )
    return made


def _meets_ledger(function: Any) -> bool:
    """Say whether a method of a tool asks the ledger: that of a tool behind it, or the one in the place of `run`."""
    tool = getattr(function, "__self__", None)
    return isinstance(tool, LedgerTool) or (isinstance(tool, BaseTool) and module_of(function) == __name__)


def _counted(tool: BaseTool, args: tuple[Any, ...], words: dict[str, Any]) -> Any:
    """Return the arguments with which a program runs a tool, or what comes of the tool's limit."""
    check_sends_once(tool)
    given = tool._validate_kwargs(named(tool, args, words))
    limit: ToolFailure | None = tool._claim_usage()
    return given if limit is None else limit


def _asked(gate: LedgerTools, tool: BaseTool, given: dict[str, Any], deed: str = "_run") -> Any:
    """Let a call of a program in."""
    return _unless_stopped(tool, given, gate.enter(tool, given, deed))


def _unless_stopped(tool: BaseTool, given: dict[str, Any], result: Any) -> Any:
    """Raise if a call of a program stops: a program that goes on would lose the stop."""
    if isinstance(result, Stop):
        raise ToolExecutionFailedError(ToolFailureRecord(tool_name=tool.name, failure=result, tool_args=given))
    return result


# What runs beside tools


def _tasks(watch: Watch) -> list[Callable[[], Undo]]:
    """Return the replacements where a task is carried out, by a crew or the program, and where a `LiteAgent` works."""
    core, acore, lite = Task._execute_core, Task._aexecute_core, LiteAgent._execute_core

    @functools.wraps(core)
    def executed(self: Task, agent: Any, *args: Any, **words: Any) -> Any:
        _note_task(watch, self, agent)
        return core(self, agent, *args, **words)

    @functools.wraps(acore)
    async def aexecuted(self: Task, agent: Any, *args: Any, **words: Any) -> Any:
        _note_task(watch, self, agent)
        return await acore(self, agent, *args, **words)

    @functools.wraps(lite)
    def worked(self: LiteAgent, *args: Any, **words: Any) -> Any:
        _note_working(watch, self)
        watch.note(_NAME, "guardrails", _names([self._guardrail]))
        return lite(self, *args, **words)

    takes = ("self", "agent", "context", "tools")
    return [
        lambda: replaced(Task, "_execute_core", executed, takes=takes),
        lambda: replaced(Task, "_aexecute_core", aexecuted, takes=takes),
        lambda: replaced(LiteAgent, "_execute_core", worked, takes=("self", "agent_info")),
    ]


def _crews(watch: Watch) -> list[Callable[[], Undo]]:
    kickoff, akickoff, replay = Crew.kickoff, Crew.akickoff, Crew.replay

    @functools.wraps(kickoff)
    def kicked_off(self: Crew, *args: Any, **words: Any) -> Any:
        _note_crew(watch, self)
        return kickoff(self, *args, **words)

    @functools.wraps(akickoff)
    async def akicked_off(self: Crew, *args: Any, **words: Any) -> Any:
        _note_crew(watch, self)
        return await akickoff(self, *args, **words)

    @functools.wraps(replay)
    def replayed(self: Crew, *args: Any, **words: Any) -> Any:
        _note_crew(watch, self)
        return replay(self, *args, **words)

    return [
        lambda: replaced(Crew, "replay", replayed, takes=("self", "task_id")),
        lambda: replaced(Crew, "kickoff", kicked_off, takes=("self", "inputs")),
        lambda: replaced(Crew, "akickoff", akicked_off, takes=("self", "inputs")),
    ]


def _note_crew(watch: Watch, crew: Crew) -> None:
    own = [crew.step_callback, crew.task_callback, *crew.before_kickoff_callbacks, *crew.after_kickoff_callbacks]
    watch.note(_NAME, "callbacks", _names(own))
    for task in crew.tasks:
        _note_task(watch, task)
    for agent in {id(one): one for one in (*crew.agents, crew.manager_agent)}.values():
        _note_worker(watch, agent)


def _note_task(watch: Watch, task: Task, agent: Any = None) -> None:
    watch.note(_NAME, "callbacks", _names([task.callback, task.converter_cls]))
    watch.note(_NAME, "guardrails", _names([task._guardrail, *task._guardrails]))
    watch.note(_NAME, "conditions of tasks", _names([getattr(task, "condition", None)]))
    watch.note(_NAME, "output files", [task.output_file] if task.output_file else [])
    _note_worker(watch, agent or task.agent)


def _note_worker(watch: Watch, agent: Any) -> None:
    if isinstance(agent, Agent):
        _note_agent(watch, agent)
        own = [] if _is_crewais(agent.executor_class) else [agent.executor_class.__name__]
        watch.note(_NAME, "agents of other frameworks", own)
    if agent is not None and not (isinstance(agent, Agent) and _works_as_known(type(agent))):
        watch.note(_NAME, "agents of other frameworks", [type(agent).__name__])


def _works_as_known(kind: type[Agent]) -> bool:
    """Say whether agents of a class do all that CrewAI's agents do by the methods of these."""
    methods = (name for name, one in inspect.getmembers(Agent, inspect.isfunction) if _is_crewais(one))
    return all(getattr(kind, name) is getattr(Agent, name) or _is_crewais(getattr(kind, name)) for name in methods)


def _note_agent(watch: Watch, agent: Agent) -> None:
    watch.note(_NAME, "callbacks", _names([agent.step_callback]))
    watch.note(_NAME, "guardrails", _names([agent.guardrail]))
    _note_working(watch, agent)


def _note_working(watch: Watch, agent: Agent | LiteAgent) -> None:
    """Note what stands around every agent that works."""
    watch.note(_NAME, "remote agents", [agent.role] if getattr(agent, "a2a", None) else [])
    points = [get_hooks(point) for point in InterceptionPoint]
    known = [get_before_tool_call_hooks(), get_after_tool_call_hooks()]
    known += [get_before_llm_call_hooks(), get_after_llm_call_hooks()]
    watch.note(_NAME, "hooks", _names(hook for found in (*points, *known) for hook in found))
    listening = (crewai_event_bus._sync_handlers, crewai_event_bus._async_handlers)
    watch.note(_NAME, "event listeners", _names(one for kind in listening for found in kind.values() for one in found))


def _beside_tools(watch: Watch) -> list[Callable[[], Undo]]:
    code, script, execute = CodeAction.run, ScriptAction.run, BaseLLM._handle_tool_execution
    start, method_run, handle = BaseLLM._emit_call_started_event, Flow._execute_method, LLM._handle_tool_call

    @functools.wraps(method_run)
    async def executed_method(self: Any, method_name: Any, method: Any, *args: Any, **words: Any) -> Any:
        definition = self._definition.methods.get(method_name)
        action = None if definition is None else definition.do
        if isinstance(action, FlowCodeActionDefinition) and not action.ref.startswith("crewai."):
            watch.note(_NAME, "methods of flows", [str(method_name)])
        return await method_run(self, method_name, method, *args, **words)

    @functools.wraps(code)
    def ran(self: CodeAction, *args: Any, **words: Any) -> Any:
        watch.note(_NAME, "methods of flows", _names([self.handler]))
        return code(self, *args, **words)

    @functools.wraps(script)
    def scripted(self: ScriptAction, *args: Any, **words: Any) -> Any:
        watch.note(_NAME, "scripts of flows", [str(self.flow._definition.name)])
        return script(self, *args, **words)

    @functools.wraps(execute)
    def executed(self: BaseLLM, function_name: str, function_args: Any, available_functions: Any, **words: Any) -> Any:
        _note_given(watch, function_name, available_functions)
        return execute(self, function_name, function_args, available_functions, **words)

    @functools.wraps(handle)
    def handled(self: LLM, tool_calls: Any, available_functions: Any = None, *args: Any, **words: Any) -> Any:
        for call in tool_calls[:1] if available_functions else ():  # LiteLLM's models run the first one
            _note_given(watch, sanitize_tool_name(call.function.name), available_functions)
        return handle(self, tool_calls, available_functions, *args, **words)

    @functools.wraps(start)
    def started(self: BaseLLM, messages: Any, tools: Any = None, *args: Any, **words: Any) -> Any:
        watch.note(_NAME, "hosted tools", hosted_in(dict(self), {"tools": tools}))
        return start(self, messages, tools, *args, **words)

    taken = ("self", "function_name", "function_args", "available_functions")
    return [
        lambda: replaced(Flow, "_execute_method", executed_method, takes=("self", "method_name", "method")),
        lambda: replaced(CodeAction, "run", ran, takes=("self", "args", "kwargs")),
        lambda: replaced(ScriptAction, "run", scripted, takes=("self", "args", "kwargs")),
        lambda: replaced(BaseLLM, "_handle_tool_execution", executed, takes=taken),
        lambda: replaced(LLM, "_handle_tool_call", handled, takes=("self", "tool_calls", "available_functions")),
        lambda: replaced(BaseLLM, "_emit_call_started_event", started, takes=("self", "messages", "tools")),
    ]


def _note_given(watch: Watch, name: str, functions: Mapping[str, Any]) -> None:
    """Note a function that is given to a model, which calls it."""
    if name in functions and not _meets_ledger(functions[name]):
        watch.note(_NAME, "functions given to a model", [name])


def _names(functions: Iterable[Any]) -> list[str]:
    """Return the names of functions of the program, and not of CrewAI's own."""
    return [_name_of(one) for one in functions if callable(one) and not _is_known(one)]


def _is_known(function: Any) -> bool:
    """Say whether a function is CrewAI's own; a tool's method, whoever wrote it, is known if it asks the ledger."""
    if isinstance(getattr(function, "__self__", None), BaseTool):
        return _meets_ledger(function)
    return _is_crewais(function.unwrap() if isinstance(function, FlowMethod) else function)


def _is_crewais(code: Any) -> bool:
    return f"{module_of(code)}.".startswith("crewai.")


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", None) or type(function).__qualname__)


# Questions to people


def _questions(gate: LedgerTools) -> list[Callable[[], Undo]]:
    people = gate.people()
    review, feedback, said = (
        Flow._request_human_feedback,
        ConsoleProvider.request_feedback,
        ConsoleProvider.request_input,
    )

    @functools.wraps(review)
    def reviewed(self: Any, message: str, output: Any, *args: Any, method_name: str = "", **words: Any) -> str:
        def ask() -> str:
            return str(review(self, message, output, *args, method_name=method_name, **words))

        return people.feedback(self, method_name, {"output": output, "message": message}, ask)

    @functools.wraps(feedback)
    def requested(self: ConsoleProvider, context: Any, flow: Any) -> str:
        shown = {"output": context.method_output, "message": context.message}
        return people.feedback(flow, context.method_name, shown, lambda: feedback(self, context, flow))

    @functools.wraps(said)
    def answered(self: ConsoleProvider, message: str, flow: Any, metadata: Any = None) -> str | None:
        return people.said(flow, message, lambda: said(self, message, flow, metadata))

    return [
        lambda: replaced(Flow, "_request_human_feedback", reviewed, takes=("self", "message", "output")),
        lambda: replaced(ConsoleProvider, "request_feedback", requested, takes=("self", "context", "flow")),
        lambda: replaced(ConsoleProvider, "request_input", answered, takes=("self", "message", "flow")),
    ]
