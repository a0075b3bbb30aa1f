"""OpenAI Agents: function tools behind the ledger, with the SDK's own interruptions while a person decides.

    gate = LedgerTools(ledger, run="order-123")
    agent = Agent(name="billing", tools=gate.tools([charge]))
    result = await Runner.run(agent, "charge what is due")
    if result.interruptions:
        await gate.keep(result)                         # in the ledger; the process may end
    …
    state = await gate.load(agent)                      # whenever, wherever
    shown = await gate.questions(state)                 # what to show to the approvers: recorded arguments and digest
    if not await gate.answer(state):                    # what people decided at the ledger; nobody is left to be asked
        result = await Runner.run(agent, state)

A state that says "approved" approves nothing: what runs is what the ledger lets run, however often it is resumed.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Handoff,
    ItemHelpers,
    RunContextWrapper,
    RunResult,
    RunResultStreaming,
    RunState,
    Tool,
)
from agents._tool_identity import get_function_tool_lookup_keys
from agents.agent_tool_state import get_agent_tool_state_scope, peek_agent_tool_run_result
from agents.function_schema import FuncSchema
from agents.items import ToolApprovalItem
from agents.mcp import MCPServer
from agents.mcp._compat import result_is_error
from agents.mcp._logging import get_mcp_server_log_name
from agents.run_context import _ApprovalRecord
from agents.tool import with_function_tool_failure_error_handler
from agents.tool_context import ToolContext
from pydantic import BaseModel, ValidationError

from indelible import AsyncLedger, AwaitingApproval, Denied, Ledger, MayRun, NothingHappened, RunningEffect, ToolCall
from indelible.errors import BadCall, EffectFailed, IndelibleError, NoRun, NotRun, ReviewRequired, UnknownRun
from indelible.integrations.dialects import object_in
from indelible.integrations.entries import Entry, note_sent, paused_by, raise_doubt
from indelible.integrations.everywhere.reach import inside_tool
from indelible.integrations.injected import name_beside, recorded
from indelible.integrations.model_turns import unmarked
from indelible.integrations.models import read_by
from indelible.integrations.openai_agents_ways import NAME, entered_by, name_of, note_unguarded, runs_again
from indelible.integrations.pauses import own_question, said_in
from indelible.integrations.results import ToolError, as_json, plain, text_in
from indelible.integrations.results import ToolFailed as ToolFailed
from indelible.integrations.telling import SAID_NOTHING, error_in, heard_of, heard_of_answer, with_note
from indelible.integrations.terms import SAID_TO_THE_MODEL, Named, Terms, hash_of, is_same, question_about, turn_of
from indelible.integrations.ways import Watch

STATE_KEPT = "openai_agents.state_kept"
RunOf = Callable[[RunContextWrapper[Any]], str]
TurnOf = Callable[[RunContextWrapper[Any]], str | None]
OWN_QUESTION = (
    "{tool} was not carried out: the tool asks a person by itself, and they have not been shown its question. Call it "
    "again with exactly the same arguments; then they are asked."
)
_ASKED = "indelible: questions of tools"
"""Where a state keeps, among its approvals, the tools' own questions that people were asked, by their calls' ids."""
_TELLING = frozenset({"text", "image", "file"})


class AgentPaused(Exception):
    """The agent inside of an agent as a tool waits for a person.

    Name it in `nothing_on` if the tool's `input_builder`, `on_stream` and `hooks` may run again when that is resumed.
    """


class LedgerTools:
    """Let each tool call of an agent run at most once and with permission, wherever its state is resumed.

    Args:
        ledger: The ledger.
        run: The run that calls belong to, or a function of the context. The SDK has no id that outlives a state.
        terms: How single tools are treated, in the words of `@ledger.tool`.
        turn: The id of the user's last message, or a function of the context. Default: the number of the user's
            messages in the input of `Runner.run`, and the hash of the last one.
        strict: Refuse what would run without the ledger, also in `check`. Default: False.
        allow: Names of tools that may run without the ledger, for example `web_search`.
        usual: The words of `terms` for all tools.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        run: str | RunOf,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        turn: str | TurnOf | None = None,
        strict: bool = False,
        allow: Iterable[str] = (),
        **usual: Any,
    ) -> None:
        self._watch = Watch(strict, tuple(allow))
        self._ledger = ledger.awaited
        self._run = run
        self._turn = turn
        self._terms = Terms(terms, usual)

    def tools(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the tools behind the ledger. Others than function tools are refused, unless they are allowed."""
        return [self._behind(tool) for tool in tools]

    async def check(self, agent: Agent[Any], context: RunContextWrapper[Any] | None = None) -> tuple[str, ...]:
        """Return the names of what an agent, and those that it hands off to, would run without the ledger.

        Raises:
            BadCall: In strict mode, if there is anything.
        """
        at_hand: RunContextWrapper[Any] = context or RunContextWrapper(context=None)
        todo, done = [agent], list[Agent[Any]]()
        while todo:
            current = todo.pop()
            done.append(current)
            tools = await current.get_all_tools(at_hand)
            functions = [one for one in tools if isinstance(one, FunctionTool)]
            note_unguarded(self._watch, current, tools, [one for one in functions if is_guarded(one)])
            bare = [one.qualified_name for one in functions if not one._is_agent_tool and not is_guarded(one)]
            given = [one.type for one in getattr(current, "capabilities", ())]  # a sandbox: its runner adds tools
            self._watch.note(NAME, "function tools", [*bare, *given])
            inner = [one._agent_instance for one in functions if one._is_agent_tool]
            next_ = [*inner, *(_target_of(one) for one in current.handoffs)]
            todo += [one for one in next_ if isinstance(one, Agent) and not any(one is known for known in done)]
        return tuple(name for _, name in self._watch.seen)

    def _behind(self, tool: Tool) -> Tool:
        if not isinstance(tool, FunctionTool):
            name = name_of(tool)
            if name in self._watch.allowed:
                return tool
            raise BadCall(
                f"{name}: is no function, so no ledger can stand before it; leave it out, or if it only reads say "
                f"allow=[{name!r}]"
            )
        _check_server(tool)
        # What the tool raises is recorded as what it raised; then the tool's own way of telling the model applies.
        bare = copied(tool, _failure_error_function=None, _use_default_failure_error_function=False)
        entrance = _Entrance(self, bare, tool)
        # The ledger keeps the tool's time limit: the SDK would tell the model in words of its own that it timed out.
        return copied(tool, on_invoke_tool=entrance, needs_approval=entrance.asks, timeout_seconds=None)

    async def is_asked(
        self, at: _Entrance, context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
    ) -> bool:
        """Say whether a person is asked about a call, by the ledger or by the tool."""
        try:
            call = self._call(at, context, arguments, call_id)
        except BadCall:  # then nobody is asked about it: the model hears why
            return False
        asked = _asked_in(context)
        asked.pop(call_id, None)
        if isinstance(await self._standing(call), AwaitingApproval):
            return True
        judged = await self._edited(at, call)
        if not await self._needs_own_approval(at, context, judged):
            return False
        if judged is call:  # the SDK shows what the model said; what an approver made of it, `answer` shows
            asked[call_id] = own_question(call)
        return True

    async def is_concerned(self, at: _Entrance, context: ToolContext[Any], arguments: str) -> bool:
        """Say whether a person or a rule has a say in a call, or the record knows it."""
        try:
            call = self._call(at, context, _object_in(at.name, arguments), context.tool_call_id)
        except BadCall:
            return False
        standing = await self._standing(call)
        return not isinstance(standing, MayRun) or standing.effect is not None

    async def invoke(self, at: _Entrance, context: ToolContext[Any], arguments: str) -> Any:
        """Run a call, replay it, or return what the model is told."""
        tool = at.behind
        _check_server(tool)
        try:
            said = _object_in(at.name, arguments)
            call = self._call(at, context, said, context.tool_call_id)
        except NoRun:  # not for the model to mend: without a run nothing goes on
            raise
        except BadCall as misfit:
            return f"{at.name} was not called: {misfit}"
        judged = await self._edited(at, call)
        unasked = await self._unasked(at, context, call, judged)
        if unasked is not None:
            return unasked
        words = self._terms.at_once(at.name)
        if tool.timeout_seconds is not None:
            words.setdefault("timeout", timedelta(seconds=tool.timeout_seconds))
        entry = _Entry(tool, context, call, functools.partial(self._supplied, at, context), at, said, words)
        entry.judged = judged.args if tool.needs_approval else None
        return await entry.walk_async(self._ledger, words)

    def _call(
        self,
        at: _Entrance,
        context: RunContextWrapper[Any],
        arguments: Mapping[str, Any],
        call_id: str,
    ) -> ToolCall:
        name, model = at.name, at.model
        self._terms.extend(at.behind.name, name)
        named = Named(
            tool=name,
            injected=self._supplied(at, context),
            args=arguments if model is None else _read(model, arguments, name),
            run_id=self._run_of(context),
            call_id=call_id,
            server=at.server,
            schema=at.schema,
            turn=self._turn_of(context),
            parameters=at.behind.params_json_schema if model is None else None,
            reads=None if model is None else functools.partial(_read, model, tool=name),
        )
        return self._terms.call(named)

    def _supplied(self, at: _Entrance, context: RunContextWrapper[Any]) -> dict[str, Any]:
        """Return what the run gives the tool beside the model's arguments now, as it is recorded."""
        supplied = {} if context.context is None else {at.beside: context.context}
        return recorded(supplied, self._terms.unbound(at.name))

    def _turn_of(self, context: RunContextWrapper[Any]) -> str | None:
        if self._turn is not None:
            return self._turn if isinstance(self._turn, str) else self._turn(context)
        return _turn_in(context.turn_input)

    def _run_of(self, context: RunContextWrapper[Any]) -> str:
        return self._run if isinstance(self._run, str) else self._run(context)

    async def answer(self, state: RunState[Any, Any]) -> list[ToolApprovalItem]:
        """Answer the interruptions of a state as people decided at the ledger; return those that still wait.

        If a tool has `needs_approval` of its own, that is asked next, as a new interruption of the same call. It is
        among those that wait, and `state.approve` or `state.reject` answers it. If an approver edited the call, its
        `arguments` are the edited ones, and the tool judges these.
        """
        waiting = []
        for item in state.get_interruptions():
            at = self._entrance_of(item)
            if at is None:  # no tool of this gate: the program answers it
                waiting.append(item)
                continue
            context, call_id = _context_of(state, item), str(item.call_id)
            call = self._asked_about(at, context, item)
            if call is None:  # the tool is entered, and tells the model why it was not called
                state.approve(item)
                continue
            judged = await self._edited(at, call)
            needs_own = await self._needs_own_approval(at, context, judged)
            asked, question = _asked_in(context), own_question(judged)
            match await self._standing(call):
                case AwaitingApproval():
                    asked.pop(call_id, None)
                    waiting.append(item)
                case Denied() as denied:
                    state.reject(item, rejection_message=heard_of_answer(denied, call.tool).text)
                case _ if needs_own and judged is not call:  # only this shows what an approver edited
                    asked[call_id] = question
                    waiting.append(_EditedItem.of(item, said_in(judged)))
                case _ if needs_own and asked.get(call_id) == question:
                    waiting.append(item)
                case _ if needs_own:  # the SDK shows the same interruption again, which is the tool's question then
                    asked[call_id] = _Due(question)
                case _:
                    state.approve(item)
        return waiting

    async def questions(self, state: RunState[Any, Any]) -> list[dict[str, Any]]:
        """Return what to show of the interruptions that wait for an approver: the recorded arguments, and their digest.

        `item.arguments` is what the model said. An approver may have edited it since, and it lacks defaults.
        """
        found = []
        for item in state.get_interruptions():
            at = self._entrance_of(item)
            if at is None:
                continue
            call = self._asked_about(at, _context_of(state, item), item)
            stands = None if call is None else await self._standing(call)
            if call is not None and isinstance(stands, AwaitingApproval):
                alike = await self._ledger.elsewhere(stands.approval)
                question = question_about(stands.approval, stands.effect, alike)
                found.append({**question, "tool": call.tool, "call_id": call.call_id})
        return found

    async def _standing(self, call: ToolCall) -> Any:
        """Return how a call stands; None if the ledger refuses it, and then the tool says why when it is entered."""
        try:
            return await self._ledger.ask(call, **self._terms.options(call.tool))
        except (NotRun, *SAID_TO_THE_MODEL):
            return None

    async def _edited(self, at: _Entrance, call: ToolCall) -> ToolCall:
        """Return the call with the arguments that an approver edited, if the tool asks by itself: it judges these."""
        if at.behind.needs_approval is False:
            return call
        effect = getattr(await self._standing(call), "effect", None)
        approval_id = None if effect is None else effect.approval_id
        approval = None if approval_id is None else await self._ledger.get_approval(approval_id)
        if effect is None or approval is None or approval.edited_by is None or is_same(effect.args, call.args):
            return call
        return replace(call, args=effect.args)

    async def _unasked(self, at: _Entrance, context: ToolContext[Any], call: ToolCall, judged: ToolCall) -> str | None:
        """Return what the model hears if the tool's own question was not asked: the SDK has one answer for both.

        Args:
            at: The tool's entrance.
            context: The run's context.
            call: The call.
            judged: The same, with the arguments that an approver edited.
        """
        if not await self._needs_own_approval(at, context, judged):
            return None
        is_always_approved = context.is_tool_approved(call.tool, "indelible: any call") is True
        is_asked = is_always_approved or _asked_in(context).get(context.tool_call_id) == own_question(judged)
        return None if is_asked else OWN_QUESTION.format(tool=call.tool)

    async def _needs_own_approval(self, at: _Entrance, context: RunContextWrapper[Any], call: ToolCall) -> bool:
        own = at.behind.needs_approval
        if not callable(own):
            return bool(own)
        said: Any = own(context, said_in(call), str(call.call_id))
        return bool(await said if inspect.isawaitable(said) else said)

    def _entrance_of(self, item: ToolApprovalItem) -> _Entrance | None:
        """Return the entrance of the tool that an interruption is about: one of the agent that called it."""
        tools = [one for one in getattr(item.agent, "tools", ()) if isinstance(one, FunctionTool)]
        asked = [one.on_invoke_tool for one in tools if item.tool_lookup_key in get_function_tool_lookup_keys(one)]
        return next((one for one in asked if isinstance(one, _Entrance) and one.gate is self), None)

    def _asked_about(self, at: _Entrance, context: RunContextWrapper[Any], item: ToolApprovalItem) -> ToolCall | None:
        """Return the call that an interruption is about; None if it is about arguments that nobody can read.

        The SDK interrupts for such, too: it cannot ask the tool whether to ask a person.
        """
        try:
            return self._call(at, context, _object_in(at.name, item.arguments or "{}"), str(item.call_id))
        except NoRun:
            raise
        except BadCall:
            return None

    async def keep(self, paused: RunResult | RunResultStreaming | RunState[Any, Any]) -> None:
        """Keeps the state of a paused run on the record of its run, durable when this returns."""
        state: RunState[Any, Any] = paused if isinstance(paused, RunState) else paused.to_state()
        await self._ledger.record(self._run_of(_context_of(state)), STATE_KEPT, {"state": state.to_string()})

    async def load(self, agent: Agent[Any], run: str | None = None, **words: Any) -> RunState[Any, Any] | None:
        """Gives the state that was kept last, None if there is none; one that was changed since is refused.

        Where a function names the runs, say which one it is. Further words are those of `RunState.from_string`.
        """
        named = self._run if run is None else run
        if not isinstance(named, str):
            raise BadCall(
                "a function names the runs here, and there is no context yet: say which one, load(agent, run=…)"
            )
        kept = await self._kept(named)
        return None if kept is None else await RunState.from_string(agent, kept, **words)

    async def _kept(self, run_id: str) -> str | None:
        newest: dict[str, Any] = {}

        def look(event: Any) -> None:
            if event.type == STATE_KEPT:
                newest.update(seq=event.seq, payload=event.payload)

        try:
            story = await self._ledger.run_story(run_id, each=look)
        except UnknownRun:
            return None
        altered = [f"seq {seq}: {name}" for seq, name in story.altered if seq == newest.get("seq")]
        wrong = story.broken or next(iter(altered), None)
        if wrong is not None:
            raise ReviewRequired(
                f"a state of {run_id} is not loaded: {wrong} is not what was recorded. indelible runs verify {run_id}",
                code="review",
            )
        if newest.get("payload") is None:
            return None
        return str(unmarked(newest["payload"], f"the state of {run_id}")["state"])


def ledger_tools(tools: Iterable[Tool], ledger: Ledger | AsyncLedger, **words: Any) -> list[Tool]:
    """Gives tools behind the ledger; `words` are those of `LedgerTools`."""
    return LedgerTools(ledger, **words).tools(tools)


def is_guarded(tool: FunctionTool) -> bool:
    """Does a ledger stand before this tool already?"""
    return isinstance(tool.on_invoke_tool, _Entrance)


def copied(tool: FunctionTool, **fields: Any) -> FunctionTool:
    """Return a copy of a tool with these fields, also of a class that has a constructor of its own."""
    made = copy.copy(tool)
    for name, value in fields.items():
        setattr(made, name, value)
    FunctionTool.__post_init__(made)  # type: ignore[no-untyped-call]  # binds the entrance to the copy
    return made


def _is_paused(context: ToolContext[Any]) -> bool:
    """Say whether the run of an agent as a tool waits for a person."""
    if context.tool_call is None:
        return False
    inner = peek_agent_tool_run_result(context.tool_call, scope_id=get_agent_tool_state_scope(context))
    return bool(getattr(inner, "interruptions", None))


def _target_of(handoff: Any) -> Any:
    """Return the agent that a handoff leads to."""
    return handoff if not isinstance(handoff, Handoff) or handoff._agent_ref is None else handoff._agent_ref()


class _Due(str):
    """A tool's own question that is shown when the run goes on and pauses again: the SDK copies its state then."""

    def __new__(cls, question: str) -> _Due:
        return super().__new__(cls, f"due {question}")

    def __deepcopy__(self, memo: Any) -> str:
        return self.removeprefix("due ")


class _EditedItem(ToolApprovalItem):
    """An interruption that shows the arguments which an approver edited, and answers the same call."""

    shown = ""

    @classmethod
    def of(cls, item: ToolApprovalItem, args: Mapping[str, Any]) -> _EditedItem:
        """Return an interruption with these arguments."""
        made = object.__new__(cls)
        made.__dict__.update(item.__dict__)
        made.shown = json.dumps(args, default=str)
        return made

    @property
    def arguments(self) -> str:
        """Return the arguments that would run."""
        return self.shown


class _Entrance:
    """Is a tool's entrance. What the tool raised is told to the model its own way; what the ledger refuses stops it."""

    def __init__(self, gate: LedgerTools, behind: FunctionTool, tool: FunctionTool) -> None:
        self.gate = gate
        self.behind = behind
        self.model = _model_of(behind)
        self._tool = tool

    @property
    def name(self) -> str:
        """Return the tool's name, with its namespace: two tools of one name are two tools."""
        return self._tool.qualified_name

    @property
    def schema(self) -> str:
        """Return the hash of what the model and a reviewer know of the tool, and of where an MCP server is reached."""
        known = [self.name, self._tool.description, self._tool.params_json_schema]
        server = _server_of(self.behind)
        return hash_of(known if server is None else [*known, server.name, _address_of(server)])

    @property
    def server(self) -> str | None:
        """Return the name of the MCP server whose tool this is."""
        server = _server_of(self.behind)
        return None if server is None else get_mcp_server_log_name(server.name)

    @property
    def beside(self) -> str:
        """Return the name under which the run's context is recorded: the SDK hands it to every tool."""
        return name_beside(self.behind.params_json_schema, "context")

    def __agents_bind_function_tool__(self, tool: FunctionTool) -> _Entrance:
        """Return the entrance of a copy of the tool, as the SDK asks for; the copy may get a namespace later."""
        entrance = _Entrance(self.gate, self.behind, tool)
        if isinstance(getattr(tool.needs_approval, "__self__", None), _Entrance):
            tool.needs_approval = entrance.asks
        return entrance

    async def asks(self, context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        """Say whether a person is asked about a call of this tool."""
        return await self.gate.is_asked(self, context, arguments, call_id)

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        refusals: list[IndelibleError] = []

        async def entered(context: ToolContext[Any], arguments: str) -> Any:
            try:
                return await self.gate.invoke(self, context, arguments)
            except IndelibleError as refusal:
                refusals.append(refusal)

        telling: Any = with_function_tool_failure_error_handler(entered, lambda *_: None)
        output = await telling.__agents_bind_function_tool__(self._tool)(context, arguments)
        if refusals:
            raise refusals[0]
        return output


class _Entry(Entry):
    """One call on its way: what the tool gave stays at hand, so that only a repeat gets it from the record."""

    def __init__(
        self,
        tool: FunctionTool,
        context: ToolContext[Any],
        call: ToolCall,
        supplies: Callable[[], dict[str, Any]],
        at: _Entrance,
        said: Mapping[str, Any],
        words: Mapping[str, Any],
    ) -> None:
        super().__init__(call, context.tool_call_id)
        self._words = words
        self._supplies = supplies
        self._at = at
        self._said = said
        self._tool = tool
        self._context = context
        self._live: list[Any] = []
        self.judged: Mapping[str, Any] | None = None
        """The arguments that the tool's own `needs_approval` judged, if it has one."""
        self._is_paused_inside = False

    async def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments."""
        if self.judged is not None and not is_same(effect.args, self.judged):
            raise NothingHappened("its arguments were edited since the tool asked a person about them")
        self.check_injected(effect, self._at.beside, supplies=self._supplies)
        supplied = self._supplies()
        args: Mapping[str, Any] = {name: value for name, value in effect.args.items() if name not in supplied}
        if self._at.model is not None:
            reads = functools.partial(_read, self._at.model, tool=self._at.name)
            args = self.handed_over(args, self._said, reads, functools.partial(_values, self._at.model))
        with self.running(effect), self._saying(args) as said:
            with inside_tool():
                output = await self._output(said, effect)
            if self._tool._is_agent_tool and _is_paused(self._context):
                # The SDK goes on with the inner run when this call is entered again. What that did is guarded itself;
                # what the program runs around it is not, and would run twice.
                self._is_paused_inside = True
                paused = AgentPaused("the agent inside is paused, and goes on when the run is resumed")
                raise paused_by(paused, effect, self._words) if runs_again(self._tool) else NothingHappened(str(paused))
        self._live.append(output)
        return as_json(output)

    async def _output(self, said: str, effect: RunningEffect) -> Any:
        """Return what the tool gives. Of a tool of an MCP server, the SDK hands an error on as if it were a result.

        What is raised once the call was sent, the server did not tell: its answer was lost, or the SDK failed.
        """
        server = _server_of(self._tool)
        if server is None:
            return await self._tool.on_invoke_tool(self._context, said)
        heard = _Heard(server)
        entered: Any = entered_by(self._tool)
        called = functools.partial(entered.func, heard, *entered.args[1:], **entered.keywords)
        try:
            output = await called(self._context, said)
        except Exception as lost:
            if heard.is_sent:
                raise_doubt(lost, effect)
            raise
        if heard.error is not None:
            raise ToolError(heard.error)
        return output

    @contextmanager
    def _saying(self, args: Mapping[str, Any]) -> Iterator[str]:
        """Let the tool's context say the arguments that the tool is handed, as long as it runs."""
        said = _json_of(args)
        context, before = self._context, (self._context.tool_arguments, self._context.tool_call)
        if not is_same(args, self._said):
            context.tool_arguments = said
            # The SDK finds the paused run of an agent as a tool by its call.
            if context.tool_call is not None and not self._tool._is_agent_tool:
                context.tool_call = context.tool_call.model_copy(update={"arguments": said})
        try:
            yield said
        finally:
            context.tool_arguments, context.tool_call = before

    def given(self, recorded: Any) -> Any:
        """Return the output, now or as it was recorded, here or by another framework."""
        if self._live:
            return self._live[0]
        return plain(recorded) if self.note is None else _noted(plain(recorded), self.note)

    def told_of(self, refusal: Exception, error: Exception) -> str | None:
        """Return what the model is told of a call without a value, or raise."""
        if self._is_paused_inside:
            return None  # as the SDK's own agent tool does
        if (
            isinstance(refusal, EffectFailed)
            and _server_of(self._tool)
            and refusal.error_type == ToolError.__qualname__
        ):
            return error_in(refusal)  # the server's own words
        if isinstance(refusal, EffectFailed):  # the tool's own way of telling the model applies
            raise error if error is not refusal else ToolFailed(error_in(refusal))
        heard = heard_of(refusal, self.call.tool)
        if heard is None:
            raise error
        return heard.text


class _Heard:
    """Is an MCP server whose errors are heard: the SDK makes results of them."""

    def __init__(self, server: MCPServer) -> None:
        self._server = server
        self.is_sent = False
        self.error: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def call_tool(self, *args: Any, **words: Any) -> Any:
        """Call a tool of the server, and note it if it tells an error."""
        note_sent()
        self.is_sent = True
        result = await self._server.call_tool(*args, **words)
        if result_is_error(result):
            said = [block.text for block in result.content if block.type == "text"]
            self.error = "\n".join(said) or SAID_NOTHING
        return result


def _server_of(tool: FunctionTool) -> MCPServer | None:
    """Return the MCP server whose tool this is."""
    entered = entered_by(tool)
    first = next(iter(entered.args), None) if isinstance(entered, functools.partial) else None
    return first if isinstance(first, MCPServer) else None


def _check_server(tool: FunctionTool) -> None:
    """Refuse the tool of an MCP server that sends a call again if no answer came, below the ledger."""
    server = _server_of(tool)
    if getattr(server, "max_retry_attempts", 0) != 0:
        raise BadCall(
            f"{tool.qualified_name}: its MCP server would send one call several times, which the ledger does not see; "
            "make the server with max_retry_attempts=0"
        )


def _address_of(server: MCPServer) -> Any:
    """Return the URL or the command of a server; None for one of a kind that the SDK does not know."""
    reached: Any = getattr(server, "params", None)
    if isinstance(reached, Mapping):
        return reached.get("url")
    return [getattr(reached, "command", None), getattr(reached, "args", None)]


def _noted(output: Any, note: str) -> Any:
    """Return an output with a note: beside the parts that the SDK knows, or else below the text."""
    parts = output if isinstance(output, list) else [output]
    if parts and all(isinstance(part, Mapping) and part.get("type") in _TELLING for part in parts):
        return [*parts, {"type": "text", "text": note}]
    return with_note(text_in(output), note)


def _turn_in(items: Iterable[Any]) -> str | None:
    said = [item for item in items if isinstance(item, Mapping) and item.get("role") == "user"]
    return turn_of([item.get("content") for item in said])


def _context_of(state: RunState[Any, Any], item: ToolApprovalItem | None = None) -> RunContextWrapper[Any]:
    """Return the context of a state's run, or of the run inside that an interruption is of: its turn is its own."""
    context: RunContextWrapper[Any] = state._context or RunContextWrapper(context=None)
    nested = None if item is None else state._find_nested_approval_state(item)
    if nested is not None:
        inner = copy.copy(_context_of(nested[0]))
        inner.context = context.context  # as the SDK goes on with the run inside
        return inner
    context.turn_input = ItemHelpers.input_to_new_input_list(state._original_input)
    return context


def _asked_in(context: RunContextWrapper[Any]) -> dict[str, str]:
    """Return the tools' own questions at which a run stands. They are kept, copied and loaded with its state."""
    return context._approvals.setdefault(_ASKED, _ApprovalRecord()).rejection_messages


def _object_in(tool: str, arguments: str) -> dict[str, Any]:
    try:
        return object_in(arguments)
    except ValueError as wrong:
        raise BadCall(f"{tool}: {wrong}") from None


def _model_of(tool: FunctionTool) -> type[BaseModel] | None:
    """Return the model by which the SDK validates the arguments of a function; None for a tool of another kind."""
    entered = entered_by(tool)
    if not inspect.isfunction(entered):
        return None
    found = inspect.getclosurevars(entered).nonlocals.get("schema")
    return found.params_pydantic_model if isinstance(found, FuncSchema) else None


def _read(model: type[BaseModel], arguments: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return arguments as the SDK validates them; raise `BadCall` if it does not take them."""
    try:
        return read_by(model, arguments, tool)
    except ValidationError as wrong:
        raise BadCall(f"{tool}: {wrong}") from None


def _values(model: type[BaseModel], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the SDK hands to a tool's function."""
    return dict(vars(model.model_validate(copy.deepcopy(arguments))))


def _json_of(args: Mapping[str, Any]) -> str:
    """Return recorded arguments as the SDK takes them.

    Raises:
        NothingHappened: They are no JSON: an approver edited them.
    """
    try:
        return json.dumps(args)
    except TypeError as wrong:
        raise NothingHappened(
            f"an edited argument is no JSON, so the tool was not entered ({wrong}); cancel it: indelible effects list"
        ) from wrong
