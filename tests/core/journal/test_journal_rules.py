"""Promises of core.journal.journal: nothing is signed that does not continue what was signed before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.journal.journal import Prove, check_growth
from indelible.core.journal.merkle import EMPTY_ROOT
from indelible.core.journal.notes import TreeHead
from indelible.errors import JournalError, SignerRefused
from tests.core.journals import ORIGIN, MemoryTree

ENTRIES = [b"entry %d" % number for number in range(300)]
TREE = MemoryTree(ENTRIES)
EMPTY = TreeHead(ORIGIN, 0, EMPTY_ROOT)


def proving(tree: MemoryTree, size: int) -> Prove:
    """Gives what proves, for a tree at a size, that it begins with an older one."""

    def prove(old: int) -> Sequence[bytes]:
        return tree.consistency(old, size)

    return prove


def not_asked(old: int) -> NoReturn:
    raise AssertionError(f"no proof from {old} is needed")


def test_the_first_head_needs_nothing_before_it() -> None:
    check_growth(None, TREE.head(), not_asked)
    check_growth(None, EMPTY, not_asked)


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_tree_that_grew_or_stayed_is_signed(one: int, other: int) -> None:
    old, new = sorted((one, other))
    check_growth(TREE.head(old), TREE.head(new), proving(TREE, new))


@given(st.integers(0, 299), st.integers(1, 300))
def test_a_tree_that_shrank_is_refused_and_the_way_out_is_named(one: int, other: int) -> None:
    new, old = sorted((one, other))
    if new == old:
        return
    with pytest.raises(SignerRefused, match=f"{old} entries were signed, and the database now has {new}") as refused:
        check_growth(TREE.head(old), TREE.head(new), not_asked)
    assert "indelible journal continue" in str(refused.value)
    assert ORIGIN in str(refused.value)
    assert isinstance(refused.value, JournalError)


@given(st.integers(1, 300), st.integers(1, 300), st.data())
def test_a_tree_with_another_past_is_refused_whoever_proves_it(one: int, other: int, data: st.DataObject) -> None:
    """So it is when an old backup was restored and went on: longer again, but not the same."""
    old, new = sorted((one, other))
    place = data.draw(st.integers(0, old - 1))
    changed = MemoryTree([*ENTRIES[:place], b"another", *ENTRIES[place + 1 : new]])
    for tree in (TREE, changed):
        with pytest.raises(SignerRefused, match=f"does not begin with the {old} entries that were signed") as refused:
            check_growth(TREE.head(old), changed.head(), proving(tree, new))
        assert "indelible verify" in str(refused.value)


def test_the_same_size_with_another_root_is_refused() -> None:
    with pytest.raises(SignerRefused, match="does not begin with"):
        check_growth(TREE.head(5), TreeHead(ORIGIN, 5, TREE.head(6).root), lambda _: [])


def test_a_proof_of_nothing_shows_nothing() -> None:
    with pytest.raises(SignerRefused, match="does not begin with"):
        check_growth(TREE.head(5), TREE.head(9), lambda _: [])
