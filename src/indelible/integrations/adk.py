"""Google ADK: a plugin that puts every tool call of an app behind the ledger, with ADK's confirmations as its pauses.

    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name="billing", root_agent=agent, plugins=[LedgerPlugin(ledger)], resumability_config=resumable)
    runner = Runner(app=app, session_service=SqliteSessionService("sessions.db"))
    …
    answer = await plugin.answer(session)                 # what people decided at the ledger; some may still wait
    runner.run_async(…, invocation_id=answer.invocation_id, new_message=answer.message)

A call that a person has to decide asks for a confirmation, as `request_confirmation` does. What is answered to that
decides nothing: it lets the app look again, and what runs is what people let run at the ledger. The tool gets the
answers to its own questions alone. Calls belong to the session, whose run is called "app/user/id". Within one
invocation, the same tool with the same arguments is the same call.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.auth.auth_credential import AuthCredential
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions.session import Session
from google.adk.tools._node_tool import NodeTool
from google.adk.tools.agent_tool import AgentTool, _TaskAgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.tool_context import ToolContext
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.adk.workflow._errors import NodeInterruptedError
from google.genai import types

from indelible import AsyncLedger, Ledger, NothingHappened, RunningEffect, ToolCall
from indelible.errors import ApprovalPending, BadCall, EffectFailed, EffectInDoubt
from indelible.integrations.adk_pauses import NAME, Question, let_resumed_calls_ask, open_questions, own_answer
from indelible.integrations.adk_sent import AtTool, hear_clients, mcp_tool, noting
from indelible.integrations.adk_ways import FRAMEWORK, WatchingPlugin, is_adks
from indelible.integrations.entries import Entry, doubt_of, paused_by, raise_doubt
from indelible.integrations.injected import holds_secret, name_beside, recorded
from indelible.integrations.model_turns import MODEL_INVOKED, Turn
from indelible.integrations.models import shown_of
from indelible.integrations.results import ToolAsked as ToolAsked
from indelible.integrations.results import ToolError as ToolError
from indelible.integrations.results import ToolFailed as ToolFailed
from indelible.integrations.results import as_json, plain
from indelible.integrations.telling import heard_of
from indelible.integrations.terms import (
    SAID_TO_THE_MODEL,
    Named,
    NameTaken,
    Spoken,
    Terms,
    hash_of,
    is_same,
    question_of,
)
from indelible.integrations.ways import Watch
from indelible.tool import bound, holds_mark

RunOf = Callable[[ToolContext], str]
_INSIDE = (TransferToAgentTool, SetModelResponseTool, _TaskAgentTool)  # these do nothing outside of the app
_ASKS = {"requested_tool_confirmations", "requested_auth_configs"}
# The turn that an agent's model is taking; agents beside each other are tasks of their own, and have one each.
_turn: ContextVar[tuple[Turn, str] | None] = ContextVar("indelible_turn", default=None)
# The run and the turn of the call around us, if that is of an `AgentTool`: ADK forgets the session inside of it.
_around: ContextVar[tuple[str, str | None] | None] = ContextVar("indelible_around", default=None)


class Answer(NamedTuple):
    """Is what an app is resumed with: a message, the invocation that asked, and what still waits for a person.

    `waiting` holds the ids of approvals that are pending, and of effects that are in doubt.
    """

    message: types.Content
    invocation_id: str
    waiting: Sequence[str]


class LedgerPlugin(WatchingPlugin):
    """Lets each tool call of an app run at most once and with permission, whoever resumes its session, and wherever.

    `terms` says how single tools are treated, in the words of `@ledger.tool`; further words hold for all of them. Calls
    belong to the run that `run` names, by default the session. With `record_turns`, each turn of the model is an event
    of that run.

    `strict` refuses what would run without the ledger, unless `allow` names it: code executors, hosted tools,
    callbacks, nodes of workflows, agents of your own and remote ones, live runs.
    """

    guards_every_runner = False

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        run: str | RunOf | None = None,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        record_turns: bool = False,
        strict: bool = False,
        allow: Iterable[str] = (),
        watch: Watch | None = None,
        **usual: Any,
    ) -> None:
        super().__init__(watch or Watch(strict, tuple(allow)), NAME)
        let_resumed_calls_ask()
        hear_clients()
        self._ledger = ledger.awaited
        self._run = run
        self._terms = Terms(terms, usual)
        self._records_turns = record_turns

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Note what the app runs without the ledger, before anything of it runs."""
        await super().before_run_callback(invocation_context=invocation_context)
        if invocation_context.agent is None and not self.guards_every_runner:  # plugins do not get to see a workflow
            self._watch.note(FRAMEWORK, "workflow nodes", [invocation_context.app_name])

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Put a gate at the tool itself, where all callbacks are over: none changes the arguments afterwards.

        An answer to the ledger's question is kept from the tool, and from the callbacks after this one.
        """
        if tool_context.tool_confirmation is not None:
            tool_context.tool_confirmation = own_answer(tool_context)
        if isinstance(tool, AgentTool) and not tool.include_plugins and not self.guards_every_runner:
            self._watch.note(FRAMEWORK, "agents as tools", [tool.name])
        if inspect.isasyncgenfunction(getattr(tool, "func", None)):
            raise BadCall(f"{tool.name}: streams while it runs, so no ledger can tell when it is done; leave it out")
        if not _is_inside(tool):
            _Gate.stand_at(tool)
        return None

    async def walk(
        self, tool: BaseTool, args: dict[str, Any], context: ToolContext, run: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Run a tool call, replay it, ask for a confirmation, or tell the model why not."""
        try:
            call_args = _bound(tool, args)
        except BadCall as wrong:
            return {"error": str(wrong)}
        supplies = partial(self._supplied, tool, context)
        try:
            call = self._call(tool, call_args, context)
        except NameTaken as wrong:
            return {"error": str(wrong)}
        entry = _Entry(call, tool, context, run, self._terms.at_once(tool.name), args, supplies)
        return await entry.walk_async(self._ledger, entry.words)

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Note what a model is about to be asked, and when, and what its provider would run."""
        await super().before_model_callback(callback_context=callback_context, llm_request=llm_request)
        if self._records_turns:
            asked = [llm_request.config.system_instruction, [_content_in(one) for one in llm_request.contents]]
            _turn.set((Turn.asking(asked), llm_request.model or "unknown"))

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Records what came of a model's turn, durable before the app goes on; parts of a stream are not the end."""
        if not llm_response.partial:
            await self._end_turn(callback_context, lambda turn, model: _told(turn, model, llm_response))

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        """Records that a model gave no answer."""
        kind, said = type(error).__name__, str(error)
        await self._end_turn(callback_context, lambda turn, model: turn.failed(model, kind, said))

    async def _end_turn(self, context: CallbackContext, told: Callable[[Turn, str], dict[str, Any]]) -> None:
        begun = _turn.get()
        if begun is not None:
            _turn.set(None)
            await self._ledger.record(self._run_of(context), f"adk.{MODEL_INVOKED}", told(*begun))

    def _call(self, tool: BaseTool, args: Mapping[str, Any], context: ToolContext) -> ToolCall:
        around = _around.get()
        named = Named(
            tool=tool.name,
            injected=self._supplied(tool, context),
            args=args,
            run_id=self._run_of(context),
            call_id=context.function_call_id,
            schema=_schema_of(tool),
            turn=context.invocation_id if around is None else around[1],
            reads=lambda edited: _bound(tool, dict(edited)),
        )
        return self._terms.call(named)

    def _supplied(self, tool: BaseTool, context: ToolContext) -> dict[str, Any]:
        """Return what the app gives the tool beside the model's arguments now, as it is recorded."""
        beside = _context_name(tool)
        supplied = {"state": _state_of(context), "user_id": context.user_id}
        return {} if beside is None else {beside: recorded(supplied, self._terms.unbound(tool.name))}

    def _run_of(self, context: Any) -> str:
        around = _around.get()
        if around is not None:
            return around[0]
        if self._run is not None:
            return self._run if isinstance(self._run, str) else self._run(context)
        return run_of(context.session)

    async def answer(self, session: Session) -> Answer | None:
        """Answer what one invocation of a session asked for the ledger, so that its app looks again.

        ADK resumes one invocation at a time. Those in which nothing waits for a person come first.

        Returns:
            What to resume the app with; None if nothing is asked.
        """
        asked: dict[str, list[Question]] = {}
        for one in open_questions(session.events).values():
            asked.setdefault(one.invocation_id, []).append(one)
        answers = [await self._answer(questions) for questions in asked.values()]
        return min(answers, key=lambda answer: bool(answer.waiting), default=None)

    async def _answer(self, asked: Sequence[Question]) -> Answer:
        waiting = [open_ for one in asked if (open_ := await self._waits_for(one.payload)) is not None]
        parts = [
            types.Part(function_response=types.FunctionResponse(id=one.id, name=one.name, response={"confirmed": True}))
            for one in asked
        ]
        return Answer(types.Content(role="user", parts=parts), asked[0].invocation_id, waiting)

    async def _waits_for(self, asked: Mapping[str, Any]) -> str | None:
        """Return the id of what a person still has to decide or to settle; None if the app can go on."""
        approval, effect = asked.get("approval"), asked.get("effect")
        if approval is not None:
            about = await self._ledger.get_approval(approval)
            return None if about is None or about.status != "pending" else about.id
        doubted = None if effect is None else await self._ledger.get_effect(effect)
        return None if doubted is None or doubted.status != "in_doubt" else doubted.id


