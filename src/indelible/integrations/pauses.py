"""Who asked a person last about a call, where a framework has one answer for all who ask: the ledger, or the tool.

Such a framework hands "approved" to the tool, whatever the person was asked. The run's record says what that was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from indelible import AsyncLedger
from indelible.errors import UnknownRun

PAUSED = "integration.paused"
AskedBy = Literal["tool", "ledger"]


class Pauses:
    """The pauses of one call, on the record of its run.

    Args:
        ledger: The ledger.
        run_id: The run that the call belongs to.
        subject: What tells the call from all others of the run, for example its effect's id.
    """

    def __init__(self, ledger: AsyncLedger, run_id: str, subject: str) -> None:
        self._ledger = ledger
        self._run_id = run_id
        self._subject = subject

    async def note(self, by: AskedBy, *, is_tool_answered: bool = False) -> None:
        """Record that a person is asked.

        Args:
            by: Who asks.
            is_tool_answered: The tool's own question was answered before, with yes.
        """
        told = {"by": by, "is_tool_answered": is_tool_answered, "subject": self._subject}
        await self._ledger.record(self._run_id, PAUSED, told)

    async def is_tool_asked(self) -> bool:
        """Say whether the tool asked last."""
        last = await self._last()
        return last is not None and last["by"] == "tool"

    async def is_tool_answered(self) -> bool:
        """Say whether "approved", which the framework says now, answers the tool's own question."""
        last = await self._last()
        return last is not None and (last["by"] == "tool" or bool(last["is_tool_answered"]))

    async def _last(self) -> Mapping[str, Any] | None:
        found: list[Mapping[str, Any]] = []

        def look(event: Any) -> None:
            if event.type == PAUSED and event.payload is not None and event.payload["subject"] == self._subject:
                found.append(event.payload)

        try:
            await self._ledger.run_story(self._run_id, each=look)
        except UnknownRun:
            return None
        return found[-1] if found else None
