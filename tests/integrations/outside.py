"""What the agents of the tests of durable runs do outside, and what their models are asked: counted in a folder."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

ORDERS: Sequence[tuple[str, int]] = (("a", 5), ("b", 7), ("a", 5))
"""Is what is charged, one order per turn; the first one is charged twice, on purpose."""
_numbers = count()


class Outside:
    """Is what is done outside, and what was asked of models, each in a file of its own that can be counted.

    It is killed right after the deed with that number, or when a model is asked for the turn with that number.
    """

    def __init__(
        self,
        folder: str,
        *,
        orders: int = len(ORDERS),
        dies_after: int | None = None,
        dies_at_turn: int | None = None,
    ) -> None:
        self._folder = Path(folder)
        self.orders = ORDERS[:orders]
        self._dies_after = dies_after
        self._dies_at_turn = dies_at_turn

    def note(self, what: str) -> None:
        """Does it; an entry in a folder is whole or not there."""
        Path(self._folder, f"{what} {os.getpid()} {next(_numbers)}").touch(exist_ok=False)

    def count(self, what: str) -> int:
        """Counts how often it was done."""
        return len(list(self._folder.glob(f"{what} *")))

    async def charge(self, order: str, amount: int, currency: str = "EUR") -> str:
        """Charges an order."""
        self.note(f"charged {order} {amount} {currency}")
        if self.count("charged") == self._dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"charged {order}"

    def is_asked(self, turn: int) -> dict[str, Any] | None:
        """Gives the arguments of the call that a model makes in a turn; None when it is done."""
        self.note(f"asked {turn}")
        if turn == self._dies_at_turn:
            os.kill(os.getpid(), signal.SIGKILL)
        return None if turn == len(self.orders) else dict(zip(("order", "amount"), self.orders[turn], strict=True))

    def end(self, said: Any, lines: int) -> None:
        """Says how a process ended."""
        Path(self._folder, "end.json").write_text(json.dumps({"said": said, "lines": lines}))
