"""Errors on the wire: each class has a name and an HTTP status.

What is told holds no payload, with one exception: a caller whose key or call is on the record is told what came of it.
"""

from __future__ import annotations

import re
from typing import Any

from indelible.core.remote.problem_types import PROBLEM_TYPES, PROBLEMS
from indelible.core.remote.shown import outcome_shown, plainly
from indelible.errors import IndelibleError, KeyReused, RepeatRefused

_TOLD = ("code", "limit", "size", "path", "problems", "column", "length", "retry_after")
_OWN_REQUEST = "self_approval"


def status_of(error: IndelibleError) -> int:
    """Gives the HTTP status of an error: that of its class, or of the nearest one above."""
    if getattr(error, "code", None) == _OWN_REQUEST:
        return 403  # nothing about the question has to change: it is not theirs to decide
    return PROBLEM_TYPES[type_of(error)].status


def type_of(error: IndelibleError) -> str:
    """Names the type of problem that an error is: a class of somebody else's is told as the nearest of ours."""
    return next(name for kind in type(error).__mro__ if (name := name_of(kind)) in PROBLEM_TYPES)


def name_of(kind: type) -> str:
    """Gives the name under which a class of errors is known on the wire: `StillRunning` is `still-running`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def problem_of(error: IndelibleError) -> dict[str, Any]:
    """Gives an error as RFC 9457 wants it: what kind it is, what is wrong here, and what a program may need."""
    name = type_of(error)
    told = PROBLEM_TYPES[name]
    problem: dict[str, Any] = {
        "type": PROBLEMS + name,
        "title": told.title,
        "status": status_of(error),
        "detail": str(error),
    }
    for word in _TOLD:
        value = getattr(error, word, None)
        if value is not None:
            problem[word] = list(value) if isinstance(value, tuple) else value
    for word in ("effect", "approval", "compensation"):
        about = getattr(error, word, None)
        if about is not None:
            problem[f"{word}_id"] = about.id
    if isinstance(error, KeyReused | RepeatRefused) and error.effect is not None:
        problem |= {"effect_status": error.effect.status, "outcome": outcome_shown(error.effect)}
    if isinstance(error, KeyReused) and error.effect is not None:
        pairs = error.differing.items()
        problem["differing"] = {name: {"recorded": plainly(was), "given": plainly(now)} for name, (was, now) in pairs}
    return problem
