"""Pydantic AI: a capability that puts every tool call and every model turn of an agent behind the ledger.

    behind = [LedgerCapability(ledger)]
    agent = Agent(model, tools=[charge], output_type=[str, DeferredToolRequests], capabilities=behind)
    result = await agent.run("charge what is due", conversation_id="order-123")
    if isinstance(result.output, DeferredToolRequests):       # paused: keep the messages, resume whenever, wherever
        kept = result.all_messages_json()
    …
    result = await agent.run(message_history=…, deferred_tool_results=requests.build_results(approve_all=True))

Saying "approved" to the agent lets it look again, and no more: what runs is what people let run at the ledger, with
exactly the arguments they saw. Calls belong to the conversation, whose id stays the same when an agent is resumed.
"""

from __future__ import annotations

import copy
import hashlib
import json
import traceback
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, Hooks, WrapperCapability
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset

from indelible import AsyncLedger, Ledger, MayHaveHappened, NothingHappened, RunningEffect, ToolCall
from indelible.errors import ApprovalPending, BadCall, EffectFailed, EffectInDoubt, IndelibleError, NoRun, NotRecordable
from indelible.integrations.entries import Entry, doubt_of, paused_by
from indelible.integrations.hosted import hosted_in
from indelible.integrations.injected import name_beside, recorded
from indelible.integrations.model_turns import NO_FORM, TURN_AGAIN, recordable, unmarked
from indelible.integrations.models import shown_of
from indelible.integrations.pauses import own_question
from indelible.integrations.pydantic_ai_outputs import OutputFunctions
from indelible.integrations.results import as_json, plain
from indelible.integrations.telling import error_in, heard_of, with_note
from indelible.integrations.terms import (
    TURN,
    ModelTurn,
    Named,
    NameTaken,
    Spoken,
    Terms,
    hash_of,
    is_same,
    ordinal_of,
    question_of,
    turn_of,
)
from indelible.integrations.ways import Watch
from indelible.tool import bound, encode

RunOf = Callable[[RunContext[Any]], str]
Supplies = Callable[[], dict[str, Any]]
_NAME = "Pydantic AI"
DEFERRED_HANDLERS = "handlers of deferred calls"
_DEFERRED = (ApprovalRequired, CallDeferred)


class _CutShort(MayHaveHappened):
    """The framework ended a tool at its time limit, or lost its answer, and asks the model to try again."""


# What the framework tells a model of these asks it to call again.
_TOLD_TO_THE_MODEL = (_CutShort, ModelRetry, ToolRetryError, ToolFailed, ToolFailedError, ValidationError)
_PASSAGE: ContextVar[_Passage | None] = ContextVar("indelible_passage", default=None)
_CHANGED = object()
_THEIRS = ("pydantic_ai.", "indelible.")
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
_MOST_RUNS = 10_000
_TURN = "indelible_turn"
"""The name of the turn in the metadata of a model's response."""
_ASKED = "indelible_asked"
"""The tools' own questions, there too, at which calls of the response stand."""
_RETURN: TypeAdapter[ToolReturn[Any]] = TypeAdapter(ToolReturn[Any])


