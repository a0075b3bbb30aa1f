"""The only source of time and randomness."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime

from indelible.core.commands import Stamp
from indelible.core.effects.effect import Actor
from indelible.core.events import SALT_BYTES
from indelible.core.stamps import EDIT_VALUES as EDIT_VALUES
from indelible.core.stamps import MOST_VALUES as MOST_VALUES
from indelible.forks import after_fork

_AT_ONCE = 16384


class SystemMint:
    """Makes stamps, ids and tokens from the machine's clock and randomness."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn = b""
        self._used = 0
        after_fork(self._forget)

    def _forget(self) -> None:
        """Drops what was drawn: a forked child must never use its parent's."""
        self._lock = threading.Lock()
        self._drawn = b""

    def _random(self, count: int) -> bytes:
        """Gives fresh random bytes; drawn many at once, for asking the kernel costs more than all the rest."""
        with self._lock:
            start = self._used
            if start + count > len(self._drawn):
                self._drawn = os.urandom(_AT_ONCE)
                start = 0
            self._used = start + count
            return self._drawn[start : start + count]

    def stamp(self, actor: Actor, values: int = MOST_VALUES) -> Stamp:
        """Gives the time now, with a fresh salt for each value that may have to be hidden."""
        count = values * SALT_BYTES
        salts = self._random(count) if count <= _AT_ONCE else os.urandom(count)
        return Stamp(at=datetime.now(UTC), actor=actor, salts=salts)

    def effect_id(self) -> str:
        """Return an id for an effect."""
        return self.new_id("eff")

    def new_id(self, kind: str) -> str:
        """Return an id that begins with the time, so that new rows lie together and a list shows the newest first.

        Twelve digits are the millisecond, three its fraction. Clocks of two machines differ, so the order inside a run
        comes from its events: `core.runs.ordering`.
        """
        return f"{kind}_{(time.time_ns() << 12) // 1_000_000:015x}{self._random(7).hex()[1:]}"

    def token(self) -> str:
        """Gives a secret that nobody can guess."""
        return self._random(16).hex()
