"""A run in the hands of tasks: the verbs of `ActiveRun`, awaited."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from indelible.carrying import CarriedRun
from indelible.core.runs.commands import Told
from indelible.core.runs.resuming import ResumeContext
from indelible.core.runs.run import Checkpoint, Run
from indelible.runs.active import ActiveRun
from indelible.runs.asking import Asking

Result = TypeVar("Result")


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

    async def record(self, event_type: str, payload: Any = None, **words: Any) -> Told:
        """Records an event, durable when this returns."""
        return await self._aside(self._inner.record, event_type, payload, **words)

    async def record_all(self, events: Sequence[Mapping[str, Any]]) -> tuple[Told, ...]:
        """Records many events, all of them or none; each is a mapping of the words of `record`."""
        return await self._aside(self._inner.record_all, events)

    async def artifact(self, uri: str, **words: Any) -> Told:
        """Records something the run made."""
        return await self._aside(self._inner.artifact, uri, **words)

    async def checkpoint(self, state: Any = None, **words: Any) -> Checkpoint:
        """Seals the run as it is now, with the agent's own state."""
        return await self._aside(self._inner.checkpoint, state, **words)

    async def delegate(self, agent: str, intent: str = "", **words: Any) -> AsyncActiveRun:
        """Starts a run for another agent, whose parent is this one."""
        return AsyncActiveRun(await self._aside(self._inner.delegate, agent, intent, **words))

    async def finish_delegation(self, child: AsyncActiveRun | str, result: Any = None) -> Told:
        """Records that a delegated run has ended."""
        name = child if isinstance(child, str) else child.id
        return await self._aside(self._inner.finish_delegation, name, result)

    async def model_turn(
        self, model: str, request: Mapping[str, Any], call: Callable[[Mapping[str, Any]], Awaitable[Any] | Any]
    ) -> Any:
        """Gives a model's answer, asked for once: a resumed run gets the recorded answer of each turn again."""
        with self._inner._turn(request) as turn:
            return await self._inner._desk.drive_turn_async(turn, Asking(call, model, request))

    async def complete(self, reason: str = "completed") -> Run:
        """Ends the run: its work is done."""
        return await self._aside(self._inner.complete, reason)

    async def fail(self, reason: str, *, state: Any = None) -> Run:
        """Saves the run and calls it failed; it can be resumed."""
        return await self._aside(self._inner.fail, reason, state=state)

    async def cancel(self, reason: str = "canceled") -> Run:
        """Ends the run before its work is done."""
        return await self._aside(self._inner.cancel, reason)

    async def release(self) -> None:
        """Lets go of the run as it is: it stays active, and anybody can resume it at once."""
        await self._aside(self._inner.release)

    async def hand_off(self, to: str, **words: Any) -> Run:
        """Saves the run and lets go of it, for somebody else to resume."""
        return await self._aside(self._inner.hand_off, to, **words)

    async def _aside(self, function: Callable[..., Result], *arguments: Any, **words: Any) -> Result:
        return await asyncio.to_thread(functools.partial(function, *arguments, **words))

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
