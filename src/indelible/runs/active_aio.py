"""A run in the hands of tasks: the verbs of `ActiveRun`, awaited."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from indelible.carrying import CarriedRun
from indelible.core.runs.commands import Told
from indelible.core.runs.resuming import ResumeContext
from indelible.core.runs.run import Run
from indelible.runs.active import ActiveRun
from indelible.runs.asking import Asking

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(
    verb: Callable[Concatenate[ActiveRun, P], R],
) -> Callable[Concatenate[AsyncActiveRun, P], Coroutine[Any, Any, R]]:
    """Return a verb of the blocking run as one to await: it runs in a thread, so that the loop goes on."""

    async def awaited(self: AsyncActiveRun, /, *args: P.args, **words: P.kwargs) -> R:
        return await asyncio.to_thread(verb, self._inner, *args, **words)

    functools.update_wrapper(awaited, verb)
    return awaited


class AsyncActiveRun(CarriedRun):
    """Is a run that this process drives, for tasks: the same verbs, awaited."""

    def __init__(self, inner: ActiveRun) -> None:
        super().__init__()
        self._inner = inner

    @property
    def id(self) -> str:
        """Names the run."""
        return self._inner.id

    @property
    def run(self) -> Run:
        """Is how the run stood when this process last changed it."""
        return self._inner.run

    @property
    def fence(self) -> int:
        """Numbers who drives it."""
        return self._inner.fence

    @property
    def context(self) -> ResumeContext | None:
        """Is what a resumed run goes on with."""
        return self._inner.context

    @property
    def is_over(self) -> bool:
        """Was it ended or let go of here?"""
        return self._inner.is_over

    def check(self) -> None:
        """Raises when this process may not work on the run any more."""
        self._inner.check()

    async def delegate(self, agent: str, intent: str = "", **words: Any) -> AsyncActiveRun:
        """Starts a run for another agent, whose parent is this one."""
        return AsyncActiveRun(await asyncio.to_thread(self._inner.delegate, agent, intent, **words))

    async def finish_delegation(self, child: AsyncActiveRun | str, result: Any = None) -> Told:
        """Records that a delegated run has ended."""
        name = child if isinstance(child, str) else child.id
        return await asyncio.to_thread(self._inner.finish_delegation, name, result)

    async def model_turn(
        self, model: str, request: Mapping[str, Any], call: Callable[[Mapping[str, Any]], Awaitable[Any] | Any]
    ) -> Any:
        """Gives a model's answer, asked for once: a resumed run gets the recorded answer of each turn again."""
        with self._inner._turn(request) as turn:
            return await self._inner._desk.drive_turn_async(turn, Asking(call, model, request))

    record = _awaited(ActiveRun.record)
    record_all = _awaited(ActiveRun.record_all)
    artifact = _awaited(ActiveRun.artifact)
    checkpoint = _awaited(ActiveRun.checkpoint)
    complete = _awaited(ActiveRun.complete)
    fail = _awaited(ActiveRun.fail)
    cancel = _awaited(ActiveRun.cancel)
    release = _awaited(ActiveRun.release)
    hand_off = _awaited(ActiveRun.hand_off)

    async def __aenter__(self) -> AsyncActiveRun:
        self._inner._check_enter()
        self._enter_block()
        self._inner._is_entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._leave_block()
        # A task that is being cancelled still gets its run saved.
        await asyncio.shield(asyncio.to_thread(self._inner._leave, error))


class StartingRun:
    """Is a run about to be started or resumed: await it, or enter it as a block."""

    def __init__(self, begin: Callable[[], ActiveRun]) -> None:
        self._begin = begin
        self._run: AsyncActiveRun | None = None

    def __await__(self) -> Generator[Any, Any, AsyncActiveRun]:
        return self._started().__await__()

    async def _started(self) -> AsyncActiveRun:
        beginning = asyncio.ensure_future(asyncio.to_thread(self._begin))
        try:
            return AsyncActiveRun(await asyncio.shield(beginning))
        except asyncio.CancelledError:
            # The thread goes on and may have the run in a moment, which nobody would hold then.
            beginning.add_done_callback(_abandon)
            raise

    async def __aenter__(self) -> AsyncActiveRun:
        self._run = await self._started()
        return await self._run.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._run is not None, "who leaves has entered"
        await self._run.__aexit__(kind, error, at)


def _abandon(beginning: asyncio.Future[ActiveRun]) -> None:
    if not beginning.cancelled() and beginning.exception() is None:
        beginning.result().abandon()
