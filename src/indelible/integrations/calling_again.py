"""Which call a model means that was told to call again: its call has a new id, and people decided about the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from indelible import Effect

# A call with one of these has not been made, and may still be.
OPEN: tuple[Literal["ready", "requires_approval"], ...] = ("ready", "requires_approval")


def meant_call_id(open_calls: Iterable[Effect], args: Mapping[str, Any], call_id: str) -> str:
    """Return the id of the open call that a call with these arguments makes again; otherwise its own `call_id`.

    A call that may run comes before one that waits. Among those, the run's sequence decides: the call that had these
    arguments first. Redacted arguments are not recognised: such a call is new, and the approver is asked again.

    Args:
        open_calls: Open calls of one run.
        args: The arguments of the new call.
        call_id: The id of the new call.
    """
    alike = [effect for effect in open_calls if effect.call_id and _has(effect, args)]
    if not alike or any(effect.call_id == call_id for effect in alike):
        return call_id
    return str(min(alike, key=lambda effect: (effect.status != "ready", effect.opened_seq)).call_id)


def _has(effect: Effect, args: Mapping[str, Any]) -> bool:
    return not effect.are_args_erased and effect.args == args
