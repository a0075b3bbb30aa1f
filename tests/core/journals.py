"""Makes keys, trees and signed heads for the tests of the journal, with nothing random in them."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible.core.journal.merkle import ReadNode, consistency_proof, inclusion_proof, leaf_hash, tree_root
from indelible.core.journal.notes import ED25519, Note, PublicKey, Sign, TreeHead, cosign, sign_note
from indelible.core.journal.receipts import Receipt
from indelible.core.journal.tiles import grow, node_reader

ORIGIN = "ledger-0123456789ab/default"
SEEN_AT = 1893456000
"""Is the first second of 2030."""


class Holder:
    """Is somebody with a key: its private half is 32 equal bytes, so everybody can make it."""

    def __init__(self, name: str, byte: int, kind: int = ED25519) -> None:
        private = Ed25519PrivateKey.from_private_bytes(bytes([byte]) * 32)
        self.sign: Sign = private.sign
        self.key = PublicKey(name, private.public_key().public_bytes_raw(), kind)

    def cosigned(self, note: Note, at: int = SEEN_AT) -> Note:
        """Adds this witness's signature to a head."""
        return note.with_signatures([cosign(note, self.key, self.sign, at)])


class MemoryTree:
    """Is a tree whose tiles stay in memory."""

    def __init__(self, entries: Sequence[bytes] = ()) -> None:
        self.entries: list[bytes] = []
        self.size = 0
        self.root = tree_root(0, self.node)
        self.tiles: dict[tuple[int, int], bytes] = {}
        self.append(entries)

    def append(self, entries: Sequence[bytes]) -> None:
        """Grows by entries."""
        grown = grow(self.size, [leaf_hash(entry) for entry in entries], lambda *place: self.tiles[place])
        self.entries += entries
        self.size, self.root = grown.size, grown.root
        self.tiles |= grown.tiles

    def reader(self) -> ReadNode:
        """Reads subtrees from the tiles, each of them once."""
        return node_reader(lambda *place: self.tiles[place])

    def node(self, level: int, number: int) -> bytes:
        """Gives the root of a perfect subtree."""
        return self.reader()(level, number)

    def head(self, size: int | None = None, origin: str = ORIGIN) -> TreeHead:
        """Gives the head that the tree has now, or had at a size."""
        size = self.size if size is None else size
        return TreeHead(origin, size, tree_root(size, self.reader()))

    def signed(self, holder: Holder, size: int | None = None) -> Note:
        """Gives a signed head."""
        return sign_note(self.head(size).text, holder.key, holder.sign)

    def receipt(self, index: int, head: Note, size: int, *, with_entry: bool = True) -> Receipt:
        """Gives the receipt of an entry."""
        proof = tuple(inclusion_proof(index, size, self.reader()))
        return Receipt(index, proof, head, self.entries[index] if with_entry else None)

    def consistency(self, old: int, new: int) -> list[bytes]:
        """Gives the proof between two sizes."""
        return consistency_proof(old, new, self.reader())
