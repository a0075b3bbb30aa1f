"""Plain functions in a loop of your own: the tool calls of a model's answer go through the ledger, in its own dialect.

    calls = FunctionCalls(ledger, {"charge": charge, "refund": refund}, run="order-123")
    message = client.chat.completions.create(…).choices[0].message
    answered = calls.answer(message.tool_calls)         # or response.output, or an Anthropic message's content
    if answered.waiting:                                # keep the message; come back whenever, wherever
        …
    messages += answered.messages                       # what the provider wants to hear

Understood are the tool calls of OpenAI's chat completions and responses and of Anthropic's messages, as dictionaries or
as the objects of their libraries, of which none is needed here.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from indelible import Approval, AsyncLedger, Effect, Elsewhere, Ledger, NothingHappened, RunningEffect, ToolCall
from indelible.errors import ApprovalPending, BadCall, EffectFailed, EffectInDoubt, ResultNotRecorded, StillRunning
from indelible.integrations.dialects import Asked, asked_in, messages_of, object_in
from indelible.integrations.entries import Entry
from indelible.integrations.telling import heard_of, with_note
from indelible.integrations.terms import SAID_TO_THE_MODEL, Named, Terms, hash_of, question_of
from indelible.tool import Reading, schema_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Is a call that a person has to see to first: to decide its approval, or to settle what may have happened."""

    call_id: str
    tool: str
    why: str
    told: str
    """What to tell the model if the loop goes on without waiting."""
    approval: Approval | None = None
    """Is the question; None when the call is in doubt."""
    effect: Effect | None = None
    question: Mapping[str, Any] | None = None
    """What to show to the person who decides: the recorded arguments and the digest that their vote names."""
    elsewhere: Sequence[Elsewhere] = ()
    """The calls of the last day with the same tool and arguments, in other runs and under other keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Is what came of a model's tool calls: messages for the model, and the calls that wait for a person."""

    messages: list[dict[str, Any]]
    waiting: tuple[Waiting, ...] = ()


