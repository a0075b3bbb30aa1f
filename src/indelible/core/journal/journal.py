"""The journal: all events of a tenant in one append-only tree. What stores and signers owe it, and its few rules.

Two phases. Integrating takes events that wait into the tree, in one transaction of the store; any number of processes
may try at once. Signing comes after that commit and is done by a signer that remembers, outside the store, what it
signed last: it can tell a database that was set back from one that grew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from indelible.core.journal.merkle import is_consistent
from indelible.core.journal.notes import Note, PublicKey, TreeHead
from indelible.errors import SignerRefused

JOURNAL_RUN = "indelible:journal"
"""Is the run in which a journal tells about itself: its keys, its writers, its continuations."""
WRITER_REGISTERED = "writer_registered"
"""Is the event that tells the key of a process that signs what it writes."""

Prove = Callable[[int], Sequence[bytes]]
"""Gives the proof that the tree to be signed begins with the tree of this older size."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Is the tree as the store has it: how many entries, and the root over all of them."""

    size: int
    root: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Is an event at its place in the tree."""

    index: int
    run_id: str
    seq: int
    hash: str
    body: bytes = field(repr=False)
    signature: bytes | None = field(repr=False)
    mac: bytes | None = field(default=None, repr=False)


class Waiting(NamedTuple):
    """Is an event that waits to be taken into the tree, and the row of that event; nulls where it is gone."""

    run_id: str
    seq: int
    hash: bytes
    """What the table of waiting events says its hash is."""
    body: bytes | None
    mac: bytes | None


class Places(NamedTuple):
    """Says where a tree has its events, as the transaction sees it that takes more events into it."""

    tree: Tree
    index_of: Callable[[str, int], int | None]
    """Gives the place of an event by its run and number, or None."""
    tile: Callable[[int, int], bytes]
    """Gives a tile by its level and number; raises LookupError when there is none."""


Examine = Callable[[Sequence[Waiting], Places], set[str]]
"""Looks at events that wait, each run's in their order, and at the tree before them; names the runs that must not be
taken in. It MUST NOT ask the journal otherwise. What it raises ends the transaction."""


class JournalStore(Protocol):
    """Keeps a tree, its tiles and its signed heads beside the events. It holds no rules: `tiles.grow` grows it."""

    most_at_once: int
    """Is how many events are best taken in one transaction: few where nobody else can write meanwhile."""

    def integrate(self, tenant: str, most: int, examine: Examine | None = None) -> Tree | None:
        """Takes at most so many waiting events into the tree, in one transaction; None when none wait.

        MUST give every event exactly one index, without gaps, however many integrate at once. MUST keep the events of
        a run in their order. MUST take no event that `examine` was not shown in the same transaction, and none of the
        runs that it names: those go on waiting.
        """

    def tree(self, tenant: str) -> Tree:
        """Gives the tree as it is; the empty tree when nothing was integrated yet."""

    def tile(self, tenant: str, level: int, number: int) -> bytes:
        """Gives a tile as wide as it is now; raises LookupError when there is none."""

    def entries(self, tenant: str, start: int, count: int) -> list[Entry]:
        """Lists entries from an index on, in order; those whose event is gone are left out."""

    def index_of(self, tenant: str, run_id: str, seq: int) -> int | None:
        """Gives an event's place in the tree, or None while it waits."""

    def keep_head(self, tenant: str, head: TreeHead, note: str, at: datetime) -> None:
        """Keep a signed head, unless the tree is smaller; the newest note about a size has the most signatures."""

    def heads(self, tenant: str, limit: int, up_to: int | None = None) -> list[str]:
        """Lists signed heads, the largest first; `up_to` leaves larger ones out."""

    def waiting(self, tenant: str) -> int:
        """Counts the events that wait to be integrated."""

    def pending(self, tenant: str, limit: int) -> list[tuple[str, int, str]]:
        """Lists events that wait, each by its run, number and hash, in no order."""

    def runs(self, tenant: str, after: str, limit: int) -> list[tuple[str, int, str]]:
        """Lists what is kept as the ends of runs, in the order of their names: run, number of events, last hash."""

    def tenants(self) -> list[str]:
        """Lists the tenants that have events."""


class Signer(Protocol):
    """Signs tree heads. It remembers what it signed last outside the ledger's database."""

    def keys(self, origin: str) -> Sequence[PublicKey]:
        """Gives the keys that sign for this journal now: one, or two while a rotation is under way."""

    def last(self, origin: str) -> TreeHead | None:
        """Return the head it signed last for this journal, None if it signed none. Asked before every claim.

        MUST NOT wait for a key that is elsewhere. MUST raise `SignerRefused` or `KeyUnusable` when it cannot tell: then
        no effect runs.
        """

    def continue_from(self, head: TreeHead) -> TreeHead | None:
        """Remembers this head instead of the one signed last, on purpose; gives the one that is forgotten."""

    def sign(self, head: TreeHead, prove: Prove) -> Note:
        """Signs a head.

        MUST refuse with `SignerRefused` what `check_growth` refuses. MUST have saved the head before a signature
        leaves it. MUST give the same note for the same head.
        """


def check_growth(last: TreeHead | None, head: TreeHead, prove: Prove) -> None:
    """Raises `SignerRefused` unless the tree to be signed begins with the one that was signed last."""
    if last is None:
        return
    if head.size < last.size:
        raise SignerRefused(
            f"{head.origin}: {last.size} entries were signed, and the database now has {head.size}: it was set back, "
            "as after restoring an old backup. Restore a newer one; or, to go on from here and say so on the record: "
            "indelible journal continue"
        )
    if not is_consistent(last.size, last.root, head.size, head.root, prove(last.size)):
        raise SignerRefused(
            f"{head.origin}: the database does not begin with the {last.size} entries that were signed: it was "
            "changed, or continued from an old backup. See which entry with: indelible verify; to go on from here "
            "and say so on the record: indelible journal continue"
        )
