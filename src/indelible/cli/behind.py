"""Reaches behind the ledger for what its public face does not offer yet: payloads and the store's clock."""

from __future__ import annotations

from indelible import Ledger
from indelible.core.ports import Store


def store_behind(ledger: Ledger) -> Store:
    """Gives the store that a ledger is kept in."""
    return ledger._engine.recorded