class LedgerCapability(AbstractCapability[Any]):
    """Lets each tool call of an agent run at most once and with permission, and asks its model once per turn.

    `terms` says how single tools are treated, in the words of `@ledger.tool`; further words hold for all of them. Calls
    belong to the run that `run` names, by default the conversation.

    Output functions are guarded like tools. Native tools, external tools, output validators and handlers of deferred
    calls run without the ledger: `strict` refuses them, unless `allow` names them.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        run: str | RunOf | None = None,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        model_turns: bool = True,
        strict: bool = False,
        allow: Iterable[str] = (),
        watch: Watch | None = None,
        **usual: Any,
    ) -> None:
        self._watch = watch or Watch(strict, tuple(allow))
        self._ledger = ledger.awaited
        self._run = run
        self._terms = Terms(terms, usual)
        self._keeps_turns = model_turns
        self._turns: dict[str | None, str | None] = {}
        """The turn of each run of an agent, by the run's id."""
        self._stops: dict[str | None, dict[str, Exception]] = {}
        """What the ledger stopped each run by, by the run's and the calls' ids."""

    def get_ordering(self) -> CapabilityOrdering:
        """Stand innermost, also among the capabilities of yours that do."""
        return CapabilityOrdering(position="innermost", wrapped_by=[_Yours])  # type: ignore[list-item]

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Keep answers to the ledger's questions from the tools."""
        return OwnAnswers(toolset)

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Name the turn before a history processor leaves out messages by which it is known."""
        messages, prompt = list(ctx.messages), ctx.prompt
        is_beside_results = bool(messages) and isinstance(messages[-1], ModelResponse) and bool(messages[-1].tool_calls)
        if prompt is not None and not is_beside_results:
            messages.append(ModelRequest(parts=[UserPromptPart(prompt)]))
        for known in (self._turns, self._stops):
            if len(known) >= _MOST_RUNS:
                del known[next(iter(known))]
        self._turns[ctx.run_id] = _turn_in(messages)
        self._stops[ctx.run_id] = {}
        # What calls of the last response ask from here on is no word of the response that the caller keeps.
        ctx.messages[:] = [replace(one) if one is _last_response(messages) else one for one in ctx.messages]

    def keep_turn(self, ctx: RunContext[Any], response: ModelResponse) -> ModelResponse:
        """Return a model's response that says its turn, so that an agent that is resumed with it is in the same one."""
        turn = self._turns.get(ctx.run_id)
        if turn is not None:
            response.metadata = {**(response.metadata or {}), _TURN: turn}
        return response

    def _turn_of(self, ctx: RunContext[Any]) -> str | None:
        """Return the turn of a call: the one of the model's response that makes it."""
        last = _last_response(ctx.messages)
        kept = None if last is None else _kept_turn(last)
        return kept or (self._turns[ctx.run_id] if ctx.run_id in self._turns else _turn_in(ctx.messages))

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: Any
    ) -> Any:
        """Run a tool call, replay it, pause the agent, or tell the model why not."""
        supplies = partial(self._supplied, ctx, tool_def, tool_def.parameters_json_schema)
        try:
            if _is_unread(ctx, call.tool_name):
                args = _filled(tool_def, args)
            _check_said(call)
            asked = self._call(ctx, call, tool_def, _shown(args), supplies())
        except (NameTaken, _Unfit) as wrong:
            return f"{call.tool_name} was not called: {wrong}"
        asking = _Asking(ctx, tool_def, asked)
        entry = _Entry(call, args, handler, asked, supplies, asking, self._terms.at_once(asked.tool))
        stops, call_id = self._stops.get(ctx.run_id, {}), str(ctx.tool_call_id)
        stops.pop(call_id, None)
        try:
            return await entry.walk_async(self._ledger, entry.words)
        finally:
            stops |= {} if entry.stop is None else {call_id: entry.stop}

    def check_stops(self, ctx: RunContext[Any]) -> None:
        """Raise what the ledger stopped this run by, if another capability caught it and answered the model itself."""
        parts = [part for one in ctx.messages if isinstance(one, ModelRequest) for part in one.parts]
        denied = {one.tool_call_id for one in parts if isinstance(one, ToolReturnPart) and one.outcome == "denied"}
        for call_id, stop in self._stops.get(ctx.run_id, {}).items():
            if call_id not in denied:  # a handler of deferred calls may deny one
                raise stop

    def _supplied(self, ctx: RunContext[Any], tool: ToolDefinition, parameters: Any) -> dict[str, Any]:
        """Return what the agent gives a tool beside its parameters now, as it is recorded."""
        answered = ctx.tool_call_metadata if tool.kind == "unapproved" else None
        beside = {"deps": ctx.deps, "metadata": answered, "run_metadata": ctx.metadata}
        supplied = {name_beside(parameters, name): value for name, value in beside.items() if value is not None}
        return recorded(supplied, self._terms.unbound(tool.name), (ModelRequest, ModelResponse))

    def _call(
        self,
        ctx: RunContext[Any],
        call: ToolCallPart,
        tool: ToolDefinition,
        args: Mapping[str, Any],
        supplied: Mapping[str, Any],
    ) -> ToolCall:
        named = Named(
            tool=call.tool_name,
            injected=supplied,
            args=args,
            run_id=self.run_of(ctx),
            call_id=call.tool_call_id,
            schema=_schema_of(tool),
            ordinal=ordinal_of(call.tool_call_id, _spoken(ctx)) if self._terms.counts(call.tool_name) else None,
            turn=self._turn_of(ctx),
        )
        return self._terms.call(named)

    def run_of(self, ctx: RunContext[Any]) -> str:
        """Names the run that calls belong to: the conversation, unless the integrator said otherwise."""
        if self._run is not None:
            return self._run if isinstance(self._run, str) else self._run(ctx)
        if ctx.conversation_id is None:
            raise NoRun("an agent's calls belong to its conversation: run it with conversation_id=…, or say run=…")
        return ctx.conversation_id

    async def wrap_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any, handler: Any
    ) -> Any:
        """Call the function that makes the agent's output once; a run that is repeated gets what it returned, as JSON.

        It cannot pause the agent. If a person has to decide, the run ends with `ApprovalPending`: run it again then.
        """
        if ctx.partial_output:  # the model has not finished, and the function is called when it has
            return output if output_context.has_function else await handler(output)
        functions = OutputFunctions(output_context, handler)
        tool = functions.tool_for(output)
        said: Any = shown_of(output, "output")
        passage = _OutputPassage(said, functions, tool)
        if tool is None:
            return await passage.past(handler, output)
        part = output_context.tool_call
        call = ToolCallPart(tool.name, {}, part.tool_call_id) if part is not None else ToolCallPart(tool.name, {})
        args = said if isinstance(said, dict) else {"output": said}
        supplies = partial(self._supplied, ctx, tool, {"properties": args})
        asked = self._call(ctx, call, output_context.tool_def or tool, args, supplies())
        entry = _Output(asked, output, passage, handler, supplies)
        return await entry.walk_async(self._ledger, self._terms.at_once(tool.name))

    async def before_output_process(self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any) -> Any:
        """Refuse an output that another capability changed after the ledger has seen it: this hook is the last."""
        passage = _passage_of(output_context)
        if passage is not None:
            passage.check_output(output)
        return output

    async def after_output_process(self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any) -> Any:
        """Note what the function returned, before the hooks of others: this one is the first."""
        passage = _passage_of(output_context)
        if passage is not None and passage.raised is None:
            passage.gave.append(output)
        return output

    async def on_output_process_error(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any, error: Exception
    ) -> Any:
        """Note what the function raised, before the hooks of others: this one is the first."""
        passage = _passage_of(output_context)
        if passage is not None:
            passage.raised = error
        raise error

    async def wrap_model_request(self, ctx: RunContext[Any], *, request_context: Any, handler: Any) -> ModelResponse:
        """Gives the model's answer of this turn, asked for once: an agent that is resumed gets it from the record."""
        self.check_stops(ctx)
        note_unguarded(self._watch, ctx, request_context)
        if not self._keeps_turns:
            return self.keep_turn(ctx, await handler(request_context))
        turn = _Turn(request_context, handler)
        args = {"asks": turn.asks, "step": len(request_context.messages), **_who_asks(ctx, request_context)}
        call = ModelTurn(args=args, run_id=self.run_of(ctx))
        try:
            return self.keep_turn(ctx, turn.given(await self._ledger.run(call, turn.enter, **TURN)))
        except NothingHappened as nothing:
            return self.keep_turn(ctx, turn.without_record(nothing))


