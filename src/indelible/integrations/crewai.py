"""CrewAI: tools behind the ledger, in the place where the crew runs them.

    gate = LedgerTools(ledger, run="order-123")
    agent = Agent(role="billing", …, tools=gate.tools([charge]))
    try:
        crew.kickoff()
    except ToolExecutionFailedError as stopped:              # a person has to decide; the process may end
        print(stopped.record.failure.details["show"])
    …
    crew.kickoff()                                           # again, here or elsewhere: what was done replays

With `llm=gate.model(llm)`, each turn of the model is an event of the run. With `set_provider(gate.people())`, CrewAI's
own questions to people are asked once in a run, however often the crew is kicked off.

A crew begins anew when it is kicked off again, and has no turns. So within a run, the same tool with the same arguments
is the same call, unless `turn` names the turn. A tool that only reads is entered by every call.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from crewai.llms.base_llm import BaseLLM
from crewai.mcp.client import MCPClient
from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.tools.mcp_native_tool import MCPNativeTool
from crewai.tools.mcp_tool_wrapper import MCPToolWrapper
from crewai.tools.structured_tool import CrewStructuredTool
from crewai.tools.tool_failure import ToolFailure, ToolFailurePolicy
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import PrivateAttr

from indelible import AsyncLedger, Effect, Ledger, NothingHappened, RunningEffect, ToolCall, current_effect
from indelible.errors import ApprovalPending, BadCall, EffectFailed, EffectInDoubt
from indelible.integrations.crewai_questions import People
from indelible.integrations.crewai_turns import recording
from indelible.integrations.entries import Entry, doubt_of, raise_doubt
from indelible.integrations.model_turns import MODEL_INVOKED
from indelible.integrations.models import shown_of
from indelible.integrations.results import ToolError as ToolError
from indelible.integrations.results import as_json
from indelible.integrations.telling import heard_of, with_note
from indelible.integrations.terms import (
    QUESTION,
    SAID_TO_THE_MODEL,
    TURN,
    Named,
    OnError,
    Question,
    Terms,
    checked_on_error,
    hash_of,
    is_same,
    question_of,
)
from indelible.tool import is_tool_name

CallId = Callable[[str, Mapping[str, Any]], str]


class Stop(ToolFailure):
    """Stops the crew: the ledger lets the call not run, and the model cannot mend that."""


_MCP_CLIENT = MCPClient.__new__(MCPClient)  # without a server: only for what it makes of arguments
_STOPS: ContextVar[list[Stop] | None] = ContextVar("indelible_crewai_stops", default=None)


@contextmanager
def stops_of(delegated: list[Stop]) -> Iterator[None]:
    """Collect the stops of an agent that another one delegates to: CrewAI tells them to the other as a text."""
    token = _STOPS.set(delegated)
    try:
        yield
    finally:
        _STOPS.reset(token)


class LedgerTools:
    """Lets each tool call of a crew run at most once and with permission, however often it is kicked off, and wherever.

    Args:
        ledger: The ledger.
        run: The run that calls belong to: a text, or a function that returns one.
        turn: The id of the user's last message: a text, or a function that returns one. Default: the run is one turn,
            so a payment with the same arguments is made once in it.
        terms: How single tools are treated, in the words of `@ledger.tool`.
        call_id: A function of the tool's name and arguments that returns the id of a call. Default: each call has its
            own. It matters to tools that only read, and to those with dedupe="call".
        on_error: "tell" (the default) tells the model of a call that failed; "raise" stops the crew.
        usual: The words of `terms` for all tools.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        run: str | Callable[[], str],
        turn: str | Callable[[], str] | None = None,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        call_id: CallId | None = None,
        on_error: OnError = "tell",
        **usual: Any,
    ) -> None:
        self._ledger = ledger.blocking
        self._run = run
        self._turn = turn
        self._told: set[str] = set()
        self._terms = Terms(terms, usual)
        self._call_id = call_id
        self._on_error = checked_on_error(on_error)

    def tools(self, tools: Iterable[BaseTool]) -> list[BaseTool]:
        """Gives the tools behind the ledger."""
        return [LedgerTool.around(tool, self) for tool in tools]

    def model(self, llm: BaseLLM) -> BaseLLM:
        """Gives a model each of whose turns is an event of the run; it is durable before the crew goes on."""
        return recording(llm, lambda turn: self._ledger.record(self._run_id(), f"crewai.{MODEL_INVOKED}", turn))

    def people(self, asks: Any = None) -> People:
        """Return a provider that asks each of CrewAI's own questions to people once in the run.

        Pass it to `set_provider` for tasks with `human_input`, to `@human_feedback(provider=…)`, and to a flow's
        `input_provider`.

        Args:
            asks: Asks about flows, as a provider of CrewAI does. Default: CrewAI's console.
        """
        return People(self._answered, asks)

    def _answered(self, asked: Mapping[str, Any], ask: Callable[[], str]) -> str:
        """Return the recorded answer to a question, or ask and record it. An answer belongs to its turn."""
        running = current_effect()
        if running is not None and running.tool == QUESTION:  # another provider of ours asks it already
            return ask()
        args = {**asked, "turn": self._turn_now()}
        raised: list[Exception] = []

        def enter(_: RunningEffect) -> str:
            try:
                return ask()
            except Exception as error:  # no one has answered: the provider pauses the flow, or the terminal is closed
                raised.append(error)
                raise NothingHappened(f"no answer: {type(error).__qualname__}") from error

        try:
            return str(self._ledger.run(Question(args=args, run_id=self._run_id()), enter, **TURN))
        except NothingHappened as nothing:
            raise raised[0] if raised else nothing from None

    def _turn_now(self) -> str | None:
        return self._turn() if callable(self._turn) else self._turn

    def _run_id(self) -> str:
        return self._run if isinstance(self._run, str) else self._run()

    def enter(self, tool: BaseTool, words: Mapping[str, Any], deed: str = "_run") -> Any:
        """Let a call in. Problems are returned, not raised: the crew repeats what raises, and goes on.

        Args:
            tool: The tool.
            words: The arguments of the call.
            deed: The method of the tool that is entered; see `deed_of`.
        """
        try:
            return self._entry(_Entry, tool, words, deed).walk(self._ledger, self._terms.at_once(name_of(tool)))
        except Exception as problem:  # arguments that are no JSON, a run or turn without a name, a store that is down
            return _stop(problem, tool.name)

    async def enter_async(self, tool: BaseTool, words: Mapping[str, Any], deed: str) -> Any:
        """Do as `enter` does. A coroutine function runs in the loop of its caller, any other deed in a thread."""
        if not inspect.iscoroutinefunction(getattr(tool, deed)):
            return await asyncio.to_thread(self.enter, tool, words, deed)
        try:
            entry = self._entry(_AwaitedEntry, tool, words, deed)
            return await entry.walk_async(self._ledger.awaited, self._terms.at_once(name_of(tool)))
        except Exception as problem:
            return _stop(problem, tool.name)

    def _entry(self, kind: type[_Entry], tool: BaseTool, words: Mapping[str, Any], deed: str) -> _Entry:
        taken = _taken(tool, words)
        return kind(tool, taken, self._call(tool, taken), self._told, self._on_error, deed)

    def _call(self, tool: BaseTool, taken: Mapping[str, Any]) -> ToolCall:
        args = _recorded(taken)
        named = Named(
            tool=name_of(tool),
            args=args,
            run_id=self._run_id(),
            call_id=uuid.uuid4().hex if self._call_id is None else self._call_id(name_of(tool), args),
            schema=_schema_of(tool),
            turn=self._turn_now(),
            reads=lambda edited: _recorded(_validated(tool, edited)),
        )
        return self._terms.call(named)


