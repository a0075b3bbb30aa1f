"""A random order of tests, for what one test leaves behind and another finds.

INDELIBLE_ORDER=SEED puts the files in an order that the seed draws, and the tests of each file likewise. The tests of a
file stay together, for they share servers that take seconds to start.
"""

from __future__ import annotations

from random import Random

import pytest


def shuffle(items: list[pytest.Item], seed: str) -> None:
    """Every worker of pytest-xdist draws the same order from the same seed."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(str(item.path), []).append(item)
    random = Random(seed)
    names = sorted(files)
    random.shuffle(names)
    items.clear()
    for name in names:
        random.shuffle(files[name])
        items += files[name]
