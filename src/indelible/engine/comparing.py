"""Compares a database with what was signed, before a new connection writes to it and before each claim.

A restored backup, or a standby that took over without the last commits, would make calls again that were made. The
signer's memory lies outside the database, so a process that has the key folder can tell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from indelible.core.effects.effect import SYSTEM
from indelible.core.journal.journal import Signer
from indelible.core.journal.notes import TreeHead, tenant_named
from indelible.core.ports import Store
from indelible.engine.mint import SystemMint
from indelible.errors import JournalError, KeyUnusable
from indelible.journal.keys.files import is_private_folder, resolved_keys, ring_folder
from indelible.journal.keys.writers import tenants_that_came
from indelible.journal.sealing import Memory, is_elsewhere, stop_if_set_back

log = logging.getLogger("indelible.journal")


class Comparison:
    """Stops a tenant's effects if the database lacks a part of what was signed for the tenant."""

    def __init__(
        self, store: Store, memory: Callable[[], Memory | None], signed: Callable[[], Iterable[str]] = tuple
    ) -> None:
        """Compare with a memory; `signed` names the tenants of whom it may know something, as far as it can tell."""
        self._store = store
        self._memory = memory
        self._signed = signed
        self._mint = SystemMint()
        self.set_back: set[str] = set()
        """Names the tenants whose record lacked something when it was compared last."""
        self.unknown: set[str] = set()
        """Names the tenants of whom it could not be read what was signed."""

    def __call__(self, tenant: str) -> bool:
        """Compare the record of a tenant; return whether it lacks nothing. Without a memory it lacks nothing.

        Raises:
            KeyUnusable: There is a memory, and it cannot be read. Nothing may be written.
            StoreError: The store did not answer, so it is not known yet. Nothing may be written.
        """
        try:
            memory = self._memory()
            is_lost = memory is not None and stop_if_set_back(
                self._store, tenant, memory, lambda: self._mint.stamp(SYSTEM)
            )
        except JournalError as problem:
            self.unknown.add(tenant)
            raise self._cannot_tell(problem) from problem
        self.unknown.discard(tenant)
        if not is_lost or is_elsewhere(self._store, tenant):
            self.set_back.discard(tenant)
        elif tenant not in self.set_back:
            self.set_back.add(tenant)
            log.error("%s lacks what was signed for tenant %s: its effects are stopped", self._store.address, tenant)
        return not is_lost

    def tenants(self) -> set[str]:
        """Return the tenants of the ledger: those in its database, and those of whom something was signed.

        Raises:
            KeyUnusable: There is a memory, and it cannot be read.
        """
        try:
            return {*self._store.journal.tenants(), *self._signed()}
        except JournalError as problem:
            raise self._cannot_tell(problem) from problem

    def last(self, origin: str) -> TreeHead | None:
        """Return the head of a journal that was signed last; None if none was, as far as is known here."""
        try:
            memory = self._memory()
            return None if memory is None else memory.last(origin)
        except JournalError as problem:
            raise self._cannot_tell(problem) from problem

    def signed(self, origin: str) -> int:
        """Return how many entries of a journal were signed; 0 if none were, as far as is known here."""
        last = self.last(origin)
        return 0 if last is None else last.size

    def _cannot_tell(self, problem: JournalError) -> KeyUnusable:
        return KeyUnusable(
            f"{self._store.address} may have been set back, and that cannot be told, so no effect runs: {problem}"
        )


def memory_finder(store: Store, keys: str | Path | None, signer: Signer | None) -> Callable[[], Memory | None]:
    """Return what finds the memory of what was signed: the given signer, else files beside the keys, if any."""
    if signer is not None:
        return lambda: signer
    folder = resolved_keys(keys)
    if folder is None:
        return lambda: None
    ring = ring_folder(store.ledger_name, folder)
    if (ring / "heads").is_dir():
        import indelible.journal.keys.signer  # noqa: F401  # now: a fork while a thread imports it would lock it
    found: list[Memory] = []

    def find() -> Memory | None:
        if not found and is_private_folder(ring / "heads"):
            from indelible.journal.keys.signer import FileHeadState  # loads a library of ciphers

            found.append(FileHeadState(ring))
        return found[0] if found else None

    return find


def _signed_finder(store: Store, keys: str | Path | None) -> Callable[[], set[str]]:
    """Return what names the tenants whose rows may be lost: the memory and the keys of those that came know them."""
    folder = resolved_keys(keys)

    def find() -> set[str]:
        ring = None if folder is None else ring_folder(store.ledger_name, folder)
        if ring is None or not is_private_folder(ring / "heads"):
            return set()
        from indelible.journal.keys.signer import FileHeadState  # loads a library of ciphers

        named = (tenant_named(store.ledger_name, origin) for origin in FileHeadState(ring).origins())
        return {*(tenant for tenant in named if tenant is not None), *tenants_that_came(ring)}

    return find


def tenants_of(store: Store) -> set[str]:
    """Return the tenants of a ledger, also those of whom the database has lost all."""
    compare = store.compare
    return compare.tenants() if isinstance(compare, Comparison) else set(store.journal.tenants())


def memory_beside_keys(origin: str) -> TreeHead | None:
    """Return the head of a journal that was signed last with the keys of this machine; None if it is not signed here.

    Raises:
        JournalError: There is a memory, and it cannot be read.
    """
    folder = resolved_keys(None)
    ring = None if folder is None else ring_folder(origin.rpartition("/")[0], folder)
    if ring is None or not is_private_folder(ring / "heads"):
        return None
    from indelible.journal.keys.signer import FileHeadState  # loads a library of ciphers

    return FileHeadState(ring).last(origin)


def compare_before_writing(store: Store, keys: str | Path | None = None, signer: Signer | None = None) -> None:
    """Have a store compare each tenant's record with what was signed, unless it does so already."""
    if store.compare is None and store.address != ":memory:":
        signed = _signed_finder(store, keys) if signer is None else tuple
        store.compare = Comparison(store, memory_finder(store, keys, signer), signed)
