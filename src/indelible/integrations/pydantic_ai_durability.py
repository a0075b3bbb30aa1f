"""Pydantic AI: durable execution on the ledger. An agent that is run again, by whichever process, goes on where it was.

    agent = Agent(model, name="billing", tools=[charge], capabilities=[LedgerDurability(ledger, run="order-123")])
    result = await agent.run("charge what is due")        # killed anywhere? run the same line again

Tools go through the same gate as with `LedgerCapability`. A model's answers are numbered within the run, and a number
that has an answer is not asked for again, however the instructions are worded by then; only the question must be the
same. Before a run goes on, what is recorded of it is checked, and one that was changed is not gone on with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_ai import RunContext
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    BoundDurableOperation,
    CapabilityOperationId,
    CapabilityOperationParams,
    DurabilityEngineSpec,
    DurableOperation,
    DurableOperationBackend,
    ModelCompactMessagesParams,
    ModelRequestParams,
    WorkspaceCallParams,
    durable_unit_scope,
)
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.tools import ToolDefinition

from indelible import AsyncLedger, Ledger, NothingHappened, Resource, RunningEffect, ToolCall
from indelible.errors import BadCall, IndelibleError, KeyReused, NoRun, ReviewRequired, UnknownRun
from indelible.integrations.model_turns import unmarked
from indelible.integrations.models import json_of
from indelible.integrations.pydantic_ai import LedgerCapability, OwnAnswers, RunOf, lasting, note_unguarded
from indelible.integrations.terms import MODEL_TURN, TURN, ModelTurn, Terms
from indelible.integrations.ways import Watch
from indelible.tool import encode

Params = TypeVar("Params")
Wire = TypeVar("Wire")
Result = TypeVar("Result")
# An id that is made up by chance could never be found again.
_UNNAMED = "indelible:unnamed"
_PROMPT: TypeAdapter[UserPromptPart] = TypeAdapter(UserPromptPart)


class LedgerDurability(BaseDurabilityCapability[Any]):
    """Lets an agent that was killed be run again: no model turn that has an answer is asked for, no effect repeats.

    Everything belongs to the run that `run` names, by default the conversation, which must have an id then. `terms`
    says how single tools are treated, in the words of `@ledger.tool`, and how `model.turn` is; further words hold for
    all tools. `models` and `event_stream_handler` are those of every durable engine. `strict` and `allow` are those of
    `LedgerCapability`.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Ledger",
        durable_unit_noun="effect",
        durable_container_noun="run",
        codec=JSON_CODEC,
        # Tools are looked up anew: a person who approves a call relies on what its tool says of itself now.
        journal_discovery=False,
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
    )

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        run: str | RunOf | None = None,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        name: str | None = None,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: Any = None,
        strict: bool = False,
        allow: Iterable[str] = (),
        **usual: Any,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._ledger = ledger.awaited
        self._run = run
        self._watch = Watch(strict, tuple(allow))
        self._gate = LedgerCapability(ledger, run=run, terms=terms, model_turns=False, **usual)
        self._terms = Terms(terms, usual)
        self._places: dict[str, _Place] = {}

    def for_agent(self, agent: Any) -> Any:
        """Binds to an agent, which must not have a second gate before its tools: each would wait for the other."""
        found: list[Any] = []
        agent.root_capability.apply(found.append)
        if any(isinstance(one, LedgerCapability) for one in found):
            raise BadCall("LedgerDurability takes the place of LedgerCapability: leave that out")
        return super().for_agent(agent)

    @property
    def in_durable_context(self) -> bool:
        """Is always so: whatever an agent does, it does in a run."""
        return True

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Gives a conversation its run's name, and one that has no name an id under which nothing is run."""
        return self._run if isinstance(self._run, str) else _UNNAMED

    def get_durable_operation_backend(self) -> DurableOperationBackend[Any]:
        """Gives what puts model turns, and what capabilities do, behind the ledger."""
        return _Backend(self)

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Name the turn, which stays the same while the agent is resumed."""
        await self._gate.before_run(ctx)

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        """Goes on with a run whose record holds together, and with no other."""
        await self._place(ctx)
        try:
            return await super().wrap_run(ctx, handler=handler)
        finally:
            self._places.pop(str(ctx.run_id), None)

    async def _place(self, ctx: RunContext[Any]) -> _Place:
        """Gives where the agent is in its run; at first, and before anything is done, its record is checked."""
        place = self._places.get(str(ctx.run_id))
        if place is None:
            run_id = self._gate.run_of(ctx)
            if run_id == _UNNAMED:
                raise NoRun("what is to go on needs a name: say run=…, or run the agent with conversation_id=…")
            await self._check(run_id)
            answered = sum(isinstance(message, ModelResponse) for message in ctx.messages)
            place = self._places[str(ctx.run_id)] = _Place(run_id=run_id, agent=self.name, turn=answered)
        return place

    async def _check(self, run_id: str) -> None:
        try:
            report = await self._ledger.verify_run(run_id)
        except UnknownRun:
            return
        if not report.is_valid:
            wrong = report.broken or ", ".join(f"seq {seq}: {name}" for seq, name in report.altered) or "its seals"
            raise ReviewRequired(
                f"run {run_id} cannot go on: {wrong} is not what was recorded. See: indelible runs verify {run_id}",
                code="review",
            )

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        """Keep answers to the ledger's questions from the tools."""
        return OwnAnswers(super().get_wrapper_toolset(toolset) or toolset)

    async def wrap_tool_execute(self, ctx: RunContext[Any], *, call: Any, tool_def: ToolDefinition, **rest: Any) -> Any:
        """Runs a tool call, replays it, pauses the agent, or tells the model why not."""
        return await self._gate.wrap_tool_execute(ctx, call=call, tool_def=tool_def, **rest)

    async def wrap_output_process(self, ctx: RunContext[Any], *, output_context: Any, **rest: Any) -> Any:
        """Call the function that makes the agent's output once."""
        return await self._gate.wrap_output_process(ctx, output_context=output_context, **rest)

    async def wrap_model_request(self, ctx: RunContext[Any], *, request_context: Any, handler: Any) -> ModelResponse:
        """Note what runs without the ledger, and give the model's answer of this turn."""
        self._gate.check_stops(ctx)
        note_unguarded(self._watch, ctx, request_context)
        response = await super().wrap_model_request(ctx, request_context=request_context, handler=handler)
        return self._gate.keep_turn(ctx, response)

    async def recorded(self, ctx: RunContext[Any], unit: _Unit) -> Any:
        """Gives what a unit of the run gave, now or when it was done."""
        place = await self._place(ctx)
        try:
            given = await self._ledger.run(place.call(unit), unit.enter, **{**unit.words, **self._terms.own(unit.tool)})
        except KeyReused as other:
            raise KeyReused(f"{unit.told_apart(place)}: {other}", effect=other.effect) from other
        except NothingHappened as nothing:
            raise unit.error or nothing from None
        place.passed(unit)
        return unit.gave[0] if unit.gave else unmarked(given["gave"], f"what {unit.tool} gave in this run")


