"""LangGraph: a gate before the tools of a graph, which pauses the graph by its own `interrupt` while a person decides.

A graph that is resumed enters its node from the top, so the gate is walked again for each call: what was done replays,
what was decided holds, what is open asks again. What a resume carries decides nothing by itself: the ledger does.
"""

from __future__ import annotations

import base64
import copy
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, NamedTuple
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.tracers.context import register_configure_hook
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.pydantic import get_fields
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, create_model
from pydantic.v1 import BaseModel as BaseModelV1

from indelible import Actor, Approval, AsyncLedger, Ledger, NothingHappened, RunningEffect
from indelible.errors import (
    ApprovalPending,
    BadCall,
    EffectFailed,
    EffectInDoubt,
    NoRun,
    VoteRefused,
)
from indelible.integrations.entries import Entry, paused_by, raise_doubt
from indelible.integrations.hosted import hosted_in
from indelible.integrations.langgraph_injected import (
    TURN_FIELD,
    functions_of,
    injected_in,
    is_raised_after,
    live_in,
    own_defaults,
)
from indelible.integrations.langgraph_nodes import pauses_of
from indelible.integrations.langgraph_pauses import Task, graph_in_call
from indelible.integrations.langgraph_values import Given, error_told, kept, replayed
from indelible.integrations.models import read_by
from indelible.integrations.results import ToolError, text_in
from indelible.integrations.telling import heard_of, with_note
from indelible.integrations.terms import (
    SAID_TO_THE_MODEL,
    Named,
    OnError,
    Spoken,
    Terms,
    checked_on_error,
    hash_of,
    is_same,
    ordinal_of,
    question_of,
)
from indelible.integrations.ways import Watch
from indelible.tool import bound

DecidedBy = Callable[[Mapping[str, Any], RunnableConfig], Actor | str | None]
"""Says who made an answer, by a proof that the answer itself carries; None when nobody can be told to have made it.

Who resumes the graph proves nothing: it hands out old answers again whenever its node is entered, whoever is there.
"""
RunOf = Callable[[RunnableConfig], str]
NAME = "LangChain and LangGraph"
_LOG = logging.getLogger("indelible.integrations")
PROVIDER_TOOLS = "provider tools"
_VARIADIC = frozenset({"args", "kwargs"})
"""Fields whose default LangChain hands to no function: it takes them for `*args` and `**kwargs`."""


class Vote(NamedTuple):
    """Is what a person answered to a question of the graph, as the ledger takes it."""

    approval: str
    digest: str
    by: Actor | str
    is_approval: bool
    reason: str
    signature: bytes | None = None

    def verb_of(self, ledger: Ledger | AsyncLedger) -> Any:
        """Is the ledger's verb by which it is cast: to approve, or to deny."""
        return ledger.approve if self.is_approval else ledger.deny

    @property
    def words(self) -> dict[str, Any]:
        """Are the words of both verbs."""
        return {"digest": self.digest, "by": self.by, "reason": self.reason, "signature": self.signature}