def run_of(session: Session) -> str:
    """Name the run of a session as ADK knows it, by app, user and id: "billing/ana/order-123".

    Two users may each have a session "main". A slash inside of a name is written as `%2F`, and `%` as `%25`.
    """
    names = (session.app_name, session.user_id, session.id)
    return "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)


class _Gate(AtTool):
    """Stands at a tool: the plugin of the app that calls it lets calls through; an app without one calls the tool."""

    method = "run_async"

    async def __call__(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        plugin = tool_context._invocation_context.plugin_manager.get_plugin(NAME)
        if not isinstance(plugin, LedgerPlugin):
            return await self._plain(args=args, tool_context=tool_context)
        return await plugin.walk(self._tool, args, tool_context, self._plain)


class _Entry(Entry):
    """One call on its way. What the tool returned stays at hand, so that only a repeat gets it from the record."""

    def __init__(
        self,
        call: ToolCall,
        tool: BaseTool,
        context: ToolContext,
        run: Callable[..., Awaitable[Any]],
        words: dict[str, Any],
        said: Mapping[str, Any],
        supplies: Callable[[], dict[str, Any]],
    ) -> None:
        super().__init__(call)
        self.words = words
        self._said = said
        self._supplies = supplies
        self._tool = tool
        self._context = context
        self._run = run
        self._live: list[Any] = []
        self._halt: NodeInterruptedError | None = None
        self._is_asking = False
        self._told: Any = None
        """What ADK made of an error, or of a lost answer."""

    async def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments."""
        self.check_injected(effect, supplies=self._supplies)
        known = {name: value for name, value in effect.args.items() if name not in self.call.injected}
        with self.running(effect):
            gives = None if _signature(self._tool) is None else partial(_values, self._tool)
            args = self.handed_over(known, self._said, lambda args: _bound(self._tool, dict(args)), gives)
            result = await self._entered(_entered_with(self._tool, args), effect)
            self._live.append(result)
            self._is_asking = self._asks()
            if self._is_asking:
                raise paused_by(ToolAsked("it asked for a confirmation or for credentials"), effect, self.words)
        done = self._context.actions.model_dump(mode="json", exclude_defaults=True, exclude=_ASKS)
        written = {name: one for name, one in done.pop("state_delta", {}).items() if not _is_hidden(name, one)}
        return {"gave": as_json(result), "actions": done | ({"state_delta": written} if written else {})}

    async def _entered(self, args: dict[str, Any], effect: RunningEffect) -> Any:
        """Enter the tool. An agent or a node inside of it may pause, and goes on where it stopped."""
        is_forgotten = isinstance(self._tool, AgentTool) and type(self._tool).run_async is AgentTool.run_async
        token = _around.set((effect.effect.run_id, self.call.turn) if is_forgotten else _around.get())
        try:
            return await self._sent(args, effect)
        except NodeInterruptedError as halt:
            self._halt = halt
            if isinstance(self._tool, (AgentTool, NodeTool)):  # its calls are guarded one by one
                raise NothingHappened("what runs inside of it asks a person") from None
            raise paused_by(ToolAsked("a node inside of it asks a person"), effect, self.words) from None
        finally:
            _around.reset(token)

    async def _sent(self, args: dict[str, Any], effect: RunningEffect) -> Any:
        """Enter the tool, and judge a result that ADK made of an error by that error; a lost answer is not the tool's.

        What asks a person or tells of a rejection is a result.
        """
        self._told = None
        with noting(self._tool) as sent:
            try:
                result = await self._run(args=args, tool_context=self._context)
            except Exception as error:
                if sent.lost is error:
                    raise_doubt(error, effect)
                raise
        answered = self._context.tool_confirmation
        if self._asks() or (answered is not None and not answered.confirmed):
            return result
        made_of = sent.error_in(result)
        if made_of is None:
            return result
        self._told = result
        if made_of is sent.lost:
            raise_doubt(made_of, effect)
        raise made_of

    def _asks(self) -> bool:
        call_id, actions = self._context.function_call_id, self._context.actions
        return call_id in actions.requested_tool_confirmations or call_id in actions.requested_auth_configs

    def _heard(self, recorded: Any) -> Any:
        """Leave out what is not to be done again: all that this process did, and what has parts that are redacted."""
        if _is_ours(recorded):
            actions = {} if self._live else dict(recorded["actions"])
            written = actions.pop("state_delta", {}).items()
            kept = {name: one for name, one in written if not holds_mark([name, one])}
            recorded = {**recorded, "actions": {**actions, "state_delta": kept}}
        return super()._heard(recorded)

    def given(self, recorded: Any) -> Any:
        """Return what the tool returned, and do again what it did to the session, now or when it ran."""
        if self._live:
            return self._live[0]
        if not _is_ours(recorded):
            return self._noted(plain(recorded))  # another framework recorded it, or a person settled it by hand
        done = EventActions.model_validate(recorded["actions"])
        for name in done.model_fields_set:
            value, current = getattr(done, name), getattr(self._context.actions, name)
            if isinstance(current, dict):
                current.update(value)
            else:
                setattr(self._context.actions, name, value)
        return self._noted(recorded["gave"])

    def _noted(self, gave: Any) -> Any:
        if self.note is None or (gave is None and self._tool.is_long_running):  # its result comes from elsewhere
            return gave
        return {**(gave if isinstance(gave, dict) else {"result": gave}), NAME: self.note}

    def told_of(self, refusal: Exception, error: Exception) -> Any:
        """Return what the model hears of a call without a value, or ask for a confirmation."""
        if self._halt is not None:
            raise self._halt
        if self._is_asking:
            return self._live[0]  # what the tool asks is asked as it is
        text = getattr(heard_of(refusal, self.call.tool), "text", str(refusal))
        match refusal:
            case EffectFailed() if self._told is not None:
                return self._told
            case EffectFailed() if refusal is error and isinstance(self._tool, mcp_tool()):
                return {"error": text}  # as ADK tells errors of MCP tools
            case EffectFailed() if refusal is error:
                raise ToolFailed(text) from refusal
            case ApprovalPending():
                return self._pause(text, question_of(refusal, self.elsewhere))
            case EffectInDoubt():
                return self._pause(text, doubt_of(refusal))
            case _ if isinstance(refusal, (NothingHappened, *SAID_TO_THE_MODEL)):
                return {"error": text}
            case _:
                raise error  # of a tool that failed now, ADK's own error callbacks hear

    def _pause(self, text: str, payload: dict[str, Any]) -> dict[str, str]:
        """Ask for a confirmation by ADK's own means, by which the app stops."""
        self._context.request_confirmation(hint=text, payload=payload)
        self._context.actions.skip_summarization = True  # the model has nothing to say to this
        return {"error": text}


def _is_inside(tool: BaseTool) -> bool:
    """Say whether a tool does nothing outside of the app: all of it is ADK's own code."""
    enters = type(tool).run_async
    return isinstance(tool, _INSIDE) and is_adks(enters) and is_adks(getattr(tool, "func", enters))


def _context_name(tool: BaseTool) -> str | None:
    """Return the name under which what a tool gets beside its arguments is recorded; None if it gets nothing.

    A function gets the context if it has a parameter for it. Tools of other kinds get it always.
    """
    if isinstance(tool, FunctionTool):
        name = tool._context_param_name
        return name if name in inspect.signature(tool.func).parameters else None
    declared = tool._get_declaration()
    return name_beside(None if declared is None else declared.parameters_json_schema, "tool_context")


def _state_of(context: ToolContext) -> dict[str, Any]:
    """Return the session's state, without what ADK keeps there for itself, as credentials that a tool asked for."""
    state: dict[str, Any] = context.state.to_dict()
    return {
        name: value for name, value in state.items() if not _is_reserved(name) and not isinstance(value, AuthCredential)
    }


def _is_reserved(name: str) -> bool:
    return name.removeprefix("temp:").startswith("_adk")


def _is_hidden(name: str, written: Any) -> bool:
    """Say whether what a tool wrote to the state is not recorded: ADK's own fields, and what has a secret in it."""
    return _is_reserved(name) or holds_secret(name, written)


def _is_ours(recorded: Any) -> bool:
    return isinstance(recorded, Mapping) and set(recorded) == {"gave", "actions"}


def _signature(tool: BaseTool) -> inspect.Signature | None:
    """Return what a function takes from the model; None if the tool is no plain function."""
    if not isinstance(tool, FunctionTool) or type(tool).run_async is not FunctionTool.run_async:
        return None
    try:
        signature = inspect.signature(tool.func)
    except (TypeError, ValueError):  # some builtins have none
        return None
    taken = [one for one in signature.parameters.values() if one.name not in tool._ignore_params]
    is_open = any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in taken)
    return None if is_open else signature.replace(parameters=taken)


