"""Examines each entry of a tenant's tree once, in order, whoever put it there, and what waits to follow.

How far the tree was examined is remembered beside the keys, in `rights/`, with what the entries told of rights, budgets
and holds. So after a kill, with an older folder or in another place, a process reads on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from indelible.core.journal.journal import Places, Tree, Waiting
from indelible.core.journal.merkle import Edge, ReadNode, perfect_subtrees
from indelible.core.journal.tiles import node_reader
from indelible.core.macs import Known, Macs, losses_needed, next_loss
from indelible.core.ports import Store
from indelible.core.sheets import SheetRef
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.unsealed import HOLDS, MISSING, TAKEN, Numbers, ToldOf, Unsealed
from indelible.errors import RecordForged
from indelible.journal.keys.rights import newest_told
from indelible.journal.tenant_rows import TenantRows

log = logging.getLogger("indelible.journal")

EXAMINED = SheetRef("examined", "tree")
"""Is what remembers how many entries of the tree were examined and signed."""
_COUNTED = (EXAMINED.kind, HOLDS.kind, TAKEN, MISSING)
"""Names the kinds that count entries. They are kept together, so they are read together."""
_PAGE = 1000
_TOLD_EACH = 100_000


class Outgrown(Exception):
    """Says that the tree is another one than was examined: somebody else took events into it."""


class Examiner:
    """Knows how far a tenant's tree was examined, and what its entries told that is not remembered yet."""

    def __init__(self, store: Store, macs: Macs) -> None:
        self.macs = macs
        self._rows = TenantRows(store, macs.tenant)
        self._store = store
        self.problems: dict[str, str] = {}
        """Says for each run what is wrong with it, until whoever stops effects for it empties this."""
        self._begin(Edge(), {})

    @property
    def _kept_size(self) -> int:
        """Is how many entries the folder says were examined; an older copy of it that was put back says fewer."""
        return self.macs.newest.kept((EXAMINED.kind,)).get(EXAMINED, 0)

    def _begin(self, edge: Edge, kept: Known) -> None:
        """Begin after an edge, with what was kept. What it counts is of as many entries as it says, and of no more."""
        self._edge = edge
        self._kept = self._kept_size
        self._remembered = kept.get(EXAMINED, 0)
        self._unsealed = Unsealed(self.macs, self._rows)
        self._numbers = Numbers(
            {ref.id: number for ref, number in kept.items() if ref.kind == TAKEN},
            [ref.id for ref, state in kept.items() if ref.kind == MISSING and state == 1],
        )
        self._told: list[ToldOf] = []
        self._counts: dict[SheetRef, int] = {}
        self._holds = kept.get(HOLDS, 0)

    def is_at(self, tree: Tree) -> bool:
        """Return whether all of a tree was examined."""
        return (self._edge.size, self._edge.root) == (tree.size, tree.root)

    def __call__(self, waiting: Sequence[Waiting], places: Places) -> set[str]:
        """Examine events that would follow the entries that were examined; raise `Outgrown` if those are not all."""
        if not self.is_at(places.tree):
            raise Outgrown
        self._rows.show(places, places.tree.size)
        self._unsealed.losses = losses_needed(self.macs.newest, places.tree.size)
        named = self._unsealed(waiting)
        self.problems |= self._unsealed.problems
        return set(named)

    def accept(self, tree: Tree) -> None:
        """Take in that the tree has the events that were examined last."""
        edge = self._edge.extended(self._unsealed.leaves)
        if (edge.size, edge.root) == (tree.size, tree.root):
            self._take(edge)

    def read_on(self, tree: Tree, trusted: int) -> None:
        """Examine the entries of a tree from where this was done last, or from where it is remembered.

        Args:
            tree: The tree. It begins with what was signed.
            trusted: How many of its entries were signed.

        Raises:
            Caught: The tree has an entry that no key holder wrote or no rule allows, or it is not what it says.
            LookupError, ValueError: Its tiles are not as they were written.
        """
        newest = self._kept_size
        places = self._places(tree)
        nodes = node_reader(places.tile)
        is_emptied = newest < self._kept
        if self.is_at(tree) and not is_emptied:
            return
        if is_emptied or self._edge.size < newest <= tree.size or not self._begins(tree, nodes):
            kept = self.macs.newest.kept(_COUNTED)
            kept = kept if kept.get(EXAMINED, 0) <= tree.size else {}
            self._begin(_edge_at(min(kept.get(EXAMINED, 0), trusted), nodes), kept)
        self._rows.show(places, self._edge.size)
        self._trusted = trusted
        while self._edge.size < tree.size:
            self._read_page(min(tree.size, self._edge.size + _PAGE))
            if self._edge.size % _TOLD_EACH < _PAGE < tree.size - self._edge.size:
                log.info("%s of %s entries of %s were examined", self._edge.size, tree.size, self.macs.tenant)
        if not self.is_at(tree):
            self._begin(Edge(), {})
            raise Caught("the tree is not what its entries come to")

    def _read_page(self, end: int) -> None:
        start = self._edge.size
        for bound in (self._remembered, self._trusted, next_loss(self.macs.newest, start) or 0):
            end = min(end, bound) if start < bound else end
        self._unsealed.losses = losses_needed(self.macs.newest, start)
        entries = self._store.journal.entries(self.macs.tenant, start, end - start)
        if [entry.index for entry in entries] != list(range(start, end)):
            raise Caught(f"an entry from {start} to {end - 1} of the tree is gone")
        self._rows.end = start
        page = [Waiting(one.run_id, one.seq, bytes.fromhex(one.hash), one.body, one.mac) for one in entries]
        named = self._unsealed(page, is_signed=end <= self._trusted)
        self.problems |= self._unsealed.flaws
        for what in [self._unsealed.problems[run_id] for run_id in named]:
            raise Caught(f"the tree has what cannot be signed: {what}")
        self._take(self._edge.extended(self._unsealed.leaves))

    def _take(self, edge: Edge) -> None:
        """Take in what the last page told; of what is remembered, the numbers are counted already."""
        first, page = self._edge.size, self._unsealed
        self._edge = edge
        self._unsealed.accept()
        self._told += page.told
        self._counts |= page.counts
        if first >= self._remembered:
            self._holds += page.holds
            self.problems |= self._numbers.take(page.told)

    def keep(self) -> None:
        """Remember what the entries told, and how far they go. Call it when they are signed."""
        newest = self.macs.newest
        if self._kept_size < self._kept:  # it was emptied meanwhile
            self._begin(Edge(), {})
        elif self._kept_size < self._edge.size:
            found = {**newest_told(self._store, self.macs, self._told), **self._counts, **self._numbers.changed}
            newest.keep({**found, HOLDS: self._holds, EXAMINED: self._edge.size})
        self._kept = self._kept_size
        self._told, self._counts = [], {}
        self._numbers.changed.clear()

    def note(self, tree: Tree) -> None:
        """Note in this process alone which versions the entries of a tree told.

        What cannot be signed there ends it: the next seal stops all effects.
        """
        with suppress(Caught, LookupError, ValueError):
            self.read_on(tree, tree.size)
        for ref, version in newest_told(self._store, self.macs, self._told).items():
            self.macs.newest.note(ref, version)
        self.macs.newest.note(HOLDS, self._holds)

    def _begins(self, tree: Tree, nodes: ReadNode) -> bool:
        size = self._edge.size
        return size <= tree.size and _edge_at(size, nodes).root == self._edge.root

    def _places(self, tree: Tree) -> Places:
        journal, tenant = self._store.journal, self.macs.tenant
        return Places(tree, partial(journal.index_of, tenant), partial(journal.tile, tenant))