class ToolGate:
    """Lets each tool call of a graph run at most once and with permission, whoever resumes the graph, and wherever.

    `terms` says how single tools are treated, in the words of `@ledger.tool`; further words hold for all. A call
    belongs to the run that `run` names, by default the thread. With `decided_by`, an answer to the graph's question
    counts as the vote of whom that names. `on_error` "tell" lets the model hear of a tool that raised, and go on.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        run: str | RunOf | None = None,
        decided_by: DecidedBy | None = None,
        on_error: OnError = "raise",
        messages_key: str = "messages",
        **usual: Any,
    ) -> None:
        self._ledger = ledger
        self._terms = Terms(terms, usual)
        self._run = run
        self._decided_by = decided_by
        self._on_error = checked_on_error(on_error)
        self._messages_key = messages_key

    def wrap_tool_call(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        """Runs a tool call, replays it, pauses the graph, or tells the model why not."""
        entry = self._entry(_Entry, request, execute)
        if isinstance(entry, ToolMessage):
            return entry
        ledger = self._ledger.blocking
        entry.begin()
        entry.task.read()
        try:
            while isinstance(heard := entry.walk(ledger, entry.words), Vote):
                with entry.noting_refusal():
                    heard.verb_of(ledger)(heard.approval, **heard.words)
        except GraphBubbleUp as pause:
            entry.task.clear()  # once more: the graph saves what it was resumed with in the background
            entry.keep(pause)
            raise
        return heard

    async def awrap_tool_call(
        self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Does the same in an event loop."""
        entry = self._entry(_AsyncEntry, request, execute)
        if isinstance(entry, ToolMessage):
            return entry
        ledger = self._ledger.awaited
        entry.begin()
        await entry.task.read_async()
        try:
            while isinstance(heard := await entry.walk_async(ledger, entry.words), Vote):
                with entry.noting_refusal():
                    await heard.verb_of(ledger)(heard.approval, **heard.words)
        except GraphBubbleUp as pause:
            await entry.task.clear_async()
            entry.keep(pause)
            raise
        return heard

    def _entry(
        self, kind: type[_Entry], request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]
    ) -> _Entry | ToolMessage:
        """Return a call on its way; or what the model is told of arguments that the tool does not take."""
        call = request.tool_call
        try:
            args = _validated(request, call["args"])
        except ValueError as wrong:
            told = f"{call['name']} was not called: {wrong}"
            return ToolMessage(content=told, name=call["name"], tool_call_id=call["id"], status="error")
        return kind(self, request, execute, self._named(request, args), self._terms)

    def run_of(self, config: RunnableConfig) -> str:
        """Names the run that calls belong to: the thread, unless the integrator said otherwise."""
        if self._run is not None:
            return self._run if isinstance(self._run, str) else self._run(config)
        thread = config.get("configurable", {}).get("thread_id")
        if not thread:
            raise NoRun(
                "a graph's calls belong to its thread: invoke it with {'configurable': {'thread_id': …}} and a "
                "checkpointer, or name a run: run='order-123'"
            )
        return str(thread)

    def _named(self, request: ToolCallRequest, args: Mapping[str, Any]) -> Named:
        call, config = request.tool_call, request.runtime.config
        run_id = self.run_of(config)
        counts = self._terms.counts(call["name"])
        injected = self.injected_in(request)
        return Named(
            tool=call["name"],
            args={name: value for name, value in args.items() if name not in injected},  # the graph supplies those
            turn=_kept_turn(request.state) or turn_in(request.state, self._messages_key),
            run_id=run_id,
            conversation=subgraph_of(config),
            call_id=call["id"],
            schema="" if request.tool is None else hash_of(convert_to_openai_tool(request.tool)),
            injected=injected,
            ordinal=ordinal_of(call["id"], _spoken(request.state, self._messages_key)) if counts else None,
            reads=partial(_validated, request),
        )

    def injected_in(self, request: ToolCallRequest) -> dict[str, Any]:
        """Return what the graph gives the tool beside the model's arguments now, as it is recorded."""
        return injected_in(request, self._terms.unbound(request.tool_call["name"]))

    def heard(self, refusal: Exception, error: Exception, entry: _Entry) -> Given | Vote:
        """Return what the model is told, or a vote to cast; else raise or pause.

        If the tool raised, `error` is that, and `refusal` is what the record says of it.
        """
        if entry.bubble is not None:  # the tool paused the graph by itself, and what it asks is shown as it is
            raise entry.bubble
        is_raised = error is not refusal and self._on_error == "raise" and entry.said is None
        match refusal:
            case NothingHappened() if refusal is error and entry.said is None:
                raise refusal
            case ApprovalPending():
                answer = entry.task.answer_to(refusal.approval.id)
                vote = None if answer is None else self._vote(answer.value, refusal.approval, entry.config)
                if vote is None:
                    raise entry.task.pause(refusal.approval.id, _question(refusal, entry))
                return vote
            case EffectInDoubt():  # whatever is answered: the ledger knows whether it was settled
                question = _doubt(refusal, entry)
                # A pause, also if the tool raised: middleware around this one tells models of errors to try again.
                raise entry.task.pause(str(question["effect"]), question) from error
            case _ if is_raised:
                raise error
            case EffectFailed() | NothingHappened() if entry.said is not None:
                return entry.said
            case _ if isinstance(refusal, (NothingHappened, EffectFailed, *SAID_TO_THE_MODEL)):
                heard = heard_of(refusal, entry.call.tool)
                assert heard is not None, "each of these has a text"
                return entry.message(heard.text)
            case GraphBubbleUp():  # the tool has ended, and hands over to a graph above
                raise refusal
            case _ if entry.entered is not None:  # the tool has run, and how it ended is not known to be recorded
                question = _doubt(refusal, entry)
                raise entry.task.pause(str(question["effect"]), question) from error
            case _:
                raise error

    def _vote(self, answer: Any, asked: Approval, config: RunnableConfig) -> Vote | None:
        """Gives the vote that an answer is, if the integrator can tell who made it; else it is a word to look again.

        A graph keeps answers and hands them out again, so one that cannot be read must not stop it.
        """
        if self._decided_by is None or not isinstance(answer, Mapping):
            return None
        kind, digest = answer.get("type"), answer.get("digest")
        if kind not in ("approve", "reject") or not isinstance(digest, str):
            return None
        try:
            by = self._decided_by(answer, config)
            signature = base64.b64decode(answer["signature"], validate=True) if "signature" in answer else None
        except Exception as problem:
            _LOG.warning("an answer about %s counts for nobody: %r", asked.id, problem)
            return None
        if by is None:
            return None
        reason = str(answer.get("message") or ("approved" if kind == "approve" else "rejected"))
        return Vote(str(answer.get("approval", asked.id)), digest, by, kind == "approve", reason, signature)


