"""How a bug is planted, and what proves that it was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.chaos.oracle import Kind


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted bug, and the violations of which one must be seen: an accident of the planting proves nothing."""

    plant: Callable[[], None]
    proof: frozenset[Kind]


def put(owner: Any, name: str, broken: Any) -> None:
    """Puts something broken in the place of a part of the library."""
    setattr(owner, name, broken)