class LedgerTool(BaseTool):
    """Is a tool behind the ledger; the crew's own memory of results, which would answer before the ledger, is off."""

    _inner: BaseTool = PrivateAttr()
    _gate: LedgerTools = PrivateAttr()

    @classmethod
    def around(cls, tool: BaseTool, gate: LedgerTools) -> LedgerTool:
        """Gives a tool that looks like this one to the crew and to the model."""
        if isinstance(tool, LedgerTool):
            raise BadCall(f"{tool.name} is behind a ledger already")
        check_sends_once(tool)
        guarded = cls(
            name=tool.name,
            description=tool.description,
            env_vars=tool.env_vars,
            args_schema=tool.args_schema,
            result_schema=tool.result_schema,
            result_as_answer=tool.result_as_answer,
            max_usage_count=tool.max_usage_count,
            current_usage_count=tool.current_usage_count,
            cache_function=never,
            tool_failure_policy=ToolFailurePolicy.RAISE,
        )
        guarded._inner, guarded._gate = tool, gate
        return guarded

    def __setattr__(self, name: str, value: Any) -> None:
        """Count the uses at the tool, too: its limit holds for all that is made of it."""
        super().__setattr__(name, value)
        if name == "current_usage_count":
            self._inner.current_usage_count = value

    def _claim_usage(self) -> ToolFailure | None:
        limit: ToolFailure | None = self._inner._claim_usage()
        self.current_usage_count = self._inner.current_usage_count
        return limit

    def run(self, *args: Any, **words: Any) -> Any:
        """Enter the tool as CrewAI does that calls `run`, as for the function calls of a model."""
        deed = deed_of(self._inner, "run")
        given, limit = self._counted(args, words, deed)
        if limit is not None:
            return limit
        with self._counting():
            return self._gate.enter(self._inner, given, deed)

    async def arun(self, *args: Any, **words: Any) -> Any:
        """Enter the tool as CrewAI does that awaits `arun`. A tool that cannot be awaited runs in a thread."""
        deed = deed_of(self._inner, "arun")
        given, limit = self._counted(args, words, deed)
        if limit is not None:
            return limit
        with self._counting():
            return await self._gate.enter_async(self._inner, given, deed)

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Take over the uses that the tool counts by itself."""
        yield
        self.current_usage_count = self._inner.current_usage_count

    def _counted(self, args: tuple[Any, ...], words: Mapping[str, Any], deed: str) -> tuple[Any, ToolFailure | None]:
        """Return the arguments, and what comes of a limit. A tool that writes its own `run` counts by itself."""
        given = self._validate_kwargs(named(self, args, words))
        return given, None if deed in _ENTRANCES else self._claim_usage()

    def _run(self, **words: Any) -> Any:
        return self._gate.enter(self._inner, words)

    def to_structured_tool(self) -> CrewStructuredTool:
        """Return a structured tool that is awaited in a thread which knows the run."""
        made = super().to_structured_tool()
        known = _Structured(**{name: getattr(made, name) for name in CrewStructuredTool.model_fields})
        known._original_tool = self
        return known

    def format_output_for_agent(self, raw_result: Any) -> str:
        """Gives the text that the model reads: what the tool makes of its results, and refusals as they are."""
        if isinstance(raw_result, str | ToolFailure):
            return raw_result if isinstance(raw_result, str) else raw_result.as_agent_message()
        return str(self._inner.format_output_for_agent(raw_result))


class _Structured(CrewStructuredTool):
    """Is awaited with what surrounds the call: CrewAI's own loses the run when it changes the thread."""

    async def ainvoke(self, input: Any, config: Any = None, **words: Any) -> Any:  # noqa: A002 - CrewAI's word
        """Invoke the tool."""
        return await asyncio.to_thread(self.invoke, input, config, **words)


