"""Receipts: one file that shows, offline, that an entry is in a journal. C2SP's tlog-proof@v1. Pure."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass

from indelible.core.journal.merkle import HASH_BYTES, is_included, leaf_hash
from indelible.core.journal.notes import Note, TreeHead, parse_count, parse_head, parse_note, unbase64
from indelible.errors import BadNote

_FIRST_LINE = "c2sp.org/tlog-proof@v1"
_MOST_HASHES = 63


@dataclass(frozen=True, slots=True)
class Receipt:
    """Is the way from one entry to a signed tree head; `extra` is the entry itself, so that one file is enough."""

    index: int
    proof: tuple[bytes, ...]
    head: Note
    extra: bytes | None = None

    def __str__(self) -> str:
        extra = [] if self.extra is None else [f"extra {b64encode(self.extra).decode()}"]
        hashes = [b64encode(one).decode() for one in self.proof]
        return "\n".join([_FIRST_LINE, *extra, f"index {self.index}", *hashes, "", str(self.head)])

    def tree_head(self) -> TreeHead:
        """Gives the head it leads to, whoever signed it."""
        return parse_head(self.head.text)

    def covers(self, entry: bytes) -> bool:
        """Does it lead from this entry to its head?"""
        head = self.tree_head()
        return is_included(leaf_hash(entry), self.index, head.size, self.proof, head.root)


def parse_receipt(data: bytes | str) -> Receipt:
    """Reads a receipt strictly; raises `BadNote` for anything that is not exactly one."""
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    above, gap, below = text.partition("\n\n")
    lines = above.split("\n")
    if not gap or lines[0] != _FIRST_LINE:
        raise BadNote("this is no receipt: it does not begin as one")
    extra: bytes | None = None
    rest = lines[1:]
    if rest and rest[0].startswith("extra "):
        extra = unbase64(rest[0].removeprefix("extra "), "the entry")
        rest = rest[1:]
    if not rest or not rest[0].startswith("index "):
        raise BadNote("this receipt does not say which entry it is about")
    index = parse_count(rest[0].removeprefix("index "), "number of an entry")
    hashes = tuple(unbase64(line, "a hash of the proof") for line in rest[1:])
    if len(hashes) > _MOST_HASHES or any(len(one) != HASH_BYTES for one in hashes):
        raise BadNote("the proof of this receipt is none")
    return Receipt(index, hashes, parse_note(below), extra)
