"""One key, one effect: at most one effect was ever entered under a key, where keys are shown. Pure."""

from __future__ import annotations

from indelible.core.verifying.ended import Ended
from indelible.core.verifying.findings import Caught

_OVER = frozenset({"denied", "canceled"})
_MARK = (1 << 32) - 1


class OneKey:
    """Remembers in little room which effect was entered under which key.

    Only the event that opens an effect commits to its key, so a key is kept until its effect is entered or over.
    """

    def __init__(self) -> None:
        self._entered = Ended()
        self._waiting: dict[str, int] = {}

    def take(self, effect: str, attempt: int, status: str, key: bytes | None) -> None:
        """Take in an event about an effect; raise `Caught` if its key has another effect that was entered."""
        if key is not None:
            self._waiting[effect] = hash(key)
        number = self._waiting.get(effect)
        if number is None:
            return
        if attempt:
            self._enter(effect, number)
        if attempt or status in _OVER:
            del self._waiting[effect]

    def _enter(self, effect: str, number: int) -> None:
        mark = hash(effect) & _MARK
        if self._entered.get(number) not in (None, mark):
            raise Caught("its key has another effect already, and both were entered: at most one may be")
        self._entered.put(number, mark)
