"""Which run do calls belong to here? The one whose block we are in.

A context variable follows tasks and `asyncio.to_thread`. It leaks out of generators: what a generator sets stays set
while the generator is suspended, for code that is not its own, and is lost when it goes on in another context. So no
run is entered where the block can be suspended without its context.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from opcode import opmap
from types import FrameType
from typing import Any, TypeVar

from indelible.core.effects.calls import UNNAMED_RUN
from indelible.errors import NoRun

Result = TypeVar("Result")

_ENTERS = frozenset({"__enter__", "__aenter__"})
_HANDING_ON = frozenset({"contextlib", "indelible.carrying", "indelible.runs.active", "indelible.runs.active_aio"})
"""Modules whose functions enter a block for the code that called them; `inner` is a decorator's own block."""
_GENERATORS = CO_GENERATOR | CO_ASYNC_GENERATOR


class EnteredRun:
    """Is one block of one run, from when it was entered until it is left, in whatever order and context."""

    __slots__ = ("_is_open", "_mark", "_task", "run_id")

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._task = _task()
        self._is_open = True
        self._mark = _mark.set(None)
        _entered.set((*_here(), self))

    def leave(self) -> None:
        """End the block. The run stays current in contexts that were copied inside it, as in a task begun there."""
        self._is_open = False
        _entered.set(tuple(one for one in _entered.get() if one is not self))

    @property
    def is_over(self) -> bool:
        """Say whether this block was entered in this context and has been left, here or in another one."""
        return not self._is_open and self._is_of_this_context()

    def is_of(self, task: Any) -> bool:
        """Say whether this task entered the block."""
        return task is not None and task is self._task

    def is_of_task_beside(self, task: Any) -> bool:
        """Say whether another task that is under way entered the block, in this same context."""
        is_other = self._task is not None and self._task is not task
        return is_other and not self._task.done() and self._is_of_this_context()

    def _is_of_this_context(self) -> bool:
        """Say whether this block was entered in this very context, and not in one that this is a copy of."""
        try:
            _mark.reset(self._mark)
        except ValueError:  # a token is of one context
            return False
        self._mark = _mark.set(None)  # and counts once
        return True


_entered: ContextVar[tuple[EnteredRun, ...]] = ContextVar("indelible_runs", default=())
_mark: ContextVar[None] = ContextVar("indelible_context", default=None)


def current_run() -> str | None:
    """Return the run that calls belong to here: that of the innermost block or handler around us, or None."""
    entered = _here()
    if not entered:
        return None
    task = _task()
    newest = next((one for one in reversed(entered) if one.is_of(task)), entered[-1])
    return None if newest.run_id == UNNAMED_RUN else newest.run_id


def enter(run_id: str) -> EnteredRun:
    """Make a run current in the block that is entered here; it is left with `leave`, in any order.

    Raises:
        NoRun: The block is in a generator, or another task has entered a run in this same context.
    """
    generator = _suspending(sys._getframe(1))
    if generator is not None:
        name = generator.f_code.co_qualname
        raise NoRun(
            f"{run_id} is not entered: {name} is a generator, and while it is suspended the run would be that of other "
            f"code. Carry the run by hand: run = ledger.in_run({run_id!r}), then run.call(tool, …) or run.bind(tool). "
            f"Or enter it around the code that goes through {name}"
        )
    task = _task()
    if any(one.is_of_task_beside(task) for one in _here()):
        raise NoRun(
            f"{run_id} is not entered: another task has entered a run in this same context. Give each task a context "
            "of its own (leave context= out), or carry the run by hand: run.call(tool, …)"
        )
    return EnteredRun(run_id)


def inside(run_id: str, function: Callable[..., Result], *arguments: Any, **words: Any) -> Result:
    """Call a function with a run as the current one."""
    entered = EnteredRun(run_id)
    try:
        return function(*arguments, **words)
    finally:
        entered.leave()


def block_to_leave(blocks: Sequence[EnteredRun]) -> EnteredRun:
    """Return the one of these blocks that ends here: the newest of this context, or else of all."""
    return next((one for one in reversed(_entered.get()) if one in blocks), blocks[-1])


def _here() -> tuple[EnteredRun, ...]:
    return tuple(one for one in _entered.get() if not one.is_over)


def _suspending(entering: FrameType) -> FrameType | None:
    """Return the frame that can be suspended while the block that is entered here is open; None if there is none.

    A function with a `with` block ends before the generator that called it is suspended. What is entered by hand may
    outlive its function, so there no generator may be around at all.
    """
    frame = _frame_of_block(entering)
    if _is_at_with(frame) and not frame.f_code.co_flags & (_GENERATORS | CO_COROUTINE):
        return None
    is_by_hand = not _is_at_with(frame)
    root = getattr(getattr(_task(), "get_coro", lambda: None)(), "cr_frame", None)
    awaited: FrameType | None = None
    here: FrameType | None = frame
    while here is not None and here is not root:
        if _is_awaited(here):
            awaited = here
        elif here.f_code.co_flags & _GENERATORS:
            if (is_by_hand or here is frame) and not _is_context_manager(here):
                return here
        elif awaited is not None:  # a function drives the coroutine by hand
            return awaited
        here = here.f_back
    return None if here is not None else awaited


def _frame_of_block(frame: FrameType) -> FrameType:
    """Return the frame whose `with` enters; enter methods and `@contextmanager` functions only hand it on."""
    while frame.f_back is not None and (
        frame.f_code.co_name in _ENTERS
        or _is_context_manager(frame)
        or (frame.f_globals.get("__name__") in _HANDING_ON and frame.f_code.co_name != "inner")
    ):
        frame = frame.f_back
    return frame


def _is_at_with(frame: FrameType) -> bool:
    """Say whether this frame is entering a `with` block; True where the interpreter does not tell."""
    if "BEFORE_WITH" not in opmap:
        return True
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] == opmap["BEFORE_WITH"]:
        return True
    is_awaiting = code[at] == opmap.get("SEND") and at >= 4
    return is_awaiting and code[at - 4] == opmap["GET_AWAITABLE"] and code[at - 3] == 1  # 1: of an `async with`


def _is_awaited(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) or frame.f_code.co_name == "__await__"


def _is_context_manager(frame: FrameType) -> bool:
    """Say whether this is the generator of a `@contextmanager`, which is resumed when its block ends."""
    driver = frame.f_back
    is_driven = driver is not None and driver.f_globals.get("__name__") == "contextlib"
    return is_driven and bool(frame.f_code.co_flags & _GENERATORS)


def _task() -> Any:
    """Return the running asyncio task; None outside of one."""
    tasks = sys.modules.get("asyncio.tasks")
    try:
        return None if tasks is None else tasks.current_task()
    except (RuntimeError, AttributeError):  # no loop runs in this thread, or asyncio is being imported
        return None
