"""How the commands of hooks end: 0 lets a tool run, and whatever else happens becomes 2, which stops it.

Claude Code goes on after every other exit code, and Python has several of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from indelible.cli.ending import handling
from indelible_command import BLOCKS


def blocking(run: Callable[[], int]) -> int:
    """Run a hook's command and return 0 if it returned 0, else 2."""
    try:
        _fill_descriptors()
        with handling(_end, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            code = run()
            if sys.stdout is not None:
                sys.stdout.flush()
            return 0 if code == 0 else BLOCKS
    except BaseException as error:  # whatever it is, nothing may run because of it
        _tell(error)
        _drop_output()
        return BLOCKS


def _end(number: int, frame: FrameType | None) -> None:
    raise InterruptedError(f"ended by {signal.Signals(number).name}")


def _fill_descriptors() -> None:
    """Open what the caller closed, so that no file of a ledger becomes standard output or error."""
    opened = os.open(os.devnull, os.O_RDWR)
    while opened <= 2:  # the lowest free number is given out first
        opened = os.open(os.devnull, os.O_RDWR)
    os.close(opened)


def _tell(error: BaseException) -> None:
    kind = "" if isinstance(error, Exception) else f"{type(error).__name__} "
    with suppress(Exception):  # the exit code says it too
        sys.stderr.write(f"indelible: {kind}{error}\n")
        sys.stderr.flush()


def _drop_output() -> None:
    """Let what could not be written go: Python tries again when it ends, and would end with a code of its own."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
