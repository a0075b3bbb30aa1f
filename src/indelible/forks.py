"""What has to start afresh in a forked child: locks that other threads held, threads that are not there any more."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

_RESETS: list[weakref.WeakMethod[Callable[[], None]]] = []


def after_fork(reset: Callable[[], None]) -> None:
    """Calls a bound method in every child, right after the fork, as long as its object lives."""
    _RESETS[:] = [known for known in _RESETS if known() is not None]
    _RESETS.append(weakref.WeakMethod(reset))


def _reset_all() -> None:
    for known in _RESETS:
        reset = known()
        if reset is not None:
            reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
