"""Rows of one tenant, as those see them who examine its events."""

from __future__ import annotations

from collections.abc import Sequence

from indelible.core.events import Event, Payload
from indelible.core.journal.journal import Places
from indelible.core.journal.merkle import inclusion_proof, is_included
from indelible.core.journal.tiles import node_reader
from indelible.core.ports import Store


class TenantRows:
    """Shows rows of one tenant, and proves what is in the part of its tree that was examined."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self.end = 0
        """Is from where on it counts for nothing what the tree has."""

    def show(self, places: Places, end: int) -> None:
        """Take where the tree has its events; what it has from an index on counts for nothing."""
        self._places, self._nodes, self.end = places, node_reader(places.tile), end

    def events(self, run_id: str, after: int, limit: int) -> Sequence[Event]:
        """List a run's events above a number."""
        return self._store.events(self._tenant, run_id, after, limit)

    def payloads(self, run_id: str, seqs: Sequence[int]) -> Sequence[Payload]:
        """List what some events of a run commit to."""
        return self._store.payloads(self._tenant, run_id, seqs)

    def is_in_tree(self, run_id: str, seq: int, hash_: bytes) -> bool:
        """Return whether the tree is proven to hold this event in its part."""
        index, tree = self._places.index_of(run_id, seq), self._places.tree
        if index is None or index >= self.end:
            return False
        return is_included(hash_, index, tree.size, inclusion_proof(index, tree.size, self._nodes), tree.root)