def note_unguarded(watch: Watch, ctx: RunContext[Any], request: Any) -> None:
    """Note what runs without the ledger: at the model's provider, at the caller's, or as a judge of the output.

    Args:
        watch: Notes it, or refuses it.
        ctx: The context of the agent's run.
        request: The `ModelRequestContext` of its next turn.
    """
    note_request(watch, request.model_request_parameters, request.model_settings)
    watch.note(_NAME, "native tools", hosted_in(*(one.settings for one in _models_in(request.model, []))))
    judges = getattr(ctx.agent, "_output_validators", None) or ()
    watch.note(_NAME, "output validators", [_name_of(judge.function) for judge in judges])
    watch.note(_NAME, DEFERRED_HANDLERS, [name for one in _capabilities_of(ctx) for name in _handlers_in(one)])


def note_request(watch: Watch, asked: ModelRequestParameters, settings: Mapping[str, Any] | None) -> None:
    """Note what a model is asked with and runs without the ledger: at its provider, or at the caller's."""
    watch.note(_NAME, "native tools", [str(tool.kind) for tool in asked.native_tools])
    watch.note(_NAME, "native tools", hosted_in(settings))
    watch.note(_NAME, "external tools", [tool.name for tool in asked.function_tools if tool.kind == "external"])


def _models_in(part: Any, done: list[Model]) -> list[Model]:
    """Return a model and those inside of it: what wraps or chooses models asks them with settings of their own."""
    if isinstance(part, (list, tuple)):
        return [model for one in part for model in _models_in(one, done)]
    if not isinstance(part, Model) or any(part is one for one in done):
        return []
    done.append(part)
    inside = vars(part).values()
    return [part, *(model for one in inside for model in _models_in(one, done))]


