"""Remembers very many numbers in little room: which effects have ended, and how. Pure.

Most questions are about effects that were never seen, and a table of bits answers those. What was seen lies in sorted
arrays, twelve bytes to an effect, where a dictionary would take ninety.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

_BITS = 1 << 25
_MOST_RECENT = 1 << 14


class Ended:
    """Maps whole numbers of 64 bits to small ones; what is put again replaces what was there."""

    def __init__(self) -> None:
        self._maybe = bytearray(_BITS >> 3)
        self._recent: dict[int, int] = {}
        self._older: list[tuple[array[int], array[int]]] = []

    def put(self, key: int, value: int) -> None:
        """Remembers a number, from 0 to 2^32 − 1, for a key."""
        bit = key & _BITS - 1
        self._maybe[bit >> 3] |= 1 << (bit & 7)
        self._recent[key] = value
        if len(self._recent) >= _MOST_RECENT:
            keys = sorted(self._recent)
            self._older.append((array("q", keys), array("I", [self._recent[key] for key in keys])))
            self._recent = {}

    def get(self, key: int) -> int | None:
        """Gives what was put last for this key, or None."""
        bit = key & _BITS - 1
        if not self._maybe[bit >> 3] >> (bit & 7) & 1:
            return None
        found = self._recent.get(key)
        if found is not None:
            return found
        for keys, values in reversed(self._older):
            place = bisect_left(keys, key)
            if place < len(keys) and keys[place] == key:
                return values[place]
        return None
