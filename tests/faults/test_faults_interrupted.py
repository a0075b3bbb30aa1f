"""Fault 57: an interrupt that the program catches leaves a lock of the ledger taken, and every later call hangs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from indelible import Ledger, ToolCall
from indelible.core.runs.run import Run
from tests.scenarios.shells import in_thread, prepare_store
from tests.waiting import PATIENCE

WATCHED = ("engine/writer.py", "sqlite/write_lock.py")


class Interrupt(BaseException):
    """Stands for what a signal handler raises: Ctrl-C, or a time limit."""


def interrupted_at(line: int, body: Callable[[], Any]) -> bool:
    """Do something, and raise at this line of those that take locks, counted as they are run here; say if it was."""
    left = line

    def each(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                raise Interrupt
        return each

    def called(frame: FrameType, event: str, arg: Any) -> Any:
        return each if frame.f_code.co_filename.endswith(WATCHED) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        body()
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("what", ["a call", "a run"])
def test_57_an_interrupt_at_any_line_leaves_a_ledger_that_works(store_url: str, tmp_path: Path, what: str) -> None:
    with Ledger.open(prepare_store(store_url), keys=tmp_path / "keys", seal=False) as ledger:

        def call(n: int, run_id: str = "orders") -> Any:
            return ledger.run(ToolCall(tool="pay", args={"n": n}, run_id=run_id), lambda effect: "paid")

        def begun(n: int) -> Run:
            return ledger.start_run(f"run-{n}", agent="scout").complete()

        call(0)
        line = 1
        while interrupted_at(line, lambda: (call if what == "a call" else begun)(line)):  # noqa: B023
            line += 1
            assert in_thread(lambda: call(line, "check")).result(PATIENCE) == "paid", f"after line {line - 1}"  # noqa: B023
        assert line > 5, "it was interrupted"
