"""Reaches behind the ledger for what its public face does not offer yet: payloads, the store's clock, durability."""

from __future__ import annotations

import importlib
from typing import Any

from indelible import Ledger
from indelible.core.ports import Store


def store_behind(ledger: Ledger) -> Store:
    """Gives the store that a ledger is kept in."""
    return ledger._engine.store


def durability(url: str) -> dict[str, Any]:
    """Tells what a PostgreSQL server's commits survive; raises `Misconfigured` when the driver is missing."""
    # By name, for only indelible.stores may import a store; it does not offer this yet.
    report: dict[str, Any] = importlib.import_module("indelible.stores.postgres").durability(url)
    return report
