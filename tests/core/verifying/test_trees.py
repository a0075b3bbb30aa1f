"""The tree is recomputed from its entries, and a tile that does not fit is named."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indelible.core.journal.merkle import EMPTY_ROOT, leaf_hash, root_of
from indelible.core.journal.tiles import grow
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.trees import TreeWalk, folded, leaf_hashes

LEAVES = leaf_hashes([str(number).encode() for number in range(256 * 257 + 3)])
TILES = grow(0, LEAVES, lambda level, number: b"").tiles


def walked(leaves: list[bytes], walk: TreeWalk) -> bytes:
    for start in range(0, len(leaves), 256):
        walk.extend(leaves[start : start + 256])
    return walk.finish()


def test_leaves_are_hashed_as_the_tree_does() -> None:
    assert leaf_hashes([b"a", b""]) == [leaf_hash(b"a"), leaf_hash(b"")]
    assert folded(b"".join(LEAVES[:4])) == root_of(LEAVES[:4])


EDGES = [0, 1, 255, 256, 257, 511, 512, 513, 768, 1024]


@given(size=st.integers(1, 1200), wanted=st.lists(st.integers(0, 1300) | st.sampled_from(EDGES), max_size=5))
@example(size=1200, wanted=EDGES)
@example(size=1024, wanted=EDGES)
@example(size=256, wanted=EDGES)
def test_roots_are_those_of_the_tree(size: int, wanted: list[int]) -> None:
    walk = TreeWalk(wanted)
    assert walked(LEAVES[:size], walk) == root_of(LEAVES[:size])
    assert walk.roots == {one: root_of(LEAVES[:one]) if one else EMPTY_ROOT for one in wanted if one <= size}


def test_tiles_of_three_levels_are_compared() -> None:
    walk = TreeWalk([65_535, 65_536, 65_537], lambda level, number, width: TILES[level, number])
    assert walked(LEAVES, walk) == root_of(LEAVES)
    assert walk.roots == {size: root_of(LEAVES[:size]) for size in (65_535, 65_536, 65_537)}
    assert (walk.suspect, walk.bad_tile) == (None, None)


@pytest.mark.parametrize("place", [(1, 0), (1, 1), (2, 0)])
def test_a_tile_that_does_not_fit_is_named(place: tuple[int, int]) -> None:
    wrong = {**TILES, place: bytes([TILES[place][0] ^ 1]) + TILES[place][1:]}
    walk = TreeWalk([], lambda level, number, width: wrong[level, number])
    walked(LEAVES, walk)
    assert walk.bad_tile is not None
    assert walk.bad_tile.startswith(f"tile/{place[0]}/00{place[1]}")


def test_the_first_entry_that_does_not_fit_is_named() -> None:
    leaves = [*LEAVES[:300], LEAVES[0], LEAVES[1], *LEAVES[302:600]]
    walk = TreeWalk([], lambda level, number, width: TILES[level, number][: width * 32])
    walked(leaves, walk)
    assert walk.suspect == (300, LEAVES[300], LEAVES[0])


def test_a_tile_of_another_length_is_caught() -> None:
    walk = TreeWalk([], lambda level, number, width: b"x" * 31)
    with pytest.raises(Caught, match="another length"):
        walk.extend(LEAVES[:256])


def test_rows_come_whole() -> None:
    walk = TreeWalk([])
    with pytest.raises(ValueError, match="rows come whole"):
        walk.extend(LEAVES[:257])
    walk.extend(LEAVES[:255])
    with pytest.raises(ValueError, match="rows come whole"):
        walk.extend(LEAVES[:1])


def test_nothing_has_the_root_of_nothing() -> None:
    assert TreeWalk([]).finish() == EMPTY_ROOT