def ledger_tool_node(
    tools: Sequence[BaseTool | Callable[..., Any]],
    ledger: Ledger | AsyncLedger,
    *,
    name: str = "tools",
    messages_key: str = "messages",
    **words: Any,
) -> ToolNode:
    """Gives a node of tools behind the ledger; `words` are those of `ToolGate`.

    A tool that raises is recorded as what it raised, and then stops the graph or, with on_error="tell", is told to the
    model. The node itself turns no error into a message: what a tool left open would be lost on the way.
    """
    gate = ToolGate(ledger, messages_key=messages_key, **words)
    return ToolNode(
        tools,
        name=name,
        messages_key=messages_key,
        handle_tool_errors=False,
        wrap_tool_call=gate.wrap_tool_call,
        awrap_tool_call=gate.awrap_tool_call,
    )


def note_provider_tools(watch: Watch, request: Any) -> None:
    """Note the tools of a model request that are no tools of the program: the model's provider runs them.

    Args:
        watch: Notes them, or refuses them.
        request: A `ModelRequest` of LangChain. Tools may be bound to its model, too.
    """
    given = [one for one in request.tools or () if isinstance(one, Mapping)]
    bound_to_it = [(one, getattr(one, "kwargs", None)) for one in bindings(request.model)]
    watch.note(NAME, PROVIDER_TOOLS, hosted_in({"tools": given}, request.model_settings, *bound_to_it))


def bindings(model: Any) -> Iterator[Any]:
    """Yield a model and what it is bound to, from the outside."""
    while model is not None:
        yield model
        model = getattr(model, "bound", None)


def subgraph_of(config: RunnableConfig) -> list[str]:
    """Return the graphs around the node we are in, without their tasks' ids: those change with the stored state."""
    namespace = str(config.get("configurable", {}).get("checkpoint_ns") or "")
    parts = [graph_in_call(part.partition(":")[0]) for part in namespace.split("|")[:-1]]
    return [part for part in parts if part]


def _messages(state: Any, key: str) -> Sequence[Any]:
    messages = state if isinstance(state, list) else state.get(key) if isinstance(state, Mapping) else None
    return (getattr(state, key, None) if messages is None else messages) or ()


def _kept_turn(state: Any) -> str | None:
    """Return the turn as the middleware named it when the agent began; None in other graphs."""
    found: str | None = state.get(TURN_FIELD) if isinstance(state, Mapping) else getattr(state, TURN_FIELD, None)
    return found


def turn_in(state: Any, key: str) -> str | None:
    """Return the id of the user's last message, or its number where messages have no ids; None without any.

    A summary that LangChain made of the history is no message of the user's.
    """
    messages = [one for one in _messages(state, key) if isinstance(one, HumanMessage)]
    asked = [one for one in messages if "lc_source" not in one.additional_kwargs]
    return (asked[-1].id or f"message {len(asked)}") if asked else None


def _spoken(state: Any, key: str) -> Iterator[Spoken]:
    """Gives the calls of the conversation that a graph's state holds, in their order."""
    for message in _messages(state, key):
        if isinstance(message, AIMessage):
            yield from (Spoken(call["id"], call["name"], call["args"]) for call in message.tool_calls)


