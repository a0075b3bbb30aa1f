"""The face of locus's idempotent tools, over a ledger of ours: what it keeps in memory for a run is on the record here.

from indelible.compat.locus import agent_run, tool


@tool(idempotent=True)
def transfer(from_acct: str, to_acct: str, amount: float) -> dict: ...


with agent_run("order-123"):  # around the agent's loop
    transfer("A", "B", 100)

What differs, and why: docs/migrate/locus.md.
"""

from __future__ import annotations

import functools
import inspect
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar, cast, overload

from indelible import AsyncLedger, Failed, Ledger, NothingHappened, RunningEffect, Succeeded, ToolCall, current_run
from indelible.errors import BadCall, IllegalMove, NoRun

__all__ = ["Execution", "IdempotentTool", "agent_run", "tool"]

P = ParamSpec("P")
R = TypeVar("R")
OnFailure = Literal["keep", "again"]
_FOR_ITS_AGENT = frozenset({"labels", "sandbox", "deferred", "emits_progress"})
ACROSS_RUNS = "indelible:locus:across runs"
"""Is the scope of calls that happen once in all runs of all agents. No run may have such a name."""
_FAILED_BEFORE = "FailedBefore"
"""Is the error type of what a tool raised when it was called elsewhere."""
_AS_THERE: Mapping[str, Any] = {"failed_on": Exception}
"""What locus documents and our tools do not do by themselves: a body that raises has failed."""


class _Loop(NamedTuple):
    """Is the agent's loop that calls are made in."""

    ledger: Ledger
    agent: str | None


_loops: ContextVar[Mapping[str, _Loop]] = ContextVar("indelible_locus_loops", default=MappingProxyType({}))
"""The loops that are under way here, by their runs."""
_opening = threading.Lock()
_opened: list[Ledger] = []


@overload
def tool(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    across_runs: bool = False,
    on_failure: OnFailure = "keep",
    **words: Any,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    across_runs: bool = False,
    on_failure: OnFailure = "keep",
    **words: Any,
) -> Any:
    """Decorates a tool; with `idempotent`, its body is entered once for the same arguments in the same agent run.

    With `across_runs`, once in all runs of all agents. A body that raises has failed for good, as its first result;
    `on_failure="again"` says that a body which raised has done nothing, and may be entered again. Further words are
    those of `@ledger.tool`; `failed_on=()` leaves a body that raises in doubt. Without `idempotent` the function stays
    as it is.
    """
    if on_failure not in ("keep", "again"):
        raise BadCall(f"on_failure={on_failure!r}: choose keep or again")
    if for_its_agent := sorted(_FOR_ITS_AGENT & set(words)):
        raise BadCall(f"{', '.join(for_its_agent)}: that is for locus's own agent, which is not here; leave it out")
    if not idempotent and (across_runs or on_failure != "keep" or words):
        raise BadCall("a tool that is not idempotent is called each time: say idempotent=True, or nothing more")

    def decorated(body: Callable[..., Any]) -> Callable[..., Any]:
        if not idempotent:
            return body
        made = IdempotentTool(body, name or body.__name__, across_runs, on_failure, words)
        made.description = description or made.description
        return made

    return decorated if function is None else decorated(function)