def take_in_all(store: Store, tenant: str) -> None:
    """Take into the tree all that waits, where nobody seals meanwhile.

    Raises:
        RecordForged: Something waits, or is in the tree, that cannot be signed.
    """
    macs = None if store.macs is None else store.macs(tenant)
    examiner = None if macs is None else Examiner(store, macs)
    grown: Tree | None = store.journal.tree(tenant)
    while grown is not None:
        problems: list[str] = []
        try:
            if examiner is not None:
                examiner.read_on(grown, grown.size)
            grown = store.journal.integrate(tenant, store.journal.most_at_once, examiner)
            if examiner is not None and grown is not None:
                examiner.accept(grown)
            problems = [] if examiner is None else list(examiner.problems.values())
        except Outgrown:
            grown = store.journal.tree(tenant)
        except (Caught, LookupError, ValueError) as problem:
            problems = [problem.flaw.what if isinstance(problem, Caught) else str(problem)]
        if problems:
            raise RecordForged(
                f"the journal of {tenant} has what no holder of the ledger's keys wrote or no rule allows: "
                f"{'; '.join(problems)}. See what else was changed: indelible verify"
            )


def _edge_at(size: int, nodes: ReadNode) -> Edge:
    return Edge(size, [nodes(*place) for place in perfect_subtrees(0, size)])