class _Place:
    """Is where an agent is in its run: how many turns were answered, and what was done since the last of them."""

    def __init__(self, *, run_id: str, agent: str, turn: int) -> None:
        self._run_id = run_id
        self._agent = agent
        self._turn = turn
        self._since: dict[str, int] = {}

    def call(self, unit: _Unit) -> ToolCall:
        """Gives the call of a unit that comes next: what it asks is bound to its number, and never changes."""
        kind = ModelTurn if unit.is_turn else ToolCall
        return kind(
            tool=unit.tool,
            args=unit.args,
            run_id=self._run_id,
            resource=Resource(namespace="pydantic_ai", type=unit.tool, id=self.number(unit)),
        )

    def number(self, unit: _Unit) -> str:
        """Numbers a turn within the run, and what else is done within the turn."""
        step = f"{self._agent} {self._turn + 1}"
        return step if unit.is_turn else f"{step}.{self._since.get(unit.tool, 0) + 1}"

    def passed(self, unit: _Unit) -> None:
        """Notes that a unit has its answer."""
        if unit.is_turn:
            self._turn, self._since = self._turn + 1, {}
        else:
            self._since[unit.tool] = self._since.get(unit.tool, 0) + 1


class _Unit:
    """Is one thing that is done once: a model's turn, or what a capability declares to be durable."""

    def __init__(self, tool: str, args: Mapping[str, Any], body: Callable[[], Awaitable[Any]]) -> None:
        self.tool = tool
        self.args = args
        self.is_turn = tool == MODEL_TURN
        self.words: dict[str, Any] = dict(TURN) if self.is_turn else {}
        self.error: Exception | None = None
        self.gave: list[Any] = []
        """What it gave in this process, with what the record may not have."""
        self._body = body

    async def enter(self, effect: RunningEffect) -> Any:
        """Does it. A model that raises has not answered; of anything else, nobody knows how far it came."""
        if encode(effect.args) != encode(self.args):
            raise NothingHappened("the arguments were edited, and only the agent can have others validated: deny it")
        try:
            gave = await self._body()
        except IndelibleError:
            raise
        except Exception as error:
            self.error = error
            if not self.is_turn:
                raise
            raise NothingHappened(f"the model gave no answer: {type(error).__qualname__}") from error
        self.gave = [gave]
        return {"gave": gave}

    def told_apart(self, place: _Place) -> str:
        """Says what was asked otherwise than it is on the record."""
        asked = "asked something else" if self.is_turn else "done with other arguments"
        return f"{place.number(self)} of this run was {asked} before; run the agent as it was, or name another run"


