"""Strands: a plugin that puts every tool call of an agent behind the ledger, with the SDK's interrupts as its pauses.

    plugin, session = LedgerPlugin(ledger), FileSessionManager("order-123")
    agent = Agent(model, tools=[charge], session_manager=session, plugins=[plugin])
    result = agent("charge what is due")
    if result.stop_reason == "interrupt":                  # the session keeps it; resume whenever, wherever
        …
    agent(plugin.answer(agent))

What is answered to an interrupt decides nothing: what runs is what people let run at the ledger. Calls belong to the
session. Since the user's last message, the same tool with the same arguments is the same call. Agents that are tools of
the agent stand behind the ledger too, and their calls belong to the same run and turn.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from strands import Agent
from strands.agent._agent_as_tool import _AgentAsTool
from strands.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolsEvent,
    AgentInitializedEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    HookOrder,
)
from strands.interrupt import InterruptException
from strands.middleware import ExecuteToolContext, ExecuteToolStage, InvokeModelStage
from strands.plugins import Plugin
from strands.tools.decorator import DecoratedFunctionTool
from strands.tools.mcp import MCPAgentTool
from strands.tools.structured_output.structured_output_tool import StructuredOutputTool
from strands.types._events import ToolInterruptEvent
from strands.types.events import ToolResultEvent, TypedEvent
from strands.types.session import decode_bytes_values, encode_bytes_values

from indelible import AsyncLedger, Ledger, MayHaveHappened, NothingHappened, RunningEffect, ToolCall, current_effect
from indelible.errors import ApprovalPending, EffectFailed, EffectInDoubt, IndelibleError, NoRun
from indelible.integrations.entries import Entry, doubt_of, paused_by, raise_doubt
from indelible.integrations.injected import name_beside, recorded
from indelible.integrations.model_turns import MODEL_INVOKED, Turn
from indelible.integrations.models import shown_of
from indelible.integrations.results import ToolError as ToolError
from indelible.integrations.results import text_in
from indelible.integrations.strands_lost import hear_clients, is_lost, noting_lost
from indelible.integrations.strands_ways import note_agent, note_model
from indelible.integrations.telling import heard_of
from indelible.integrations.terms import (
    SAID_TO_THE_MODEL,
    Named,
    NameTaken,
    Spoken,
    Terms,
    hash_of,
    question_of,
)
from indelible.integrations.ways import Watch, module_of

RunOf = Callable[[ExecuteToolContext], str]
Next = Callable[[ExecuteToolContext], AsyncGenerator[TypedEvent, None]]
_ASKED = ("indelible.approval", "indelible.in_doubt")
_REFUSALS, _TURN = "indelible_refusals", "indelible_turn"
_STATE = "indelible_turn"
"""The name of the turn in an agent's state."""
# What the SDK puts into `invocation_state` for itself.
_ITS_OWN = frozenset(
    {"agent", "model", "messages", "system_prompt", "tool_config", "request_state", _REFUSALS, _TURN, "cancel_signal"}
)


