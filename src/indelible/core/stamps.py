"""When and by whom something is asked of the core."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from indelible.core.effects.effect import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Is when and by whom a command was given, and the randomness its events may use."""

    at: datetime
    actor: Actor
    salts: bytes = field(repr=False)
