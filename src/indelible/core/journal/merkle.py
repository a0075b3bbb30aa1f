"""The journal's tree: RFC 6962 hashes, roots, inclusion and consistency proofs. Pure: hashes in, hashes out.

A tree of any size is a row of perfect subtrees. Whoever can read the root of any perfect subtree (`ReadNode`) can
compute every root and every proof from a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()

ReadNode = Callable[[int, int], bytes]
"""Gives the root of a perfect subtree: of its level (0 is a leaf's hash) and its number among those of that level."""


def leaf_hash(entry: bytes) -> bytes:
    """Gives the hash of an entry."""
    return sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Gives the hash of two subtrees that stand side by side."""
    return sha256(b"\1" + left + right).digest()


def perfect_root(hashes: Sequence[bytes]) -> bytes:
    """Gives the root of as many neighbours as a power of two."""
    row = list(hashes)
    while len(row) > 1:
        row = [node_hash(row[i], row[i + 1]) for i in range(0, len(row), 2)]
    return row[0]


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Gives the root of a tree of these leaf hashes."""
    return Edge().extended(leaves).root


class Edge:
    """Is the right edge of a growing tree: the roots of its perfect subtrees, largest first. It never changes."""

    __slots__ = ("_roots", "size")

    def __init__(self, size: int = 0, roots: Sequence[bytes] = ()) -> None:
        if len(roots) != size.bit_count():
            raise ValueError(f"a tree of {size} has {size.bit_count()} perfect subtrees, not {len(roots)}")
        self.size = size
        self._roots = tuple(roots)

    def extended(self, leaves: Sequence[bytes]) -> Edge:
        """Gives the edge after these leaf hashes were appended."""
        roots, size = list(self._roots), self.size
        for leaf in leaves:
            carry, rest = leaf, size
            while rest & 1:
                carry = sha256(b"\1" + roots.pop() + carry).digest()
                rest >>= 1
            roots.append(carry)
            size += 1
        return Edge(size, roots)

    @property
    def root(self) -> bytes:
        """Is the root of the tree."""
        if not self._roots:
            return EMPTY_ROOT
        root = self._roots[-1]
        for left in reversed(self._roots[:-1]):
            root = node_hash(left, root)
        return root


def tree_root(size: int, read: ReadNode) -> bytes:
    """Gives the root of the first `size` leaves."""
    return _hash_of(0, size, read) if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, read: ReadNode) -> list[bytes]:
    """Gives the hashes that lead from a leaf to the root of the first `size` leaves."""
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} has no leaf {index}")
    proof: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            proof.append(_hash_of(middle, end, read))
            end = middle
        else:
            proof.append(_hash_of(start, middle, read))
            start = middle
    return proof[::-1]


def consistency_proof(old: int, new: int, read: ReadNode) -> list[bytes]:
    """Gives the hashes which show that a tree of `new` leaves begins with the tree of `old` leaves."""
    if not 0 <= old <= new:
        raise ValueError(f"a tree of {new} does not begin with one of {old}")
    if old in (0, new):
        return []
    proof: list[bytes] = []
    start, end, is_whole = 0, new, True
    while end != old:
        middle = start + _split(end - start)
        if old <= middle:
            proof.append(_hash_of(middle, end, read))
            end = middle
        else:
            proof.append(_hash_of(start, middle, read))
            start, is_whole = middle, False
    # The old tree's own right-most part is known to whoever holds the old root, unless that part is not all of it.
    if not is_whole:
        proof.append(_hash_of(start, end, read))
    return proof[::-1]


def root_by_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes | None:
    """Gives the root that a proof leads to, or None when a proof of this length cannot be about this place."""
    if not 0 <= index < size:
        return None
    root, hashes = leaf, iter(proof)
    number, last = index, size - 1
    while last:
        if number & 1 or number < last:
            sibling = next(hashes, None)
            if sibling is None:
                return None
            root = node_hash(sibling, root) if number & 1 else node_hash(root, sibling)
        number >>= 1
        last >>= 1
    return root if next(hashes, None) is None else None


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Is this leaf the one at `index` of the tree with this size and root?"""
    return root_by_inclusion(leaf, index, size, proof) == root


def is_consistent(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Does the tree of `new` leaves begin with the tree of `old` leaves?"""
    if old > new or old < 0:
        return False
    if old == new:
        return not proof and old_root == new_root and (old > 0 or old_root == EMPTY_ROOT)
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    return _roots_by_consistency(old, old_root, new, proof) == (old_root, new_root)


def _roots_by_consistency(old: int, old_root: bytes, new: int, proof: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Gives both roots that a consistency proof leads to."""
    hashes = iter(proof)
    number, last = old - 1, new - 1
    while number & 1:
        number >>= 1
        last >>= 1
    # Where the old tree is one perfect subtree, its root is the seed; else the proof begins with the seed.
    seed = next(hashes, None) if number else old_root
    if seed is None:
        return None
    was = now = seed
    while last:
        if number & 1:
            left = next(hashes, None)
            if left is None:
                return None
            was, now = node_hash(left, was), node_hash(left, now)
        elif number < last:
            right = next(hashes, None)
            if right is None:
                return None
            now = node_hash(now, right)
        number >>= 1
        last >>= 1
    return (was, now) if next(hashes, None) is None else None


def perfect_subtrees(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Lists the largest perfect subtrees over leaves `start` to `end`, from left to right, by level and number."""
    while start < end:
        level = (end - start).bit_length() - 1
        if start:
            level = min(level, (start & -start).bit_length() - 1)
        yield level, start >> level
        start += 1 << level


def _hash_of(start: int, end: int, read: ReadNode) -> bytes:
    """Gives the root of the leaves `start` to `end`, a range that a split of the tree has made."""
    parts = [read(level, number) for level, number in perfect_subtrees(start, end)]
    root = parts.pop()
    while parts:
        root = node_hash(parts.pop(), root)
    return root


def _split(size: int) -> int:
    """Gives the largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1
