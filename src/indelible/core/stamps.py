"""When and by whom something is asked of the core."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from indelible.core.effects.effect import Actor

MOST_VALUES = 7
"""How many values one command about an effect leads to at most."""
EDIT_VALUES = MOST_VALUES + 3
"""The same of an edit: it may take another call's place besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Is when and by whom a command was given, and the randomness its events may use."""

    at: datetime
    actor: Actor
    salts: bytes = field(repr=False)
