"""Passes a walk on and tells what it asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from indelible.core.effects.requests import Request, Walk


def watched(steps: Walk, note: Callable[[Request, Any], None]) -> Walk:
    """Pass a walk on, with its value; tell each of its requests that was answered, with the answer."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            request = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            return end.value
        answer, error = None, None
        try:
            answer = yield request
        except BaseException as problem:
            error = problem
        else:
            note(request, answer)
