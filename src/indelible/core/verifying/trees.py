"""Recomputes a journal's tree from its entries, in one pass and in little memory. Pure.

Entries come in rows of 256, the last one shorter. Each row is hashed, compared with the tile that was handed over, and
folded; what stays in memory is the right edge of the tree and the roots at the sizes that somebody asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from indelible.core.journal.merkle import EMPTY_ROOT, HASH_BYTES, tree_root
from indelible.core.journal.tiles import FULL_TILE_BYTES, WIDTH, hashes_in, node_reader, tile_path
from indelible.core.verifying.findings import Caught

GivenTile = Callable[[int, int, int], bytes]
"""Gives a tile that was handed over, by level, number and width."""


def leaf_hashes(bodies: Sequence[bytes]) -> list[bytes]:
    """Gives the hashes of entries; in one loop, for this is most of the work."""
    hash_of = sha256
    return [hash_of(b"\0" + body).digest() for body in bodies]


def folded(row: bytes) -> bytes:
    """Gives the root of neighbours that are as many as a power of two."""
    hash_of = sha256
    while len(row) > HASH_BYTES:
        row = b"".join([hash_of(b"\1" + row[i : i + 64]).digest() for i in range(0, len(row), 64)])
    return row


class TreeWalk:
    """Grows the tree row by row; `roots` has, in the end, the root at every wanted size that was reached."""

    def __init__(self, wanted: Iterable[int], given_tile: GivenTile | None = None) -> None:
        self.size = 0
        self.roots: dict[int, bytes] = {}
        self.suspect: tuple[int, bytes, bytes] | None = None
        """Is the first entry whose hash is not the one in its tile: its index, the tile's hash, and its own."""
        self.bad_tile: str | None = None
        self._wanted = sorted(set(wanted), reverse=True)
        self._given_tile = given_tile
        self._rows: list[bytes] = [b""]
        self._counts: list[int] = [0]

    def extend(self, hashes: Sequence[bytes]) -> None:
        """Appends a row of leaf hashes: 256, or fewer if it is the last."""
        if self.size % WIDTH or len(hashes) > WIDTH:
            raise ValueError("rows come whole, and a shorter one last")
        row, start = b"".join(hashes), self.size
        self.size = start + len(hashes)
        while self._wanted and self._wanted[-1] < self.size:
            size = self._wanted.pop()
            self._rows[0] = row[: (size - start) * HASH_BYTES]
            self.roots[size] = self._root(size)
        self._rows[0] = row
        if self._given_tile is not None:
            self._compare(start, row)
        if len(row) == FULL_TILE_BYTES:
            self._carry(0)
        # Only now, for the root over full rows is found in the rows above.
        if self._wanted and self._wanted[-1] == self.size:
            self.roots[self._wanted.pop()] = self._root(self.size)

    def _carry(self, level: int) -> None:
        """Puts the root of a full row into the row above."""
        root = folded(self._rows[level])
        self._rows[level] = b""
        self._counts[level] += 1
        if level + 1 == len(self._rows):
            self._rows.append(b"")
            self._counts.append(0)
        self._rows[level + 1] += root
        if len(self._rows[level + 1]) == FULL_TILE_BYTES:
            self._compare_upper(level + 1)
            self._carry(level + 1)

    def finish(self) -> bytes:
        """Compares what is left of every level and gives the root of everything."""
        for level, row in enumerate(self._rows):
            if level and row:
                self._compare_upper(level)
        return self._root(self.size)

    def _root(self, size: int) -> bytes:
        return tree_root(size, node_reader(lambda level, _: self._rows[level])) if size else EMPTY_ROOT

    def _compare(self, start: int, row: bytes) -> None:
        given = self._read(0, start // WIDTH, row)
        if given != row and self.suspect is None:
            pairs = zip(hashes_in(given), hashes_in(row), strict=True)
            place, (theirs, ours) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
            self.suspect = (start + place, theirs, ours)

    def _compare_upper(self, level: int) -> None:
        row, number = self._rows[level], self._counts[level]
        if self._given_tile is not None and self.bad_tile is None and self._read(level, number, row) != row:
            self.bad_tile = tile_path(level, number, len(row) // HASH_BYTES)

    def _read(self, level: int, number: int, row: bytes) -> bytes:
        assert self._given_tile is not None
        width = len(row) // HASH_BYTES
        given = self._given_tile(level, number, width)
        if len(given) != len(row):
            name = tile_path(level, number, width)
            raise Caught(f"{name} has another length than it should", expected=str(len(row)), found=str(len(given)))
        return given
