"""Promises of core.verifying.ended: a dictionary's answers in a tenth of its room."""

from __future__ import annotations

import random

from indelible.core.verifying import ended
from indelible.core.verifying.ended import Ended


def test_it_answers_as_a_dictionary_would() -> None:
    rng = random.Random(7)
    kept, told = Ended(), dict[int, int]()
    keys = [rng.randrange(-(2**63), 2**63) for _ in range(50_000)]
    for key in keys + rng.choices(keys, k=5_000):
        value = rng.randrange(2**32)
        kept.put(key, value)
        told[key] = value
    assert len(kept._older) >= 3, "this is about what was put long ago too"
    assert all(kept.get(key) == value for key, value in told.items())


def test_what_was_never_put_is_not_found_though_its_bit_is_set() -> None:
    kept = Ended()
    for key in range(ended._MOST_RECENT + 1):
        kept.put(key, key)
    assert kept.get(5) == 5
    for stranger in (5 + ended._BITS, ended._MOST_RECENT + ended._BITS, 2**62, -1):
        assert kept.get(stranger) is None
