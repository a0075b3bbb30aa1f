"""Enters handlers, blocking or asynchronous, and reports what came of it: a value, or whatever was raised."""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from indelible.core.commands import (
    Answer,
    Claimed,
    Command,
    Finish,
    Forbidden,
    Late,
    Moved,
    Open,
    Replayed,
    ReplayedFailure,
)
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.requests import Invoke, Raised, Returned
from indelible.core.ports import Store
from indelible.core.rights import permitted
from indelible.engine.current_run import inside
from indelible.engine.running import RunningEffect, _current, in_own_thread
from indelible.engine.tracing import tell_replayed

if TYPE_CHECKING:
    from asyncio import Task
    from concurrent.futures import Future

Handler = Callable[[RunningEffect], Any]
OnReplay = Callable[[Effect], None]


class Errand:
    """Is what one drive of a walk carries along: the handler, and the effect it is running."""

    __slots__ = ("_handler", "_on_replay", "_pid", "_running", "_unreported", "asked_at")

    def __init__(self, handler: Handler | None, on_replay: OnReplay | None = None) -> None:
        self.asked_at = 0.0
        self._handler = handler
        self._on_replay = on_replay
        self._running: RunningEffect | None = None
        self._pid = os.getpid()
        self._unreported: Claim | None = None

    @property
    def unreported(self) -> Claim | None:
        """Return the claim of which nothing was reported yet; a forked child has none, it is its parent's."""
        return self._unreported if os.getpid() == self._pid else None

    @property
    def was_entered(self) -> bool:
        """Say whether the handler of the newest claim was entered."""
        return self._running is not None and self._running.was_entered

    @property
    def handler(self) -> Handler:
        """Is the tool's body; only walks that were given one invoke it."""
        assert self._handler is not None, "only walks that were given a handler invoke one"
        return self._handler

    def note(self, command: Command) -> None:
        """Notes when a claim is asked for: its lease begins later than that."""
        if isinstance(command, Open):
            self.asked_at = seconds_up()

    def enter(self, entry: Invoke, store: Store) -> RunningEffect:
        """Gives the effect as the handler that is now entered sees it."""
        self._running = RunningEffect(
            entry.claim,
            store,
            is_async=is_coroutine_function(self.handler),
            screen=entry.screen,
            volatile=entry.handling.volatile,
            added=entry.added,
        )
        return self._running

    def heard(self, answer: Answer) -> Answer:
        """Note a claim that is now ours to report; let a call that will not enter its handler leave a trace.

        Raises:
            NotPermitted: The server's answer is that the credential is not for this.
        """
        if isinstance(answer, Forbidden):
            permitted(answer)
        if self._handler is not None and isinstance(answer, Claimed):
            self._unreported, self._running = answer.claim, None
        elif isinstance(answer, Moved | Late):
            self._unreported = None
        if self._handler is not None and isinstance(answer, Replayed | ReplayedFailure):
            tell_replayed(answer.effect)
            if self._on_replay is not None:
                self._on_replay(answer.effect)
        return answer

    @property
    def holds_transaction(self) -> bool:
        """Has the handler a transaction open?"""
        return self._running is not None and self._running.holds_transaction

    def settle_inside(self, command: Command) -> Answer | None:
        """Settles in the handler's own transaction; None when the command has to go the common way."""
        if self._running is None or not self._running.holds_transaction:
            return None
        if not isinstance(command, Finish):
            self._running.give_up()
            return None
        answer = self._running.settle_inside(command)
        if not isinstance(answer, Moved):
            return None
        self._unreported = None
        return answer


def seconds_up() -> float:
    """Gives a time that nobody can set back, and that goes on while the machine sleeps, where it tells that."""
    return time.monotonic() if _UP is None else time.clock_gettime(_UP)


_UP: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def entered(running: RunningEffect, handler: Handler) -> Any:
    """Enters a handler in this thread, and gives what it gave."""
    token = _current.set(running)
    try:
        running.was_entered = True
        return inside(running.run_id, lambda: finish_coroutine(handler(running)))
    finally:
        _current.reset(token)


def report_of(body: Callable[[], Any]) -> Returned | Raised:
    """Gives what came of it, and raises nothing."""
    try:
        return Returned(body())
    except BaseException as error:
        return Raised(error, is_interruption=not isinstance(error, Exception))


def fulfil(future: Future[Returned | Raised], body: Callable[[], Any]) -> Returned | Raised:
    """Gives what came of it, to whoever waits for the future as well."""
    report = report_of(body)
    future.set_result(report)
    return report


async def report_async(body: Awaitable[Any]) -> Returned | Raised:
    """Gives what came of awaiting it, and raises nothing.

    A handler that was cancelled may raise another exception for it: many clients translate CancelledError.
    """
    import asyncio

    task = asyncio.current_task()
    before = _cancellations(task)
    try:
        return Returned(await body)
    except BaseException as error:
        was_canceled = _cancellations(task) > before
        return Raised(error, is_interruption=was_canceled or not isinstance(error, Exception), is_canceled=was_canceled)


def _cancellations(task: Task[Any] | None) -> int:
    return 0 if task is None else task.cancelling()


async def report_in_time(body: Awaitable[Any], most: timedelta, claim: Claim) -> Returned | Raised:
    """Gives what came of it within a time limit; when that is up, nobody waits any more."""
    import asyncio

    before = _cancellations(asyncio.current_task())
    async with asyncio.timeout(most.total_seconds()) as limit:
        report = await report_async(body)  # the limit's cancellation ends here, as a report
    if limit.expired() and isinstance(report, Raised):  # what a handler returned in spite of its limit is known
        error = TimeoutError(f"{claim.effect.tool} did not return within {most}")
        is_canceled = _cancellations(asyncio.current_task()) > before  # besides, by another hand
        return Raised(error, is_interruption=True, is_canceled=is_canceled)
    return report


def is_coroutine_function(handler: Handler) -> bool:
    """Has what this handler gives to be awaited?"""
    code = getattr(handler, "__code__", None)
    if code is not None:  # a plain function; asking `inspect` costs ten times as much
        return bool(code.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _is(kind: Callable[[Any], bool], value: Any) -> bool:
    """Looks at what a handler gave; what cannot even be looked at was given all the same, and is no failure of it."""
    try:
        return kind(value)
    except Exception:
        return False


def finish_coroutine(value: Any) -> Any:
    """Runs a coroutine that a blocking caller got from its handler; anything else is given back as it is."""
    if not _is(inspect.iscoroutine, value):
        return value
    import asyncio
    from concurrent.futures import Future

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(value)
    # This thread already runs a loop, which must not be entered twice: a thread of its own has its own loop.
    future: Future[Any] = Future()
    work = copy_context().run

    def body() -> None:
        try:
            future.set_result(work(asyncio.run, value))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=body, name="indelible-handler", daemon=True).start()
    return future.result()


async def finish_awaitable(value: Any) -> Any:
    """Awaits what a task got from its handler, if that can be awaited; anything else is given back as it is."""
    return await value if _is(inspect.isawaitable, value) else value


async def in_own_time(function: Callable[[Effect], Any], effect: Effect) -> Any:
    """Asks a probe from a task: a coroutine function here, any other function in a thread of its own."""
    if inspect.iscoroutinefunction(function):
        return await function(effect)
    value = await in_own_thread(function, effect)
    return await value if inspect.isawaitable(value) else value
