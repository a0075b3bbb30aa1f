"""Promises of core.journal.tiles: a tree kept in tiles is the same tree, laid out as tlog-tiles says."""

from __future__ import annotations

from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.journal.merkle import EMPTY_ROOT, leaf_hash, perfect_root, root_of, tree_root
from indelible.core.journal.tiles import (
    FULL_TILE_BYTES,
    WIDTH,
    entries_path,
    grow,
    hashes_in,
    node_reader,
    pack_entries,
    tile_path,
    tiles_of,
    unpack_entries,
)
from tests.core.journals import MemoryTree

LEAVES = [leaf_hash(number.to_bytes(4, "big")) for number in range(66_000)]


def no_tile(level: int, number: int) -> NoReturn:
    raise AssertionError(f"nobody needs tile {level}/{number}")


# ── growing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.one_of(st.integers(0, 5), st.sampled_from([255, 256, 257, 300])), max_size=8))
def test_a_tree_grown_in_any_chunks_has_the_root_of_the_whole(chunks: list[int]) -> None:
    tiles: dict[tuple[int, int], bytes] = {}
    size = 0

    def read(level: int, number: int) -> bytes:
        return tiles[level, number]

    for chunk in chunks:
        grown = grow(size, LEAVES[size : size + chunk], read)
        size += chunk
        assert (grown.size, grown.root) == (size, root_of(LEAVES[:size]))
        tiles.update(grown.tiles)
    assert tiles == {(level, number): tile_of(level, number, width) for level, number, width in tiles_of(size)}


def tile_of(level: int, number: int, width: int) -> bytes:
    """Is a tile by its definition: neighbours of the tree's level 8·L."""
    span = WIDTH**level
    first = number * WIDTH
    return b"".join(perfect_root(LEAVES[i * span : (i + 1) * span]) for i in range(first, first + width))


def test_a_tree_of_three_levels_grows_across_them() -> None:
    tiles = grow(0, LEAVES[:65_500], no_tile).tiles
    grown = grow(65_500, LEAVES[65_500:66_000], lambda *place: tiles[place])
    assert grown.root == root_of(LEAVES)
    assert sorted(grown.tiles) == [(0, 255), (0, 256), (0, 257), (1, 0), (1, 1), (2, 0)]
    assert len(grown.tiles[2, 0]) == 32
    tiles |= grown.tiles
    for size in (65_535, 65_536, 65_537, 66_000):
        assert tree_root(size, node_reader(lambda *place: tiles[place])) == root_of(LEAVES[:size])


def test_growing_by_nothing_changes_nothing() -> None:
    assert grow(0, [], no_tile).root == EMPTY_ROOT
    tree = MemoryTree([b"one", b"two", b"three"])
    grown = grow(3, [], lambda *place: tree.tiles[place])
    assert (grown.size, grown.root, grown.tiles) == (3, tree.root, {})


def test_growing_writes_only_tiles_that_are_new_or_wider_and_reads_only_the_edge() -> None:
    tiles = grow(0, LEAVES[:700], no_tile).tiles
    asked = []

    def read(level: int, number: int) -> bytes:
        asked.append((level, number))
        return tiles[level, number]

    grown = grow(700, LEAVES[700:701], read)
    assert set(grown.tiles) == {(0, 2)}
    assert set(asked) <= {(0, 2), (1, 0)}


def test_a_tile_that_is_wider_than_the_tree_is_cut_to_it() -> None:
    """A crash after the tiles and before the tree leaves such a tile; its surplus was never part of the tree."""
    wider = {(0, 0): b"".join([*LEAVES[:3], leaf_hash(b"never"), leaf_hash(b"was")])}
    grown = grow(3, LEAVES[3:5], lambda *place: wider[place])
    assert grown.root == root_of(LEAVES[:5])
    assert grown.tiles == {(0, 0): b"".join(LEAVES[:5])}


@pytest.mark.parametrize("length", [0, 1, 63, 95])
def test_a_tile_that_is_too_short_is_refused_before_anything_is_built_on_it(length: int) -> None:
    torn = b"".join(LEAVES[:3])[:length]
    with pytest.raises(ValueError, match="tile/0/000 is too short"):
        grow(3, LEAVES[3:5], lambda *_: torn)
    with pytest.raises(ValueError, match="tile/0/000 is too short"):
        tree_root(3, node_reader(lambda *_: torn))


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_reader_asks_for_each_tile_once() -> None:
    tree = MemoryTree([number.to_bytes(4, "big") for number in range(1000)])
    asked = []

    def read_tile(level: int, number: int) -> bytes:
        asked.append((level, number))
        return tree.tiles[level, number]

    read = node_reader(read_tile)
    assert {tree_root(size, read) for size in range(990, 1001)} >= {tree.root}
    assert len(asked) == len(set(asked))


