"""Compares a database with what was signed, before a new connection writes to it.

A restored backup, or a standby that took over without the last commits, would make calls again that were made. The
signer's memory lies outside the database, so a process that has the key folder can tell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from indelible.core.effects.effect import SYSTEM
from indelible.core.journal.journal import Signer
from indelible.core.ports import Store
from indelible.engine.mint import SystemMint
from indelible.errors import IndelibleError, StoreError
from indelible.journal.keys.files import ring_folder
from indelible.journal.sealing import Memory, stop_if_set_back

log = logging.getLogger("indelible.journal")


class Comparison:
    """Stops a tenant's effects if the database lacks a part of what was signed for the tenant."""

    def __init__(self, store: Store, memory: Callable[[], Memory | None]) -> None:
        self._store = store
        self._memory = memory
        self._mint = SystemMint()
        self.set_back: set[str] = set()
        """Names the tenants whose record lacked something when it was compared last."""

    def __call__(self, tenant: str) -> None:
        """Compare the record of a tenant. Without a memory, or with one that cannot be read, nothing is compared.

        Raises:
            StoreError: The store did not answer, so it is not known yet. Nothing may be written.
        """
        try:
            memory = self._memory()
            is_lost = memory is not None and stop_if_set_back(
                self._store, tenant, memory, lambda: self._mint.stamp(SYSTEM)
            )
        except StoreError:
            raise
        except IndelibleError as problem:  # whoever seals alarms about it, and refuses to sign
            log.warning("%s could not be compared with what was signed: %s", self._store.address, problem)
            return
        if not is_lost:
            self.set_back.discard(tenant)
        elif tenant not in self.set_back:
            self.set_back.add(tenant)
            log.error("%s lacks what was signed for tenant %s: its effects are stopped", self._store.address, tenant)


def memory_finder(store: Store, keys: str | Path | None, signer: Signer | None) -> Callable[[], Memory | None]:
    """Return what finds the memory of what was signed: the given signer, else files beside the keys, if any."""
    folder = None if keys is None else Path(keys)

    def find() -> Memory | None:
        if signer is not None:
            return signer
        if not (ring_folder(store.ledger_name, folder) / "heads").is_dir():
            return None
        from indelible.journal.keys.signer import FileHeadState  # loads a library of ciphers

        return FileHeadState(ring_folder(store.ledger_name, folder))

    return find


def compare_before_writing(store: Store, keys: str | Path | None = None, signer: Signer | None = None) -> None:
    """Have a store compare each tenant's record with what was signed, unless it does so already."""
    if store.compare is None and store.address != ":memory:":
        store.compare = Comparison(store, memory_finder(store, keys, signer))
