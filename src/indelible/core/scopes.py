"""What a credential lets its holder do, and whose it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Scope = Literal["agent", "approver", "auditor", "admin"]
SCOPES: tuple[Scope, ...] = ("agent", "approver", "auditor", "admin")
SCOPES_OF_PEOPLE: tuple[Scope, ...] = ("approver", "auditor", "admin")


def scopes_among(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """Return these scopes, each once and in one order."""
    chosen = set(scopes)
    return tuple(scope for scope in SCOPES if scope in chosen)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Says what a server knows of a caller by the credential that was sent.

    Attributes:
        scopes: What the credential is for.
        principal: The person the caller acts for, as the credential says. Default: none.
    """

    scopes: frozenset[Scope]
    principal: str | None = None