def _capabilities_of(ctx: RunContext[Any]) -> list[AbstractCapability[Any]]:
    """Return the capabilities of a run, those of its agent included."""
    found: list[AbstractCapability[Any]] = []
    root = ctx.root_capability or getattr(ctx.agent, "root_capability", None)
    if root is not None:
        root.apply(found.append)
    return found


def _handlers_in(capability: AbstractCapability[Any]) -> list[str]:
    """Name what a capability calls to carry out, or to answer, calls that a tool defers."""
    called = type(capability).handle_deferred_tool_calls
    if called is AbstractCapability.handle_deferred_tool_calls:
        return []
    if called is WrapperCapability.handle_deferred_tool_calls and isinstance(capability, WrapperCapability):
        inside: list[AbstractCapability[Any]] = []
        capability.wrapped.apply(inside.append)
        return [name for one in inside for name in _handlers_in(one)]
    if called is Hooks.handle_deferred_tool_calls and isinstance(capability, Hooks):
        return [_name_of(entry.func) for entry in capability._get("handle_deferred_tool_calls")]
    return [_name_of(getattr(capability, "handler", capability))]


class _Yours(ABC):  # noqa: B024 - tells capabilities apart, and has none of its own
    """Every capability that is neither the framework's nor ours."""

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        return not f"{kind.__module__}.".startswith(_THEIRS)


class _Passage:
    """The way from the ledger to the tool, on which hooks of other capabilities run.

    They may change the arguments, and what the tool returned or raised. What the ledger lets run is what it has
    recorded, and what it records is what the tool did.

    Args:
        of: The framework's own object for the call: the same one all the way, and another one for each other call.
        recorded: The JSON of what the tool is entered with.
        is_approved: Is "approved", which the framework says, the answer to the tool's own question? None: leave it.
        is_again: An earlier attempt of this call entered the tool. Default: False.
    """

    def __init__(self, of: Any, recorded: Any, is_approved: bool | None = None, is_again: bool = False) -> None:
        self.of = of
        self.is_again = is_again
        self.is_approved = is_approved
        self.is_entered = False
        self.gave: list[Any] = []
        self.raised: BaseException | None = None
        self._recorded = recorded
        self._refusal: Exception | None = None
        self._made: list[Any] = []
        self._error: Exception | None = None

    async def lead(self, handler: Any, given: Any) -> Any:
        """Return what the tool returned, as the hooks leave it; raise what it raised, whatever they made of that."""
        token = _PASSAGE.set(self)
        try:
            self._made.append(await handler(given))
        except (ToolRetryError, ToolFailedError) as wrapped:  # what the tool raised is what it may declare
            self._error = wrapped if self.gave else _as_error(wrapped.__cause__) or wrapped
        except Exception as error:
            self._error = error
        finally:
            _PASSAGE.reset(token)
        if self._refusal is not None:
            raise self._refusal
        if self.raised is not None:
            raise self.raised
        if self._error is not None and not self.gave:
            raise self._error
        return self._made[0] if self._made else self.gave[0]

    def check(self, shown: Callable[[], Any]) -> None:
        """Enter the tool once, with what is recorded, or raise `NothingHappened`."""
        try:
            if not is_same(shown(), self._recorded):
                if self.is_again:  # what cannot be copied is handed to each attempt as the one before left it
                    raise MayHaveHappened(
                        "the arguments are not those that the ledger has recorded any more: an earlier attempt, or a "
                        "hook of another capability, changed them. The tool was entered before, and not once more"
                    )
                raise NothingHappened(
                    "a hook of another capability changed what the ledger has recorded, so nothing was entered; change "
                    "it before: in after_tool_validate, in wrap_tool_execute, or in their hooks for outputs"
                )
            if self.is_entered:
                raise BadCall(
                    "another capability enters the tool a second time for one call; leave repeats to the ledger"
                )
        except Exception as refusal:
            self._refusal = None if self.is_entered else refusal
            raise
        self.is_entered = True

    def ended(self, given: Any) -> Any:
        """Return what the agent gets; raise what a hook raised after the tool had returned."""
        if self._error is not None:
            raise self._error
        return given

    def made_of(self, error: Exception) -> Any:
        """Return, or raise, what the hooks made of an error of the tool, which is on the record as it was."""
        if self._made and self.raised is error:
            return self._made[0]
        raise self._error if self._error is not None and self.raised is error else error


