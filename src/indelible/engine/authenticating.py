"""Gives a store the keys that its rows are written and believed with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from indelible.core.effects.calls import DEFAULT_TENANT
from indelible.core.macs import Unchecked
from indelible.core.ports import Store
from indelible.errors import KeyUnusable
from indelible.journal.keys.files import resolved_keys
from indelible.journal.keys.newest import NewestVersions
from indelible.journal.keys.writers import WriterKeys, writer_keys


def authenticate_rows(store: Store, keys: str | Path | None, tenant: str = DEFAULT_TENANT) -> None:
    """Have a store write and check macs, if its ledger's rows carry them.

    Raises:
        KeyUnusable: The rows carry macs, and the keys are not here.
    """
    if store.macs is None:
        store.macs = writer_keys(store, resolved_keys(keys), tenant)


def read_rows(store: Store, tenant: str) -> bool:
    """Have a store check macs if the keys are at hand, and else believe its rows and write none.

    Returns:
        Whether its rows are believed unchecked.
    """
    try:
        authenticate_rows(store, None)
        if store.macs is not None:
            store.macs(tenant)
    except KeyUnusable as problem:
        why = str(problem)
        store.macs = cache(lambda tenant: Unchecked(tenant, NewestVersions(None), why))
        return True
    return False


def note_rights(store: Store, tenant: str) -> None:
    """Have a store know how new each right of a tenant is; it looks once."""
    if isinstance(store.macs, WriterKeys):
        store.macs.note_rights(tenant)
