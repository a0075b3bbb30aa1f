"""Promises of core.journal.merkle: roots and proofs are RFC 6962's, and no other proof is believed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.journal.merkle import (
    EMPTY_ROOT,
    Edge,
    consistency_proof,
    inclusion_proof,
    is_consistent,
    is_included,
    leaf_hash,
    node_hash,
    perfect_root,
    perfect_subtrees,
    root_by_inclusion,
    root_of,
    tree_root,
)

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "rfc6962.json").read_text(encoding="utf-8")
)
ENTRIES = [bytes.fromhex(entry) for entry in VECTORS["entries"]]
MANY = 300
LEAVES = [leaf_hash(number.to_bytes(4, "big")) for number in range(MANY)]


def read(level: int, number: int) -> bytes:
    """Reads subtrees of the tree over LEAVES."""
    return perfect_root(LEAVES[number << level : (number + 1) << level])


def root_by_definition(leaves: Sequence[bytes]) -> bytes:
    """Is RFC 6962's own recursive definition (section 2.1), word for word."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha256(b"\1" + root_by_definition(leaves[:split]) + root_by_definition(leaves[split:])).digest()


ROOTS = [root_by_definition(LEAVES[:size]) for size in range(MANY + 1)]
sizes = st.integers(1, MANY)


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hashes_of_leaves_and_nodes_are_those_of_the_known_tree() -> None:
    row = [leaf_hash(entry) for entry in ENTRIES]
    for nodes in VECTORS["nodes"]:
        assert [node.hex() for node in row] == nodes
        row = [node_hash(row[i], row[i + 1]) for i in range(0, len(row) - 1, 2)]
    assert EMPTY_ROOT.hex() == VECTORS["empty_root"]


def test_roots_are_those_of_the_known_tree() -> None:
    leaves = [leaf_hash(entry) for entry in ENTRIES]
    assert [root_of(leaves[:size]).hex() for size in range(9)] == VECTORS["roots"]


def known_node(level: int, number: int) -> bytes:
    return bytes.fromhex(VECTORS["nodes"][level][number])


@pytest.mark.parametrize("vector", VECTORS["inclusion"], ids=lambda vector: f"{vector['index']} of {vector['size']}")
def test_inclusion_proofs_are_those_of_the_known_tree(vector: dict[str, Any]) -> None:
    index, size = vector["index"], vector["size"]
    proof = inclusion_proof(index, size, known_node)
    assert [part.hex() for part in proof] == vector["proof"]
    assert is_included(leaf_hash(ENTRIES[index]), index, size, proof, bytes.fromhex(VECTORS["roots"][size]))


@pytest.mark.parametrize("vector", VECTORS["consistency"], ids=lambda vector: f"{vector['old']} to {vector['new']}")
def test_consistency_proofs_are_those_of_the_known_tree(vector: dict[str, Any]) -> None:
    old, new = vector["old"], vector["new"]
    proof = consistency_proof(old, new, known_node)
    assert [part.hex() for part in proof] == vector["proof"]
    old_root, new_root = (bytes.fromhex(VECTORS["roots"][size]) for size in (old, new))
    assert is_consistent(old, old_root, new, new_root, proof)


# ── roots ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_root_is_what_the_definition_says_for_every_size() -> None:
    for size in range(MANY + 1):
        assert root_of(LEAVES[:size]) == tree_root(size, read) == ROOTS[size]


@given(st.lists(st.integers(0, 40), max_size=12))
def test_an_edge_grown_in_any_chunks_has_the_root_of_the_whole(chunks: list[int]) -> None:
    edge, size = Edge(), 0
    for chunk in chunks:
        grown = edge.extended(LEAVES[size : size + chunk])
        assert (edge.size, edge.root) == (size, ROOTS[size]), "the edge before never changes"
        edge, size = grown, min(size + chunk, MANY)
    assert (edge.size, edge.root) == (size, ROOTS[size])


def test_an_edge_can_be_taken_up_from_its_subtrees() -> None:
    for size in range(MANY):
        roots = [read(level, number) for level, number in perfect_subtrees(0, size)]
        assert Edge(size, roots).extended(LEAVES[size : size + 1]).root == ROOTS[size + 1]


def test_an_edge_of_the_wrong_number_of_subtrees_is_refused() -> None:
    with pytest.raises(ValueError, match="a tree of 5 has 2 perfect subtrees, not 1"):
        Edge(5, [LEAVES[0]])


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_perfect_subtrees_cover_a_range_once_and_in_order(one: int, other: int) -> None:
    start, end = min(one, other), max(one, other)
    place = start
    for level, number in perfect_subtrees(start, end):
        assert number << level == place
        place += 1 << level
    assert place == end


# ── inclusion ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_leaf_of_every_size_is_shown_to_be_included() -> None:
    for size in range(1, MANY + 1):
        for index in range(0, size, 1 if size < 70 else 7):
            proof = inclusion_proof(index, size, read)
            assert is_included(LEAVES[index], index, size, proof, ROOTS[size])
            assert len(proof) <= (size - 1).bit_length()


def test_an_inclusion_proof_fits_no_other_leaf_and_no_other_place() -> None:
    for size in range(1, 34):
        for index in range(size):
            proof = inclusion_proof(index, size, read)
            for other in range(size + 2):
                is_same = other == index
                assert is_included(LEAVES[other], index, size, proof, ROOTS[size]) == is_same
                assert is_included(LEAVES[index], other, size, proof, ROOTS[size]) == is_same