class _OutputPassage(_Passage):
    """The same on the way to the function that makes an output.

    Args:
        recorded: The JSON of the output.
        functions: Say which function an output goes to.
        tool: The function that it is recorded for; None if it goes to none.
    """

    def __init__(self, recorded: Any, functions: OutputFunctions, tool: ToolDefinition | None) -> None:
        super().__init__(functions.context, recorded)
        self._functions = functions
        self._tool = tool

    async def past(self, handler: Any, output: Any) -> Any:
        """Return what becomes of an output that goes to no function."""
        token = _PASSAGE.set(self)
        try:
            return await handler(output)
        finally:
            _PASSAGE.reset(token)

    def check_output(self, output: Any) -> None:
        """Raise `NothingHappened` if the output would go to another function, or is not the one that is recorded."""
        tool = self._functions.tool_for(output)
        if self._tool is not None:
            self.check(lambda: shown_of(output, "output") if tool == self._tool else _CHANGED)
        elif tool is not None:
            raise NothingHappened(f"a hook of another capability made an output for {tool.name} that is not recorded")


def _passage_of(context: OutputContext) -> _OutputPassage | None:
    """Return the way of this very output; None for one inside of a function that makes another."""
    passage = _PASSAGE.get()
    return passage if isinstance(passage, _OutputPassage) and passage.of is context else None


def is_led(of: ToolCallPart | OutputContext) -> bool:
    """Say whether a capability of ours leads this very call, or output, to its tool already."""
    passage = _PASSAGE.get()
    return passage is not None and passage.of is of


def _as_error(cause: BaseException | None) -> Exception | None:
    return cause if isinstance(cause, Exception) else None


@dataclass
class OwnAnswers(WrapperToolset[Any]):
    """Enter tools as the ledger recorded it, and with the answer to their own question only."""

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: Any) -> Any:
        """Call the tool. What the caller says beside an answer to the ledger, no approver has seen."""
        passage = _PASSAGE.get()
        if passage is None:
            return await super().call_tool(name, tool_args, ctx, tool)
        passage.check(lambda: shown_of(tool_args))
        if passage.is_approved is not None and ctx.tool_call_approved:
            ctx = replace(
                ctx,
                tool_call_approved=passage.is_approved,
                tool_call_metadata=ctx.tool_call_metadata if passage.is_approved else None,
            )
        token = _PASSAGE.set(None)  # what is called inside of the tool is another call
        try:
            result = await super().call_tool(name, tool_args, ctx, tool)
        except BaseException as error:
            passage.raised = _cut_short(error) or error
            raise
        finally:
            _PASSAGE.reset(token)
        passage.gave.append(result)
        return result


def _cut_short(error: BaseException) -> _CutShort | None:
    """Return what a retry prompt means that the framework made of its own time limit, or of a lost answer over MCP.

    The tool did not raise it, so a tool that declares `failed_on=ModelRetry` says nothing about it.
    """
    lost = error.__cause__ or error.__context__
    if not isinstance(error, ModelRetry | ToolFailed) or lost is None or type(lost).__name__ == "ToolError":
        return None
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    is_own = frame.f_globals.get("__name__") in ("pydantic_ai.toolsets.function", "pydantic_ai.mcp")
    return _CutShort(str(error)) if is_own else None