def _validated(request: ToolCallRequest, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments as the tool gets them, its defaults included, and what its validators make of them.

    Other frameworks show the ledger validated arguments, and calls are the same in both only if they look the same.

    Raises:
        ValueError: The tool does not take them, or there is no such tool.
    """
    tool = request.tool
    if tool is None:
        known = ", ".join(sorted(one.name for one in getattr(request.runtime, "tools", ())))
        raise ValueError(f"there is no tool of this name; the tools are: {known}")
    schema: Any = tool.tool_call_schema
    if isinstance(schema, type) and issubclass(schema, BaseModelV1):
        return _by_pydantic_1(request, tool, schema, args)
    if not isinstance(schema, type) or not issubclass(schema, BaseModel):
        return _by_json_schema(tool, schema if isinstance(schema, Mapping) else None, args)
    whole: Any = tool.args_schema
    if not isinstance(whole, type) or not issubclass(whole, BaseModel):
        return read_by(schema, args, tool.name)
    if set(whole.model_fields) == set(schema.model_fields):  # the framework injects nothing
        return read_by(whole, args, tool.name)
    beside = {name: value for name, value in live_in(request).items() if name in whole.model_fields}

    def reads(args: Mapping[str, Any]) -> BaseModel:
        """Let the tool's own validators run, on all that it gets, and return what the model may say of it."""
        validated = whole.model_validate({**args, **beside})
        named = {name: getattr(validated, name) for name in schema.model_fields}
        return _open_to_more(schema, validated).model_construct(**{**(validated.model_extra or {}), **named})

    return read_by(schema, args, tool.name, reads)


def _open_to_more(schema: type[BaseModel], validated: BaseModel) -> type[BaseModel]:
    """Return a schema that keeps fields which it does not name, if the validated model has such."""
    if not validated.model_extra:
        return schema
    return create_model(schema.__name__, __base__=(schema, _More))


class _More(BaseModel):
    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)


