"""Reaches behind the ledger for what its public face does not offer yet: payloads, the store's clock, long runs."""

from __future__ import annotations

from indelible import Ledger
from indelible.core.ports import Store
from indelible.runs.reading import RunReading


def store_behind(ledger: Ledger) -> Store:
    """Gives the store that a ledger is kept in."""
    return ledger._engine.recorded


def reading_of(ledger: Ledger, run_id: str, after: int = -1) -> RunReading:
    """Reads a run's events from the one after `after` on, a page at a time."""
    return ledger._run_desk().keeping.reading(run_id, after)