class _Asking:
    """What a person said about a call. The framework hands one answer to the ledger and to the tool alike.

    The response that makes the calls says which of them stand at a question of their tools. Whoever resumes an agent
    from it answers those questions. A resume that is repeated from older messages answers what was asked then.

    Args:
        ctx: The context that the tool is entered with.
        tool: What the tool says of itself. If the framework itself asks about it, that was answered before.
        call: The call.
    """

    def __init__(self, ctx: RunContext[Any], tool: ToolDefinition, call: ToolCall) -> None:
        self._ctx = ctx
        self.call_id = ctx.tool_call_id
        self._question = own_question(call)
        self._is_asked_before = tool.kind == "unapproved"

    @property
    def is_tool_answered(self) -> bool | None:
        """Say whether an approval answers the tool's own question; None if it is not the ledger that may have asked."""
        if not self._ctx.tool_call_approved or self._is_asked_before:
            return None
        return self._asked.get(str(self.call_id)) == self._question

    def note(self, is_tool_asked: bool) -> None:
        """Note who asks now: the tool, or the ledger."""
        response = _last_response(self._ctx.messages)
        if response is not None:
            others = {name: one for name, one in self._asked.items() if name != self.call_id}
            now = {**others, str(self.call_id): self._question} if is_tool_asked else others
            response.metadata = {**(response.metadata or {}), _ASKED: now}

    @property
    def _asked(self) -> Mapping[str, str]:
        """Return the questions of tools at which calls stand, by the calls' ids."""
        response = _last_response(self._ctx.messages)
        asked = None if response is None else (response.metadata or {}).get(_ASKED)
        return asked if isinstance(asked, Mapping) else {}


class _Entry(Entry):
    """One call on its way: what the tool gave stays at hand, so that only a repeat gets it from the record."""

    def __init__(
        self,
        part: ToolCallPart,
        validated: Any,
        handler: Any,
        call: ToolCall,
        supplies: Supplies,
        asking: _Asking,
        words: dict[str, Any],
    ) -> None:
        super().__init__(call, asking.call_id)
        self._supplies = supplies
        self.words = words
        self._validated = validated
        self._shown = shown_of(validated)
        self._handler = handler
        self._asking = asking
        self._part = part
        self._passage = _Passage(part, None)
        self._live: list[Any] = []
        self._deferred: Exception | None = None
        self.stop: Exception | None = None
        """What the ledger stopped the agent by: a question to a person, or a doubt."""

    async def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the arguments that are recorded, which are those that were validated."""
        _check_validated(self, effect, self._supplies)
        was_entered = self._passage.is_entered or self._passage.is_again
        self._passage = _Passage(self._part, self._shown, self._asking.is_tool_answered, was_entered)
        given = self._validated
        with suppress(TypeError, copy.Error):  # a tool may change what it gets, and be entered again
            given = copy.deepcopy(given)
        with self.running(effect):
            try:
                result = await self._passage.lead(self._handler, given)
            except _DEFERRED as deferred:  # the tool itself asks for a person or for a result
                self._deferred = deferred
                self._asking.note(is_tool_asked=isinstance(deferred, ApprovalRequired))
                raise paused_by(deferred, effect, self.words) from deferred
            except SkipToolExecution as skipped:
                if self._passage.is_entered:
                    raise
                self._deferred = skipped
                raise NothingHappened("a hook of another capability took the tool's place") from skipped
        self._live.append(result)
        if isinstance(result, ToolReturn):
            return {"gave": _RETURN.dump_python(result, mode="json"), "is_return": True}
        return {"gave": as_json(result), "is_return": False}

    def given(self, recorded: Any) -> Any:
        """Return what the tool gave, now or as it was recorded, here or by another framework, or by a person."""
        if self._live:
            return self._passage.ended(self._live[0])
        match recorded:
            case {"gave": gave, "is_return": True, **rest} if not rest:
                return _noted(_RETURN.validate_python(gave), self.note)
            case _:
                return _noted(plain(recorded), self.note)

    def told_of(self, refusal: Exception, error: Exception) -> Any:
        """Return what the model is told of a call without a value.

        Raises:
            Exception: What pauses the agent, or stops it.
        """
        if self._deferred is not None:  # the tool paused the agent by itself, and what it asks is shown as it is
            raise self._deferred
        is_the_tools = error is not refusal
        self.stop = refusal if isinstance(refusal, ApprovalPending | EffectInDoubt) else None
        match refusal:
            case ApprovalPending():
                self._asking.note(is_tool_asked=False)
                raise ApprovalRequired(question_of(refusal, self.elsewhere)) from None
            case EffectInDoubt() if not is_the_tools or isinstance(error, _TOLD_TO_THE_MODEL):
                # Whatever is answered: the ledger knows whether it was settled. A yes to the tool was for this effect.
                self._asking.note(is_tool_asked=self._asking.is_tool_answered is True)
                raise ApprovalRequired(doubt_of(refusal)) from None
            case EffectInDoubt():
                raise error
            case EffectFailed() if not is_the_tools:
                raise _again(refusal) from None
            case EffectFailed() | NothingHappened():
                return self._passage.made_of(error)
            case _:
                pass
        heard = heard_of(refusal, self.call.tool)
        if heard is None:
            raise error
        return heard.text


class _Output(Entry):
    """The function that makes an agent's output: what it returned stays at hand."""

    def __init__(self, call: ToolCall, output: Any, passage: _OutputPassage, handler: Any, supplies: Supplies) -> None:
        super().__init__(call)
        self._supplies = supplies
        self._output = output
        self._passage = passage
        self._handler = handler
        self._live: list[Any] = []

    async def enter(self, effect: RunningEffect) -> Any:
        """Call it with what is recorded, which is what the agent validated."""
        _check_validated(self, effect, self._supplies)
        with self.running(effect):
            self._live.append(await self._passage.lead(self._handler, self._output))
        return {"gave": as_json(self._live[0])}

    def given(self, recorded: Any) -> Any:
        """Return what the function returned, now or as it was recorded; or what a person settled it with."""
        if self._live:
            return self._passage.ended(self._live[0])
        is_ours = isinstance(recorded, Mapping) and set(recorded) == {"gave"}
        return recorded["gave"] if is_ours else plain(recorded)

    def told_of(self, refusal: Exception, error: Exception) -> Any:
        """Raise what ends the agent's run: a model that is asked for another output would do it another way."""
        is_asked_again = isinstance(refusal, EffectInDoubt) and isinstance(error, _TOLD_TO_THE_MODEL)
        raise refusal if is_asked_again else error