def _bound(tool: BaseTool, args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with every default: of the function's signature, or of what the tool declares."""
    signature = _signature(tool)
    if signature is None:
        declared = tool._get_declaration()
        schema = None if declared is None else declared.parameters_json_schema or declared.parameters
        schema = schema.model_dump(exclude_none=True) if isinstance(schema, types.Schema) else schema
        return bound(schema, args, tool.name)
    defaults = {
        name: shown_of(one.default, f"args.{name}")
        for name, one in signature.parameters.items()
        if one.default is not one.empty
    }
    # ADK leaves out what the function does not take.
    taken = {name: value for name, value in args.items() if name in signature.parameters}
    return _read(tool, bound(signature, defaults | taken, tool.name))


def _values(tool: Any, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a function gets: ADK leaves its defaults to Python."""
    signature = _signature(tool)
    assert signature is not None, "only functions fill in defaults"
    usual = {name: one.default for name, one in signature.parameters.items() if one.default is not one.empty}
    return {**usual, **tool._preprocess_args_with_validation(dict(args))[0]}


def _read(tool: BaseTool, args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function as ADK hands them to it, with what its models make of them."""
    assert isinstance(tool, FunctionTool), "only functions have a signature"
    read, errors = tool._preprocess_args_with_validation(args)
    if errors:
        raise BadCall(f"{tool.name} was not called: {'; '.join(errors)}")
    return {**args, **shown_of(read)}


def _entered_with(tool: BaseTool, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recorded arguments. Defaults that JSON cannot say, such as a date, are left to the function."""
    parameters = getattr(_signature(tool), "parameters", {})
    defaults = {name: one.default for name, one in parameters.items() if one.default is not one.empty}
    said = {name: as_json(default) for name, default in defaults.items()}
    return {
        name: value
        for name, value in args.items()
        if said.get(name) is defaults.get(name) or not is_same(said[name], value)
    }


def _schema_of(tool: BaseTool) -> str:
    declared = tool._get_declaration()
    parameters = None if declared is None else declared.model_dump(mode="json", exclude_none=True)
    return hash_of([tool.name, tool.description, parameters])


def _content_in(content: types.Content) -> Any:
    return content.model_dump(mode="json", exclude_none=True)


def _told(turn: Turn, model: str, response: LlmResponse) -> dict[str, Any]:
    model_id = response.model_version or model
    if response.error_code is not None:
        return turn.failed(model_id, response.error_code, response.error_message or "")
    asked = [part.function_call for part in (response.content and response.content.parts) or () if part.function_call]
    calls = [Spoken(call.id, str(call.name), call.args) for call in asked]
    used = response.usage_metadata
    tokens = (0, 0) if used is None else (used.prompt_token_count or 0, used.candidates_token_count or 0)
    return turn.answered(model_id, None if response.content is None else _content_in(response.content), calls, tokens)
