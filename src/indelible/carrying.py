"""Carries a run into threads, executors, generators and callbacks, whatever run is current there."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from indelible.core.effects.calls import check_run_id
from indelible.engine.current_run import EnteredRun, block_to_leave, enter, inside
from indelible.errors import BadCall
from indelible.tool import Tool

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

P = ParamSpec("P")
R = TypeVar("R")


class CarriedRun:
    """Is a run that can be handed to other code: its calls say by themselves where they belong."""

    def __init__(self) -> None:
        self._blocks: list[EnteredRun] = []

    @property
    def id(self) -> str:
        """Names the run."""
        raise NotImplementedError

    def call(self, tool: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a tool in this run, from any thread, generator or callback.

        Args:
            tool: A function that `@ledger.tool` made. A coroutine function is to be awaited.
            args, kwargs: Its arguments.

        Raises:
            BadCall: It is not such a tool.
        """
        if not isinstance(tool, Tool):
            raise BadCall(
                f"{tool!r} is no tool of a ledger, so it cannot be told its run; decorate it with @ledger.tool, or "
                "call it in a block of its own: with ledger.in_run(…)"
            )
        result: R = tool.called_in(self.id, *args, **kwargs)
        return result

    def bind(self, tool: Callable[P, R]) -> Callable[P, R]:
        """Return a function that calls this tool in this run, for a thread, a generator or a callback."""
        return partial(self.call, tool)

    def executor(self, max_workers: int | None = None) -> ThreadPoolExecutor:
        """Return a `ThreadPoolExecutor` whose `submit` and `map` work in this run, in a copy of the caller's context.

        Args:
            max_workers: How many threads. Default: as `ThreadPoolExecutor` chooses.
        """
        from concurrent.futures import Future, ThreadPoolExecutor  # only a program that has threads loads it

        run_id = self.id

        class RunExecutor(ThreadPoolExecutor):
            """Does its work in one run."""

            def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
                return super().submit(copy_context().run, inside, run_id, fn, *args, **kwargs)

        return RunExecutor(max_workers, thread_name_prefix="indelible-run")

    def _enter_block(self) -> None:
        self._blocks.append(enter(self.id))

    def _leave_block(self) -> None:
        block = block_to_leave(self._blocks)
        self._blocks.remove(block)
        block.leave()


class NamedRun(CarriedRun):
    """Is what `ledger.in_run` gives: a block in which tools belong to a run, and a handle to carry the run elsewhere.

    Example:
        with ledger.in_run("order-123") as run:
            charge(1999)
            threading.Thread(target=run.bind(notify), args=("paid",)).start()
    """

    def __init__(self, run_id: str) -> None:
        check_run_id(run_id)
        super().__init__()
        self._id = run_id

    @property
    def id(self) -> str:
        """Names the run."""
        return self._id

    def __enter__(self) -> NamedRun:
        self._enter_block()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave_block()
