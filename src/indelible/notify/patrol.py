"""A thread that goes on a round again and again: at once when called, else ever more seldom while there is nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from indelible.errors import IndelibleError

SHORTEST_PAUSE = 1.0
LONGEST_PAUSE = 5.0
_log = logging.getLogger("indelible.notify")


class Patrol:
    """Goes on a round in a thread of its own, until it is closed. Nothing that goes wrong on a round ends it.

    A round says whether it found something; then the next one follows at once.
    """

    def __init__(self, name: str, go: Callable[[], bool]) -> None:
        self._name = name
        self._go = go
        self._turn = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_called = False
        self._problem: str | None = None
        self.is_closed = False

    def start(self) -> None:
        """Begins, unless it has begun already."""
        with self._turn:
            self._begin()

    def call(self) -> None:
        """Asks for a round now; costs next to nothing when one is asked for already."""
        if self._is_called:
            return
        with self._turn:
            self._is_called = True
            self._begin()
            self._turn.notify_all()

    def close(self) -> None:
        """Lets it end, after one more round if one was asked for."""
        with self._turn:
            self.is_closed = True
            self._turn.notify_all()

    def join(self, ends: float) -> bool:
        """Waits until it has ended, or until a moment of the monotonic clock; says whether it has."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return thread is None
        thread.join(max(0.0, ends - time.monotonic()))
        return not thread.is_alive()

    def pause(self, seconds: float) -> bool:
        """Waits so long, for a round that has to try again; False when it is closed, and there is no more time."""
        with self._turn:
            return not self._turn.wait_for(lambda: self.is_closed, seconds)

    def _begin(self) -> None:
        if self._thread is None and not self.is_closed:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        pause = SHORTEST_PAUSE
        while True:
            with self._turn:
                is_last = self.is_closed
                if is_last and not self._is_called:
                    return
                self._is_called = False
            has_found = self._round()
            if is_last:
                return
            is_idle = not has_found and not self._wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE) if is_idle else SHORTEST_PAUSE

    def _wait(self, seconds: float) -> bool:
        """Waits; says whether somebody called meanwhile."""
        with self._turn:
            self._turn.wait_for(lambda: self._is_called or self.is_closed, seconds)
            return self._is_called

    def _round(self) -> bool:
        try:
            found = self._go()
        except IndelibleError as problem:
            self._complain(f"{type(problem).__name__}: {problem}")
            return False
        except Exception as problem:  # a fault of ours; the thread has to live on, or nobody is told any more
            self._complain(f"{type(problem).__name__} {where(problem)}")
            return False
        if self._problem is not None:
            _log.warning("%s: well again", self._name)
            self._problem = None
        return found

    def _complain(self, problem: str) -> None:
        """Says once what is wrong, and again when that changes."""
        if problem != self._problem:
            _log.warning("%s: %s", self._name, problem)
            self._problem = problem


def where(problem: BaseException) -> str:
    """Names the line that raised; the values in a message or a traceback may be nobody's business."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "(nowhere)"
    code = trace.tb_frame.f_code
    return f"in {code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"
