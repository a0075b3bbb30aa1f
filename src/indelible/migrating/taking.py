"""What taking over from another ledger came to: what became of each thing, what was verified, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

Progress = Callable[[int, int | None], None]
"""Is told how many are done, and of how many, where that is known."""


@dataclass(slots=True)
class Taking:
    """Counts while it is taken over. What is left out stays where it was, and is named with the reason."""

    became: Counter[str] = field(default_factory=Counter)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    verified: list[str] = field(default_factory=list)
    not_verified: list[str] = field(default_factory=list)
    not_as_written: list[str] = field(default_factory=list)
    """Names what somebody changed there since it was written; it is here as it was found."""

    def leave_out(self, name: str, why: str) -> None:
        """Notes that something could not be taken over, and why."""
        self.left_out.append((name, why))

    @property
    def is_sound(self) -> bool:
        """Is everything here now, and as it was written?"""
        return not self.left_out and not self.not_as_written


def untold(done: int, total: int | None) -> None:
    """Is the progress that nobody wants to see."""