class LedgerPlugin(Plugin):
    """Lets each tool call of an agent run at most once and with permission, whoever resumes its session, and wherever.

    `terms` says how single tools are treated, in the words of `@ledger.tool`; further words hold for all of them. Calls
    belong to the run that `run` names, by default the session, and to the turn that `turn` names, by default the user's
    last message. With `record_turns`, each turn of the model is an event of that run.

    `strict` refuses what would run without the ledger, unless `allow` names it: hosted tools, and hooks, middleware and
    executors of your own.
    """

    name = "indelible"

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        run: str | RunOf | None = None,
        turn: str | Callable[[], str] | None = None,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        record_turns: bool = False,
        strict: bool = False,
        allow: Iterable[str] = (),
        watch: Watch | None = None,
        **usual: Any,
    ) -> None:
        super().__init__()
        hear_clients()
        self._watch = watch or Watch(strict, tuple(allow))
        self._ledger = ledger.awaited
        self._run = run
        self._terms = Terms(terms, usual)
        self._records_turns = record_turns
        self._turn = turn
        self._turns: WeakKeyDictionary[Agent, str | None] = WeakKeyDictionary()
        """The turns of agents that are invoked now."""

    def init_agent(self, agent: Agent) -> None:
        """Waits until the agent is made: then it stands inside of all middleware that the agent was made with."""
        agent.add_hook(self._stand_innermost, AgentInitializedEvent)
        self._hear(agent)
        if self._records_turns:
            agent.add_hook(_begin_turn, BeforeModelCallEvent)
            agent.add_hook(self._end_turn, AfterModelCallEvent)

    def guard(self, agent: Agent) -> None:
        """Stand before the tools of an agent that was made already, unless a plugin of ours does."""
        stages = agent._middleware_registry._handlers.get(ExecuteToolStage, ())
        if not any(isinstance(getattr(one.handler, "__self__", None), LedgerPlugin) for one in stages):
            self._stand_before(agent)
            self._hear(agent)

    def _hear(self, agent: Agent) -> None:
        agent.add_hook(self._stop, AfterToolsEvent)
        agent.add_hook(self._look, [BeforeInvocationEvent, BeforeModelCallEvent], order=HookOrder.SDK_FIRST)
        self._follow_turns(agent)

    def _follow_turns(self, agent: Agent) -> None:
        agent.add_hook(self._name_turn, BeforeInvocationEvent, order=HookOrder.SDK_LAST)
        agent.add_hook(self._forget_turn, AfterInvocationEvent, order=HookOrder.SDK_LAST)

    def _name_turn(self, event: BeforeInvocationEvent) -> None:
        """Name the turn once, for the SDK may replace messages in the middle of it; the agent's state keeps it.

        An agent that goes on without words of the user's stays in the turn that is kept: a hook may have written the
        last message of its session.
        """
        agent, said = event.agent, list(event.messages or [])
        if agent in self._turns:
            return  # a hook goes on with the turn
        kept = agent.state.get(_STATE)
        turn = self._turn_in(agent, said)
        if kept is not None and _last_said(said) is None:
            turn = kept
        self._turns[agent] = turn
        if turn is not None and turn != kept:
            agent.state.set(_STATE, turn)

    def _forget_turn(self, event: AfterInvocationEvent) -> None:
        if event.resume is None:  # otherwise a hook invokes the agent once more, in the same turn
            self._turns.pop(event.agent, None)

    def _turn_of(self, agent: Agent) -> str | None:
        """Return the turn of an agent. One without a session, inside of a call, is in the turn of that call."""
        if self._turn is not None:
            return self._turn() if callable(self._turn) else self._turn
        running = current_effect()
        if running is not None and _session_of(agent) is None:
            return running.effect.turn
        # A program that calls a tool by the agent is in the turn of the last invocation, whatever the SDK writes of it.
        return self._turns[agent] if agent in self._turns else agent.state.get(_STATE)

    def _turn_in(self, agent: Agent, more: Sequence[Any]) -> str | None:
        """Name the turn by the user's last message to this agent; a session may have several, each with an id."""
        session, turn = _session_of(agent), _turn(agent, more)
        return turn if turn is None or session is None else f"{session}/{agent.agent_id} {turn}"

    def _look(self, event: BeforeInvocationEvent | BeforeModelCallEvent) -> None:
        """Note what the agent runs without the ledger, before it runs and before its model is asked."""
        note_agent(self._watch, event.agent, event.agent.model)

    def answer(self, agent: Agent) -> list[Any]:
        """Answers the interrupts that an agent's session has for the ledger, so that the agent looks again."""
        return [
            {"interruptResponse": {"interruptId": one.id, "response": "look again"}}
            for one in agent._interrupt_state.interrupts.values()
            if one.response is None and isinstance(one.reason, Mapping) and one.reason.get("type") in _ASKED
        ]

    def _stand_innermost(self, event: AgentInitializedEvent) -> None:
        self._stand_before(event.agent)

    def _stand_before(self, agent: Agent) -> None:
        agent.add_middleware(ExecuteToolStage, self.gate)
        agent.add_middleware(InvokeModelStage, self._look_at_model)

    async def _look_at_model(self, context: Any, next_fn: Any) -> AsyncGenerator[Any, None]:
        """Note what the provider of the model runs that is asked in the end: a router may have chosen it."""
        note_model(self._watch, context.model)
        async with aclosing(next_fn(context)) as events:
            async for event in events:
                yield event

    def _stop(self, event: AfterToolsEvent) -> None:
        """Stops the agent when the ledger refused to go on: by itself, the SDK would tell the model, and go on."""
        refusals = event.invocation_state.pop(_REFUSALS, [])
        if refusals:
            raise refusals[0]

    async def _end_turn(self, event: AfterModelCallEvent) -> None:
        """Records what came of a model's turn; it is durable before the agent goes on."""
        turn: Turn | None = event.invocation_state.pop(_TURN, None)
        if turn is not None and not isinstance(event.exception, IndelibleError):
            await self._ledger.record(self._run_of(event), f"strands.{MODEL_INVOKED}", _told(turn, event))

    async def gate(self, context: ExecuteToolContext, next_fn: Next) -> AsyncGenerator[TypedEvent, None]:
        """Runs a tool call, replays it, interrupts the agent, or tells the model why not."""
        if context.tool is None or _is_inside(context.tool):  # nothing is done outside
            async for event in next_fn(context):
                yield event
            return
        if isinstance(context.tool, _AgentAsTool):
            self.guard(context.tool.agent)
        try:
            words = self._terms.at_once(context.tool.tool_name, context.tool_use["name"])
            entry = _Entry(context, next_fn, self._call(context), words, partial(self._supplied, context))
        except (_Misfit, NameTaken) as wrong:
            yield _result(context, "error", [{"text": str(wrong)}], wrong)
            return
        except IndelibleError as refusal:
            context.invocation_state.setdefault(_REFUSALS, []).append(refusal)
            raise
        walk = asyncio.ensure_future(entry.walk_async(self._ledger, entry.words))
        walk.add_done_callback(lambda _: entry.told.put_nowait(None))
        try:
            while (told := await entry.told.get()) is not None:  # what a tool streams is passed on as it comes
                yield told
            yield await walk
        except IndelibleError as refusal:
            context.invocation_state.setdefault(_REFUSALS, []).append(refusal)
            raise
        finally:
            walk.cancel()
            await asyncio.gather(walk, return_exceptions=True)  # what became of it is on the record before we leave

    def _call(self, context: ExecuteToolContext) -> ToolCall:
        use, tool = context.tool_use, context.tool
        assert tool is not None, "unknown tools do not come this far"
        named = Named(
            tool=tool.tool_name,  # a hook may have put it in the place of the tool that was called
            injected=self._supplied(context),
            args=_validated(tool, use["input"]),
            run_id=self._run_of(context),
            call_id=use["toolUseId"],
            schema=hash_of(tool.tool_spec),
            turn=self._turn_of(context.agent),
            parameters=None if _validates(tool) else tool.tool_spec["inputSchema"].get("json"),
            reads=partial(_validated, tool),
        )
        return self._terms.call(named)

    def _supplied(self, context: ExecuteToolContext) -> dict[str, Any]:
        """Return what the agent gives the tool beside the model's arguments now, as it is recorded."""
        tool: Any = context.tool
        beside = _context_name(tool)
        supplied = {"invocation_state": _given(context), "state": _state_of(context.agent)}
        return {} if beside is None else {beside: recorded(supplied, self._terms.unbound(tool.tool_name))}

    def _run_of(self, context: Any) -> str:
        if self._run is not None:
            return self._run if isinstance(self._run, str) else self._run(context)
        running = current_effect()
        found = _session_of(context.agent) or (None if running is None else running.effect.run_id)
        if not found:
            raise NoRun("an agent's calls belong to its session: give it a session_manager, or say run='order-123'")
        return found