def _handed(request: ToolCallRequest, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that LangChain hands to the tool's functions, or Python fills in, without what is injected.

    Raises:
        ValueError: A field would be left to a default of the functions, which nobody was shown.
    """
    tool, beside = request.tool, live_in(request)
    assert tool is not None, "its arguments were validated"
    said = copy.deepcopy(dict(args))
    if tool.args_schema is None:  # LangChain makes the schema of the tool's `_run`, and validates nothing
        return own_defaults(tool) | said
    given: Any = tool._parse_input(said | beside, request.tool_call["id"])
    for name in _VARIADIC & get_fields(tool.get_input_schema()).keys() - given.keys():
        if any(_is_its_own(name, function) for function in functions_of(tool)):
            raise ValueError(f"LangChain hands over no default of {name}")
    return {name: value for name, value in given.items() if name not in beside}


def _is_its_own(name: str, function: Callable[..., Any]) -> bool:
    """Say whether a function has a parameter of this name, which is not `*args` or `**kwargs`."""
    parameter = inspect.signature(function).parameters.get(name)
    return parameter is not None and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _by_pydantic_1(
    request: ToolCallRequest, tool: BaseTool, schema: type[BaseModelV1], args: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return arguments as a model of pydantic 1 reads them.

    Raises:
        ValueError: It does not take them, or it reads what is shown of them as others.
    """
    whole: Any = tool.args_schema  # has the validators, and what the framework injects
    beside = {name: value for name, value in live_in(request).items() if name in whole.__fields__}
    read = whole.parse_obj({**copy.deepcopy(dict(args)), **beside})

    def written(value: Any) -> Any:
        """Write what JSON has no word for, sets in one order: their own is another one in each process."""
        shown = read.__json_encoder__(value)
        if isinstance(value, set | frozenset) and isinstance(shown, list):
            return sorted(shown, key=lambda one: json.dumps(one, sort_keys=True, default=written))
        return shown

    shown: dict[str, Any] = json.loads(read.json(by_alias=True, include=set(schema.__fields__), encoder=written))
    if len(shown) != len(schema.__fields__) or whole.parse_obj({**copy.deepcopy(shown), **beside}) != read:
        raise ValueError("its schema of pydantic 1 reads other arguments than are shown; give it a model of pydantic 2")
    return shown


def _by_json_schema(tool: BaseTool, schema: Mapping[str, Any] | None, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments with the defaults of a JSON schema; where that tells none, with those of the tool's function.

    The function's defaults that are no JSON, such as a date or a member of an enum, are left to it.
    """
    shown = bound(schema, args, tool.name)
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool._run
    taken = inspect.signature(function).parameters.values()
    left_out = [one for one in taken if one.name in (schema or {}).get("properties", {}) and one.name not in shown]
    return shown | {one.name: one.default for one in left_out if _is_json(one.default)}


def _is_json(value: Any) -> bool:
    """Say whether JSON gives back the value itself. A member of an enum equals its text, but is no text."""
    try:
        return _has_types_of_json(value) and is_same(value, value)
    except BadCall:
        return False


def _has_types_of_json(value: Any) -> bool:
    if type(value) is dict:
        return all(type(name) is str and _has_types_of_json(one) for name, one in value.items())
    if type(value) is list:
        return all(map(_has_types_of_json, value))
    return value is None or type(value) in (str, int, float, bool)


class _Entry(Entry):
    """One tool call on its way through the gate."""

    _waits_on = True

    def __init__(
        self, gate: ToolGate, request: ToolCallRequest, execute: Callable[[Any], Any], named: Named, terms: Terms
    ) -> None:
        super().__init__(terms.call(named), named.call_id)
        self._gate = gate
        self._request = request
        self._execute = execute
        self._live: list[Given] = []
        self.said: Given | None = None
        """The error that the tool told, or the message that the framework made of what the tool raised."""
        self._supplied = named.injected.keys()
        self.bubble: GraphBubbleUp | None = None
        self.entered: str | None = None
        """The id of the effect whose tool this call entered."""
        self.task = Task(request.runtime.config, request.tool_call)
        self._pauses = pauses_of(execute)
        self.not_counted: str | None = None
        self.config: RunnableConfig = request.runtime.config
        self.words = terms.at_once(named.tool)

    def begin(self) -> None:
        """Forget how an earlier try of this call ended: middleware may make several."""
        if self._pauses is not None:
            self._pauses.forget(self.task.scratchpad, self._said_id)

    def keep(self, pause: GraphBubbleUp) -> None:
        """Leave a pause where no middleware can catch it."""
        if self._pauses is not None:
            self._pauses.keep(self.task.scratchpad, self._said_id, pause)

    def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments."""
        with self.running(effect), _noting() as noted:
            request = self._with_recorded_args(effect)
            try:
                given: Given | ParentCommand = self._execute(request)
            except GraphBubbleUp as bubble:
                given = self._handed_up(bubble, effect)
            except Exception as error:
                self._tell_apart(error, effect)
                raise
            self._check(given, noted, effect)
        return self._kept(given)

    def told_of(self, refusal: Exception, error: Exception) -> Any:
        """Return what becomes of a call without a value, or raise."""
        return self._gate.heard(refusal, error, self)

    def _with_recorded_args(self, effect: RunningEffect) -> ToolCallRequest:
        """Return the request with the recorded arguments; the framework adds what it injects, which has to be the same.

        Raises:
            NothingHappened: The framework would inject something else than what is recorded.
        """
        self.check_injected(effect, supplies=partial(self._gate.injected_in, self._request))
        args = self._handed_over(self._own(effect.args))
        self.entered, self.said = effect.id, None
        self.task.let_in(effect.args)
        return self._request.override(tool_call={**self._request.tool_call, "args": args})

    def _handed_over(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Return what LangChain is given for the recorded arguments."""
        said, schema = self._request.tool_call["args"], getattr(self._request.tool, "args_schema", None)
        if schema is None:  # nothing would make of the model's words what is recorded
            said = {name: recorded[name] for name in said if name in recorded}
        # LangChain fills in no default of a field with one of these names.
        unfilled = {name: recorded[name] for name in _VARIADIC if recorded.get(name) is not None}
        gives = None if isinstance(schema, Mapping) else partial(_handed, self._request)
        return self.handed_over(recorded, {**unfilled, **said}, self._reads, gives)

    def _own(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments without what the framework supplies."""
        return {name: value for name, value in args.items() if name not in self._supplied}

    def _reads(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._own(_validated(self._request, args))

    def _check(self, given: Given | ParentCommand, noted: _Noted, effect: RunningEffect) -> None:
        """Raise the error that a message tells: what a node made the message of, or the tool's own word."""
        if isinstance(given, ParentCommand) or (told := error_told(given, self.call.call_id)) is None:
            return
        self.said = given
        if isinstance(noted.error, Exception):
            self._tell_apart(noted.error, effect)
        raise noted.error or ToolError(told.text)

    def _handed_up(self, bubble: GraphBubbleUp, effect: RunningEffect) -> ParentCommand:
        """Return what a tool hands over to a graph above: it has ended. One that pauses has not.

        Raises:
            Exception: What a pause is recorded as.
        """
        if isinstance(bubble, ParentCommand):
            return bubble
        self.bubble = self.task.own(bubble)
        raise paused_by(bubble, effect, self.words) from None

    def _tell_apart(self, error: Exception, effect: RunningEffect) -> None:
        """Raise `MayHaveHappened` if LangChain raised the error after the tool had returned."""
        if self._request.tool is not None and is_raised_after(error, self._request.tool):
            raise_doubt(error, effect)

    def _kept(self, given: Given | ParentCommand) -> dict[str, Any]:
        if isinstance(given, ParentCommand):
            return {"call_id": self.call.call_id, "to_parent": kept(given.args[0])}
        self._live.append(given)
        return {"call_id": self.call.call_id, "gave": kept(given)}

    def given(self, recorded: Any) -> Given:
        """Gives what the tool gave, now or when it ran."""
        if self._live:
            return self._live[-1]
        if not isinstance(recorded, Mapping) or set(recorded) not in ({"call_id", "gave"}, {"call_id", "to_parent"}):
            # Another framework recorded it, or a person settled it by hand, with a value of their own.
            return self.message(with_note(text_in(recorded), self.note), status="success")
        if "to_parent" in recorded:
            command = replayed(recorded["to_parent"], None, None)
            assert isinstance(command, Command)
            raise ParentCommand(command)
        return replayed(recorded["gave"], recorded["call_id"], self.call.call_id, self.note)

    @contextmanager
    def noting_refusal(self) -> Iterator[None]:
        """Keeps why a vote did not count, for the next time the graph asks; nothing is changed by such a vote."""
        try:
            yield
        except (VoteRefused, BadCall) as refused:
            self.not_counted = str(refused)

    def message(self, content: str, status: Literal["success", "error"] = "error") -> ToolMessage:
        """Gives a message under this call's id."""
        return ToolMessage(content=content, name=self.call.tool, tool_call_id=self.call.call_id, status=status)


class _AsyncEntry(_Entry):
    """The same in an event loop."""

    async def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments."""
        with self.running(effect), _noting() as noted:
            request = self._with_recorded_args(effect)
            try:
                given: Given | ParentCommand = await self._execute(request)
            except GraphBubbleUp as bubble:
                given = self._handed_up(bubble, effect)
            except Exception as error:
                self._tell_apart(error, effect)
                raise
            self._check(given, noted, effect)
        return self._kept(given)


class _Noted(BaseCallbackHandler):
    """Notes what the tool raised: a node with `handle_tool_errors` tells the model, and nobody else."""

    run_inline = True

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._run: UUID | None = None

    def on_tool_start(self, *args: Any, run_id: UUID, **words: Any) -> None:
        """Note which tool was entered first. Others are called by it."""
        self._run = self._run or run_id

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **words: Any) -> None:
        """Note what it raised."""
        if run_id == self._run:
            self.error = error


_NOTED: ContextVar[_Noted | None] = ContextVar("indelible_noted", default=None)
register_configure_hook(_NOTED, inheritable=False)


@contextmanager
def _noting() -> Iterator[_Noted]:
    noted = _Noted()
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def _question(pending: ApprovalPending, entry: _Entry) -> dict[str, Any]:
    """Return what the graph's own pause shows: enough to find the question and to answer it by its digest."""
    approval = pending.approval
    return {
        **question_of(pending, entry.elsewhere),
        "tool": approval.tool,
        "tool_call_id": entry.call.call_id,
        "rule": approval.question.rule,
        **({} if entry.not_counted is None else {"not_counted": entry.not_counted}),
    }


def _doubt(refusal: Exception, entry: _Entry) -> dict[str, Any]:
    effect = getattr(refusal, "effect", None)
    return {
        "type": "indelible.in_doubt",
        "effect": entry.entered if effect is None else effect.id,
        "tool": entry.call.tool,
        "tool_call_id": entry.call.call_id,
        "why": str(refusal),
    }