_ENTRANCES = ("run", "arun")
_DOING: ContextVar[list[BaseTool]] = ContextVar("indelible_crewai_doing", default=[])  # noqa: B039 - never changed
"""The tool whose own `run` or `arun` is entered; empty once the deed is over, for threads that hold it longer."""


def deed_of(tool: BaseTool, entrance: str) -> str:
    """Return the name of the method that does the deed when CrewAI enters the tool by `run` or by `arun`.

    It is the one that the tool's class writes itself, or what CrewAI's own one calls.
    """
    if getattr(type(tool), entrance) not in (getattr(BaseTool, entrance), getattr(Tool, entrance)):
        return entrance
    return deed_behind(tool, entrance)


def deed_behind(tool: BaseTool, entrance: str) -> str:
    """Return the name of the method that CrewAI's own `run` or `arun` calls; a sync one for tools without any other."""
    if entrance == "arun" and type(tool)._arun not in (BaseTool._arun, Tool._arun):
        return "_arun"
    return "func" if isinstance(tool, Tool) else "_run"


@contextmanager
def going_on(tool: BaseTool) -> Iterator[bool]:
    """Say whether the tool's own `run` was entered, and goes on in that of CrewAI."""
    is_it, token = any(one is tool for one in _DOING.get()), _DOING.set([])
    try:
        yield is_it
    finally:
        _DOING.reset(token)