class _Misfit(ValueError):
    """The arguments do not fit the tool, so it is not called."""


class _Entry(Entry):
    """One call on its way. What the tool returned stays at hand, so that only a repeat gets it from the record."""

    def __init__(
        self,
        context: ExecuteToolContext,
        next_fn: Next,
        call: ToolCall,
        words: dict[str, Any],
        supplies: Callable[[], dict[str, Any]],
    ) -> None:
        super().__init__(call, context.tool_use["toolUseId"])
        self._supplies = supplies
        self.words = words
        self.context = context
        self.told: asyncio.Queue[TypedEvent | None] = asyncio.Queue()
        self._next = next_fn
        self._live: ToolResultEvent | None = None
        self._halt: ToolInterruptEvent | InterruptException | None = None

    async def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments."""
        self.check_injected(effect, supplies=self._supplies)
        known = {name: value for name, value in effect.args.items() if name not in self.call.injected}
        with self.running(effect), noting_lost() as lost:
            tool: Any = self.context.tool
            gives = tool._metadata.validate_input if _validates(tool) else None
            said = self.handed_over(known, self.context.tool_use["input"], partial(_validated, tool), gives)
            use: Any = {**self.context.tool_use, "input": said}
            try:
                async for event in self._next(self.context.replace(tool_use=use)):
                    self._hear(event)
            except InterruptException as interrupt:
                self._halt = interrupt
            if self._halt is not None:
                raise self._paused(effect)
            if self._live is None:
                raise MayHaveHappened("the tool was entered, and no result came of it")
            if self._live.tool_result["status"] == "error":
                error = self._live.exception or ToolError(_text_of(self._live))
                raised, is_of_server = self._live.exception, isinstance(tool, MCPAgentTool)
                is_own = raised is not None and not is_of_server  # the tool's own word, unless the client raised it
                is_of_client = any(raised is one for one in lost) if is_own else bool(lost)
                if is_of_client or (is_of_server and is_lost(tool.mcp_client, self._live.tool_result)):
                    raise_doubt(error, effect)
                raise error
        return {"gave": _kept(self._live.tool_result["content"])}

    def _paused(self, effect: RunningEffect) -> Exception:
        """Return what it means that the tool interrupts the agent. An agent inside goes on where it stopped."""
        if isinstance(self.context.tool, _AgentAsTool):  # its calls are guarded one by one
            return NothingHappened("the agent inside interrupts the agent")
        halt = self._halt
        assert halt is not None, "it interrupts"
        pause = InterruptException(halt.interrupts[0]) if isinstance(halt, ToolInterruptEvent) else halt
        return paused_by(pause, effect, self.words)

    def _hear(self, event: TypedEvent) -> None:
        match event:
            case ToolInterruptEvent():
                self._halt = event
            case ToolResultEvent():
                self._live = event
            case _:
                self.told.put_nowait(event)

    def given(self, recorded: Any) -> TypedEvent:
        """Return what the tool returned, now or when it ran."""
        if self._live is not None:
            return self._live
        is_ours = isinstance(recorded, Mapping) and "gave" in recorded
        # Otherwise a person settled it by hand, with a value of their own.
        content = decode_bytes_values(recorded["gave"]) if is_ours else [{"text": text_in(recorded)}]
        note = [] if self.note is None else [{"text": self.note}]
        return _result(self.context, "success", [*content, *note])

    def told_of(self, refusal: Exception, error: Exception) -> TypedEvent:
        """Return what the model hears of a call without a value, or interrupt the agent."""
        if isinstance(self._halt, InterruptException):
            raise self._halt
        if self._halt is not None:
            return self._halt  # what the tool asks is asked as it is
        match refusal:
            case ApprovalPending():
                return self._pause(question_of(refusal, self.elsewhere))
            case EffectInDoubt():
                return self._pause(doubt_of(refusal))
            case _:
                heard = heard_of(refusal, self.call.tool)
                if heard is None or not isinstance(refusal, (NothingHappened, EffectFailed, *SAID_TO_THE_MODEL)):
                    raise error
                return _result(self.context, "error", [{"text": heard.text}], error)

    def _pause(self, question: Mapping[str, Any]) -> TypedEvent:
        """Interrupt the agent: anew after every answer, for the SDK hands out old answers again."""
        about = question.get("approval", question["type"])
        for time in itertools.count(1):
            self.context.interrupt(f"{about} {time}", reason={**question, "tool": self.call.tool})
        raise AssertionError("the SDK interrupts where there is no answer")


def _result(context: ExecuteToolContext, status: Any, content: Any, error: Exception | None = None) -> ToolResultEvent:
    use_id = context.tool_use["toolUseId"]
    return ToolResultEvent({"toolUseId": use_id, "status": status, "content": content}, exception=error)


def _is_inside(tool: Any) -> bool:
    """Say whether a tool does nothing outside: it makes the structured output, or hands over in a swarm."""
    is_output = isinstance(tool, StructuredOutputTool) and type(tool).stream is StructuredOutputTool.stream
    return is_output or module_of(getattr(tool, "_tool_func", None)) == "strands.multiagent.swarm"


def _context_name(tool: Any) -> str | None:
    """Return the name under which what a tool gets beside its arguments is recorded; None if it gets nothing.

    A decorated function gets it if it has a parameter for it. Tools of other kinds get it always, but for those of MCP
    servers and agents, which make no use of it.
    """
    if isinstance(tool, (MCPAgentTool, _AgentAsTool)):
        return None
    if not isinstance(tool, DecoratedFunctionTool):
        return name_beside(tool.tool_spec["inputSchema"].get("json"), "tool_context")
    taken = tool._metadata.signature.parameters
    return next((name for name in (tool._metadata._context_param, "agent") if name in taken), None)


def _given(context: ExecuteToolContext) -> dict[str, Any]:
    """Return what the program gave the agent for its tools."""
    given = context.invocation_state.items()
    return {name: one for name, one in given if name not in _ITS_OWN and not name.startswith("event_loop_")}


def _session_of(agent: Any) -> str | None:
    found = getattr(getattr(agent, "_session_manager", None), "session_id", None)
    return str(found) if found else None


def _validates(tool: Any) -> bool:
    """Say whether the SDK reads the arguments of this tool by a model of its own, defaults included."""
    return isinstance(tool, DecoratedFunctionTool)


def _validated(tool: Any, args: Any) -> Any:
    """Return the arguments as the tool's own validation makes them, defaults included."""
    if not _validates(tool):
        return args
    try:
        return shown_of(tool._metadata.validate_input(args))
    except ValueError as wrong:
        raise _Misfit(str(wrong)) from wrong