class IdempotentTool(Generic[P, R]):
    """Is a tool whose calls go through the ledger of the agent run that they are made in."""

    def __init__(
        self, body: Callable[P, R], name: str, across_runs: bool, on_failure: OnFailure, words: Mapping[str, Any]
    ) -> None:
        functools.update_wrapper(self, body)
        self.name = name
        self.description = inspect.getdoc(body) or ""
        self.idempotent = True
        self._across_runs = across_runs
        self._words = words
        self._body: Callable[..., Any] = body if on_failure == "keep" else _nothing_when_it_raises(body)
        self._behind: dict[int, tuple[Ledger, Any]] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        loop = _loop_here(self.name)
        behind = self._in(loop.ledger)
        call = self._of_the_loop(behind.bind(*args, **kwargs), loop)
        if behind.is_async:
            return cast("R", _given_async(loop.ledger, call, behind.handler))
        try:
            return cast("R", loop.ledger.run(call, behind.handler))
        except _NothingRaised as nothing:
            raise nothing.error from None

    def call(self, arguments: Mapping[str, Any]) -> ToolCall:
        """Gives the call that these arguments make here, without making it."""
        loop = _loop_here(self.name)
        return self._of_the_loop(self._in(loop.ledger).bind(**arguments), loop)

    def _in(self, ledger: Ledger) -> Any:
        """Gives this tool as that ledger knows it; a tool is often made before there is a ledger."""
        known = self._behind.get(id(ledger))
        if known is None or known[0] is not ledger:
            known = self._behind[id(ledger)] = (
                ledger,
                ledger.tool(self.name, **{**_AS_THERE, **self._words})(self._body),
            )
        return known[1]

    def _of_the_loop(self, call: ToolCall, loop: _Loop) -> ToolCall:
        """Two agents that make the same call in one run make two, unless it happens once across runs."""
        call = replace(call, run_id=current_run())
        if self._across_runs:
            return replace(call, scope=ACROSS_RUNS)
        return call if loop.agent is None else replace(call, part=("agent", loop.agent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Is a tool call that was made before, elsewhere: its result, or what it raised."""

    tool: IdempotentTool[Any, Any]
    arguments: Mapping[str, Any]
    result: Any = None
    error: str | None = None


@contextmanager
def agent_run(
    run_id: str | None = None,
    *,
    ledger: Ledger | AsyncLedger | None = None,
    agent: str | None = None,
    tool_executions: Sequence[Execution] = (),
) -> Iterator[str]:
    """Makes the calls of idempotent tools inside belong to one run of an agent, and gives that run's name.

    A name is what lets a run be resumed after a crash, here or elsewhere; without one, each is a run of its own.
    `tool_executions` are calls that were made before this ledger knew the run: they are not made again. Without a
    ledger it is the one that `Ledger.open()` finds.
    """
    here = _default() if ledger is None else ledger.blocking
    name = run_id or f"agent-run-{secrets.token_hex(8)}"
    outer = _loops.get()
    _loops.set({**outer, name: _Loop(here, agent)})
    try:
        with here.in_run(name):
            for execution in tool_executions:
                _take_over(here, execution)
            yield name
    finally:
        others = {run: loop for run, loop in _loops.get().items() if run != name}
        _loops.set({**others, name: outer[name]} if name in outer else others)


def _take_over(ledger: Ledger, execution: Execution) -> None:
    """Record what came of a call when it was made elsewhere; what is recorded here already stays.

    Raises:
        IllegalMove: It was done there, and has another end here, or none: the agent's loop must not begin.
    """
    failed = None if execution.error is None else Failed(execution.error, _FAILED_BEFORE)
    outcome = failed or Succeeded(execution.result)
    try:
        ledger._engine.drive(ledger._adopt(execution.tool.call(execution.arguments), outcome, {"ledger": "locus"}))
    except IllegalMove:
        if failed is None:
            raise


class _NothingRaised(NothingHappened):
    """Carries what a body raised that says it has done nothing then."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__qualname__}: {error}")
        self.error = error


def _nothing_when_it_raises(body: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(body):

        @functools.wraps(body)
        async def entered_async(*args: Any, **kwargs: Any) -> Any:
            try:
                return await body(*args, **kwargs)
            except Exception as error:
                raise _NothingRaised(error) from error

        return entered_async

    @functools.wraps(body)
    def entered(*args: Any, **kwargs: Any) -> Any:
        try:
            return body(*args, **kwargs)
        except Exception as error:
            raise _NothingRaised(error) from error

    return entered


async def _given_async(ledger: Ledger, call: ToolCall, handler: Callable[[RunningEffect], Any]) -> Any:
    async def entered(effect: RunningEffect) -> Any:
        return await handler(effect)

    try:
        return await ledger.awaited.run(call, entered)
    except _NothingRaised as nothing:
        raise nothing.error from None


def _loop_here(name: str) -> _Loop:
    loop = _loops.get().get(current_run() or "")
    if loop is None:
        # Without one, the same call on another day would be taken for a repeat, or a repeat for a new call.
        raise NoRun(f"{name} is called outside of an agent's run; write around the loop: with agent_run('…'):")
    return loop


def _default() -> Ledger:
    with _opening:
        if not _opened:
            _opened.append(Ledger.open())
        return _opened[0]
