"""Which call a model means that was told to call again: its call has a new id, and people decided about the first.

Only calls that are known by their id need this. All others are known by their arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from indelible import AsyncLedger, Effect, Ledger, ToolCall
from indelible.integrations.terms import is_same
from indelible.tool import says_the_same

# A call with one of these has not been made, and may still be.
OPEN: tuple[Literal["ready", "requires_approval"], ...] = ("ready", "requires_approval")


def meant(
    ledger: Ledger | AsyncLedger, call: ToolCall, words: Mapping[str, Any], open_calls: Iterable[Effect]
) -> ToolCall:
    """Return the call under the id of the open call that it makes again; otherwise under its own.

    A call makes another one again if it says what that one said first, or what an approver made of that. One that may
    run comes before one that waits. Among those, the run's sequence decides: the call that had these arguments first.
    Redacted arguments are compared as they are recorded: equal secrets have equal marks.

    Args:
        ledger: The ledger.
        call: The new call.
        words: How it is treated.
        open_calls: Open calls of its tool and run.
    """
    known = [one for one in open_calls if one.call_id and not one.are_args_erased]
    said = replace(call, args=ledger.recorded_args(call, **words)) if known else call
    alike = [one for one in known if _is_again(said, one)]
    if not alike or any(effect.call_id == call.call_id for effect in alike):
        return call
    return replace(call, call_id=min(alike, key=lambda one: (one.status != "ready", one.opened_seq)).call_id)


def _is_again(call: ToolCall, effect: Effect) -> bool:
    if is_same(effect.args, call.args):
        return True
    # What the framework adds, such as the folder, is no part of what was said, and no edit changes it.
    added = [{name: args.get(name) for name in call.injected} for args in (effect.args, call.args)]
    return is_same(*added) and says_the_same(call, effect)
