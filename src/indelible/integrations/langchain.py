"""LangChain agents: middleware that puts every tool call and every model turn behind the ledger.

    agent = create_agent(model, tools, middleware=[..., LedgerMiddleware(ledger)], checkpointer=…)

It belongs last in the list, where it is innermost: nothing changes the arguments after the ledger has seen them. Where
other middleware stands between it and the tools, it refuses their calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, NotRequired
from weakref import WeakKeyDictionary

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config

from indelible import AsyncLedger, Ledger, NothingHappened, RunningEffect
from indelible.errors import BadCall
from indelible.integrations.langgraph import (
    DecidedBy,
    RunOf,
    ToolGate,
    bindings,
    ledger_tool_node,
    note_provider_tools,
    turn_in,
)
from indelible.integrations.langgraph_injected import TURN_FIELD
from indelible.integrations.langgraph_nodes import is_at_the_tool, task_in
from indelible.integrations.langgraph_values import kept, revived
from indelible.integrations.model_turns import TURN_AGAIN, recordable, unmarked
from indelible.integrations.terms import TURN, ModelTurn, OnError, hash_of
from indelible.integrations.ways import Watch

__all__ = ["LedgerMiddleware", "ledger_tool_node"]


class _State(AgentState[Any]):
    """The agent's state, with the turn that its tool calls belong to; see `TURN_FIELD`."""

    indelible_turn: NotRequired[Annotated[str | None, PrivateStateAttr]]


