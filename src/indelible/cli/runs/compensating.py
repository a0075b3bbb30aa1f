"""`indelible runs compensate`: makes good what a run did, with the tools of the program that is named."""

from __future__ import annotations

import asyncio
from typing import Any

from indelible import Ledger
from indelible.cli.opening import Where
from indelible.cli.programs import ledger_of
from indelible.cli.show import count, table, visible
from indelible.engine.running import Compensated

_WORDS = {
    "done": "done",
    "failed": "failed",
    "in_doubt": "in doubt",
    "waiting": "waiting",
    "nothing_to_do": "nothing to do",
    "undeclared": "not declared",
}


def compensate_by(named: str, run_id: str) -> list[Compensated]:
    """Makes good what a run did, by the ledger that `MODULE:NAME` names."""
    ledger = ledger_of(named)
    if isinstance(ledger, Ledger):
        with ledger:
            return ledger.compensate(run_id)

    async def awaited() -> list[Compensated]:
        async with ledger:
            return await ledger.compensate(run_id)

    return asyncio.run(awaited())


def say_compensated(run_id: str, found: list[Compensated], place: Where) -> None:
    """Prints what came of each, and what to do about those that are left."""
    rows = [(one.effect.id, one.effect.tool, _WORDS[one.status], _why(one)) for one in found]
    if rows:
        table(("effect", "tool", "status", "why"), [tuple(map(visible, row)) for row in rows])
        print()
    left = sum(one.is_open for one in found)
    print(f"Run {visible(run_id)}: {count(len(found), 'effect')}, {left} left to make good.")
    if left:
        print(f"See each of them: {place.command(f'effects list --run {visible(run_id)}')}")
        print("Then retry or settle the compensation, and call this again: what is done is not done again.")


def said_content(one: Compensated) -> dict[str, Any]:
    """Gives what came of one compensation as JSON."""
    return {
        "effectId": one.effect.id,
        "tool": one.effect.tool,
        "status": one.status,
        "value": one.value,
        "error": None if one.error is None else f"{type(one.error).__name__}: {one.error}",
    }


def _why(one: Compensated) -> str:
    return "" if one.error is None else f"{type(one.error).__name__}: {one.error}"
