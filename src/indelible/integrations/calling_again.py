"""Which call a model means that was told to call again: its call has a new id, and people decided about the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from indelible import Effect

# A call with one of these has not been made, and may still be.
OPEN: tuple[Literal["ready", "requires_approval"], ...] = ("ready", "requires_approval")


def meant_call_id(open_calls: Iterable[Effect], args: Mapping[str, Any], call_id: str) -> str:
    """Gives the id of the open call that is made again by one with these arguments; else the id that it has itself.

    One that may run comes before one that waits, and an older one before a newer. Arguments that are recorded redacted
    are not recognised: then it is a new call, and is asked about anew.
    """
    alike = [effect for effect in open_calls if effect.call_id and _has(effect, args)]
    if not alike or any(effect.call_id == call_id for effect in alike):
        return call_id
    return str(min(alike, key=lambda effect: (effect.status != "ready", effect.created_at)).call_id)


def _has(effect: Effect, args: Mapping[str, Any]) -> bool:
    return not effect.are_args_erased and effect.args == args
