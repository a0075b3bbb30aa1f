"""A store in memory: gone with the process, and good for trying things out."""

from __future__ import annotations

from typing import Any

from indelible import Ledger
from indelible.compat.agent_ledger.stores.base import EffectStore

DEFAULT_MAX_SIZE = 10_000
DEFAULT_TTL_SECONDS = 3600.0


class MemoryStore(EffectStore[Any]):
    """Is a ledger in memory. Nothing is evicted: `max_size` and `ttl_seconds` are taken and change nothing."""

    def __init__(self, max_size: int = DEFAULT_MAX_SIZE, ttl_seconds: float = DEFAULT_TTL_SECONDS) -> None:
        super().__init__(_in_memory)

    @property
    def size(self) -> int:
        """Counts effects; blocks while it does."""
        ledger, count, before = self.open(), 0, None
        while page := ledger.effects(before=before, limit=500):
            count += len(page)
            before = page[-1].id
        return count

    def clear(self) -> None:
        """Forgets everything: a new ledger takes the place of this one."""
        self.close()


def _in_memory() -> Ledger:
    # Nobody can verify it later, so nothing is signed, and no key is made for it.
    return Ledger.open(":memory:", seal=False)