class FunctionCalls:
    """Lets each tool call of a model run at most once and with permission, however often a loop hands it in.

    Args:
        ledger: The ledger.
        tools: The functions, by the names that the model knows.
        run: The run that calls belong to.
        terms: How single tools are treated, in the words of `@ledger.tool`.
        usual: The same words for all tools. With `wait`, a call waits so long for an approval.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        tools: Mapping[str, Callable[..., Any]],
        *,
        run: str,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        **usual: Any,
    ) -> None:
        self._ledger = ledger
        self._tools = {name: _plain(name, tool) for name, tool in tools.items()}
        self._readings = {name: Reading(tool, name) for name, tool in self._tools.items()}
        self._schemas = {
            name: hash_of(schema_of(name, tool, self._readings[name].signature)) for name, tool in self._tools.items()
        }
        self._run = run
        self._terms = Terms(terms, usual)
        for name, tool in self._tools.items():
            self._terms.check_function(name, tool)

    def answer(self, tool_calls: Iterable[Any] | None, *, turn: str | None = None) -> Answered:
        """Run the calls, those of one answer at once, and return what to tell the model; again returns the same.

        Args:
            tool_calls: The tool calls of a model's answer.
            turn: The id of the user's last message. Without it, the whole run is one turn: a payment with the same
                arguments is made once in it.
        """
        asked = asked_in(tool_calls)
        if len(asked) < 2:
            return _together(asked, [self._answered(one, turn) for one in asked])
        with ThreadPoolExecutor(len(asked), thread_name_prefix="indelible-call") as threads:
            runs = [threads.submit(contextvars.copy_context().run, self._answered, one, turn) for one in asked]
        return _together(asked, [run.result() for run in runs])

    async def answer_async(self, tool_calls: Iterable[Any] | None, *, turn: str | None = None) -> Answered:
        """Do as `answer` does, without blocking the loop."""
        asked = asked_in(tool_calls)
        # All of them end before one's error is raised: none is cancelled, and so put in doubt, for another's sake.
        ended = await asyncio.gather(*(self._answered_async(one, turn) for one in asked), return_exceptions=True)
        errors = [one for one in ended if isinstance(one, BaseException)]
        if errors:
            raise errors[0]
        return _together(asked, [one for one in ended if not isinstance(one, BaseException)])

    def _answered(self, asked: Asked, turn: str | None) -> _Told | Waiting:
        entry = self._entry(asked, turn)
        if isinstance(entry, _Told):
            return entry
        answered: _Told | Waiting = entry.walk(self._ledger.blocking, entry.words)
        return answered

    async def _answered_async(self, asked: Asked, turn: str | None) -> _Told | Waiting:
        entry = self._entry(asked, turn)
        if isinstance(entry, _Told):
            return entry
        answered: _Told | Waiting = await entry.walk_async(self._ledger.awaited, entry.words)
        return answered

    def _entry(self, asked: Asked, turn: str | None) -> _Entry | _Told:
        """Return a call on its way; or what the model is told of a call that cannot be made."""
        tool = self._tools.get(asked.tool)
        if tool is None:
            return _Told(f"there is no tool {asked.tool!r}; there are: {', '.join(self._tools)}", is_error=True)
        reading = self._readings[asked.tool]
        try:
            call = self._terms.call(
                Named(
                    tool=asked.tool,
                    args=reading.bound_args(object_in(asked.arguments)),
                    run_id=self._run,
                    call_id=asked.call_id or None,
                    schema=self._schemas[asked.tool],
                    turn=turn,
                    reads=partial(_read_again, reading),
                )
            )
        except ValueError as wrong:
            return _Told(f"{asked.tool} was not called: {wrong}", is_error=True)
        kind = _AsyncEntry if inspect.iscoroutinefunction(tool) else _Entry
        return kind(reading, call, self._terms.at_once(asked.tool))


@dataclass(frozen=True, slots=True)
class _Told:
    """Is what the model is told of one call."""

    text: str
    is_error: bool = False


class _Entry(Entry):
    """One call on its way through a loop."""

    def __init__(self, reading: Reading, call: ToolCall, words: dict[str, Any]) -> None:
        super().__init__(call)
        self._reading = reading
        self.words = words

    def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments."""
        with self.running(effect):
            entered = self._reading.enter(effect)
        return self._awaited(effect, entered) if inspect.isawaitable(entered) else entered

    async def _awaited(self, effect: RunningEffect, entered: Awaitable[Any]) -> Any:
        """Return what a tool gives that is no coroutine function, and has to be awaited all the same."""
        with self.running(effect):
            return await entered

    def given(self, recorded: Any) -> _Told:
        """Return what the model is told of a value."""
        return _Told(with_note(_text(recorded), self.note))

    def told_of(self, refusal: Exception, error: Exception) -> _Told | Waiting:
        """Return what becomes of a call without a value, or raise."""
        is_lost = isinstance(refusal, ResultNotRecorded)
        heard = heard_of(EffectInDoubt(str(refusal)) if is_lost else refusal, self.call.tool)
        match refusal:
            case ApprovalPending() | EffectInDoubt() | ResultNotRecorded() | StillRunning():
                asked = question_of(refusal, self.elsewhere) if isinstance(refusal, ApprovalPending) else None
                return Waiting(
                    call_id=self.call.call_id or "",
                    tool=self.call.tool,
                    why=str(refusal),
                    told="" if heard is None else heard.text,
                    approval=getattr(refusal, "approval", None),
                    effect=getattr(refusal, "effect", None),
                    question=asked,
                    elsewhere=self.elsewhere,
                )
            case _ if heard is not None and isinstance(refusal, (NothingHappened, EffectFailed, *SAID_TO_THE_MODEL)):
                return _Told(heard.text, is_error=True)
            case _:
                raise error


class _AsyncEntry(_Entry):
    """The same for a tool that is awaited."""

    async def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments."""
        with self.running(effect):
            return await self._reading.enter(effect)


def _together(asked: list[Asked], ended: list[_Told | Waiting]) -> Answered:
    told = [(call, one.text, one.is_error) for call, one in zip(asked, ended, strict=True) if isinstance(one, _Told)]
    return Answered(messages=messages_of(told), waiting=tuple(one for one in ended if isinstance(one, Waiting)))


def _read_again(reading: Reading, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded arguments as the function reads them: what it takes by `**` is recorded under that name."""
    parameters = reading.signature.parameters.items()
    open_ = [name for name, one in parameters if one.kind is inspect.Parameter.VAR_KEYWORD]
    said = {name: value for name, value in args.items() if name not in open_}
    for name in open_:
        rest = args.get(name, {})
        if not isinstance(rest, Mapping) or not said.keys().isdisjoint(rest):
            raise BadCall(f"{reading.name}: {name} holds the arguments that have no parameter, by their names")
        said |= rest
    return reading.bound_args(said)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _plain(name: str, tool: Callable[..., Any]) -> Callable[..., Any]:
    if not callable(tool):
        raise BadCall(f"{name}: {tool!r} cannot be called; pass a function")
    if hasattr(tool, "handler") and hasattr(tool, "__wrapped__"):  # made by @ledger.tool
        raise BadCall(f"{name}: stands behind the ledger already; pass the plain function, and its words as terms")
    return tool
