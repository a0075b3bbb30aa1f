"""Where a case is played: a folder with the framework's saved state and what was done outside, and a ledger's place."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from indelible import Ledger
from indelible.testing.adapters.place import Place

Side = Literal["native", "ledger"]
Crash = Literal["after_handler", "after_pause"]
# How long an execution waits for a second one that there should not be.
_TOGETHER = 1.0
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Is a call that the scripted model makes of the one tool, `charge(order, amount)`."""

    call_id: str
    order: str
    amount: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Is one act of a case, in a process of its own: on which side, with which calls, and when it is killed."""

    folder: str
    place: Place
    side: Side
    calls: Sequence[Asked]
    asks: bool = True
    crash_at: Crash | None = None
    waits_for_another: bool = False
    is_store_broken: bool = False
    lease_s: float = 30.0
    allowed: Mapping[str, bool] = field(default_factory=dict)
    """Says, for the framework's own approvals, what people answered to which call."""

    @staticmethod
    def read(content: Mapping[str, Any]) -> Scene:
        """Gives the scene that was told to another process."""
        calls = [Asked(**one) for one in content["calls"]]
        return Scene(**{**content, "calls": calls, "place": Place(**content["place"])})

    def told(self) -> dict[str, Any]:
        """Gives the scene as JSON."""
        return asdict(self)

    @property
    def state(self) -> Path:
        """Is the folder of what the framework saves; a case may copy it, and put the copy back."""
        return Path(self.folder, "state")

    @property
    def terms(self) -> dict[str, Any]:
        """Says how the tool is to be treated by the ledger."""
        return {
            "side_effect": "external_mutation",
            "approval": "required" if self.asks else "none",
            "lease": timedelta(seconds=self.lease_s),
        }

    def charge(self, order: str, amount: int) -> str:
        """Does the deed, which can be counted afterwards, and dies right after it if that is its part."""
        deeds = Path(self.folder, "deeds")
        # A name of its own for each deed, and an entry in a folder is whole or not there.
        Path(deeds, f"{order} {amount} {os.getpid()} {next(_numbers)}").touch(exist_ok=False)
        if self.waits_for_another:
            self._wait_for_another(deeds, order)
        self.die_at("after_handler")
        return f"charged {amount} for {order}"

    def _wait_for_another(self, deeds: Path, order: str) -> None:
        """Stays inside for a moment, so that another worker meets an execution that is under way."""
        until = time.monotonic() + _TOGETHER
        while time.monotonic() < until and len(list(deeds.glob(f"{order} *"))) < 2:
            time.sleep(0.01)  # nobody can announce that nobody comes

    def die_at(self, moment: Crash) -> None:
        """Is killed, if this is the moment."""
        if self.crash_at == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def open_ledger(self) -> Ledger | None:
        """Opens the ledger of this side, if it has one; a store that is broken breaks once it is open."""
        if self.side == "native":
            return None
        ledger = Ledger.open(self.place.url)
        if self.is_store_broken:
            self.place.destroy()
        return ledger
