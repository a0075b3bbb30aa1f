"""A function of the program's own as a channel: called when somebody has to decide."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from indelible.core.approvals.approval import Approval
from indelible.core.effects.effect import Effect
from indelible.errors import BadCall
from indelible.notify.channels import Message, NotSent

HOOK_NAME = "hook"
_MOST_SAID = 300

Hook = Callable[[Approval, Effect], Awaitable[None] | None]
"""Is called with the approval and the effect it is about; blocking, or a coroutine function."""


class HookChannel:
    """Calls a function for everything that asks somebody to decide. How it ended is none of its business.

    It runs in a thread of the outbox, a coroutine in a loop of its own there: never inside a run, and what it raises
    is never raised into one. Whatever it raises, it is called again later.
    """

    def __init__(self, hook: Hook, *, name: str = HOOK_NAME) -> None:
        if not callable(hook):
            raise BadCall(f"on_approval_required={hook!r}: give a function of (approval, effect)")
        self.name = name
        self._hook = hook

    def __repr__(self) -> str:
        return f"HookChannel({getattr(self._hook, '__qualname__', type(self._hook).__name__)})"

    def send(self, message: Message) -> Mapping[str, Any]:
        """Calls the function."""
        if not message.asks:
            return {"skipped": "hooks hear of questions alone"}
        try:
            result = self._hook(message.approval, message.effect)
            if inspect.isawaitable(result):
                import asyncio  # only for those who have coroutines

                asyncio.run(_finish(result))
        except Exception as error:
            raise NotSent(f"{type(error).__name__}: {error}"[:_MOST_SAID]) from error
        return {}


async def _finish(awaitable: Awaitable[None]) -> None:
    await awaitable