def _check_validated(entry: Entry, effect: RunningEffect, supplies: Supplies) -> None:
    """Raise `NothingHappened` if other arguments are recorded than those that the agent validated and supplies now."""
    entry.check_injected(effect, supplies=supplies)
    if not is_same(effect.args, entry.call.args):
        raise NothingHappened("the arguments were edited, and only the agent can have others validated: deny it")


class _Unfit(BadCall):
    """The arguments cannot be shown, or do not fit a tool of which a JSON schema is all that is known."""


def _shown(args: Any) -> Any:
    """Return the JSON of validated arguments; raise what the model is told if it does not show all of them."""
    try:
        return shown_of(args)
    except NotRecordable as hidden:
        raise _Unfit(str(hidden)) from hidden


def _filled(tool: ToolDefinition, args: Any) -> Any:
    """Return arguments with the defaults of the tool's JSON schema: what is recorded and what the tool gets."""
    try:
        return bound(tool.parameters_json_schema, args, tool.name)
    except BadCall as wrong:
        raise _Unfit(str(wrong)) from wrong


def _check_said(call: ToolCallPart) -> None:
    """Raise `_Unfit` for arguments that a model said and nothing can record, such as NaN."""
    try:
        encode(call.args_as_dict())
    except BadCall as wrong:
        raise _Unfit(str(wrong)) from wrong


def _is_unread(ctx: RunContext[Any], tool_name: str) -> bool:
    """Say whether the framework reads nothing of what a model says, as for MCP tools and `Tool.from_schema`."""
    tools = {} if ctx.tool_manager is None else ctx.tool_manager.tools or {}
    return tool_name in tools and getattr(tools[tool_name].args_validator, "title", None) == "any"


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", None) or type(function).__qualname__)


def _noted(given: Any, note: str | None) -> Any:
    """Return a recorded result with a note for the model: below a text, or else beside the result."""
    if note is None:
        return given
    if isinstance(given, str):
        return with_note(given, note)
    if not isinstance(given, ToolReturn):
        return ToolReturn(given, content=note)
    beside = given.content or []
    return replace(given, content=[*([beside] if isinstance(beside, str) else beside), note])


class _Turn:
    """Is one turn of a model: the same messages of the same agent in the same conversation are the same turn."""

    def __init__(self, request: Any, handler: Any) -> None:
        self._request = request
        self._handler = handler
        self._live: ModelResponse | None = None
        self.asks = _digest_of(request.messages)
        self.error: Exception | None = None

    async def enter(self, effect: RunningEffect) -> Any:
        """Asks the model."""
        try:
            self._live = await self._handler(self._request)
        except IndelibleError:
            raise
        except Exception as error:
            self.error = error
            raise NothingHappened(f"the model gave no answer: {type(error).__qualname__}") from error
        return recordable({"answer": _dumped([self._live]), "asked": self.asks})

    def given(self, recorded: Mapping[str, Any]) -> ModelResponse:
        """Gives what the model answered, now or when it was asked."""
        if self._live is not None:
            return self._live
        (response,) = ModelMessagesTypeAdapter.validate_json(json.dumps(unmarked(recorded["answer"], TURN_AGAIN)))
        assert isinstance(response, ModelResponse), "what was recorded is a model's answer"
        return response

    def without_record(self, nothing: NothingHappened) -> ModelResponse:
        """Return an answer that has no recorded form, or raise what the model raised."""
        if self.error is not None:
            raise self.error from None
        if self._live is None:
            raise nothing
        return self._live


