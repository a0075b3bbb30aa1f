"""Errors raised again on the other side: our own client gets the same class with all that it carries.

What everybody is told of an error holds no payload (`problems`). Whoever asks by our own protocol may see what
they ask about, and gets that too.
"""

from __future__ import annotations

from inspect import isfunction, signature
from typing import Any

from indelible import errors
from indelible.core.approvals.approval import Approval
from indelible.core.effects.effect import Effect
from indelible.core.policy.verdicts import Charge, Verdict
from indelible.core.remote.problem_types import PROBLEMS
from indelible.core.remote.problems import name_of
from indelible.core.remote.wire import from_wire, to_wire
from indelible.core.runs.run import Run
from indelible.core.values.canonical import decode, encode
from indelible.errors import BadCall, IndelibleError

CARRIED = "carried"
"""Is the member of a problem that holds what the error carries, for our own client."""
_CARRIED: dict[str, Any] = {
    "path": str,
    "why": str,
    "limit": int,
    "size": int,
    "problems": tuple[str, ...],
    "code": str,
    "checkpoint_id": str | None,
    "error_type": str,
    "column": int,
    "length": int,
    "retry_after": Any,
    "effect": Effect | None,
    "compensation": Effect | None,
    "approval": Approval,
    "verdict": Verdict,
    "charge": Charge,
    "run": Run | None,
}


def _words_of(kind: type[IndelibleError]) -> list[str]:
    """Names what an error of this class is made with."""
    taken = signature(kind).parameters if isfunction(kind.__init__) else ()
    return [name for name in _CARRIED if name in taken]


def carried_by(error: IndelibleError) -> dict[str, Any]:
    """Gives what an error carries beside its words, as it goes over the wire."""
    found = {name: to_wire(getattr(error, name)) for name in _words_of(type(error))}
    if isinstance(error, errors.ResultNotRecorded):
        try:
            found["value"] = to_wire(encode(error.value))
        except BadCall:  # that may be why it was not recorded
            found["value"] = None
    return found


def error_from(problem: Any, status: int) -> IndelibleError:
    """Gives the error that the other side told of; one that is not known here keeps its words."""
    told = problem if isinstance(problem, dict) else {}
    detail = str(told.get("detail") or told.get("title") or f"the server answered with status {status}")
    kind = _KINDS.get(str(told.get("type", "")).removeprefix(PROBLEMS))
    carried = told.get(CARRIED)
    if kind is not None:
        try:
            return _made(kind, detail, told | (carried if isinstance(carried, dict) else {}))
        except (ValueError, TypeError):
            pass  # it does not hold what such an error carries
    if status >= 500 or status == 429:
        return errors.StoreUnavailable(detail)
    return errors.BadCall(detail)


def _made(kind: type[IndelibleError], detail: str, told: dict[str, Any]) -> IndelibleError:
    """Makes an error of this class; raises when something is missing that it has to carry."""
    if kind is errors.TooLarge:
        return errors.TooLarge(detail, limit=_number(told.get("limit")), size=_number(told.get("size")))
    words = {name: from_wire(_CARRIED[name], told[name], name) for name in _words_of(kind) if name in told}
    if kind is errors.NotRecordable:
        return errors.NotRecordable(**words)
    if kind is errors.ResultNotRecorded and told.get("value") is not None:
        words["value"] = decode(from_wire(bytes, told["value"], "value"))
    error: Any = kind
    made: IndelibleError = error(detail, **words)
    return made


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _all(kind: type[IndelibleError]) -> dict[str, type[IndelibleError]]:
    found = {name_of(kind): kind}
    for below in kind.__subclasses__():
        found |= _all(below)
    return found


_KINDS = _all(IndelibleError)
