"""SIGKILL at the N-th executed Python line of the library: thousands of distinct points, no tool needed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from tests.chaos import subject

_run = threading.Thread.run


class LineKill:
    """Counts the library's lines in all threads once armed, and ends the process at the wanted one.

    Without a number it only collects the lines. `last_words` hears where the process died.
    """

    def __init__(self, number: int | None, last_words: Callable[[Any], None]) -> None:
        self.number = number
        self.lines: list[str] = []
        self._last_words = last_words
        self._is_armed = False
        self._installing = threading.Lock()
        self._ours: dict[str, bool] = {}

    def arm(self) -> None:
        """Starts counting."""
        self._is_armed = True

    def __enter__(self) -> LineKill:
        threading.Thread.run = self._run_traced  # type: ignore[method-assign]
        sys.settrace(self._on_call)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.settrace(None)
        threading.Thread.run = _run  # type: ignore[method-assign]

    @property
    def _run_traced(self) -> Callable[[threading.Thread], None]:
        def run(thread: threading.Thread) -> None:
            # `threading.settrace` takes no lock: of two threads that begin at once one would end in a RuntimeError.
            with self._installing:
                sys.settrace(self._on_call)
            _run(thread)

        return run

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        is_ours = self._ours.get(name)
        if is_ours is None:
            is_ours = self._ours[name] = subject.is_source(name)
        return self._on_line if is_ours else None

    def _on_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and self._is_armed:
            self.lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            # Threads may pass the number together: whoever is at it or past it dies.
            if self.number is not None and len(self.lines) >= self.number:
                where = Path(self.lines[-1])
                self._last_words(f"{where.parent.name}/{where.name}")
                os.kill(os.getpid(), signal.SIGKILL)
        return self._on_line
