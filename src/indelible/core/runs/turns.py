"""Which number a turn of a model has. A resumed run gets the recorded answers by these numbers. Pure."""

from __future__ import annotations


class Turns:
    """Numbers turns in the order in which they begin; a turn that got no answer gives its number back.

    Several turns may be under way at once. Then only the same question takes an unanswered number: a resumed run, in
    which no model raises, counts the turns as they began. Where no other turn is under way, the last number is taken
    again by whatever is asked next.
    """

    def __init__(self) -> None:
        self._last = 0
        self._under_way = 0
        self._unanswered: dict[int, bytes] = {}

    def begin(self, asked: bytes) -> int:
        """Return the number of the turn that begins now.

        Args:
            asked: What is asked, or a hash of it.
        """
        number = min((one for one, what in self._unanswered.items() if what == asked), default=None)
        if number is None and not self._under_way and self._last in self._unanswered:
            number = self._last
        if number is None:
            self._last = number = self._last + 1
        self._unanswered.pop(number, None)
        self._under_way += 1
        return number

    def end(self, number: int, asked: bytes, *, is_answered: bool) -> None:
        """Take note that a turn ended."""
        self._under_way -= 1
        if not is_answered:
            self._unanswered[number] = asked
