"""Names in policies, with stars in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from indelible.core.effects.calls import OWN_RECORDS

_TOOL = re.compile(r"[A-Za-z0-9_.:/*-]{1,200}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Glob:
    """Matches whole names: `*` stands for any characters, everything else for itself."""

    text: str
    _parts: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parts", tuple(self.text.split("*")))

    def matches(self, name: str) -> bool:
        """Is this one of the names it stands for?"""
        first, *rest = self._parts
        if not rest:
            return name == first
        if not name.startswith(first):
            return False
        at = len(first)
        for part in rest[:-1]:
            found = name.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        return len(name) - len(rest[-1]) >= at and name.endswith(rest[-1])

    def covers(self, other: Glob) -> bool:
        """Does it match all that the other matches? No character but its own `*` can stand for a `*`."""
        return self.matches(other.text)


def tool_glob(text: object) -> Glob:
    """Gives the glob for names of tools; raises ValueError for one that no tool can have."""
    if not isinstance(text, str) or not _TOOL.fullmatch(text):
        raise ValueError(
            f"{text!r} cannot be the name of a tool: use the characters A-Z a-z 0-9 _ . : / - and * for any of them"
        )
    if text in OWN_RECORDS:
        raise ValueError(f"{text!r} is a record of the ledger's own, which no policy judges; leave it out")
    return Glob(text)
