"""Calls as a program for agent-ledger makes them, and the world in which they count."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from indelible.compat.agent_ledger import ConcurrencyOptions, Effect, RunOptions, ToolCall

CHARGE = ToolCall(workflow_id="order-123", tool="stripe.charge", args={"amount": 1000, "currency": "usd"})
DEPLOY = ToolCall(workflow_id="deploy-prod", tool="k8s.deploy", args={"image": "app:v2"})
ASKED = RunOptions(requires_approval=True)
BRIEFLY = ConcurrencyOptions(effect_timeout_s=0.05, approval_timeout_s=0.05)


def pool_of(url: str, **kwargs: Any) -> Any:
    """Gives what of psycopg's AsyncConnectionPool says where it leads."""
    return SimpleNamespace(conninfo=url, kwargs=kwargs)


class Bank:
    """Is the world outside: counts what was done there."""

    def __init__(self, answer: Any = None, *, entered: asyncio.Event | None = None, leave: asyncio.Event | None = None):
        self.seen: list[Effect] = []
        self._answer = {"status": "charged", "id": "ch_123"} if answer is None else answer
        self._entered, self._leave = entered, leave

    async def __call__(self, effect: Effect) -> Any:
        self.seen.append(effect)
        if self._entered is not None:
            self._entered.set()
        if self._leave is not None:
            await self._leave.wait()
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


async def until(condition: Callable[[], Any]) -> Any:
    """Waits until something is so."""
    while True:
        found = condition()
        found = await found if inspect.isawaitable(found) else found
        if found:
            return found
        await asyncio.sleep(0.005)