def _state_of(agent: Any) -> dict[str, Any]:
    """Return the agent's state, without what is kept there for the ledger."""
    return {name: one for name, one in agent.state.get().items() if name != _STATE}


def _last_said(messages: Sequence[Any]) -> int | None:
    """Return where the user's last message stands; results of tools are none."""
    said = [
        place
        for place, message in enumerate(messages)
        if message["role"] == "user" and any("toolResult" not in part for part in message["content"])
    ]
    return said[-1] if said else None


def _turn(agent: Any, more: Sequence[Any]) -> str | None:
    """Name the turn by the user's last message: its place in the session and its words; None before the first.

    A message that is sent again to a session that was put back has the same place, but another id. A program may clear
    the messages of an agent: what the message says counts too. A summary of messages is none itself.

    Args:
        agent: The agent.
        more: Messages that come next.
    """
    manager = getattr(agent, "conversation_manager", None)
    cut_off, summary = getattr(manager, "removed_message_count", 0), getattr(manager, "_summary_message", None)
    messages = [one for one in (*agent.messages, *more) if summary is None or one != summary]
    place = _last_said(messages)
    if place is None:
        return None
    return f"message {cut_off + place} {hash_of(messages[place]['content'])[:16]}"


def _kept(content: Any) -> Any:
    """Gives what a tool gave as JSON; what JSON cannot say is kept as a text."""
    return json.loads(json.dumps(encode_bytes_values(content), default=str))


def _text_of(event: ToolResultEvent) -> str:
    return " ".join(str(part.get("text", "")) for part in event.tool_result["content"]).strip() or "the tool failed"


def _begin_turn(event: BeforeModelCallEvent) -> None:
    """Notes what a model is about to be asked, and when."""
    event.invocation_state[_TURN] = Turn.asking([event.agent.system_prompt, event.agent.messages])


def _told(turn: Turn, event: AfterModelCallEvent) -> dict[str, Any]:
    model = event.agent.model
    model_id = str((model.get_config() or {}).get("model_id") or type(model).__name__)
    if event.stop_response is None:
        return turn.failed(model_id, type(event.exception).__name__, str(event.exception))
    message: Mapping[str, Any] = event.stop_response.message
    uses = [part["toolUse"] for part in message["content"] if "toolUse" in part]
    calls = [Spoken(use["toolUseId"], use["name"], use["input"]) for use in uses]
    used = (message.get("metadata") or {}).get("usage") or {}
    return turn.answered(model_id, message["content"], calls, (used.get("inputTokens", 0), used.get("outputTokens", 0)))