class LedgerMiddleware(AgentMiddleware[Any, Any, Any]):
    """Lets each tool call of an agent run at most once and with permission, and asks its model once per turn.

    `terms` says how single tools are treated, in the words of `@ledger.tool`; further words hold for all of them. A
    call belongs to the run that `run` names, by default the agent's thread. With `decided_by`, an answer to the
    agent's question counts as the vote of whom that names. `on_error` "tell" lets the model hear of a tool that raised.
    `strict` refuses tools that the model's provider runs, unless `allow` names them, for example `web_search`.
    """

    state_schema = _State

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        run: str | RunOf | None = None,
        decided_by: DecidedBy | None = None,
        on_error: OnError = "raise",
        model_turns: bool = True,
        strict: bool = False,
        allow: Iterable[str] = (),
        **usual: Any,
    ) -> None:
        super().__init__()
        self._watch = Watch(strict, tuple(allow))
        self._ledger = ledger
        self._gate = ToolGate(ledger, terms=terms, run=run, decided_by=decided_by, on_error=on_error, **usual)
        self._keeps_turns = model_turns
        self._asked = _Asked()

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Name the turn by the user's message that began it: other middleware may shorten or extend the history."""
        return {TURN_FIELD: turn_in(state, "messages") or state.get(TURN_FIELD)}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Do the same in an event loop."""
        return self.before_agent(state, runtime)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Runs a tool call, replays it, pauses the agent, or tells the model why not."""
        _check_last(handler)
        return self._gate.wrap_tool_call(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Does the same in an event loop."""
        _check_last(handler)
        return await self._gate.awrap_tool_call(request, handler)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Gives the model's answer of this turn, asked for once: an agent that is resumed gets it from the record."""
        note_provider_tools(self._watch, request)
        if not self._keeps_turns:
            return handler(request)
        turn = self._turn(request, handler)
        try:
            return turn.given(self._ledger.blocking.run(turn.call, turn.enter, **TURN))
        except NothingHappened as nothing:
            return turn.without_record(nothing)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """Does the same in an event loop."""
        note_provider_tools(self._watch, request)
        if not self._keeps_turns:
            return await handler(request)
        turn = self._turn(request, handler)
        try:
            return turn.given(await self._ledger.awaited.run(turn.call, turn.enter_async, **TURN))
        except NothingHappened as nothing:
            return turn.without_record(nothing)

    def _turn(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> _Turn:
        config = get_config()
        return _Turn(request, handler, self._gate.run_of(config), _step_of(config), self._asked.so_far(request, config))


class _Asked:
    """Knows what each step has been answered so far: middleware may ask the same again, for another answer."""

    def __init__(self) -> None:
        self._steps: WeakKeyDictionary[Any, dict[Any, Counter[str]]] = WeakKeyDictionary()

    def so_far(self, request: ModelRequest[Any], config: RunnableConfig) -> Counter[str]:
        """Return how often this entry of the step was answered what. A step that is entered again counts anew."""
        task = task_in(config)
        if task is None:
            return Counter()
        entry = getattr(getattr(request.runtime, "execution_info", None), "node_attempt", None)
        return self._steps.setdefault(task, {}).setdefault(entry, Counter())


class _Turn:
    """Is one turn of a model: the same step of the same thread that asks the same is the same turn."""

    def __init__(
        self,
        request: ModelRequest[Any],
        ask: Callable[[ModelRequest[Any]], Any],
        run_id: str,
        step: str,
        answered: Counter[str],
    ) -> None:
        self._request = request
        self._ask = ask
        self._live: ModelResponse[Any] | None = None
        self._error: Exception | None = None
        self._asked = _digest_of(request)
        self._answered = answered
        args = {"asks": self._asked, "step": step, "before": answered[self._asked]}
        self.call = ModelTurn(args=args, run_id=run_id)

    def enter(self, effect: RunningEffect) -> Any:
        """Asks the model."""
        try:
            return self._kept(self._ask(self._request))
        except Exception as error:
            raise self._nothing(error) from error

    async def enter_async(self, effect: RunningEffect) -> Any:
        """Does the same in an event loop."""
        try:
            return self._kept(await self._ask(self._request))
        except Exception as error:
            raise self._nothing(error) from error

    def _kept(self, response: ModelResponse[Any]) -> dict[str, Any]:
        self._live = response
        if response.structured_response is not None:
            # An object of the program's own class cannot be made of JSON again, so this turn is asked for again.
            raise NothingHappened("a structured answer has no recorded form")
        answer = [kept(message) for message in response.result]
        return recordable({"answer": answer, "asked": self._asked, "model": _name_of(self._request.model)})

    def _nothing(self, error: Exception) -> NothingHappened:
        if isinstance(error, NothingHappened):
            return error
        self._error = error
        return NothingHappened(f"the model gave no answer: {type(error).__qualname__}: {error}")

    def given(self, recorded: Mapping[str, Any]) -> ModelResponse[Any]:
        """Gives what the model answered, now or when it was asked."""
        self._answered[self._asked] += 1
        if self._live is not None:
            return self._live
        return ModelResponse(result=[revived(message) for message in unmarked(recorded["answer"], TURN_AGAIN)])

    def without_record(self, nothing: NothingHappened) -> ModelResponse[Any]:
        """Gives an answer that could not be recorded, or raises what the model raised."""
        if self._error is not None:
            raise self._error
        if self._live is None:
            raise nothing
        self._answered[self._asked] += 1
        return self._live


def _check_last(handler: Callable[[Any], Any]) -> None:
    """Refuse to run where other middleware stands between the ledger and the tool: it could repeat or change calls."""
    if not is_at_the_tool(handler):
        raise BadCall(
            "LedgerMiddleware is not the last middleware that wraps tool calls, so the call was not made; put it last "
            "in the list: create_agent(…, middleware=[…, LedgerMiddleware(ledger)])"
        )


def _step_of(config: RunnableConfig) -> str:
    """Names the step of the graph: the stored state it goes on from has an id, and so has what it does there."""
    return str(config.get("configurable", {}).get("checkpoint_ns") or "")


def _digest_of(request: ModelRequest[Any]) -> str:
    """Return the hash of what is asked: what was said, which model is asked, and how."""
    system = [] if request.system_message is None else [request.system_message]
    said = [kept(message) for message in (*system, *request.messages)]
    bound_to_it = [getattr(one, "kwargs", None) for one in bindings(request.model)]
    tools = [getattr(one, "name", one) for one in request.tools or ()]
    answers = getattr(request.response_format, "schema", request.response_format)
    how = [_name_of(request.model), bound_to_it, tools, request.tool_choice, answers, request.model_settings]
    return hash_of([said, how])


def _name_of(model: Any) -> str:
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)