def _who_asks(ctx: RunContext[Any], request: Any) -> dict[str, Any]:
    """Return what tells agents apart that ask the same in one run: the agent's name, and the names of its tools."""
    asked: ModelRequestParameters = request.model_request_parameters
    tools = sorted(tool.name for tool in (*asked.function_tools, *asked.output_tools))
    return {"agent": getattr(ctx.agent, "name", None) or "", "tools": tools}


def _dumped(messages: list[ModelMessage]) -> Any:
    """Return messages as JSON; raise `NothingHappened` if it cannot say them."""
    try:
        return json.loads(ModelMessagesTypeAdapter.dump_json(messages))
    except ValueError as wrong:
        raise NothingHappened(f"{NO_FORM}: {wrong}") from wrong


def _again(failed: Exception) -> Exception:
    """Return what a tool raised when it ran: what it asked of the model then, it asks again."""
    if not isinstance(failed, EffectFailed):
        return failed
    said = error_in(failed)
    if failed.error_type in (ModelRetry.__name__, ToolRetryError.__name__):
        return ModelRetry(said)
    return ToolFailed(said) if failed.error_type in (ToolFailed.__name__, ToolFailedError.__name__) else failed


def _turn_in(messages: Sequence[ModelMessage]) -> str | None:
    """Name the turn that messages end in: as their last response says, unless the user said something since then."""
    responses = [place for place, one in enumerate(messages) if isinstance(one, ModelResponse)]
    prompts = list(_prompts(messages))
    kept = _kept_turn(messages[responses[-1]]) if responses else None
    if kept is not None and (not prompts or prompts[-1][0] < responses[-1]):
        return kept
    return turn_of([said for _, said in prompts])


def _last_response(messages: Sequence[ModelMessage]) -> ModelResponse | None:
    return next((one for one in reversed(messages) if isinstance(one, ModelResponse)), None)


def _kept_turn(response: ModelMessage) -> str | None:
    turn = (response.metadata or {}).get(_TURN)
    return turn if isinstance(turn, str) else None


def _prompts(messages: Iterable[ModelMessage]) -> Iterator[tuple[int, Any]]:
    """Yield the place of each message of the user's, and what it says, as JSON that a stored message still has.

    What a tool sends beside its result is no message of the user's, nor is what is sent to a run that has begun.
    """
    runs: set[str] = set()
    for place, message in enumerate(messages):
        is_sent_later = message.run_id in runs
        if message.run_id is not None:
            runs.add(message.run_id)
        if not isinstance(message, ModelRequest) or is_sent_later:
            continue
        if not any(isinstance(part, ToolReturnPart) for part in message.parts):
            said = [part for part in message.parts if isinstance(part, UserPromptPart)]
            (dumped,) = ModelMessagesTypeAdapter.dump_python([ModelRequest(parts=said)], mode="json")
            yield from ((place, part["content"]) for part in dumped["parts"])


def _spoken(ctx: RunContext[Any]) -> Iterator[Spoken]:
    """Gives the calls of the conversation, in their order."""
    for message in ctx.messages:
        if isinstance(message, ModelResponse):
            yield from (Spoken(part.tool_call_id, part.tool_name, part.args) for part in message.tool_calls)


def _digest_of(messages: Any) -> str:
    """Gives a hash of what the model is asked: what was said, without when and by which process."""
    told = json.loads(ModelMessagesTypeAdapter.dump_json(list(messages)))
    said = [[one["kind"], one.get("instructions"), [lasting(part) for part in one["parts"]]] for one in told]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def lasting(part: Mapping[str, Any]) -> dict[str, Any]:
    """Gives a part of a message without when it was said."""
    return {name: value for name, value in part.items() if name != "timestamp"}


def _schema_of(tool: ToolDefinition) -> str:
    return hash_of([tool.name, tool.description, tool.parameters_json_schema])