class _Backend(DurableOperationBackend[Any]):
    """Dispatches what the framework calls operations: to the ledger, or straight on where nothing is to be recorded."""

    def __init__(self, durability: LedgerDurability) -> None:
        self._durability = durability

    def bind(self, operation: DurableOperation[Params, Wire, Result]) -> BoundDurableOperation[Params, Wire, Result]:
        """Gives the caller of one operation."""
        return _Bound(self._durability, operation)

    def config_for_tool(self, operation: Any, *, tool: object | None, tool_name: str) -> dict[str, Any]:
        """Gives nothing: how a tool is treated is said in `terms`."""
        return {}

    def registrations(self) -> Sequence[Callable[..., object]]:
        """Gives nothing: no worker has to know operations beforehand."""
        return ()


class _Bound(BoundDurableOperation[Params, Wire, Result]):
    """Calls one operation."""

    def __init__(self, durability: LedgerDurability, operation: DurableOperation[Params, Wire, Result]) -> None:
        self._durability = durability
        self._operation = operation

    @property
    def operation(self) -> DurableOperation[Params, Wire, Result]:
        """Is what is called."""
        return self._operation

    async def __call__(self, params: Params, *, config: object | None = None) -> Result:
        """Gives what the operation gives; even at the first time as it will be given again."""

        async def body() -> object:
            with durable_unit_scope():
                return self._operation.result_codec.dump(await self._operation.handler(params))

        match params:
            case ModelRequestParams(messages=messages, run_context=ctx):
                unit = _Unit(MODEL_TURN, {"asks": _question_in(messages)}, body)
            case ModelCompactMessagesParams(request_context=request, run_context=ctx):
                unit = _Unit(MODEL_TURN, {"compacts": _question_in(request.messages)}, body)
            case CapabilityOperationParams(arguments=arguments, run_context=ctx):
                unit = _Unit(self._name(), {"arguments": json_of(arguments)}, body)
            case WorkspaceCallParams(call=call, run_context=ctx):
                unit = _Unit(self._name(), {"call": json_of(call)}, body)
            case _:  # tools have their own gate; to look, to check and to show does nothing outside
                return self._operation.result_codec.load(await body())
        return self._operation.result_codec.load(await self._durability.recorded(ctx, unit))

    def _name(self) -> str:
        named = self._operation.operation_id
        assert isinstance(named, CapabilityOperationId), "what is no tool and no model is a capability's"
        return f"{named.capability_id}.{named.operation}"


def _question_in(messages: Sequence[ModelMessage]) -> str:
    """Gives the hash of what a person asked last: that, and not how it is put to the model, is what a turn is about."""
    asked = [part for one in messages if isinstance(one, ModelRequest) for part in one.parts]
    last = next((part for part in reversed(asked) if isinstance(part, UserPromptPart)), None)
    told = None if last is None else lasting(_PROMPT.dump_python(last, mode="json"))
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