def named(tool: BaseTool, args: tuple[Any, ...], words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by their names."""
    return {**dict(zip(tool.args_schema.model_fields, args, strict=False)), **words}


class _Entry(Entry):
    """One call on its way. What the tool returned stays at hand, so that only a repeat gets it from the record."""

    def __init__(
        self,
        tool: BaseTool,
        taken: Mapping[str, Any],
        call: ToolCall,
        told: set[str],
        on_error: OnError,
        deed: str,
    ) -> None:
        super().__init__(call)
        self._taken = taken
        self._deed = deed
        self._on_error = on_error
        self._tool = tool
        self._told = told
        self._live: list[Any] = []

    def note_replay(self, effect: Effect) -> None:
        """Note what the model hears with a result that it got before; a crew that is kicked off again has not."""
        if effect.id in self._told:
            super().note_replay(effect)
        self._told.add(effect.id)

    def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments. The crew has validated them: the schema reads only others."""
        with self.running(effect):
            with self._entering(effect) as deed:
                result = deed(**self._args(effect))
                if inspect.iscoroutine(result):
                    result = asyncio.run(result)
            _check_done(result)
        return self._kept(result, effect)

    def _args(self, effect: RunningEffect) -> Mapping[str, Any]:
        return self._taken if is_same(effect.args, self.call.args) else _validated(self._tool, effect.args)

    @contextmanager
    def _entering(self, effect: RunningEffect) -> Iterator[Callable[..., Any]]:
        """Give the deed. What one of an MCP server raises is a lost answer: its server's errors are `ToolFailure`s."""
        is_native = isinstance(self._tool, MCPNativeTool)
        tool = _sent_once(self._tool) if is_native else self._tool
        doing = [tool] if self._deed in _ENTRANCES else []
        token = _DOING.set(doing)
        try:
            yield getattr(tool, self._deed)
        except Exception as lost:
            if is_native:
                raise_doubt(lost, effect)
            raise
        finally:
            doing.clear()
            _DOING.reset(token)

    def _kept(self, result: Any, effect: RunningEffect) -> Any:
        self._live.append(result)
        self._told.add(effect.id)
        return as_json(result)

    def given(self, recorded: Any) -> Any:
        """Return what the tool returned, in its type; with a note, the text that the model reads."""
        if self._live:
            return self._live[0]
        schema, value = self._tool.result_schema, recorded
        with suppress(ValueError):  # a person may have settled it by hand, with a value of their own
            value = recorded if schema is None else schema.model_validate(recorded)
        return value if self.note is None else with_note(str(self._tool.format_output_for_agent(value)), self.note)

    def told_of(self, refusal: Exception, error: Exception) -> Any:
        """Return what comes of a call without a value: a text for the model, or a stop."""
        heard = heard_of(refusal, self.call.tool)
        told = SAID_TO_THE_MODEL if self._on_error == "raise" else (EffectFailed, NothingHappened, *SAID_TO_THE_MODEL)
        return heard.text if heard is not None and isinstance(refusal, told) else _stop(refusal, self.call.tool, self)


class _AwaitedEntry(_Entry):
    """One call on its way whose tool is awaited."""

    async def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments."""
        with self.running(effect):
            with self._entering(effect) as deed:
                result = await deed(**self._args(effect))
            _check_done(result)
        return self._kept(result, effect)


def _check_done(result: Any) -> None:
    """Raise for a tool that reports that it failed."""
    if isinstance(result, ToolFailure):
        raise ToolError(result.as_agent_message())


def check_sends_once(tool: BaseTool) -> None:
    """Raise `BadCall` for a tool that sends a call again by itself, and tells its errors as if they were results."""
    if isinstance(tool, MCPToolWrapper):
        raise BadCall(
            f"{tool.name}: CrewAI sends calls to a server of mcps=['https://…'] up to three times and takes errors for "
            "results. Name the server as mcps=[MCPServerHTTP(url='https://…')]"
        )


def _sent_once(tool: MCPNativeTool) -> MCPNativeTool:
    """Return a copy of the tool whose clients send a call once; calls beside this one share the tool itself."""
    made, once = tool._client_factory, copy.copy(tool)

    def client() -> Any:
        one = made()
        one.max_retries = 1
        return one

    once._client_factory = client
    return once


def _taken(tool: BaseTool, words: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments with every default of the tool's schema; the crew has validated them already."""
    is_whole = set(tool.args_schema.model_fields) <= set(words)
    return _as_sent(tool, words if is_whole else tool.args_schema.model_validate(words).model_dump())


def _as_sent(tool: BaseTool, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments as they reach the tool: CrewAI's MCP client leaves out what is None or empty."""
    return _MCP_CLIENT._clean_tool_arguments(dict(args)) if isinstance(tool, MCPNativeTool) else args


def _recorded(taken: Mapping[str, Any]) -> dict[str, Any]:
    args: dict[str, Any] = shown_of(dict(taken))
    return args


def _validated(tool: BaseTool, args: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = tool.args_schema
    return _as_sent(tool, schema.model_validate(args).model_dump() if schema.model_fields else args)


def name_of(tool: BaseTool) -> str:
    """Return the tool's name; if it has blanks or the like, as the model calls it: "Pay out" is `pay_out`."""
    return tool.name if is_tool_name(tool.name) else str(sanitize_tool_name(tool.name))


def never(_args: Any = None, _result: Any = None) -> bool:
    """Lets the crew keep no result in memory."""
    return False


def _stop(refusal: Exception, tool: str, entry: _Entry | None = None) -> Stop:
    """Return what makes the crew stop, by the tool's policy, with what the ledger says."""
    details: dict[str, Any] = {}
    if isinstance(refusal, ApprovalPending):
        details = question_of(refusal, () if entry is None else entry.elsewhere)
    elif isinstance(refusal, EffectInDoubt):
        details = doubt_of(refusal)
    text = getattr(heard_of(refusal, tool), "text", str(refusal))
    stop = Stop(message=text, code=type(refusal).__name__, details=details)
    stops = _STOPS.get()
    if stops is not None:
        stops.append(stop)
    return stop


def _schema_of(tool: BaseTool) -> str:
    return hash_of([tool.name, tool.description, tool.args_schema.model_json_schema()])