def test_every_subtree_is_read_from_tiles() -> None:
    tree = MemoryTree([number.to_bytes(4, "big") for number in range(1024)])
    read = tree.reader()
    for level in range(11):
        for number in range(1024 >> level):
            assert read(level, number) == perfect_root(LEAVES[number << level : (number + 1) << level])


def test_hashes_come_out_of_a_tile_as_they_went_in() -> None:
    assert hashes_in(b"".join(LEAVES[:7])) == LEAVES[:7]
    assert hashes_in(b"") == []


# ── the layout ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_tiles_of_a_tree_are_those_of_the_specification() -> None:
    """tlog-tiles counts them for a tree of 70,000, and for one of 256."""
    listed = list(tiles_of(70_000))
    assert [one for one in listed if one[2] != WIDTH] == [(0, 273, 112), (1, 1, 17), (2, 0, 1)]
    assert listed[:273] == [(0, number, WIDTH) for number in range(273)]
    assert listed[274] == (1, 0, WIDTH)
    assert len(listed) == 277
    assert list(tiles_of(256)) == [(0, 0, WIDTH), (1, 0, 1)]
    assert list(tiles_of(0)) == []


@given(st.integers(0, 10**6))
def test_a_partial_tile_is_as_wide_as_the_specification_says(size: int) -> None:
    listed = list(tiles_of(size))
    for level, number, width in listed:
        assert 1 <= width <= WIDTH
        whole, rest = divmod(size // 256**level, 256)
        assert (width, number) == (rest, whole) if width != WIDTH else number < whole
    assert sum(width for level, _, width in listed if level == 0) == size
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ((0, 0), "tile/0/000"),
        ((0, 999), "tile/0/999"),
        ((0, 1000), "tile/0/x001/000"),
        ((1, 1_234_067), "tile/1/x001/x234/067"),
        ((63, 12_345_678_901), "tile/63/x012/x345/x678/901"),
        ((0, 273, 112), "tile/0/273.p/112"),
        ((2, 0, 1), "tile/2/000.p/1"),
        ((1, 1_234_067, 255), "tile/1/x001/x234/067.p/255"),
    ],
)
def test_a_tile_has_its_name_in_the_layout(place: tuple[int, ...], path: str) -> None:
    assert tile_path(*place) == path


def test_entries_have_their_names_in_the_layout() -> None:
    assert entries_path(1_234_067) == "tile/entries/x001/x234/067"
    assert entries_path(273, 112) == "tile/entries/273.p/112"


@given(st.integers(0, 10**12), st.integers(1, WIDTH))
def test_a_name_can_be_read_back(number: int, width: int) -> None:
    name, _, told = tile_path(0, number, width).removeprefix("tile/0/").partition(".p/")
    groups = name.split("/")
    assert all(group[0] == "x" and len(group) == 4 for group in groups[:-1])
    assert len(groups[-1]) == 3
    assert int("".join(group[-3:] for group in groups)) == number
    assert int(told or WIDTH) == width


def test_a_full_tile_has_8192_bytes() -> None:
    assert FULL_TILE_BYTES == 8192


# ── entries ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_entries_come_out_as_they_went_in(entries: list[bytes]) -> None:
    assert unpack_entries(pack_entries(entries)) == entries


def test_entries_stand_after_their_length_in_two_bytes() -> None:
    assert pack_entries([b"", b"ab", b"x" * 258]) == b"\0\0" + b"\0\2ab" + b"\1\2" + b"x" * 258
    longest = b"x" * 65_535
    assert unpack_entries(pack_entries([longest])) == [longest]
    with pytest.raises(OverflowError):
        pack_entries([longest + b"x"])


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=5), st.data())
def test_entries_that_are_cut_short_are_refused_or_fewer(entries: list[bytes], data: st.DataObject) -> None:
    packed = pack_entries(entries)
    cut = packed[: data.draw(st.integers(0, len(packed) - 1))]
    try:
        found = unpack_entries(cut)
    except ValueError as refused:
        assert str(refused) == "the entries are cut short"  # noqa: PT017
    else:
        assert found == entries[: len(found)]
        assert len(found) < len(entries)
        assert pack_entries(found) == cut
