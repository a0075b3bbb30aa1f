"""Channels for tests: they note what they are given, and fail, hang or die when told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from indelible import Ledger, ToolCall
from indelible.core.approvals.deliveries import Delivery, read_delivery
from indelible.core.sheets import SheetFilter
from indelible.errors import ApprovalPending
from indelible.notify.channels import Message
from tests.waiting import PATIENCE


class Recorder:
    """Notes every message it sends. `first` is called before, and may raise or wait."""

    def __init__(self, name: str = "ops", first: Callable[[Message], None] = lambda message: None) -> None:
        self.name = name
        self.first = first
        self.tries: list[str] = []
        self.sent: list[Message] = []
        self._changed = threading.Condition()

    def send(self, message: Message) -> Mapping[str, Any]:
        with self._changed:
            self.tries.append(message.id)
            self._changed.notify_all()
        self.first(message)
        with self._changed:
            self.sent.append(message)
            self._changed.notify_all()
        return {"number": len(self.sent)}

    @property
    def abouts(self) -> list[str]:
        return [message.about for message in self.sent]

    def wait_for(self, count: int) -> list[Message]:
        """Waits until so many messages were sent."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.sent) >= count, PATIENCE), f"{len(self.sent)} went"
            return list(self.sent)

    def wait_for_tries(self, count: int) -> None:
        """Waits until so many were tried."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.tries) >= count, PATIENCE), f"{len(self.tries)} tries"


def failing(times: int, error: Exception) -> Callable[[Message], None]:
    """Raises so often, then lets it go."""
    left = [times]

    def first(message: Message) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise error

    return first


def ask(ledger: Ledger, number: int = 0, **options: Any) -> str:
    """Makes a call that somebody has to approve; gives the approval's id."""
    call = ToolCall(run_id=f"order-{number}", tool="refund", args={"amount": number, "card": "4242"})
    options = {"approval": "required", "wait": False, **options}
    try:
        ledger.run(call, lambda effect: None, **options)
    except ApprovalPending as pending:
        return pending.approval.id
    raise AssertionError("nobody was asked")


def naming(*names: str) -> dict[str, Any] | None:
    """Return a policy whose questions name these channels; no policy for none."""
    return {"approvals": {"notify": list(names)}} if names else None


def deliveries(ledger: Ledger, **selected: Any) -> list[Delivery]:
    """Lists the messages of a ledger."""
    found = ledger._engine.store.sheets(ledger.tenant, SheetFilter(kind="delivery", limit=1000, **selected))
    return [read_delivery(sheet) for sheet in found]
