"""Tiles: the tree in pieces of 256 hashes, as C2SP's tlog-tiles lays them out. Pure.

A tile of level L holds neighbours of the tree's level 8·L. The last tile of a level is partial until it is full; then
its root joins the level above. Entries are kept beside them, 256 to a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from indelible.core.journal.merkle import HASH_BYTES, ReadNode, perfect_root, tree_root

WIDTH = 256
_HEIGHT = 8
FULL_TILE_BYTES = WIDTH * HASH_BYTES

ReadTile = Callable[[int, int], bytes]
"""Gives a tile, by its level and number, at least as wide as the tree needs it."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Is what appending leaves to a tree comes to: its new size and root, and every tile that is new or wider."""

    size: int
    root: bytes
    tiles: dict[tuple[int, int], bytes]


def grow(size: int, leaves: Sequence[bytes], read_tile: ReadTile) -> Growth:
    """Appends leaf hashes to a tree of `size`, reading only the tiles at its right edge."""
    tiles: dict[tuple[int, int], bytes] = {}
    level, start, hashes = 0, size, list(leaves)
    while hashes:
        number, width = divmod(start, WIDTH)
        kept = _first_hashes(read_tile(level, number), level, number, width) if width else b""
        row = kept + b"".join(hashes)
        hashes = []
        for offset in range(0, len(row), FULL_TILE_BYTES):
            tile = tiles[level, number] = row[offset : offset + FULL_TILE_BYTES]
            if len(tile) == FULL_TILE_BYTES:
                hashes.append(perfect_root(hashes_in(tile)))
            number += 1
        level, start = level + 1, start // WIDTH
    grown = size + len(leaves)

    def read(tile_level: int, tile_number: int) -> bytes:
        return tiles.get((tile_level, tile_number)) or read_tile(tile_level, tile_number)

    return Growth(grown, tree_root(grown, node_reader(read)), tiles)


def node_reader(read_tile: ReadTile) -> ReadNode:
    """Reads any perfect subtree's root from tiles; each tile is asked for once."""
    known: dict[tuple[int, int], bytes] = {}

    def read(level: int, number: int) -> bytes:
        tile_level, height = divmod(level, _HEIGHT)
        first = number << height
        tile_number, offset = divmod(first, WIDTH)
        place = (tile_level, tile_number)
        tile = known.get(place)
        if tile is None:
            tile = known[place] = read_tile(tile_level, tile_number)
        needed = _first_hashes(tile, tile_level, tile_number, offset + (1 << height))
        return perfect_root(hashes_in(needed[offset * HASH_BYTES :]))

    return read


def _first_hashes(tile: bytes, level: int, number: int, width: int) -> bytes:
    """Cuts a tile to a width; a shorter one would put every later hash in a wrong place, so it is refused."""
    if len(tile) < width * HASH_BYTES:
        raise ValueError(f"{tile_path(level, number)} is too short: {len(tile)} bytes, and {width} hashes are needed")
    return tile[: width * HASH_BYTES]


def hashes_in(tile: bytes) -> list[bytes]:
    """Gives the hashes that a tile holds."""
    return [tile[i : i + HASH_BYTES] for i in range(0, len(tile), HASH_BYTES)]


def tiles_of(size: int) -> Iterator[tuple[int, int, int]]:
    """Lists level, number and width of every tile that a tree of this size has."""
    level, count = 0, size
    while count:
        full, partial = divmod(count, WIDTH)
        yield from ((level, number, WIDTH) for number in range(full))
        if partial:
            yield level, full, partial
        level, count = level + 1, full


def tile_path(level: int, number: int, width: int = WIDTH) -> str:
    """Gives a tile's name in the tlog-tiles layout."""
    return f"tile/{level}/{_number_path(number, width)}"


def entries_path(number: int, width: int = WIDTH) -> str:
    """Gives the name of 256 entries in the tlog-tiles layout."""
    return f"tile/entries/{_number_path(number, width)}"


def _number_path(number: int, width: int) -> str:
    digits = f"{number:03d}"
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[i : i + 3] for i in range(0, len(digits), 3)]
    name = "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]])
    return name if width == WIDTH else f"{name}.p/{width}"


def pack_entries(entries: Iterable[bytes]) -> bytes:
    """Joins entries, each after its length in two bytes."""
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def unpack_entries(packed: bytes) -> list[bytes]:
    """Takes joined entries apart; raises ValueError when they do not end where they should."""
    entries: list[bytes] = []
    place, end = 0, len(packed)
    while place < end:
        start = place + 2
        place = start + (packed[start - 2] << 8 | packed[start - 1] if start <= end else end)
        if place > end:
            raise ValueError("the entries are cut short")
        entries.append(packed[start:place])
    return entries
