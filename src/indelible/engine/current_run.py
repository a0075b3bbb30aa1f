"""Which run do calls belong to here? The one whose block we are in, if that can be shown.

A context variable follows tasks and `asyncio.to_thread`. It also leaks out of generators: what a generator sets stays
set while the generator is suspended, for code that is not its own. So each block remembers the frame that entered it.
Once a block was entered inside a generator, a run is current only for code on top of such a frame. Other code is
refused, because it cannot be told which run it means.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import FrameType
from typing import Any, TypeVar

from indelible.core.effects.calls import UNNAMED_RUN
from indelible.errors import NoRun

Result = TypeVar("Result")

_ENTERS = frozenset({"__enter__", "__aenter__"})
_HANDING_ON = frozenset({"contextlib", "indelible.carrying", "indelible.runs.active", "indelible.runs.active_aio"})
"""Modules whose functions enter a block for the code that called them."""
_GENERATORS = CO_GENERATOR | CO_ASYNC_GENERATOR


class EnteredRun:
    """Is one block of one run, from when it was entered until it is left, in whatever context that happens."""

    __slots__ = ("_frame", "_generator", "_is_open", "_mark", "_task", "needs_proof", "run_id")

    def __init__(self, run_id: str, frame: FrameType | None, generator: FrameType | None) -> None:
        self.run_id = run_id
        self.needs_proof = generator is not None
        self._frame = frame
        self._generator = generator
        self._task = _task()
        self._is_open = True
        self._mark = _mark.set(None)
        outer = _here()
        for one in outer:  # tasks that were given one context suspend each other as generators do
            if one._task is not self._task and one.is_of_this_context():
                one.needs_proof = self.needs_proof = True
        _entered.set((*outer, self))

    def leave(self) -> None:
        """End the block. The run stays current in contexts that were copied inside it, as in a task begun there."""
        self._is_open = False
        self._frame = self._generator = None
        _entered.set(tuple(one for one in _entered.get() if one is not self))

    @property
    def is_over(self) -> bool:
        """Say whether this block was entered in this context and has been left, here or in another one."""
        return not self._is_open and self.is_of_this_context()

    def is_of_this_context(self) -> bool:
        """Say whether this block was entered in this very context, and not in one that this is a copy of."""
        try:
            _mark.reset(self._mark)
        except ValueError:  # a token is of one context
            return False
        self._mark = _mark.set(None)  # and counts once
        return True

    def is_shown_by(self, frame: FrameType) -> bool:
        """Say whether code on top of this frame is inside the block."""
        return frame is self._frame or frame is self._generator


_entered: ContextVar[tuple[EnteredRun, ...]] = ContextVar("indelible_runs", default=())
_mark: ContextVar[None] = ContextVar("indelible_context", default=None)


def current_run() -> str | None:
    """Return the run that calls belong to here: that of the innermost block or handler around us, or None.

    Raises:
        NoRun: A generator entered a run and is suspended, or started this thread or task. Which run is meant here
            cannot be told.
    """
    entered = _here()
    if not entered:
        return None
    found: EnteredRun | None = entered[-1]
    if any(one.needs_proof for one in entered):
        found = _shown(entered)
    if found is None:
        raise _unclear(entered)
    return None if found.run_id == UNNAMED_RUN else found.run_id


def enter(run_id: str) -> EnteredRun:
    """Make a run current in the block that is entered here; it is left with `leave`, in any order."""
    frame = _frame_of_block(sys._getframe(1))
    return EnteredRun(run_id, frame, _generator_around(frame))


def block_to_leave(blocks: Sequence[EnteredRun]) -> EnteredRun:
    """Return the one of these blocks that ends here: that of this code, else the newest of this context, else of all.

    One handle may have been entered by several threads and generators, which leave in any order.
    """
    return _shown(blocks) or next((one for one in reversed(_entered.get()) if one in blocks), blocks[-1])


def inside(run_id: str, function: Callable[..., Result], *arguments: Any, **words: Any) -> Result:
    """Call a function with a run as the current one."""
    entered = EnteredRun(run_id, sys._getframe(), None)
    try:
        return function(*arguments, **words)
    finally:
        entered.leave()


def _here() -> tuple[EnteredRun, ...]:
    return tuple(one for one in _entered.get() if not one.is_over)


def _shown(entered: Sequence[EnteredRun]) -> EnteredRun | None:
    """Return the block that the code here is in, by the frames below it; the innermost one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        for one in reversed(entered):
            if one.is_shown_by(frame):
                return one
        frame = frame.f_back
    return None


def _unclear(entered: tuple[EnteredRun, ...]) -> NoRun:
    named = ", ".join(sorted({repr(one.run_id) for one in entered}))
    return NoRun(
        f"it cannot be told which run is meant here: a generator entered a run ({named}), and this code is not below "
        "it. Nothing was recorded. Carry the run there by hand: run = ledger.in_run('order-123'), then "
        "run.call(tool, …) or run.bind(tool)"
    )


def _frame_of_block(frame: FrameType) -> FrameType:
    """Return the frame whose `with` enters; enter methods and `@contextmanager` functions only hand it on."""
    while frame.f_back is not None and (
        frame.f_code.co_name in _ENTERS or _module_of(frame) in _HANDING_ON or _is_context_manager(frame)
    ):
        frame = frame.f_back
    return frame


def _generator_around(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame around a block that can be suspended while the block is open; None if there is none.

    A task's own coroutines are suspended only together with their context, so they do not count.
    """
    root = getattr(getattr(_task(), "get_coro", lambda: None)(), "cr_frame", None)
    awaited: FrameType | None = None
    while frame is not None:
        flags = frame.f_code.co_flags
        if flags & CO_COROUTINE:
            if frame is root:
                return None
            awaited = frame
        elif flags & _GENERATORS:
            if not _is_context_manager(frame):
                return frame
        elif awaited is not None:  # a function drives it by hand
            return awaited
        frame = frame.f_back
    return awaited


def _is_context_manager(frame: FrameType) -> bool:
    """Say whether this is the generator of a `@contextmanager`, which is resumed when its block ends."""
    driver = frame.f_back
    return bool(frame.f_code.co_flags & _GENERATORS) and driver is not None and _module_of(driver) == "contextlib"


def _module_of(frame: FrameType) -> Any:
    return frame.f_globals.get("__name__")


def _task() -> Any:
    """Return the running asyncio task; None outside of one."""
    tasks = sys.modules.get("asyncio.tasks")
    try:
        return None if tasks is None else tasks.current_task()
    except (RuntimeError, AttributeError):  # no loop runs in this thread, or asyncio is being imported
        return None
