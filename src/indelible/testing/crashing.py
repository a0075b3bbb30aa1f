"""Crashes for tests of programs: a body runs in a process of its own, which is killed at a named moment of a call.

    crash_at("after_handler", work)       # a child process runs work(), and is killed there with SIGKILL
    work()                                # what your program does when it is started again

The child is a fork, so a body may use whatever the test has made, a ledger that is open as well.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, get_args

from indelible.core.commands import Claimed, Finish, Open, Relinquish
from indelible.core.effects.requests import Submit
from indelible.core.runs.commands import StartRun, TakeRun
from indelible.engine.engine import Engine
from indelible.errors import BadCall

Point = Literal["before_claim", "after_claim", "after_handler", "after_record"]
POINTS: tuple[Point, ...] = get_args(Point)
Body = Callable[[], Any]
_LEASE = timedelta(milliseconds=1)
"""Is the lease of a process that is about to be killed, so that no test waits until it may be taken for dead."""


class NotThere(AssertionError):
    """The body ended without coming to the moment at which it was to be killed."""


def crash_at(point: Point, body: Body, *, tool: str | None = None) -> None:
    """Runs a body, blocking or a coroutine function, in a child process that is killed at a moment of its first call.

    `before_claim`: nothing is recorded yet. `after_claim`: the call is claimed, its handler not entered.
    `after_handler`: the handler has returned, nobody knows what. `after_record`: it is recorded, and not yet told.
    With `tool`, the moment is one of that tool's. What the killed process held, a call or the driving of a run, is free
    at once: nobody waits for its lease.
    """
    if point not in POINTS:
        raise BadCall(f"point={point!r}: choose one of {', '.join(POINTS)}")
    child = start(body, prepare=lambda: _die_at(point, tool))
    ended, told = child.end()
    if ended != -signal.SIGKILL:
        raise NotThere(f"no call came to {point}; the body {told or f'ended with {ended}'}")


class Child:
    """Is a process that runs a body, and what it tells of its end."""

    def __init__(self, pid: int, line: int) -> None:
        self._pid = pid
        self._line = line

    def end(self) -> tuple[int, str]:
        """Waits for its end; gives its exit status, negative for a signal, and what the body raised, if anything."""
        try:
            with os.fdopen(self._line, "rb") as line:
                told = line.read().decode(errors="replace")
            status = os.waitpid(self._pid, 0)[1]
        except BaseException:  # the test is stopped: so is its child
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            raise
        return os.waitstatus_to_exitcode(status), told


def start(body: Body, *, prepare: Callable[[], None] | None = None) -> Child:
    """Starts a body in a forked process."""
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Newer Pythons warn of forks beside threads. The ledger's own are made for it, and this child ends soon.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(write)
        return Child(pid, read)
    os.close(read)
    told = "returned"
    code = 1
    try:
        if prepare is not None:
            prepare()
        finish(body)
        code = 0
    except BaseException:
        told = f"raised:\n{traceback.format_exc()}"
    finally:
        os.write(write, told.encode()[:60_000])
        os._exit(code)  # what the test has open is the parent's to close


def finish(body: Body) -> Any:
    """Runs a body to its end, in an event loop of its own if it is a coroutine function."""
    value = body()
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value


def _die_at(point: Point, tool: str | None) -> None:
    """Changes the engine of this process, which is about to end, so that it kills itself at that moment."""
    perform, perform_async, write_alone = Engine._perform, Engine._perform_async, Engine.write_alone
    moment = _Moment(point, tool)

    def perform_and_die(self: Engine, request: Any, errand: Any) -> Any:
        request = moment.before(request)
        answer = perform(self, request, errand)
        moment.after(request, answer)
        return answer

    async def perform_and_die_async(self: Engine, request: Any, errand: Any) -> Any:
        request = moment.before(request)
        answer = await perform_async(self, request, errand)
        moment.after(request, answer)
        return answer

    def write_alone_for_a_moment(self: Engine, command: Any, known: Any = None) -> Any:
        is_seat = isinstance(command, StartRun | TakeRun)
        return write_alone(self, replace(command, lease=_LEASE) if is_seat else command, known)

    Engine.write_alone = write_alone_for_a_moment  # type: ignore[method-assign]
    Engine._perform = perform_and_die  # type: ignore[method-assign]
    Engine._perform_async = perform_and_die_async  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class _Moment:
    """Knows when this process is to be killed, by what it is about to write and by what it has written."""

    point: Point
    tool: str | None

    def before(self, request: Any) -> Any:
        """Gives what is to be done, if this is not the moment."""
        match request:
            case Submit(Open(only_asks=False) as asked, known) if self._is_meant(asked.tool):
                self._dies_at("before_claim")
                if self.point in ("after_claim", "after_handler"):
                    return Submit(replace(asked, lease=_LEASE), known)
            case Submit(Finish(claim=claim) | Relinquish(claim=claim)) if self._is_meant(claim.effect.tool):
                self._dies_at("after_handler")
        return request

    def after(self, request: Any, answer: Any) -> None:
        """Goes on, if this is not the moment."""
        match request, answer:
            case Submit(Open()), Claimed(claim) if self._is_meant(claim.effect.tool):
                self._dies_at("after_claim")
            case Submit(Finish(claim=claim)), _ if self._is_meant(claim.effect.tool):
                self._dies_at("after_record")
            case _:
                return

    def _is_meant(self, tool: str) -> bool:
        return self.tool is None or self.tool == tool

    def _dies_at(self, here: Point) -> None:
        if self.point == here:
            os.kill(os.getpid(), signal.SIGKILL)
