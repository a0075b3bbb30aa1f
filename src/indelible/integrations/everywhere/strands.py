"""Strands everywhere: every agent that is made from now on."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from typing import Any

from strands import Agent

from indelible.integrations.everywhere.reach import Around, Undo, is_behind, replaced, run_here
from indelible.integrations.strands import LedgerPlugin


def reach(around: Around) -> Undo:
    """Gives every new agent a plugin more, as `Agent(…, plugins=[…])` does."""
    own = _Everywhere(around.ledger, run=_run_of, terms=around.terms, **around.usual)
    make = Agent.__init__

    @functools.wraps(make)
    def init(self: Agent, *args: Any, plugins: Any = None, **words: Any) -> None:
        given = list(plugins or ())
        is_guarded = any(isinstance(one, LedgerPlugin) for one in given)
        make(self, *args, plugins=given if is_guarded else [*given, own], **words)

    restore = replaced(Agent, "__init__", init, takes=("self", "model", "messages", "tools"))

    def undo() -> None:
        own.is_on = False
        restore()

    return undo


class _Everywhere(LedgerPlugin):
    """Steps aside in the agents that have it, once the reach is undone."""

    is_on = True

    async def gate(self, context: Any, next_fn: Any) -> AsyncGenerator[Any, None]:
        """Runs a tool call, replays it, interrupts the agent, or tells the model why not."""
        is_plain = not self.is_on or is_behind(context.tool_use["name"], context.tool_use["toolUseId"])
        async for event in next_fn(context) if is_plain else super().gate(context, next_fn):
            yield event


def _run_of(context: Any) -> str:
    session = getattr(getattr(context.agent, "_session_manager", None), "session_id", None)
    return run_here(session, advice="…, or give the agent a session_manager")
