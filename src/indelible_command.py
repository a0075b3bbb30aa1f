"""Start the `indelible` command.

A module of its own beside the package: a hook's signals are handled before the package is loaded, which takes a while.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

BLOCKS = 2
"""The exit code of a hook that stops the tool. Claude Code goes on after every other one but this."""
_WITH_VALUE = ("--url", "--tenant")
_ENDING = ("SIGTERM", "SIGHUP", "SIGINT")


def main() -> int:
    """Run the command and return its exit code. A hook that is ended while it loads or leaves stops the tool."""
    is_stopping = is_hook(sys.argv[1:])
    if is_stopping:
        for name in _ENDING:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: os._exit(BLOCKS))
    from indelible.cli import main as run

    code = run()
    if is_stopping:
        os._exit(code)  # while Python ends, it handles signals no longer, and one would be the exit code
    return code


def is_hook(arguments: Sequence[str]) -> bool:
    """Say whether a command line asks for a hook; options of every command may stand before it."""
    left = list(arguments)
    while left and left[0].startswith("-"):
        del left[: 2 if left[0] in _WITH_VALUE else 1]
    return left[:1] == ["hook"]
