"""Draws points fairly."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import islice, zip_longest
from typing import TypeVar

Item = TypeVar("Item")


def draw(found: Iterable[Item], many: int, seed: int, group_of: Callable[[Item], Hashable]) -> list[Item]:
    """Draws without repetition, from every group in turn: none is drowned by another's thousands."""
    rng = random.Random(seed)
    groups: dict[Hashable, list[Item]] = defaultdict(list)
    for item in found:
        groups[group_of(item)].append(item)
    for group in groups.values():
        rng.shuffle(group)
    in_turn = (item for turn in zip_longest(*groups.values()) for item in turn if item is not None)
    return list(islice(in_turn, many))
