"""Reaches behind the ledger for what its public face does not offer yet: payloads, the store's clock and connection."""

from __future__ import annotations

from indelible import Ledger
from indelible.core.ports import Store


def store_behind(ledger: Ledger) -> Store:
    """Gives the store that a ledger is kept in."""
    return ledger._engine.store
