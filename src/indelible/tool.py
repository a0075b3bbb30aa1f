"""`@ledger.tool`: a function whose every call goes through the ledger."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast

from indelible.core.approvals.edits import holds_mark as holds_mark
from indelible.core.effects.binding import Parameters as Parameters
from indelible.core.effects.binding import as_read
from indelible.core.effects.binding import bound as bound
from indelible.core.effects.calls import MODEL_TURN as MODEL_TURN
from indelible.core.effects.calls import QUESTION as QUESTION
from indelible.core.effects.calls import IdentityWords as IdentityWords
from indelible.core.effects.calls import ModelTurn as ModelTurn
from indelible.core.effects.calls import Options, OptionWords, ToolCall
from indelible.core.effects.calls import Question as Question
from indelible.core.effects.calls import check_tool_name as check_tool_name
from indelible.core.effects.calls import is_tool_name as is_tool_name
from indelible.core.effects.from_arguments import check_words as check_words
from indelible.core.effects.from_arguments import depends_on_arguments
from indelible.core.effects.from_arguments import identity_of as identity_of
from indelible.core.effects.identity import lasting_text as lasting_text
from indelible.core.effects.identity import says_the_same as says_the_same
from indelible.core.effects.identity import schema_hash
from indelible.core.effects.meaning import fate_of as fate_of
from indelible.core.effects.places import check_places as check_places
from indelible.core.effects.tightening import demanded as demanded
from indelible.core.effects.tightening import identified_by
from indelible.core.values.canonical import encode as encode
from indelible.core.values.left_out import left_out as left_out
from indelible.core.values.left_out import sort_sets as sort_sets
from indelible.core.values.revive import hints_of, holds_objects, is_read_otherwise, plainly, revive
from indelible.engine.running import RunningEffect, is_in_loop
from indelible.errors import BadCall, NothingHappened

if TYPE_CHECKING:
    from indelible.engine.desk import Desk

P = ParamSpec("P")
R = TypeVar("R")


class Reading:
    """How a function reads its arguments: what is recorded is what it gets.

    Args:
        function: The function.
        name: The tool's name, for errors.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.name = name
        self.signature = inspect.signature(function)
        self._function = function
        self._hints: dict[str, Any] | None = None
        self._read: tuple[str, ...] | None = None

    def bound_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return named arguments as the function reads them: what is judged, shown, keyed and run.

        Raises:
            BadCall: They do not fit the function.
        """
        return self.as_read(bound(self.signature, args, self.name))

    def as_got(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return recorded arguments with the objects that the function gets, where its types ask for some."""
        got = dict(args)
        for name in args.keys() & set(self._read_otherwise()):
            with suppress(TypeError, ValueError, AttributeError):  # an adapter's tool, which reads them in its own way
                got[name] = self._revived(name, args[name])
        return got

    def enter(self, effect: RunningEffect) -> Any:
        """Enter the function's body with the recorded arguments, and with nothing else."""
        arguments = self.signature.bind_partial()
        for name, value in effect.args.items():
            if name not in self.signature.parameters:
                if name not in effect.effect.args:
                    continue  # `added` names what the function has no more
                raise NothingHappened(
                    f"{self.name} takes no {name} any more, so the recorded call cannot be made; cancel it, or bring "
                    "the parameter back"
                )
            arguments.arguments[name] = self._entered_with(name, value)
        unseen = self.signature.parameters.keys() - arguments.arguments.keys()
        if unseen:
            raise self._unseen(", ".join(sorted(unseen)))
        return self._function(*arguments.args, **arguments.kwargs)

    def _entered_with(self, name: str, value: Any) -> Any:
        """Return a recorded argument as the function gets it, if that is what was recorded."""
        try:
            read = self._revived(name, value)
            if name not in self._read_otherwise() or encode(plainly(read)) == encode(value):
                return read
        except (TypeError, ValueError) as wrong:
            raise self._unseen(name) from wrong
        raise self._unseen(name)

    def _unseen(self, names: str) -> NothingHappened:
        return NothingHappened(
            f"{self.name} would read {names} differently from what is recorded, judged and approved, so it was not "
            "entered; make the call again, or deny it: indelible approvals list"
        )

    def _revived(self, name: str, value: Any) -> Any:
        kind, hint = self.signature.parameters[name].kind, self._type_of(name)
        if kind is inspect.Parameter.VAR_POSITIONAL:  # its hint is that of each item
            return tuple(revive(item, hint) for item in value)
        if kind is inspect.Parameter.VAR_KEYWORD:
            return {key: revive(item, hint) for key, item in value.items()}
        return revive(value, hint)

    def as_read(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with each model, dataclass and enum as the function reads it; plain ones stay."""
        whole = dict(args)
        read = self._read_otherwise()
        for name in [name for name, value in whole.items() if name in read or holds_objects(value)]:
            try:
                whole[name] = as_read(whole[name], functools.partial(self._revived, name))
            except (TypeError, ValueError, AttributeError) as wrong:
                raise BadCall(f"{self.name}: {name} does not fit the function: {wrong}") from wrong
        return whole

    def _read_otherwise(self) -> tuple[str, ...]:
        if self._read is None:
            self._read = tuple(name for name in self.signature.parameters if is_read_otherwise(self._type_of(name)))
        return self._read

    def _type_of(self, parameter: str) -> Any:
        if self._hints is None:
            self._hints = hints_of(self._function)
        return self._hints.get(parameter, Any)


class Tool(Generic[P, R]):
    """Is a function behind the ledger: binds arguments, gives the body the recorded ones, replays the result."""

    def __init__(
        self,
        desk: Desk,
        function: Callable[P, R],
        *,
        name: str | None,
        options: Options,
        **identity: Unpack[IdentityWords],
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = name or _name_of(function)
        check_tool_name(self.name)
        self._desk = desk
        self._function = function
        self._reading = Reading(function, self.name)
        self._signature = self._reading.signature
        self._identity = identity
        self._fixed: dict[str, Any] | None = None
        self.is_async = _is_async(function)
        self.options = options
        self.schema = schema_hash(schema_of(self.name, function, self._signature))
        self._check_function()
        self._check_identity()
        if not depends_on_arguments(identity):
            self._fixed = identity_of(identity, {}, self.name)

    def is_same_as(self, other: Tool[Any, Any]) -> bool:
        """Is this the same function, perhaps defined once more, as a notebook does?

        Methods of two objects are two: the object is no argument, so calls of one would be answered by the other's.
        """
        mine, others = _origin_of(self._function), _origin_of(other._function)
        return self._has_code_of(other) or (mine == others and mine[1] is not None and not mine[1].endswith("<lambda>"))

    def is_beside(self, other: Tool[Any, Any]) -> bool:
        """Return whether both may be in use, as what a factory makes; a module has one definition."""
        return self._has_code_of(other) or "<locals>" in getattr(self._function, "__qualname__", "<locals>")

    def _has_code_of(self, other: Tool[Any, Any]) -> bool:
        code = getattr(self._function, "__code__", None)
        is_code = code is not None and code is getattr(other._function, "__code__", None)
        return self._function is other._function or (
            is_code and getattr(self._function, "__self__", None) is getattr(other._function, "__self__", None)
        )

    def _check_function(self) -> None:
        if inspect.isgeneratorfunction(self._function) or inspect.isasyncgenfunction(self._function):
            raise BadCall(f"{self.name}: what a generator yields bit by bit cannot be recorded as one; return a list")
        if not self.is_async and _is_async(inspect.unwrap(self._function)):
            raise BadCall(
                f"{self.name}: is an async function behind a decorator whose own function is not, so nothing says "
                "whether its calls are awaited; make that one async too, or put @ledger.tool below that decorator"
            )
        if next(iter(self._signature.parameters), None) in ("self", "cls"):
            raise BadCall(
                f"{self.name}: a method's own object cannot be recorded as an argument; make a tool of one object's "
                f'method, with a name that says which: ledger.tool("{self.name}-…")(one.{self.name})'
            )

    def _check_identity(self) -> None:
        check_words(self.name, self._identity)
        check_places(self.name, self._function, self._identity, self.options)

    def _identity_of(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return identity_of(self._identity, args, self.name) if self._fixed is None else self._fixed

    def completed(self, call: ToolCall, words: OptionWords | None = None) -> ToolCall:
        """Return a call of this tool with its arguments as the function reads them, identified as the tool says.

        An adapter binds the calls that it makes, and gives them a schema of its own.

        Args:
            call: The call.
            words: What its caller says of how it is treated.

        Raises:
            BadCall: The arguments do not fit the function, or the call names another identity than the tool does, or
                a place that the function does not have.
        """
        if call.schema not in ("", self.schema):
            gaps = identified_by(call, self._identity_of(call.args))
            return replace(call, **gaps) if gaps else call
        said = {word: value for word in ("key", "varies", "added") if (value := getattr(call, word))}
        if said or words:
            check_places(self.name, self._function, said, Options(**(words or {})))
        args = self.bound_args(call.args)
        gaps = identified_by(call, self._identity_of(args))
        return replace(call, args=args, schema=self.schema, binds=self.bound_args, **gaps)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> ToolCall:
        """Return the tool call that calling the function so would make; a default is the same call as one left out.

        Raises:
            BadCall: An argument does not fit its type, or cannot be recorded as the function would read it.
        """
        arguments = self._signature.bind(*args, **kwargs)
        arguments.apply_defaults()
        whole = self._reading.as_read(arguments.arguments)
        identity = self._identity_of(whole)
        return ToolCall(tool=self.name, args=whole, schema=self.schema, binds=self.bound_args, **identity)

    def bound_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return named arguments as the function reads them: what is judged, shown, keyed and run.

        Raises:
            BadCall: They do not fit the function.
        """
        return self._reading.bound_args(args)

    def as_got(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return recorded arguments with the objects that the function gets."""
        return self._reading.as_got(args)

    def handler(self, effect: RunningEffect) -> Any:
        """Enter the function's body with the recorded arguments, and with nothing else."""
        return self._reading.enter(effect)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(self.bind(*args, **kwargs))

    def called_in(self, run_id: str, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in this run, whichever one is current here."""
        return self._run(replace(self.bind(*args, **kwargs), run_id=run_id))

    def _run(self, call: ToolCall) -> R:
        prepared = self._desk._prepare(call, is_bound=True)
        steps = self._desk._walking(prepared)
        engine = self._desk._engine
        if self.is_async:
            return cast("R", engine.drive_async(steps, _as_coroutine_function(self.handler)))
        return cast("R", engine.drive(steps, self._enter_blocking))

    def _enter_blocking(self, effect: RunningEffect) -> Any:
        """Enter the body of a blocking function. A coroutine of it belongs to the caller's loop, which waits here."""
        value = self.handler(effect)
        if inspect.iscoroutine(value) and is_in_loop():
            value.close()
            raise BadCall(f"{self.name}: returned a coroutine and is no async function; write async def, and await it")
        return value


def _is_async(function: Callable[..., Any]) -> bool:
    """Say whether a function's calls are awaited: a coroutine function, a static method or object that is one."""
    function = function.__func__ if isinstance(function, staticmethod) else function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _name_of(function: Callable[..., Any]) -> str:
    found: str | None = getattr(function, "__name__", None)
    if found is None:
        raise BadCall(f'{function!r} has no name of its own; give it one: ledger.tool("pay")(…)')
    return found


def _origin_of(function: Callable[..., Any]) -> tuple[str | None, str | None, object]:
    """Says where a function was written, and for a method whose it is; None where that is not known."""
    owner = getattr(function, "__self__", "")
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None), owner


def schema_of(name: str, function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """Return what a reviewer of a tool relies on: its name, what it says of itself, and its parameters."""
    parameters = [
        [
            parameter.name,
            parameter.kind.name,
            _hint_text(parameter.annotation),
            parameter.default is not parameter.empty,
        ]
        for parameter in signature.parameters.values()
    ]
    return {"description": inspect.getdoc(function) or "", "name": name, "parameters": parameters}


def _hint_text(hint: Any) -> str:
    return hint if isinstance(hint, str) else lasting_text(inspect.formatannotation(hint))


def _as_coroutine_function(handler: Callable[[RunningEffect], Any]) -> Callable[[RunningEffect], Any]:
    async def entered(effect: RunningEffect) -> Any:
        return await handler(effect)

    return entered


class ToolDecorator:
    """Makes a `Tool` of the function below it."""

    def __init__(
        self,
        desk: Desk,
        *,
        name: str | None,
        options: Options,
        **identity: Unpack[IdentityWords],
    ) -> None:
        self._desk = desk
        self._make = functools.partial(Tool, desk, name=name, options=options, **identity)

    def __call__(self, function: Callable[P, R]) -> Tool[P, R]:
        made = cast("Tool[P, R]", self._make(function))
        self._desk._register(made)
        return made