@given(st.data(), sizes)
def test_a_changed_inclusion_proof_is_refused(data: st.DataObject, size: int) -> None:
    index = data.draw(st.integers(0, size - 1))
    proof = inclusion_proof(index, size, read)
    assert not is_included(LEAVES[index], index, size, [*proof, data.draw(st.sampled_from(LEAVES))], ROOTS[size])
    assert not is_included(LEAVES[index], index, size, proof, data.draw(st.sampled_from(LEAVES[1:])))
    if size > 1:
        assert not is_included(LEAVES[index], index, size, proof[:-1], ROOTS[size])
        assert not is_included(LEAVES[index], index, size, proof[1:], ROOTS[size])
        assert not is_included(LEAVES[index], index, size, flipped(data, proof), ROOTS[size])


def flipped(data: st.DataObject, proof: Sequence[bytes]) -> list[bytes]:
    """Flips one bit of one hash."""
    number = data.draw(st.integers(0, len(proof) - 1))
    bit = data.draw(st.integers(0, 255))
    changed = int.from_bytes(proof[number], "big") ^ 1 << bit
    return [*proof[:number], changed.to_bytes(32, "big"), *proof[number + 1 :]]


def test_a_changed_size_is_refused_wherever_the_way_to_the_root_would_differ() -> None:
    """A size enters the way only through its shape; that the root belongs to this size is what a head is signed for."""
    for size in range(1, 40):
        for index in range(size):
            proof = inclusion_proof(index, size, read)
            for other in range(1, 45):
                led = root_by_inclusion(LEAVES[index], index, other, proof)
                assert led in (None, ROOTS[size]) or led not in ROOTS
                if other != size:
                    assert not is_included(LEAVES[index], index, other, proof, ROOTS[other])


@pytest.mark.parametrize(("index", "size"), [(0, 0), (1, 1), (-1, 4), (4, 4), (0, -1)])
def test_a_place_outside_the_tree_has_no_proof(index: int, size: int) -> None:
    assert root_by_inclusion(LEAVES[0], index, size, []) is None
    assert not is_included(LEAVES[0], index, size, [], LEAVES[0])
    with pytest.raises(ValueError, match=f"a tree of {size} has no leaf {index}"):
        inclusion_proof(index, size, read)


def test_a_leaf_is_never_a_node() -> None:
    """Else whoever writes an entry could pass a node of the tree for it."""
    left, right = LEAVES[:2]
    assert leaf_hash(left + right) != node_hash(left, right)


# ── consistency ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_tree_is_shown_to_begin_with_every_older_one() -> None:
    for new in range(MANY + 1):
        for old in range(0, new + 1, 1 if new < 70 else 11):
            proof = consistency_proof(old, new, read)
            assert is_consistent(old, ROOTS[old], new, ROOTS[new], proof)


def test_a_consistency_proof_fits_no_other_sizes() -> None:
    for new in range(1, 20):
        for old in range(1, new):
            proof = consistency_proof(old, new, read)
            for other in range(22):
                if other != old:
                    assert not is_consistent(other, ROOTS[other], new, ROOTS[new], proof)
                if other != new:
                    assert not is_consistent(old, ROOTS[old], other, ROOTS[other], proof)


@given(st.data(), sizes)
def test_a_changed_consistency_proof_is_refused(data: st.DataObject, new: int) -> None:
    old = data.draw(st.integers(0, new))
    proof = consistency_proof(old, new, read)
    assert not is_consistent(old, ROOTS[old], new, ROOTS[new], [*proof, data.draw(st.sampled_from(LEAVES))])
    stranger = data.draw(st.binary(min_size=32, max_size=32))
    assert not is_consistent(old, stranger, new, ROOTS[new], proof)
    assert old == 0 or not is_consistent(old, ROOTS[old], new, stranger, proof)
    assert (len(proof) > 0) == (0 < old < new)
    for count in range(len(proof)):
        assert not is_consistent(old, ROOTS[old], new, ROOTS[new], proof[:count])
    if proof:
        assert not is_consistent(old, ROOTS[old], new, ROOTS[new], flipped(data, proof))


@given(st.data(), st.integers(2, MANY))
def test_a_tree_with_one_other_old_leaf_is_not_consistent(data: st.DataObject, new: int) -> None:
    old = data.draw(st.integers(1, new - 1))
    index = data.draw(st.integers(0, old - 1))
    leaves = [*LEAVES[:index], leaf_hash(b"another"), *LEAVES[index + 1 : new]]

    def read_other(level: int, number: int) -> bytes:
        return perfect_root(leaves[number << level : (number + 1) << level])

    new_root = root_of(leaves)
    for reader in (read, read_other):
        assert not is_consistent(old, ROOTS[old], new, new_root, consistency_proof(old, new, reader))


def test_nothing_is_shown_about_trees_that_shrink() -> None:
    assert not is_consistent(3, ROOTS[3], 2, ROOTS[2], [])
    assert not is_consistent(-1, EMPTY_ROOT, 2, ROOTS[2], [])
    assert not is_consistent(-1, ROOTS[1], 1, ROOTS[1], [ROOTS[1]])
    for old, new in ((3, 2), (-1, 2)):
        with pytest.raises(ValueError, match=f"a tree of {new} does not begin with one of {old}"):
            consistency_proof(old, new, read)


def test_every_tree_begins_with_the_empty_one_and_with_itself() -> None:
    assert is_consistent(0, EMPTY_ROOT, 5, ROOTS[5], [])
    assert is_consistent(5, ROOTS[5], 5, ROOTS[5], [])
    assert is_consistent(0, EMPTY_ROOT, 0, EMPTY_ROOT, [])
    assert not is_consistent(0, ROOTS[5], 5, ROOTS[5], [])
    assert not is_consistent(5, ROOTS[4], 5, ROOTS[5], [])
    assert not is_consistent(0, EMPTY_ROOT, 5, ROOTS[5], [EMPTY_ROOT])
