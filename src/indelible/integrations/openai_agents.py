"""OpenAI Agents: function tools behind the ledger, with the SDK's own interruptions while a person decides.

    gate = LedgerTools(ledger, run="order-123")
    agent = Agent(name="billing", tools=gate.tools([charge]))
    result = await Runner.run(agent, "charge what is due")
    if result.interruptions:
        await gate.keep(result)                         # in the ledger; the process may end
    …
    state = await gate.load(agent)                      # whenever, wherever
    if not await gate.answer(state):                    # what people decided at the ledger; nobody is left to be asked
        result = await Runner.run(agent, state)

A state that says "approved" approves nothing: what runs is what the ledger lets run, however often it is resumed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from agents import Agent, FunctionTool, ItemHelpers, RunContextWrapper, RunResult, RunResultStreaming, RunState, Tool
from agents.items import ToolApprovalItem
from agents.tool import with_function_tool_failure_error_handler
from agents.tool_context import ToolContext

from indelible import AsyncLedger, AwaitingApproval, Denied, Ledger, RunningEffect, ToolCall
from indelible.errors import BadCall, EffectFailed, IndelibleError, NotRun, ReviewRequired, UnknownRun
from indelible.integrations.dialects import object_in
from indelible.integrations.entries import Entry
from indelible.integrations.results import ToolFailed as ToolFailed
from indelible.integrations.results import as_json, plain, text_in
from indelible.integrations.telling import error_in, heard_of, heard_of_answer, with_note
from indelible.integrations.terms import Named, Terms, hash_of, turn_of

STATE_KEPT = "openai_agents.state_kept"
RunOf = Callable[[RunContextWrapper[Any]], str]
TurnOf = Callable[[RunContextWrapper[Any]], str | None]
_TELLING = frozenset({"text", "image", "file"})


class LedgerTools:
    """Let each tool call of an agent run at most once and with permission, wherever its state is resumed.

    Args:
        ledger: The ledger.
        run: The run that calls belong to, or a function of the context. The SDK has no id that outlives a state.
        terms: How single tools are treated, in the words of `@ledger.tool`.
        turn: The id of the user's last message, or a function of the context. Default: the number of the user's
            messages in the input of `Runner.run`, and the hash of the last one.
        usual: The words of `terms` for all tools.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        run: str | RunOf,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        turn: str | TurnOf | None = None,
        **usual: Any,
    ) -> None:
        self._ledger = ledger.awaited
        self._run = run
        self._turn = turn
        self._terms = Terms(terms, usual)
        self._tools: dict[str, FunctionTool] = {}

    def tools(self, tools: Iterable[Tool]) -> list[Tool]:
        """Gives the tools behind the ledger; those that run elsewhere, at the model's provider, cannot be."""
        return [self._behind(tool) for tool in tools]

    def _behind(self, tool: Tool) -> Tool:
        if not isinstance(tool, FunctionTool):
            raise BadCall(f"{tool.name}: runs outside of this program, so no ledger can stand before it; leave it out")
        if tool.needs_approval is not False:
            raise BadCall(f"{tool.name}: say approval='required' to the ledger instead of needs_approval to the tool")
        self._tools[tool.name] = tool
        # What the tool raises is recorded as what it raised; then the tool's own way of telling the model applies.
        bare = dataclasses.replace(tool, _failure_error_function=None, _use_default_failure_error_function=False)

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            return await self._invoked(bare, context, arguments)

        async def asks(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
            try:
                call = self._call(context, tool.name, arguments, call_id)
            except BadCall:  # then nobody is asked about it: the model hears why
                return False
            return isinstance(await self._standing(call), AwaitingApproval)

        # The ledger keeps the tool's time limit: the SDK would tell the model in words of its own that it timed out.
        return dataclasses.replace(
            tool, on_invoke_tool=_Entrance(invoke, tool), needs_approval=asks, timeout_seconds=None
        )

    async def _invoked(self, tool: FunctionTool, context: ToolContext[Any], arguments: str) -> Any:
        try:
            call = self._call(context, tool.name, _object_in(tool.name, arguments), context.tool_call_id)
        except BadCall as misfit:
            return f"{tool.name} was not called: {misfit}"
        words = self._terms.at_once(tool.name)
        if tool.timeout_seconds is not None:
            words.setdefault("timeout", timedelta(seconds=tool.timeout_seconds))
        return await _Entry(tool, context, call).walk_async(self._ledger, words)

    def _call(
        self,
        context: RunContextWrapper[Any],
        tool: str,
        arguments: Mapping[str, Any],
        call_id: str,
        turn: str | None = None,
    ) -> ToolCall:
        named = Named(
            tool=tool,
            args=arguments,
            run_id=self._run_of(context),
            call_id=call_id,
            schema=_schema_of(self._tools[tool]),
            turn=turn or self._turn_of(context),
            parameters=self._tools[tool].params_json_schema,
        )
        return self._terms.call(named)

    def _turn_of(self, context: RunContextWrapper[Any]) -> str | None:
        if self._turn is not None:
            return self._turn if isinstance(self._turn, str) else self._turn(context)
        return _turn_in(context.turn_input)

    def _run_of(self, context: RunContextWrapper[Any]) -> str:
        return self._run if isinstance(self._run, str) else self._run(context)

    async def answer(self, state: RunState[Any, Any]) -> list[ToolApprovalItem]:
        """Answer the interruptions of a state as people decided at the ledger; return those that still wait."""
        waiting = []
        for item in state.get_interruptions():
            call = await self._asked_about(state, item)
            match await self._standing(call):
                case AwaitingApproval():
                    waiting.append(item)
                case Denied() as denied:
                    state.reject(item, rejection_message=heard_of_answer(denied, call.tool).text)
                case _:
                    state.approve(item)
        return waiting

    async def _standing(self, call: ToolCall) -> Any:
        """Return how a call stands; None if the ledger refuses it, and then the tool says why when it is entered."""
        try:
            return await self._ledger.ask(call, **self._terms.options(call.tool))
        except NotRun:
            return None

    async def _asked_about(self, state: RunState[Any, Any], item: ToolApprovalItem) -> ToolCall:
        """Return the call of an interruption, in the turn in which it was asked about: an agent's tool has its own."""
        context, tool, call_id = _context_of(state), str(item.tool_name), str(item.call_id)
        recorded = await self._ledger.effects(run_id=self._run_of(context), tool=tool)
        turn = next((effect.turn for effect in recorded if effect.call_id == call_id), None)
        return self._call(context, tool, _object_in(tool, item.arguments or "{}"), call_id, turn)

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
        return None if newest.get("payload") is None else str(newest["payload"]["state"])


def ledger_tools(tools: Iterable[Tool], ledger: Ledger | AsyncLedger, **words: Any) -> list[Tool]:
    """Gives tools behind the ledger; `words` are those of `LedgerTools`."""
    return LedgerTools(ledger, **words).tools(tools)


def is_guarded(tool: FunctionTool) -> bool:
    """Does a ledger stand before this tool already?"""
    return isinstance(tool.on_invoke_tool, _Entrance)


class _Entrance:
    """Is a tool's entrance. What the tool raised is told to the model its own way; what the ledger refuses stops it."""

    def __init__(self, invoke: Callable[[ToolContext[Any], str], Awaitable[Any]], tool: FunctionTool) -> None:
        self._invoke = invoke
        self._tool = tool

    def __agents_bind_function_tool__(self, tool: FunctionTool) -> _Entrance:
        """Gives the entrance of a copy of the tool, as the SDK asks for."""
        return _Entrance(self._invoke, tool)

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        refusals: list[IndelibleError] = []

        async def entered(context: ToolContext[Any], arguments: str) -> Any:
            try:
                return await self._invoke(context, arguments)
            except IndelibleError as refusal:
                refusals.append(refusal)

        telling: Any = with_function_tool_failure_error_handler(entered, lambda *_: None)
        output = await telling.__agents_bind_function_tool__(self._tool)(context, arguments)
        if refusals:
            raise refusals[0]
        return output


class _Entry(Entry):
    """One call on its way: what the tool gave stays at hand, so that only a repeat gets it from the record."""

    def __init__(self, tool: FunctionTool, context: ToolContext[Any], call: ToolCall) -> None:
        super().__init__(call)
        self._tool = tool
        self._context = context
        self._live: list[Any] = []

    async def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments."""
        with self.running(effect):
            output = await self._tool.on_invoke_tool(self._context, json.dumps(effect.args))
        self._live.append(output)
        return as_json(output)

    def given(self, recorded: Any) -> Any:
        """Return the output, now or as it was recorded, here or by another framework."""
        if self._live:
            return self._live[0]
        return plain(recorded) if self.note is None else _noted(plain(recorded), self.note)

    def told_of(self, refusal: Exception, error: Exception) -> str:
        """Return what the model is told of a call without a value, or raise."""
        if isinstance(refusal, EffectFailed):  # the tool's own way of telling the model applies
            raise error if error is not refusal else ToolFailed(error_in(refusal))
        heard = heard_of(refusal, self.call.tool)
        if heard is None:
            raise error
        return heard.text


def _noted(output: Any, note: str) -> Any:
    """Return an output with a note: beside the parts that the SDK knows, or else below the text."""
    parts = output if isinstance(output, list) else [output]
    if parts and all(isinstance(part, Mapping) and part.get("type") in _TELLING for part in parts):
        return [*parts, {"type": "text", "text": note}]
    return with_note(text_in(output), note)


def _turn_in(items: Iterable[Any]) -> str | None:
    said = [item for item in items if isinstance(item, Mapping) and item.get("role") == "user"]
    return turn_of([item.get("content") for item in said])


def _context_of(state: RunState[Any, Any]) -> RunContextWrapper[Any]:
    context: RunContextWrapper[Any] = state._context or RunContextWrapper(context=None)
    context.turn_input = ItemHelpers.input_to_new_input_list(state._original_input)
    return context


def _object_in(tool: str, arguments: str) -> dict[str, Any]:
    try:
        return object_in(arguments)
    except ValueError as wrong:
        raise BadCall(f"{tool}: {wrong}") from None


def _schema_of(tool: FunctionTool) -> str:
    return hash_of([tool.name, tool.description, tool.params_json_schema])
