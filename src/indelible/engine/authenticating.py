"""Gives a store the keys that its rows are written and believed with."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from indelible.core.ports import Store
from indelible.errors import KeyUnusable
from indelible.journal.keys.files import resolved_keys
from indelible.journal.keys.writers import WriterKeys, writer_keys
from indelible.stores import is_postgres


def authenticate_rows(store: Store, keys: str | Path | None, *, is_sealed_here: bool) -> None:
    """Have a store write and check macs, if its ledger's rows carry them.

    A new SQLite ledger gets its keys here. A PostgreSQL ledger gets them by `indelible migrate`, on one machine.

    Raises:
        KeyUnusable: The rows carry macs, and the keys are not here.
    """
    if store.macs is not None:
        return
    folder = resolved_keys(keys)
    if is_sealed_here or is_postgres(store.address):
        store.macs = writer_keys(store, folder, may_make=is_sealed_here)
        return
    with suppress(KeyUnusable):  # a folder that cannot be written: this process signs nothing and needs no key
        store.macs = writer_keys(store, folder, may_make=True)
        return
    store.macs = writer_keys(store, folder, may_make=False)


def note_waiting(store: Store, tenant: str) -> None:
    """Have a store know which rights of a tenant wait to be sealed; it looks once."""
    if isinstance(store.macs, WriterKeys):
        store.macs.note_waiting(tenant)


def make_writer_keys(store: Store, keys: str | Path | None = None) -> None:
    """Make the writer keys of a ledger in which nothing was written yet."""
    writer_keys(store, resolved_keys(keys), may_make=True)
