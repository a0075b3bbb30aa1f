"""Errors on the wire: each class has a name and an HTTP status, and can be raised again on the other side."""

from __future__ import annotations

import re
from typing import Any

from indelible import errors
from indelible.errors import IndelibleError

PROBLEMS = "/problems/"
"""Is where the names of problems live; each page says what to do about one."""

_STATUSES: dict[type[IndelibleError], int] = {
    errors.BadCall: 400,
    errors.NotRecordable: 422,
    errors.TooLarge: 413,
    errors.UnknownEffect: 404,
    errors.UnknownApproval: 404,
    errors.UnknownPermission: 404,
    errors.UnknownRun: 404,
    errors.UnknownCheckpoint: 404,
    errors.BadPolicy: 422,
    errors.Refused: 409,
    errors.PolicyRefused: 403,
    errors.BudgetExceeded: 429,
    errors.ToolUnavailable: 503,
    errors.EffectErased: 410,
    errors.NotAuthenticated: 401,
    errors.NotPermitted: 403,
    errors.EffectFailed: 409,
    errors.LeaseLost: 409,
    errors.ResultNotRecorded: 409,
    errors.JournalError: 503,
    errors.StoreError: 503,
    IndelibleError: 500,
}
_TOLD = ("code", "limit", "size", "path", "problems")


def status_of(error: IndelibleError) -> int:
    """Gives the HTTP status of an error: that of its class, or of the nearest one above."""
    return next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)


def name_of(kind: type[IndelibleError]) -> str:
    """Gives the name under which a class of errors is known on the wire: `StillRunning` is `still-running`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def problem_of(error: IndelibleError) -> dict[str, Any]:
    """Gives an error as RFC 9457 wants it: what kind it is, what is wrong here, and what a program may need."""
    kind = type(error)
    title = (kind.__doc__ or kind.__name__).partition("\n")[0].partition(";")[0].rstrip(".")
    problem: dict[str, Any] = {
        "type": PROBLEMS + name_of(kind),
        "title": title,
        "status": status_of(error),
        "detail": str(error),
    }
    for name in _TOLD:
        told = getattr(error, name, None)
        if told is not None:
            problem[name] = list(told) if isinstance(told, tuple) else told
    for name in ("effect", "approval"):
        about = getattr(error, name, None)
        if about is not None:
            problem[f"{name}_id"] = about.id
    return problem


def error_from(problem: Any, status: int) -> IndelibleError:
    """Gives the error that the other side told of; one that is not known here keeps its words."""
    told = problem if isinstance(problem, dict) else {}
    detail = str(told.get("detail") or told.get("title") or f"the server answered with status {status}")
    kind = _KINDS.get(str(told.get("type", "")).removeprefix(PROBLEMS))
    if kind is errors.TooLarge:
        return errors.TooLarge(detail, limit=_number(told.get("limit")), size=_number(told.get("size")))
    if kind is not None and kind is not errors.NotRecordable:
        return kind(detail)
    if status >= 500 or status == 429:
        return errors.StoreUnavailable(detail)
    return errors.BadCall(detail)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _all(kind: type[IndelibleError]) -> dict[str, type[IndelibleError]]:
    found = {name_of(kind): kind}
    for below in kind.__subclasses__():
        found |= _all(below)
    return found


_KINDS = {
    name: kind
    for name, kind in _all(IndelibleError).items()
    # Those that carry how something stands are raised where that is known.
    if issubclass(kind, errors.BadCall | errors.StoreError | errors.JournalError)
    or kind in (errors.NotAuthenticated, errors.NotPermitted)
}
